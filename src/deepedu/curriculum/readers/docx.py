"""DOCX: paragraphs with their heading styles and numbers, tables row by row, pages where Word left its breaks."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
import lxml.etree
from docx.document import Document as WordDocument
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn

from deepedu.base.errors import DamagedDocument
from deepedu.curriculum.readers.base import Block, BlockDocument, block, lay_out, superscript
from deepedu.curriculum.readers.docx_numbering import Numbering

# Explicit breaks alone number the pages only where they are as frequent as pages.
_PAGE_CHARACTERS = 6000
_EXPLICIT, _RENDERED = "\f", "\v"
_SKIPPED = frozenset(map(qn, ("w:del", "w:moveFrom", "w:rPr", "w:pPr"))) | {
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
}
_TEXT_BOX = qn("w:txbxContent")
_MATH_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_HEADING_NAME = re.compile(r"(?:heading|tiêu đề|đầu đề)\s*(\d)", re.I)


def open_docx(path: Path) -> BlockDocument:
    """Reads a Word document.

    Raises:
        DamagedDocument: the package or its XML cannot be read.
    """
    try:
        document = docx.Document(str(path))
        blocks = list(_Reader(document).blocks())
        title = document.core_properties.title
    except (
        PackageNotFoundError, KeyError, ValueError, OSError, EOFError, AttributeError, NotImplementedError, TypeError,
        IndexError, RuntimeError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lxml.etree.LxmlError,
    ) as error:  # fmt: skip
        raise DamagedDocument(f"tệp DOCX bị hỏng hoặc cắt cụt ({type(error).__name__}); hãy chép lại") from error
    blocks, has_pages = _paged(blocks)
    is_name = title and title.strip() and title.strip().lower() not in ("word document", "document", "untitled")
    return lay_out("docx", blocks, has_pages=has_pages, hints={"title": title.strip()} if is_name else {})


def _paged(blocks: list[Block]) -> tuple[list[Block], bool]:
    """Turns break marks inside the text into page breaks between blocks, if they number pages at all."""
    text = "".join(item.text.text for item in blocks)
    has_pages = _RENDERED in text or text.count(_EXPLICIT) * _PAGE_CHARACTERS >= len(text) > 0
    has_pages = has_pages and bool(re.search(r"[\f\v]", text.strip(" \n\f\v")))
    paged: list[Block] = []
    waiting = 0
    has_text_since = False
    for item in blocks:
        parts = re.split(r"([\f\v])", item.text.text)
        offset = 0
        is_first = True
        for part in parts:
            if part in (_EXPLICIT, _RENDERED) and part:
                # Word notes its own break again right after one that was asked for.
                if part == _EXPLICIT or has_text_since:
                    waiting += 1
                    has_text_since = False
            elif part.strip():
                piece = item.text.slice(offset, offset + len(part))
                breaks = waiting if has_pages else 0
                paged.append(Block(piece, item.level, item.is_tight and is_first and not breaks, breaks))
                waiting, has_text_since, is_first = 0, True, False
            offset += len(part)
    return paged, has_pages


class _Reader:
    def __init__(self, document: WordDocument) -> None:
        self._body = document.element.body
        self._numbering = Numbering(document)
        self._levels: dict[str, int | None] = {}
        self._names: dict[str, str] = {}
        for style in document.styles:
            name = (style.name or "").lower()
            self._names[style.style_id] = name
            self._levels[style.style_id] = _style_level(style, name)

    def blocks(self) -> Iterator[Block]:
        """All blocks, page breaks still as marks in the text."""
        yield from self._inside(self._body)

    def _inside(self, parent: Any) -> Iterator[Block]:
        was_item = False
        for child in parent:
            if child.tag == qn("w:p"):
                for item in self._paragraph(child):
                    is_item = self._numbering.is_item(child) and item.level is None
                    item.is_tight = is_item and was_item
                    was_item = is_item
                    yield item
            elif child.tag == qn("w:tbl"):
                yield from self._table(child)
                was_item = False
            elif child.tag in (qn("w:sdt"), qn("w:sdtContent"), qn("w:customXml"), qn("w:ins")):
                yield from self._inside(child)

    def _paragraph(self, paragraph: Any) -> Iterator[Block]:
        properties = paragraph.find(qn("w:pPr"))
        style, level = self._style_of(properties)
        text = self._text(paragraph)
        if properties is not None and _is_on(properties.find(qn("w:pageBreakBefore"))):
            text = _RENDERED + text
        label = self._numbering.label(paragraph, style)
        is_contents = self._names.get(style or "", "").startswith(("toc ", "mục lục"))
        if text.strip(" \f\v\n"):
            lead = re.match(r"[\f\v\s]*", text)
            at = lead.end() if lead else 0
            yield block(text[:at] + label + text[at:], None if is_contents else level)
        elif text:
            yield block(text)
        for box in paragraph.iter(_TEXT_BOX):
            if not any(parent.tag in _SKIPPED or parent.tag == _TEXT_BOX for parent in box.iterancestors()):
                yield from self._inside(box)
        section = properties.find(qn("w:sectPr")) if properties is not None else None
        if section is not None:
            kind = section.find(qn("w:type"))
            if kind is None or kind.get(qn("w:val")) in ("nextPage", "oddPage", "evenPage"):
                yield block(_RENDERED)

    def _style_of(self, properties: Any) -> tuple[str | None, int | None]:
        if properties is None:
            return None, None
        named = properties.find(qn("w:pStyle"))
        style = named.get(qn("w:val")) if named is not None else None
        outline = properties.find(qn("w:outlineLvl"))
        if outline is not None:
            value = int(outline.get(qn("w:val"), "9"))
            return style, value + 2 if value < 9 else None
        return style, self._levels.get(style) if style else None

    def _text(self, element: Any) -> str:
        parts: list[str] = []
        for child in element:
            tag = child.tag
            if tag in _SKIPPED or tag == _TEXT_BOX:
                continue
            if tag in (qn("w:t"), _MATH_TEXT):
                parts.append(child.text or "")
            elif tag == qn("w:tab"):
                parts.append("\t")
            elif tag == qn("w:br"):
                kind = child.get(qn("w:type"))
                parts.append(_EXPLICIT if kind == "page" else "\n" if kind != "column" else "")
            elif tag == qn("w:cr"):
                parts.append("\n")
            elif tag == qn("w:noBreakHyphen"):
                parts.append("-")
            elif tag == qn("w:lastRenderedPageBreak"):
                parts.append(_RENDERED)
            elif tag == qn("w:r"):
                parts.append(_run_text(child, self._text(child)))
            elif isinstance(tag, str):
                parts.append(self._text(child))
        return "".join(parts)

    def _table(self, table: Any) -> Iterator[Block]:
        is_first = True
        for row in table.iter(qn("w:tr")):
            if next(row.iterancestors(qn("w:tbl"))) is not table:
                continue  # A table inside a cell: its text is part of the cell.
            cells = [cell for cell in row.iter(qn("w:tc")) if next(cell.iterancestors(qn("w:tr"))) is row]
            texts = [self._cell(cell) for cell in cells]
            marks = "".join(re.findall(r"[\f\v]", "".join(texts)))[:1]
            texts = [" ".join(text.split()) for text in texts]
            if len(cells) == 1:
                # One cell is a frame around ordinary text.
                yield from self._inside(cells[0])
                is_first = True
            elif any(texts):
                yield block(marks + " | ".join(texts), is_tight=not is_first)
                is_first = False

    def _cell(self, cell: Any) -> str:
        pieces: list[str] = []
        for paragraph in cell.iter(qn("w:p")):
            if not any(parent.tag in _SKIPPED for parent in paragraph.iterancestors()):
                pieces.append(self._numbering.label(paragraph, None) + self._text(paragraph))
        return " ".join(pieces)


def _run_text(run: Any, text: str) -> str:
    raised = run.find(f"{qn('w:rPr')}/{qn('w:vertAlign')}")
    hidden = run.find(f"{qn('w:rPr')}/{qn('w:vanish')}")
    if _is_on(hidden):
        return ""
    return superscript(text) if raised is not None and raised.get(qn("w:val")) == "superscript" else text


def _is_on(element: Any) -> bool:
    return element is not None and element.get(qn("w:val"), "1") not in ("0", "false", "off")


def _style_level(style: Any, name: str) -> int | None:
    """Heading level of a paragraph style: by its name or its outline level, its own or inherited."""
    if name == "title":
        return 1
    for _ in range(10):
        found = _HEADING_NAME.match((style.name or "").lower())
        if found:
            return int(found.group(1)) + 1
        outline = style.element.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
        if outline is not None:
            value = int(outline.get(qn("w:val"), "9"))
            return value + 2 if value < 9 else None
        style = getattr(style, "base_style", None)
        if style is None:
            return None
    return None
