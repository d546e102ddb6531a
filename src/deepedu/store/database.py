"""Opening the database: folder, connection, migrations, text index."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
import sqlalchemy.exc
from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy.orm import Session, sessionmaker

from deepedu.base.config import StoreSettings
from deepedu.base.errors import NotFound, StoreError
from deepedu.store import postgres, sqlite, text_index
from deepedu.store.backup import backup_before_migration
from deepedu.store.tables import Turn, TurnSignal
from deepedu.store.vault import LOCAL, MARK, Vault

log = logging.getLogger(__name__)

DATABASE_NAME = "deepedu.sqlite3"
DOCUMENTS_NAME = "documents"


class Database:
    """The store of one data folder. Safe to share between threads; ``read()`` and ``write()`` are transactions."""

    def __init__(self, settings: StoreSettings) -> None:
        """Opens it, creating folder and tables where they are missing and migrating them where they are older.

        Raises:
            StoreError: the folder cannot be written, or the database is damaged or of a newer DeepEdu.
        """
        self.data_dir = settings.data_dir.expanduser()
        _make_private(self.data_dir)
        self.documents_dir = self.data_dir / DOCUMENTS_NAME
        _make_private(self.documents_dir)
        self.engine = _engine(settings.url or f"sqlite:///{self.data_dir / DATABASE_NAME}")
        if self._is_sqlite:
            sqlite.configure(self.engine)
            reader, writer = self.engine, sqlite.for_writing(self.engine)
        else:
            postgres.configure(self.engine)
            reader, writer = postgres.for_reading(self.engine), postgres.for_writing(self.engine)
        self.vault = Vault(self.data_dir, settings.key_file)
        self._migrate(writer)
        self._reading = sessionmaker(reader, expire_on_commit=False)
        self._writing = sessionmaker(writer, expire_on_commit=False)
        self._seal_plain_text()

    @property
    def _is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def _place(self) -> str:
        """Where the database is, for messages."""
        return f"in {self.data_dir}" if self._is_sqlite else f"at {self.engine.url}"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that only reads, over one unchanging state of the database.

        Raises:
            StoreError: the database itself failed (damaged, disk gone).
        """
        with self._translated(), self._reading.begin() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back when it raises. Writers take turns.

        Raises:
            StoreError: the database itself failed (another writer held it for 30 s, full disk, damaged).
        """
        with self._translated(), self._writing.begin() as session:
            yield session

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlalchemy.exc.IntegrityError:
            raise  # Two wrote the same thing: the caller's logic, not a fault of the database.
        except OverflowError as error:
            # Numbers from outside are not limited, those of rows are.
            raise NotFound("Không có mục nào mang số lớn như vậy.") from error
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(f"the database {self._place} failed: {postgres.message(error.orig)}") from error

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()

    def scrub(self) -> None:
        """Makes what was deleted or overwritten unreadable in the files too, as far as the database knows them.

        Raises:
            StoreError: the database itself failed.
        """
        with self._translated():
            is_clean = sqlite.empty_journal(self.engine) if self._is_sqlite else postgres.scrub(self.engine)
        if not is_clean:
            log.warning(
                "the database's files still hold what was deleted, because somebody reads the database: it goes tonight"
            )

    def _seal_plain_text(self) -> None:
        """Seals what was kept before there were keys."""
        with self.write() as session:
            turns = session.scalars(sa.select(Turn).where(Turn.question.not_like(f"{MARK}:%"))).all()
            for turn in turns:
                turn.question, turn.draft = self.vault.seal(LOCAL, turn.question), self.vault.seal(LOCAL, turn.draft)
                turn.answer = self.vault.seal(LOCAL, json.dumps(turn.answer)) if turn.answer is not None else None
                turn.error = self.vault.seal(LOCAL, turn.error) if turn.error is not None else None
            for signal in session.scalars(sa.select(TurnSignal).where(TurnSignal.detail.not_like(f"{MARK}:%"))).all():
                signal.detail = self.vault.seal(LOCAL, signal.detail)
        if turns:
            self.scrub()

    def _migrate(self, writer: sa.Engine) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        try:
            with writer.begin() as connection:
                config.attributes["connection"] = connection
                backup_before_migration(connection, self.data_dir)
                command.upgrade(config, "head")
                text_index.ensure_text_index(connection)
        except sqlalchemy.exc.DBAPIError as error:
            if not self._is_sqlite:
                raise StoreError(
                    f"cannot open the database {self._place}: {postgres.message(error.orig)}. Is PostgreSQL running "
                    f"there, is {postgres.PASSWORD_VARIABLE} the role's, and may the role make tables?"
                ) from error
            raise StoreError(
                f"cannot open the database in {self.data_dir}: {error.orig}. Is it a DeepEdu data folder, writable, "
                "on a disk with space? A damaged file can be restored from a copy, or moved away to start afresh"
            ) from error
        except CommandError as error:
            raise StoreError(
                f"the database {self._place} belongs to another version of DeepEdu ({error}); update this program"
            ) from error


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() != "postgresql":
            engine = sa.create_engine(parsed)
            if engine.dialect.name != "sqlite":
                raise StoreError(f"store.url: expected SQLite or PostgreSQL, came {engine.dialect.name!r}")
            return engine
        if parsed.drivername != postgres.DRIVER:
            raise StoreError(f"store.url: expected {postgres.DRIVER}://…, came {parsed.drivername}://…")
        if parsed.password is not None:
            raise StoreError(
                f"store.url: expected no password, came one; set {postgres.PASSWORD_VARIABLE} in the environment"
            )
        parsed = parsed.set(password=os.environ.get(postgres.PASSWORD_VARIABLE))
        return sa.create_engine(parsed)
    except sqlalchemy.exc.ArgumentError as error:
        raise StoreError(f"store.url: expected a usable SQLAlchemy URL, came {url!r}: {error}") from error
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store.url: no driver for {url!r}: {error}. For PostgreSQL: pip install 'deepedu[postgres]'"
        ) from error


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StoreError(
            f"cannot use the data folder {str(folder)!r}: {error.strerror}; name another with --data"
        ) from error
