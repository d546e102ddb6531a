"""The text index of whatever database is in use."""

from sqlalchemy.orm import Session

from deepedu.base.errors import Unsupported
from deepedu.store import sqlite


def index_book(session: Session, book_id: int) -> None:
    """Makes a book's passages findable by words; part of the session's transaction.

    Raises:
        Unsupported: no text index exists for this database yet.
    """
    _check(session)
    sqlite.index_book(session, book_id)


def unindex_book(session: Session, book_id: int) -> None:
    """Takes a book's passages out; call before the passages themselves go.

    Raises:
        Unsupported: as for ``index_book``.
    """
    _check(session)
    sqlite.unindex_book(session, book_id)


def _check(session: Session) -> None:
    name = session.get_bind().dialect.name
    if name != "sqlite":
        raise Unsupported(f"searching by words needs SQLite for now, came {name!r}; leave store.url unset")
