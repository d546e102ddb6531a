"""Lay the sample textbook out as a PDF: own line and page breaking, so that the DOCX can break at the same places.

No block is split over two pages, headings stay with what follows them, every lesson starts on a new page.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF

from sample_book_source import Block, Book, plain, spans

NOTO = Path("/usr/share/fonts/truetype/noto")
DEJAVU = Path("/usr/share/fonts/truetype/dejavu")
FONTS = {
    ("serif", ""): NOTO / "NotoSerif-Regular.ttf",
    ("serif", "B"): NOTO / "NotoSerif-Bold.ttf",
    ("serif", "I"): NOTO / "NotoSerif-Italic.ttf",
    ("sans", ""): NOTO / "NotoSans-Regular.ttf",
    ("sans", "B"): NOTO / "NotoSans-Bold.ttf",
    # Noto Serif and Sans have neither the minus sign nor the arrow.
    ("signs", ""): DEJAVU / "DejaVuSerif.ttf",
}
BUILT = datetime(2025, 1, 1, tzinfo=UTC)

WIDTH_MM, HEIGHT_MM = 170.0, 240.0
SIDE_MM, TOP_MM, BOTTOM_MM = 21.0, 24.0, 20.0
TEXT_MM = WIDTH_MM - 2 * SIDE_MM
INK, ACCENT, TINT, RULE = (30, 30, 30), (0, 92, 105), (232, 243, 243), (150, 185, 188)
LEADING_MM = 5.4
CONTENTS_PAGE, FIRST_TEXT_PAGE = 2, 3

# Numbers keep their digit groups and units on one line: "299 792 458 m/s", "−39 °C", "43,5 triệu tấn", "Bảng 1".
_GLUE = re.compile(
    r"(?<=\d) (?=\d{3}\b)|(?<=\d) (?=(?:°C|°F|K|mm|cm|m|km|kg|g|µm|m/s|m³|kg/m³|g/cm³|tấn|triệu|ngày|phút|giây)(?!\w))"
    r"|(?<=Bảng) (?=\d)|(?<=E\.) (?=coli)|(?<=\d) (?=[×=])|(?<=[×=]) (?=\d)"
)
_SIGNS = re.compile(r"([−→])")


@dataclass
class Style:
    """How a run of text is set."""

    family: str = "serif"
    size_pt: float = 10.5
    bold: bool = False
    color: tuple[int, int, int] = INK
    leading_mm: float = LEADING_MM


BODY = Style()
HEADS = {
    "chapter": Style("sans", 15.5, True, ACCENT, 8.0),
    "lesson": Style("sans", 13.5, True, ACCENT, 7.0),
    "section": Style("sans", 11, True, ACCENT, 5.8),
}
SMALL = Style("sans", 9, False, INK, 4.8)
SMALL_BOLD = Style("sans", 9, True, ACCENT, 5.2)
SPACE_BEFORE_MM = {"chapter": 0.0, "lesson": 4.0, "section": 3.6, "table": 2.6, "box": 3.4, "formula": 0.6}
Word = list[tuple[str, str]]  # (fpdf style, text) pieces without a break between them


@dataclass
class Layout:
    """Which blocks stand on which page: ``pages[i]`` holds the blocks of page ``FIRST_TEXT_PAGE + i``."""

    pages: list[list[Block]] = field(default_factory=list)

    def page_of(self, block: Block) -> int:
        return next(FIRST_TEXT_PAGE + i for i, page in enumerate(self.pages) if any(b is block for b in page))


class BookPdf(FPDF):
    """The drawing surface: fonts, running heads and page numbers."""

    def __init__(self, book: Book) -> None:
        super().__init__(unit="mm", format=(WIDTH_MM, HEIGHT_MM))
        self.book, self.chapter = book, ""
        for (family, style), path in FONTS.items():
            self.add_font(family, style, path)  # pyright: ignore[reportArgumentType]
        self.set_auto_page_break(False)
        self.set_margins(SIDE_MM, TOP_MM, SIDE_MM)
        self.set_creation_date(BUILT)
        self.set_title(book.name)
        self.set_author(book.meta["authors"])
        self.set_subject(book.meta["subject"])
        self.set_lang("vi")
        self.set_keywords(f"source-sha256:{book.digest}")
        self.set_producer("fpdf2")

    def header(self) -> None:
        if self.page_no() < FIRST_TEXT_PAGE:
            return
        left = self.page_no() % 2 == 0
        self.put_line(self.book.name if left else self.chapter or self.book.name, SMALL, 15.5, "L" if left else "R")
        self.set_draw_color(*RULE)
        self.set_line_width(0.25)
        self.line(SIDE_MM, 17.5, WIDTH_MM - SIDE_MM, 17.5)

    def footer(self) -> None:
        if self.page_no() > 1:
            self.put_line(str(self.page_no()), SMALL_BOLD, HEIGHT_MM - 12, "C")

    def put_line(self, text: str, style: Style, baseline_mm: float, align: str, x: float = SIDE_MM) -> None:
        """One unbroken line at ``baseline_mm``, aligned between ``x`` and the right margin."""
        word = pieces_of(text, style)
        room = WIDTH_MM - SIDE_MM - x - self.width(word, style)
        self.put_word(word, style, x + {"L": 0.0, "C": room / 2, "R": room}[align], baseline_mm)

    def use(self, style: Style, fpdf_style: str) -> None:
        family = "signs" if fpdf_style == "signs" else style.family
        self.set_font(family, "" if fpdf_style == "signs" else fpdf_style, style.size_pt)
        self.set_text_color(*style.color)

    def width(self, word: Word, style: Style) -> float:
        total = 0.0
        for fpdf_style, text in word:
            self.use(style, fpdf_style)
            total += self.get_string_width(text)
        return total

    def put_word(self, word: Word, style: Style, x: float, baseline_mm: float) -> float:
        for fpdf_style, text in word:
            self.use(style, fpdf_style)
            self.text(x, baseline_mm, text)
            x += self.get_string_width(text)
        return x

    def break_lines(self, text: str, style: Style, width_mm: float) -> list[list[Word]]:
        """Greedy line breaking at spaces; the last line holds two words at least."""
        lines: list[list[Word]] = [[]]
        used = 0.0
        space = self.width([("B" if style.bold else "", " ")], style)
        for word in words_of(text, style):
            width = self.width(word, style)
            if lines[-1] and used + space + width > width_mm:
                lines.append([])
                used = 0.0
            used += width + (space if lines[-1] else 0.0)
            lines[-1].append(word)
        if len(lines) > 1 and len(lines[-1]) == 1 and len(lines[-2]) > 4:
            lines[-1].insert(0, lines[-2].pop())  # a lone syllable on the last line looks lost
        return lines

    def put_text(self, text: str, style: Style, x: float, y: float, width_mm: float, justify: bool = False) -> float:
        """Text from ``y`` (top) on; returns the ``y`` below it."""
        lines = self.break_lines(text, style, width_mm)
        for number, line in enumerate(lines):
            space = self.width([("B" if style.bold else "", " ")], style)
            if justify and number < len(lines) - 1 and len(line) > 1:
                space = (width_mm - sum(self.width(word, style) for word in line)) / (len(line) - 1)
            at = x
            for index, word in enumerate(line):
                # A space character of its own after each word keeps extraction exact whatever the justified gap.
                ending = [(word[-1][0], word[-1][1] + " ")] if index < len(line) - 1 else [word[-1]]
                width = self.width(word, style)
                self.put_word([*word[:-1], *ending], style, at, y + style.leading_mm * 0.74)
                at += width + space
            y += style.leading_mm
        return y

    def text_height(self, text: str, style: Style, width_mm: float) -> float:
        return len(self.break_lines(text, style, width_mm)) * style.leading_mm


def pieces_of(text: str, style: Style) -> Word:
    """``text`` as styled pieces; signs the main font lacks become pieces of their own."""
    word: Word = []
    for mark, piece in spans(text):
        fpdf_style = "B" if style.bold else mark
        word += [("signs" if _SIGNS.match(part) else fpdf_style, part) for part in _SIGNS.split(piece) if part]
    return word


def words_of(text: str, style: Style) -> list[Word]:
    """Split at the spaces where a line may break."""
    words: list[Word] = [[]]
    for fpdf_style, piece in pieces_of(_GLUE.sub("\u00a0", text), style):
        for index, part in enumerate(piece.split(" ")):
            if index:
                words.append([])
            if part:
                words[-1].append((fpdf_style, part.replace("\u00a0", " ")))
    return [word for word in words if word]


def _heading_text(block: Block) -> str:
    return chapter_capitals(block.text) if block.kind == "chapter" else block.text


def chapter_capitals(text: str) -> str:
    """The chapter heading as printed: "CHƯƠNG I. ĐO LƯỜNG ..."."""
    return text.upper()


_BOX_PAD_MM, _ROW_PAD_MM = 3.2, 0.4


def draw(pdf: BookPdf, block: Block, y: float) -> float:
    """Draw ``block`` with its top at ``y``; returns the ``y`` below it."""
    if block.kind in HEADS:
        pdf.set_y(y)
        pdf.start_section(_heading_text(block), level={"chapter": 0, "lesson": 1, "section": 2}[block.kind])
        return pdf.put_text(_heading_text(block), HEADS[block.kind], SIDE_MM, y, TEXT_MM) + 1.4
    if block.kind == "formula":
        pdf.put_line(f"*{block.text}*", BODY, y + 4.6, "C")
        return y + LEADING_MM + 2.2
    if block.kind == "question":
        number, text = block.text.split(" ", 1)
        pdf.put_text(number, BODY, SIDE_MM, y, 7)
        return pdf.put_text(text, BODY, SIDE_MM + 7, y, TEXT_MM - 7, justify=True) + 0.8
    if block.kind == "box":
        return _draw_box(pdf, block, y)
    if block.kind == "table":
        return _draw_table(pdf, block, y)
    return pdf.put_text(block.text, BODY, SIDE_MM, y, TEXT_MM, justify=True) + 1.6


def height(pdf: BookPdf, block: Block) -> float:
    """The height ``draw`` will take (mm)."""
    if block.kind in HEADS:
        return pdf.text_height(_heading_text(block), HEADS[block.kind], TEXT_MM) + 1.4
    if block.kind == "formula":
        return LEADING_MM + 2.2
    if block.kind == "question":
        return pdf.text_height(block.text.split(" ", 1)[1], BODY, TEXT_MM - 7) + 0.8
    if block.kind == "box":
        return _box_height(pdf, block) + 2.6
    if block.kind == "table":
        return SMALL_BOLD.leading_mm + 1.2 + len(block.rows) * (SMALL.leading_mm + 2 * _ROW_PAD_MM) + 3.4
    return pdf.text_height(block.text, BODY, TEXT_MM) + 1.6


def _box_height(pdf: BookPdf, block: Block) -> float:
    inner = TEXT_MM - 2 * _BOX_PAD_MM - 1.5
    return 2 * _BOX_PAD_MM + HEADS["section"].leading_mm + pdf.text_height(block.rows[0][0], BODY, inner)


def _draw_box(pdf: BookPdf, block: Block, y: float) -> float:
    tall = _box_height(pdf, block)
    pdf.set_fill_color(*TINT)
    pdf.rect(SIDE_MM, y, TEXT_MM, tall, style="F")
    pdf.set_fill_color(*ACCENT)
    pdf.rect(SIDE_MM, y, 1.5, tall, style="F")
    x, inner = SIDE_MM + 1.5 + _BOX_PAD_MM, TEXT_MM - 2 * _BOX_PAD_MM - 1.5
    below = pdf.put_text(block.text, HEADS["section"], x, y + _BOX_PAD_MM, inner)
    pdf.put_text(block.rows[0][0], BODY, x, below, inner, justify=True)
    return y + tall + 2.6


def _draw_table(pdf: BookPdf, block: Block, y: float) -> float:
    pdf.put_line(block.text, SMALL_BOLD, y + 3.9, "C")
    y += SMALL_BOLD.leading_mm + 1.2
    columns = [
        max(pdf.width(pieces_of(row[i], SMALL_BOLD), SMALL_BOLD) for row in block.rows) + 12
        for i in range(len(block.aligns))
    ]
    left = (WIDTH_MM - sum(columns)) / 2
    row_mm = SMALL.leading_mm + 2 * _ROW_PAD_MM
    pdf.set_draw_color(*RULE)
    pdf.set_line_width(0.25)
    for number, row in enumerate(block.rows):
        style = SMALL_BOLD if number == 0 else SMALL
        if number == 0:
            pdf.set_fill_color(*TINT)
            pdf.rect(left, y, sum(columns), row_mm, style="F")
        x = left
        for cell, column, align in zip(row, columns, block.aligns, strict=True):
            word = pieces_of(cell, style)
            shift = column - 5 - pdf.width(word, style) if align == "R" else 5
            pdf.put_word(word, style, x + shift, y + _ROW_PAD_MM + 3.7)
            x += column
        y += row_mm
        pdf.line(left, y, left + sum(columns), y)
    return y + 3.4


def paginate(pdf: BookPdf, book: Book) -> Layout:
    """Decide the pages. A heading stays with what follows, a formula with the paragraph that leads to it."""
    layout, y = Layout(), 0.0
    group: list[Block] = []
    for index, block in enumerate(book.blocks):
        group.append(block)
        following = book.blocks[index + 1].kind if index + 1 < len(book.blocks) else ""
        if block.kind in HEADS or (block.kind == "paragraph" and following == "formula"):
            continue
        if block.kind == "paragraph" and group[0].kind == "chapter" and following == "lesson":
            continue
        tall = sum(height(pdf, b) + SPACE_BEFORE_MM.get(b.kind, 0.0) for b in group)
        fresh = group[0].kind in {"chapter", "lesson"}
        if not layout.pages or fresh or y + tall > HEIGHT_MM - BOTTOM_MM:
            layout.pages.append([])
            y = TOP_MM - SPACE_BEFORE_MM.get(group[0].kind, 0.0)  # drawn without it at the top of a page
        layout.pages[-1] += group
        y += tall
        group = []
    return layout


def build_pdf(book: Book) -> tuple[bytes, Layout]:
    """Returns: the PDF's bytes and the layout it was built on."""
    pdf = BookPdf(book)
    layout = paginate(pdf, book)
    _title_page(pdf)
    _contents(pdf, book, layout.page_of)
    for page in layout.pages:
        if page[0].kind == "chapter":
            pdf.chapter = page[0].text if page[0].text.startswith("Chương") else ""
        pdf.add_page()
        y = TOP_MM
        for block in page:
            y = draw(pdf, block, y + (SPACE_BEFORE_MM.get(block.kind, 0.0) if y > TOP_MM else 0.0))
        assert y <= HEIGHT_MM - BOTTOM_MM + 0.01, f"page {pdf.page_no()} is overfull"
    return bytes(pdf.output()), layout


def _title_page(pdf: BookPdf) -> None:
    meta = pdf.book.meta
    pdf.add_page()
    pdf.set_fill_color(*ACCENT)
    pdf.rect(0, 0, WIDTH_MM, 62, style="F")
    white = (255, 255, 255)
    pdf.put_line(meta["series"].upper(), Style("sans", 13, True, white), 36, "C")
    title = Style("sans", 32, True, ACCENT)
    pdf.put_line(meta["title"].rsplit(" ", 1)[0].upper(), Style("sans", 25, True, ACCENT), 106, "C")
    pdf.put_line(meta["grade"], Style("sans", 64, True, title.color), 140, "C")
    pdf.put_line(f"Sách dành cho học sinh lớp {meta['grade']}", Style("serif", 13), 166, "C")
    pdf.put_line(meta["authors"], Style("serif", 11), 200, "C")
    pdf.put_line(meta["licence"], SMALL, 215, "C")


def _contents(pdf: BookPdf, book: Book, page_of: Callable[[Block], int]) -> None:
    pdf.add_page()
    y = pdf.put_text("MỤC LỤC", HEADS["chapter"], SIDE_MM, TOP_MM, TEXT_MM) + 5
    for block in book.blocks:
        if block.kind not in {"chapter", "lesson"}:
            continue
        chapter = block.kind == "chapter"
        style = Style("sans", 10.5, True, ACCENT) if chapter else BODY
        y += 4.0 if chapter else 0.6
        text = plain(block.text)
        x = SIDE_MM if chapter else SIDE_MM + 6
        page = str(page_of(block))
        start = x + pdf.width(pieces_of(text, style), style)
        stop = WIDTH_MM - SIDE_MM - pdf.width(pieces_of(page, style), style)
        pdf.put_line(text, style, y + 4.2, "L", x)
        dot = pdf.width([("", ".")], BODY)
        dots = int((stop - start - 4) / (dot * 1.6))
        for index in range(dots):
            pdf.set_fill_color(*RULE)
            pdf.circle(stop - 3 - index * dot * 1.6, y + 4.0, 0.22, style="F")
        pdf.put_line(page, style, y + 4.2, "R")
        y += LEADING_MM + 1.0


__all__ = ["BUILT", "FONTS", "HEIGHT_MM", "SIDE_MM", "WIDTH_MM", "Layout", "build_pdf"]
