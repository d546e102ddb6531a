"""Documents into the library: each once, page by page, so that a killed run goes on where it stopped."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as with_changes
from pathlib import Path, PurePath

import sqlalchemy as sa
import sqlalchemy.exc
from sqlalchemy.orm import Session

from deepedu.base.config import IngestSettings
from deepedu.base.errors import IngestError, NotFound
from deepedu.curriculum.events import Event, FileFinished, FileStarted, Indexing, Outcome, PageRead
from deepedu.curriculum.indexing import make_searchable
from deepedu.curriculum.metadata import Metadata
from deepedu.curriculum.readers import Document, PageText, detect_format, open_document
from deepedu.curriculum.removal import delete_books, remove_book, remove_files
from deepedu.curriculum.sources import check_size, digest, find_files, remove_copies, store_copy, stored_path
from deepedu.store import Database, Lease
from deepedu.store.tables import Book, Page

log = logging.getLogger(__name__)

# A batch of pages is committed when it has this many or is this old.
_BATCH_PAGES = 16
_BATCH_S = 0.5
_FIELDS = ("title", "grade", "subject", "series")

OnEvent = Callable[[Event], None]


def ingest(
    database: Database,
    paths: Iterable[Path],
    settings: IngestSettings,
    metadata: Metadata | None = None,
    on_event: OnEvent | None = None,
    *,
    replace: int | None = None,
    cache_dir: Path | None = None,
) -> list[Outcome]:
    """Reads documents into the library.

    A file whose content is there already is left alone, under whatever name it comes. A reading that was interrupted
    goes on. One bad file never stops the others.

    Args:
        paths: files and folders.
        metadata: given by the user for all files; what it leaves open is guessed.
        on_event: told of the progress.
        replace: a book that goes once the one file given is ready.
        cache_dir: the engine's cache folder, where a replaced book's lessons go as well.

    Returns:
        One outcome per file.

    Raises:
        NotFound: no book ``replace``.
        IngestError: ``replace`` with more than one file.
        StoreError: the database failed; what was committed stays and can be resumed.
    """
    files = find_files(paths)
    tell = on_event or (lambda _event: None)
    if replace is not None:
        _check_replace(database, replace, files)
    outcomes: list[Outcome] = []
    for index, path in enumerate(files, start=1):
        job = _Job(
            database, path, settings, metadata or Metadata(), tell, index, len(files), replace, cache_dir=cache_dir
        )
        outcomes.append(job.run())
        tell(FileFinished(outcomes[-1], index, len(files)))
    return outcomes


def resume(database: Database, settings: IngestSettings, on_event: OnEvent | None = None) -> list[Outcome]:
    """Takes up every interrupted reading from the stored copy of its document.

    Returns:
        One outcome per interrupted book; one whose copy was not stored yet fails and is removed.
    """
    tell = on_event or (lambda _event: None)
    with database.read() as session:
        waiting = session.scalars(sa.select(Book).where(Book.status == "reading").order_by(Book.id)).all()
    waiting = [book for book in waiting if book.lease is None or not Lease.parse(book.lease).is_alive()]
    outcomes: list[Outcome] = []
    for index, book in enumerate(waiting, start=1):
        copy = stored_path(database.documents_dir, book.sha256, book.format)
        job = _Job(database, copy, settings, Metadata(), tell, index, len(waiting), None, name=book.source_name)
        is_whole = copy.exists() and digest(copy) == book.sha256
        outcomes.append(job.run() if is_whole else job.give_up(book.id, book.sha256))
        tell(FileFinished(outcomes[-1], index, len(waiting)))
    return outcomes


def _check_replace(database: Database, book_id: int, files: Sequence[Path]) -> None:
    if len(files) != 1:
        raise IngestError(f"--replace cần đúng một tệp mới, nhận được {len(files)}")
    with database.read() as session:
        if session.get(Book, book_id) is None:
            raise NotFound(f"there is no book {book_id!r} to replace; 'deepedu books' lists them")


class _Job:
    """One file on its way into the library."""

    def __init__(
        self,
        database: Database,
        path: Path,
        settings: IngestSettings,
        metadata: Metadata,
        tell: OnEvent,
        index: int,
        file_count: int,
        replace: int | None,
        name: str | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self._database = database
        self._path = path
        self._settings = settings
        self._metadata = metadata
        self._tell = tell
        self._index = index
        self._file_count = file_count
        self._replace = replace
        self._cache_dir = cache_dir
        # Known by this name; a stored copy carries its digest as a file name.
        self._name = PurePath(name) if name else PurePath(path.parent.absolute().name, path.name)
        self._shown = Path(name) if name else path
        self._lease = str(Lease.mine())

    def run(self) -> Outcome:
        """Reads the file, or says why not."""
        try:
            check_size(self._path, self._settings.max_file_mb)
            sha256 = digest(self._path)
            found = self._look(sha256)
            if found is not None:
                return self._settle(found)
            kind = detect_format(self._path, self._name.name)
            claimed = self._claim(sha256, kind)
        except OSError as error:
            return self._failed(IngestError(f"không mở được tệp: {error.strerror or error}"))
        except IngestError as error:
            return self._failed(error)
        if isinstance(claimed, Outcome):
            return self._settle(claimed)
        book_id, pages_read = claimed
        try:
            return self._read(book_id, sha256, kind, pages_read)
        except IngestError as error:
            self._forget(book_id, sha256)
            return self._failed(error)
        except BaseException:
            self._release(book_id)
            raise

    def give_up(self, book_id: int, sha256: str) -> Outcome:
        """Removes a reading that was killed before its document was stored."""
        with self._database.write() as session:
            book = session.get(Book, book_id)
            taken = None if book is None else self._outcome_of(book)
            if taken is not None:
                return taken
            if book is not None:
                book.lease = self._lease
        self._forget(book_id, sha256)
        return self._failed(IngestError("bị ngắt trước khi chép xong tệp vào kho; hãy nạp lại tệp gốc"))

    def _look(self, sha256: str) -> Outcome | None:
        """The outcome where nothing is to be done, without waiting for the write lock."""
        with self._database.read() as session:
            book = session.scalar(sa.select(Book).where(Book.sha256 == sha256))
            return None if book is None else self._outcome_of(book)

    def _outcome_of(self, book: Book) -> Outcome | None:
        if book.status == "ready":
            name = f" (tên cũ: {book.source_name})" if book.source_name != self._name.name else ""
            message = f"sách {book.id}, {book.title}{name}"
            return Outcome(self._shown, "already_there", message, book.id, book.title, book.page_count or 0)
        lease = Lease.parse(book.lease) if book.lease else None
        if lease is not None and lease.is_alive():
            message = f"đang được đọc bởi tiến trình {lease.pid} trên {lease.host}; hãy chờ tiến trình đó xong"
            return Outcome(self._shown, "busy", message, book.id, book.title)
        return None

    def _settle(self, found: Outcome) -> Outcome:
        """Does for a book that is there already what else was asked: new metadata, an old edition to go."""
        given = {key: value for key in _FIELDS if (value := getattr(self._metadata, key)) is not None}
        if found.status != "already_there" or found.book_id is None:
            return found
        if self._replace not in (None, found.book_id):
            delete_books(self._database, [self._replace], cache_dir=self._cache_dir)
            found = with_changes(found, message=f"{found.message}; đã xóa bản cũ, sách {self._replace}")
        if given:
            with self._database.write() as session:
                book = session.get(Book, found.book_id)
                if book is not None:
                    self._note_given(book)
            title = self._metadata.title or found.title
            found = with_changes(found, title=title, message=f"{found.message}; đã cập nhật thông tin")
        return found

    def _claim(self, sha256: str, kind: str) -> tuple[int, int] | Outcome:
        """Takes the book for this process: ``(book_id, pages_read)``, or the outcome when another has it."""
        try:
            with self._database.write() as session:
                book = session.scalar(sa.select(Book).where(Book.sha256 == sha256))
                if book is not None:
                    outcome = self._outcome_of(book)
                    if outcome is not None:
                        return outcome
                    book.lease = self._lease
                    self._note_given(book)
                    return book.id, book.pages_read
                book = Book(
                    sha256=sha256, source_name=self._name.name, format=kind, title=self._name.stem, lease=self._lease,
                    guessed=list(_FIELDS),
                )  # fmt: skip
                self._note_given(book)
                session.add(book)
                session.flush()
                return book.id, 0
        except sqlalchemy.exc.IntegrityError:
            # Another process put it there in between; what it says now holds.
            return self._look(sha256) or self._claim(sha256, kind)

    def _note_given(self, book: Book) -> None:
        """Keeps what the user gave in the row, so that it survives an interruption."""
        for key in _FIELDS:
            value = getattr(self._metadata, key)
            if value is not None:
                setattr(book, key, value)
                book.guessed = [name for name in book.guessed if name != key]

    def _read(self, book_id: int, sha256: str, kind: str, pages_read: int) -> Outcome:
        copy = stored_path(self._database.documents_dir, sha256, kind)
        if copy != self._path:
            store_copy(self._path, copy, sha256)
        document = open_document(copy, self._name.name)
        try:
            was_interrupted = pages_read > 0
            pages_read = self._begin(book_id, document, pages_read)
            shown = FileStarted(self._shown, self._index, self._file_count, document.page_count, pages_read)
            self._tell(shown)
            self._read_pages(book_id, document, pages_read)
            hints = document.hints
        finally:
            document.close()
        self._tell(Indexing(self._shown))
        with self._database.write() as session:
            book = self._mine(session, book_id)
            passages = make_searchable(session, book, hints, self._name, self._settings.passage_tokens)
            self._remark_on_older(session, book)
            replaced = remove_book(session, self._replace) if self._replace not in (None, book.id) else None
        if replaced is not None:
            remove_files(self._database, replaced, self._cache_dir)
        message = f"sách {book.id}, {book.title}"
        if was_interrupted:
            message = f"bị ngắt ở trang {pages_read}/{book.page_count}, nay đã xong: sách {book.id}, {book.title}"
        outcome = Outcome(self._shown, "added", message, book.id, book.title, book.page_count or 0, passages)
        outcome = with_changes(outcome, notes=tuple(book.notes))
        return with_changes(outcome, status="resumed") if was_interrupted else outcome

    def _begin(self, book_id: int, document: Document, pages_read: int) -> int:
        """Notes the page count; pages of a reader that counted otherwise are read anew."""
        with self._database.write() as session:
            book = self._mine(session, book_id)
            if pages_read and book.page_count != document.page_count:
                session.execute(sa.delete(Page).where(Page.book_id == book_id))
                book.pages_read = pages_read = 0
                book.notes = []
            book.page_count, book.has_pages = document.page_count, document.has_pages
        return pages_read

    def _read_pages(self, book_id: int, document: Document, pages_read: int) -> None:
        batch: list[PageText] = []
        since = time.monotonic()
        for page in document.pages(pages_read + 1):
            batch.append(page)
            self._tell(PageRead(self._shown, page.number, document.page_count))
            if len(batch) >= _BATCH_PAGES or time.monotonic() - since > _BATCH_S:
                self._store(book_id, batch)
                batch, since = [], time.monotonic()
        if batch:
            self._store(book_id, batch)

    def _store(self, book_id: int, batch: Sequence[PageText]) -> None:
        with self._database.write() as session:
            book = self._mine(session, book_id)
            session.add_all(
                Page(
                    book_id=book_id,
                    number=page.number,
                    label=page.label,
                    text=page.text,
                    source_breaks=[list(pair) for pair in page.source_breaks],
                    headings=None if page.headings is None else [list(item) for item in page.headings],
                )
                for page in batch
            )
            book.pages_read = batch[-1].number
            book.notes = [*book.notes, *(note for page in batch for note in page.notes)]

    def _mine(self, session: Session, book_id: int) -> Book:
        book = session.get(Book, book_id)
        if book is None or book.lease != self._lease:
            raise IngestError("sách này vừa bị xóa hoặc bị một tiến trình khác nhận; bỏ dở việc đọc")
        return book

    def _remark_on_older(self, session: Session, book: Book) -> None:
        """Says so where another edition of a file of the same name is in the library."""
        older = session.scalar(
            sa.select(Book.id)
            .where(Book.source_name == book.source_name, Book.id != book.id, Book.status == "ready")
            .order_by(Book.id.desc())
        )
        if older is not None and older != self._replace:
            remark = (
                f"Có vẻ là bản mới của sách {older} (cùng tên tệp). Muốn bỏ bản cũ: "
                f"deepedu ingest TỆP --replace {older}"
            )
            book.notes = [*book.notes, remark]

    def _forget(self, book_id: int, sha256: str) -> None:
        with self._database.write() as session:
            # Only what is ours: another process may have taken the book over meanwhile.
            mine = sa.or_(Book.lease == self._lease, Book.lease.is_(None))
            removed = session.execute(
                sa.delete(Book).where(Book.id == book_id, Book.status == "reading", mine).returning(Book.id)
            ).all()
            is_known = session.scalar(sa.select(Book.id).where(Book.sha256 == sha256)) is not None
        if removed or not is_known:
            remove_copies(self._database.documents_dir, sha256)

    def _release(self, book_id: int) -> None:
        """Lets go of a book whose reading stopped half-way, so that anybody may go on."""
        with self._database.write() as session:
            session.execute(sa.update(Book).where(Book.id == book_id, Book.lease == self._lease).values(lease=None))

    def _failed(self, error: IngestError) -> Outcome:
        log.info("%s: %s", self._shown.name, error)
        return Outcome(self._shown, "failed", str(error), error=error)
