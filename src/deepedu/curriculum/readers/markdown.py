"""Markdown: headings, tables and lists kept as structure, marks of emphasis and links taken off."""

import re
from pathlib import Path

from deepedu.curriculum.readers.base import Block, BlockDocument, TrackedText, lay_out
from deepedu.curriculum.readers.text import decode

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(\1[ \t]*){2,}$")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_TABLE_RULE = re.compile(r"(?=.*[|-]-|.*\|)\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_HINT_KEYS = ("title", "grade", "subject", "series")

# Applied in this order; groups are what stays.
_INLINE = (
    r"<!--.*?-->",
    r"!\[([^\]\n]*)\]\([^)\n]*\)",
    r"\[([^\]\n]+)\]\([^)\n]*\)",
    r"\[([^\]\n]+)\]\[[^\]\n]*\]",
    r"(?<![\\`])`([^`\n]+)`",
    r"\*\*(?=\S)(.+?)(?<=\S)\*\*",
    r"__(?=\S)(.+?)(?<=\S)__",
    r"(?<![\w*])\*(?=[^\s*])([^*\n]+?)(?<=\S)\*(?![\w*])",
    r"(?<![\w_])_(?=[^\s_])([^_\n]+?)(?<=\S)_(?![\w_])",
    r"~~(?=\S)(.+?)(?<=\S)~~",
    r"</?(?:b|i|u|em|strong|span|br|sup|sub|p|div)\b[^>\n]*>",
    r"\\([\\`*_{}\[\]()#+.!|-])",
)


def open_markdown(path: Path) -> BlockDocument:
    """Reads a Markdown file; front matter gives title, grade, subject and series."""
    text = decode(path.read_bytes())
    hints: dict[str, str] = {}
    front = _FRONT_MATTER.match(text)
    if front:
        for line in front.group(1).splitlines():
            key, colon, value = line.partition(":")
            if colon and key.strip().lower() in _HINT_KEYS and value.strip():
                hints[key.strip().lower()] = value.strip().strip("\"'")
    whole = TrackedText(text).slice(front.end() if front else 0, len(text)).replace(r"\r\n?", "\n")
    return lay_out("markdown", _blocks(whole), has_pages=False, hints=hints)


def _blocks(whole: TrackedText) -> list[Block]:
    """Blocks in order. Items of one list, rows of one table and lines of code stand close together."""
    blocks: list[Block] = []
    kinds: list[str] = []
    paragraph: list[tuple[int, int]] = []
    position = 0
    fence: str | None = None
    kind = ""

    def add(piece: TrackedText, own: str, level: int | None = None) -> None:
        is_tight = own in ("item", "row", "code") and bool(kinds) and kinds[-1] == own
        blocks.append(Block(piece, level, is_tight))
        kinds.append(own)

    def flush(level: int | None = None) -> None:
        if paragraph:
            add(_plain(whole.slice(paragraph[0][0], paragraph[-1][1])), "heading" if level else kind, level)
            paragraph.clear()

    for line in whole.text.split("\n"):
        start, end = position, position + len(line)
        position = end + 1
        opening = _FENCE.match(line)
        heading = _HEADING.match(line)
        if opening and (fence is None or line.strip().startswith(fence)):
            flush()
            fence = opening.group(1) if fence is None else None
        elif fence is not None:
            add(whole.slice(start, end), "code")
        elif heading:
            flush()
            paragraph.append((start + heading.start(2), start + heading.end(2)))
            flush(len(heading.group(1)))
        elif paragraph and kind == "text" and _UNDERLINE.match(line):
            flush(1 if "=" in line else 2)
        elif not line.strip() or _RULE.match(line) or _TABLE_RULE.match(line):
            flush()
        elif line.strip().startswith("|") or (" | " in line and kinds[-1:] == ["row"] and not paragraph):
            flush()
            add(_plain(_cells(whole.slice(start, end))), "row")
        else:
            if _LIST_ITEM.match(line):
                flush()
            if not paragraph:
                kind = "item" if _LIST_ITEM.match(line) else "text"
            paragraph.append((start, end))
    flush()
    return blocks


def _cells(row: TrackedText) -> TrackedText:
    """``|a|b |`` as ``a | b``."""
    row = row.replace(r"^\s*\|\s*|\s*\|\s*$")
    return row.replace(r"\s*(?<!\\)\|\s*", " | ")


def _plain(piece: TrackedText) -> TrackedText:
    piece = piece.replace(r"(?m)^[ \t]*(?:>[ \t]?)+").replace(r"(?m)^[ \t]+(?=\S)")
    for pattern in _INLINE:
        piece = piece.unwrap(re.compile(pattern, re.DOTALL))
    return piece.replace(r"  +\n|\\\n", "\n")
