"""Passages: bounded stretches of whole sentences that know the place of every character."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deepedu.base.vietnamese import CHARACTERS_PER_TOKEN, estimate_tokens, is_table_row, sentence_spans
from deepedu.curriculum.manuscript import Line, Manuscript
from deepedu.curriculum.structure import SectionDraft, Structure, Subsection
from deepedu.store.tables import TITLE_SEPARATOR

# A sentence up to this many times the bound stays whole; beyond it is no sentence but a list without full stops.
WHOLE_SENTENCE_LIMIT = 4
_CLOSED = re.compile(r"[.!?…:;][\"'”’»)\]]*$")
_LIST_ITEM = re.compile(r"(?:[•▪◦●○■□◆►✓✔➢·*+–—-]|\d{1,2}[.)]|[a-zđ]\))\s")
_CAPTION = re.compile(r"(?:Bảng|BẢNG)\s*\d")
_CLAUSE_END = re.compile(r"[;:,.!?…)]\s|\s[–—]\s")


@dataclass(frozen=True)
class PassageDraft:
    """A passage before it is stored; fields as in ``store.tables.Passage``, ``section`` an index of the structure."""

    section: int
    text: str
    heading: str
    tokens: int
    first_page: int
    last_page: int
    spans: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class _Sentence:
    """A sentence in a section's text; ``separator`` parts it from the one before."""

    start: int
    end: int
    separator: str
    is_heading: bool = False
    is_row: bool = False
    is_cut: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass
class _SectionText:
    """The kept lines of one section as one text. ``pieces`` holds (start here, global start, length), ascending."""

    text: str
    pieces: list[tuple[int, int, int]] = field(default_factory=list)

    def to_global(self, offset: int) -> int:
        start, origin, _ = self.pieces[bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1]
        return origin + offset - start


def cut_passages(
    manuscript: Manuscript, structure: Structure, passage_tokens: int
) -> tuple[list[PassageDraft], list[str]]:
    """Cuts the whole book.

    Args:
        passage_tokens: upper bound of a passage in estimated tokens. Only a single longer sentence exceeds it.

    Returns:
        Passages in reading order, and remarks for the user.
    """
    limit = math.ceil(passage_tokens * CHARACTERS_PER_TOKEN) - 1
    passages: list[PassageDraft] = []
    notes: list[str] = []
    lines = [line for line in manuscript.lines if line.dropped is None]
    position = 0
    for index, section in enumerate(structure.sections):
        own: list[Line] = []
        while position < len(lines) and lines[position].start < section.end:
            own.append(lines[position])
            position += 1
        if not own:
            continue
        inside = [sub for sub in structure.subsections if section.start <= sub.start < section.end]
        text = _section_text(own, section, inside)
        sentences = list(_sentences(text, section, inside, limit))
        for sentence in sentences:
            if sentence.is_cut:
                page = manuscript.page_number(text.to_global(sentence.start))
                notes.append(f"Trang {page}: một câu quá dài được cắt ở dấu ngắt ý.")
        for group in _balance(_pack(sentences, limit), limit):
            passages.append(_draft(manuscript, structure, index, text, group, inside))
    return passages, list(dict.fromkeys(notes))


def _section_text(lines: Sequence[Line], section: SectionDraft, subsections: Sequence[Subsection]) -> _SectionText:
    headings = [(section.start, section.heading_end), *((sub.start, sub.end) for sub in subsections)]
    heading_of = {
        line.start: place for place, (start, end) in enumerate(headings) for line in lines if start <= line.start < end
    }
    result = _SectionText("")
    parts: list[str] = []
    length = 0
    before: Line | None = None
    for line in lines:
        if before is not None:
            own, other = heading_of.get(line.start), heading_of.get(before.start)
            if own != other:
                gap = "\n\n"
            elif own is not None:
                gap = "\n"
            elif line.page == before.page:
                gap = "\n\n" if line.is_after_blank else "\n"
            else:
                # A sentence may go on over the page break.
                gap = "\n\n" if _CLOSED.search(before.text) and not line.text[0].islower() else "\n"
                gap = "\n" if is_table_row(before.text) and is_table_row(line.text) else gap
            parts.append(gap)
            length += len(gap)
        result.pieces.append((length, line.start, line.end - line.start))
        parts.append(line.text)
        length += len(line.text)
        before = line
    result.text = "".join(parts)
    return result


def _sentences(
    text: _SectionText, section: SectionDraft, subsections: Sequence[Subsection], limit: int
) -> Iterator[_Sentence]:
    headings = [(section.start, section.heading_end), *((sub.start, sub.end) for sub in subsections)]
    before: tuple[int, int] | None = None
    found = sentence_spans(text.text)
    for (start, end), following in zip(found, [*found[1:], None], strict=True):
        origin = text.to_global(start)
        is_row = is_table_row(text.text[start:end])
        # The caption of a table stays with its rows, as a heading does with its text.
        is_caption = (
            following is not None
            and not is_row
            and _CAPTION.match(text.text, start) is not None
            and is_table_row(text.text[slice(*following)])
        )
        is_heading = is_caption or any(begin <= origin < stop for begin, stop in headings)
        separator = "" if before is None else _separator(text.text, before, (start, end))
        before = start, end
        if end - start <= WHOLE_SENTENCE_LIMIT * limit:
            yield _Sentence(start, end, separator, is_heading, is_row)
            continue
        for begin, stop in _clauses(text.text, start, end, limit):
            yield _Sentence(begin, stop, separator if begin == start else " ", is_row=is_row, is_cut=True)


def _separator(text: str, before: tuple[int, int], after: tuple[int, int]) -> str:
    gap = text[before[1] : after[0]]
    if "\n\n" in gap:
        return "\n\n"
    if "\n" not in gap:
        return " "
    left, right = text[before[0] : before[1]], text[after[0] : after[1]]
    if (is_table_row(left) and is_table_row(right)) or _LIST_ITEM.match(right):
        return "\n"
    return " " if _CLOSED.search(left) else "\n\n"


def _clauses(text: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Cuts what is far too long for a passage: at the last clause end, else the last space, else anywhere."""
    while end - start > limit:
        window = text[start : start + limit]
        stops = [match.start() + 1 for match in _CLAUSE_END.finditer(window)]
        spaces = [match.start() for match in re.finditer(r"\s", window)]
        cut = next((stop for stop in reversed(stops) if stop > limit // 3), None) or (spaces[-1] if spaces else 0)
        cut = cut if cut > 0 else limit
        yield start, start + len(window[:cut].rstrip())
        start += cut
        while start < end and text[start].isspace():
            start += 1
    if end > start:
        yield start, end


def _length(group: Sequence[_Sentence]) -> int:
    return sum(sentence.size for sentence in group) + sum(len(sentence.separator) for sentence in group[1:])


def _pack(sentences: Sequence[_Sentence], limit: int) -> list[list[_Sentence]]:
    """Fills passages up to the bound, ending them at paragraphs where that leaves them well filled."""
    groups: list[list[_Sentence]] = []
    current: list[_Sentence] = []
    header: _Sentence | None = None
    for place, sentence in enumerate(sentences):
        previous = sentences[place - 1] if place else None
        if sentence.is_row and (previous is None or not previous.is_row):
            header = sentence
        size = _length(current)
        is_over = bool(current) and size + len(sentence.separator) + sentence.size > limit
        if is_over or _ends_well(current, size, sentences, place, limit):
            carried = _close(current, groups)
            is_mid_table = sentence.is_row and previous is not None and previous.is_row
            if is_mid_table and not carried and header is not None and header.size + sentence.size < limit // 2:
                carried = [header]
            if carried and _length([*carried, sentence]) > limit:
                groups.append(carried) if carried[0] is not header else None
                carried = []
            current = carried
        current.append(sentence)
    if current:
        groups.append(current)
    return groups


def _ends_well(current: Sequence[_Sentence], size: int, sentences: Sequence[_Sentence], place: int, limit: int) -> bool:
    """Whether the passage should end here, before a heading or paragraph that would not fit as a whole."""
    sentence = sentences[place]
    if not current or all(item.is_heading for item in current):
        return False
    if sentence.is_heading and not current[-1].is_heading:
        return size >= 0.35 * limit
    if sentence.separator != "\n\n" or size < 0.5 * limit:
        return False
    stop = place + 1
    while stop < len(sentences) and sentences[stop].separator != "\n\n":
        stop += 1
    return size + 2 + _length(sentences[place:stop]) > limit


def _close(current: list[_Sentence], groups: list[list[_Sentence]]) -> list[_Sentence]:
    """Ends a passage; headings at its end go on to the next one and are returned."""
    stop = len(current)
    while stop and current[stop - 1].is_heading:
        stop -= 1
    if stop:
        groups.append(current[:stop])
    return current[stop:]


def _balance(groups: list[list[_Sentence]], limit: int) -> list[list[_Sentence]]:
    """Shares a section's last two passages more evenly where the last would be a scrap."""
    if len(groups) < 2 or _length(groups[-1]) > limit // 4 or groups[-1][0].is_heading:
        return groups
    together = [*groups[-2], *groups[-1]]
    if any(item.is_row or item.is_cut for item in together):
        return groups
    if _length(together) <= limit:
        return [*groups[:-2], together]
    best: tuple[float, int] | None = None
    for place in range(1, len(together)):
        left, right = _length(together[:place]), _length(together[place:])
        if max(left, right) > limit or together[place - 1].is_heading:
            continue
        unevenness = abs(left - right) * (0.5 if together[place].separator == "\n\n" else 1.0)
        if best is None or unevenness < best[0]:
            best = unevenness, place
    return groups if best is None else [*groups[:-2], together[: best[1]], together[best[1] :]]


def _draft(
    manuscript: Manuscript,
    structure: Structure,
    index: int,
    text: _SectionText,
    group: Sequence[_Sentence],
    subsections: Sequence[Subsection],
) -> PassageDraft:
    parts: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    length = 0
    for sentence in group:
        if parts:
            parts.append(sentence.separator)
            length += len(sentence.separator)
        parts.append(text.text[sentence.start : sentence.end].replace("\n", " "))
        for start, origin, size in text.pieces[
            max(bisect_right(text.pieces, sentence.start, key=lambda piece: piece[0]) - 1, 0) :
        ]:
            if start >= sentence.end:
                break
            begin, stop = max(start, sentence.start), min(start + size, sentence.end)
            if begin < stop:
                at = length + begin - sentence.start
                _add_span(spans, manuscript, at, at + stop - begin, origin + begin - start)
        length += sentence.size
    whole = "".join(parts)
    first = next((item for item in group if not item.is_heading), group[0])
    heading = _heading(structure, index, text.to_global(first.start), subsections)
    pages = [span[2] for span in spans]
    return PassageDraft(index, whole, heading, estimate_tokens(whole), min(pages), max(pages), tuple(spans))


def _add_span(
    spans: list[tuple[int, int, int, int]], manuscript: Manuscript, start: int, end: int, origin: int
) -> None:
    """Adds a stretch; joins it to the last where only one white space lies between, here and on the page."""
    page = manuscript.page_index(origin)
    number, page_start = manuscript.pages[page].number, origin - manuscript.page_starts[page]
    if spans:
        last_start, last_end, last_page, last_page_start = spans[-1]
        page_gap = page_start - (last_page_start + last_end - last_start)
        if last_page == number and page_gap == start - last_end and page_gap in (0, 1):
            spans[-1] = last_start, end, last_page, last_page_start
            return
    spans.append((start, end, number, page_start))


def _heading(structure: Structure, index: int, position: int, subsections: Sequence[Subsection]) -> str:
    titles: list[str] = []
    at: int | None = index
    while at is not None:
        section = structure.sections[at]
        titles.insert(0, section.display)
        at = section.parent
    stack: list[Subsection] = []
    for sub in subsections:
        if sub.start > position:
            break
        while stack and stack[-1].rank >= sub.rank:
            stack.pop()
        stack.append(sub)
    titles += [sub.title for sub in stack]
    return TITLE_SEPARATOR.join(" ".join(title.split()) for title in titles if title)
