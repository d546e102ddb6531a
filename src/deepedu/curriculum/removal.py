"""Taking books out of the library, everywhere at once."""

from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound, StoreBusy
from deepedu.base.prefix_files import book_tag, delete_prefixes
from deepedu.curriculum.sources import remove_copies
from deepedu.store import Database, Lease
from deepedu.store.tables import Book
from deepedu.store.text_index import unindex_book


def delete_books(database: Database, book_ids: Iterable[int], *, cache_dir: Path | None = None) -> list[str]:
    """Deletes books with their pages, passages, vectors and index entries, then their stored documents.

    All of them go in one transaction, or none.

    Args:
        cache_dir: the engine's cache folder, where what was computed of their lessons goes as well.

    Returns:
        Their titles.

    Raises:
        NotFound: one of them does not exist.
        StoreBusy: one of them is being read by a process that is alive.
        StoreError: the books are gone, and something in the cache folder could not be deleted.
    """
    titles: list[str] = []
    digests: list[str] = []
    with database.write() as session:
        for book_id in dict.fromkeys(book_ids):
            book = session.get(Book, book_id)
            if book is None:
                raise NotFound(f"không có sách số {book_id}; 'deepedu books' liệt kê các sách đang có")
            lease = Lease.parse(book.lease) if book.status == "reading" and book.lease else None
            if lease is not None and lease.is_alive():
                raise StoreBusy(
                    f"sách {book_id} đang được đọc bởi tiến trình {lease.pid} trên {lease.host}; hãy chờ xong rồi xóa"
                )
            titles.append(book.title)
            digests.append(remove_book(session, book_id))
    for sha256 in digests:
        remove_files(database, sha256, cache_dir)
    return titles


def remove_files(database: Database, sha256: str, cache_dir: Path | None) -> None:
    """Deletes what lies outside the database of a book that is gone: its document, and its lessons in the cache.

    Raises:
        StoreError: something in the cache folder could not be deleted.
    """
    remove_copies(database.documents_dir, sha256)
    if cache_dir is not None:
        delete_prefixes(cache_dir, book_tag(sha256))


def remove_book(session: Session, book_id: int) -> str:
    """Deletes one book within the session's transaction; the caller removes the stored document afterwards.

    Returns:
        The digest that names the stored document.

    Raises:
        NotFound: no such book.
    """
    sha256 = session.scalar(sa.select(Book.sha256).where(Book.id == book_id))
    if sha256 is None:
        raise NotFound(f"không có sách số {book_id}; 'deepedu books' liệt kê các sách đang có")
    unindex_book(session, book_id)
    session.execute(sa.delete(Book).where(Book.id == book_id))
    return sha256
