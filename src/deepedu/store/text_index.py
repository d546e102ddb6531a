"""The text index of whatever database is in use: SQLite brings its own, on PostgreSQL it is made of tables.

Derived from the passages and part of their transactions. Both rank by the same formula, so that a school finds the same
passages in the same order on either; a test compares them.
"""

from collections.abc import Sequence
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.store import postgres, sqlite
from deepedu.store.tables import TITLE_SEPARATOR, Book, Passage
from deepedu.store.terms import index_columns


class _TextIndex(Protocol):
    """What a database's module brings; the functions below say what each is for.

    ``create_text_index`` drops those of other versions, and tells whether it made an empty one. ``index_passages``
    takes passages, at least one, in the order of their ids, each with its ``terms.index_columns``.
    """

    def create_text_index(self, connection: sa.Connection) -> bool: ...

    def index_passages(
        self, session: Session, book_id: int, passages: Sequence[tuple[int, tuple[str, ...]]]
    ) -> None: ...

    def unindex_book(self, session: Session, book_id: int) -> None: ...

    def match(
        self,
        session: Session,
        alternatives: Sequence[tuple[str, str]],
        weights: Sequence[float],
        limit: int,
        book_ids: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]: ...

    def document_frequencies(self, session: Session, term: str) -> dict[str, int]: ...

    def indexed(self, session: Session, passage_ids: Sequence[int]) -> dict[int, tuple[str, str, str]]: ...

    def index_size(self, session: Session) -> tuple[int, float]: ...


# ``Database`` opens no others.
_BY_DIALECT: dict[str, _TextIndex] = {"sqlite": sqlite, "postgresql": postgres}


def _of(session: Session) -> _TextIndex:
    return _BY_DIALECT[session.get_bind().dialect.name]


def ensure_text_index(connection: sa.Connection) -> None:
    """Creates the text index if it is missing, filled with all ready books, and drops those of other versions."""
    if not _BY_DIALECT[connection.dialect.name].create_text_index(connection):
        return
    with Session(connection) as session:
        for book_id in session.scalars(sa.select(Book.id).where(Book.status == "ready")).all():
            index_book(session, book_id)
        session.flush()


def index_book(session: Session, book_id: int) -> None:
    """Makes a book's passages findable by words; part of the session's transaction."""
    rows = session.execute(
        sa.select(Passage.id, Passage.text, Passage.heading, Book.title)
        .join(Book)
        .where(Passage.book_id == book_id)
        .order_by(Passage.id)
    )
    passages = [
        (passage_id, index_columns(text, [title, *heading.split(TITLE_SEPARATOR)]))
        for passage_id, text, heading, title in rows
    ]
    if passages:
        _of(session).index_passages(session, book_id, passages)


def unindex_book(session: Session, book_id: int) -> None:
    """Takes a book's passages out; call before the passages themselves go."""
    _of(session).unindex_book(session, book_id)


def match(
    session: Session,
    alternatives: Sequence[tuple[str, str]],
    weights: Sequence[float],
    limit: int,
    book_ids: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """The passages that hold any of some terms, ranked by BM25.

    Args:
        alternatives: ``(columns separated by spaces, term)``: a term, and which of ``terms.COLUMNS`` it may stand in.
        weights: of each of ``terms.COLUMNS``.
        book_ids: only these books; None for all.

    Returns:
        ``(passage_id, score)``, best first; a higher score is a better match.

    Source: Robertson and Zaragoza 2009, with the constants of SQLite's FTS5: k1 = 1.2, b = 0.75.
    """
    return _of(session).match(session, alternatives, weights, limit, book_ids)


def document_frequencies(session: Session, term: str) -> dict[str, int]:
    """In how many passages the index holds ``term``, by column; columns without it are left out."""
    return _of(session).document_frequencies(session, term)


def indexed(session: Session, passage_ids: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """What the index holds of some passages: ``words``, ``folded`` and ``heading`` by passage id."""
    return _of(session).indexed(session, passage_ids)


def index_size(session: Session) -> tuple[int, float]:
    """How many passages the index holds, and the mean length of their ``words`` in characters."""
    return _of(session).index_size(session)
