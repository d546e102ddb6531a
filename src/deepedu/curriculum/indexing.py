"""The last step of ingestion: from stored pages to sections and passages that search can find."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import DamagedDocument, EmptyDocument, UnsupportedFormat
from deepedu.curriculum.legacy import legacy_encoding
from deepedu.curriculum.manuscript import Manuscript
from deepedu.curriculum.metadata import Metadata, guess
from deepedu.curriculum.passages import PassageDraft, cut_passages
from deepedu.curriculum.readers import PageText
from deepedu.curriculum.structure import Structure, find_structure
from deepedu.store.tables import Book, Page, Passage, Section, now
from deepedu.store.text_index import index_book

# A page with fewer letters than this has no text worth the name.
_MIN_PAGE_LETTERS = 5
_SPARSE_SHARE = 0.5
_UNREADABLE = re.compile(r"[\ufffd\ue000-\uf8ff]")
_UNREADABLE_SHARE = 0.3


def make_searchable(session: Session, book: Book, hints: Mapping[str, str], name: PurePath, passage_tokens: int) -> int:
    """Makes a book of its stored pages ready, within the session's transaction.

    Args:
        book: with all pages stored; becomes ``ready``.
        hints: what the document says of itself.
        name: the file's name and its folder.

    Returns:
        How many passages there are; at least one.

    Raises:
        EmptyDocument: no text in it.
        DamagedDocument: its letters cannot be read.
        UnsupportedFormat: text in an encoding from before Unicode.
    """
    rows = session.scalars(sa.select(Page).where(Page.book_id == book.id).order_by(Page.number)).all()
    pages = [
        PageText(
            row.number,
            row.text,
            row.label,
            headings=None if row.headings is None else tuple((s, e, level) for s, e, level in row.headings),
        )
        for row in rows
    ]
    notes = _check_text(pages, has_pages=book.has_pages)
    given = {key: getattr(book, key) for key in ("title", "grade", "subject", "series") if key not in book.guessed}
    metadata, guessed = guess(Metadata(**given), hints, pages, name)
    manuscript = Manuscript(pages, has_pages=book.has_pages)
    structure = find_structure(manuscript, metadata.title or name.stem)
    passages, remarks = cut_passages(manuscript, structure, passage_tokens)
    if not passages:
        raise EmptyDocument(_no_text(book.has_pages))
    if structure.is_fallback and len(pages) > 1:
        remarks.append("Không nhận ra chương, bài; sách được chia theo trang.")
    for key in ("title", "grade", "subject", "series"):
        setattr(book, key, getattr(metadata, key))
    book.guessed = guessed
    book.notes = [*book.notes, *notes, *remarks]
    _store(session, book, structure, passages)
    book.status, book.lease, book.ready_at = "ready", None, now()
    session.flush()
    index_book(session, book.id)
    return len(passages)


def _store(session: Session, book: Book, structure: Structure, passages: Sequence[PassageDraft]) -> None:
    sections: list[Section] = []
    for ordinal, draft in enumerate(structure.sections):
        section = Section(
            book_id=book.id,
            parent_id=None if draft.parent is None else sections[draft.parent].id,
            ordinal=ordinal,
            kind=draft.kind,
            # A title is never empty: "BÀI 4" without a name is called by its label.
            label=draft.label if draft.label and draft.title else None,
            number=draft.number,
            title=draft.title or draft.label,
            first_page=draft.first_page,
            last_page=draft.last_page,
        )
        session.add(section)
        session.flush()
        sections.append(section)
    session.execute(
        sa.insert(Passage),
        [
            {
                "book_id": book.id,
                "section_id": sections[draft.section].id,
                "ordinal": ordinal,
                "text": draft.text,
                "heading": draft.heading,
                "tokens": draft.tokens,
                "first_page": draft.first_page,
                "last_page": draft.last_page,
                "spans": [list(span) for span in draft.spans],
            }
            for ordinal, draft in enumerate(passages)
        ],
    )


def _check_text(pages: Sequence[PageText], *, has_pages: bool) -> list[str]:
    """Remarks on pages without text; refuses a document that has none, or none that can be read."""
    whole = "\n".join(page.text for page in pages)
    visible = len(re.sub(r"\s", "", whole))
    if not any(character.isalnum() for character in whole):
        raise EmptyDocument(_no_text(has_pages))
    if len(_UNREADABLE.findall(whole)) > _UNREADABLE_SHARE * visible:
        raise DamagedDocument(
            "chữ trong tệp không đọc được (phông chữ nhúng thiếu bảng mã); hãy xuất lại PDF từ tệp gốc"
        )
    encoding = legacy_encoding(whole)
    if encoding is not None:
        raise UnsupportedFormat(
            f"văn bản dùng bảng mã cũ {encoding} (phông {'.VnTime' if encoding == 'TCVN3' else 'VNI-Times'}), "
            "đọc ra sẽ sai chữ; hãy chuyển sang Unicode (ví dụ bằng UniKey) rồi nạp lại"
        )
    if not has_pages:
        return []
    blank = [page for page in pages if sum(map(str.isalpha, page.text)) < _MIN_PAGE_LETTERS]
    if not blank:
        return []
    readable = len(pages) - len(blank)
    if readable < _SPARSE_SHARE * len(pages):
        return [
            f"Chỉ {readable}/{len(pages)} trang có chữ; các trang khác có lẽ là ảnh quét, DeepEdu chưa nhận dạng được."
        ]
    return [f"Không có chữ ở trang {_ranges([page.number for page in blank])} (hình hoặc trang trống)."]


def _no_text(has_pages: bool) -> str:
    if has_pages:
        return "không có chữ nào: có lẽ là bản quét (ảnh); DeepEdu chưa nhận dạng chữ trong ảnh (OCR)"
    return "không có chữ nào trong tệp"


def _ranges(numbers: Sequence[int]) -> str:
    """1, 4–7, 9"""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("–".join(map(str, part)) for part in parts)
