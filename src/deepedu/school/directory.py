"""Finding people: lists with search, filters and pages, and everything that an admin sees of one person."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeVarTuple, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound
from deepedu.base.vietnamese import fold
from deepedu.school.accounts import ROLES, Account, account_of
from deepedu.store import Database
from deepedu.store.tables import ClassMember, Consent, Guardianship, LoginSession, Person, SchoolClass

State = Literal["active", "locked", "unused", "no_consent"]
STATES: tuple[State, ...] = get_args(State)
PER_PAGE = 50
_Columns = TypeVarTuple("_Columns")


@dataclass(frozen=True)
class ListedPerson:
    """A line of the list. ``is_unused``: still with the initial password. ``classes``: names, newest year first."""

    account: Account
    code: str | None
    is_active: bool
    is_unused: bool
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PeoplePage:
    """One page of a search; ``page`` counts from 1."""

    people: tuple[ListedPerson, ...]
    total: int
    page: int
    pages: int


@dataclass(frozen=True)
class PersonDetail:
    """Everything an admin sees of a person.

    ``tied``: a pupil's guardians, or a guardian's children. ``is_linked``: signs in elsewhere, by OpenID Connect.
    """

    listed: ListedPerson
    email: str | None
    phone: str | None
    birth_date: str | None
    created_at: datetime
    has_password: bool
    is_linked: bool
    browsers: int
    classes: tuple[tuple[int, str], ...]
    tied: tuple[Account, ...]
    has_consent: bool


def find_people(
    database: Database,
    *,
    words: str = "",
    role: str = "",
    class_id: int | None = None,
    state: str = "",
    page: int = 1,
) -> PeoplePage:
    """People by given name, as Vietnamese lists are.

    Args:
        words: all of them must begin a word of the name, or stand in the username or the code; accents and case are
            optional.
        role, state: one of ``ROLES`` and ``STATES``; anything else does not filter.
        page: beyond the last one: the last one.
    """
    wanted = sa.select(Person.id, Person.full_name, Person.username, Person.code)
    wanted = filtered(wanted, role=role, class_id=class_id, state=state)
    asked = fold(words).split()
    with database.read() as session:
        rows = [row for row in session.execute(wanted) if _matches(asked, *row[1:])]
        rows.sort(key=lambda row: name_order(row[1]))
        pages = max(1, -(-len(rows) // PER_PAGE))
        page = min(max(1, page), pages)
        ids = [row[0] for row in rows[(page - 1) * PER_PAGE : page * PER_PAGE]]
        return PeoplePage(_listed(session, ids), len(rows), page, pages)


def person_detail(database: Database, public_id: str) -> PersonDetail:
    """A person.

    Raises:
        NotFound: there is none.
    """
    with database.read() as session:
        person = person_of(session, public_id)
        classes = session.execute(
            sa.select(SchoolClass.id, SchoolClass.name, SchoolClass.school_year)
            .join(ClassMember, ClassMember.class_id == SchoolClass.id)
            .where(ClassMember.person_id == person.id)
            .order_by(SchoolClass.school_year.desc(), SchoolClass.name)
        )
        return PersonDetail(
            listed=_listed(session, [person.id])[0],
            email=person.email,
            phone=person.phone,
            birth_date=person.birth_date,
            created_at=person.created_at,
            has_password=person.password_hash is not None,
            is_linked=person.oidc_subject is not None,
            browsers=session.scalar(sa.select(sa.func.count()).where(LoginSession.person_id == person.id)) or 0,
            classes=tuple((row.id, f"{row.name} ({row.school_year})") for row in classes),
            tied=_tied(session, person),
            has_consent=session.scalar(_consents().where(Consent.student_id == person.id).limit(1)) is not None,
        )


def count_unused(database: Database, class_id: int) -> int:
    """How many members of a class never changed their initial password."""
    wanted = filtered(sa.select(Person.id), role="", class_id=class_id, state="unused")
    with database.read() as session:
        return len(session.scalars(wanted).all())


def person_of(session: Session, public_id: str) -> Person:
    """The row of a person.

    Raises:
        NotFound: there is none.
    """
    person = session.scalar(sa.select(Person).where(Person.public_id == public_id))
    if person is None:
        raise NotFound(f"Không có người dùng {public_id[:32]!r}.")
    return person


def named(session: Session, who: str) -> Person | None:
    """The person of a username or of a code, as somebody types it."""
    who = unicodedata.normalize("NFC", who).strip()
    found = session.scalar(sa.select(Person).where(Person.username == who.casefold()))
    return found or session.scalar(sa.select(Person).where(Person.code == who))


def name_order(full_name: str) -> tuple[str, str]:
    """Sorts by given name, which stands last."""
    folded = fold(full_name)
    return folded.rpartition(" ")[2], folded


def filtered(wanted: sa.Select[*_Columns], *, role: str, class_id: int | None, state: str) -> sa.Select[*_Columns]:
    """A choice of people narrowed down; an empty or unknown ``role`` or ``state`` does not."""
    if role in ROLES:
        wanted = wanted.where(Person.role == role)
    if class_id is not None:
        wanted = wanted.join(ClassMember, ClassMember.person_id == Person.id).where(ClassMember.class_id == class_id)
    match state:
        case "active":
            return wanted.where(Person.is_active)
        case "locked":
            return wanted.where(~Person.is_active)
        case "unused":
            return wanted.where(*_is_unused())
        case "no_consent":
            return wanted.where(
                Person.role == "student", Person.is_active, ~_consents().where(Consent.student_id == Person.id).exists()
            )
        case _:
            return wanted


def _is_unused() -> tuple[sa.ColumnElement[bool], ...]:
    return Person.is_active.is_(True), Person.must_change_password.is_(True), Person.oidc_subject.is_(None)


def _consents() -> sa.Select[Any]:
    return sa.select(Consent.id).where(Consent.withdrawn_at.is_(None))


def _matches(asked: Sequence[str], full_name: str, username: str, code: str | None) -> bool:
    if not asked:
        return True
    name, keys = f" {fold(full_name)}", fold(f"{username} {code or ''}")
    return all(f" {word}" in name or word in keys for word in asked)


def _listed(session: Session, ids: Sequence[int]) -> tuple[ListedPerson, ...]:
    """In the order of ``ids``."""
    people = {person.id: person for person in session.scalars(sa.select(Person).where(Person.id.in_(ids)))}
    found = {
        each.id: ListedPerson(
            account_of(each), each.code, each.is_active, each.must_change_password and each.oidc_subject is None
        )
        for each in people.values()
    }
    rows = session.execute(
        sa.select(ClassMember.person_id, SchoolClass.name)
        .join(SchoolClass, SchoolClass.id == ClassMember.class_id)
        .where(ClassMember.person_id.in_(ids))
        .order_by(SchoolClass.school_year.desc(), SchoolClass.name)
    )
    for person_id, name in rows:
        found[person_id] = replace(found[person_id], classes=(*found[person_id].classes, name))
    return tuple(found[each] for each in ids)


def _tied(session: Session, person: Person) -> tuple[Account, ...]:
    mine, other = Guardianship.student_id, Guardianship.guardian_id
    if person.role == "guardian":
        mine, other = other, mine
    rows = session.scalars(
        sa.select(Person)
        .join(Guardianship, other == Person.id)
        .where(mine == person.id, Guardianship.revoked_at.is_(None))
    )
    return tuple(sorted((account_of(row) for row in rows), key=lambda each: name_order(each.full_name)))
