"""What every reader gives: a document of pages, each knowing where its text came from."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from deepedu.base.vietnamese import compose, sentence_spans

# Stretches of a document without pages, in characters.
STRETCH_CHARACTERS = 3000


@dataclass(frozen=True)
class PageText:
    """One page, or one stretch of a document without pages.

    ``text`` is NFC with ``\\n`` line ends; a blank line parts paragraphs. ``source_breaks`` are those of an
    ``OffsetMap`` from ``text`` to the reader's raw text of the page. ``headings`` holds ``(start, end, level)`` where
    the format marks them, level 1 the highest, or level 0 for print that merely stands out (larger or bold); None
    when the format marks none.
    """

    number: int
    text: str
    label: str | None = None
    source_breaks: tuple[tuple[int, int], ...] = ((0, 0),)
    headings: tuple[tuple[int, int, int], ...] | None = None
    notes: tuple[str, ...] = ()


class Document(Protocol):
    """An open document."""

    @property
    def format(self) -> str:
        """One of ``readers.FORMATS``."""
        ...

    @property
    def page_count(self) -> int: ...

    @property
    def has_pages(self) -> bool:
        """False: the format has no pages, so page numbers count stretches of text."""
        ...

    @property
    def hints(self) -> Mapping[str, str]:
        """What the document says of itself: title, grade, subject, series."""
        ...

    def pages(self, start: int = 1) -> Iterator[PageText]:
        """The pages from number ``start`` on, in order."""
        ...

    def close(self) -> None:
        """Gives the file back."""
        ...


class TrackedText:
    """Text under repair that remembers where in the raw text each of its characters stood."""

    def __init__(self, text: str, sources: list[int] | None = None) -> None:
        self.text = text
        self.sources = list(range(len(text))) if sources is None else sources

    def replace(self, pattern: str | re.Pattern[str], new: str = "") -> "TrackedText":
        """Puts ``new`` for every match; its characters count as standing where the match began."""
        return self._rewrite(pattern, lambda match: [(new, match.start(), False)])

    def unwrap(self, pattern: str | re.Pattern[str]) -> "TrackedText":
        """Keeps of every match only its groups, in order."""
        return self._rewrite(
            pattern,
            lambda match: [
                (match.group(index), match.start(index), True)
                for index in range(1, (match.re.groups or 0) + 1)
                if match.group(index)
            ],
        )

    def _rewrite(
        self,
        pattern: str | re.Pattern[str],
        pieces_of: Callable[[re.Match[str]], list[tuple[str, int, bool]]],
    ) -> "TrackedText":
        parts: list[str] = []
        sources: list[int] = []
        done = 0
        for match in re.finditer(pattern, self.text):
            parts.append(self.text[done : match.start()])
            sources += self.sources[done : match.start()]
            for piece, start, is_kept in pieces_of(match):
                parts.append(piece)
                if is_kept:
                    sources += self.sources[start : start + len(piece)]
                else:
                    at = self.sources[start] if start < len(self.sources) else 0
                    sources += [at] * len(piece)
            done = match.end()
        if not parts:
            return self
        parts.append(self.text[done:])
        sources += self.sources[done:]
        return TrackedText("".join(parts), sources)

    def composed(self) -> "TrackedText":
        """The same in NFC."""
        text, back = compose(self.text)
        if text is self.text or text == self.text:
            return self
        return TrackedText(text, [self.sources[back.to_source(offset)] for offset in range(len(text))])

    def slice(self, start: int, end: int) -> "TrackedText":
        """Characters ``start:end``."""
        return TrackedText(self.text[start:end], self.sources[start:end])

    def breaks(self) -> tuple[tuple[int, int], ...]:
        """As ``OffsetMap.breaks``."""
        found = [(0, self.sources[0] if self.sources else 0)]
        for offset, source in enumerate(self.sources):
            if source - offset != found[-1][1] - found[-1][0]:
                found.append((offset, source))
        return tuple(found)


# Presentation forms that PDF fonts leave behind; NFC keeps them.
LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
_LIGATURE = re.compile(f"[{''.join(LIGATURES)}]")
# Never printed: soft hyphens, zero-width signs, byte-order marks, control characters.
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SPACES = re.compile(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000\x0b]")
# A tab parts cells or leads to a page number, except where it only indents or follows a list number.
_INDENT = re.compile(r"(?m)^[ \t]*\t")
_NUMBER_TAB = re.compile(r"(?m)(?:(?<=^[-–•*+])|(?<=^[\w§][.):])|(?<=^[\w§]{2}[.):])|(?<=^[\w§]{3}[.):]))\t")


def clean(tracked: TrackedText) -> TrackedText:
    """NFC, ``\\n`` line ends, plain spaces, no invisible characters, no ligatures."""
    tracked = tracked.replace(r"\r\n?|\u2028|\u2029|\x85", "\n")
    tracked = tracked.replace(_INVISIBLE)
    for ligature in set(_LIGATURE.findall(tracked.text)):
        tracked = tracked.replace(ligature, LIGATURES[ligature])
    tracked = tracked.replace(_INDENT).replace(_SPACES, " ").replace(_NUMBER_TAB, " ")
    tracked = tracked.replace(r"[ ]+(?=\n|$)")
    return tracked.composed()


SUPERSCRIPTS = str.maketrans("0123456789+-−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ")


def superscript(text: str) -> str:
    """``10`` + superscript ``5`` must not become 105; other raised text stays as it is."""
    return text.translate(SUPERSCRIPTS) if re.fullmatch(r"[-+−]?\d+|n", text) else text


@dataclass
class Block:
    """A paragraph, heading, list item or table row on its way to a page."""

    text: TrackedText
    level: int | None = None
    # Rows of one table and items of one list stand close together; anything else is parted by a blank line.
    is_tight: bool = False
    page_breaks: int = 0


@dataclass
class BlockDocument:
    """A document read whole into memory and laid out as pages."""

    format: str
    has_pages: bool
    hints: Mapping[str, str]
    _pages: list[PageText] = field(repr=False)

    @property
    def page_count(self) -> int:
        return len(self._pages)

    def pages(self, start: int = 1) -> Iterator[PageText]:
        """The pages from number ``start`` on."""
        yield from self._pages[start - 1 :]

    def close(self) -> None:
        """Nothing is held open."""


def block(text: str, level: int | None = None, *, is_tight: bool = False, page_breaks: int = 0) -> Block:
    """A block whose raw text is ``text`` itself."""
    return Block(TrackedText(text), level, is_tight, page_breaks)


def lay_out(format_name: str, blocks: Iterable[Block], *, has_pages: bool, hints: Mapping[str, str]) -> BlockDocument:
    """Makes pages of blocks.

    Args:
        blocks: in reading order. Sources of a block are offsets in its own raw text; they are shifted so that the
            raw text of a page is its blocks' raw texts, parted as the page is.
        has_pages: whether ``page_breaks`` count; otherwise pages are stretches cut at paragraph ends.
    """
    blocks = list(blocks)
    marks = any(item.level is not None for item in blocks)
    pages: list[list[Block]] = [[]]
    if has_pages:
        for item in blocks:
            pages += [[] for _ in range(item.page_breaks)]
            pages[-1].append(item)
    else:
        filled = 0
        for item in _bounded(blocks):
            length = len(item.text.text)
            is_full = filled and filled + length > STRETCH_CHARACTERS
            if is_full and not item.is_tight:
                pages.append([])
                filled = 0
            pages[-1].append(item)
            filled += length
    laid = [_page(number, items, marks) for number, items in enumerate(pages, start=1)]
    return BlockDocument(format_name, has_pages, hints, laid)


def _bounded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Cuts what alone would fill more than two stretches, at sentence ends."""
    for item in blocks:
        if len(item.text.text) <= 2 * STRETCH_CHARACTERS:
            yield item
            continue
        start = 0
        for begin, _ in sentence_spans(item.text.text):
            if begin - start >= STRETCH_CHARACTERS:
                yield Block(item.text.slice(start, begin), item.level)
                start = begin
        yield Block(item.text.slice(start, len(item.text.text)), item.level)


def _page(number: int, items: list[Block], marks: bool) -> PageText:
    parts: list[str] = []
    sources: list[int] = []
    headings: list[tuple[int, int, int]] = []
    length = raw_length = 0
    for item in items:
        tracked = clean(item.text)
        if not tracked.text.strip():
            continue
        if parts:
            gap = "\n" if item.is_tight else "\n\n"
            parts.append(gap)
            sources += range(raw_length, raw_length + len(gap))
            length += len(gap)
            raw_length += len(gap)
        parts.append(tracked.text)
        first = item.text.sources[0] if item.text.sources else 0
        sources += [raw_length + source - first for source in tracked.sources]
        if item.level is not None:
            headings.append((length, length + len(tracked.text), item.level))
        length += len(tracked.text)
        raw_length += (item.text.sources[-1] - first + 1) if item.text.sources else 0
    text = TrackedText("".join(parts), sources)
    return PageText(number, text.text, source_breaks=text.breaks(), headings=tuple(headings) if marks else None)
