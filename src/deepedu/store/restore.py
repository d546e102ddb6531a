"""Restoring a data folder from a backup: unpacked beside it, then both folders swapped in one step of the file system.

Killed at any moment, a restore leaves the old data folder or the new one; the next restore clears up what it left. Keys
are in no backup: those in use stay in use, and are never in two places.
"""

import ctypes
import errno
import filecmp
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from deepedu.base.errors import BadRequest, StoreBusy, StoreError
from deepedu.store.backup import (
    DATABASE_MEMBER,
    KEY_NAMES,
    UNFINISHED,
    Manifest,
    check_backup,
    is_at_work,
    matches,
    read_archive,
    stamp,
)
from deepedu.store.durable_files import create_file, sync_folder, sync_tree, why_failed

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestoreReport:
    """A finished restore. ``aside``: where the former folder is now. ``kept``: files of it that stayed in use."""

    manifest: Manifest
    data_dir: Path
    aside: Path | None
    kept: tuple[str, ...]


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
        create_file(staging / UNFINISHED).close()
        if read_archive(file, staging) != manifest:
            raise StoreError(f"{file} thay đổi trong lúc đang đọc: hãy chạy lại khi không còn ai ghi vào tệp đó")
        _take_ownership(data_dir, staging)
        kept = _link_keys(data_dir, staging, keys)
        sync_tree(staging)
        aside = _swap(data_dir, staging, keys)
    except OSError as error:
        raise StoreError(f"không khôi phục được vào {data_dir}: {why_failed(error)}") from error
    finally:
        if _is_unfinished(staging):
            shutil.rmtree(staging, ignore_errors=True)
    return RestoreReport(manifest, data_dir, aside, kept)


# --- Replacing the data folder ---------------------------------------------------------------------------------------


def _check_data_dir(data_dir: Path, keys: Sequence[str], manifest: Manifest, *, replace: bool) -> None:
    if data_dir.exists() and not data_dir.is_dir():
        raise BadRequest(f"{data_dir} không phải là thư mục: hãy chọn thư mục khác")
    if data_dir.is_dir() and any(not matches(path.name, keys) for path in data_dir.iterdir()):
        if not replace:
            raise BadRequest(
                f"{data_dir} đã có dữ liệu: hãy chọn thư mục trống, hoặc cho phép thay thế (dữ liệu cũ được cất riêng)"
            )
        _refuse_in_use(data_dir / DATABASE_MEMBER)
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
    (staging / UNFINISHED).unlink()
    sync_folder(staging)
    try:
        if not has_former:
            staging.rename(data_dir)  # Takes the place of an empty folder.
        elif not _exchange(staging, data_dir):
            _rename_both(data_dir, aside, staging)
    except OSError:
        create_file(staging / UNFINISHED).close()
        raise
    sync_folder(data_dir.parent)
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
    sync_folder(aside.parent)
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
        if is_at_work(left.name.rpartition("-")[2]):
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
    return staging.is_dir() and ((staging / UNFINISHED).exists() or not any(staging.iterdir()))


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
    return data_dir.with_name(f"{data_dir.name}.before-restore-{stamp()}")


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
        Path(inside) / name for inside, _, names in os.walk(folder) for name in sorted(names) if matches(name, keys)
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
