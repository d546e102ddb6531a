"""Which of many lines that look like headings are the book's own: scores, and the best ascending chain."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.curriculum.headings import CHAPTER_KINDS, EXERCISE_ZONE, Heading, is_exercise
from deepedu.curriculum.manuscript import Line

_CLOSED = re.compile(r"[.!?…:;][\"'”’»)\]]*$")
_SENTENCE_INSIDE = re.compile(r"[^\W\d_]{2,}[.!?]\s+[A-ZÀ-ỸĐ]")


@dataclass
class Candidate:
    """A line that may be a heading; ``index`` counts lines."""

    index: int
    heading: Heading
    score: float
    style: tuple[bool, bool, bool]


def score_candidates(lines: Sequence[Line]) -> list[Candidate]:
    """Every line that reads like a heading, with how much it looks like one."""
    found = [(index, line) for index, line in enumerate(lines) if line.heading is not None]
    widest = _usual_width(lines)
    candidates: list[Candidate] = []
    for place, (index, line) in enumerate(found):
        assert line.heading is not None
        following = found[place + 1][0] if place + 1 < len(found) else len(lines)
        score = _look(lines, index, widest) + _weight_below(lines, index, following)
        is_upper = line.text[:4].isupper()
        style = (is_upper, line.level is not None, bool(line.heading.title))
        candidates.append(Candidate(index, line.heading, score, style))
    _lower_exercises(lines, candidates)
    return candidates


def best_chain(candidates: list[Candidate], *, restarts_at: list[int] | None) -> list[Candidate]:
    """The chain of ascending numbers with the highest total score.

    Args:
        candidates: of one sort, in order of lines. Chapter kinds may be mixed: each counts for itself.
        restarts_at: lines after which numbering may begin anew; None: nowhere, but where an outer kind begins.
    """
    if restarts_at is None:
        chosen: list[Candidate] = []
        for kind in CHAPTER_KINDS:
            starts = [candidate.index for candidate in chosen]
            chosen += _chain([c for c in candidates if c.heading.kind == kind], starts)
            chosen.sort(key=lambda c: c.index)
        return chosen
    return _chain(candidates, restarts_at)


def _chain(candidates: list[Candidate], starts: list[int]) -> list[Candidate]:
    totals: list[float] = []
    previous: list[int | None] = []
    for place, candidate in enumerate(candidates):
        ordinal = candidate.heading.ordinal or 0
        best, link = (0.0 if ordinal <= 1 else -0.5), None
        for earlier in range(place):
            step = _step(candidates[earlier], candidate, starts)
            if step is not None and totals[earlier] + step > best:
                best, link = totals[earlier] + step, earlier
        totals.append(best + candidate.score)
        previous.append(link)
    if not totals or max(totals) <= 0:
        return []
    at: int | None = totals.index(max(totals))
    chain: list[Candidate] = []
    while at is not None:
        chain.append(candidates[at])
        at = previous[at]
    return chain[::-1]


def _step(before: Candidate, after: Candidate, starts: list[int]) -> float | None:
    """What going from one heading to the next is worth; None where it cannot be."""
    old, new = before.heading.ordinal or 0, after.heading.ordinal or 0
    likeness = 0.3 if before.style == after.style else 0.0
    if new > old:
        return likeness + (0.4 if new == old + 1 else -min(2.0, 0.4 * (new - old - 1)))
    if any(before.index < start < after.index for start in starts):
        return likeness - (0.0 if new <= 1 else 0.5)
    return None


def _usual_width(lines: Sequence[Line]) -> int:
    widths = sorted(len(line.text) for line in lines)
    return widths[int(len(widths) * 0.9)] if widths else 0


def _look(lines: Sequence[Line], index: int, widest: int) -> float:
    line = lines[index]
    heading = line.heading
    assert heading is not None
    score = 1.0
    if line.level is not None:
        score += 3.0 if line.level else 1.5
    if line.text[:4].isupper():
        score += 0.7
    before = lines[index - 1] if index and lines[index - 1].page == line.page else None
    if line.is_after_blank or before is None:
        score += 0.5
    elif not _CLOSED.search(before.text) and len(before.text) > 0.7 * widest and before.heading is None:
        score -= 2.0  # The second line of a sentence.
    title = heading.title
    if title.endswith((".", ";", ",", ":")):
        score -= 1.0
    if len(title) > 100:
        score -= 1.5
    if _SENTENCE_INSIDE.search(title):
        score -= 1.5
    following = lines[index + 1] if index + 1 < len(lines) else None
    if is_exercise(title or (following.text if following else "")):
        score -= 1.5
    if following and not following.is_after_blank and following.text[0].islower() and line.level is None:
        score -= 1.0  # Prose that goes on below.
    return score


def _weight_below(lines: Sequence[Line], index: int, following: int) -> float:
    size = sum(len(line.text) for line in lines[index + 1 : following])
    return 0.7 if size > 400 else 0.0 if size > 100 else -0.7


def _lower_exercises(lines: Sequence[Line], candidates: list[Candidate]) -> None:
    """Takes score from the numbered exercises of a lesson: they come after a line that announces them, from 1 up."""
    by_index = {candidate.index: candidate for candidate in candidates}
    expected: int | None = None
    last_lesson = 0
    for index, line in enumerate(lines):
        if EXERCISE_ZONE.fullmatch(line.text):
            expected = 1
        candidate = by_index.get(index)
        if candidate is None:
            continue
        if candidate.heading.kind in CHAPTER_KINDS and candidate.score > 1:
            expected = None
        if candidate.heading.kind != "lesson":
            continue
        ordinal = candidate.heading.ordinal or 0
        if expected is not None and ordinal == expected and line.level is None:
            candidate.score -= 1.0 if ordinal == last_lesson + 1 else 2.5
            expected += 1
            continue
        expected = None
        if candidate.score > 0:
            last_lesson = ordinal
