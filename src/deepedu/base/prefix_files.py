"""Where the prefix cache of our engine lies on disk, and how a book's part of it is named, measured and deleted.

The engine writes these files; the library deletes a book's also when no engine runs.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deepedu.base.errors import StoreError

_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST_DIGITS = 16


@dataclass(frozen=True)
class PrefixFiles:
    """How much of a cache there is, or was."""

    files: int
    bytes: int


def book_tag(sha256: str) -> str:
    """The tag of everything that is cached of a book, from its document's digest in hexadecimal digits."""
    return f"book-{sha256[:_DIGEST_DIGITS]}"


def prefix_folder(cache_dir: Path, tag: str) -> Path:
    """Where the engine whose cache folder is ``cache_dir`` keeps what carries ``tag``."""
    assert _TAG.fullmatch(tag), f"not a tag: {tag!r}"
    return cache_dir.expanduser() / "prefix" / tag


def measure_prefixes(cache_dir: Path, tag: str) -> PrefixFiles:
    """What is cached under a tag; files that go meanwhile are not counted."""
    return _measure(prefix_folder(cache_dir, tag))


def delete_prefixes(cache_dir: Path, tag: str) -> PrefixFiles:
    """Deletes what is cached under a tag. A running engine does not mind.

    Returns:
        What there was.

    Raises:
        StoreError: it could not be deleted.
    """
    folder = prefix_folder(cache_dir, tag)
    found = _measure(folder)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # Nothing was cached, or another process was quicker.
    except OSError as error:
        raise StoreError(
            f"không xóa được bộ nhớ đệm bài học trong {str(folder)!r}: {error.strerror or error}; "
            "hãy xóa thư mục đó bằng tay"
        ) from error
    return found


def _measure(folder: Path) -> PrefixFiles:
    sizes = list(_sizes(folder))
    return PrefixFiles(len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterator[int]:
    try:
        for file in folder.iterdir():
            if file.is_file():
                yield file.stat().st_size
    except OSError:
        return
