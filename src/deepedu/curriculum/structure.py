"""Book > chapter > lesson: recognised from headings that the format marks or that the text shows.

Text alone is treacherous: exercises are numbered "Bài 1." as lessons are, prose says "Bài 3 nói rằng", heads repeat on
every page. So every candidate gets a score from how it looks and where it stands, and the best ascending chain of
numbers through the whole book wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from deepedu.curriculum.heading_chain import Candidate, best_chain, score_candidates
from deepedu.curriculum.headings import CHAPTER_KINDS, Heading, parse_subsection, parse_unnumbered
from deepedu.curriculum.manuscript import Line, Manuscript

# A book without headings is parted into stretches of this many pages.
PAGES_PER_PART = 5
_MAX_TITLE_LINES = 3
# Below every heading that has a number or a level.
_PROMINENT_RANK = 99


@dataclass
class SectionDraft:
    """A section before it is stored; ``start:end`` is its own text, without that of the sections below it."""

    kind: str
    label: str
    number: str | None
    title: str
    parent: int | None
    start: int
    end: int = 0
    heading_end: int = 0
    first_page: int = 0
    last_page: int = 0

    @property
    def display(self) -> str:
        """Label and title in one line: "Bài 3. Đo chiều dài"."""
        return f"{self.label}. {self.title}" if self.label and self.title else self.label or self.title


@dataclass(frozen=True)
class Subsection:
    """A heading inside a section. A smaller ``rank`` holds a larger one."""

    start: int
    end: int
    rank: int
    title: str


@dataclass
class Structure:
    """Sections in reading order, and the headings inside them."""

    sections: list[SectionDraft] = field(default_factory=list)
    subsections: list[Subsection] = field(default_factory=list)
    is_fallback: bool = False


@dataclass
class _Entry:
    first: int
    last: int
    heading: Heading
    level: int | None = None


def find_structure(manuscript: Manuscript, title: str) -> Structure:
    """The sections of a book.

    Args:
        title: the book's own; names the text before the first heading, and the whole where there are no headings.

    Returns:
        Sections whose ranges follow one another and cover the whole text. There is at least one.
    """
    lines = [line for line in manuscript.lines if line.dropped is None]
    by_text = _entries_by_text(lines)
    entries = _marked_entries(lines) if manuscript.marks_headings else []
    marked_lessons = sum(entry.heading.kind == "lesson" for entry in entries)
    text_lessons = sum(entry.heading.kind == "lesson" for entry in by_text)
    if not entries or (text_lessons >= 2 and text_lessons > 1.25 * marked_lessons):
        structure = _build(manuscript, lines, by_text, title)
    else:
        structure = _build(manuscript, lines, _by_level(entries), title)
    if not structure.sections:
        return Structure(_fallback(manuscript, title), is_fallback=True)
    return structure


def _entries_by_text(lines: Sequence[Line]) -> list[_Entry]:
    """Headings found by their words and numbers."""
    candidates = score_candidates(lines)
    chapters = best_chain([c for c in candidates if c.heading.kind in CHAPTER_KINDS], restarts_at=None)
    starts = [c.index for c in chapters]
    lessons = best_chain([c for c in candidates if c.heading.kind == "lesson"], restarts_at=starts)
    if len(lessons) < 2:
        periods = best_chain([c for c in candidates if c.heading.kind == "period"], restarts_at=starts)
        lessons = periods if len(periods) >= 2 else [c for c in lessons if c.score >= 1.5]
    chosen = sorted([*chapters, *lessons], key=lambda c: c.index)
    if len(chosen) < 2 and not (chosen and chosen[0].score >= 2):
        return []
    entries = [_with_title(lines, c) for c in chosen]
    taken = {index for entry in entries for index in range(entry.first, entry.last + 1)}
    for index, line in enumerate(lines):
        heading = parse_unnumbered(line.text) if index not in taken else None
        stands_alone = line.is_after_blank or line.text.isupper() or line.level is not None
        if heading is not None and stands_alone:
            entries.append(_Entry(index, index, heading))
    return sorted(entries, key=lambda entry: entry.first)


def _with_title(lines: Sequence[Line], candidate: Candidate) -> _Entry:
    """Takes the title from the lines below where the heading line has none, or goes on in them."""
    heading, first = candidate.heading, candidate.index
    last = first
    title = heading.title
    while last + 1 < len(lines) and last - first < _MAX_TITLE_LINES:
        line, before = lines[last + 1], lines[last]
        if line.page != before.page or line.heading is not None or parse_unnumbered(line.text):
            break
        if not title:
            is_title = len(line.text) <= 120 and not line.text.endswith((".", ";", ",", ":")) and " | " not in line.text
            is_title = is_title and not line.text[0].islower() and parse_subsection(line.text) is None
        else:
            # A title wraps in capitals after capitals, or in the same larger print.
            is_same_print = before.level is not None and line.level is not None and not line.is_after_blank
            is_shout = title.isupper() and line.text.isupper() and len(line.text) > 3
            is_title = (is_same_print or is_shout) and parse_subsection(line.text) is None
        if not is_title:
            break
        title = f"{title} {line.text}".strip()
        last += 1
    return _Entry(first, last, Heading(heading.kind, heading.label, heading.number, heading.ordinal, title))


def _marked_entries(lines: Sequence[Line]) -> list[_Entry]:
    """Headings that the format marks."""
    entries: list[_Entry] = []
    for index, line in enumerate(lines):
        if not line.level:
            continue
        if entries and entries[-1].last == index - 1 and lines[index - 1].mark == line.mark:
            entry = entries[-1]
            entry.last = index
            old = entry.heading
            title = f"{old.title} {line.text}".strip()
            entry.heading = Heading(old.kind, old.label, old.number, old.ordinal, title)
            continue
        heading = line.heading or parse_unnumbered(line.text) or Heading("other", "", None, None, line.text)
        entries.append(_Entry(index, index, heading, line.level))
    for entry, following in pairwise(entries):
        # "CHƯƠNG I" and its name in two headings of one level.
        is_nameless = bool(entry.heading.label) and not entry.heading.title
        if is_nameless and following.first == entry.last + 1 and following.heading.kind == "other":
            old = entry.heading
            entry.heading = Heading(old.kind, old.label, old.number, old.ordinal, following.heading.title)
            entry.last = following.last
            following.level = None
    return [entry for entry in entries if entry.level is not None]


def _by_level(entries: list[_Entry]) -> list[_Entry]:
    """Gives marked headings without a word of their own a place: by their level among those that have one."""
    lesson_levels = [entry.level or 0 for entry in entries if entry.heading.kind == "lesson"]
    chapter_levels = [entry.level or 0 for entry in entries if entry.heading.kind in CHAPTER_KINDS]
    others = [entry for entry in entries if entry.heading.kind not in (*CHAPTER_KINDS, "lesson")]
    levels = [entry.level or 0 for entry in entries]
    # One heading above all others is the title of the whole.
    is_titled = levels.count(min(levels)) == 1 and entries[0].level == min(levels) and len(entries) > 1
    if is_titled and entries[0] in others:
        others.remove(entries[0])
        entries = entries[1:]
        levels = levels[1:]
    if lesson_levels:
        lesson_level = max(set(lesson_levels), key=lesson_levels.count)
    elif chapter_levels:
        lesson_level = min((level for level in levels if level > min(chapter_levels)), default=99)
    else:
        lesson_level = min(levels)
    chapter_level = min(chapter_levels, default=lesson_level)
    for entry in others:
        level, old = entry.level or 0, entry.heading
        if old.kind in ("matter", "review") and level <= lesson_level:
            continue
        if level > lesson_level:
            kind = "sub"
        elif level == lesson_level:
            kind = "lesson"
        else:
            kind = "chapter" if level >= chapter_level and _has_lessons(entries, entry, lesson_level) else "matter"
        entry.heading = Heading(kind, old.label, old.number, old.ordinal, old.title)
    return entries


def _has_lessons(entries: list[_Entry], entry: _Entry, lesson_level: int) -> bool:
    for following in entries[entries.index(entry) + 1 :]:
        if (following.level or 0) <= (entry.level or 0):
            return False
        if following.level == lesson_level:
            return True
    return False


def _build(manuscript: Manuscript, lines: Sequence[Line], entries: list[_Entry], title: str) -> Structure:
    structure = Structure()
    sections = structure.sections
    open_chapters: list[tuple[int, int]] = []
    main = [entry for entry in entries if entry.heading.kind != "sub"]
    if not main:
        return structure
    if main[0].first > 0:
        has_numbers = any(entry.heading.number for entry in main)
        kind = "part" if has_numbers else "lesson"
        sections.append(SectionDraft(kind, "", None, title, None, 0))
    for entry in main:
        heading = entry.heading
        if heading.kind in CHAPTER_KINDS:
            open_chapters = [(rank, index) for rank, index in open_chapters if rank < heading.rank]
        elif heading.kind == "matter":
            open_chapters = []
        parent = open_chapters[-1][1] if open_chapters else None
        kind = "chapter" if heading.kind in CHAPTER_KINDS else "lesson"
        start, end = lines[entry.first].start, lines[entry.last].end
        name = heading.title or ("" if heading.label else lines[entry.first].text)
        section = SectionDraft(kind, heading.label, heading.number, name, parent, start, heading_end=end)
        if heading.kind in CHAPTER_KINDS:
            open_chapters.append((heading.rank, len(sections)))
        sections.append(section)
    _close(manuscript, lines, sections)
    structure.subsections = _subsections(lines, entries)
    return structure


def _close(manuscript: Manuscript, lines: Sequence[Line], sections: list[SectionDraft]) -> None:
    """Ends every section where the next begins, and finds its pages."""
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        section.end = following.start if following else len(manuscript.text)
    sections[0].start = 0
    position = 0
    for section in sections:
        pages = []
        while position < len(lines) and lines[position].start < section.end:
            pages.append(manuscript.pages[lines[position].page].number)
            position += 1
        section.first_page = min(pages, default=manuscript.page_number(section.start))
        section.last_page = max(pages, default=section.first_page)
    for section in reversed(sections):
        if section.parent is not None:
            parent = sections[section.parent]
            parent.last_page = max(parent.last_page, section.last_page)


def _subsections(lines: Sequence[Line], entries: list[_Entry]) -> list[Subsection]:
    found = [
        Subsection(lines[e.first].start, lines[e.last].end, 10 + (e.level or 0), e.heading.title)
        for e in entries
        if e.heading.kind == "sub"
    ]
    by_number = not found
    taken = {index for entry in entries for index in range(entry.first, entry.last + 1)}
    before: Heading | None = None
    for index, (line, follows) in enumerate(pairwise(lines)):
        previous, before = before, parse_subsection(line.text)
        if index in taken or len(line.text) > 100 or " | " in line.text or line.text.endswith((".", ";", ",", ":")):
            continue
        heading = before
        if heading is not None and by_number:
            # Items of a list follow one another; a heading has text of its own below it.
            twins = (previous, parse_subsection(follows.text))
            is_list = any(twin is not None and twin.kind == heading.kind for twin in twins)
            if not is_list and not line.text[-1].isdigit() and (line.level is not None or line.is_after_blank):
                found.append(Subsection(line.start, line.end, heading.rank, line.text))
        elif heading is None and _stands_out(line, follows):
            found.append(Subsection(line.start, line.end, _PROMINENT_RANK, line.text))
    return sorted(found, key=lambda sub: sub.start)


def _stands_out(line: Line, follows: Line) -> bool:
    """A short line in larger or bolder print above ordinary text."""
    is_short = len(line.text) <= 80 and line.text[0].isupper() and any(c.isalpha() for c in line.text[1:])
    return line.level == 0 and is_short and line.is_after_blank and follows.is_after_blank and follows.level is None


def _fallback(manuscript: Manuscript, title: str) -> list[SectionDraft]:
    """Stretches of pages, or the document as one where it is short."""
    pages = manuscript.pages
    if len(pages) <= PAGES_PER_PART:
        section = SectionDraft("part", "", None, title, None, 0, len(manuscript.text))
        section.first_page, section.last_page = pages[0].number, pages[-1].number
        return [section]
    sections: list[SectionDraft] = []
    word = "Trang" if manuscript.has_pages else "Đoạn"
    for first in range(0, len(pages), PAGES_PER_PART):
        last = min(first + PAGES_PER_PART, len(pages)) - 1
        start = manuscript.page_starts[first]
        end = manuscript.page_starts[last + 1] if last + 1 < len(pages) else len(manuscript.text)
        labels = [pages[index].label or str(pages[index].number) for index in (first, last)]
        name = f"{word} {labels[0]}" if first == last else f"{word} {labels[0]}–{labels[1]}"
        section = SectionDraft("part", "", None, name, None, start, end)
        section.first_page, section.last_page = pages[first].number, pages[last].number
        sections.append(section)
    return sections
