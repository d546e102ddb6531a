"""Readers: any document becomes pages of clean NFC text that know where they came from."""

import unicodedata
import zipfile
from pathlib import Path
from random import Random

import docx
import pypdfium2
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from made_documents import PROSE

from deepedu.base.errors import DamagedDocument, EmptyDocument, EncryptedDocument, IngestError, UnsupportedFormat
from deepedu.base.vietnamese import OffsetMap
from deepedu.curriculum.readers import PageText, open_document
from deepedu.curriculum.sample import SAMPLE_DOCX, SAMPLE_PDF, SAMPLE_SOURCE


def read(path: Path, start: int = 1) -> list[PageText]:
    document = open_document(path)
    try:
        return list(document.pages(start))
    finally:
        document.close()


def headings(page: PageText) -> list[tuple[str, int]]:
    return [(page.text[start:end], level) for start, end, level in page.headings or ()]


# --- PDF


def test_pdf_words_lines_and_paragraphs(make_pdf) -> None:
    path = make_pdf("sach.pdf", [["# Bài 1. Vị trí địa lí", PROSE, PROSE], ["Trang hai."]])
    document = open_document(path)
    assert (document.format, document.page_count, document.has_pages) == ("pdf", 2, True)
    first = next(document.pages())
    document.close()
    paragraphs = first.text.split("\n\n")
    assert paragraphs[0] == "Bài 1. Vị trí địa lí"
    assert [" ".join(p.split()) for p in paragraphs[1:]] == [PROSE.strip()] * 2
    assert "\n" in paragraphs[1]
    assert headings(first) == [("Bài 1. Vị trí địa lí", 0)]
    assert [page.number for page in read(path, start=2)] == [2]


def test_pdf_with_decomposed_text_layer_is_composed_and_offsets_lead_back(tmp_path: Path) -> None:
    # Each mark is a character of its own in the text layer, as some producers write it.
    path = tmp_path / "nfd.pdf"
    write_raw_pdf(path, unicodedata.normalize("NFD", "Bác sĩ ở bệnh viện. Học sinh đến trường."))
    (page,) = read(path)
    assert page.text == "Bác sĩ ở bệnh viện. Học sinh đến trường."
    pdf = pypdfium2.PdfDocument(path)
    raw = pdf[0].get_textpage().get_text_range()
    back = OffsetMap(page.source_breaks)
    start = page.text.index("viện")
    assert raw[back.to_source(start) :].startswith(unicodedata.normalize("NFD", "viện"))
    pdf.close()


def test_syllables_are_whole_where_every_accented_letter_is_its_own_run(tmp_path: Path, new_pdf) -> None:
    pdf = new_pdf()
    pdf.set_font("body", size=14)
    pdf.add_page()
    line = "ĐIỀU KHOẢN VÀ ĐIỀU KIỆN"
    for y, gap in ((20, 0.0), (40, 0.35), (60, 0.8)):
        x = 20.0
        for letter in line:
            if letter != " ":
                pdf.text(x, y, letter)
            x += pdf.get_string_width(letter) + gap
    path = tmp_path / "runs.pdf"
    pdf.output(str(path))
    assert read(path)[0].text.split("\n\n") == [line] * 3


def test_a_page_whose_words_stay_broken_is_flagged(make_pdf) -> None:
    broken = "B n h v i n " * 12 + "là chữ bị tách rời trong tệp này"
    (page,) = read(make_pdf("tach.pdf", [[broken]]))
    assert page.notes
    assert "Trang 1" in page.notes[0]


def test_pdf_ligatures_soft_hyphens_and_real_hyphens(make_pdf) -> None:
    (page,) = read(make_pdf("lig.pdf", [["Tệp ﬁle ﬂash, chia\u00adtách và In-đô-nê-xi-a."]]))
    assert page.text == "Tệp file flash, chiatách và In-đô-nê-xi-a."


def test_pdf_two_columns_are_read_one_after_the_other(tmp_path: Path, new_pdf) -> None:
    pdf = new_pdf()
    pdf.set_font("body", size=10)
    pdf.add_page()
    # Written row by row, as a layout program may do it.
    for row in range(10):
        pdf.text(20, 30 + 6 * row, f"cột trái dòng số {row} của trang này")
        pdf.text(110, 30 + 6 * row, f"cột phải dòng số {row} của trang này")
    path = tmp_path / "columns.pdf"
    pdf.output(str(path))
    words = read(path)[0].text
    assert words.index("trái dòng số 9") < words.index("phải dòng số 0")


def test_pdf_table_rows_keep_their_cells_apart(tmp_path: Path, new_pdf) -> None:
    pdf = new_pdf()
    pdf.set_font("body", size=10)
    pdf.add_page()
    for y, row in ((30, ("Chất", "Nóng chảy", "Sôi")), (36, ("Nước", "0", "100")), (42, ("Sắt", "1538", "2862"))):
        for x, cell in zip((20, 80, 140), row, strict=True):
            pdf.text(x, y, cell)
    path = tmp_path / "table.pdf"
    pdf.output(str(path))
    assert read(path)[0].text == "Chất | Nóng chảy | Sôi\nNước | 0 | 100\nSắt | 1538 | 2862"


def test_pdf_page_labels_and_bookmarks(tmp_path: Path, new_pdf) -> None:
    pdf = new_pdf()
    pdf.set_font("body", size=12)
    pdf.add_page(label_style="r")
    pdf.write(text="Lời nói đầu")
    pdf.add_page(label_style="D", label_start=1)
    pdf.start_section("Bài 1. Mở đầu")
    pdf.write(text="Bài 1. Mở đầu")
    pdf.ln()
    pdf.write(text=PROSE)
    path = tmp_path / "labels.pdf"
    pdf.output(str(path))
    first, second = read(path)
    assert (first.label, second.label) == ("i", "1")
    assert headings(second) == [("Bài 1. Mở đầu", 1)]


def test_pdf_behind_a_password(make_pdf) -> None:
    with pytest.raises(EncryptedDocument, match="mật khẩu"):
        open_document(make_pdf("khoa.pdf", [["Bí mật"]], password="1234"))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6])
def test_a_truncated_pdf_is_damaged(make_pdf, share: float) -> None:
    path = make_pdf("cut.pdf", [[PROSE * 4]] * 6)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DamagedDocument, match="hỏng hoặc"):
        open_document(path)


# --- DOCX


def test_docx_styles_tables_and_explicit_pages(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("Chương I. Đo lường", level=1)
    document.add_heading("Bài 1. Đo chiều dài", level=2)
    paragraph = document.add_paragraph("Đơn vị là ")
    paragraph.add_run("mét").bold = True
    paragraph.add_run(", diện tích là m")
    paragraph.add_run("2").font.superscript = True
    table = document.add_table(rows=2, cols=3)
    for row, cells in zip(table.rows, (("Tên", "Kí hiệu", "Đổi"), ("mét", "m", "1")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    document.add_heading("Bài 2. Đo nhiệt độ", level=2)
    document.add_paragraph("Dụng cụ đo là nhiệt kế.")
    path = tmp_path / "sach.docx"
    document.save(str(path))
    opened = open_document(path)
    assert (opened.page_count, opened.has_pages) == (2, True)
    first, second = opened.pages()
    assert first.text == (
        "Chương I. Đo lường\n\nBài 1. Đo chiều dài\n\nĐơn vị là mét, diện tích là m²\n\n"
        "Tên | Kí hiệu | Đổi\nmét | m | 1"
    )
    assert headings(first) == [("Chương I. Đo lường", 2), ("Bài 1. Đo chiều dài", 3)]
    assert headings(second) == [("Bài 2. Đo nhiệt độ", 3)]


def test_docx_counts_words_own_page_breaks_once_and_none_means_no_pages(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Trang một.")
    broken = document.add_paragraph()
    broken.add_run().add_break(WD_BREAK.PAGE)
    run = document.add_paragraph().add_run()
    # Word notes a break of its own right after the one it was asked for.
    run._r.append(OxmlElement("w:lastRenderedPageBreak"))
    run.add_text("Trang hai.")
    middle = document.add_paragraph().add_run("Câu này ")
    middle._r.append(OxmlElement("w:lastRenderedPageBreak"))
    middle.add_text("sang trang ba.")
    path = tmp_path / "pages.docx"
    document.save(str(path))
    assert [page.text for page in read(path)] == ["Trang một.", "Trang hai.\n\nCâu này", "sang trang ba."]

    plain = docx.Document()
    for number in range(60):
        plain.add_paragraph(f"Đoạn {number}. {PROSE}")
    plain.save(str(tmp_path / "plain.docx"))
    opened = open_document(tmp_path / "plain.docx")
    pages = list(opened.pages())
    assert not opened.has_pages
    assert len(pages) > 3
    assert all(len(page.text) < 4000 for page in pages)
    assert all(page.text.rstrip().endswith(".") for page in pages)


def test_docx_shows_the_numbers_that_word_keeps_out_of_the_text(tmp_path: Path) -> None:
    document = docx.Document()
    for text in ("Một", "Hai"):
        document.add_paragraph(text, style="List Number")
    document.add_paragraph("Gạch", style="List Bullet")
    numbering = document.part.numbering_part.element
    level = next(
        item
        for item in numbering.iter(qn("w:lvl"))
        if item.find(qn("w:numFmt")).get(qn("w:val")) == "decimal" and item.get(qn("w:ilvl")) == "0"
    )
    assert level is not None
    path = tmp_path / "list.docx"
    document.save(str(path))
    assert read(path)[0].text == "1. Một\n\n2. Hai\n\n- Gạch"


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_truncated_docx_is_damaged(tmp_path: Path, share: float) -> None:
    document = docx.Document()
    document.add_paragraph(PROSE)
    path = tmp_path / "cut.docx"
    document.save(str(path))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DamagedDocument):
        open_document(path)


def test_a_docx_with_broken_xml_is_damaged(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph(PROSE)
    whole = tmp_path / "whole.docx"
    document.save(str(whole))
    path = tmp_path / "broken.docx"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for item in source.infolist():
            content = source.read(item)
            target.writestr(item, content[: len(content) // 2] if item.filename == "word/document.xml" else content)
    with pytest.raises(DamagedDocument):
        open_document(path)


# --- Markdown, text, HTML


def test_markdown_loses_its_marks_and_keeps_its_structure(tmp_path: Path) -> None:
    path = tmp_path / "bai.md"
    path.write_text(
        "---\ntitle: Khoa học 6\ngrade: 6\n---\n\n# Chương I\n\n## Bài 1 ##\n\nĐơn vị là **mét**, xem [bảng](b.md) và "
        "`m`.\nDòng *hai*; 2*3*4, a_b_c.\n\n- Một\n- Hai\n  nối\n\n| A | B |\n|---|:-:|\n| 1 | 2 |\n\n> Trích dẫn\n\n"
        "Tiêu đề dưới\n---\n\n```\nmã # không phải tiêu đề\n```\n",
        encoding="utf-8",
    )
    opened = open_document(path)
    (page,) = opened.pages()
    assert opened.hints == {"title": "Khoa học 6", "grade": "6"}
    assert page.text == (
        "Chương I\n\nBài 1\n\nĐơn vị là mét, xem bảng và m.\nDòng hai; 2*3*4, a_b_c.\n\n- Một\n- Hai\nnối\n\n"
        "A | B\n1 | 2\n\nTrích dẫn\n\nTiêu đề dưới\n\nmã # không phải tiêu đề"
    )
    assert headings(page) == [("Chương I", 1), ("Bài 1", 2), ("Tiêu đề dưới", 2)]


def test_html_is_read_as_a_person_would(tmp_path: Path) -> None:
    path = tmp_path / "trang.bin"
    path.write_bytes(
        "<html><head><meta charset=utf-8><title>Nước</title><script>alert('x')</script></head><body>"
        "<nav><a>Trang chủ</a></nav><h1>Nước</h1><p>Nước là H<sub>2</sub>O,\n diện tích 5 km<sup>2</sup>.<br>Dòng mới"
        "</p><ul><li>Một<li>Hai</ul><table><tr><th>A<th>B<tr><td>1<td>2</table><h2>Mục</h2>rời</body>".encode()
    )
    opened = open_document(path)
    (page,) = opened.pages()
    assert opened.format == "html"
    assert opened.hints == {"title": "Nước"}
    assert page.text == (
        "Nước\n\nNước là H2O, diện tích 5 km².\nDòng mới\n\n- Một\n- Hai\n\nA | B\n1 | 2\n\nMục\n\nrời"
    )
    assert headings(page) == [("Nước", 1), ("Mục", 2)]


def test_html_charset_comes_from_the_page_where_it_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "cu.html"
    text = unicodedata.normalize("NFD", "Tiếng Việt").replace("ê\u0302", "ê")
    body = (
        "<html><head><meta http-equiv=Content-Type content='text/html; charset=windows-1258'></head><p>Ti\u00ea\u0301ng"
    )
    path.write_bytes(body.encode("cp1258"))
    assert read(path)[0].text == "Tiếng"
    del text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1258"])
def test_text_in_any_usual_encoding(tmp_path: Path, encoding: str) -> None:
    text = "Vi\u00ea\u0323t Nam co\u0301 nhi\u00ea\u0300u s\u00f4ng ngo\u0300i.\r\nDo\u0300ng hai \u0111\u00f3."
    path = tmp_path / "bai.txt"
    path.write_bytes(text.encode(encoding))
    (page,) = read(path)
    assert page.text == "Việt Nam có nhiều sông ngòi.\nDòng hai đó."


def test_text_form_feeds_are_pages_and_wiki_marks_are_headings(tmp_path: Path) -> None:
    path = tmp_path / "bai.txt"
    path.write_text("Mở đầu.\n\n== Nguồn gốc ==\nChữ.\n=== Nhỏ ===\nChữ.\f\fTrang ba.", encoding="utf-8")
    opened = open_document(path)
    pages = list(opened.pages())
    assert opened.has_pages
    assert [page.text for page in pages] == ["Mở đầu.\n\nNguồn gốc\n\nChữ.\n\nNhỏ\n\nChữ.", "", "Trang ba."]
    assert headings(pages[0]) == [("Nguồn gốc", 2), ("Nhỏ", 3)]


# --- Formats


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("a.pdf", b"", EmptyDocument, "0 byte"),
        ("a.pdf", b"\x00\x01\x02\x03" * 100, DamagedDocument, "PDF"),
        ("a.docx", b"PK\x03\x04 cut off", DamagedDocument, "cắt cụt"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "WordDocument".encode("utf-16-le"),
         UnsupportedFormat, r"\.docx"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
         EncryptedDocument, "mật khẩu"),
        ("a.rtf", b"{\\rtf1\\ansi}", UnsupportedFormat, "RTF"),
        ("a.txt", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, UnsupportedFormat, "ảnh"),
        ("a", bytes(range(256)) * 8, UnsupportedFormat, "nhị phân"),
    ],
)  # fmt: skip
def test_what_is_no_readable_document_says_what_it_is(
    tmp_path: Path, name: str, content: bytes, error: type[IngestError], says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error, match=says):
        open_document(path)


def test_the_content_tells_the_format_not_the_name(make_pdf, tmp_path: Path) -> None:
    renamed = make_pdf("sach.pdf", [["Nội dung."]]).rename(tmp_path / "sach.txt")
    opened = open_document(renamed)
    assert opened.format == "pdf"
    opened.close()


def write_raw_pdf(path: Path, text: str) -> None:
    """A PDF by hand whose text layer holds exactly the characters of ``text``, one glyph each."""
    codes = {character: number for number, character in enumerate(dict.fromkeys(text), start=1)}
    shown = "".join(f"{codes[character]:02x}" for character in text)
    mapping = "".join(f"<{number:02x}> <{ord(character):04x}>\n" for character, number in codes.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        "1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(codes)} beginbfchar\n{mapping}endbfchar\nendcmap end end"
    )
    widths = " ".join("0" if unicodedata.combining(character) else "500" for character in codes)
    content = f"BT /F 12 Tf 50 700 Td <{shown}> Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        f"<< /Type /Font /Subtype /TrueType /BaseFont /Arial /FirstChar 1 /LastChar {len(codes)} /Widths [{widths}] "
        "/ToUnicode 6 0 R >>",
        f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream",
    ]
    body = "%PDF-1.4\n"
    offsets: list[int] = []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    body += f"<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{body.index('xref')}\n%%EOF"
    path.write_bytes(body.encode("latin-1"))


# --- Damage of any kind


def test_no_damage_lets_a_foreign_error_out(tmp_path: Path) -> None:
    random = Random(7)
    path = tmp_path / "hỏng"
    for source in (SAMPLE_PDF, SAMPLE_DOCX, SAMPLE_SOURCE):
        whole = source.read_bytes()
        for round_number in range(30):
            content = bytearray(whole)
            for _ in range(random.choice((1, 20, 300))):
                content[random.randrange(len(content))] = random.randrange(256)
            if round_number % 3 == 0:
                del content[random.randrange(len(content)) :]
            path.write_bytes(content)
            try:
                document = open_document(path, source.name)
            except IngestError:
                continue
            for page in document.pages():
                assert unicodedata.is_normalized("NFC", page.text)
            document.close()
