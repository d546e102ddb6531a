"""The numbers that Word shows before paragraphs but does not store in their text."""

from typing import Any

from docx.document import Document as WordDocument
from docx.oxml.ns import qn

_ROMAN = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
          (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip


class Numbering:
    """Counts along while the paragraphs are read in order."""

    def __init__(self, document: WordDocument) -> None:
        self._levels: dict[str, dict[int, Any]] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._of_style: dict[str, tuple[str, int]] = {}
        self._abstract_of: dict[str, str] = {}
        self._counts: dict[str, list[int | None]] = {}
        try:
            root = document.part.numbering_part.element
        except (KeyError, NotImplementedError):
            return
        abstracts = {item.get(qn("w:abstractNumId")): item for item in root.iter(qn("w:abstractNum"))}
        for number in root.iter(qn("w:num")):
            link = number.find(qn("w:abstractNumId"))
            abstract = abstracts.get(link.get(qn("w:val"))) if link is not None else None
            if link is None or abstract is None:
                continue
            identity = number.get(qn("w:numId"))
            self._abstract_of[identity] = link.get(qn("w:val"))
            levels = {int(level.get(qn("w:ilvl"))): level for level in abstract.iter(qn("w:lvl"))}
            self._levels[identity] = levels
            for override in number.iter(qn("w:lvlOverride")):
                start = override.find(qn("w:startOverride"))
                if start is not None:
                    self._starts[identity, int(override.get(qn("w:ilvl")))] = int(start.get(qn("w:val")))
        for style in document.styles.element.iter(qn("w:style")):
            reference = style.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
            if reference is not None and _value(reference, "w:numId") is not None:
                level = int(_value(reference, "w:ilvl") or 0)
                self._of_style[style.get(qn("w:styleId"))] = (str(_value(reference, "w:numId")), level)

    def is_item(self, paragraph: Any) -> bool:
        """Whether the paragraph itself is marked as an item of a list."""
        return paragraph.find(f"{qn('w:pPr')}/{qn('w:numPr')}") is not None

    def label(self, paragraph: Any, style: str | None) -> str:
        """The label shown before the paragraph, with a space after it: ``"Bài 3. "``, ``"- "``, or nothing."""
        reference = paragraph.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
        identity, depth = self._of_style.get(style or "", (None, 0))
        if reference is not None:
            identity = _value(reference, "w:numId") or identity
            depth = int(_value(reference, "w:ilvl") or depth)
        levels = self._levels.get(identity or "", {})
        level = levels.get(depth)
        if level is None or not identity:
            return ""
        counts = self._counts.setdefault(self._abstract_of[identity], [None] * 10)
        first = self._starts.pop((identity, depth), None)
        count = counts[depth]
        counts[depth] = first if first is not None else self._start(level) if count is None else count + 1
        counts[depth + 1 :] = [None] * (9 - depth)
        text = _value(level, "w:lvlText") or ""
        if _value(level, "w:numFmt") in ("bullet", "none"):
            return "- " if text and _value(level, "w:numFmt") == "bullet" else ""
        for index in range(depth + 1):
            shown = levels.get(index)
            value = counts[index] or (self._start(shown) if shown is not None else 1)
            style_name = _value(shown, "w:numFmt") if shown is not None else None
            text = text.replace(f"%{index + 1}", _shown(value, style_name or "decimal"))
        return f"{text} " if text else ""

    def _start(self, level: Any) -> int:
        return int(_value(level, "w:start") or 1)


def _value(parent: Any, name: str) -> str | None:
    found = parent.find(qn(name))
    return found.get(qn("w:val")) if found is not None else None


def _shown(value: int, style: str) -> str:
    if style in ("upperLetter", "lowerLetter") and value > 0:
        letter = chr(ord("A") + (value - 1) % 26) * ((value - 1) // 26 + 1)
        return letter if style == "upperLetter" else letter.lower()
    if style in ("upperRoman", "lowerRoman") and value > 0:
        text = ""
        for size, sign in _ROMAN:
            text += sign * (value // size)
            value %= size
        return text if style == "upperRoman" else text.lower()
    return f"{value:02d}" if style == "decimalZero" else str(value)
