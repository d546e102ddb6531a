"""Rosters as schools export them, with what goes wrong in spreadsheets."""

import io
import time
import unicodedata
import zipfile
from datetime import date, datetime
from typing import Literal

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosters import TODAY, applied, book, only_problem, people, read, saved

from deepedu.base.errors import BadRequest
from deepedu.school.roster import Roster, RosterRow
from deepedu.school.roster_file import MAX_ROWS, read_roster
from deepedu.school.roster_plan import plan

PLAIN = "Mã học sinh,Họ và tên,Lớp,Ngày sinh\n0012,Nguyễn Thị Hồng Hạnh,6a1,05/09/2014\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_csv_in_its_usual_shapes(encoding: str, separator: str, ending: str, form: Literal["NFC", "NFD"]) -> None:
    text = unicodedata.normalize(form, PLAIN).replace(",", separator).replace("\n", ending)
    expected = RosterRow(2, "student", "Nguyễn Thị Hồng Hạnh", "0012", "6A1", date(2014, 9, 5))
    assert read(text, encoding) == Roster((expected,), ())


def test_csv_in_windows_1258() -> None:
    # Windows keeps the tone marks apart: ễ is ê with a tilde behind it.
    def apart(letter: str) -> str:
        marks = unicodedata.normalize("NFD", letter)
        tone = "".join(c for c in marks if c in "\u0300\u0301\u0303\u0309\u0323")
        return unicodedata.normalize("NFC", "".join(c for c in marks if c not in tone)) + tone

    content = "".join(map(apart, PLAIN)).encode("cp1258")
    with pytest.raises(UnicodeDecodeError):
        content.decode("utf-8")
    assert people(read_roster(content, "a.csv", today=TODAY)) == [("student", "Nguyễn Thị Hồng Hạnh", "6A1")]


def test_the_separator_that_excel_writes_down_is_taken() -> None:
    roster = read("sep=;\r\nHọ và tên;Lớp\r\nLê Văn A, B;6A\r\nTrần Thị C;6A\r\n")
    assert [row.line for row in roster.rows] == [4]
    assert only_problem(roster).line == 3


def test_lines_are_those_of_the_file() -> None:
    roster = read('Họ và tên,Lớp,Địa chỉ\n\nLê Văn A,6A,"Số 1\nHà Nội"\nTrần Thị B,6A,x\n')
    assert [row.line for row in roster.rows] == [3, 5]
    assert roster.ignored == ("cột “Địa chỉ”",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Hä vµ tªn;Líp;Ngµy sinh\nNguyÔn V¨n Hïng;6A;05/09/2014\nTrÇn ThÞ H¹nh;6A;06/09/2014\n", "TCVN3"),
        ("Hoï vaø teân;Lôùp;Ngaøy sinh\nNguyeãn Vaên Huøng;6A;05/09/2014\nTraàn Thò Haïnh;6A;06/09/2014\n", "VNI"),
        ("Họ và tên;Lớp\nNguyễn Văn Hùng;6A\nTrần Thị Hạnh;6A\n".encode().decode("cp1252", "replace"), "đọc nhầm"),
        ("H? và tên;L?p\nNguy?n Văn H?ng;6A\nTr?n Th? H?nh;6A\nPh?m Đ?c L?c;6A\n", "dấu hỏi"),
    ],
)
def test_lost_letters_are_recognised(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(text)
    if message in ("TCVN3", "VNI"):
        with pytest.raises(BadRequest, match=message):
            read_roster(text.encode("cp1252"), "lop.csv", today=TODAY)
    rows = [line.split(";") for line in text.splitlines()]
    with pytest.raises(BadRequest, match=message):
        read_roster(book({"6A": rows}), "lop.xlsx", today=TODAY)


def test_foreign_names_are_no_old_encoding() -> None:
    names = ["Nguyễn Văn Hùng", "Jürgen Müller", "José Nuñez", "Trần Thị Hạnh", "Đỗ Hoà", "Y Moan Êñuôl", "H'Hen Niê"]
    roster = read("Họ và tên,Lớp\n" + "".join(f"{name},6A\n" for name in names))
    assert [row.full_name for row in roster.rows] == names


PACKAGE = io.BytesIO()
with zipfile.ZipFile(PACKAGE, "w", zipfile.ZIP_DEFLATED) as _package:
    _package.writestr("xl/worksheets/sheet1.xml", b"\0" * 101_000_000)
WORD = io.BytesIO()
with zipfile.ZipFile(WORD, "w") as _package:
    _package.writestr("word/document.xml", b"<x/>")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "rỗng"),
        (b"\xef\xbb\xbf"[:0] + b" \r\n", "rỗng"),
        (b"\xef\xbb\xbf\r\n", "không tìm thấy cột"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "PDF"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "ảnh"),
        (bytes(range(256)) * 20, "không phải tệp văn bản"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "mật khẩu"),
        (OLE + "Workbook".encode("utf-16-le"), "kiểu cũ"),
        (b"<html><table><tr><td>Ho ten</td></tr></table></html>", "trang web"),
        (PACKAGE.getvalue(), "quá lớn"),
        (WORD.getvalue(), "không phải Excel"),
        (book({"6A": [["Họ và tên"], ["Lê A"]]})[:-300], "hỏng"),
        (b"PK\x03\x04" + bytes(100), "hỏng"),
        (b"a" * 20_000_001, "quá lớn"),
        (b"Hello, this is a letter.\nIt has no columns.\n", "không tìm thấy cột"),
        ("Mã học sinh,Lớp\n1,6A\n".encode(), "không tìm thấy cột"),
        ("Họ và tên,Ngày sinh\nLê A,05/09/2014\n".encode(), "không có cột “Lớp”"),
        ("Họ và tên,Lớp\n".encode(), "không có dòng dữ liệu"),
        (('Họ và tên,Lớp\n"Lê A,6A\n' + "Trần B,6A\n" * 20_000).encode(), "ngoặc kép"),
        (("Họ và tên,Lớp\n" + "Trần B,6A\n" * (MAX_ROWS + 100)).encode(), "quá lớn"),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(content: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read_roster(content, "danh-sach.csv", today=TODAY)


def test_entities_do_not_blow_up() -> None:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lolololol">{entities}]>'
    source = zipfile.ZipFile(io.BytesIO(book({"6A": [["Họ và tên"], ["Lê A"]]})))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = bomb.encode() + content.replace(b"<sheetData>", b"<sheetData>&l9;", 1)
            target.writestr(name, content)
    started = time.monotonic()
    with pytest.raises(BadRequest, match="hỏng"):
        read_roster(out.getvalue(), "a.xlsx", today=TODAY)
    assert time.monotonic() - started < 10


@settings(max_examples=150, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=400), st.text(alphabet='Họ và tên,Lớp;"\n\t=6A12/é\0', max_size=200).map(str.encode)
    )
)
def test_no_content_ends_in_another_error(content: bytes) -> None:
    try:
        roster = read_roster(content, "a.csv", today=TODAY)
    except BadRequest:
        return
    assert roster.rows or roster.problems


# --- Workbooks --------------------------------------------------------------------------------------------------------


def test_an_export_with_titles_and_two_header_lines() -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.worksheets[0]
    sheet.title = "DSHS"
    sheet.append(["SỞ GIÁO DỤC VÀ ĐÀO TẠO", None, None, "CỘNG HÒA XÃ HỘI CHỦ NGHĨA VIỆT NAM"])
    sheet.append(["TRƯỜNG THCS A"])
    sheet.append([])
    sheet.append(["DANH SÁCH HỌC SINH LỚP 6A2 NĂM HỌC 2026 - 2027"])
    sheet.append(["STT", "Mã học sinh", "Họ và tên", None, "Ngày sinh", "Cha", None, "Mẹ", None])
    sheet.append([None, None, None, None, None, "Họ tên", "Số điện thoại", "Họ tên", "Số điện thoại"])
    for area in ("A1:C1", "A4:I4", "C5:D6", "F5:G5", "H5:I5"):
        sheet.merge_cells(area)
    sheet.append([1, "0100000001", "Nguyễn Thị", "Hoa", datetime(2014, 9, 5), "Nguyễn Văn B", "0912345678", None, None])
    sheet.append([2, "0100000002", "Trần", "Nam", "6/9/2014", None, None, "Lê Thị C", 987654321])
    sheet.append([])
    sheet.append([None, "Tổng số: 2 học sinh"])
    sheet.append([None, None, None, None, None, "Hà Nội, ngày 5 tháng 9 năm 2026"])
    sheet.append([None, None, "NGƯỜI LẬP", None, None, "HIỆU TRƯỞNG"])
    sheet.append([None, None, "Phạm Thị D"])
    roster = read_roster(saved(workbook), "ds.xlsx", today=TODAY)
    assert not roster.problems
    assert people(roster) == [
        ("student", "Nguyễn Thị Hoa", "6A2"),
        ("student", "Trần Nam", "6A2"),
        ("guardian", "Nguyễn Văn B", ""),
        ("guardian", "Lê Thị C", ""),
    ]
    assert [row.line for row in roster.rows] == [7, 8, 7, 8]
    assert [row.birth_date for row in roster.rows[:2]] == [date(2014, 9, 5), date(2014, 9, 6)]
    assert [(row.phone, row.guardian_of) for row in roster.rows[2:]] == [
        ("0912345678", ("0100000001",)),
        ("0987654321", ("0100000002",)),
    ]
    assert sum("dòng" in told for told in roster.ignored) == 4


def test_a_sheet_for_each_class_and_hidden_ones_left_out() -> None:
    rows = [["Họ tên", "Ngày sinh"], ["Lê Văn A", "01/01/2014"]]
    content = book(
        {"6A": rows, "Lớp 6B": [rows[0], ["Trần B", "02/01/2014"]], "6-3": [rows[0], ["Đỗ C", "03/01/2014"]],
         "nháp": rows, "Ghi chú": [["xin xem"]]},
        hidden=["nháp"],
    )  # fmt: skip
    roster = read_roster(content, "khoi6.xlsx", today=TODAY)
    assert [(row.sheet, row.class_name) for row in roster.rows] == [("6A", "6A"), ("Lớp 6B", "6B"), ("6-3", "6-3")]
    assert any("nháp" in told for told in roster.ignored)
    assert any("Ghi chú" in told for told in roster.ignored)


def test_numbers_are_read_as_they_are_shown() -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.worksheets[0]
    sheet.append(["Mã HS", "Họ tên", "Lớp"])
    for code, shown in ((12, "00000"), (12, "General"), (79214001234, "000000000000"), (2.00123e17, "General")):
        sheet.append([code, f"Lê {'ABCD'[sheet.max_row - 1]}", "6A"])
        sheet.cell(sheet.max_row, 1).number_format = shown
    sheet.append(["00012x", "Lê E", datetime(2026, 1, 6)])
    sheet.append(["13", "Lê F", 100])
    sheet.cell(sheet.max_row, 3).number_format = "0.00E+00"
    sheet.append(["14", "Lê G", 6.1])
    roster = read_roster(saved(workbook), "a.xlsx", today=TODAY)
    assert [row.code for row in roster.rows] == ["00012", "12", "079214001234", "14"]
    assert roster.rows[-1].class_name == "6.1"
    assert [(problem.line, problem.column) for problem in roster.problems] == [(5, "Mã HS"), (6, "Lớp"), (7, "Lớp")]
    assert all("Excel đã đổi" in problem.message for problem in roster.problems)


def test_five_thousand_rows_take_seconds() -> None:
    header = ["STT", "Mã HS", "Họ tên", "Lớp", "Ngày sinh", "Họ tên cha", "SĐT cha", "Địa chỉ"]
    rows = [
        [n, f"{n:08}", f"Nguyễn Văn {'ABCDEFGHIJ'[n % 10]}{'abcdefghij'[n // 10 % 10]}", f"6A{n % 20}",
         date(2014, 1 + n % 12, 1 + n % 28), f"Trần {'ABCDEFGHIJ'[n % 10]}", f"09{n:08}", "Hà Nội"]
        for n in range(5000)
    ]  # fmt: skip
    content = book({"Toàn trường": [header, *rows]})
    started = time.monotonic()
    roster = read_roster(content, "a.xlsx", today=TODAY)
    first = plan(roster, [])
    again = plan(roster, applied(first, []))
    # Seconds on a laptop; the limit is for a busy machine.
    assert time.monotonic() - started < 30
    assert len(first.create) == 10_000
    assert len(again.unchanged) == 10_000
