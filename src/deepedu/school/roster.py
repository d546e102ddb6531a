"""Rosters: a school's lists of pupils, teachers and guardians: what their rows tell, and each person once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, NamedTuple

from deepedu.base.vietnamese import words

RosterRole = Literal["student", "teacher", "guardian"]
ROLE_NAMES: Mapping[RosterRole, str] = {"student": "học sinh", "teacher": "giáo viên", "guardian": "phụ huynh"}
# How messages name the fields where a file has no header for them.
FIELD_NAMES = {"full_name": "Họ và tên", "code": "Mã học sinh", "class_name": "Lớp", "username": "Tên đăng nhập"}


class Teaching(NamedTuple):
    """What a teacher teaches; either may be empty where the roster does not tell."""

    class_name: str
    subject: str


@dataclass(frozen=True)
class RosterRow:
    """A person as a roster tells of them; empty: not told.

    ``line`` counts from 1, as a spreadsheet shows it. ``guardian_of``: codes of the children. ``class_name``: pupils
    only; ``teaches``: teachers only.
    """

    line: int
    role: RosterRole
    full_name: str
    code: str = ""
    class_name: str = ""
    birth_date: date | None = None
    email: str = ""
    username: str = ""
    phone: str = ""
    guardian_of: tuple[str, ...] = ()
    teaches: tuple[Teaching, ...] = ()
    sheet: str = ""


@dataclass(frozen=True)
class RowProblem:
    """What is wrong with a line, in Vietnamese. ``is_warning``: the row is imported nevertheless."""

    line: int
    column: str
    came: str
    expected: str
    remedy: str
    sheet: str = ""
    is_warning: bool = False

    @property
    def message(self) -> str:
        """The whole of it as one sentence."""
        place = f"{self.sheet}, dòng {self.line}" if self.sheet else f"Dòng {self.line}"
        came = f"nhận được “{self.came}”" if self.came else "ô trống"
        return f"{place}, cột {self.column}: cần {self.expected}, {came}; {self.remedy}."


@dataclass(frozen=True)
class Roster:
    """A file as read. ``ignored``: columns, sheets and closing lines that were not used."""

    rows: tuple[RosterRow, ...]
    problems: tuple[RowProblem, ...]
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A row before it is held against the others, with the guardians that its line names."""

    row: RosterRow
    contacts: tuple[RosterRow, ...] = ()


def everybody(found: Sequence[Found]) -> tuple[list[RosterRow], list[RowProblem]]:
    """Everybody, each once: pupils and teachers in the file's order, then guardians; and which rows repeat others."""
    problems: list[RowProblem] = []
    kept: list[Found] = []
    seen: dict[object, RosterRow] = {}
    order = {id(each): index for index, each in enumerate(found)}
    # Rows that tell least come last, so that they meet what they may repeat.
    for each in sorted(_merge_teachers(found), key=lambda each: not (each.row.code or each.row.birth_date)):
        repeated = next(((name, seen[key]) for name, key in _identities(each.row) if key in seen), None)
        if repeated is not None:
            problems.append(_repetition(each.row, *repeated))
        if repeated is None or problems[-1].is_warning:
            kept.append(each)
            for _, key in _identities(each.row):
                seen.setdefault(key, each.row)
            seen.setdefault(_in_class(each.row), each.row)
    kept.sort(key=lambda each: order.get(id(each), 0))
    return [*(each.row for each in kept if each.row.role != "guardian"), *_merge_guardians(kept)], problems


def _repetition(row: RosterRow, column: str, earlier: RosterRow) -> RowProblem:
    """A warning if the row is taken all the same: two people may share name and birthday, but not a code."""
    is_namesake = column == "full_name" and bool(row.code and earlier.code)
    where = f"{earlier.sheet}, dòng {earlier.line}" if earlier.sheet else f"dòng {earlier.line}"
    remedy = "hãy kiểm tra có phải cùng một người không" if is_namesake else "hãy sửa hoặc xóa một dòng"
    came, name = str(getattr(row, column)), FIELD_NAMES[column]
    expected = f"mỗi người một dòng ({where} đã có)"
    return RowProblem(row.line, name, came, expected, remedy, row.sheet, is_namesake)


def name_key(name: str) -> tuple[str, ...]:
    """What two spellings of one name have in common."""
    return tuple(words(name))


def _in_class(row: RosterRow) -> object:
    return (row.role, name_key(row.full_name), row.class_name.casefold())


def _identities(row: RosterRow) -> list[tuple[str, object]]:
    """What no other row may have, by field. Guardians are joined instead."""
    found: list[tuple[str, object]] = []
    if row.code:
        found.append(("code", row.code.casefold()))
    if row.username:
        found.append(("username", ("username", row.username)))
    if row.role == "guardian":
        return found
    if row.birth_date:
        found.append(("full_name", (row.role, name_key(row.full_name), row.birth_date)))
    elif not row.code:
        found.append(("full_name", _in_class(row)))
    return found


def _merge_teachers(found: Sequence[Found]) -> list[Found]:
    """A teacher has a line for each class in many lists: one row with all of them."""
    first: dict[object, int] = {}
    merged: list[Found] = []
    for each in found:
        row = each.row
        identity = (row.code.casefold() or row.email or row.username, name_key(row.full_name))
        if row.role != "teacher" or not identity[0] or identity not in first:
            if row.role == "teacher" and identity[0]:
                first[identity] = len(merged)
            merged.append(each)
            continue
        earlier = merged[first[identity]].row
        teaches = tuple(dict.fromkeys(earlier.teaches + row.teaches))
        merged[first[identity]] = Found(replace(_filled(earlier, row), teaches=teaches))
    return merged


def _merge_guardians(found: Iterable[Found]) -> list[RosterRow]:
    """Guardians of brothers and sisters are one: the same name with the same phone, e-mail or child."""
    merged: dict[tuple[str, ...], list[RosterRow]] = defaultdict(list)
    for each in found:
        for row in (each.row, *each.contacts) if each.row.role == "guardian" else each.contacts:
            alike = merged[name_key(row.full_name)]
            index = next((i for i, other in enumerate(alike) if _is_same_guardian(other, row)), None)
            if index is None:
                alike.append(row)
            else:
                children = tuple(dict.fromkeys(alike[index].guardian_of + row.guardian_of))
                alike[index] = replace(_filled(alike[index], row), guardian_of=children)
    return [row for alike in merged.values() for row in alike]


def _is_same_guardian(one: RosterRow, other: RosterRow) -> bool:
    if one.phone and other.phone:
        return one.phone == other.phone
    if one.email and other.email:
        return one.email == other.email
    return bool(set(one.guardian_of) & set(other.guardian_of))


def _filled(row: RosterRow, other: RosterRow) -> RosterRow:
    """``row`` with what only ``other`` tells."""
    names = ("code", "birth_date", "email", "username", "phone")
    return replace(row, **{name: getattr(row, name) or getattr(other, name) for name in names})
