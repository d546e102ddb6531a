"""Files and folders that have to be on disk, for their owner alone, and why they could not be written."""

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import IO

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def create_file(path: Path) -> IO[bytes]:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def discard(path: Path) -> None:
    """Deletes a file if it is there and can be deleted."""
    with suppress(OSError):  # What is wrong with the disk is being told already.
        path.unlink()


def sync_folder(folder: Path) -> None:
    """Brings a folder's own list of files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Brings the lists of files of all folders below to disk."""
    for inside, _, _ in os.walk(folder):
        sync_folder(Path(inside))


def why_failed(error: OSError | sqlite3.Error) -> str:
    """In Vietnamese: what the system said, and what to do."""
    reason = (getattr(error, "strerror", None) or str(error)).rstrip(".")
    if getattr(error, "errno", None) in _FULL or "full" in str(error):
        return f"ổ đĩa đã đầy ({reason}); hãy giải phóng chỗ trống hoặc chọn ổ đĩa khác"
    return f"{reason}; hãy kiểm tra quyền ghi và ổ đĩa"
