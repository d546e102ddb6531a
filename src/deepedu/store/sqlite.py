"""The one place for what only SQLite understands: pragmas and the FTS5 text index.

The index is derived from ``passages`` and rebuilt whenever it is missing or of another version, so it needs no
migrations and another database can bring its own.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from deepedu.base.vietnamese import fold, words
from deepedu.store.tables import Book, Passage

# Raise it when the columns or what they hold change.
INDEX_VERSION = 1
COLUMNS = ("words", "folded", "pairs", "folded_pairs", "heading", "heading_folded")
_TABLE = f"passage_index_{INDEX_VERSION}"


def configure(engine: sa.Engine) -> None:
    """Sets the pragmas of every new connection and lets SQLAlchemy, not the driver, begin transactions."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "busy_timeout = 30000",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
            # Deleted text is overwritten: a deleted book or conversation must not be readable from the file.
            "secure_delete = ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def for_writing(engine: sa.Engine) -> sa.Engine:
    """The same engine, its transactions taking the write lock at once.

    A transaction that first reads and then writes fails without waiting when another wrote in between; one that
    starts as a writer waits its turn.
    """
    return engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")


def ensure_text_index(connection: sa.Connection) -> None:
    """Creates the text index if it is missing, filled with all ready books, and drops those of other versions."""
    tables = set(
        connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").scalars()
    )
    for old in tables - {_TABLE}:
        if old.startswith("passage_index_"):
            connection.exec_driver_sql(f"DROP TABLE {old}")
    if _TABLE in tables:
        return
    # Words come in ready-made (see base.vietnamese), so the tokenizer only has to split at spaces and leave accents.
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {_TABLE} USING fts5({', '.join(COLUMNS)}, "
        "tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")"
    )
    with Session(connection) as session:
        for book_id in session.scalars(sa.select(Book.id).where(Book.status == "ready")).all():
            index_book(session, book_id)
        session.flush()


def index_book(session: Session, book_id: int) -> None:
    """Adds a book's passages to the text index; part of the session's transaction."""
    rows = session.execute(sa.select(Passage.id, Passage.text, Passage.heading).where(Passage.book_id == book_id))
    statement = f"INSERT INTO {_TABLE} (rowid, {', '.join(COLUMNS)}) VALUES (?, {', '.join('?' * len(COLUMNS))})"
    values = [(passage_id, *index_columns(text, heading)) for passage_id, text, heading in rows]
    if values:
        session.connection().exec_driver_sql(statement, values)


def unindex_book(session: Session, book_id: int) -> None:
    """Takes a book's passages out of the text index; call before the passages themselves go."""
    connection = session.connection()
    connection.exec_driver_sql(
        f"DELETE FROM {_TABLE} WHERE rowid IN (SELECT id FROM passages WHERE book_id = ?)", (book_id,)
    )
    # Merging drops the old segments; until then deleted words stay in them.
    connection.exec_driver_sql(f"INSERT INTO {_TABLE} ({_TABLE}) VALUES ('optimize')")


def index_columns(text: str, heading: str) -> tuple[str, ...]:
    """What the index holds of a passage, in the order of ``COLUMNS``."""
    plain = words(text)
    folded = [fold(word) for word in plain]
    heading_words = words(heading)
    return (
        " ".join(plain),
        " ".join(folded),
        " ".join(pairs(plain)),
        " ".join(pairs(folded)),
        " ".join(heading_words),
        " ".join(fold(word) for word in heading_words),
    )


def pairs(terms: Sequence[str]) -> Iterable[str]:
    """Neighbouring syllables joined by ``_``: most Vietnamese words have two."""
    return (f"{left}_{right}" for left, right in pairwise(terms))


def match(
    session: Session,
    query: str,
    weights: Sequence[float],
    limit: int,
    book_ids: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Runs an FTS5 query.

    Args:
        query: an FTS5 expression, already quoted by the caller.
        weights: BM25 weight of each of ``COLUMNS``.
        book_ids: only these books; None for all.

    Returns:
        ``(passage_id, score)``, best first; a higher score is a better match.
    """
    numbers = ", ".join(str(float(weight)) for weight in weights)
    scope = ""
    if book_ids is not None:
        marks = ", ".join(str(int(book_id)) for book_id in book_ids)
        scope = f"AND rowid IN (SELECT id FROM passages WHERE book_id IN ({marks}))"
    rows = session.connection().exec_driver_sql(
        f"SELECT rowid, -bm25({_TABLE}, {numbers}) AS score FROM {_TABLE} "
        f"WHERE {_TABLE} MATCH ? {scope} ORDER BY score DESC, rowid LIMIT ?",
        (query, limit),
    )
    return [(int(passage_id), float(score)) for passage_id, score in rows]
