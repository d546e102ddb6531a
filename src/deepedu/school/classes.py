"""Classes, who teaches and who learns in them, and whose guardians see what. All questions of access end here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, NotFound
from deepedu.school.accounts import Account, account_of
from deepedu.school.directory import name_order
from deepedu.store import Database
from deepedu.store.tables import ClassMember, Consent, Guardianship, Person, SchoolClass, now

Policy = Literal["tutor", "explain", "exam_off"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


@dataclass(frozen=True)
class Classroom:
    """A class as the rest of the program sees it."""

    id: int
    name: str
    school_year: str
    grade: int | None
    policy: Policy


def school_year_of(day: date) -> str:
    """The school year that a day lies in; a new one begins in August."""
    first = day.year if day.month >= 8 else day.year - 1
    return f"{first}-{first + 1}"


def create_class(session: Session, name: str, school_year: str, grade: int | None = None) -> SchoolClass:
    """Adds a class; part of the session's transaction.

    Raises:
        BadRequest: no name, or there is one of that name in that year.
    """
    name = " ".join(name.split())
    if not name:
        raise BadRequest("Chưa có tên lớp: hãy ghi tên lớp, ví dụ 6A.")
    taken = sa.select(SchoolClass.id).where(SchoolClass.name == name, SchoolClass.school_year == school_year)
    if session.scalar(taken) is not None:
        raise BadRequest(f"Năm học {school_year} đã có lớp {name!r}: hãy dùng lớp đó, hoặc đặt tên khác.")
    made = SchoolClass(name=name, school_year=school_year, grade=grade)
    session.add(made)
    session.flush()
    return made


def enrol(session: Session, class_id: int, person_id: int) -> None:
    """Makes a pupil or teacher a member of a class; who is one already stays one."""
    if session.get(ClassMember, (class_id, person_id)) is None:
        session.add(ClassMember(class_id=class_id, person_id=person_id))
        session.flush()


def grant(session: Session, guardian_id: int, student_id: int) -> None:
    """Lets a guardian see a pupil's progress."""
    row = session.get(Guardianship, (guardian_id, student_id))
    if row is None:
        session.add(Guardianship(guardian_id=guardian_id, student_id=student_id))
    elif row.revoked_at is not None:
        row.granted_at, row.revoked_at = now(), None
    session.flush()


def revoke(session: Session, guardian_id: int, student_id: int) -> None:
    """Takes a guardian's access away, from the next request on.

    Raises:
        NotFound: there was none.
    """
    row = session.get(Guardianship, (guardian_id, student_id))
    if row is None or row.revoked_at is not None:
        raise NotFound("Không có quyền xem nào như vậy đang hiệu lực.")
    row.revoked_at = now()


def classes_of(database: Database, account: Account) -> list[Classroom]:
    """The classes that a pupil or teacher is a member of; for an admin all. By year, newest first, then by name."""
    wanted = sa.select(SchoolClass).order_by(SchoolClass.school_year.desc(), SchoolClass.name)
    if account.role != "admin":
        wanted = wanted.join(ClassMember, ClassMember.class_id == SchoolClass.id).where(
            ClassMember.person_id == account.id
        )
    with database.read() as session:
        return [_classroom(row) for row in session.scalars(wanted)]


def class_for(database: Database, account: Account, class_id: int) -> Classroom:
    """A class, if it is one of this person's.

    Raises:
        NotFound: there is none, or it is not this person's: the two are not told apart.
    """
    found = next((each for each in classes_of(database, account) if each.id == class_id), None)
    if found is None:
        raise NotFound(f"Không có lớp số {class_id} trong các lớp của bạn.")
    return found


def members(database: Database, class_id: int, role: Literal["student", "teacher"]) -> list[Account]:
    """The pupils or teachers of a class, by given name as Vietnamese lists are."""
    with database.read() as session:
        rows = session.scalars(
            sa.select(Person)
            .join(ClassMember, ClassMember.person_id == Person.id)
            .where(ClassMember.class_id == class_id, Person.role == role, Person.is_active)
        ).all()
    return sorted((account_of(row) for row in rows), key=lambda each: name_order(each.full_name))


def student_for(database: Database, viewer: Account, public_id: str) -> Account:
    """A pupil, if this person may see how the pupil learns: the pupil, teachers of a class, guardians, admins.

    Raises:
        NotFound: there is none, or this person may not: the two are not told apart.
    """
    with database.read() as session:
        person = session.scalar(
            sa.select(Person).where(Person.public_id == public_id, Person.role == "student", Person.is_active)
        )
        if person is None or not _may_see(session, viewer, person.id):
            raise NotFound(f"Không có học sinh {public_id[:32]!r} trong danh sách của bạn.")
        return account_of(person)


def children_of(database: Database, guardian: Account) -> list[Account]:
    """The pupils that a guardian may see."""
    with database.read() as session:
        rows = session.scalars(
            sa.select(Person)
            .join(Guardianship, Guardianship.student_id == Person.id)
            .where(Guardianship.guardian_id == guardian.id, Guardianship.revoked_at.is_(None), Person.is_active)
        ).all()
    return sorted((account_of(row) for row in rows), key=lambda each: name_order(each.full_name))


def has_consent(database: Database, student: Account) -> bool:
    """Whether a guardian's consent for a pupil is in force."""
    in_force = sa.select(Consent.id).where(Consent.student_id == student.id, Consent.withdrawn_at.is_(None))
    with database.read() as session:
        return session.scalar(in_force.limit(1)) is not None


def strictest_policy(classrooms: Sequence[Classroom]) -> Policy:
    """The policy for a pupil of several classes: no help in an exam goes before hints, hints before explanations."""
    found = {classroom.policy for classroom in classrooms}
    if "exam_off" in found:
        return "exam_off"
    return "explain" if found == {"explain"} else "tutor"


def names_in_classes(database: Database, account: Account) -> tuple[str, ...]:
    """Full names of everybody in this person's classes, for masking them in what is typed."""
    mine = sa.select(ClassMember.class_id).where(ClassMember.person_id == account.id)
    with database.read() as session:
        return tuple(
            session.scalars(
                sa.select(Person.full_name)
                .join(ClassMember, ClassMember.person_id == Person.id)
                .where(ClassMember.class_id.in_(mine))
                .distinct()
            )
        )


def _may_see(session: Session, viewer: Account, student_id: int) -> bool:
    match viewer.role:
        case "admin":
            return True
        case "student":
            return viewer.id == student_id
        case "guardian":
            row = session.get(Guardianship, (viewer.id, student_id))
            return row is not None and row.revoked_at is None
        case "teacher":
            mine = sa.select(ClassMember.class_id).where(ClassMember.person_id == viewer.id)
            shared = sa.select(ClassMember.class_id).where(
                ClassMember.person_id == student_id, ClassMember.class_id.in_(mine)
            )
            return session.scalar(shared.limit(1)) is not None


def _classroom(row: SchoolClass) -> Classroom:
    return Classroom(row.id, row.name, row.school_year, row.grade, row.policy)  # pyright: ignore[reportArgumentType]
