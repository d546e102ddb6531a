"""Which files a batch holds, and the stored copy of each."""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from deepedu.base.errors import DocumentTooLarge, EmptyDocument, IngestError
from deepedu.base.vietnamese import fold
from deepedu.curriculum.readers.detect import SUFFIXES

# Read from a folder only to say what to do with them.
_REFUSED_SUFFIXES = frozenset((".doc", ".rtf", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".epub"))
# Files that tell about a folder and are no textbooks.
_ABOUT_FOLDER = re.compile(r"(readme|sources?|changelog|notice|copying|(\w+[_ -])?licen[cs]e(s)?)", re.IGNORECASE)
_CHUNK_BYTES = 1 << 20
_EXTENSIONS = {"pdf": "pdf", "docx": "docx", "markdown": "md", "text": "txt", "html": "html"}


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files to read: those named, and the documents in folders named, in natural order and each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        inside = [
            Path(folder) / name
            for folder, folders, names in os.walk(path)
            if not _hide(folders)
            for name in names
            if _is_document(Path(name))
        ]
        for file in sorted(inside, key=lambda file: _natural(file.relative_to(path))):
            found[file] = None
    return list(found)


def check_size(path: Path, max_file_mb: float) -> None:
    """Refuses a file before anything is read of it.

    Raises:
        DocumentTooLarge: above the limit.
        EmptyDocument: not a single byte.
        IngestError: not there, not a file, or not readable.
    """
    try:
        size_bytes = path.stat().st_size
    except OSError as error:
        raise IngestError(f"không tìm thấy hoặc không mở được tệp: {error.strerror or error}") from error
    if not path.is_file():
        raise IngestError("không phải là tệp thường")
    if size_bytes == 0:
        raise EmptyDocument("tệp rỗng (0 byte); hãy chép lại tệp từ nguồn")
    size_mb = size_bytes / 1e6
    if size_mb > max_file_mb:
        raise DocumentTooLarge(
            f"tệp lớn {size_mb:.0f} MB, giới hạn là {max_file_mb:.0f} MB; hãy chia nhỏ tệp hoặc nâng ingest.max_file_mb"
        )


def digest(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    hasher = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise IngestError(f"không đọc được tệp: {error.strerror or error}") from error
    return hasher.hexdigest()


def stored_path(folder: Path, sha256: str, format_name: str) -> Path:
    """Where the copy of a document lies."""
    return folder / f"{sha256}.{_EXTENSIONS[format_name]}"


def store_copy(path: Path, target: Path, sha256: str) -> None:
    """Copies a document into the data folder: whole or not at all.

    Raises:
        IngestError: the file changed since it was looked at, or cannot be copied.
    """
    if target.exists() and digest(target) == sha256:
        return
    remove_copies(target.parent, sha256)
    part = target.with_name(f".{sha256}.{os.getpid()}.part")
    hasher = hashlib.sha256()
    try:
        with path.open("rb") as source, part.open("wb") as copy:
            os.fchmod(copy.fileno(), 0o600)
            while chunk := source.read(_CHUNK_BYTES):
                hasher.update(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        if hasher.hexdigest() != sha256:
            raise IngestError("tệp thay đổi trong lúc đang đọc; hãy nạp lại khi tệp đã lưu xong")
        part.replace(target)
    except OSError as error:
        raise IngestError(f"không chép được tệp vào kho: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def remove_copies(folder: Path, sha256: str) -> None:
    """Deletes the stored copy of a document, and what a killed process left of it."""
    for file in [*folder.glob(f"{sha256}.*"), *folder.glob(f".{sha256}.*.part")]:
        file.unlink(missing_ok=True)


def _hide(folders: list[str]) -> bool:
    """Keeps a walk out of hidden folders and in order; never true, so that it can stand in a condition."""
    folders[:] = sorted((name for name in folders if not name.startswith(".")), key=lambda name: _natural(Path(name)))
    return False


def _is_document(name: Path) -> bool:
    suffix = name.suffix.lower()
    if name.name.startswith((".", "~$")) or suffix not in SUFFIXES.keys() | _REFUSED_SUFFIXES:
        return False
    return not (_ABOUT_FOLDER.fullmatch(name.stem) and suffix in (".md", ".txt", ".markdown"))


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Orders "Bài 2" before "Bài 10"."""
    pieces = re.split(r"(\d+)", fold(str(path)))
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece]
