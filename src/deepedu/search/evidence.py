"""What search hands to the tutor: passages with their place in the book."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from deepedu.store.tables import TITLE_SEPARATOR

# "Câu hỏi và bài tập", "III. Luyện tập", "Bài tập cuối chương II".
_EXERCISES = re.compile(
    r"(?:[IVX\d]+\s*[.)]\s*)?(?:bài tập|câu hỏi|luyện tập|ôn tập|kiểm tra|vận dụng|trắc nghiệm|em hãy)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Scope:
    """Which books to look in, and which one lesson of them; None means any. All given conditions hold together."""

    book_ids: tuple[int, ...] | None = None
    grade: int | None = None
    subject: str | None = None
    section_id: int | None = None


@dataclass(frozen=True)
class Evidence:
    """A passage that search found.

    ``spans`` and page numbers are those of ``store.tables.Passage``; ``score`` is comparable within one search only;
    ``scores`` holds the part of each retriever, such as ``{"lexical": 11.2, "dense": 0.86}``.
    """

    passage_id: int
    book_id: int
    book: str
    chapter: str | None
    lesson: str | None
    text: str
    first_page: int
    last_page: int
    spans: tuple[tuple[int, int, int, int], ...]
    # Titles above the passage, outermost first, joined by TITLE_SEPARATOR.
    heading: str = ""
    has_pages: bool = True
    page_labels: Mapping[int, str] = field(default_factory=dict)
    # The section it stands in: a lesson, or a chapter's own text.
    section_id: int = 0
    score: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_exercise(self) -> bool:
        """Whether it asks rather than tells: the questions and exercises of a lesson."""
        return _EXERCISES.match(self.heading.split(TITLE_SEPARATOR)[-1]) is not None

    def place_of(self, offset: int) -> tuple[int, int]:
        """``(page_number, offset_on_that_page)`` of a character of ``text``."""
        for start, end, page, page_start in self.spans:
            if start <= offset < end:
                return page, page_start + offset - start
        return (self.spans[-1][2], self.spans[-1][3]) if self.spans else (self.first_page, 0)


class Retriever(Protocol):
    """Proposes passages for a question."""

    name: str

    def retrieve(self, question: str, scope: Scope, limit: int) -> list[tuple[int, float]]:
        """``(passage_id, score)``, best first; scores are comparable within one retriever only."""
        ...
