"""Plain text: any Unicode encoding, form feeds as page breaks, wiki headings."""

import re
from pathlib import Path

from deepedu.base.errors import UnsupportedFormat
from deepedu.curriculum.readers.base import Block, BlockDocument, TrackedText, clean, lay_out

_WIKI_HEADING = re.compile(r"(={2,6})[ \t]*([^=\s][^\n]*?)[ \t]*\1")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
# Longer lines than a printed page's are paragraphs.
_PARAGRAPH_LINE_CHARACTERS = 160


def open_text(path: Path) -> BlockDocument:
    """Reads a text file.

    Raises:
        UnsupportedFormat: the bytes are of no encoding we can be sure of.
    """
    text = decode(path.read_bytes())
    has_pages = "\f" in text.strip("\f \n\r")
    blocks: list[Block] = []
    for index, page in enumerate(text.split("\f") if has_pages else [text]):
        found = _blocks(page)
        if index:
            # An empty page still counts.
            found = found or [Block(TrackedText(""))]
            found[0].page_breaks = 1
        blocks += found
    return lay_out("text", blocks, has_pages=has_pages, hints={})


def decode(content: bytes) -> str:
    """Text of bytes in UTF-8, UTF-16 or Vietnamese Windows (cp1258).

    Raises:
        UnsupportedFormat: none of them.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_as(content, "utf-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A file cut in the middle of a letter at its very end is still UTF-8.
        if error.start >= len(content) - 3:
            return content[: error.start].decode("utf-8-sig")
    # A few broken bytes in a long file do not make it another encoding.
    repaired = content.decode("utf-8-sig", errors="replace")
    if repaired.count("\ufffd") <= len(content) / 1000:
        return repaired
    text = _try(content, "cp1258")
    if text is not None and len(re.findall("[\u0300\u0301\u0303\u0309\u0323đĐơƠưƯăĂ]", text)) > len(text) / 50:
        return text
    return _decode_as(content, "cp1252")


def _decode_as(content: bytes, encoding: str) -> str:
    text = _try(content, encoding)
    if text is None:
        raise UnsupportedFormat(
            "không nhận ra bảng mã của tệp văn bản (không phải UTF-8, UTF-16 hay cp1258); hãy lưu lại thành UTF-8"
        )
    return text


def _try(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None


def _blocks(page: str) -> list[Block]:
    whole = TrackedText(page).replace(r"\r\n?", "\n")
    lines = [len(line) for line in whole.text.split("\n") if line.strip()]
    is_line_per_paragraph = sum(length > _PARAGRAPH_LINE_CHARACTERS for length in lines) > len(lines) / 5
    separator = re.compile(r"\s*\n\s*") if is_line_per_paragraph else _PARAGRAPH_END
    blocks: list[Block] = []
    start = 0
    for gap in [*separator.finditer(whole.text), None]:
        end = gap.start() if gap else len(whole.text)
        piece = clean(whole.slice(start, end))
        blocks += _with_headings(piece)
        start = gap.end() if gap else end
    return blocks


def _with_headings(piece: TrackedText) -> list[Block]:
    """A paragraph, parted where lines of it are wiki headings."""
    blocks: list[Block] = []
    start = position = 0
    for line in piece.text.split("\n"):
        end = position + len(line)
        heading = _WIKI_HEADING.fullmatch(line.strip())
        if heading:
            if piece.text[start:position].strip():
                blocks.append(Block(piece.slice(start, position).replace(r"\s+$")))
            begin = position + line.index(heading.group(2), len(heading.group(1)) - 1)
            blocks.append(Block(piece.slice(begin, begin + len(heading.group(2))), len(heading.group(1))))
            start = end + 1
        position = end + 1
    if piece.text[start:].strip():
        blocks.append(Block(piece.slice(start, len(piece.text))))
    return blocks
