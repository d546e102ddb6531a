"""Opening the database: folder, connection, migrations, text index."""

import json
import logging
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
from deepedu.store import sqlite
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
        url = settings.url or f"sqlite:///{self.data_dir / DATABASE_NAME}"
        try:
            self.engine = sa.create_engine(url)
        except (sqlalchemy.exc.ArgumentError, ModuleNotFoundError) as error:
            raise StoreError(f"store.url: expected a usable SQLAlchemy URL, came {url!r}: {error}") from error
        if self.engine.dialect.name == "sqlite":
            sqlite.configure(self.engine)
        elif self.engine.dialect.name != "postgresql":
            raise StoreError(f"store.url: expected SQLite or PostgreSQL, came {self.engine.dialect.name!r}")
        writer = sqlite.for_writing(self.engine) if self.engine.dialect.name == "sqlite" else self.engine
        self.vault = Vault(self.data_dir, settings.key_file)
        self._migrate(writer)
        self._reading = sessionmaker(self.engine, expire_on_commit=False)
        self._writing = sessionmaker(writer, expire_on_commit=False)
        self._seal_plain_text()

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
            raise StoreError(f"the database in {self.data_dir} failed: {error.orig}") from error

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()

    def scrub(self) -> None:
        """Makes what was deleted or overwritten unreadable in the files too, as far as the database knows them."""
        if self.engine.dialect.name == "sqlite" and not sqlite.empty_journal(self.engine):
            log.warning(
                "the journal still holds what was deleted, because somebody reads the database: it goes tonight"
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
                if self.engine.dialect.name == "sqlite":
                    sqlite.ensure_text_index(connection)
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(
                f"cannot open the database in {self.data_dir}: {error.orig}. Is it a DeepEdu data folder, writable, "
                "on a disk with space? A damaged file can be restored from a copy, or moved away to start afresh"
            ) from error
        except CommandError as error:
            raise StoreError(
                f"the database in {self.data_dir} belongs to another version of DeepEdu ({error}); update this program"
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
