"""PostgreSQL keeps the promises that SQLite does: tables, turns of writers, unchanging readers, errors, text index."""

import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
import sqlalchemy.exc
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from click.testing import CliRunner
from small_book import add_book

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, NotFound, StoreError, Unsupported
from deepedu.cli.main import cli
from deepedu.store import Database, text_index
from deepedu.store.backup import write_backup
from deepedu.store.tables import Base, Book, LoginSession, Person, SchoolClass
from deepedu.store.terms import COLUMNS
from postgres_server import PostgresServer


@pytest.fixture
def database(on_postgres: PostgresServer, tmp_path: Path) -> Iterator[Database]:
    database = Database(StoreSettings(data_dir=tmp_path / "data", url=on_postgres.url_of(tmp_path / "data")))
    yield database
    database.close()


def person(username: str) -> Person:
    return Person(public_id=username, role="student", username=username, full_name=f"Em {username}")


def test_migrations_and_tables_agree(database: Database) -> None:
    assert database.engine.dialect.name == "postgresql"
    with database.engine.connect() as connection:
        opts = {"compare_type": True, "include_name": lambda name, *_: not str(name).startswith("passage_index_")}
        assert compare_metadata(MigrationContext.configure(connection, opts=opts), Base.metadata) == []


def test_who_opens_an_empty_database_at_once_waits_for_the_first(on_postgres: PostgresServer, tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path / "data", url=on_postgres.url_of(tmp_path / "data"))
    failures: list[Exception] = []

    def open_it() -> None:
        try:
            Database(settings).close()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_writers_take_turns(database: Database) -> None:
    """Each reads and then writes what it read plus one: nothing is lost only if nobody writes in between."""
    with database.write() as session:
        session.add(person("an"))

    def count_up() -> None:
        for _ in range(10):
            with database.write() as session:
                row = session.scalars(sa.select(Person)).one()
                time.sleep(0.001)
                row.failed_logins += 1

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert session.scalars(sa.select(Person.failed_logins)).one() == 40


def test_a_reader_sees_one_state_and_writes_nothing(database: Database) -> None:
    count = sa.select(sa.func.count()).select_from(Person)
    with database.read() as session:
        assert session.scalar(count) == 0
        with database.write() as other:
            other.add(person("an"))
        assert session.scalar(count) == 0
    with pytest.raises(StoreError, match="read-only"), database.read() as session:  # noqa: PT012
        assert session.scalar(count) == 1
        session.execute(sa.delete(Person))


def test_errors_are_those_of_sqlite(database: Database) -> None:
    with pytest.raises(NotFound), database.read() as session:
        session.scalar(sa.select(Person).where(Person.id == 2**40))
    with database.write() as session:
        session.add(person("an"))
    with pytest.raises(sqlalchemy.exc.IntegrityError), database.write() as session:
        session.add(person("an"))
    nobodys = LoginSession(token_digest="x", person_id=999, expires_at=datetime.now(UTC))
    with pytest.raises(sqlalchemy.exc.IntegrityError), database.write() as session:
        session.add(nobodys)


@pytest.mark.parametrize("name", ["6\0A", "6" * 65])
def test_what_postgresql_cannot_keep_is_a_bad_request(database: Database, name: str) -> None:
    with pytest.raises(BadRequest), database.write() as session:
        session.add(SchoolClass(name=name, school_year="2026-2027"))


def test_times_are_utc_wherever_the_server_stands(database: Database) -> None:
    with database.write() as session:
        session.add(person("an"))
    with database.read() as session:
        assert session.connection().exec_driver_sql("SHOW timezone").scalar() == "Asia/Ho_Chi_Minh"
        at = session.scalars(sa.select(Person.created_at)).one()
    assert at.tzinfo is UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60


def test_a_server_that_was_started_anew_is_found_again(on_postgres: PostgresServer, database: Database) -> None:
    with database.read() as session:
        session.scalar(sa.select(Person.id))
    on_postgres.run(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    with database.read() as session:
        assert session.scalar(sa.select(Person.id)) is None


def test_a_server_that_goes_away_in_a_transaction_is_told_as_such(
    on_postgres: PostgresServer, database: Database
) -> None:
    def interrupted() -> None:
        with database.write() as session:
            session.add(person("an"))
            session.flush()
            on_postgres.run(
                database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            session.scalar(sa.select(Person.id))

    with pytest.raises(StoreError, match="the database at"):
        interrupted()
    with database.read() as session:
        assert session.scalar(sa.select(Person.id)) is None


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql+pg8000://deepedu:geheim@127.0.0.1/deepedu", "DEEPEDU_STORE_PASSWORD"),
        ("postgresql+psycopg://deepedu@127.0.0.1/deepedu", r"postgresql\+pg8000"),
        ("postgresql+pg8000://deepedu@127.0.0.1:1/deepedu", "Is PostgreSQL running"),
    ],
)
def test_a_url_that_will_not_do(tmp_path: Path, url: str, told: str) -> None:
    pytest.importorskip("pg8000", reason="needs the extra 'postgres'")
    with pytest.raises(StoreError, match=told) as raised:
        Database(StoreSettings(data_dir=tmp_path / "data", url=url))
    assert "geheim" not in str(raised.value)


def found(database: Database, word: str) -> list[int]:
    with database.read() as session:
        return [each for each, _ in text_index.match(session, [(" ".join(COLUMNS), word)], [1.0] * len(COLUMNS), 10)]


@pytest.mark.parametrize("missing", ["", "_books", "_terms"])
def test_a_missing_or_old_index_is_rebuilt_from_ready_books(
    on_postgres: PostgresServer, database: Database, missing: str
) -> None:
    add_book(database, "a", "nước sôi")
    add_book(database, "b", "nước sôi", status="reading")
    tables = [name for name in sa.inspect(database.engine).get_table_names() if name.startswith("passage_index_")]
    on_postgres.run(database, f"DROP TABLE {min(tables)}{missing}")
    on_postgres.run(database, "CREATE TABLE passage_index_0 (words text)")
    database.close()
    again = Database(StoreSettings(data_dir=database.data_dir))
    assert len(found(again, "sôi")) == 1
    names = sa.inspect(again.engine).get_table_names()
    assert sorted(name for name in names if name.startswith("passage_index_")) == sorted(tables)


def test_a_book_that_goes_leaves_nothing_in_the_index(database: Database) -> None:
    gone, kept = add_book(database, "a", "nước sôi bốc hơi"), add_book(database, "b", "nước sôi đóng băng")
    assert len(found(database, "sôi")) == 2
    with database.write() as session:
        text_index.unindex_book(session, gone)
        session.execute(sa.delete(Book).where(Book.id == gone))
    assert (len(found(database, "sôi")), found(database, "bốc")) == (1, [])
    with pytest.raises(RuntimeError, match="midway"), database.write() as session:  # noqa: PT012
        text_index.unindex_book(session, kept)
        raise RuntimeError("midway")
    assert len(found(database, "sôi")) == 1


def test_a_term_longer_than_an_index_takes(database: Database) -> None:
    long = "".join(chr(0x4E00 + n * 7 % 9000) for n in range(3000))
    add_book(database, "a", f"{long} nước")
    assert len(found(database, long)) == len(found(database, "nước")) == 1


def test_a_backup_is_pg_dump_and_the_keys(database: Database, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="pg_dump"):
        write_backup(database, tmp_path / "b.tar.gz")
    keys = tmp_path / "usb" / "deepedu.keys"
    keys.parent.mkdir()
    told = CliRunner().invoke(cli, ["--data", str(database.data_dir), "backup", "--keys", str(keys)])
    assert told.exit_code == 0, told.output
    assert keys.stat().st_size > 0
    refused = CliRunner().invoke(
        cli,
        ["--data", str(database.data_dir), "restore", str(keys)],
        env={"DEEPEDU_STORE_URL": database.engine.url.render_as_string()},
    )
    assert isinstance(refused.exception, Unsupported)


# The driver leaves its connection open when it fails so.
@pytest.mark.filterwarnings(
    "ignore:.*unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_server_that_asks_for_a_password_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pg8000", reason="needs the extra 'postgres'")
    monkeypatch.delenv("DEEPEDU_STORE_PASSWORD", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def ask() -> None:
            with listener.accept()[0] as client:
                # Whether there is TLS here, which there is not, and then who it is.
                client.recv(1000)
                client.sendall(b"N")
                client.recv(1000)
                mechanisms = b"SCRAM-SHA-256\0\0"
                client.sendall(b"R" + struct.pack("!ii", 8 + len(mechanisms), 10) + mechanisms)
                client.recv(1000)

        asking = threading.Thread(target=ask)
        asking.start()
        url = f"postgresql+pg8000://deepedu@127.0.0.1:{listener.getsockname()[1]}/deepedu"
        with pytest.raises(StoreError, match="asks for a password, and there is none: set DEEPEDU_STORE_PASSWORD"):
            Database(StoreSettings(data_dir=tmp_path / "data", url=url))
        gc.collect()
        asking.join(10)
        assert not asking.is_alive()
