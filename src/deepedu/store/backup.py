"""Backup and restore of a data folder: one file that holds the database and the documents, and never a key.

A backup is a gzipped tar. Its last member, ``manifest.json``, names every other one with its digest, so that a backup
that was cut off is recognised. Keys are left out on purpose: what was sealed with a key that is destroyed later must be
unreadable in old backups too.

A restore unpacks beside the data folder and then swaps the two folders in one step of the file system. Killed at any
moment, it leaves the old data folder or the new one; the next restore clears up what it left.
"""

import ctypes
import errno
import filecmp
import fnmatch
import gzip
import hashlib
import logging
import os
import shutil
import sqlite3
import tarfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
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
from deepedu.base.errors import BadRequest, StoreBusy, StoreError, Unsupported
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
_DATABASE_MEMBER = "deepedu.sqlite3"
_MANIFEST_MEMBER = "manifest.json"
_PART = ".deepedu-backup."
# Stands in a folder that a restore has not filled yet.
_UNFINISHED = ".restoring"
_MOST_MANIFEST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
# Databases shrink to a third even so, and documents are compressed already.
_GZIP_LEVEL = 1
# Two backups of one process would take each other's files for left ones.
_writing = threading.Lock()
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


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


@dataclass(frozen=True)
class RestoreReport:
    """A finished restore. ``aside``: where the former folder is now. ``kept``: files of it that stayed in use."""

    manifest: Manifest
    data_dir: Path
    aside: Path | None
    kept: tuple[str, ...]


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
            f"dữ liệu bằng pg_dump, và chép thư mục {database.documents_dir} bằng tay"
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
            with _create_file(part) as file:
                manifest, left_out = _write_archive(file, database, snapshot, keys)
                file.flush()
                os.fsync(file.fileno())
            size_bytes = part.stat().st_size
            part.replace(target)
            _sync_folder(target.parent)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"không sao lưu được vào {target}: {_told(error)}") from error
        finally:
            _discard(snapshot)
            _discard(part)
    return BackupReport(target, size_bytes, manifest, left_out)


def check_backup(file: Path) -> Manifest:
    """Reads a backup from end to end and holds every digest against its manifest. Writes nothing.

    Raises:
        StoreError: it cannot be read, is damaged or cut off, holds what no backup of ours holds, or is of a newer
            DeepEdu.
    """
    return _read_archive(file, None)


def restore_backup(file: Path, data_dir: Path, *, replace: bool = False, keep: Iterable[str] = ()) -> RestoreReport:
    """Makes a backup the data folder. No server may be running on that folder.

    The former folder is set aside, whole, but for its keys: they stay in use and are never in two places.

    Args:
        replace: whether a folder that holds data already may be set aside.
        keep: more names or patterns of files that stay in use, beside ``KEY_NAMES``.

    Raises:
        BadRequest: there is data and ``replace`` was not given.
        StoreBusy: another process has the database open.
        StoreError: what ``check_backup`` raises; or the disk is full, or the folder cannot be replaced.
    """
    data_dir = data_dir.expanduser().resolve()
    keys = (*KEY_NAMES, *keep)
    manifest = check_backup(file)
    staging = data_dir.with_name(f".{data_dir.name}.restoring-{os.getpid()}")
    try:
        _finish_interrupted(data_dir, keys)
        _check_data_dir(data_dir, keys, manifest, replace=replace)
        staging.mkdir(mode=0o700, parents=True)
        _create_file(staging / _UNFINISHED).close()
        if _read_archive(file, staging) != manifest:
            raise StoreError(f"{file} thay đổi trong lúc đang đọc: hãy chạy lại khi không còn ai ghi vào tệp đó")
        _take_ownership(data_dir, staging)
        kept = _link_keys(data_dir, staging, keys)
        _sync_tree(staging)
        aside = _swap(data_dir, staging, keys)
    except OSError as error:
        raise StoreError(f"không khôi phục được vào {data_dir}: {_told(error)}") from error
    finally:
        if _is_unfinished(staging):
            shutil.rmtree(staging, ignore_errors=True)
    return RestoreReport(manifest, data_dir, aside, kept)


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
    copy = folder / f"{_stamp()}-{revision}.sqlite3"
    part = folder / f"{_PART}{os.getpid()}.sqlite3"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _remove_leftovers(folder)
        # A reader of its own: it sees what was committed, and does not mind the write lock.
        with closing(sqlite3.connect(source, timeout=30)) as reader:
            _vacuum_into(reader.cursor(), part)
        part.replace(copy)
        _sync_folder(folder)
        for old in sorted(folder.glob("*.sqlite3"))[:-keep]:
            old.unlink()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"không chép được cơ sở dữ liệu vào {folder} trước khi nâng cấp: {_told(error)}. Dữ liệu chưa bị thay đổi"
        ) from error
    finally:
        _discard(part)
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
    _create_file(target).close()
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
        files.append(_add(archive, snapshot, _DATABASE_MEMBER))
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
                is_key = _matches(name, exclude) or path.resolve() == database.vault.key_file.resolve()
                if not is_plain or is_key or not _is_safe(member) or member in (_DATABASE_MEMBER, _MANIFEST_MEMBER):
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


def _read_archive(file: Path, target: Path | None) -> Manifest:
    """Checks a backup; also unpacks it, where ``target`` is a folder."""
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
        raise StoreError(f"không {doing} được bản sao lưu {file}: {_told(error)}") from error
    if manifest is None:
        raise StoreError(_damaged(file, "thiếu bảng kê ở cuối tệp"))
    listed = {entry.path: entry for entry in manifest.files}
    wrong = sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name))
    if wrong or _DATABASE_MEMBER not in listed:
        raise StoreError(_damaged(file, f"sai nội dung: {', '.join(wrong[:5]) or _DATABASE_MEMBER}"))
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
        with _create_file(path) as file:
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
    is_plain = "\\" not in name and all(c.isprintable() for c in name) and name != _UNFINISHED
    return is_below and is_plain and not any(_matches(part, KEY_NAMES) for part in path.parts)


# --- Replacing the data folder ---------------------------------------------------------------------------------------


def _check_data_dir(data_dir: Path, keys: Sequence[str], manifest: Manifest, *, replace: bool) -> None:
    if data_dir.exists() and not data_dir.is_dir():
        raise BadRequest(f"{data_dir} không phải là thư mục: hãy chọn thư mục khác")
    if data_dir.is_dir() and any(not _matches(path.name, keys) for path in data_dir.iterdir()):
        if not replace:
            raise BadRequest(
                f"{data_dir} đã có dữ liệu: hãy chọn thư mục trống, hoặc cho phép thay thế (dữ liệu cũ được cất riêng)"
            )
        _refuse_in_use(data_dir / _DATABASE_MEMBER)
    if os.path.ismount(data_dir):
        raise BadRequest(
            f"{data_dir} là điểm gắn ổ đĩa nên không thay được cả thư mục: hãy khôi phục vào một thư mục con, "
            "rồi đặt store.data_dir là thư mục đó"
        )
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(data_dir.parent).free
    if free_bytes < manifest.content_bytes:
        raise StoreError(
            f"ổ đĩa của {data_dir} còn {free_bytes / 1e6:.0f} MB, cần {manifest.content_bytes / 1e6:.0f} MB: "
            "hãy giải phóng chỗ trống"
        )


def _refuse_in_use(database: Path) -> None:
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(database, timeout=0)) as connection:
            # Only possible while nobody else has the database open; it also brings all of it into the one file.
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreBusy(f"{database} đang được dùng: hãy dừng máy chủ DeepEdu rồi khôi phục") from error
        log.info("the database that is set aside cannot be opened: %s", error)
    except sqlite3.DatabaseError as error:
        log.info("the database that is set aside is damaged: %s", error)


def _swap(data_dir: Path, staging: Path, keys: Sequence[str]) -> Path | None:
    """Puts ``staging`` in place of the data folder; where the former one is now, if there was anything in it."""
    aside = _aside(data_dir)
    has_former = data_dir.exists() and any(data_dir.iterdir())
    (staging / _UNFINISHED).unlink()
    _sync_folder(staging)
    try:
        if not has_former:
            staging.rename(data_dir)  # Takes the place of an empty folder.
        elif not _exchange(staging, data_dir):
            _rename_both(data_dir, aside, staging)
    except OSError:
        _create_file(staging / _UNFINISHED).close()
        raise
    _sync_folder(data_dir.parent)
    if not has_former:
        return None
    return _put_aside(staging if staging.exists() else aside, aside, data_dir, keys)


def _rename_both(data_dir: Path, aside: Path, staging: Path) -> None:
    """Where a file system cannot exchange in one step; killed between the two, the next restore goes on."""
    data_dir.rename(aside)
    try:
        staging.rename(data_dir)
    except OSError:
        aside.rename(data_dir)
        raise


def _put_aside(former: Path, aside: Path, data_dir: Path, keys: Sequence[str]) -> Path | None:
    _drop_keys(former, data_dir, keys)
    if not any(former.iterdir()):
        former.rmdir()
        return None
    if former != aside:
        former.rename(aside)
    _sync_folder(aside.parent)
    return aside


def _drop_keys(former: Path, data_dir: Path, keys: Sequence[str]) -> None:
    """Takes the keys in use out of a former folder. Others stay: a key may be in one place only, but never in none."""
    for path in _key_files(former, keys):
        twin = data_dir / path.relative_to(former)
        if twin.exists() and filecmp.cmp(path, twin, shallow=False):
            path.unlink()


def _finish_interrupted(data_dir: Path, keys: Sequence[str]) -> None:
    """Clears up after restores of this folder that were killed: deletes what was half unpacked, and nothing else."""
    for left in sorted(data_dir.parent.glob(f".{data_dir.name}.restoring-*")):
        if _is_at_work(left.name.rpartition("-")[2]):
            continue
        if _is_unfinished(left):
            shutil.rmtree(left)
        elif data_dir.exists():
            _put_aside(left, _aside(data_dir), data_dir, keys)
        else:
            left.rename(data_dir)
    for aside in data_dir.parent.glob(f"{data_dir.name}.before-restore-*"):
        _drop_keys(aside, data_dir, keys)


def _is_unfinished(staging: Path) -> bool:
    return staging.is_dir() and ((staging / _UNFINISHED).exists() or not any(staging.iterdir()))


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two folders in one step. False: this system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    working_folder, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    if renameat2(working_folder, os.fsencode(one), working_folder, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def _aside(data_dir: Path) -> Path:
    return data_dir.with_name(f"{data_dir.name}.before-restore-{_stamp()}")


def _link_keys(data_dir: Path, staging: Path, keys: Sequence[str]) -> tuple[str, ...]:
    """Gives the new folder the keys of the present one; returns their names."""
    kept: list[str] = []
    for path in _key_files(data_dir, keys):
        name = path.relative_to(data_dir)
        twin = staging / name
        twin.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        twin.unlink(missing_ok=True)
        try:
            # The same file, not a copy: a key that is destroyed in one is gone in both.
            twin.hardlink_to(path)
        except OSError:
            shutil.copy2(path, twin)
        kept.append(name.as_posix())
    return tuple(kept)


def _key_files(folder: Path, keys: Sequence[str]) -> list[Path]:
    return [
        Path(inside) / name for inside, _, names in os.walk(folder) for name in sorted(names) if _matches(name, keys)
    ]


def _take_ownership(data_dir: Path, staging: Path) -> None:
    """The server's own user must be able to write what an administrator restored."""
    if os.geteuid() != 0 or not data_dir.exists():
        return
    owner = data_dir.stat()
    os.chown(staging, owner.st_uid, owner.st_gid)
    for folder, folders, names in os.walk(staging):
        for name in folders + names:
            os.chown(Path(folder) / name, owner.st_uid, owner.st_gid, follow_symlinks=False)


# --- Files -----------------------------------------------------------------------------------------------------------


def _create_file(path: Path) -> IO[bytes]:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _discard(path: Path) -> None:
    with suppress(OSError):  # What is wrong with the disk is being told already.
        path.unlink()


def _remove_leftovers(folder: Path) -> None:
    """Deletes what killed backups left: it holds pupils' data."""
    for left in folder.glob(f"{_PART}*"):
        if not _is_at_work(left.name.removeprefix(_PART).partition(".")[0]):
            left.unlink(missing_ok=True)


def _is_at_work(pid: str) -> bool:
    mine = Lease.mine()
    return pid.isdecimal() and int(pid) != mine.pid and Lease(mine.host, int(pid), "").is_alive()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    for inside, _, _ in os.walk(folder):
        _sync_folder(Path(inside))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent / "migrations"))


def _known_revisions(scripts: ScriptDirectory) -> set[str]:
    return {script.revision for script in scripts.walk_revisions()}


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")


def _told(error: OSError | sqlite3.Error) -> str:
    reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
    if getattr(error, "errno", None) in _FULL or "full" in str(error):
        return f"ổ đĩa đã đầy ({reason}); hãy giải phóng chỗ trống hoặc chọn ổ đĩa khác"
    return f"{reason}; hãy kiểm tra quyền ghi và ổ đĩa"
