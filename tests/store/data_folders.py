"""Data folders for tests of backups: what is in them, and what a backup holds of them."""

import contextlib
import hashlib
import io
import sqlite3
import tarfile
from pathlib import Path

import sqlalchemy as sa

from deepedu.store import Database
from deepedu.store.database import DATABASE_NAME


def write_pair(database: Database, number: int) -> None:
    with database.write() as session:
        for side in "ab":
            session.execute(sa.text("INSERT INTO pairs VALUES (:number, :side)"), {"number": number, "side": side})


def pairs(file: Path) -> dict[int, str]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT number, group_concat(side, '') FROM pairs GROUP BY number").fetchall()
    return dict(rows)


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {m.name: source.read() for m in archive if (source := archive.extractfile(m))}


def tree(folder: Path) -> dict[str, str]:
    """Digests of all files of a folder, without those that SQLite makes and removes as it likes."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def close(database: Database) -> None:
    """Closes it for good: all of it in the one file, as a restore leaves what it sets aside."""
    database.close()
    with contextlib.closing(sqlite3.connect(database.data_dir / DATABASE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def forged(target: Path, entries: list[tuple[tarfile.TarInfo, bytes]], *, manifest: bytes | None) -> Path:
    """A backup that was not made by us."""
    with tarfile.open(target, "w:gz") as archive:
        for member, content in entries:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if manifest is not None:
            member = tarfile.TarInfo("manifest.json")
            member.size = len(manifest)
            archive.addfile(member, io.BytesIO(manifest))
    return target
