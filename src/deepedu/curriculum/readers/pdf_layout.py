"""From glyphs with boxes to lines, words and paragraphs.

PDF knows no words: PDFium guesses them, and guesses wrong where every accented letter is a text run of its own or
letters are spaced out. Gaps between the glyphs' advance boxes decide here; PDFium's guess is only a hint.
"""

import re
import statistics
import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise

# In units of the font size.
_NO_SPACE_GAP = 0.07
_HINTED_SPACE_GAP = 0.12
_CERTAIN_SPACE_GAP = 0.3
_CELL_GAP = 2.5
CELL_SEPARATOR = " | "
_CLOSED = re.compile(r"[.!?…:;][\"'”’»)\]]*$")
# Vietnamese words of one letter, and signs that stand alone in formulas or lists.
_ONE_LETTER_WORDS = frozenset("aàáạảãâăeèéêiìíịỉoòóọỏôồốổộơờớởuùúủụưừứyýỳỷ")


@dataclass(slots=True)
class Glyph:
    """One character; coordinates are points, y upwards."""

    character: str
    source: int
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    size: float = 0.0
    is_bold: bool = False
    is_generated: bool = False


@dataclass
class Line:
    """Glyphs that stand side by side; ``spaces[i]`` says what stands before glyph i: nothing, a hint or a space."""

    glyphs: list[Glyph] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)

    def add(self, glyph: Glyph, space: str) -> None:
        self.glyphs.append(glyph)
        self.spaces.append(space)

    def settle(self) -> None:
        """Computes the box once all glyphs are in."""
        solid = [g for g in self.glyphs if g.right > g.left] or self.glyphs
        self.left = min(g.left for g in solid)
        self.right = max(g.right for g in solid)
        self.size = statistics.median(g.size for g in solid)
        main = [g for g in solid if g.size >= 0.8 * self.size] or solid
        self.bottom = statistics.median(g.bottom for g in main)
        self.top = statistics.median(g.top for g in main)
        self.is_bold = sum(g.is_bold for g in solid) * 2 > len(solid)
        self.text, self.sources = _words(self)


def compose_page(glyphs: list[Glyph]) -> tuple[str, list[int], list[bool]]:
    """Text of a page in reading order.

    Returns:
        The text, lines parted by ``\\n`` and paragraphs by a blank line; the source of each character; and for each
        line of the text whether it stands out by size or weight.
    """
    lines = [line for line in _rows(_in_reading_order(_lines(glyphs))) if line.text.strip()]
    if not lines:
        return "", [], []
    body_size = _body_size(lines)
    bold_share = sum(len(line.text) for line in lines if line.is_bold) / sum(len(line.text) for line in lines)
    pitch = _typical_pitch(lines)
    text: list[str] = []
    sources: list[int] = []
    stand_outs: list[bool] = []
    before: Line | None = None
    for line in lines:
        stands_out = line.size > 1.12 * body_size or (line.is_bold and bold_share < 0.5)
        gap = "" if before is None else _gap(before, line, pitch, lines)
        text.append(gap)
        sources += [line.sources[0]] * len(gap)
        if gap == "\n\n":
            stand_outs.append(False)
        if gap or before is None:
            stand_outs.append(stands_out)
        text.append(line.text)
        sources += line.sources
        before = line
    return "".join(text), sources, stand_outs


def lone_letter_share(text: str) -> float:
    """Share of words that are a single letter though no Vietnamese word is; high where words are broken apart."""
    tokens = re.findall(r"[^\W\d_]+", text)
    if len(tokens) < 20:
        return 0.0
    return sum(len(token) == 1 and token.lower() not in _ONE_LETTER_WORDS for token in tokens) / len(tokens)


def _lines(glyphs: list[Glyph]) -> list[Line]:
    """Cuts the stream wherever the next glyph does not stand to the right of the last one, or far from it."""
    lines: list[Line] = []
    current = Line()
    space = ""
    last: Glyph | None = None
    for glyph in glyphs:
        if glyph.is_generated or glyph.character.isspace():
            space = "hint" if glyph.is_generated and space != "real" else "real"
            continue
        if last is not None and unicodedata.combining(glyph.character):
            current.add(glyph, "")
            space = ""
            continue
        if last is not None and not _follows(last, glyph):
            lines.append(current)
            current = Line()
            space = ""
        current.add(glyph, space if current.glyphs else "")
        last, space = glyph, ""
    if current.glyphs:
        lines.append(current)
    for line in lines:
        line.settle()
    return lines


def _follows(last: Glyph, glyph: Glyph) -> bool:
    if (glyph.left, glyph.right) == (last.left, last.right):
        return True  # One ligature, several characters.
    size = max(last.size, glyph.size, 1.0)
    overlap = min(last.top, glyph.top) - max(last.bottom, glyph.bottom)
    shorter = min(last.top - last.bottom, glyph.top - glyph.bottom)
    is_level = overlap > 0.4 * shorter if shorter > 0 else abs(last.bottom - glyph.bottom) < 0.5 * size
    gap = glyph.left - last.right
    return is_level and -0.6 * size < gap < _CELL_GAP * size


def _in_reading_order(lines: list[Line]) -> list[Line]:
    """Stream order, unless it contradicts the page: lines above earlier ones, or two columns dealt in turns."""
    if len(lines) < 4:
        return lines
    upward = turns = 0
    for before, line in pairwise(lines):
        shares_column = min(before.right, line.right) - max(before.left, line.left) > 0
        upward += shares_column and line.bottom > before.top
        is_beside = abs(before.bottom - line.bottom) < 0.5 * before.size and line.left > before.right
        turns += is_beside and min(len(before.text), len(line.text)) >= 20
    if upward > max(3, len(lines) // 10) or turns >= max(6, len(lines) // 4):
        return _cut(lines)
    return lines


def _cut(lines: list[Line]) -> list[Line]:
    """Recursive cuts along empty bands: columns where a gutter parts long stretches, else rows from the top."""
    if len(lines) < 2:
        return lines
    by_left = sorted(lines, key=lambda line: line.left)
    reach = by_left[0].right
    for index, line in enumerate(by_left[1:], start=1):
        if line.left > reach + 0.5 * line.size and min(index, len(lines) - index) >= 4:
            return _cut(by_left[:index]) + _cut(by_left[index:])
        reach = max(reach, line.right)
    by_top = sorted(lines, key=lambda line: (-line.top, line.left))
    floor = by_top[0].bottom
    best: tuple[float, int] | None = None
    for index, line in enumerate(by_top[1:], start=1):
        band = floor - line.top
        if band > -0.2 * line.size and (best is None or band > best[0]):
            best = (band, index)
        floor = min(floor, line.bottom)
    if best is None:
        return by_top
    return _cut(by_top[: best[1]]) + _cut(by_top[best[1] :])


def _rows(lines: list[Line]) -> list[Line]:
    """Joins neighbours on one level into a row, its cells parted."""
    rows: list[Line] = []
    for line in lines:
        row = rows[-1] if rows else None
        if (
            row is not None
            and abs(row.bottom - line.bottom) < 0.4 * max(row.size, line.size)
            and line.left >= row.right - 0.2 * line.size
        ):
            gap = line.left - row.right
            separator = (
                CELL_SEPARATOR if gap > _CELL_GAP * line.size else " " if gap > _NO_SPACE_GAP * line.size else ""
            )
            row.text += separator + line.text
            row.sources += [line.sources[0]] * len(separator) + line.sources
            row.right = line.right
        else:
            rows.append(line)
    return rows


def _words(line: Line) -> tuple[str, list[int]]:
    threshold = _letter_spacing_threshold(line)
    parts: list[str] = []
    sources: list[int] = []
    last: Glyph | None = None
    for glyph, space in zip(line.glyphs, line.spaces, strict=True):
        if last is not None and not unicodedata.combining(glyph.character):
            gap = (glyph.left - last.right) / max(last.size, glyph.size, 1.0)
            if threshold is not None:
                is_space = gap > threshold
            elif space == "real":
                is_space = gap > _NO_SPACE_GAP or glyph.right <= glyph.left
            else:
                is_space = gap > (_HINTED_SPACE_GAP if space else _CERTAIN_SPACE_GAP)
            if is_space:
                parts.append(" ")
                sources.append(glyph.source)
        parts.append(glyph.character)
        sources.append(glyph.source)
        if not unicodedata.combining(glyph.character):
            last = glyph
    return "".join(parts), sources


def _letter_spacing_threshold(line: Line) -> float | None:
    """The gap that parts words in a line of spaced-out letters, in font sizes; None for ordinary lines."""
    gaps: list[float] = []
    apart = 0
    for before, glyph, space in zip(line.glyphs, line.glyphs[1:], line.spaces[1:], strict=False):
        gap = (glyph.left - before.right) / max(before.size, glyph.size, 1.0)
        gaps.append(gap)
        apart += gap > _HINTED_SPACE_GAP or (bool(space) and gap > _NO_SPACE_GAP)
    if len(gaps) < 5 or apart < 0.7 * len(gaps):
        return None
    usual = statistics.median(gaps)
    wide = [gap for gap in gaps if gap > 1.5 * usual and gap > usual + 0.12]
    if not wide:
        # One word of spaced letters, or digits in cells: letters are joined, anything else is left alone.
        is_word = all(glyph.character.isalpha() for glyph in line.glyphs)
        return max(gaps) + 1 if is_word else None
    return (usual + min(wide)) / 2


def _body_size(lines: list[Line]) -> float:
    weights: dict[float, int] = {}
    for line in lines:
        size = round(line.size * 2) / 2
        weights[size] = weights.get(size, 0) + len(line.text)
    return max(weights, key=lambda size: weights[size])


def _typical_pitch(lines: list[Line]) -> float:
    pitches = [
        before.bottom - line.bottom
        for before, line in pairwise(lines)
        if 0.5 * line.size < before.bottom - line.bottom < 3 * line.size
    ]
    # Low rather than middle: gaps between paragraphs must not count as the usual distance.
    return statistics.quantiles(pitches, n=4)[0] if len(pitches) > 3 else min(pitches, default=0.0)


def _gap(before: Line, line: Line, pitch: float, lines: list[Line]) -> str:
    """What parts two lines: nothing (a word broken at its hyphen), a line end, or a paragraph end."""
    drop = before.bottom - line.bottom
    is_closed = bool(_CLOSED.search(before.text))
    if CELL_SEPARATOR in before.text and CELL_SEPARATOR in line.text and drop > 0:
        return "\n"
    if abs(before.size - line.size) > 0.08 * max(before.size, line.size) or before.is_bold != line.is_bold:
        return "\n\n" if not (line.text[0].islower() and not is_closed) else "\n"
    if re.search(r"[^\W\d_]-$", before.text) and line.text[0].islower():
        return ""
    if drop <= 0:
        # The next column or another frame: a sentence may go on there.
        return "\n" if not is_closed else "\n\n"
    if drop > max(1.35 * pitch, 1.3 * line.size) or drop > 2.4 * line.size:
        return "\n\n"
    if is_closed:
        column_right = max(item.right for item in lines if abs(item.left - before.left) < 5 * line.size)
        is_short = before.right < column_right - 4 * line.size
        if is_short or line.left - before.left > 0.8 * line.size:
            return "\n\n"
    return "\n"
