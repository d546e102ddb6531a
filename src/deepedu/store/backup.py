"""Backup of a data folder: one file that holds the database and the documents, and never a key.

A backup is a gzipped tar. Its last member, ``manifest.json``, names every other one with its digest, so that a backup
that was cut off is recognised. Keys are left out on purpose: what was sealed with a key that is destroyed later must be
unreadable in old backups too.
"""

import fnmatch
import gzip
import hashlib
import logging
import os
import sqlite3
import tarfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from deepedu import __version__
from deepedu.base.errors import BadRequest, StoreError, Unsupported
from deepedu.store.durable_files import create_file, discard, sync_folder, why_failed
from deepedu.store.lease import Lease

if TYPE_CHECKING:
    # Only its type: the database calls ``backup_before_migration``.
    from deepedu.store.database import Database

log = logging.getLogger(__name__)

FORMAT = 1
# Patterns of names that no backup holds and that no backup can bring in; a restore leaves these files in use.
KEY_NAMES = ("keys.sqlite3*", "school.key*")
# Where copies made before migrations lie in the data folder.
MIGRATION_COPIES = "before-migration"
COPIES_KEPT = 3

# The database's name in a backup, wherever it lay.
DATABASE_MEMBER = "deepedu.sqlite3"
_MANIFEST_MEMBER = "manifest.json"
_PART = ".deepedu-backup."
# Stands in a folder that a restore has not filled yet.
UNFINISHED = ".restoring"
_MOST_MANIFEST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
# Databases shrink to a third even so, and documents are compressed already.
_GZIP_LEVEL = 1
# Two backups of one process would take each other's files for left ones.
_writing = threading.Lock()


class BackedUpFile(BaseModel):
    """A file of a backup; ``path`` is relative to the data folder, parted by slashes."""

    model_config = ConfigDict(frozen=True)

    path: str
    bytes: int
    sha256: str


class _ManifestHead(BaseModel):
    """What every format's manifest tells, later ones too."""

    model_config = ConfigDict(frozen=True)

    format: int
    deepedu: str
    schema_revision: str


class Manifest(_ManifestHead):
    """What a backup holds. ``schema_revision`` is the database's, as Alembic names it."""

    created_at: AwareDatetime
    files: tuple[BackedUpFile, ...]

    @property
    def content_bytes(self) -> int:
        """Size of all files when unpacked."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class BackupReport:
    """A finished backup. ``left_out``: files of the data folder that it does not hold: keys, links, special files."""

    path: Path
    bytes: int
    manifest: Manifest
    left_out: tuple[str, ...]


def write_backup(
    database: "Database", target: Path, *, exclude: Iterable[str] = (), replace: bool = False
) -> BackupReport:
    """Backs a data folder up while it is in use. ``target`` appears when it is complete and on disk, or not at all.

    Args:
        exclude: more names or patterns (``*.log``) that are left out, in any folder; ``KEY_NAMES`` always are.
        replace: whether an existing ``target`` is overwritten.

    Raises:
        Unsupported: the database is not SQLite.
        BadRequest: ``target`` exists, is a folder, or lies within the data folder.
        StoreError: the disk is full, ``target`` cannot be written, or a file cannot be read.
    """
    if database.engine.dialect.name != "sqlite":
        raise Unsupported(
            f"lệnh sao lưu chỉ dùng cho SQLite, nhưng store.url là {database.engine.dialect.name}: hãy sao lưu cơ sở "
            f"dữ liệu bằng pg_dump, chép thư mục {database.documents_dir} bằng tay, và chép khóa bằng "
            "'deepedu backup --keys TỆP'"
        )
    target = target.expanduser().absolute()
    _check_target(target, database.data_dir, replace=replace)
    keys = (*KEY_NAMES, database.vault.key_file.name, *exclude)
    snapshot = target.with_name(f"{_PART}{os.getpid()}.sqlite3")
    part = target.with_name(f"{_PART}{os.getpid()}.tar.gz")
    with _writing:
        try:
            _remove_leftovers(target.parent)
            with closing(database.engine.raw_connection()) as connection:
                _vacuum_into(connection.cursor(), snapshot)
            with create_file(part) as file:
                manifest, left_out = _write_archive(file, database, snapshot, keys)
                file.flush()
                os.fsync(file.fileno())
            size_bytes = part.stat().st_size
            part.replace(target)
            sync_folder(target.parent)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"không sao lưu được vào {target}: {why_failed(error)}") from error
        finally:
            discard(snapshot)
            discard(part)
    return BackupReport(target, size_bytes, manifest, left_out)


def check_backup(file: Path) -> Manifest:
    """Reads a backup from end to end and holds every digest against its manifest. Writes nothing.

    Raises:
        StoreError: it cannot be read, is damaged or cut off, holds what no backup of ours holds, or is of a newer
            DeepEdu.
    """
    return read_archive(file, None)


def backup_before_migration(connection: sa.Connection, data_dir: Path, *, keep: int = COPIES_KEPT) -> Path | None:
    """Copies the database before it is migrated; call with the write lock held, before anything is changed.

    Args:
        connection: to the database that is about to be migrated.
        data_dir: copies go to its folder ``before-migration``, of which the ``keep`` newest are kept.

    Returns:
        The copy; None where there is nothing to migrate, or a database that this program does not know.

    Raises:
        StoreError: the copy cannot be written. Do not migrate then.
    """
    source = connection.engine.url.database
    if connection.dialect.name != "sqlite" or not source or source == ":memory:":
        return None
    revision = MigrationContext.configure(connection).get_current_revision()
    scripts = _scripts()
    if revision is None or revision == scripts.get_current_head() or revision not in _known_revisions(scripts):
        return None
    folder = data_dir / MIGRATION_COPIES
    copy = folder / f"{stamp()}-{revision}.sqlite3"
    part = folder / f"{_PART}{os.getpid()}.sqlite3"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _remove_leftovers(folder)
        # A reader of its own: it sees what was committed, and does not mind the write lock.
        with closing(sqlite3.connect(source, timeout=30)) as reader:
            _vacuum_into(reader.cursor(), part)
        part.replace(copy)
        sync_folder(folder)
        for old in sorted(folder.glob("*.sqlite3"))[:-keep]:
            old.unlink()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"không chép được cơ sở dữ liệu vào {folder} trước khi nâng cấp: {why_failed(error)}. "
            "Dữ liệu chưa bị thay đổi"
        ) from error
    finally:
        discard(part)
    log.warning("the database is migrated from %s; a copy of it as it was is %s", revision, copy)
    return copy


# --- Writing ---------------------------------------------------------------------------------------------------------


def _check_target(target: Path, data_dir: Path, *, replace: bool) -> None:
    if target.is_dir():
        raise BadRequest(f"{target} là thư mục: hãy ghi cả tên tệp, ví dụ {target / 'deepedu.tar.gz'}")
    if not target.parent.is_dir():
        raise BadRequest(f"không có thư mục {target.parent}: hãy tạo thư mục đó, hoặc cắm ổ đĩa sao lưu")
    if target.parent.resolve().is_relative_to(data_dir.resolve()):
        raise BadRequest(f"{target} nằm trong thư mục dữ liệu, mất cùng với nó: hãy sao lưu sang ổ đĩa khác")
    if target.exists() and not replace:
        raise BadRequest(f"{target} đã có: hãy chọn tên khác, hoặc cho phép ghi đè")


def _vacuum_into(cursor: "sqlite3.Cursor | sa.engine.interfaces.DBAPICursor", target: Path) -> None:
    """A copy of the database as it is at one moment, without the space that deleted rows left. Writers go on."""
    # Made by us, so that nobody else can read it; SQLite takes an empty file.
    create_file(target).close()
    cursor.execute("VACUUM INTO ?", (str(target),))
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _write_archive(
    file: IO[bytes], database: "Database", snapshot: Path, exclude: Sequence[str]
) -> tuple[Manifest, tuple[str, ...]]:
    files: list[BackedUpFile] = []
    left_out: list[str] = []
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_GZIP_LEVEL) as archive:
        # The database first: a document that is added later is one too many, but none that it names is missing.
        files.append(_add(archive, snapshot, DATABASE_MEMBER))
        for path, name in _files(database, exclude, left_out):
            try:
                files.append(_add(archive, path, name))
            except FileNotFoundError:
                log.info("left out of the backup, deleted meanwhile: %s", name)
        with closing(sqlite3.connect(snapshot)) as connection:
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        manifest = Manifest(
            format=FORMAT,
            deepedu=__version__,
            schema_revision=revision,
            created_at=datetime.now(UTC),
            files=tuple(files),
        )
        text = manifest.model_dump_json(indent=1).encode()
        archive.addfile(_member(_MANIFEST_MEMBER, len(text), manifest.created_at.timestamp()), BytesIO(text))
    return manifest, tuple(left_out)


def _files(database: "Database", exclude: Sequence[str], left_out: list[str]) -> Iterator[tuple[Path, str]]:
    """The files to back up beside the database, with their names in the backup; what is not goes to ``left_out``."""
    source = Path(database.engine.url.database or "").resolve()
    own = {source.with_name(source.name + end) for end in ("", "-wal", "-shm", "-journal")}
    documents = database.documents_dir.name
    # The documents may lie on another disk, behind a link.
    for top, prefix in ((database.data_dir, ""), (database.documents_dir.resolve(), f"{documents}/")):
        for inside, folders, names in os.walk(top):
            if Path(inside) == database.data_dir:
                folders[:] = [name for name in folders if name not in (documents, MIGRATION_COPIES)]
            folders.sort()
            for name in sorted(names + [name for name in folders if (Path(inside) / name).is_symlink()]):
                path = Path(inside) / name
                member = prefix + path.relative_to(top).as_posix()
                if path.resolve() in own or name.endswith(".part"):
                    continue  # In the backup already; not whole yet.
                is_plain = path.is_file() and not path.is_symlink()
                is_key = matches(name, exclude) or path.resolve() == database.vault.key_file.resolve()
                if not is_plain or is_key or not _is_safe(member) or member in (DATABASE_MEMBER, _MANIFEST_MEMBER):
                    left_out.append(member)
                else:
                    yield path, member


def _add(archive: tarfile.TarFile, path: Path, name: str) -> BackedUpFile:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        source = _Digested(file, name)
        # A file that grows meanwhile is kept as long as it was.
        archive.addfile(_member(name, status.st_size, status.st_mtime), source)  # pyright: ignore[reportArgumentType]
    return BackedUpFile(path=name, bytes=status.st_size, sha256=source.hasher.hexdigest())


class _Digested:
    """A file that is digested while it is read."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self.hasher = hashlib.sha256()

    def read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        if len(chunk) < size:
            raise StoreError(f"tệp {self._name} bị cắt ngắn trong lúc sao lưu: hãy chạy lại lệnh sao lưu")
        self.hasher.update(chunk)
        return chunk


def _member(name: str, size_bytes: int, changed: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size_bytes, int(changed), 0o600
    return member


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_archive(file: Path, target: Path | None) -> Manifest:
    """Checks a backup; also unpacks it, where ``target`` is a folder. Raises: as ``check_backup``."""
    found: dict[str, BackedUpFile] = {}
    manifest: Manifest | None = None
    try:
        with gzip.open(file) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                source = archive.extractfile(member) if member.type == tarfile.REGTYPE else None
                if source is None or member.issparse() or manifest or not _is_safe(member.name) or member.name in found:
                    raise StoreError(f"{file} có mục lạ {member.name!r}: đây không phải bản sao lưu do DeepEdu tạo")
                if member.name == _MANIFEST_MEMBER:
                    manifest = _parse_manifest(file, source.read(_MOST_MANIFEST_BYTES))
                else:
                    found[member.name] = _read_member(member.name, source, target)
            while stream.read(_CHUNK_BYTES):
                pass  # To the end, where gzip keeps its own checksum.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StoreError(_damaged(file, str(error))) from error
    except OSError as error:
        doing = "đọc" if target is None else "giải nén"
        raise StoreError(f"không {doing} được bản sao lưu {file}: {why_failed(error)}") from error
    if manifest is None:
        raise StoreError(_damaged(file, "thiếu bảng kê ở cuối tệp"))
    listed = {entry.path: entry for entry in manifest.files}
    wrong = sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name))
    if wrong or DATABASE_MEMBER not in listed:
        raise StoreError(_damaged(file, f"sai nội dung: {', '.join(wrong[:5]) or DATABASE_MEMBER}"))
    return manifest


def _read_member(name: str, source: IO[bytes], target: Path | None) -> BackedUpFile:
    hasher = hashlib.sha256()
    size_bytes = 0
    if target is None:
        while chunk := source.read(_CHUNK_BYTES):
            hasher.update(chunk)
            size_bytes += len(chunk)
    else:
        path = target / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with create_file(path) as file:
            while chunk := source.read(_CHUNK_BYTES):
                hasher.update(chunk)
                size_bytes += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    return BackedUpFile(path=name, bytes=size_bytes, sha256=hasher.hexdigest())


def _parse_manifest(file: Path, text: bytes) -> Manifest:
    try:
        head = _ManifestHead.model_validate_json(text)
        is_known = head.format <= FORMAT and head.schema_revision in _known_revisions(_scripts())
        if not is_known:
            raise StoreError(
                f"{file} do DeepEdu {head.deepedu} tạo (dữ liệu kiểu {head.schema_revision}), mới hơn bản đang chạy "
                f"({__version__}): hãy cập nhật DeepEdu rồi khôi phục"
            )
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise StoreError(_damaged(file, "không đọc được bảng kê")) from error


def _damaged(file: Path, reason: str) -> str:
    return f"bản sao lưu {file} hỏng hoặc bị cắt cụt ({reason}): hãy chép lại tệp, hoặc dùng bản sao lưu khác"


def _is_safe(name: str) -> bool:
    """Whether a member's name is one that ``write_backup`` gives: below the data folder, and no key."""
    path = PurePosixPath(name)
    is_below = name == str(path) and not path.is_absolute() and bool(path.parts) and ".." not in path.parts
    is_plain = "\\" not in name and all(c.isprintable() for c in name) and name != UNFINISHED
    return is_below and is_plain and not any(matches(part, KEY_NAMES) for part in path.parts)


# --- Names -----------------------------------------------------------------------------------------------------------


def _remove_leftovers(folder: Path) -> None:
    """Deletes what killed backups left: it holds pupils' data."""
    for left in folder.glob(f"{_PART}*"):
        if not is_at_work(left.name.removeprefix(_PART).partition(".")[0]):
            left.unlink(missing_ok=True)


def is_at_work(pid: str) -> bool:
    """Whether another process with this number, as a file's name tells it, runs on this machine."""
    mine = Lease.mine()
    return pid.isdecimal() and int(pid) != mine.pid and Lease(mine.host, int(pid), "").is_alive()


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file's name is one of ``patterns``, in capitals or not."""
    return any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent / "migrations"))


def _known_revisions(scripts: ScriptDirectory) -> set[str]:
    return {script.revision for script in scripts.walk_revisions()}


def stamp() -> str:
    """The present moment for names of files, in order of time."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
