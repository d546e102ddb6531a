"""Changing classes: making and renaming them, who is in them, and moving one up at the end of a school year.

A class is one group of people through the years. Moving it up changes its year, grade and name in place, so that its
quizzes and results stay with it, and who does not come along loses access at once.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound
from deepedu.school.audit import record
from deepedu.school.classes import POLICIES, Policy, create_class, enrol
from deepedu.school.directory import named, person_of
from deepedu.school.people import BadField
from deepedu.store import Database
from deepedu.store.tables import ClassMember, Person, SchoolClass

GRADES = range(1, 13)
LONGEST_NAME = 64
MOST_AT_ONCE = 500


@dataclass(frozen=True)
class ListedClass:
    """A line of the list of classes."""

    id: int
    name: str
    school_year: str
    grade: int | None
    policy: Policy
    students: int
    teachers: int


@dataclass(frozen=True)
class ClassForm:
    """What a form tells of a class, as it was typed."""

    name: str
    school_year: str
    grade: str = ""
    policy: str = "tutor"


@dataclass(frozen=True)
class Enrolled:
    """What became of a list of usernames and codes: how many joined, and which nobody has."""

    added: int
    unknown: tuple[str, ...]


def list_classes(database: Database, school_year: str = "") -> list[ListedClass]:
    """Classes with their numbers of members in use, newest year first; of one year, or of all."""

    def count(role: str) -> sa.ScalarSelect[int]:
        return (
            sa.select(sa.func.count())
            .select_from(ClassMember)
            .join(Person, Person.id == ClassMember.person_id)
            .where(ClassMember.class_id == SchoolClass.id, Person.role == role, Person.is_active)
            .scalar_subquery()
        )

    wanted = sa.select(SchoolClass, count("student"), count("teacher"))
    wanted = wanted.order_by(SchoolClass.school_year.desc(), SchoolClass.grade.nulls_first(), SchoolClass.name)
    if school_year:
        wanted = wanted.where(SchoolClass.school_year == school_year)
    with database.read() as session:
        return [
            ListedClass(row.id, row.name, row.school_year, row.grade, row.policy, students, teachers)  # pyright: ignore[reportArgumentType]
            for row, students, teachers in session.execute(wanted)
        ]


def add_class(database: Database, actor: str, form: ClassForm) -> int:
    """Makes a class; returns its id.

    Raises:
        BadField: something filled in cannot be taken.
    """
    name, school_year, grade, policy = _checked(form)
    with database.write() as session:
        _check_free(session, name, school_year, None)
        made = create_class(session, name, school_year, grade)
        made.policy = policy
        record(session, actor, "class.create", f"class:{made.id}")
        return made.id


def change_class(database: Database, actor: str, class_id: int, form: ClassForm) -> bool:
    """Changes a class; returns whether anything changed.

    Raises:
        NotFound: no such class.
        BadField: something filled in cannot be taken.
    """
    name, school_year, grade, policy = _checked(form)
    values: dict[str, Any] = {"name": name, "school_year": school_year, "grade": grade, "policy": policy}
    with database.write() as session:
        row = _class(session, class_id)
        _check_free(session, name, school_year, class_id)
        changed = [column for column, value in values.items() if getattr(row, column) != value]
        for column in changed:
            setattr(row, column, values[column])
        if changed:
            told = [f"policy={policy}" if column == "policy" else column for column in changed]
            record(session, actor, "class.change", f"class:{class_id}", ", ".join(told))
        return bool(changed)


def add_members(database: Database, actor: str, class_id: int, who: str) -> Enrolled:
    """Adds pupils and teachers to a class.

    Args:
        who: usernames or codes, between them commas, semicolons or ends of lines.

    Raises:
        NotFound: no such class.
        BadField: none is named, or too many.
    """
    keys = list(dict.fromkeys(key for part in re.split(r"[,;\t\r\n]+", who) if (key := part.strip())))
    if not keys:
        raise BadField("who", "Chưa ghi ai: hãy ghi tên đăng nhập hoặc mã số, mỗi dòng một người.")
    if len(keys) > MOST_AT_ONCE:
        raise BadField("who", f"Mỗi lần thêm nhiều nhất {MOST_AT_ONCE} người, nhận được {len(keys)}: hãy chia nhỏ.")
    unknown: list[str] = []
    added = 0
    with database.write() as session:
        _class(session, class_id)
        for key in keys:
            person = named(session, key)
            if person is None or person.role not in ("student", "teacher"):
                unknown.append(key[:64])
            elif session.get(ClassMember, (class_id, person.id)) is None:
                enrol(session, class_id, person.id)
                record(session, actor, "class.join", f"class:{class_id}", person.public_id)
                added += 1
    return Enrolled(added, tuple(unknown))


def remove_member(database: Database, actor: str, class_id: int, public_id: str) -> None:
    """Takes somebody out of a class.

    Raises:
        NotFound: no such class or person, or not a member.
    """
    with database.write() as session:
        _class(session, class_id)
        _leave(session, actor, class_id, person_of(session, public_id))


def move_up(
    database: Database, actor: str, class_id: int, form: ClassForm, staying: Collection[str]
) -> tuple[int, int]:
    """Moves a class to the next school year.

    Args:
        form: its name, year and grade from then on.
        staying: public ids of who comes along; everybody else leaves the class.

    Returns:
        How many came along, and how many left.

    Raises:
        NotFound: no such class.
        BadField: something filled in cannot be taken.
    """
    name, school_year, grade, policy = _checked(form)
    with database.write() as session:
        row = _class(session, class_id)
        if school_year <= row.school_year:
            raise BadField("school_year", f"Năm học mới phải sau {row.school_year}, nhận được {school_year}.")
        _check_free(session, name, school_year, class_id)
        people = session.scalars(
            sa.select(Person)
            .join(ClassMember, ClassMember.person_id == Person.id)
            .where(ClassMember.class_id == class_id)
        ).all()
        leaving = [person for person in people if person.public_id not in staying]
        for person in leaving:
            _leave(session, actor, class_id, person)
        row.name, row.school_year, row.grade, row.policy = name, school_year, grade, policy
        record(session, actor, "class.move_up", f"class:{class_id}", school_year)
        return len(people) - len(leaving), len(leaving)


def next_year(form: ClassForm) -> ClassForm:
    """What a class is called a year later: 6A of 2026-2027 becomes 7A of 2027-2028."""
    first = int(form.school_year[:4]) + 1
    grade = int(form.grade) + 1 if form.grade.isdecimal() and int(form.grade) + 1 in GRADES else None
    name = form.name
    if grade is not None and re.match(rf"{form.grade}(?!\d)", name):
        name = f"{grade}{name[len(form.grade) :]}"
    return ClassForm(name, f"{first}-{first + 1}", str(grade or form.grade), form.policy)


def is_school_year(text: str) -> bool:
    """Whether a text names a school year as it is kept: two years in a row, "2026-2027"."""
    match = re.fullmatch(r"(20\d\d)-(20\d\d)", text)
    return match is not None and int(match[2]) == int(match[1]) + 1


def _checked(form: ClassForm) -> tuple[str, str, int | None, Policy]:
    name = " ".join(form.name.split())
    if not name:
        raise BadField("name", "Chưa có tên lớp: hãy ghi tên lớp, ví dụ 6A.")
    if len(name) > LONGEST_NAME:
        raise BadField("name", f"Tên lớp dài nhất {LONGEST_NAME} ký tự, nhận được {len(name)}: hãy rút gọn.")
    school_year = re.sub(r"\s*[-–—/]\s*", "-", form.school_year.strip())
    if not is_school_year(school_year):
        given = form.school_year.strip()[:32]
        raise BadField("school_year", f"Năm học cần có dạng 2026-2027, nhận được {given!r}: hãy sửa lại.")
    grade = form.grade.strip()
    if grade and not (grade.isdecimal() and int(grade) in GRADES):
        raise BadField("grade", f"Khối lớp là số từ 1 đến 12, nhận được {grade[:32]!r}: hãy sửa lại.")
    policy = form.policy
    if policy not in POLICIES:
        raise BadField("policy", f"Cách gia sư giúp là một trong {', '.join(POLICIES)}, nhận được {policy[:32]!r}.")
    return name, school_year, int(grade) if grade else None, policy


def _check_free(session: Session, name: str, school_year: str, class_id: int | None) -> None:
    taken = sa.select(SchoolClass.id).where(
        SchoolClass.name == name, SchoolClass.school_year == school_year, SchoolClass.id != (class_id or 0)
    )
    if session.scalar(taken) is not None:
        raise BadField("name", f"Năm học {school_year} đã có lớp {name!r}: hãy đặt tên khác.")


def _class(session: Session, class_id: int) -> SchoolClass:
    row = session.get(SchoolClass, class_id)
    if row is None:
        raise NotFound(f"Không có lớp số {class_id}.")
    return row


def _leave(session: Session, actor: str, class_id: int, person: Person) -> None:
    member = session.get(ClassMember, (class_id, person.id))
    if member is None:
        raise NotFound("Người này không ở trong lớp.")
    session.delete(member)
    record(session, actor, "class.leave", f"class:{class_id}", person.public_id)
