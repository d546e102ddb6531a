"""A PostgreSQL server of the tests' own: on a Unix socket in a temporary folder, gone with them.

By default only the tests of PostgreSQL use one. With ``DEEPEDU_TEST_POSTGRES=1`` every ``Database`` that a test opens
in its own process is on it, so that any suite can be run on PostgreSQL by hand.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from deepedu.base.config import StoreSettings
from deepedu.store import Database

ROLE = "deepedu"
# In a data folder: the database that belongs to it. Copied with the folder, so a copied folder gets a copied database.
_MARK = ".test-database"
# A zone that is not UTC, as a school's server has it.
_CONFIGURATION = """
listen_addresses = ''
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 400
shared_buffers = '32MB'
timezone = 'Asia/Ho_Chi_Minh'
"""


class PostgresServer:
    """A running server; ``folder`` holds its socket, and its data below ``data``."""

    def __init__(self, folder: Path, template: str) -> None:
        self.folder = folder
        self._template = template

    def url(self, name: str) -> str:
        """Of a database, which is made where it is not there yet."""
        with self._administration() as connection:
            if not connection.execute(sa.text("SELECT 1 FROM pg_database WHERE datname = :n"), {"n": name}).scalar():
                connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE {self._template}')
        return self._url(name)

    def url_of(self, data_dir: Path) -> str:
        """Of the database that belongs to a data folder."""
        mark = data_dir / _MARK
        name = "d" + hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:24]
        was = mark.read_text() if mark.is_file() else name
        if was != name:
            with self._administration() as connection:
                connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE "{was}"')
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.write_text(name)
        return self.url(name)

    def _url(self, name: str) -> str:
        return f"postgresql+pg8000://{ROLE}@/{name}?unix_sock={self.folder}/.s.PGSQL.5432"

    def run(self, database: Database, statement: str) -> None:
        """Runs a statement of an administrator's in a database."""
        engine = sa.create_engine(database.engine.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def tables_files(self) -> bytes:
        """Everything that all tables' files hold, what was deleted but not yet overwritten included."""
        with self._administration() as connection:
            connection.exec_driver_sql("CHECKPOINT")
        return b"".join(file.read_bytes() for file in (self.folder / "data" / "base").rglob("*") if file.is_file())

    @contextmanager
    def _administration(self) -> Iterator[sa.Connection]:
        engine = sa.create_engine(self._url("postgres"), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection
        engine.dispose()


@contextmanager
def serve_postgres() -> Iterator[PostgresServer]:
    """Starts a server and ends it; skips the test where PostgreSQL is not installed."""
    pytest.importorskip("pg8000", reason="needs the extra 'postgres'")
    programs = _programs()
    # In the system's own folder for such, because a socket's path may have no more than 107 characters.
    with tempfile.TemporaryDirectory(prefix="deepedu-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        user = _prepare(folder)
        data = folder / "data"

        def call(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [programs / program, "-D", data, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                check=False,
                cwd=folder,
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
            assert done.returncode == 0, done.stdout

        call("initdb", "--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale", f"--username={ROLE}")
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"{_CONFIGURATION}unix_socket_directories = '{folder}'\n")
        call("pg_ctl", "start", "--wait", "--silent", "--log", str(folder / "log"))
        try:
            yield PostgresServer(folder, "template0")
        finally:
            call("pg_ctl", "stop", "--wait", "--silent", "--mode=immediate")


def every_database_on(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> list[Database]:
    """Lets every ``Database`` that is opened without a URL be on this server, one of its own for each data folder.

    Returns:
        Those that were opened. Some tests leave theirs to the garbage collector, which sockets complain about.
    """
    open_it = Database.__init__
    opened: list[Database] = []

    def on_postgres(self: Database, settings: StoreSettings) -> None:
        url = settings.url or server.url_of(settings.data_dir.expanduser())
        open_it(self, settings.model_copy(update={"url": url}))
        opened.append(self)

    monkeypatch.setattr(Database, "__init__", on_postgres)
    return opened


def _programs() -> Path:
    """The folder of initdb and pg_ctl."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    # Where Debian and Red Hat keep them, out of the path.
    folders += [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/pgsql/bin")]
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "pg_ctl").is_file():
            return folder
    pytest.skip("needs a PostgreSQL server: initdb and pg_ctl were not found")


def _prepare(folder: Path) -> str | None:
    """The user to run the server as; None: as ourselves. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        return user.pw_name
    pytest.skip("a PostgreSQL server does not run as root, and there is no user 'postgres'")
