"""Reading the library: which books there are and how they are built."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound
from deepedu.store.database import Database
from deepedu.store.lease import Lease
from deepedu.store.tables import Book, Embedding, Passage, Section


@dataclass(frozen=True)
class BookSummary:
    """One line of the library. ``status``: ``ready``, ``reading``, or ``interrupted`` when its reader is gone."""

    id: int
    title: str
    grade: int | None
    subject: str | None
    series: str | None
    guessed: tuple[str, ...]
    source_name: str
    format: str
    has_pages: bool
    page_count: int | None
    pages_read: int
    passages: int
    vectors: int
    status: str
    notes: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True)
class SectionSummary:
    """A chapter, lesson or part; ``depth`` 0 is outermost."""

    id: int
    depth: int
    kind: str
    number: str | None
    title: str
    first_page: int
    last_page: int
    # Label and title in one line: "Bài 3. Ba thể của chất".
    display: str


@dataclass(frozen=True)
class BookDetail:
    """A book with its structure in reading order."""

    book: BookSummary
    sections: tuple[SectionSummary, ...]


def list_books(database: Database) -> list[BookSummary]:
    """All books, by grade, subject and title."""
    with database.read() as session:
        books = session.scalars(
            sa.select(Book).order_by(Book.grade.nulls_first(), Book.subject.nulls_first(), Book.title, Book.id)
        ).all()
        passages, vectors = _counts(session)
        return [_summary(book, passages, vectors) for book in books]


def book_detail(database: Database, book_id: int) -> BookDetail:
    """One book.

    Raises:
        NotFound: no such book.
    """
    with database.read() as session:
        book = session.get(Book, book_id)
        if book is None:
            raise NotFound(f"there is no book {book_id!r}; 'deepedu books' lists them")
        sections = session.scalars(sa.select(Section).where(Section.book_id == book_id).order_by(Section.ordinal)).all()
        depths: dict[int, int] = {}
        for section in sections:
            depths[section.id] = 0 if section.parent_id is None else depths.get(section.parent_id, 0) + 1
        return BookDetail(
            _summary(book, *_counts(session)),
            tuple(
                SectionSummary(s.id, depths[s.id], s.kind, s.number, s.title, s.first_page, s.last_page, s.display)
                for s in sections
            ),
        )


def document_digests(database: Database, book_ids: Iterable[int] | None = None) -> dict[int, str]:
    """SHA-256 of the stored document, in hexadecimal digits, by book; None: of all books. Books that are not there are
    left out."""
    query = sa.select(Book.id, Book.sha256)
    if book_ids is not None:
        query = query.where(Book.id.in_(list(book_ids)))
    with database.read() as session:
        return {row.id: row.sha256 for row in session.execute(query)}


def _counts(session: Session) -> tuple[dict[int, int], dict[int, int]]:
    passages = sa.select(Passage.book_id, sa.func.count()).group_by(Passage.book_id)
    vectors = (
        sa.select(Passage.book_id, sa.func.count(sa.distinct(Embedding.passage_id)))
        .join(Embedding, Embedding.passage_id == Passage.id)
        .group_by(Passage.book_id)
    )
    return dict(list(session.execute(passages))), dict(list(session.execute(vectors)))  # pyright: ignore[reportArgumentType, reportCallIssue]


def _summary(book: Book, passages: dict[int, int], vectors: dict[int, int]) -> BookSummary:
    status = book.status
    if status == "reading" and (book.lease is None or not Lease.parse(book.lease).is_alive()):
        status = "interrupted"
    return BookSummary(
        id=book.id,
        title=book.title,
        grade=book.grade,
        subject=book.subject,
        series=book.series,
        guessed=tuple(book.guessed),
        source_name=book.source_name,
        format=book.format,
        has_pages=book.has_pages,
        page_count=book.page_count,
        pages_read=book.pages_read,
        passages=passages.get(book.id, 0),
        vectors=vectors.get(book.id, 0),
        status=status,
        notes=tuple(book.notes),
        created_at=book.created_at,
    )
