"""The pages of a book as one text: lines with their marks, and which of them are furniture rather than content."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import fold
from deepedu.curriculum.headings import Heading, parse_heading
from deepedu.curriculum.readers.base import PageText

RUNNING, CONTENTS = "running", "contents"

_LEADER = re.compile(r"(?:\.{3,}|…{2,}|_{4,}|(?:\s[.·]){4,})[\s.…]*\d{1,4}\s*$")
_TRAILING_NUMBER = re.compile(r"(?:\t|\s)\s*\d{1,4}\s*$")
_PAGE_NUMBER = re.compile(r"[-–—\s|•~.]*(?:(?:trang|page|tr\.)\s*)?(\d{1,4})(?:\s*/\s*\d{1,4})?[-–—\s|•~.]*", re.I)
_CONTENTS_TITLE = re.compile(r"m\s*u\s*c\s+l\s*u\s*c|noi dung sach|contents", re.I)
# Lines at the top and at the bottom of a page that may be running heads.
_EDGE_LINES = 2
_RUNNING_CHARACTERS = 50


@dataclass(slots=True)
class Line:
    """A line that is not blank. Offsets are global, without surrounding spaces; ``level`` as in ``PageText``."""

    start: int
    end: int
    page: int
    text: str
    level: int | None = None
    mark: int = -1
    is_after_blank: bool = False
    dropped: str | None = None
    heading: Heading | None = None


class Manuscript:
    """All pages of a book, joined by line ends; global offsets count in ``text``."""

    def __init__(self, pages: Sequence[PageText], *, has_pages: bool) -> None:
        self.pages = pages
        self.has_pages = has_pages
        self.text = "\n".join(page.text for page in pages)
        self.page_starts: list[int] = []
        start = 0
        for page in pages:
            self.page_starts.append(start)
            start += len(page.text) + 1
        self.marks_headings = any(level for page in pages for _, _, level in page.headings or ())
        self.lines = list(self._read_lines())
        if has_pages:
            _drop_running_lines(self.lines, [page.number for page in pages])
        _drop_contents(self.lines)

    def page_index(self, offset: int) -> int:
        """Index in ``pages`` of the page that holds a global offset."""
        return max(bisect_right(self.page_starts, offset) - 1, 0)

    def page_number(self, offset: int) -> int:
        """Number of the page that holds a global offset."""
        return self.pages[self.page_index(offset)].number

    def _read_lines(self) -> Iterable[Line]:
        mark = 0
        for index, page in enumerate(self.pages):
            position = self.page_starts[index]
            marked = sorted(page.headings or ())
            is_after_blank = True
            for raw in page.text.split("\n"):
                stripped = raw.strip()
                if stripped:
                    start = position + len(raw) - len(raw.lstrip())
                    line = Line(start, start + len(stripped), index, stripped, is_after_blank=is_after_blank)
                    offset = start - self.page_starts[index]
                    for number, (begin, end, level) in enumerate(marked):
                        if begin <= offset < end:
                            line.level, line.mark = level, mark + number
                    line.heading = parse_heading(stripped)
                    yield line
                is_after_blank = not stripped
                position += len(raw) + 1
            mark += len(marked)


def _drop_running_lines(lines: list[Line], numbers: list[int]) -> None:
    """Marks page numbers and the heads and feet that recur from page to page."""
    by_page: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_page[line.page].append(line)
    edges: dict[tuple[str, bool], list[Line]] = defaultdict(list)
    shifts: Counter[int] = Counter()
    page_numbers: list[tuple[Line, int]] = []
    for page, own in by_page.items():
        for place, line in enumerate(own):
            is_top, is_bottom = place < _EDGE_LINES, place >= len(own) - _EDGE_LINES
            if not (is_top or is_bottom):
                continue
            inner = own[place + 1] if is_top and place + 1 < len(own) else line
            is_apart = line.is_after_blank if is_bottom and not is_top else inner.is_after_blank
            if len(line.text) > _RUNNING_CHARACTERS and not is_apart:
                continue  # A line of a paragraph.
            match = _PAGE_NUMBER.fullmatch(line.text)
            if match:
                page_numbers.append((line, int(match.group(1)) - numbers[page]))
                shifts[page_numbers[-1][1]] += 1
            elif len(line.text) <= 120 and not line.level:
                edges[_edge_key(line), is_top].append(line)
    if shifts:
        shift, count = shifts.most_common(1)[0]
        for line, own_shift in page_numbers:
            if own_shift == shift and count >= 2:
                line.dropped = RUNNING
    titles = {line.heading.key for line in lines if line.heading and line.heading.title}
    for (_, _), found in edges.items():
        pages = {line.page for line in found}
        heading = found[0].heading
        is_echo = heading is not None and bool(heading.title) and heading.key in titles and len(found) >= 2
        if len(pages) >= 3 or is_echo:
            for line in found:
                line.dropped = RUNNING
            _restore_first_heading(lines, found)


def _edge_key(line: Line) -> str:
    """Equal for one running line on its pages: a page number inside it may differ, a lesson's number may not."""
    text = fold(" ".join(line.text.split()))
    if line.heading is not None:
        return re.sub(r"\s*[|•–-]?\s*\b\d+$", "", text) if line.heading.title else text
    return re.sub(r"^\d+\s+|\s+\d+$", "#", text)


def _restore_first_heading(lines: list[Line], found: list[Line]) -> None:
    """A head that repeats a heading stays where it is the heading itself: nothing else on the pages says it."""
    heading = found[0].heading
    if heading is None:
        return
    is_elsewhere = any(
        line.heading is not None
        and line.dropped is None
        and (line.heading.kind, line.heading.ordinal) == (heading.kind, heading.ordinal)
        for line in lines
    )
    if not is_elsewhere:
        found[0].dropped = None


def _drop_contents(lines: list[Line]) -> None:
    """Marks tables of contents: entries that lead to page numbers, or headings listed without text between."""
    kept = [line for line in lines if line.dropped is None]
    index = 0
    while index < len(kept):
        is_titled = bool(_CONTENTS_TITLE.fullmatch(fold(kept[index].text)))
        entries = _entries_from(kept, index + is_titled, is_titled=is_titled)
        if len(entries) >= 3 and (is_titled or _leads_on([kept[entry] for entry in entries])):
            stop = entries[-1] + 1
            for line in kept[index:stop]:
                line.dropped = CONTENTS
            index = stop
        else:
            index += 1


def _leads_on(entries: list[Line]) -> bool:
    """Whether entries without a title above them show page numbers, rather than titles that end in numbers."""
    numbers = [int(match.group()) for line in entries if (match := re.search(r"\d+\s*$", line.text))]
    is_ascending = numbers == sorted(numbers) and numbers[-1] > numbers[0]
    echoes = sum(
        line.heading is not None and line.heading.ordinal == number
        for line, number in zip(entries, numbers, strict=False)
    )
    leaders = sum(bool(_LEADER.search(line.text)) for line in entries)
    return leaders >= 2 or (is_ascending and len(numbers) == len(entries) and echoes <= len(entries) // 3)


def _entries_from(lines: list[Line], start: int, *, is_titled: bool) -> list[int]:
    """Indexes of the entries of a table of contents that begins at ``start``."""
    entries: list[int] = []
    seen: set[tuple[str, int | None, str]] = set()
    missed = 0
    for index in range(start, len(lines)):
        line = lines[index]
        if line.level and not is_titled:
            break
        heading = line.heading
        leads = bool(_LEADER.search(line.text))
        is_numbered = bool(_TRAILING_NUMBER.search(line.text)) and (heading is None or bool(heading.title))
        if heading is not None:
            kind, ordinal, title = heading.key
            key = kind, ordinal, re.sub(r"[\W\d_]+$", "", title)
            if key in seen:
                break  # The book itself begins where its first heading comes again.
            seen.add(key)
        is_entry = leads or (is_numbered and heading is not None)
        if is_titled:
            is_entry = is_entry or heading is not None or is_numbered or line.text.isdigit()
        if is_entry:
            entries.append(index)
            missed = 0
            continue
        # An entry may wrap onto a second line; more than that is text.
        missed += 1
        if missed > 1 or len(line.text) > 100 or (not entries and not is_titled):
            break
    return entries
