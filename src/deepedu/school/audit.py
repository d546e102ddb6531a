"""The audit log: who saw or changed what. Append-only; every digest holds the digest of the entry before it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import StoreError
from deepedu.store import Database
from deepedu.store.tables import AuditEntry, now

SYSTEM = "system"
_FIRST = "0" * 64


@dataclass(frozen=True)
class Entry:
    """``actor`` and ``subject`` are public ids, ``kind:id`` for what is no person; never names."""

    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: str


def record(session: Session, actor: str, action: str, subject: str, detail: str = "") -> None:
    """Adds an entry in the transaction that does what it tells, so that neither is there without the other."""
    newest = sa.select(AuditEntry.number, AuditEntry.digest).order_by(AuditEntry.number.desc()).limit(1)
    last = session.execute(newest).one_or_none()
    number, before = (last[0] + 1, last[1]) if last else (1, _FIRST)
    at = now()
    digest = _digest(before, number, at, actor, action, subject, detail)
    session.add(
        AuditEntry(number=number, at=at, actor=actor, action=action, subject=subject, detail=detail, digest=digest)
    )
    session.flush()


def log(database: Database, actor: str, action: str, subject: str, detail: str = "") -> None:
    """Adds an entry about something that was only looked at."""
    with database.write() as session:
        record(session, actor, action, subject, detail)


def entries(
    database: Database, *, limit: int = 100, before: int | None = None, about: str | None = None
) -> Sequence[Entry]:
    """Entries, newest first; with ``about``, those that name this public id as actor or subject."""
    wanted = sa.select(AuditEntry).order_by(AuditEntry.number.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(AuditEntry.number < before)
    if about is not None:
        wanted = wanted.where(sa.or_(AuditEntry.actor == about, AuditEntry.subject == about))
    with database.read() as session:
        return [Entry(e.number, e.at, e.actor, e.action, e.subject, e.detail) for e in session.scalars(wanted)]


def verify(database: Database) -> int:
    """Checks the whole chain. Where old entries were deleted for their age, it begins at the oldest that is there.

    Returns:
        How many entries there are.

    Raises:
        StoreError: an entry was changed, or is missing between others: which.
    """
    count, before, expected = 0, None, None
    with database.read() as session:
        for each in session.scalars(sa.select(AuditEntry).order_by(AuditEntry.number)).yield_per(500):
            if expected is not None and each.number != expected:
                raise StoreError(f"the audit log lacks entry {expected}: it was changed by another program")
            if before is None and each.number == 1:
                before = _FIRST
            told = (each.number, each.at, each.actor, each.action, each.subject, each.detail)
            if before is not None and each.digest != _digest(before, *told):
                raise StoreError(f"entry {each.number} of the audit log, or the one before it, was changed")
            count, before, expected = count + 1, each.digest, each.number + 1
    return count


def _digest(before: str, number: int, at: datetime, actor: str, action: str, subject: str, detail: str) -> str:
    told = json.dumps([before, number, at.isoformat(), actor, action, subject, detail], ensure_ascii=False)
    return hashlib.sha256(told.encode()).hexdigest()
