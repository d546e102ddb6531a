"""The sample textbook as a Word file that breaks its pages where the PDF does."""

import io
import zipfile

from docx import Document
from docx.document import Document as DocxDocument
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.table import WD_TABLE_ALIGNMENT
from docx.enum.text import WD_ALIGN_PARAGRAPH, WD_TAB_ALIGNMENT, WD_TAB_LEADER
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Mm, Pt, RGBColor
from docx.styles.style import ParagraphStyle
from docx.table import _Cell
from docx.text.paragraph import Paragraph

from sample_book_pdf import BUILT, HEIGHT_MM, SIDE_MM, WIDTH_MM, Layout, chapter_capitals
from sample_book_source import Block, Book, plain, spans

FONT = "Times New Roman"
ACCENT, TINT_HEX = RGBColor(0, 92, 105), "E8F3F3"
_HEADING_LEVEL = {"chapter": 1, "lesson": 2, "section": 3}


def build_docx(book: Book, layout: Layout) -> bytes:
    """Returns: the file's bytes; the same input gives the same bytes."""
    document = Document()
    _page_setup(document)
    _styles(document)
    properties = document.core_properties
    properties.title, properties.author = book.name, book.meta["authors"]
    properties.subject, properties.language = book.meta["subject"], "vi"
    properties.comments, properties.keywords = "", f"source-sha256:{book.digest}"
    properties.created = properties.modified = BUILT.replace(tzinfo=None)
    _title_page(document, book)
    _break_page(document)
    _contents(document, book, layout)
    for page in layout.pages:
        _break_page(document)
        for block in page:
            _add(document, block)
    buffer = io.BytesIO()
    document.save(buffer)
    return _with_fixed_dates(buffer.getvalue())


def _page_setup(document: DocxDocument) -> None:
    section = document.sections[0]
    section.page_width, section.page_height = Mm(WIDTH_MM), Mm(HEIGHT_MM)
    section.left_margin = section.right_margin = Mm(SIDE_MM)
    section.top_margin, section.bottom_margin = Mm(18), Mm(18)
    section.header_distance = section.footer_distance = Mm(9)
    section.different_first_page_header_footer = True
    footer = section.footer.paragraphs[0]
    footer.alignment = WD_ALIGN_PARAGRAPH.CENTER
    field = OxmlElement("w:fldSimple")
    field.set(qn("w:instr"), "PAGE")
    run = OxmlElement("w:r")
    shown = OxmlElement("w:t")
    shown.text = "2"  # what a program that does not compute fields shows
    run.append(shown)
    field.append(run)
    footer._p.append(field)


def _set_font(style: ParagraphStyle, size_pt: float, bold: bool = False, color: RGBColor | None = None) -> None:
    style.font.name, style.font.size, style.font.bold, style.font.italic = FONT, Pt(size_pt), bold, False
    fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
    for theme in ("w:asciiTheme", "w:hAnsiTheme", "w:eastAsiaTheme", "w:cstheme"):
        fonts.attrib.pop(qn(theme), None)
    for name in ("w:ascii", "w:hAnsi", "w:eastAsia", "w:cs"):
        fonts.set(qn(name), FONT)
    if color is not None:
        style.font.color.rgb = color


def _paragraph_style(document: DocxDocument, name: str, before_pt: float, after_pt: float) -> ParagraphStyle:
    known = name in [style.name for style in document.styles]
    style = document.styles[name] if known else document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
    assert isinstance(style, ParagraphStyle)
    if not known:
        style.base_style = document.styles["Normal"]  # pyright: ignore[reportAttributeAccessIssue]
    style.paragraph_format.space_before, style.paragraph_format.space_after = Pt(before_pt), Pt(after_pt)
    return style


def _styles(document: DocxDocument) -> None:
    normal = _paragraph_style(document, "Normal", 0, 4)
    _set_font(normal, 11.5)
    normal.paragraph_format.line_spacing = 1.05
    for level, size, before in ((1, 16, 0), (2, 14, 10), (3, 12, 9)):
        _set_font(_paragraph_style(document, f"Heading {level}", before, 4), size, True, ACCENT)
    _set_font(_paragraph_style(document, "Title", 120, 30), 30, True, ACCENT)
    _set_font(_paragraph_style(document, "Caption", 6, 4), 10.5, True, ACCENT)
    _set_font(_paragraph_style(document, "Contents", 0, 4), 11.5)
    breaker = _paragraph_style(document, "Page Break", 0, 0)
    _set_font(breaker, 1)
    breaker.paragraph_format.line_spacing = Pt(1)


def _break_page(document: DocxDocument) -> None:
    # In a paragraph of its own: a break inside a heading or a table would become part of its text.
    run = document.add_paragraph(style="Page Break").add_run()
    mark = OxmlElement("w:br")
    mark.set(qn("w:type"), "page")
    run._r.append(mark)


def _write(paragraph: Paragraph, text: str, italic: bool = False) -> Paragraph:
    for style, piece in spans(text):
        run = paragraph.add_run(piece)
        run.bold = style == "B" or None
        run.italic = style == "I" or italic or None
    return paragraph


def _add(document: DocxDocument, block: Block) -> None:
    if block.kind in _HEADING_LEVEL:
        text = chapter_capitals(block.text) if block.kind == "chapter" else block.text
        document.add_heading(text, _HEADING_LEVEL[block.kind])
    elif block.kind == "formula":
        _write(document.add_paragraph(), block.text, italic=True).alignment = WD_ALIGN_PARAGRAPH.CENTER
    elif block.kind == "question":
        number, text = block.text.split(" ", 1)
        paragraph = _write(document.add_paragraph(), f"{number} {text}")
        paragraph.paragraph_format.left_indent, paragraph.paragraph_format.first_line_indent = Mm(7), Mm(-5)
    elif block.kind == "box":
        _box(document, block)
    elif block.kind == "table":
        _table(document, block)
    else:
        _write(document.add_paragraph(), block.text).alignment = WD_ALIGN_PARAGRAPH.JUSTIFY


def _shade(cell: _Cell) -> None:
    shade = OxmlElement("w:shd")
    shade.set(qn("w:val"), "clear")
    shade.set(qn("w:fill"), TINT_HEX)
    cell._tc.get_or_add_tcPr().append(shade)


def _box(document: DocxDocument, block: Block) -> None:
    # Shaded paragraphs, not a one-cell table: readers see tables as data.
    for bold, text in ((True, block.text), (False, block.rows[0][0])):
        paragraph = document.add_paragraph()
        if bold:
            paragraph.add_run(text).bold = True
            paragraph.paragraph_format.space_before, paragraph.paragraph_format.space_after = Pt(8), Pt(0)
        else:
            _write(paragraph, text).alignment = WD_ALIGN_PARAGRAPH.JUSTIFY
        shade = OxmlElement("w:shd")
        shade.set(qn("w:val"), "clear")
        shade.set(qn("w:fill"), TINT_HEX)
        properties = paragraph._p.get_or_add_pPr()
        properties.insert_element_before(shade, "w:tabs", "w:spacing", "w:ind", "w:jc", "w:rPr")


def _table(document: DocxDocument, block: Block) -> None:
    caption = document.add_paragraph(block.text, style="Caption")
    caption.alignment = WD_ALIGN_PARAGRAPH.CENTER
    caption.paragraph_format.keep_with_next = True
    table = document.add_table(rows=len(block.rows), cols=len(block.aligns), style="Table Grid")
    table.alignment = WD_TABLE_ALIGNMENT.CENTER
    for number, (cells, row) in enumerate(zip(block.rows, table.rows, strict=True)):
        for text, cell, align in zip(cells, row.cells, block.aligns, strict=True):
            paragraph = cell.paragraphs[0]
            paragraph.add_run(text).bold = number == 0 or None
            paragraph.paragraph_format.space_after = Pt(1)
            paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT if align == "R" else WD_ALIGN_PARAGRAPH.LEFT
            if number == 0:
                _shade(cell)
    document.add_paragraph(style="Page Break")  # a thin gap below the table


def _title_page(document: DocxDocument, book: Book) -> None:
    meta = book.meta
    for text, style in (
        (meta["series"].upper(), "Normal"),
        (meta["title"].upper(), "Title"),
        (f"Sách dành cho học sinh lớp {meta['grade']}", "Normal"),
        (meta["authors"], "Normal"),
        (meta["licence"], "Normal"),
    ):
        paragraph = document.add_paragraph(text, style=style)
        paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
        if style == "Title":
            for border in paragraph.style.element.iter(qn("w:pBdr")):  # pyright: ignore[reportOptionalMemberAccess]
                border.getparent().remove(border)
                break


def _contents(document: DocxDocument, book: Book, layout: Layout) -> None:
    title = document.add_paragraph(style="Normal").add_run("MỤC LỤC")
    title.bold, title.font.size, title.font.color.rgb = True, Pt(16), ACCENT
    for block in book.blocks:
        if block.kind in {"chapter", "lesson"}:
            paragraph = document.add_paragraph(style="Contents")
            paragraph.paragraph_format.left_indent = Mm(0 if block.kind == "chapter" else 6)
            stops = paragraph.paragraph_format.tab_stops
            stops.add_tab_stop(Mm(WIDTH_MM - 2 * SIDE_MM), WD_TAB_ALIGNMENT.RIGHT, WD_TAB_LEADER.DOTS)
            paragraph.add_run(f"{plain(block.text)}\t{layout.page_of(block)}").bold = block.kind == "chapter" or None


def _with_fixed_dates(data: bytes) -> bytes:
    """The same package with every entry dated alike, since a ZIP entry otherwise holds the time of writing."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as package, zipfile.ZipFile(out, "w") as fixed:
        for name in package.namelist():
            entry = zipfile.ZipInfo(name, date_time=(BUILT.year, BUILT.month, BUILT.day, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            fixed.writestr(entry, package.read(name))
    return out.getvalue()
