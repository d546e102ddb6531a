"""The one place for what only PostgreSQL understands: transactions, its errors, and a text index made of tables.

The index is derived from ``passages``, as SQLite's is, and rebuilt whenever it is missing or of another version. It is
built and ranked here because PostgreSQL's own full text search knows no BM25 and no document frequencies.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
import sqlalchemy.exc
from sqlalchemy import event
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, StoreError
from deepedu.store.terms import COLUMNS, INDEX_VERSION, SENTENCE_MARK

DRIVER = "postgresql+pg8000"
# Of the role, where the server asks for one.
PASSWORD_VARIABLE = "DEEPEDU_STORE_PASSWORD"

# Any number, so long as all DeepEdu's processes at one database agree on it.
_WRITERS_TURN = 0x64656570656475
_WAIT_S = 30
# Nobody who signs in waits longer for ``scrub``.
_SCRUB_WAIT_S = 2
# Tables with names that are not sealed.
_PLAIN_NAMES = ("people", "consents", "api_keys", "turn_signals")

_TEXTS = f"passage_index_{INDEX_VERSION}"
_BOOKS = f"{_TEXTS}_books"
_POSTINGS = f"{_TEXTS}_terms"
# What an index of PostgreSQL takes has an end. No word of any language is cut by this.
_LONGEST_TERM = 500
_ROWS_AT_ONCE = 5000


def configure(engine: sa.Engine) -> None:
    """Sets up every new connection and transaction, and gives errors the classes that SQLite's have."""

    @event.listens_for(engine, "do_connect")
    def _do_connect(dialect: sa.Dialect, _record: Any, arguments: Any, named: Any) -> Any:
        try:
            return dialect.connect(*arguments, **named)
        except AttributeError as error:
            if named.get("password") is not None:
                raise
            # The driver falls over itself where the server asks for a password and there is none.
            raise StoreError(
                f"the database at {engine.url} asks for a password, and there is none: set {PASSWORD_VARIABLE} in the "
                "environment"
            ) from error

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SET lock_timeout = '{_WAIT_S}s'")
        connection.commit()
        cursor.close()

    @event.listens_for(engine, "checkout")
    def _on_checkout(connection: Any, _record: Any, _proxy: Any) -> None:
        # SQLAlchemy's own ``pool_pre_ping`` leaves a transaction open, in which none can be begun as it should be.
        connection.autocommit = True
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT 1")
            cursor.close()
        except (engine.dialect.loaded_dbapi.Error, OSError) as error:
            raise sqlalchemy.exc.DisconnectionError(message(error)) from error  # The pool makes another.
        connection.autocommit = False

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        statement = connection.get_execution_options().get("postgres_begin")
        if statement:
            connection.exec_driver_sql(statement)

    @event.listens_for(engine, "handle_error")
    def _on_error(context: sa.engine.ExceptionContext) -> None:
        if isinstance(context.original_exception, OSError):
            # The driver lets the socket's own errors through. The pool finds out at the next checkout.
            raise StoreError(f"the database at {engine.url} is gone: {context.original_exception}")
        state = _told(context.original_exception).get("C", "")
        if state.startswith("23") and not isinstance(context.sqlalchemy_exception, sqlalchemy.exc.IntegrityError):
            # The driver knows only some of the broken constraints as such.
            raise sqlalchemy.exc.IntegrityError(context.statement, context.parameters, context.original_exception)
        if state == "22003":
            raise OverflowError(message(context.original_exception))
        # SQLite keeps both.
        if state == "22021":
            raise BadRequest("Chữ gửi lên có ký tự mà cơ sở dữ liệu không lưu được (ký tự rỗng): hãy bỏ nó đi.")
        if state == "22001":
            raise BadRequest("Một giá trị gửi lên dài hơn chỗ dành cho nó trong cơ sở dữ liệu: hãy viết ngắn lại.")


def for_reading(engine: sa.Engine) -> sa.Engine:
    """The same engine, its transactions seeing one unchanging state and refusing to write.

    PostgreSQL by itself shows each statement whatever was committed just before it. A write would pass by the other
    writers' turn, so it is an error.
    """
    return engine.execution_options(postgres_begin="SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def for_writing(engine: sa.Engine) -> sa.Engine:
    """The same engine, its transactions taking turns, as SQLite's writers do.

    What reads and then writes relies on nobody writing in between: numbers of versions, quotas, the last admin. The
    lock is the transaction's, so it goes with it, even with a process that is killed. The isolation stays READ
    COMMITTED: every statement after the lock sees all that was committed by those before, while under REPEATABLE READ
    the waiting itself would fix a state that is old by the time the turn comes.
    """
    return engine.execution_options(postgres_begin=f"SELECT pg_advisory_xact_lock({_WRITERS_TURN})")


def scrub(engine: sa.Engine) -> bool:
    """Writes the tables anew that hold names in plain text, so that those of deleted people leave the tables' files.
    The server's own log (WAL) holds them until it is overwritten, a matter of its settings. False: a table was in use,
    so nothing or not everything was done.

    What people wrote needs none of this: it is sealed, and unreadable since its key was destroyed.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            # For this connection alone, and closed after: others wait for longer.
            connection.exec_driver_sql(f"SET lock_timeout = '{_SCRUB_WAIT_S}s'")
            for table in _PLAIN_NAMES:
                connection.exec_driver_sql(f"VACUUM (FULL) {table}")
        except sqlalchemy.exc.DBAPIError as error:
            if _told(error.orig).get("C") != "55P03":  # lock_not_available
                raise
            return False
        finally:
            connection.invalidate()
    return True


def message(error: BaseException | None) -> str:
    """What went wrong, in the server's own words."""
    return _told(error).get("M") or str(error)


def _told(error: BaseException | None) -> dict[str, str]:
    """The fields of the server's error message, by their letters: ``C`` the code, ``M`` the text."""
    fields = error.args[0] if error is not None and error.args else None
    return fields if isinstance(fields, dict) else {}


# --- The text index --------------------------------------------------------------------------------------------------


def create_text_index(connection: sa.Connection) -> bool:
    """See ``text_index``."""
    tables = {name for name in sa.inspect(connection).get_table_names() if name.startswith("passage_index_")}
    current = {_TEXTS, _BOOKS, _POSTINGS}
    is_whole = current <= tables
    for old in sorted(tables - (current if is_whole else set())):
        connection.exec_driver_sql(f"DROP TABLE {old}")
    if is_whole:
        return False
    connection.exec_driver_sql(
        f"CREATE TABLE {_TEXTS} (passage_id integer PRIMARY KEY REFERENCES passages ON DELETE CASCADE, "
        "words text NOT NULL, folded text NOT NULL, heading text NOT NULL)"
    )
    # ``lengths``: terms of each passage in all columns together; ``characters``: of all ``words``.
    connection.exec_driver_sql(
        f"CREATE TABLE {_BOOKS} (book_id integer PRIMARY KEY REFERENCES books ON DELETE CASCADE, "
        "passages integer[] NOT NULL, lengths integer[] NOT NULL, terms bigint NOT NULL, characters bigint NOT NULL)"
    )
    # One row for all places of a term in a column of a book: a row for each passage would take ten times the space.
    connection.exec_driver_sql(
        f'CREATE TABLE {_POSTINGS} (term text COLLATE "C", place smallint, '
        "book_id integer REFERENCES books ON DELETE CASCADE, "
        "passages integer[] NOT NULL, counts integer[] NOT NULL, PRIMARY KEY (term, place, book_id))"
    )
    connection.exec_driver_sql(f"CREATE INDEX ix_{_POSTINGS}_book_id ON {_POSTINGS} (book_id)")
    return True


def index_passages(session: Session, book_id: int, passages: Sequence[tuple[int, tuple[str, ...]]]) -> None:
    """See ``text_index``."""
    texts: list[tuple[int, str, str, str]] = []
    lengths: list[int] = []
    postings: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for passage_id, columns in passages:
        stored = dict(zip(COLUMNS, columns, strict=True))
        texts.append((passage_id, stored["words"], stored["folded"], stored["heading"]))
        counts = Counter(
            (term[:_LONGEST_TERM], place)
            for place, column in enumerate(columns)
            for term in column.split()
            if term != SENTENCE_MARK
        )
        lengths.append(counts.total())
        for key, count in counts.items():
            postings[key].append((passage_id, count))
    _insert(session, book_id, texts, lengths, postings)


def _insert(
    session: Session,
    book_id: int,
    texts: Sequence[tuple[int, str, str, str]],
    lengths: Sequence[int],
    postings: dict[tuple[str, int], list[tuple[int, int]]],
) -> None:
    # Arrays, because the driver sends rows one by one and waits after each.
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        some = texts[start : start + _ROWS_AT_ONCE]
        ids, plain, folded, headings = (list(column) for column in zip(*some, strict=True))
        session.execute(
            sa.text(
                f"INSERT INTO {_TEXTS} SELECT * FROM unnest(CAST(:ids AS integer[]), CAST(:plain AS text[]), "
                "CAST(:folded AS text[]), CAST(:headings AS text[]))"
            ),
            {"ids": ids, "plain": plain, "folded": folded, "headings": headings},
        )
    session.execute(
        sa.text(
            f"INSERT INTO {_BOOKS} VALUES (:book, CAST(:ids AS integer[]), CAST(:lengths AS integer[]), "
            ":terms, :characters)"
        ),
        {
            "book": book_id,
            "ids": [row[0] for row in texts],
            "lengths": list(lengths),
            "terms": sum(lengths),
            "characters": sum(len(row[1]) for row in texts),
        },
    )
    rows = list(postings.items())
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        # Arrays of arrays have to be rectangular: each row's own travel as text.
        session.execute(
            sa.text(
                f"INSERT INTO {_POSTINGS} SELECT term, place, :book, CAST(passages AS integer[]), "
                "CAST(counts AS integer[]) FROM unnest(CAST(:terms AS text[]), CAST(:places AS smallint[]), "
                "CAST(:passages AS text[]), CAST(:counts AS text[])) AS posting (term, place, passages, counts)"
            ),
            {
                "book": book_id,
                "terms": [term for (term, _), _ in some],
                "places": [place for (_, place), _ in some],
                "passages": [_array(passage_id for passage_id, _ in found) for _, found in some],
                "counts": [_array(count for _, count in found) for _, found in some],
            },
        )


def _array(numbers: Any) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def unindex_book(session: Session, book_id: int) -> None:
    """See ``text_index.unindex_book``."""
    book = {"book": book_id}
    session.execute(
        sa.text(f"DELETE FROM {_TEXTS} WHERE passage_id IN (SELECT id FROM passages WHERE book_id = :book)"), book
    )
    session.execute(sa.text(f"DELETE FROM {_BOOKS} WHERE book_id = :book"), book)
    session.execute(sa.text(f"DELETE FROM {_POSTINGS} WHERE book_id = :book"), book)


# FTS5's bm25() to the letter, its smallest idf included: a library answers the same on both databases. How rare a term
# is, is counted over all books, also where only some are searched; sums go in the order of the terms, as FTS5's do.
_MATCH = f"""
WITH library AS (
  SELECT CAST(sum(cardinality(passages)) AS float8) AS size, CAST(sum(terms) AS float8) AS terms FROM {_BOOKS}
), wanted AS (
  SELECT * FROM unnest(
    CAST(:numbers AS integer[]), CAST(:places AS smallint[]), CAST(:terms AS text[]), CAST(:weights AS float8[])
  ) AS wanted (number, place, term, weight)
), hits AS MATERIALIZED (
  SELECT wanted.number, book_id, passage_id, sum(weight * count) AS frequency
  FROM wanted JOIN {_POSTINGS} USING (term, place)
  CROSS JOIN LATERAL unnest(passages, counts) AS hit (passage_id, count)
  GROUP BY wanted.number, book_id, passage_id
), rarity AS (
  SELECT number, greatest(ln((size - count(*) + 0.5) / (count(*) + 0.5)), 1e-6) AS idf
  FROM hits CROSS JOIN library GROUP BY number, size
), lengths AS (
  SELECT book_id, passage_id, length
  FROM {_BOOKS} CROSS JOIN LATERAL unnest(passages, lengths) AS passage (passage_id, length)
)
SELECT passage_id, sum(
  idf * (frequency * 2.2) / (frequency + 1.2 * (0.25 + 0.75 * length / (terms / size))) ORDER BY number
) AS score
FROM hits JOIN rarity USING (number) JOIN lengths USING (book_id, passage_id) CROSS JOIN library
WHERE CAST(:books AS bigint[]) IS NULL OR book_id = ANY (CAST(:books AS bigint[]))
GROUP BY passage_id ORDER BY score DESC, passage_id LIMIT :limit
"""


def match(
    session: Session,
    alternatives: Sequence[tuple[str, str]],
    weights: Sequence[float],
    limit: int,
    book_ids: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """See ``text_index.match``."""
    wanted = [
        (number, place, term[:_LONGEST_TERM], float(weights[place]))
        for number, (columns, term) in enumerate(alternatives)
        for place in map(COLUMNS.index, columns.split())
    ]
    if not wanted:
        return []
    numbers, places, terms, worth = (list(column) for column in zip(*wanted, strict=True))
    rows = session.execute(
        sa.text(_MATCH),
        {
            "numbers": numbers,
            "places": places,
            "terms": terms,
            "weights": worth,
            "books": None if book_ids is None else list(book_ids),
            "limit": limit,
        },
    )
    return [(int(passage_id), float(score)) for passage_id, score in rows]


def document_frequencies(session: Session, term: str) -> dict[str, int]:
    """See ``text_index.document_frequencies``."""
    rows = session.execute(
        sa.text(f"SELECT place, sum(cardinality(passages)) FROM {_POSTINGS} WHERE term = :term GROUP BY place"),
        {"term": term[:_LONGEST_TERM]},
    )
    return {COLUMNS[place]: int(count) for place, count in rows}


def indexed(session: Session, passage_ids: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """See ``text_index.indexed``."""
    rows = session.execute(
        sa.text(
            f"SELECT passage_id, words, folded, heading FROM {_TEXTS} WHERE passage_id = ANY (CAST(:ids AS bigint[]))"
        ),
        {"ids": list(passage_ids)},
    )
    return {int(passage_id): (plain, folded, heading) for passage_id, plain, folded, heading in rows}


def index_size(session: Session) -> tuple[int, float]:
    """See ``text_index.index_size``."""
    count, characters = session.execute(
        sa.text(f"SELECT sum(cardinality(passages)), sum(characters) FROM {_BOOKS}")
    ).one()
    return int(count or 0), float(characters or 0) / max(1, int(count or 0))
