"""What an import would change, usernames, and what people take away."""

import csv
import io
import unicodedata
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosters import applied, read

from deepedu.school.roster_plan import (
    InitialPassword,
    KnownPerson,
    passwords_csv,
    plan,
    result_csv,
    suggest_username,
)

# --- Usernames --------------------------------------------------------------------------------------------------------


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


# --- Plans ------------------------------------------------------------------------------------------------------------


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


# --- Exports ----------------------------------------------------------------------------------------------------------


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
