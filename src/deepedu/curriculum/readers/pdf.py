"""PDF: text rebuilt from the glyphs and their boxes, so that words are whole and paragraphs are known."""

import ctypes
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from deepedu.base.errors import DamagedDocument, EncryptedDocument
from deepedu.curriculum.readers.base import PageText, TrackedText, clean
from deepedu.curriculum.readers.pdf_layout import Glyph, compose_page, lone_letter_share

log = logging.getLogger(__name__)

# Above this share of lone letters a page's words are taken to be broken apart.
_BROKEN_SHARE = 0.2


class PdfDocument:
    """A PDF, read page by page. Raw text of a page: PDFium's characters, so that sources index its glyph boxes."""

    format = "pdf"
    has_pages = True

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            EncryptedDocument: a password is needed to read it.
            DamagedDocument: no PDF that can be opened, or one without pages.
        """
        try:
            self._pdf = pdfium.PdfDocument(path)
        except pdfium.PdfiumError as error:
            if getattr(error, "err_code", None) in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
                raise EncryptedDocument("PDF có mật khẩu; hãy bỏ mật khẩu (in lại ra PDF) rồi nạp") from error
            raise DamagedDocument("tệp PDF bị hỏng hoặc cắt cụt, không mở được; hãy chép lại từ nguồn") from error
        self.page_count = len(self._pdf)
        if not self.page_count:
            self._pdf.close()
            raise DamagedDocument("tệp PDF không có trang nào; tệp hỏng hoặc bị cắt cụt")
        title = (self._pdf.get_metadata_dict(skip_empty=True).get("Title") or "").strip()
        self.hints: Mapping[str, str] = {"title": title} if _is_title(title) else {}
        self._outline = self._read_outline()

    def close(self) -> None:
        """Gives the file back."""
        self._pdf.close()

    def pages(self, start: int = 1) -> Iterator[PageText]:
        """The pages from number ``start`` on. A page that cannot be read is empty and carries a note."""
        for number in range(start, self.page_count + 1):
            yield self._page(number)

    def _page(self, number: int) -> PageText:
        label = self._pdf.get_page_label(number - 1) or None
        label = None if label == str(number) else label
        try:
            page = self._pdf[number - 1]
            textpage = page.get_textpage()
            glyphs = _glyphs(textpage)
            textpage.close()
            page.close()
        except pdfium.PdfiumError as error:
            log.info("page %d cannot be read: %s", number, error)
            return PageText(number, "", label, notes=(f"Trang {number} bị hỏng, không đọc được.",))
        text, sources, stand_outs = compose_page(glyphs)
        tracked = clean(TrackedText(text, sources))
        # Cleaning only shortens or keeps, so lines keep their order: find them again by their number.
        headings = _line_ranges(tracked.text, stand_outs)
        marked = self._outlined(number, tracked.text)
        if marked:
            taken = {start for start, _, _ in marked}
            headings = sorted(marked + [item for item in headings if item[0] not in taken])
        notes: tuple[str, ...] = ()
        if lone_letter_share(tracked.text) > _BROKEN_SHARE:
            notes = (f"Trang {number}: nhiều chữ bị tách rời, nên kiểm tra lại.",)
        return PageText(number, tracked.text, label, tracked.breaks(), tuple(headings), notes)

    def _read_outline(self) -> dict[int, list[tuple[int, str]]]:
        """Bookmarks by page: ``(level, title)``."""
        found: dict[int, list[tuple[int, str]]] = {}
        try:
            for entry in self._pdf.get_toc(max_depth=6):
                target = entry.get_dest()
                index = target.get_index() if target else None
                title = entry.get_title().strip()
                if index is not None and title:
                    found.setdefault(index + 1, []).append((entry.level + 1, title))
        except (pdfium.PdfiumError, UnicodeDecodeError) as error:
            log.info("bookmarks cannot be read: %s", error)
            return {}
        return found

    def _outlined(self, number: int, text: str) -> list[tuple[int, int, int]]:
        """Where the page's bookmarked titles stand in its text; those that do not are left out."""
        marked: list[tuple[int, int, int]] = []
        position = 0
        for level, title in self._outline.get(number, ()):
            pattern = r"\s+".join(re.escape(word) for word in clean(TrackedText(title)).text.split())
            match = re.compile(rf"(?mi)^[ ]*({pattern})[ ]*$").search(text, position)
            if match:
                marked.append((match.start(1), match.end(1), level))
                position = match.end()
        return marked


def _is_title(title: str) -> bool:
    """Whether a document's own title is one, rather than the name of the file or program it came from."""
    lowered = title.lower()
    is_file = lowered.startswith(("microsoft word", "untitled", "www.", "http")) or bool(
        re.search(r"\.(docx?|pdf|indd|cdr|qxd|pptx?|tex|rtf)$|^[\w-]*\d{4,}[\w-]*$", lowered)
    )
    return len(title) > 3 and " " in title and not is_file


def _glyphs(textpage: pdfium.PdfTextPage) -> list[Glyph]:
    handle = textpage.raw
    box = pdfium_c.FS_RECTF()
    matrix = pdfium_c.FS_MATRIX()
    font_name = ctypes.create_string_buffer(128)
    font_flags = ctypes.c_int(0)
    glyphs: list[Glyph] = []
    index = 0
    count = pdfium_c.FPDFText_CountChars(handle)
    while index < count:
        code = pdfium_c.FPDFText_GetUnicode(handle, index)
        source = index
        if 0xD800 <= code < 0xDC00 and index + 1 < count:
            index += 1
            low = pdfium_c.FPDFText_GetUnicode(handle, index)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) if 0xDC00 <= low < 0xE000 else 0xFFFD
        index += 1
        if pdfium_c.FPDFText_IsGenerated(handle, source) == 1:
            # A space or line end that PDFium put in; its own guess of where words end.
            glyphs.append(Glyph(" ", source, is_generated=True))
            continue
        if code in (0, 0xFFFE, 0xFFFF) or 0xD800 <= code < 0xE000:
            code = 0xFFFD
        character = "-" if code == 2 else chr(code)
        if not pdfium_c.FPDFText_GetLooseCharBox(handle, source, box):
            box.left = box.right = box.top = box.bottom = 0.0
        size = pdfium_c.FPDFText_GetFontSize(handle, source)
        if pdfium_c.FPDFText_GetMatrix(handle, source, matrix):
            size *= (matrix.b**2 + matrix.d**2) ** 0.5 or 1.0
        pdfium_c.FPDFText_GetFontInfo(handle, source, font_name, 128, font_flags)
        name = font_name.value.lower()
        is_bold = b"bold" in name or b"black" in name or pdfium_c.FPDFText_GetFontWeight(handle, source) >= 600
        glyphs.append(
            Glyph(
                character,
                source,
                left=box.left,
                right=box.right,
                bottom=box.bottom,
                top=box.top,
                size=size,
                is_bold=is_bold,
            )
        )
    return glyphs


def _line_ranges(text: str, stand_outs: list[bool]) -> list[tuple[int, int, int]]:
    """Ranges of the lines of ``text`` whose flag is set, as headings of level 0."""
    ranges: list[tuple[int, int, int]] = []
    position = 0
    for line, stands_out in zip(text.split("\n"), stand_outs, strict=False):
        if stands_out and line.strip():
            ranges.append((position, position + len(line), 0))
        position += len(line) + 1
    return ranges
