"""Keys by which a program asks the tutor in the name of a teacher or admin. Only a key's digest is kept."""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound, WrongKey
from deepedu.school.accounts import SEEN_EVERY, Account, Role, account_of
from deepedu.school.audit import record
from deepedu.school.people import BadField
from deepedu.store import Database
from deepedu.store.tables import ApiKey, Person, now

PREFIX = "dk-"
KEEPERS: tuple[Role, ...] = ("teacher", "admin")
LONGEST_LABEL = 100
MOST_KEYS = 20


@dataclass(frozen=True)
class KeyAccount(Account):
    """Whose key a program came with. ``secret`` is the key itself, which is written down nowhere."""

    key_id: int
    secret: str = field(repr=False)

    def owner_of(self, user: str) -> str:
        """Whose conversations those of one of the program's users are: ``k<key id>-<digest of user>``.

        The digest is keyed with the key: who has the database alone cannot try out e-mail addresses, and the same user
        of two programs is two owners.
        """
        key = self.secret.encode()[: hashlib.blake2b.MAX_KEY_SIZE]
        digest = hashlib.blake2b(user.encode(), key=key, digest_size=10)
        return owners_by_key(self.key_id) + digest.hexdigest()


def owners_by_key(key_id: int) -> str:
    """What all names of ``KeyAccount.owner_of`` by one key begin with."""
    return f"k{key_id}-"


@dataclass(frozen=True)
class ListedKey:
    """A key as a list shows it; ``keeper`` made it."""

    id: int
    label: str
    keeper: Account
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


def create_key(session: Session, person_id: int, label: str) -> str:
    """Makes a key; part of the session's transaction. It can be read here and never again.

    Args:
        label: what the key is for, in the person's words.

    Raises:
        NotFound: no such person, or one of a role that has no keys.
        BadField: the label is empty or too long, or there are too many keys.
    """
    person = session.get(Person, person_id)
    if person is None or not person.is_active or person.role not in KEEPERS:
        raise NotFound(f"there is no teacher or admin {person_id}")
    label = " ".join(unicodedata.normalize("NFC", label).split())
    if not label:
        raise BadField("label", "Chưa có tên khóa: hãy ghi chương trình nào sẽ dùng khóa này.")
    if len(label) > LONGEST_LABEL:
        raise BadField("label", f"Tên khóa dài nhất {LONGEST_LABEL} ký tự, nhận được {len(label)}: hãy rút gọn.")
    in_use = sa.select(sa.func.count()).where(ApiKey.person_id == person_id, ApiKey.revoked_at.is_(None))
    if (session.scalar(in_use) or 0) >= MOST_KEYS:
        raise BadField("label", f"Đã có {MOST_KEYS} khóa đang dùng: hãy thu hồi khóa không còn cần.")
    key = PREFIX + secrets.token_urlsafe(32)
    row = ApiKey(key_digest=_digest(key), person_id=person_id, label=label)
    session.add(row)
    session.flush()
    record(session, person.public_id, "key.create", f"key:{row.id}")
    return key


def account_of_key(database: Database, key: str, *, at: datetime | None = None) -> KeyAccount:
    """Whose key this is; notes now and then that it is used.

    Raises:
        WrongKey: no such key, revoked, or of somebody whose account is locked.
    """
    at = at or now()
    with database.read() as session:
        found = session.execute(
            sa.select(ApiKey, Person)
            .join(Person, Person.id == ApiKey.person_id)
            .where(ApiKey.key_digest == _digest(key), ApiKey.revoked_at.is_(None), Person.is_active)
        ).one_or_none()
    if found is None:
        raise WrongKey("Khóa không đúng hoặc đã bị thu hồi: hãy tạo khóa mới trên trang /keys.")
    row, person = found
    if row.last_used_at is None or at - row.last_used_at >= SEEN_EVERY:
        with database.write() as session:
            session.execute(sa.update(ApiKey).where(ApiKey.id == row.id).values(last_used_at=at))
    return KeyAccount(**vars(account_of(person)), key_id=row.id, secret=key)


def revoke_key(session: Session, account: Account, key_id: int) -> None:
    """Takes a key back, from the next request on; part of the session's transaction. An admin may take back anybody's.

    Raises:
        NotFound: there is none in use, or it is not this person's: the two are not told apart.
    """
    row = session.get(ApiKey, key_id)
    if row is None or row.revoked_at is not None or (account.role != "admin" and row.person_id != account.id):
        raise NotFound("Không có khóa nào như vậy đang dùng.")
    row.revoked_at = now()
    record(session, account.public_id, "key.revoke", f"key:{key_id}")


def keys_of(database: Database, account: Account) -> Sequence[ListedKey]:
    """A person's keys; for an admin everybody's. Those in use first, then by age, newest first."""
    wanted = (
        sa.select(ApiKey, Person)
        .join(Person, Person.id == ApiKey.person_id)
        .order_by(ApiKey.revoked_at.is_not(None), ApiKey.created_at.desc(), ApiKey.id.desc())
    )
    if account.role != "admin":
        wanted = wanted.where(ApiKey.person_id == account.id)
    with database.read() as session:
        return [_listed(row, person) for row, person in session.execute(wanted)]


def key_of_owner(database: Database, owner: str) -> ListedKey | None:
    """Through which key the conversations of ``KeyAccount.owner_of`` came; None for those of people."""
    found = re.fullmatch(r"k(\d+)-[0-9a-f]{20}", owner)
    if found is None:
        return None
    wanted = sa.select(ApiKey, Person).join(Person, Person.id == ApiKey.person_id).where(ApiKey.id == int(found[1]))
    with database.read() as session:
        row = session.execute(wanted).one_or_none()
        return None if row is None else _listed(row[0], row[1])


def _listed(row: ApiKey, person: Person) -> ListedKey:
    return ListedKey(row.id, row.label, account_of(person), row.created_at, row.last_used_at, row.revoked_at)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
