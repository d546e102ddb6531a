"""Changing the people of the school. Every change writes its audit entry in its transaction.

Initial passwords are random (49 bits) and changed at the first sign-in, so a cheaper Argon2id is enough for them: a
school of 2,000 is hashed in seconds rather than a minute. A password that a person chooses is hashed by ``accounts``.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from argon2 import PasswordHasher
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, NotFound
from deepedu.school.accounts import ROLES, Account, Role, account_of, clean_username, create_person, new_password
from deepedu.school.audit import record
from deepedu.school.classes import enrol, grant, revoke
from deepedu.school.directory import count_unused, filtered, name_order, named, person_of
from deepedu.school.directory import find_people as find_people
from deepedu.school.directory import person_detail as person_detail
from deepedu.store import Database
from deepedu.store.tables import LoginSession, Person, SchoolClass

LONGEST_NAME = 200
LONGEST_CODE = 64
# Roles that an admin may exchange: a pupil's traces hang on the role, and a guardian's rights.
STAFF: tuple[Role, ...] = ("teacher", "admin")

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PHONE = re.compile(r"[\d +().-]{6,32}")
_hasher = PasswordHasher(time_cost=1, memory_cost=2 * 1024, parallelism=1)


class BadField(BadRequest):
    """What was filled in cannot be taken; ``field`` names where, so that a form tells it there."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Slip:
    """An account with its new initial password: what is handed over on paper."""

    account: Account
    password: str


@dataclass(frozen=True)
class Details:
    """What a form tells of a person; empty texts are none."""

    full_name: str
    username: str
    code: str = ""
    email: str = ""
    phone: str = ""


def has_admin(database: Database) -> bool:
    """Whether somebody can administer the school."""
    with database.read() as session:
        return session.scalar(_other_admins(0).limit(1)) is not None


def add_person(database: Database, actor: str, role: str, details: Details, *, class_ids: Sequence[int] = ()) -> Slip:
    """Makes an account by hand.

    Raises:
        BadField: something filled in cannot be taken.
        NotFound: no such class.
    """
    if role not in ROLES:
        raise BadField("role", f"Vai trò cần là một trong {', '.join(ROLES)}, nhận được {role[:32]!r}.")
    password = new_password()
    hashed = hash_initial(password)
    with database.write() as session:
        person = _create(session, role, details, hashed)
        for class_id in class_ids:
            if session.get(SchoolClass, class_id) is None:
                raise NotFound(f"Không có lớp số {class_id}.")
            enrol(session, class_id, person.id)
        record(session, actor, "person.create", person.public_id, role)
        return Slip(account_of(person), password)


def add_first_admin(database: Database, username: str, full_name: str, *, actor: str) -> Slip:
    """Makes the account that everything else begins with.

    Raises:
        BadRequest: there is an admin already.
        BadField: the username or the name cannot be taken.
    """
    password = new_password()
    hashed = hash_initial(password)
    details = Details(full_name, username)
    with database.write() as session:
        if session.scalar(_other_admins(0).limit(1)) is not None:
            raise BadRequest("Trường đã có tài khoản quản trị.")
        person = _create(session, "admin", details, hashed)
        record(session, actor, "person.create", person.public_id, "admin")
        return Slip(account_of(person), password)


def change_person(database: Database, actor: str, public_id: str, details: Details, role: str = "") -> bool:
    """Changes what is known of a person. The audit entry names the fields, never what stands in them.

    Args:
        role: for teachers and admins, the other of the two; empty: as it is.

    Returns:
        Whether anything changed.

    Raises:
        NotFound: no such person.
        BadField: something filled in cannot be taken, or the last admin would be none any more.
    """
    with database.write() as session:
        person = person_of(session, public_id)
        wanted = {**_checked(session, details, person.id), "role": _new_role(session, person, role)}
        changed = [name for name, value in wanted.items() if getattr(person, name) != value]
        for name in changed:
            setattr(person, name, wanted[name])
        if "role" in changed:
            _sign_out(session, person.id)
        if changed:
            record(session, actor, "person.change", public_id, ", ".join(changed))
        return bool(changed)


def reset_password(database: Database, actor: str, public_id: str) -> Slip:
    """Gives a new initial password and signs the person out everywhere.

    Raises:
        NotFound: no such person.
    """
    password = new_password()
    hashed = hash_initial(password)
    with database.write() as session:
        person = person_of(session, public_id)
        _set_initial(session, person, hashed)
        record(session, actor, "person.password", public_id)
        return Slip(account_of(person), password)


def lock(database: Database, actor: str, public_id: str) -> None:
    """Takes an account out of use: nothing is lost, nobody signs in.

    Raises:
        NotFound: no such person.
        BadRequest: it is the last admin.
    """
    with database.write() as session:
        person = person_of(session, public_id)
        _keep_an_admin(session, person)
        person.is_active = False
        _sign_out(session, person.id)
        record(session, actor, "person.lock", public_id)


def unlock(database: Database, actor: str, public_id: str) -> None:
    """Takes an account into use again, also one that rests after wrong passwords.

    Raises:
        NotFound: no such person.
    """
    with database.write() as session:
        person = person_of(session, public_id)
        person.is_active, person.failed_logins, person.locked_until = True, 0, None
        record(session, actor, "person.unlock", public_id)


def sign_out(database: Database, actor: str, public_id: str) -> int:
    """Signs all browsers of a person out; returns how many.

    Raises:
        NotFound: no such person.
    """
    with database.write() as session:
        count = _sign_out(session, person_of(session, public_id).id)
        record(session, actor, "person.sign_out", public_id)
        return count


def tie(database: Database, actor: str, public_id: str, who: str) -> Account:
    """Lets a guardian see a pupil's progress; returns the other of the two.

    Args:
        public_id: the pupil or the guardian.
        who: username or code of the other.

    Raises:
        NotFound: no such person ``public_id``.
        BadField: ``who`` is nobody, or the two are not a guardian and a pupil.
    """
    with database.write() as session:
        one = person_of(session, public_id)
        other = named(session, who)
        wanted = {"student": "guardian", "guardian": "student"}.get(one.role)
        if other is None or other.role != wanted:
            role = "phụ huynh" if wanted == "guardian" else "học sinh"
            raise BadField("who", f"Không có {role} nào với tên đăng nhập hay mã {who.strip()[:64]!r}: hãy xem lại.")
        guardian, student = (other, one) if wanted == "guardian" else (one, other)
        grant(session, guardian.id, student.id)
        record(session, actor, "guardian.grant", guardian.public_id, student.public_id)
        return account_of(other)


def untie(database: Database, actor: str, public_id: str, other_id: str) -> None:
    """Takes a guardian's access to a pupil away, from the next request on; the order of the two does not matter.

    Raises:
        NotFound: no such people, or there was no access.
    """
    with database.write() as session:
        one, other = person_of(session, public_id), person_of(session, other_id)
        guardian, student = (one, other) if one.role == "guardian" else (other, one)
        revoke(session, guardian.id, student.id)
        record(session, actor, "guardian.revoke", guardian.public_id, student.public_id)


def hash_initial(password: str) -> str:
    """An initial password as it is kept; takes a millisecond, so do it before a transaction."""
    return _hasher.hash(password)


def renew_unused(database: Database, actor: str, class_id: int) -> list[Slip]:
    """Gives new initial passwords to the members of a class who never changed theirs; nobody else's is touched.

    Raises:
        NotFound: no such class.
    """
    unused = filtered(sa.select(Person), role="", class_id=class_id, state="unused")
    # A few more than needed, for who becomes a member meanwhile.
    count = count_unused(database, class_id) + 5
    ready = [(password, hash_initial(password)) for password in (new_password() for _ in range(count))]
    slips: list[Slip] = []
    with database.write() as session:
        if session.get(SchoolClass, class_id) is None:
            raise NotFound(f"Không có lớp số {class_id}.")
        for person, (password, hashed) in zip(session.scalars(unused).all(), ready, strict=False):
            _set_initial(session, person, hashed)
            record(session, actor, "person.password", person.public_id)
            slips.append(Slip(account_of(person), password))
    return sorted(slips, key=lambda slip: name_order(slip.account.full_name))


def _create(session: Session, role: Role, details: Details, hashed: str) -> Person:
    values = _checked(session, details, None)
    person = create_person(session, role, values["username"], values["full_name"])
    for name, value in values.items():
        setattr(person, name, value)
    person.password_hash = hashed
    return person


def _checked(session: Session, details: Details, person_id: int | None) -> dict[str, Any]:
    """What is kept of a form: clean, and None where it is empty."""
    try:
        username = clean_username(details.username)
    except BadRequest as error:
        raise BadField("username", str(error)) from error
    values = {
        "full_name": _clean(details.full_name),
        "username": username,
        "code": _clean(details.code),
        "email": _clean(details.email),
        "phone": _clean(details.phone),
    }
    _check(values["full_name"], values["code"], values["email"], values["phone"])
    for column, told in ((Person.username, "Tên đăng nhập"), (Person.code, "Mã số")):
        value = values[column.key]
        taken = sa.select(Person.id).where(column == value, Person.id != (person_id or 0))
        if value is not None and session.scalar(taken) is not None:
            raise BadField(column.key, f"{told} {value!r} đã thuộc người khác: hãy xem lại.")
    return values


def _check(full_name: str | None, code: str | None, email: str | None, phone: str | None) -> None:
    if full_name is None:
        raise BadField("full_name", "Chưa có họ tên: hãy ghi đủ họ và tên.")
    if len(full_name) > LONGEST_NAME:
        raise BadField("full_name", f"Họ tên dài nhất {LONGEST_NAME} ký tự, nhận được {len(full_name)}: hãy rút gọn.")
    if code is not None and len(code) > LONGEST_CODE:
        raise BadField("code", f"Mã số dài nhất {LONGEST_CODE} ký tự, nhận được {len(code)}: hãy xem lại.")
    if email is not None and (not _EMAIL.fullmatch(email) or len(email) > LONGEST_NAME):
        raise BadField("email", f"Thư điện tử cần có dạng ten@truong.edu.vn, nhận được {email[:64]!r}: hãy sửa lại.")
    if phone is not None and not _PHONE.fullmatch(phone):
        raise BadField("phone", f"Số điện thoại cần 6 đến 32 chữ số, nhận được {phone[:40]!r}: hãy sửa lại.")


def _clean(text: str) -> str | None:
    return " ".join(unicodedata.normalize("NFC", text).split()) or None


def _new_role(session: Session, person: Person, role: str) -> str:
    if role in ("", person.role):
        return person.role
    if role not in STAFF or person.role not in STAFF:
        raise BadField("role", "Chỉ đổi được giữa giáo viên và quản trị: hãy tạo một tài khoản khác cho vai trò kia.")
    if person.role == "admin":
        try:
            _keep_an_admin(session, person)
        except BadRequest as error:
            raise BadField("role", str(error)) from error
    return role


def _keep_an_admin(session: Session, person: Person) -> None:
    if person.role == "admin" and person.is_active and session.scalar(_other_admins(person.id).limit(1)) is None:
        raise BadRequest("Đây là quản trị viên cuối cùng của trường: hãy thêm một quản trị viên khác trước.")


def _other_admins(person_id: int) -> sa.Select[Any]:
    return sa.select(Person.id).where(Person.role == "admin", Person.is_active, Person.id != person_id)


def _set_initial(session: Session, person: Person, hashed: str) -> None:
    person.password_hash, person.must_change_password = hashed, True
    person.failed_logins, person.locked_until = 0, None
    _sign_out(session, person.id)


def _sign_out(session: Session, person_id: int) -> int:
    # Returned rows, because what rowcount tells differs between drivers.
    gone = sa.delete(LoginSession).where(LoginSession.person_id == person_id).returning(LoginSession.token_digest)
    return len(session.execute(gone).all())
