"""Lines of a Word document with what tells a key there: underlined, coloured, highlighted, bold."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import docx
import lxml.etree
from docx.document import Document as WordDocument
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn

from deepedu.base.errors import DamagedDocument
from deepedu.curriculum.readers.docx_numbering import Numbering
from deepedu.tutor.quiz_paper import Line, Look, key_rows

_LARGEST_BYTES = 300_000_000
_LEVELS = {
    "subscript": str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋"),
    "superscript": str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻"),
}
_PICTURES = frozenset(map(qn, ("w:drawing", "w:pict", "w:object")))
_FORMULA = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
_SKIPPED = frozenset(map(qn, ("w:del", "w:moveFrom", "w:pPr", "w:rPr"))) | {
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
}
_Piece = tuple[str, frozenset[Look]]


def lines_of(content: bytes) -> list[Line]:
    """The lines of a Word document in order; a row of a table is one line, its cells parted by tabs.

    Raises:
        DamagedDocument: the package or its XML cannot be read, or is larger than any paper.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            if sum(entry.file_size for entry in package.infolist()) > _LARGEST_BYTES:
                raise DamagedDocument("tệp DOCX quá lớn sau khi giải nén; hãy xóa bớt hình")
        return list(_Reader(docx.Document(io.BytesIO(content))).lines())
    except (
        PackageNotFoundError, KeyError, ValueError, OSError, EOFError, AttributeError, NotImplementedError, TypeError,
        IndexError, RuntimeError, zipfile.BadZipFile, zlib.error, lxml.etree.LxmlError,
    ) as error:  # fmt: skip
        raise DamagedDocument(f"tệp DOCX bị hỏng hoặc cắt cụt ({type(error).__name__})") from error


class _Reader:
    def __init__(self, document: WordDocument) -> None:
        self._body = document.element.body
        self._numbering = Numbering(document)
        self._styles = {style.style_id: style.element.find(qn("w:rPr")) for style in document.styles}

    def lines(self) -> Iterator[Line]:
        yield from self._inside(self._body)

    def _inside(self, parent: Any) -> Iterator[Line]:
        for child in parent:
            if child.tag == qn("w:p"):
                yield from self._paragraph(child)
            elif child.tag == qn("w:tbl"):
                yield from self._table(child)
            elif child.tag in (qn("w:sdt"), qn("w:sdtContent"), qn("w:customXml"), qn("w:ins")):
                yield from self._inside(child)

    def _paragraph(self, paragraph: Any) -> Iterator[Line]:
        pieces = self._pieces_of(paragraph)
        text = "".join(piece for piece, _ in pieces)
        looks = tuple(look for piece, its in pieces for look in (its,) * len(piece))
        unread = _unread(paragraph)
        start = 0
        for line in text.split("\n"):
            yield Line(line, looks[start : start + len(line)], unread=unread)
            start += len(line) + 1

    def _pieces_of(self, paragraph: Any) -> list[_Piece]:
        reference = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
        style = reference.get(qn("w:val")) if reference is not None else None
        label = self._numbering.label(paragraph, style)
        return [(label, frozenset()), *self._runs(paragraph)]

    def _runs(self, element: Any) -> Iterator[_Piece]:
        for child in element:
            if child.tag in _SKIPPED or child.tag in _PICTURES or child.tag == _FORMULA:
                continue
            if child.tag == qn("w:r"):
                properties = child.find(qn("w:rPr"))
                yield _run_text(child, properties), self._looks(properties)
            elif isinstance(child.tag, str):
                yield from self._runs(child)

    def _looks(self, properties: Any) -> frozenset[Look]:
        found: set[Look] = set()
        reference = properties.find(qn("w:rStyle")) if properties is not None else None
        inherited = self._styles.get(reference.get(qn("w:val"))) if reference is not None else None
        for source in (inherited, properties):
            if source is None:
                continue
            names: tuple[tuple[Look, str], ...] = (("underline", "w:u"), ("highlight", "w:highlight"), ("bold", "w:b"))
            for look, tag in names:
                if (mark := source.find(qn(tag))) is not None:
                    is_on = mark.get(qn("w:val"), "1") not in ("0", "false", "off", "none")
                    (found.add if is_on else found.discard)(look)
            if (colour := source.find(qn("w:color"))) is not None:
                (found.add if _is_colourful(colour.get(qn("w:val"), "auto")) else found.discard)("colour")
        return frozenset(found)

    def _table(self, table: Any) -> Iterator[Line]:
        rows: list[tuple[str, ...]] = []
        kept: list[tuple[list[list[_Piece]], str]] = []
        for row in table.iter(qn("w:tr")):
            if next(row.iterancestors(qn("w:tbl"))) is not table:
                continue
            cells = [cell for cell in row.iter(qn("w:tc")) if next(cell.iterancestors(qn("w:tr"))) is row]
            if len(cells) == 1:
                yield from self._inside(cells[0])  # A frame around ordinary text.
                continue
            pieces = [self._cell(cell) for cell in cells]
            kept.append((pieces, _unread(row)))
            rows.append(tuple("".join(text for text, _ in cell).strip() for cell in pieces))
        turned = key_rows(rows)
        if len(turned) < len(rows):
            for cells in turned:
                text = "\t".join(cells)
                yield Line(text, (frozenset(),) * len(text), cells)
            return
        for cells, (pieces, unread) in zip(rows, kept, strict=True):
            flat = [piece for cell in pieces for piece in (*cell, ("\t", frozenset[Look]()))][:-1]
            text = "".join(piece for piece, _ in flat).replace("\n", " ")
            yield Line(text, tuple(look for piece, its in flat for look in (its,) * len(piece)), cells, unread)

    def _cell(self, cell: Any) -> list[_Piece]:
        paragraphs = [self._pieces_of(paragraph) for paragraph in cell.iter(qn("w:p"))]
        return [piece for pieces in paragraphs for piece in (*pieces, (" ", frozenset[Look]()))]


def _run_text(run: Any, properties: Any) -> str:
    if properties is not None:
        hidden = properties.find(qn("w:vanish"))
        if hidden is not None and hidden.get(qn("w:val"), "1") not in ("0", "false", "off"):
            return ""
    parts: list[str] = []
    for child in run:
        if child.tag == qn("w:t"):
            parts.append(child.text or "")
        elif child.tag == qn("w:tab"):
            parts.append("\t")
        elif child.tag in (qn("w:br"), qn("w:cr")):
            parts.append("\n")
        elif child.tag == qn("w:noBreakHyphen"):
            parts.append("-")
    level = properties.find(qn("w:vertAlign")) if properties is not None else None
    table = _LEVELS.get(level.get(qn("w:val"), "")) if level is not None else None
    return "".join(parts).translate(table) if table else "".join(parts)


def _is_colourful(value: str) -> bool:
    """Whether a colour is one: no black, no grey, not the automatic one."""
    try:
        channels = [int(value[start : start + 2], 16) for start in (0, 2, 4)]
    except ValueError:
        return False
    return max(channels) - min(channels) > 60


def _unread(element: Any) -> str:
    for found in element.iter():
        if found.tag == _FORMULA:
            return "công thức"
        if found.tag in _PICTURES:
            return "hình"
    return ""
