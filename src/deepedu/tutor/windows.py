"""Evidence cut into sentences, and the windows of neighbouring sentences that a statement is held against."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from deepedu.base.vietnamese import sentence_spans
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Citation, Lesson
from deepedu.tutor.names import Lexicon, Name, names
from deepedu.tutor.quantities import Quantity, quantities
from deepedu.tutor.terms import Token, is_content, is_task, pairs, tokens
from deepedu.tutor.units import units_in

# A quote longer than this is no quote any more.
_QUOTE_CHARACTERS = 700
_PRONOUN_OPENING = re.compile(
    r"(?:ông|bà|nó|họ|chúng|đây|đó|vì vậy|do đó|vì thế|nhờ đó|nhờ vậy|sau đó|khi đó|từ đó|lúc này|tại đây|ở đây|"
    r"trong đó|"
    r"ngoài ra|tuy nhiên|nhưng|điều này|việc này|cuộc này|sự kiện này|loại này)\b",
    re.IGNORECASE,
)
_UNIT_IN_HEAD = re.compile(r"\s*\(([^()]{1,12})\)$")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a passage, ``passage.text[start:end]``."""

    text: str
    start: int
    end: int
    tokens: tuple[Token, ...]
    quantities: tuple[Quantity, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(token.word for token in self.tokens)

    @cached_property
    def folded(self) -> frozenset[str]:
        return frozenset(token.folded for token in self.tokens)

    @cached_property
    def said(self) -> str:
        """Its words in order, a space around each."""
        return f" {' '.join(self.words)} "

    @property
    def is_row(self) -> bool:
        return " | " in self.text

    @property
    def is_question(self) -> bool:
        return self.text.rstrip(" \"”'»)").endswith("?") or is_task(self.text)

    @property
    def is_open(self) -> bool:
        """Whether what it announces only follows ("... công thức sau:")."""
        return self.text.rstrip().endswith(":")

    @property
    def is_heading(self) -> bool:
        """Whether it is a title rather than a statement: short and without a full stop."""
        closed = self.text.rstrip(" \"”'»)").endswith((".", "!", ";", ":", "…"))
        return not closed and not self.is_row and len(self.tokens) < 14

    @property
    def leans_back(self) -> bool:
        """Whether it needs the sentence before it to be understood."""
        return _PRONOUN_OPENING.match(self.text) is not None


class Passage:
    """One piece of evidence, ready to be compared."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.text = evidence.text
        self.sentences = tuple(_sentence(evidence.text, start, end) for start, end in sentence_spans(evidence.text))
        titles = [title for title in (evidence.book, evidence.chapter, evidence.lesson) if title]
        self.titles = [(title, tokens(title)) for title in titles]
        self.lexicon = Lexicon.of([(s.text, s.tokens) for s in self.sentences] + self.titles)
        self.units = units_in(evidence.text)

    @cached_property
    def windows(self) -> tuple["Window", ...]:
        """Every run of one to three neighbouring sentences, shorter ones first."""
        count = len(self.sentences)
        return tuple(
            Window(self, first, first + length)
            for length in (1, 2, 3)
            for first in range(count - length + 1)
            if length == 1 or self._run_together(self.sentences[first : first + length])
        )

    @staticmethod
    def _run_together(run: Sequence[Sentence]) -> bool:
        # A table row stands for itself: its numbers belong to no other row.
        return run[-1].end - run[0].start <= _QUOTE_CHARACTERS and not any(s.is_row for s in run)

    def header_of(self, index: int) -> Sentence | None:
        """The first row of the table that sentence ``index`` is a later row of."""
        first = index
        while first > 0 and self.sentences[first - 1].is_row:
            first -= 1
        return self.sentences[first] if first < index and self.sentences[index].is_row else None


@dataclass(frozen=True)
class Window:
    """Sentences ``first`` to ``stop`` (exclusive) of a passage."""

    passage: Passage = field(repr=False)
    first: int
    stop: int

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        return self.passage.sentences[self.first : self.stop]

    @property
    def start(self) -> int:
        return self.passage.sentences[self.first].start

    @property
    def end(self) -> int:
        return self.passage.sentences[self.stop - 1].end

    @property
    def text(self) -> str:
        return self.passage.text[self.start : self.end]

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words; a table row has those of the table's head as well."""
        return frozenset(token.word for token in self._tokens)

    @cached_property
    def folded(self) -> frozenset[str]:
        return frozenset(token.folded for token in self._tokens)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighbouring words without accents; a table row has those of the table's head as well."""
        said = (*self.sentences, *([self.header] if self.header else []))
        return frozenset(pair for s in said for pair in pairs([t.folded for t in s.tokens if is_content(t.word)]))

    @cached_property
    def header(self) -> Sentence | None:
        """The head of the table that it is a row of."""
        return self.passage.header_of(self.first)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        return tuple(q for s in self.sentences for q in s.quantities)

    @cached_property
    def names(self) -> tuple[Name, ...]:
        return tuple(n for s in self.sentences for n in names(s.text, s.tokens, self.passage.lexicon))

    @cached_property
    def lexicon(self) -> Lexicon:
        return Lexicon.of([(s.text, s.tokens) for s in self.sentences])

    @cached_property
    def surroundings(self) -> Lexicon:
        """Where its names may stand: the passage and its titles; for a table row the row, the head and the titles."""
        if not self.sentences[0].is_row:
            return self.passage.lexicon
        rows = (*self.sentences, *([self.header] if self.header else []))
        return Lexicon.of([(s.text, s.tokens) for s in rows] + self.passage.titles)

    @cached_property
    def _tokens(self) -> tuple[Token, ...]:
        return tuple(t for s in (*self.sentences, *([self.header] if self.header else [])) for t in s.tokens)

    def citation(self, marker: int) -> Citation:
        """The exact slice of the passage, and where it stands in the book.

        Args:
            marker: number of the passage in the prompt, from 1.
        """
        evidence = self.passage.evidence
        page, page_start = evidence.place_of(self.start)
        return Citation(
            marker=marker,
            passage_id=evidence.passage_id,
            book_id=evidence.book_id,
            book=evidence.book,
            chapter=evidence.chapter,
            lesson=evidence.lesson,
            page=page,
            page_label=evidence.page_labels.get(page, str(page)),
            has_pages=evidence.has_pages,
            quote=self.text,
            start=self.start,
            end=self.end,
            page_start=page_start,
        )

    def readable(self) -> str:
        """The window as prose; a table row is read with the names of its columns."""
        return " ".join(self._read(index) for index in range(self.first, self.stop))

    def _read(self, index: int) -> str:
        sentence = self.passage.sentences[index]
        header = self.passage.header_of(index)
        if not sentence.is_row:
            return " ".join(sentence.text.split())
        cells = _cells(sentence.text)
        heads = _cells(header.text) if header else []
        if len(heads) == len(cells):
            return "; ".join(_cell(head, cell) for head, cell in zip(heads, cells, strict=True)) + "."
        return "; ".join(cells) + "."


def lesson_of(evidence: Evidence) -> Lesson:
    """Where a passage stands, as a place to read on."""
    return Lesson(
        book_id=evidence.book_id,
        book=evidence.book,
        chapter=evidence.chapter,
        lesson=evidence.lesson,
        page=evidence.first_page,
        page_label=evidence.page_labels.get(evidence.first_page, str(evidence.first_page)),
        has_pages=evidence.has_pages,
    )


def nearest_lessons(evidence: Sequence[Evidence], limit: int = 3) -> tuple[Lesson, ...]:
    """Distinct lessons of the evidence, best first."""
    found: dict[tuple[object, ...], Lesson] = {}
    for passage in evidence:
        key = (passage.book_id, passage.chapter, passage.lesson or passage.first_page)
        found.setdefault(key, lesson_of(passage))
    return tuple(found.values())[:limit]


def _sentence(text: str, start: int, end: int) -> Sentence:
    piece = text[start:end]
    return Sentence(piece, start, end, tuple(tokens(piece)), tuple(quantities(piece)))


def _cell(head: str, cell: str) -> str:
    """A cell with the title of its column; a unit in that title goes to the number ("Nhiệt độ: 100 °C")."""
    unit = _UNIT_IN_HEAD.search(head)
    if unit and cell[-1:].isdigit():
        head, cell = head[: unit.start()], f"{cell} {unit[1]}"
    return f"{head}: {cell}" if head else cell


def _cells(row: str) -> list[str]:
    return [" ".join(cell.split()) for cell in row.strip().strip("|").split("|")]
