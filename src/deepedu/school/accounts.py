"""Accounts: who may sign in, by which password, and which browsers are signed in.

Passwords are kept as Argon2id (RFC 9106) with the least memory that OWASP names: a whole class signs in at once on a
small server. A wrong password costs the same time whether the account exists or not.
"""

import hashlib
import re
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.orm import Session

from deepedu.base.errors import AccountLocked, BadRequest, NotFound, NotSignedIn, WrongPassword
from deepedu.store import Database
from deepedu.store.tables import LoginSession, Person, now

Role = Literal["student", "teacher", "guardian", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 128
# After so many wrong passwords in a row an account rests.
TRIES = 5
REST = timedelta(minutes=15)
# A sign-in is noted as used at most so often: every page would be a write otherwise.
SEEN_EVERY = timedelta(minutes=2)
# Without l, o, 0, 1, which are read wrongly from paper.
_READABLE = "abcdefghjkmnpqrstuvwxyz23456789"
_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}[a-z0-9]")

_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# Verified against where there is no account.
_NOBODY = _hasher.hash("nobody")
_WRONG = "Tên đăng nhập hoặc mật khẩu không đúng."


@dataclass(frozen=True)
class Account:
    """A person as the rest of the program sees it. ``learner_id``: pupils only."""

    id: int
    public_id: str
    role: Role
    username: str
    full_name: str
    learner_id: str | None
    must_change_password: bool
    language: Literal["vi", "en"]

    @property
    def owner(self) -> str:
        """Whose conversations are this person's."""
        return self.learner_id or self.public_id


def account_of(person: Person) -> Account:
    """A row as a value."""
    return Account(
        person.id,
        person.public_id,
        person.role,  # pyright: ignore[reportArgumentType]
        person.username,
        person.full_name,
        person.learner_id,
        person.must_change_password,
        person.language,  # pyright: ignore[reportArgumentType]
    )


def create_person(
    session: Session,
    role: Role,
    username: str,
    full_name: str,
    *,
    password: str | None = None,
    must_change_password: bool = True,
    **details: str | None,
) -> Person:
    """Adds an account; part of the session's transaction.

    Args:
        password: None: it cannot sign in by password until one is set.
        details: ``code``, ``birth_date``, ``email``, ``phone``.

    Raises:
        BadRequest: the username cannot be one or is taken, the name is empty, or the password is too short.
    """
    username = clean_username(username)
    if not full_name.strip():
        raise BadRequest("Chưa có họ tên: hãy ghi đủ họ và tên.")
    if session.scalar(sa.select(Person.id).where(Person.username == username)) is not None:
        raise BadRequest(f"Tên đăng nhập {username!r} đã có người dùng: hãy chọn tên khác.")
    hashed = None if password is None else _hashed(password)
    person = new_person(role, username, full_name, hashed, must_change_password=must_change_password, **details)
    session.add(person)
    session.flush()
    return person


def new_person(
    role: Role,
    username: str,
    full_name: str,
    password_hash: str | None,
    *,
    must_change_password: bool = True,
    **details: str | None,
) -> Person:
    """A row for a new account, with its public id and, for a pupil, its pseudonym. The caller has seen to it that the
    username is free and fit."""
    return Person(
        public_id=secrets.token_hex(8),
        role=role,
        username=username,
        full_name=" ".join(unicodedata.normalize("NFC", full_name).split()),
        password_hash=password_hash,
        must_change_password=must_change_password,
        learner_id=f"l{secrets.token_hex(12)}" if role == "student" else None,
        **details,
    )


def clean_username(username: str) -> str:
    """A username as it is kept.

    Raises:
        BadRequest: it holds what a username cannot.
    """
    username = unicodedata.normalize("NFC", username).strip().casefold()
    if not _USERNAME.fullmatch(username):
        told = "2 đến 64 chữ cái không dấu, chữ số hoặc . _ - @"
        raise BadRequest(f"Tên đăng nhập cần {told}, nhận được {username[:70]!r}: hãy sửa lại.")
    return username


def new_password() -> str:
    """An initial password that can be read from paper and typed on a phone; 49 bits."""
    letters = "".join(secrets.choice(_READABLE) for _ in range(10))
    return f"{letters[:5]}-{letters[5:]}"


def set_password(
    database: Database, person_id: int, password: str, *, must_change: bool, keep_token: str | None = None
) -> None:
    """Sets a password and signs all browsers out but the one of ``keep_token``.

    Raises:
        NotFound: no such person.
        BadRequest: the password is too short, too long, too simple, or the username.
    """
    hashed = _hashed(password)
    with database.write() as session:
        person = session.get(Person, person_id)
        if person is None:
            raise NotFound(f"there is no person {person_id}")
        if password.strip().casefold() in (person.username, (person.code or "").casefold()):
            raise BadRequest("Mật khẩu không được trùng với tên đăng nhập hay mã số: hãy chọn mật khẩu khác.")
        person.password_hash, person.must_change_password = hashed, must_change
        person.failed_logins, person.locked_until = 0, None
        keep = _digest(keep_token) if keep_token else ""
        session.execute(
            sa.delete(LoginSession).where(LoginSession.person_id == person_id, LoginSession.token_digest != keep)
        )


def check_password(database: Database, username: str, password: str, *, at: datetime | None = None) -> Account:
    """Whose username and password these are. Counts wrong ones.

    Raises:
        AccountLocked: too many wrong passwords; also for a right one until the rest is over.
        WrongPassword: no such account, another password, or an account that is not in use.
    """
    at = at or now()
    username = unicodedata.normalize("NFC", username).strip().casefold()
    with database.read() as session:
        person = session.scalar(sa.select(Person).where(Person.username == username))
    if person is not None and person.locked_until is not None and person.locked_until > at:
        raise _locked((person.locked_until - at).total_seconds())
    stored = person.password_hash if person is not None and person.is_active else None
    right = _verified(stored or _NOBODY, password[:LONGEST_PASSWORD]) and stored is not None
    if person is None:
        raise WrongPassword(_WRONG)
    with database.write() as session:
        row = session.get_one(Person, person.id)
        if right:
            row.failed_logins, row.locked_until = 0, None
            return account_of(row)
        row.failed_logins += 1
        if row.failed_logins >= TRIES:
            row.failed_logins, row.locked_until = 0, at + REST
    raise WrongPassword(_WRONG)


def open_session(database: Database, person_id: int, *, hours: float, at: datetime | None = None) -> str:
    """Signs a browser in; returns its token, of which only the digest is kept."""
    token, at = secrets.token_urlsafe(32), at or now()
    with database.write() as session:
        session.execute(sa.delete(LoginSession).where(LoginSession.expires_at < at))
        session.add(
            LoginSession(
                token_digest=_digest(token),
                person_id=person_id,
                created_at=at,
                last_seen_at=at,
                expires_at=at + timedelta(hours=hours),
            )
        )
    return token


def signed_in(database: Database, token: str, *, hours: float, at: datetime | None = None) -> Account:
    """Who is signed in with this token; using it makes it last.

    Raises:
        NotSignedIn: nobody, or not any more.
    """
    at = at or now()
    with database.read() as session:
        row = session.execute(
            sa.select(LoginSession, Person)
            .join(Person, Person.id == LoginSession.person_id)
            .where(LoginSession.token_digest == _digest(token))
        ).one_or_none()
    if row is None or row[0].expires_at <= at or not row[1].is_active:
        raise NotSignedIn("Em cần đăng nhập lại.")
    signed, person = row
    if at - signed.last_seen_at >= SEEN_EVERY:
        with database.write() as session:
            session.execute(
                sa.update(LoginSession)
                .where(LoginSession.token_digest == signed.token_digest)
                .values(last_seen_at=at, expires_at=at + timedelta(hours=hours))
            )
    return account_of(person)


def close_session(database: Database, token: str) -> None:
    """Signs a browser out."""
    with database.write() as session:
        session.execute(sa.delete(LoginSession).where(LoginSession.token_digest == _digest(token)))


def has_people(database: Database) -> bool:
    """Whether anybody has an account."""
    with database.read() as session:
        return session.scalar(sa.select(Person.id).limit(1)) is not None


def _locked(seconds: float) -> AccountLocked:
    minutes = max(1, round(seconds / 60))
    return AccountLocked(f"Đã nhập sai nhiều lần, tài khoản tạm khóa: hãy thử lại sau {minutes} phút.", seconds)


def _hashed(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise BadRequest(
            f"Mật khẩu cần {SHORTEST_PASSWORD} đến {LONGEST_PASSWORD} ký tự, nhận được {len(password)}: hãy chọn lại."
        )
    if len(set(password.casefold())) < 4:
        raise BadRequest("Mật khẩu cần ít nhất 4 ký tự khác nhau: hãy chọn mật khẩu khó đoán hơn.")
    return _hasher.hash(_composed(password))


def _verified(password_hash: str, password: str) -> bool:
    try:
        return _hasher.verify(password_hash, _composed(password))
    except (VerificationError, InvalidHashError):
        return False


def _composed(password: str) -> str:
    # The same keys give composed letters on one phone and decomposed ones on another.
    return unicodedata.normalize("NFC", password)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
