"""The answer a pupil gets: sentences, each with its verdict and its place in the book."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """Verdict on one sentence."""

    # The model's sentence, and the quoted span bears it.
    SUPPORTED = "supported"
    # The book's own sentence, put in place of one that failed or was missing.
    QUOTED = "quoted"
    # The model's sentence, shown struck out with the reason.
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Citation:
    """Where a sentence stands in a book.

    ``quote`` is ``text[start:end]`` of the passage, and stands at ``page_start`` on page ``page``, characters, NFC.
    ``page_label`` is the printed page number; ``has_pages`` is False for documents without pages.
    """

    marker: int
    passage_id: int
    book_id: int
    book: str
    chapter: str | None
    lesson: str | None
    page: int
    page_label: str
    has_pages: bool
    quote: str
    start: int
    end: int
    page_start: int


@dataclass(frozen=True)
class CheckedSentence:
    """One sentence, its markers taken out of ``text``.

    ``reason`` says in Vietnamese why a sentence is unsupported. ``replaces`` is the model's sentence that a quote
    stands in for. ``score`` is the share of the sentence's content that the quote bears, 0 to 1.
    """

    text: str
    status: Status
    citation: Citation | None
    score: float
    reason: str | None = None
    replaces: str | None = None


@dataclass(frozen=True)
class Lesson:
    """A place to read on."""

    book_id: int
    book: str
    chapter: str | None
    lesson: str | None
    page: int
    page_label: str
    has_pages: bool


@dataclass(frozen=True)
class Answer:
    """The checked answer. ``found`` is False when the book does not say; ``nearest`` then names lessons to look at."""

    question: str
    found: bool
    sentences: tuple[CheckedSentence, ...]
    nearest: tuple[Lesson, ...] = ()

    @property
    def text(self) -> str:
        """What may be read aloud: the sentences that hold, in order; the not-found message when none does."""
        kept = [s.text for s in self.sentences if s.status is not Status.UNSUPPORTED]
        return " ".join(kept) if self.found else NOT_IN_BOOK

    def to_json(self) -> dict[str, Any]:
        """Plain values for storing and for the wire."""
        return {**asdict(self), "text": self.text}


NOT_IN_BOOK = "Sách chưa nói đến điều này."
