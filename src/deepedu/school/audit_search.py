"""Looking into the audit log: by person, action and day, with the names that its public ids stand for today."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.school.audit import Entry
from deepedu.school.directory import named
from deepedu.store import Database
from deepedu.store.tables import AuditEntry, Person

PER_PAGE = 50
_PUBLIC_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class AuditFilter:
    """What is looked for; what is empty does not filter. ``person``: public id, username or code. ``first`` and
    ``last``: days, local time, both included. ``action``: that action, or all that begin with it and a point."""

    person: str = ""
    action: str = ""
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True)
class AuditPage:
    """Entries, newest first. ``older``: pass it as ``before`` for the next page; None: this is the last.
    ``names``: of the people among them who are still there. ``is_unknown``: nobody is the person looked for."""

    entries: Sequence[Entry]
    older: int | None
    names: dict[str, str]
    is_unknown: bool = False


def find_entries(
    database: Database, wanted: AuditFilter, *, before: int | None = None, limit: int = PER_PAGE
) -> AuditPage:
    """A page of entries that pass the filter; with ``before``, those with lower numbers."""
    with database.read() as session:
        person = _public_id(session, wanted.person)
        if person is None:
            return AuditPage((), None, {}, is_unknown=True)
        rows = session.scalars(_filtered(wanted, person, before).limit(limit + 1)).all()
        entries = [_entry(row) for row in rows[:limit]]
        older = entries[-1].number if len(rows) > limit else None
        return AuditPage(entries, older, _names(session, entries))


def all_entries(database: Database, wanted: AuditFilter) -> Iterator[Entry]:
    """Every entry that passes the filter, newest first, a few at a time."""
    before: int | None = None
    while True:
        page = find_entries(database, wanted, before=before, limit=500)
        yield from page.entries
        before = page.older
        if before is None:
            return


def actions(database: Database) -> list[str]:
    """The actions that there are entries of."""
    with database.read() as session:
        return list(session.scalars(sa.select(AuditEntry.action).distinct().order_by(AuditEntry.action)))


def _public_id(session: Session, who: str) -> str | None:
    """Whose entries are wanted: empty for everybody's; None where nobody is meant. The public id of somebody who was
    erased still finds the entries."""
    who = who.strip()
    if not who or _PUBLIC_ID.fullmatch(who):
        return who
    person = named(session, who)
    return person.public_id if person is not None else None


def _filtered(wanted: AuditFilter, person: str, before: int | None) -> sa.Select[AuditEntry]:
    found = sa.select(AuditEntry).order_by(AuditEntry.number.desc())
    if before is not None:
        found = found.where(AuditEntry.number < before)
    if person:
        about = AuditEntry.detail.contains(person, autoescape=True)
        found = found.where(sa.or_(AuditEntry.actor == person, AuditEntry.subject == person, about))
    if wanted.action:
        below = AuditEntry.action.startswith(f"{wanted.action}.", autoescape=True)
        found = found.where(sa.or_(AuditEntry.action == wanted.action, below))
    if wanted.first is not None:
        found = found.where(AuditEntry.at >= _midnight(wanted.first))
    if wanted.last is not None:
        found = found.where(AuditEntry.at < _midnight(wanted.last + timedelta(days=1)))
    return found


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time()).astimezone()


def _entry(row: AuditEntry) -> Entry:
    return Entry(row.number, row.at, row.actor, row.action, row.subject, row.detail)


def _names(session: Session, entries: Sequence[Entry]) -> dict[str, str]:
    told = {each for entry in entries for each in (entry.actor, entry.subject)}
    rows: Any = session.execute(sa.select(Person.public_id, Person.full_name).where(Person.public_id.in_(told)))
    return dict(rows.all())
