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
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$")
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
    blocks: list[Block] = []
    paragraph: list[tuple[int, int]] = []
    position = 0
    fence: str | None = None

    def flush(*, level: int | None = None, is_tight: bool = False) -> None:
        if paragraph:
            piece = whole.slice(paragraph[0][0], paragraph[-1][1])
            blocks.append(Block(_plain(piece), level, is_tight))
            paragraph.clear()

    was_row = was_item = False
    for line in whole.text.split("\n"):
        start, end = position, position + len(line)
        position = end + 1
        opening = _FENCE.match(line)
        if opening and (fence is None or line.strip().startswith(fence)):
            flush()
            fence = opening.group(1) if fence is None else None
            continue
        if fence is not None:
            blocks.append(Block(whole.slice(start, end), is_tight=True))
            continue
        heading = _HEADING.match(line)
        is_row = line.strip().startswith("|") or (was_row and " | " in line)
        is_item = bool(_LIST_ITEM.match(line)) and not _RULE.match(line)
        if heading:
            flush(is_tight=was_item)
            paragraph.append((start + heading.start(2), start + heading.end(2)))
            flush(level=len(heading.group(1)))
        elif paragraph and not was_item and _UNDERLINE.match(line):
            flush(level=1 if "=" in line else 2)
        elif not line.strip() or _RULE.match(line) or (_TABLE_RULE.match(line) and "-" in line):
            flush(is_tight=was_item)
            is_row = was_row and bool(line.strip())
        elif is_row:
            flush(is_tight=was_item)
            blocks.append(Block(_plain(_cells(whole.slice(start, end))), is_tight=was_row))
        else:
            if is_item:
                flush(is_tight=was_item)
            paragraph.append((start, end))
            is_item = is_item or (was_item and bool(line.strip()))
        was_row, was_item = is_row, is_item
    flush(is_tight=was_item)
    return _loosen_first_items(blocks)


def _loosen_first_items(blocks: list[Block]) -> list[Block]:
    """An item stands close to the item before it, not to the paragraph or heading above the list."""
    for before, item in zip([None, *blocks], blocks, strict=False):
        if item.is_tight and (before is None or before.level is not None):
            item.is_tight = False
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
