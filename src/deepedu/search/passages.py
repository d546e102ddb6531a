"""Passages of the library with their place in the book, singly or a whole lesson at a time."""

import re
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.search.evidence import Evidence
from deepedu.store.tables import Book, Page, Passage, Section

# What two readings of one sentence may differ in: white space and marks without width.
_GAPS = re.compile(r"[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")


def load_passages(session: Session, passage_ids: Sequence[int]) -> dict[int, Evidence]:
    """Passages of ready books by id, without scores; those that are gone are left out."""
    return {found.passage_id: found for found in _load(session, Passage.id.in_(passage_ids))}


def load_section(session: Session, section_id: int) -> tuple[Evidence, ...]:
    """The passages of one section of a ready book in reading order, those of its subsections not included."""
    return tuple(_load(session, Passage.section_id == section_id))


def load_quoted(session: Session, sha256: str, page: int, quote: str) -> tuple[Evidence, int, int] | None:
    """The passage of a ready book that holds a quote, with the quote's beginning and end in its text.

    White space and marks without width may differ. A short quote may stand in several places: the one on its page
    counts first.

    Args:
        sha256: of the book's document.
        page: where the quote begins.
    """
    wanted = _GAPS.sub("", quote)
    is_on_page = sa.and_(Passage.first_page <= page, Passage.last_page >= page)
    for condition in (is_on_page, ~is_on_page):
        for item in _load(session, sa.and_(Book.sha256 == sha256, condition)):
            if wanted and (at := _GAPS.sub("", item.text).find(wanted)) >= 0:
                places = [place for place, character in enumerate(item.text) if not _GAPS.match(character)]
                return item, places[at], places[at + len(wanted) - 1] + 1
    return None


def sections_with_text(session: Session, book_id: int) -> list[int]:
    """Ids of a book's sections that hold passages, in reading order."""
    rows = session.scalars(
        sa.select(Section.id)
        .where(Section.book_id == book_id, sa.exists().where(Passage.section_id == Section.id))
        .order_by(Section.ordinal)
    )
    return list(rows)


def _load(session: Session, condition: sa.ColumnElement[bool]) -> list[Evidence]:
    rows = session.execute(
        sa.select(Passage, Book, Section)
        .join(Book, Book.id == Passage.book_id)
        .join(Section, Section.id == Passage.section_id)
        .where(condition, Book.status == "ready")
        .order_by(Passage.book_id, Passage.ordinal)
    ).all()
    labels = _labels(session, [passage for passage, _, _ in rows])
    places: dict[int, tuple[str | None, str | None]] = {}
    found: list[Evidence] = []
    for passage, book, section in rows:
        if section.id not in places:
            places[section.id] = _place(session, section)
        chapter, lesson = places[section.id]
        found.append(
            Evidence(
                passage_id=passage.id,
                book_id=book.id,
                book=book.title,
                chapter=chapter,
                lesson=lesson,
                text=passage.text,
                first_page=passage.first_page,
                last_page=passage.last_page,
                spans=tuple((span[0], span[1], span[2], span[3]) for span in passage.spans),
                heading=passage.heading,
                has_pages=book.has_pages,
                page_labels=_labels_of(passage, labels),
                section_id=section.id,
            )
        )
    return found


def _place(session: Session, section: Section) -> tuple[str | None, str | None]:
    """Chapter and lesson of a section; a chapter's own text stands in no lesson."""
    chapter = section if section.kind == "chapter" else None
    lesson = None if chapter else section.display
    while chapter is None and section.parent_id is not None:
        above = session.get_one(Section, section.parent_id)
        chapter = above if above.kind == "chapter" else None
        section = above
    return (chapter.display if chapter else None), (lesson or None)


def _labels(session: Session, passages: Sequence[Passage]) -> dict[tuple[int, int], str]:
    """``(book_id, page_number)`` -> printed page number, where it differs; one question for each book."""
    labels: dict[tuple[int, int], str] = {}
    for book_id in {passage.book_id for passage in passages}:
        inside = [passage for passage in passages if passage.book_id == book_id]
        pages = Page.number.between(min(p.first_page for p in inside), max(p.last_page for p in inside))
        query = sa.select(Page.number, Page.label).where(Page.book_id == book_id, pages, Page.label.is_not(None))
        labels |= {(book_id, number): label for number, label in session.execute(query) if label}
    return labels


def _labels_of(passage: Passage, labels: dict[tuple[int, int], str]) -> dict[int, str]:
    pages = range(passage.first_page, passage.last_page + 1)
    return {page: labels[passage.book_id, page] for page in pages if (passage.book_id, page) in labels}
