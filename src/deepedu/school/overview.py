"""The school at a glance: how many there are of what, and what an admin should look after."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from deepedu.school.accounts import ROLES
from deepedu.school.directory import State, filtered
from deepedu.store import Database
from deepedu.store.library import list_books
from deepedu.store.tables import Person, SchoolClass

# Written by whoever backs the data folder up: {"at": an ISO time with its zone}.
BACKUP_NOTE = "last-backup.json"


@dataclass(frozen=True)
class Overview:
    """``people``: in use, by role. ``books``: by state. ``last_backup``: None where no file tells."""

    people: Mapping[str, int]
    classes: int
    books: Mapping[str, int]
    without_consent: int
    unused: int
    locked: int
    last_backup: datetime | None


def overview(database: Database, school_year: str) -> Overview:
    """Counts of now; ``classes`` are those of the school year."""
    books = [book.status for book in list_books(database)]
    with database.read() as session:

        def count(role: str = "", state: State = "active") -> int:
            wanted = filtered(sa.select(Person.id), role=role, class_id=None, state=state)
            return session.scalar(sa.select(sa.func.count()).select_from(wanted.subquery())) or 0

        classes = sa.select(sa.func.count()).where(SchoolClass.school_year == school_year)
        return Overview(
            people={role: count(role) for role in ROLES},
            classes=session.scalar(classes) or 0,
            books={status: books.count(status) for status in ("ready", "reading", "interrupted")},
            without_consent=count(state="no_consent"),
            unused=count(state="unused"),
            locked=count(state="locked"),
            last_backup=_last_backup(database),
        )


def _last_backup(database: Database) -> datetime | None:
    try:
        note = json.loads((database.data_dir / BACKUP_NOTE).read_text(encoding="utf-8"))
        at = datetime.fromisoformat(note["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return at if at.tzinfo is not None else None
