"""The one place for what only SQLite understands: pragmas and the FTS5 text index.

The index is derived from ``passages`` and rebuilt whenever it is missing or of another version, so it needs no
migrations and another database can bring its own.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from deepedu.store.terms import COLUMNS, INDEX_VERSION

_TABLE = f"passage_index_{INDEX_VERSION}"
_VOCABULARY = f"{_TABLE}_terms"


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


def empty_journal(engine: sa.Engine) -> bool:
    """Moves everything from the write-ahead log into the database and cuts the log to nothing: until then it holds what
    was deleted or overwritten. False: somebody was reading all the time, so nothing was cut."""
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        connection.exec_driver_sql("BEGIN")
    return not busy


def create_text_index(connection: sa.Connection) -> bool:
    """See ``text_index``."""
    tables = set(
        connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").scalars()
    )
    current = {_TABLE, _VOCABULARY} if {_TABLE, _VOCABULARY} <= tables else set[str]()
    for old in sorted(tables - current, reverse=True):  # A vocabulary goes before the index it reads.
        if old.startswith("passage_index_"):
            connection.exec_driver_sql(f"DROP TABLE {old}")
    if current:
        return False
    # Words come in ready-made (see base.vietnamese), so the tokenizer only has to split at spaces and leave accents.
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {_TABLE} USING fts5({', '.join(COLUMNS)}, "
        "tokenize = \"unicode61 remove_diacritics 0 tokenchars '_'\")"
    )
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE {_VOCABULARY} USING fts5vocab({_TABLE}, 'col')")
    return True


def index_passages(
    session: Session,
    book_id: int,  # noqa: ARG001 - FTS5 keeps none.
    passages: Sequence[tuple[int, tuple[str, ...]]],
) -> None:
    """See ``text_index``."""
    statement = f"INSERT INTO {_TABLE} (rowid, {', '.join(COLUMNS)}) VALUES (?, {', '.join('?' * len(COLUMNS))})"
    values = [(passage_id, *columns) for passage_id, columns in passages]
    session.connection().exec_driver_sql(statement, values)


def unindex_book(session: Session, book_id: int) -> None:
    """See ``text_index.unindex_book``."""
    connection = session.connection()
    connection.exec_driver_sql(
        f"DELETE FROM {_TABLE} WHERE rowid IN (SELECT id FROM passages WHERE book_id = ?)", (book_id,)
    )
    # Merging drops the old segments; until then deleted words stay in them.
    connection.exec_driver_sql(f"INSERT INTO {_TABLE} ({_TABLE}) VALUES ('optimize')")


def match(
    session: Session,
    alternatives: Sequence[tuple[str, str]],
    weights: Sequence[float],
    limit: int,
    book_ids: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """See ``text_index.match``."""
    # Quoted, so that no term is read as an operator.
    query = " OR ".join(f'{{{columns}}} : "{term.replace(chr(34), "")}"' for columns, term in alternatives)
    numbers = ", ".join(str(float(weight)) for weight in weights)
    scope = ""
    if book_ids is not None:
        marks = ", ".join(str(int(book_id)) for book_id in book_ids)
        scope = f"AND rowid IN (SELECT id FROM passages WHERE book_id IN ({marks}))"
    # Sorting by the hidden column "rank" lets FTS5 keep only the best while it goes.
    rows = session.connection().exec_driver_sql(
        f"SELECT rowid, -rank FROM {_TABLE} WHERE {_TABLE} MATCH ? AND rank MATCH 'bm25({numbers})' {scope} "
        "ORDER BY rank, rowid LIMIT ?",
        (query, limit),
    )
    return [(int(passage_id), float(score)) for passage_id, score in rows]


def document_frequencies(session: Session, term: str) -> dict[str, int]:
    """See ``text_index.document_frequencies``."""
    rows = session.connection().exec_driver_sql(f"SELECT col, doc FROM {_VOCABULARY} WHERE term = ?", (term,))
    return {str(column): int(count) for column, count in rows}


def indexed(session: Session, passage_ids: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """See ``text_index.indexed``."""
    marks = ", ".join(str(int(passage_id)) for passage_id in passage_ids)
    rows = session.connection().exec_driver_sql(
        f"SELECT rowid, words, folded, heading FROM {_TABLE} WHERE rowid IN ({marks})"
    )
    return {int(passage_id): (plain, folded, heading) for passage_id, plain, folded, heading in rows}


def index_size(session: Session) -> tuple[int, float]:
    """See ``text_index.index_size``. Reads all of the index."""
    count, mean = session.connection().exec_driver_sql(f"SELECT count(*), avg(length(words)) FROM {_TABLE}").one()
    return int(count), float(mean or 0.0)
