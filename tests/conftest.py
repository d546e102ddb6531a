"""Fixtures shared by all tests."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepedu.base.config import IngestSettings, StoreSettings
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.store import Database
from loopback_model import Endpoint, serve_model
from postgres_server import PostgresServer, every_database_on, serve_postgres

IS_ON_POSTGRES = bool(os.environ.get("DEEPEDU_TEST_POSTGRES"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, beside the checkout or named by ``DEEPEDU_DATA``."""
    named = os.environ.get("DEEPEDU_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set DEEPEDU_DATA to where they are")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for these tests alone, skipped with the reason where there is none."""
    with serve_postgres() as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    if IS_ON_POSTGRES:
        # Threads that outlive a test leave their connection to the garbage collector; SQLite's say nothing of it.
        config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what can only be asked of SQLite, where everything is on PostgreSQL."""
    for item in items:
        if IS_ON_POSTGRES and item.get_closest_marker("sqlite_file"):
            item.add_marker(pytest.mark.skip(reason="reads the file of a SQLite database, or opens it from a process"))


@pytest.fixture
def on_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """Every ``Database`` of the test on PostgreSQL, one of its own for each data folder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        opened = every_database_on(postgres, monkeypatch)
        yield postgres
        for database in opened:
            database.close()


@pytest.fixture(scope="session")
def _on_postgres(request: pytest.FixtureRequest) -> Iterator[list[Database]]:
    """Nothing by itself; with ``DEEPEDU_TEST_POSTGRES=1`` suites that were written for SQLite run on PostgreSQL."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield every_database_on(request.getfixturevalue("postgres"), monkeypatch) if IS_ON_POSTGRES else []


@pytest.fixture(autouse=True)
def _closed_connections(_on_postgres: list[Database]) -> Iterator[None]:
    yield
    for database in _on_postgres:
        database.close()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's settings or writes into the developer's data folder."""
    for variable in list(os.environ):
        if variable.startswith("DEEPEDU_") and variable != "DEEPEDU_DATA":
            monkeypatch.delenv(variable)
    monkeypatch.setenv("DEEPEDU_STORE_DATA_DIR", str(tmp_path / "data"))
    # A worker in the background would outlive its test.
    monkeypatch.setenv("DEEPEDU_SEARCH_EMBED_AFTER_INGEST", "off")


@pytest.fixture(scope="session")
def _sample_data(tmp_path_factory: pytest.TempPathFactory, _on_postgres: list[Database]) -> Path:
    """The sample textbook ingested once for all tests; copied, not shared, because tests write."""
    folder = tmp_path_factory.mktemp("sample") / "data"
    database = Database(StoreSettings(data_dir=folder))
    outcome = ingest(database, [SAMPLE_PDF], IngestSettings())[0]
    assert outcome.status == "added", outcome.message
    database.close()
    return folder


@pytest.fixture
def sample_library(_sample_data: Path, tmp_path: Path) -> Iterator[Database]:
    """A library of one book, the sample textbook, at the place where commands under test look for theirs."""
    folder = tmp_path / "data"
    shutil.copytree(_sample_data, folder)
    database = Database(StoreSettings(data_dir=folder))
    yield database
    database.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A model server on loopback whose replies the test sets."""
    with serve_model() as served:
        yield served
