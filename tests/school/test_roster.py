"""Rosters: as schools export them, with what goes wrong in spreadsheets, and what an import would change."""

import csv
import io
import time
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Literal

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.errors import BadRequest
from deepedu.school.roster import (
    MAX_ROWS,
    ImportPlan,
    InitialPassword,
    KnownPerson,
    Roster,
    RosterRow,
    RowProblem,
    Teaching,
    passwords_csv,
    plan,
    read_roster,
    result_csv,
    suggest_username,
)

TODAY = date(2026, 9, 5)


def read(text: str, encoding: str = "utf-8") -> Roster:
    return read_roster(text.encode(encoding), "lop.csv", today=TODAY)


def book(sheets: dict[str, Sequence[Sequence[object]]], *, hidden: Sequence[str] = ()) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.worksheets[0])
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
        if title in hidden:
            sheet.sheet_state = "hidden"
    return saved(workbook)


def saved(workbook: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


def people(roster: Roster) -> list[tuple[str, str, str]]:
    return [(row.role, row.full_name, row.class_name) for row in roster.rows]


def only_problem(roster: Roster) -> RowProblem:
    assert len(roster.problems) == 1, [problem.message for problem in roster.problems]
    return roster.problems[0]


# --- Files -----------------------------------------------------------------------------------------------------------

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


# --- Workbooks -------------------------------------------------------------------------------------------------------


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


# --- Columns and fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["Mã học sinh,Họ và tên,Lớp,Ngày sinh", "MA HS,HO TEN,LOP,NGAY SINH", "Student ID,Full name,Class,Date of birth",
     "mã định danh,Họ tên học sinh (*),Tên lớp,Ngày tháng năm sinh"],
)  # fmt: skip
def test_headers_in_many_words(header: str) -> None:
    expected = RosterRow(2, "student", "Lê Văn A", "01", "6A", date(2014, 9, 5))
    assert read(f"{header}\n01,Lê Văn A,6A,5-9-2014\n").rows == (expected,)
    swapped = ",".join(reversed(header.split(",")))
    assert read(f"{swapped}\n5.9.2014,6A,Lê Văn A,01\n").rows == (expected,)


@pytest.mark.parametrize("header", ["Họ đệm,Tên", "Họ và chữ lót,Tên", "Last name,First name"])
def test_a_name_in_two_columns(header: str) -> None:
    assert read(f"{header},Lớp\nNguyễn Thị Hồng,Hạnh,6A\n").rows[0].full_name == "Nguyễn Thị Hồng Hạnh"


def test_of_two_codes_the_pupil_s_own_is_taken() -> None:
    roster = read("Mã định danh,Họ tên,Lớp,Mã học sinh\n001,Lê A,6A,HS1\n")
    assert roster.rows[0].code == "HS1"
    assert roster.ignored == ("cột “Mã định danh”",)


def test_roles_and_what_belongs_to_them() -> None:
    roster = read(
        "Vai trò,Mã,Họ và tên,Lớp,Môn,Email,Điện thoại\n"
        ",HS1,Lê Văn A,6A,,,\n"
        'Giáo viên,GV1,Phạm Thị D,"6A, 6B",Toán,D@truong.vn,\n'
        "gv,GV1,Phạm Thị D,7A,Tin học,,0912345678\n"
        "Phụ huynh,HS1,Lê Văn B,,,,+84 912 345 679\n"
        "quản trị,X,Đỗ E,,,,\n"
    )
    student, teacher, guardian = roster.rows
    assert (student.role, student.class_name) == ("student", "6A")
    assert teacher.teaches == (Teaching("6A", "Toán"), Teaching("6B", "Toán"), Teaching("7A", "Tin học"))
    assert (teacher.email, teacher.phone, teacher.class_name) == ("d@truong.vn", "0912345678", "")
    assert (guardian.code, guardian.guardian_of, guardian.phone) == ("", ("HS1",), "0912345679")
    assert only_problem(roster).column == "Vai trò"


def test_a_list_of_teachers_needs_no_class() -> None:
    roster = read("Mã giáo viên,Họ và tên,Môn dạy\nGV1,Phạm Thị D,Toán; Tin học\n")
    assert roster.rows[0].role == "teacher"
    assert roster.rows[0].teaches == (Teaching("", "Toán"), Teaching("", "Tin học"))


def test_guardians_of_brothers_and_sisters_are_one() -> None:
    roster = read(
        "Mã học sinh,Họ và tên,Lớp,Phụ huynh,SĐT phụ huynh\n"
        "1,Lê Văn A,6A,Lê Văn B,0912345678\n"
        "2,Lê Thị C,7A,LÊ VĂN B,912 345 678\n"
        "3,Đỗ D,7A,Lê Văn B,0900000000\n"
        "4,Đỗ E,7A,,0900000001\n"
    )
    guardians = [row for row in roster.rows if row.role == "guardian"]
    assert [(row.full_name, row.guardian_of) for row in guardians] == [
        ("Lê Văn B", ("1", "2")),
        ("Lê Văn B", ("3",)),
        ("Phụ huynh em Đỗ E", ("4",)),
    ]


def test_a_guardian_and_phone_in_one_cell() -> None:
    roster = read("Mã HS,Họ tên,Lớp,Phụ huynh\n1,Lê A,6A,Lê Văn B - 0912 345 678\n2,Lê C,6A,Trần D (0912345679)\n")
    assert [(row.full_name, row.phone) for row in roster.rows[2:]] == [
        ("Lê Văn B", "0912345678"),
        ("Trần D", "0912345679"),
    ]


def test_guardians_without_a_child_s_code_are_told() -> None:
    roster = read("Họ tên,Lớp,Phụ huynh\nLê A,6A,Lê Văn B\n")
    assert people(roster) == [("student", "Lê A", "6A")]
    assert only_problem(roster).is_warning
    roster = read("Mã HS,Họ tên,Lớp,Phụ huynh\n,Lê A,6A,Lê Văn B\n")
    assert len(roster.rows) == 1
    assert only_problem(roster).is_warning


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("1,,6A,05/09/2014,,", "Họ và tên"),
        ("1,Lê Văn 4,6A,05/09/2014,,", "Họ và tên"),
        ("1,Lê A,,05/09/2014,,", "Lớp"),
        ("1,Lê A,6A,31/02/2014,,", "Ngày sinh"),
        ("1,Lê A,6A,09/25/2014,,", "Ngày sinh"),
        ("1,Lê A,6A,05/09/14,,", "Ngày sinh"),
        ("1,Lê A,6A,05/09/2062,,", "Ngày sinh"),
        ("1,Lê A,6A,41887,,", "Ngày sinh"),
        ("1,Lê A,6A,05/09/2014,khong-phai,", "Email"),
        ("1,Lê A,6A,05/09/2014,,có dấu", "Tên đăng nhập"),
        ("2.00123E+11,Lê A,6A,05/09/2014,,", "Mã học sinh"),
        ("1,Lê A,1E+02,05/09/2014,,", "Lớp"),
    ],
)
def test_a_wrong_field_is_named_and_its_row_left_out(line: str, column: str) -> None:
    roster = read(f"Mã học sinh,Họ và tên,Lớp,Ngày sinh,Email,Tên đăng nhập\n9,Đỗ B,6A,,,\n{line}\n")
    problem = only_problem(roster)
    assert (problem.line, problem.column, problem.is_warning) == (3, column, False)
    assert f"Dòng 3, cột {column}: cần " in problem.message
    assert [row.code for row in roster.rows] == ["9"]


def test_a_wrong_phone_does_not_keep_a_guardian_out() -> None:
    roster = read("Mã HS,Họ tên,Lớp,Phụ huynh,SĐT phụ huynh\n1,Lê A,6A,Lê Văn B,12345\n")
    assert roster.rows[1].phone == ""
    assert only_problem(roster).is_warning


def test_repeated_rows_are_told() -> None:
    roster = read(
        "Mã HS,Họ tên,Lớp,Ngày sinh,Tên đăng nhập\n"
        "1,Lê A,6A,05/09/2014,lea\n"
        "1,Đỗ B,6A,,\n"  # the same code
        "2,LÊ A,6B,05/09/2014,\n"  # a namesake with a code of its own
        ",Lê A,6A,05/09/2014,\n"  # cannot be told from either
        "3,Đỗ C,6A,,LeA\n"  # the same username
        ",Đỗ D,6A,,\n"
        ",Đỗ D,6A,,\n"
        ",Đỗ D,6B,,\n"
    )
    assert [(row.line, row.code) for row in roster.rows] == [(2, "1"), (4, "2"), (7, ""), (9, "")]
    assert [(p.line, p.is_warning) for p in roster.problems] == [
        (3, False),
        (4, True),
        (5, False),
        (6, False),
        (8, False),
    ]
    assert "dòng 2 đã có" in roster.problems[0].message


def test_header_lines_of_further_pages_are_skipped() -> None:
    roster = read("STT,Họ tên,Lớp\n1,Lê A,6A\nSTT,Họ tên,Lớp\n2,Lê B,6A\n")
    assert [row.full_name for row in roster.rows] == ["Lê A", "Lê B"]
    assert not roster.problems


def test_names_in_capitals_are_set_as_names() -> None:
    assert read("Họ tên,Lớp\nNGUYỄN  VĂN\u200b ĐỨC,6A\n").rows[0].full_name == "Nguyễn Văn Đức"


# --- Usernames -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("Nguyễn Thị Hồng Hạnh", set[str](), "hanhnth"),
        ("nguyen thi hong hanh", set[str](), "hanhnth"),
        ("Nguyễn Thị Hồng Hạnh", {"hanhnth"}, "hanhnth2"),
        ("Nguyễn Thị Hồng Hạnh", {"hanhnth", "hanhnth2"}, "hanhnth3"),
        ("Đỗ Đức", set[str](), "ducd"),
        ("An", set[str](), "an01"),
        ("李", {"nguoidung"}, "nguoidung2"),
    ],
)
def test_usernames(name: str, taken: set[str], expected: str) -> None:
    assert suggest_username(unicodedata.normalize("NFD", name), taken) == expected


@given(name=st.text(max_size=200), count=st.integers(1, 5))
def test_usernames_can_always_be_taken(name: str, count: int) -> None:
    taken: set[str] = set()
    for _ in range(count):
        username = suggest_username(name, taken)
        assert username not in taken
        assert 3 <= len(username) <= 64
        assert username.isascii()
        assert username.isalnum()
        taken.add(username)


# --- Plans -----------------------------------------------------------------------------------------------------------


def applied(import_plan: ImportPlan, existing: Sequence[KnownPerson]) -> list[KnownPerson]:
    """Carries a plan out, as the store would."""
    people = {person.id: person for person in existing}
    taken = {person.username for person in people.values()}
    for match in import_plan.update:
        people[match.person.id] = replace(match.person, **{change.field: change.after for change in match.changes})
    for row in import_plan.create:
        username = row.username or suggest_username(row.full_name, taken)
        taken.add(username)
        number = len(people) + 1
        people[number] = KnownPerson(
            number, row.role, row.full_name, username, row.code, row.class_name, row.birth_date, row.email, row.phone,
            row.guardian_of, row.teaches,
        )  # fmt: skip
    return list(people.values())


FULL = (
    "Vai trò,Mã,Họ và tên,Lớp,Ngày sinh,Môn,Phụ huynh,SĐT phụ huynh\n"
    ",1,Lê Văn A,6A,05/09/2014,,Lê Văn B,0912345678\n"
    ",2,Lê Thị C,7A,,,Lê Văn B,0912345678\n"
    ",,Đỗ D,7A,06/09/2014,,,\n"
    ",,Đỗ E,7A,,,,\n"
    "gv,GV1,Phạm F,7A,,Toán,,\n"
)


def test_the_same_file_twice_changes_nothing() -> None:
    roster = read(FULL)
    assert not roster.problems
    first = plan(roster, [])
    assert len(first.create) == 6
    again = plan(roster, applied(first, []))
    assert not again.create
    assert not again.update
    assert not again.conflicts
    assert len(again.unchanged) == 6


def test_changes_are_shown_field_by_field_and_nothing_is_erased() -> None:
    existing = applied(plan(read(FULL), []), [])
    roster = read(
        "Mã HS,Họ tên,Lớp,Email,Phụ huynh,SĐT phụ huynh\n1,Le Van A,7A,a@x.vn,Lê Văn B,0912345670\n2,Lê Thị Cúc,7A,,,\n"
    )
    found = plan(roster, existing)
    assert [match.row.full_name for match in found.update] == ["Le Van A", "Lê Văn B"]
    changes = {change.field: (change.before, change.after) for change in found.update[0].changes}
    assert changes == {"class_name": ("6A", "7A"), "email": ("", "a@x.vn")}
    assert [change.field for change in found.update[1].changes] == ["phone"]
    # Another name under a known code is for a person to judge.
    assert [conflict.row.full_name for conflict in found.conflicts] == ["Lê Thị Cúc"]
    assert not found.create


def person(number: int, name: str, **told: object) -> KnownPerson:
    return KnownPerson(number, "student", name, f"user{number}", **told)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("existing", "line", "reason"),
    [
        ([person(1, "Lê A", code="0012", birth_date=date(2014, 9, 5))], "12,Lê A,6A,05/09/2014,", "số 0 ở đầu"),
        ([person(1, "Đỗ B", code="12")], "12,Lê A,6A,,", "đã thuộc về Đỗ B"),
        ([replace(person(1, "Lê A", code="12"), role="teacher")], "12,Lê A,6A,,", "không phải là học sinh"),
        ([person(1, "Đỗ B")], ",Lê A,6A,,user1", "đã thuộc về Đỗ B"),
        ([person(1, "Lê A", code="12"), person(2, "Đỗ B")], "12,Lê A,6A,,user2", "thuộc về người khác"),
        ([person(1, "Lê A", class_name="6A"), person(2, "Lê A", class_name="6A")], ",Lê A,6A,,", "2 người cùng tên"),
    ],
)
def test_what_a_person_has_to_decide_is_a_conflict(existing: list[KnownPerson], line: str, reason: str) -> None:
    found = plan(read(f"Mã HS,Họ tên,Lớp,Ngày sinh,Tên đăng nhập\n{line}\n"), existing)
    assert not found.create
    assert not found.update
    assert reason in found.conflicts[0].reason
    assert found.conflicts[0].people


def test_a_name_put_right_under_the_same_code_and_birthday_is_an_update() -> None:
    existing = [person(1, "Lê Văn Anh", code="1", birth_date=date(2014, 9, 5), class_name="6A")]
    found = plan(read("Mã HS,Họ tên,Lớp,Ngày sinh\n1,Lê Văn Ánh,6A,05/09/2014\n"), existing)
    assert [tuple(change) for change in found.update[0].changes] == [("full_name", "Lê Văn Anh", "Lê Văn Ánh")]


def test_a_guardian_waits_for_the_child() -> None:
    roster = read("Vai trò,Mã,Họ tên,Lớp\nphụ huynh,9,Lê B,\n")
    assert "mã 9" in plan(roster, []).conflicts[0].reason
    assert plan(roster, [person(1, "Lê A", code="9")]).create == roster.rows


NAMES = st.sampled_from(["Lê A", "LÊ A", "Le A", "Đỗ B", "Trần Văn C"])
LINES = st.tuples(
    st.sampled_from(["", "", "gv", "ph"]),
    st.sampled_from(["", "1", "2", "01"]),
    NAMES,
    st.sampled_from(["6A", "6B"]),
    st.sampled_from(["", "05/09/2014", "06/09/2014"]),
    st.sampled_from(["", "", "lea"]),
    st.one_of(st.just(""), NAMES),
    st.sampled_from(["", "0912345678", "0912345679"]),
)


@settings(max_examples=400, deadline=None)
@given(earlier=st.lists(LINES, max_size=4), lines=st.lists(LINES, min_size=1, max_size=7))
def test_any_file_twice_changes_nothing(earlier: list[tuple[str, ...]], lines: list[tuple[str, ...]]) -> None:
    header = "Vai trò,Mã,Họ tên,Lớp,Ngày sinh,Tên đăng nhập,Phụ huynh,SĐT phụ huynh\n"
    existing: list[KnownPerson] = []
    if earlier:
        existing = applied(plan(read(header + "\n".join(",".join(line) for line in earlier)), []), [])
    roster = read(header + "\n".join(",".join(line) for line in lines))
    first = plan(roster, existing)
    rows = [*first.create, *(m.row for m in (*first.update, *first.unchanged)), *(c.row for c in first.conflicts)]
    assert sorted(map(repr, rows)) == sorted(map(repr, roster.rows))  # Nothing is dropped, nothing is there twice.
    after = applied(first, existing)
    codes = [person.code.casefold() for person in after if person.code]
    assert len(set(codes)) == len(codes)
    assert len({person.username for person in after}) == len(after)
    again = plan(roster, after)
    assert not again.create
    assert not again.update


# --- Exports ---------------------------------------------------------------------------------------------------------


def table(content: bytes) -> list[list[str]]:
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_the_report_tells_of_every_line() -> None:
    roster = read(FULL + ",3,Lê 4,6A,,,,\n")
    existing = [person(1, "Lê Văn A", code="1", class_name="5A"), person(2, "Đỗ X", code="2")]
    lines = table(result_csv(roster, plan(roster, existing)))
    assert lines[0][:3] == ["Trang tính", "Dòng", "Kết quả"]
    results = {(line[1], line[4]): (line[2], line[7]) for line in lines[1:]}
    assert results["2", "Lê Văn A"][0] == "cập nhật"
    assert "lớp: 5A → 6A" in results["2", "Lê Văn A"][1]
    assert results["3", "Lê Thị C"][0] == "chưa nạp"
    assert results["4", "Đỗ D"][0] == "thêm mới"
    assert results["7", ""][0] == "chưa nạp"


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", " =1", "＝1", "\r=1"])
def test_no_cell_begins_like_a_formula(name: str) -> None:
    lines = table(passwords_csv([InitialPassword(name, name, "lea", "abc-def")]))
    assert lines[1] == [f"'{name}", f"'{name}", "lea", "abc-def"]


def test_passwords_are_listed_by_class_and_never_changed() -> None:
    given_out = [InitialPassword("Lê B", "6A", "bl", "x2-3"), InitialPassword("Đỗ A", "6A", "ad", "y4-5")]
    assert [line[1] for line in table(passwords_csv(given_out))[1:]] == ["Đỗ A", "Lê B"]
    with pytest.raises(AssertionError):
        passwords_csv([InitialPassword("Lê B", "6A", "bl", "-x23")])
