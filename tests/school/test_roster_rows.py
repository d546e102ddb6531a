"""Which column is which, and what is wrong with a field."""

from datetime import date

import pytest
from rosters import only_problem, people, read

from deepedu.school.roster import RosterRow, Teaching


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


def test_header_lines_of_further_pages_are_skipped() -> None:
    roster = read("STT,Họ tên,Lớp\n1,Lê A,6A\nSTT,Họ tên,Lớp\n2,Lê B,6A\n")
    assert [row.full_name for row in roster.rows] == ["Lê A", "Lê B"]
    assert not roster.problems


def test_names_in_capitals_are_set_as_names() -> None:
    assert read("Họ tên,Lớp\nNGUYỄN  VĂN\u200b ĐỨC,6A\n").rows[0].full_name == "Nguyễn Văn Đức"
