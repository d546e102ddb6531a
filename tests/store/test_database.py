"""The store: private, durable, migrated, with a text index that follows the books."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from small_book import add_book

from deepedu.base.config import StoreSettings
from deepedu.base.errors import StoreError
from deepedu.store import Database, Lease, text_index
from deepedu.store.tables import Base, Book, Embedding, Passage, Section
from deepedu.store.terms import COLUMNS, INDEX_VERSION

WEIGHTS = [1.0] * len(COLUMNS)


def settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings(data_dir=tmp_path / "data")


@pytest.fixture
def database(tmp_path: Path):
    database = Database(settings(tmp_path))
    yield database
    database.close()


def found(database: Database, word: str) -> list[int]:
    with database.read() as session:
        return [passage_id for passage_id, _ in text_index.match(session, [(" ".join(COLUMNS), word)], WEIGHTS, 10)]


def test_data_folder_is_private(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    database = Database(settings(tmp_path))
    database.close()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_migrations_and_tables_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        # The text index is each database's own and derived; alembic would see its tables as unknown ones.
        opts = {"compare_type": True, "include_name": lambda name, *_: not str(name).startswith("passage_index_")}
        assert compare_metadata(MigrationContext.configure(connection, opts=opts), Base.metadata) == []


def test_reopening_keeps_everything(tmp_path: Path) -> None:
    first = Database(settings(tmp_path))
    add_book(first, "a", "nước sôi")
    first.close()
    second = Database(settings(tmp_path))
    assert len(found(second, "sôi")) == 1
    second.close()


@pytest.mark.sqlite_file
def test_a_missing_or_old_index_is_rebuilt_from_ready_books(tmp_path: Path) -> None:
    first = Database(settings(tmp_path))
    add_book(first, "a", "nước sôi")
    add_book(first, "b", "nước sôi", status="reading")
    with first.engine.begin() as connection:
        name = f"passage_index_{INDEX_VERSION}"
        connection.exec_driver_sql(f"DROP TABLE {name}")
        connection.exec_driver_sql("CREATE VIRTUAL TABLE passage_index_0 USING fts5(words)")
    first.close()
    second = Database(settings(tmp_path))
    assert len(found(second, "sôi")) == 1
    with second.engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
    assert "passage_index_0" not in names
    second.close()


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError, match="midway"), database.write() as session:  # noqa: PT012
        session.add(Book(sha256="x", source_name="x", format="text", title="x"))
        session.flush()
        raise RuntimeError("midway")
    with database.read() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 0


def test_deleting_a_book_takes_everything_of_it_and_nothing_else(database: Database) -> None:
    gone, kept = add_book(database, "a", "nước sôi bốc hơi"), add_book(database, "b", "nước sôi đóng băng")
    with database.write() as session:
        for passage in session.scalars(sa.select(Passage)):
            session.add(Embedding(passage_id=passage.id, model="m", vector=b"\0\0"))
    with database.write() as session:
        text_index.unindex_book(session, gone)
        session.execute(sa.delete(Book).where(Book.id == gone))
    with database.read() as session:
        assert session.scalars(sa.select(Passage.book_id)).all() == [kept]
        assert session.scalars(sa.select(Section.book_id)).all() == [kept]
        assert session.scalar(sa.select(sa.func.count()).select_from(Embedding)) == 1
    assert len(found(database, "sôi")) == 1


def test_ids_are_never_used_twice(database: Database) -> None:
    first = add_book(database, "a", "một")
    with database.write() as session:
        text_index.unindex_book(session, first)
        session.execute(sa.delete(Book).where(Book.id == first))
    assert add_book(database, "b", "hai") > first


@pytest.mark.sqlite_file
def test_a_foreign_file_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "deepedu.sqlite3").write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError, match="restored from a copy"):
        Database(settings(tmp_path))


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    first = Database(settings(tmp_path))
    with first.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    first.close()
    with pytest.raises(StoreError, match="another version"):
        Database(settings(tmp_path))


@pytest.mark.parametrize("url", ["mysql://h/d", "nonsense"])
def test_other_databases_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreError, match=r"store\.url"):
        Database(StoreSettings(data_dir=tmp_path / "data", url=url))


@pytest.mark.sqlite_file
def test_two_processes_opening_at_once_both_succeed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from deepedu.store import Database; from deepedu.base.config import StoreSettings; "
        "Database(StoreSettings(data_dir=pathlib.Path(sys.argv[1]))).close()"
    )
    folder = str(tmp_path / "data")
    children = [subprocess.Popen([sys.executable, "-c", program, folder]) for _ in range(4)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]


def test_lease_of_the_living_and_the_dead() -> None:
    assert Lease.parse(str(Lease.mine())).is_alive()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    lease = Lease(Lease.mine().host, child.pid, "")
    assert lease.is_alive()
    child.kill()
    child.wait()
    assert not lease.is_alive()


def test_lease_of_a_reused_process_id_is_dead() -> None:
    mine = Lease.mine()
    assert not Lease(mine.host, os.getpid(), "1").is_alive()
    assert Lease("another-machine", 1, "1").is_alive()
