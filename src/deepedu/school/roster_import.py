"""Importing a roster: what it would do to the people who are there, and doing all of it in one transaction, or nothing.

An import is of one school year. Whoever is not in the roster stays as they are, and so does what a row leaves open.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import StoreBusy
from deepedu.school.accounts import clean_username, new_password, new_person
from deepedu.school.audit import record
from deepedu.school.classes import create_class, enrol, grant
from deepedu.school.people import hash_initial
from deepedu.school.roster import Roster, RosterRow, Teaching
from deepedu.school.roster_plan import (
    FieldChange,
    ImportPlan,
    InitialPassword,
    KnownPerson,
    Match,
    plan,
    suggest_username,
)
from deepedu.store import Database
from deepedu.store.tables import ClassMember, Guardianship, Person, SchoolClass


class SchoolChanged(StoreBusy):
    """Since the plan was shown, somebody changed the school so that the same roster would do something else."""

    code = "school_changed"


@dataclass(frozen=True)
class ImportPreview:
    """What an import would do. ``digest`` stands for all of it, so that only what was shown is carried out."""

    roster: Roster
    school_year: str
    plan: ImportPlan
    new_classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Differs when the import would do something else."""
        return hashlib.sha256(repr((self.school_year, self.plan, self.new_classes)).encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        """Whether carrying it out would write anything."""
        return bool(self.plan.create or self.plan.update)


@dataclass(frozen=True)
class Imported:
    """A finished import: what was done, and what the new people sign in with."""

    preview: ImportPreview
    passwords: tuple[InitialPassword, ...]


def preview_import(database: Database, roster: Roster, school_year: str) -> ImportPreview:
    """What an import would do now. Writes nothing."""
    with database.read() as session:
        return _preview(session, _kept_part(roster), school_year)


def import_roster(database: Database, actor: str, shown: ImportPreview) -> Imported:
    """Carries out what was shown.

    Raises:
        SchoolChanged: it would do something else by now; nothing was written.
    """
    # Before the transaction: others wait while it is open.
    passwords = [new_password() for _ in shown.plan.create]
    hashes = [hash_initial(password) for password in passwords]
    with database.write() as session:
        present = _preview(session, shown.roster, shown.school_year)
        if present.digest != shown.digest:
            raise SchoolChanged("Danh sách người dùng vừa thay đổi: hãy xem lại bản xem trước rồi xác nhận lần nữa.")
        work = _Import(session, actor, present)
        usernames = work.run(hashes)
    classes = _class_of_code(present)
    return Imported(
        present,
        tuple(
            InitialPassword(row.full_name, _class_shown(row, classes), username, password)
            for row, username, password in zip(present.plan.create, usernames, passwords, strict=True)
        ),
    )


class _Import:
    """One import within one transaction."""

    def __init__(self, session: Session, actor: str, preview: ImportPreview) -> None:
        self._session, self._actor, self._preview = session, actor, preview
        self._classes = _class_ids(session, preview.school_year)
        people = session.execute(
            sa.select(Person.username, Person.code, Person.id, Person.public_id, Person.role)
        ).all()
        self._taken = {row.username for row in people} | {row.username for row in preview.roster.rows if row.username}
        self._pupils = {
            row.code.casefold(): (row.id, row.public_id) for row in people if row.code and row.role == "student"
        }

    def run(self, hashes: Iterable[str]) -> list[str]:
        """Does everything; returns the usernames of the new people, in their order."""
        made, updates = self._preview.plan.create, self._preview.plan.update
        for name in self._preview.new_classes:
            created = create_class(self._session, name, self._preview.school_year, _grade_of(name))
            self._classes[name.casefold()] = created.id
            self._record("class.create", f"class:{created.id}")
        people = [self._new_person(row, hashed) for row, hashed in zip(made, hashes, strict=True)]
        # All at once: a flush for each of thousands would take minutes.
        self._session.add_all(people)
        self._session.flush()
        for row, person in zip(made, people, strict=True):
            self._note_code(person)
            self._session.add_all(
                ClassMember(class_id=self._classes[name.casefold()], person_id=person.id) for name in _class_names(row)
            )
        for match in updates:
            self._update(match)
        # Guardians after pupils: a pupil may be new, or have a new code.
        for row, person in zip(made, people, strict=True):
            children = [self._pupils[code.casefold()] for code in row.guardian_of]
            self._session.add_all(Guardianship(guardian_id=person.id, student_id=child) for child, _ in children)
            self._record("person.create", person.public_id, " ".join((row.role, *(named for _, named in children))))
        for match in updates:
            self._tie(self._session.get_one(Person, match.person.id), _after(match.changes, "guardian_of"))
        if self._preview.changes_anything:
            told = f"{len(people)} created, {len(updates)} changed"
            self._record("import", f"school_year:{self._preview.school_year}", told)
        return [person.username for person in people]

    def _new_person(self, row: RosterRow, hashed: str) -> Person:
        username = row.username
        if not username:
            username = suggest_username(row.full_name, self._taken)
            self._taken.add(username)
        # The plan has seen to it that the username is free.
        return new_person(
            row.role,
            clean_username(username),
            row.full_name,
            hashed,
            code=row.code or None,
            birth_date=row.birth_date.isoformat() if row.birth_date else None,
            email=row.email or None,
            phone=row.phone or None,
        )

    def _note_code(self, person: Person) -> None:
        if person.role == "student" and person.code:
            self._pupils[person.code.casefold()] = (person.id, person.public_id)

    def _update(self, match: Match) -> None:
        person = self._session.get_one(Person, match.person.id)
        for name, before, after in match.changes:
            match name:
                case "class_name":
                    self._move(person, before, after)
                case "teaches":
                    for teaching in after:
                        self._join(person, teaching.class_name)
                case "guardian_of":
                    pass
                case "birth_date":
                    person.birth_date = after.isoformat()
                case _:
                    setattr(person, name, after)
        self._session.flush()
        self._note_code(person)
        self._record("person.change", person.public_id, ", ".join(change.field for change in match.changes))

    def _move(self, person: Person, before: str, after: str) -> None:
        class_id = self._classes.get(before.casefold())
        member = self._session.get(ClassMember, (class_id, person.id)) if class_id is not None else None
        if member is not None:
            self._session.delete(member)
            self._record("class.leave", f"class:{class_id}", person.public_id)
        self._join(person, after)

    def _join(self, person: Person, name: str) -> None:
        class_id = self._classes[name.casefold()]
        if self._session.get(ClassMember, (class_id, person.id)) is None:
            enrol(self._session, class_id, person.id)
            self._record("class.join", f"class:{class_id}", person.public_id)

    def _tie(self, guardian: Person, codes: Iterable[str]) -> None:
        for code in codes:
            student_id, public_id = self._pupils[code.casefold()]
            row = self._session.get(Guardianship, (guardian.id, student_id))
            if row is None or row.revoked_at is not None:
                grant(self._session, guardian.id, student_id)
                self._record("guardian.grant", guardian.public_id, public_id)

    def _record(self, action: str, subject: str, detail: str = "") -> None:
        record(self._session, self._actor, action, subject, detail)


def _preview(session: Session, roster: Roster, school_year: str) -> ImportPreview:
    existing = _class_ids(session, school_year)
    made = plan(roster, _known_people(session, school_year))
    wanted = [name for row in made.create for name in _class_names(row)]
    for match in made.update:
        wanted += [_after(match.changes, "class_name")] if _after(match.changes, "class_name") else []
        wanted += [teaching.class_name for teaching in _after(match.changes, "teaches")]
    new = {name.casefold(): name for name in reversed(wanted) if name.casefold() not in existing}
    return ImportPreview(roster, school_year, made, tuple(sorted(new.values(), key=_natural)))


def _kept_part(roster: Roster) -> Roster:
    """A roster without what there is no place for: which subject a teacher teaches in a class."""
    rows = [
        replace(
            row, teaches=tuple(dict.fromkeys(Teaching(each.class_name, "") for each in row.teaches if each.class_name))
        )
        for row in roster.rows
    ]
    return replace(roster, rows=tuple(rows))


def _known_people(session: Session, school_year: str) -> list[KnownPerson]:
    classes: dict[int, list[str]] = defaultdict(list)
    # A class with a grade goes before a club, which a pupil is a member of besides.
    members = (
        sa.select(ClassMember.person_id, SchoolClass.name)
        .join(SchoolClass, SchoolClass.id == ClassMember.class_id)
        .where(SchoolClass.school_year == school_year)
        .order_by(SchoolClass.grade.is_(None), SchoolClass.name)
    )
    for person_id, name in session.execute(members):
        classes[person_id].append(name)
    children: dict[int, list[str]] = defaultdict(list)
    ties = (
        sa.select(Guardianship.guardian_id, Person.code)
        .join(Person, Person.id == Guardianship.student_id)
        .where(Guardianship.revoked_at.is_(None), Person.code.is_not(None))
        .order_by(Person.code)
    )
    for guardian_id, code in session.execute(ties):
        children[guardian_id].append(str(code))
    people = session.scalars(sa.select(Person).order_by(Person.id))
    return [_known(person, classes.get(person.id, []), children.get(person.id, [])) for person in people]


def _known(person: Person, classes: list[str], children: list[str]) -> KnownPerson:
    is_pupil = person.role == "student"
    return KnownPerson(
        id=person.id,
        role=person.role,
        full_name=person.full_name,
        username=person.username,
        code=person.code or "",
        class_name=classes[0] if is_pupil and classes else "",
        birth_date=date.fromisoformat(person.birth_date) if person.birth_date else None,
        email=person.email or "",
        phone=person.phone or "",
        guardian_of=tuple(children),
        teaches=() if is_pupil else tuple(Teaching(name, "") for name in classes),
    )


def _class_ids(session: Session, school_year: str) -> dict[str, int]:
    rows = session.execute(sa.select(SchoolClass.name, SchoolClass.id).where(SchoolClass.school_year == school_year))
    return {name.casefold(): class_id for name, class_id in rows}


def _class_names(row: RosterRow) -> list[str]:
    names = [row.class_name, *(teaching.class_name for teaching in row.teaches)]
    return [name for name in dict.fromkeys(names) if name]


def _after(changes: Iterable[FieldChange], name: str) -> Any:
    """What a field changes to; nothing where it does not change."""
    return next((change.after for change in changes if change.field == name), ())


def _class_of_code(preview: ImportPreview) -> Mapping[str, str]:
    rows = [*preview.plan.create, *(match.row for match in (*preview.plan.update, *preview.plan.unchanged))]
    return {row.code.casefold(): row.class_name for row in rows if row.code and row.class_name}


def _class_shown(row: RosterRow, classes: Mapping[str, str]) -> str:
    """The class that a password is handed out in: a guardian's is the child's."""
    names = _class_names(row) or [classes.get(code.casefold(), "") for code in row.guardian_of]
    return names[0] if names else ""


def _grade_of(class_name: str) -> int | None:
    match = re.match(r"(1[0-2]|[1-9])(?!\d)", class_name)
    return int(match[1]) if match else None


def _natural(name: str) -> tuple[int, str]:
    return _grade_of(name) or 99, name
