"""What importing a roster would change, who gets which username, and what people take away afterwards.

Nothing is written here. Whoever carries a plan out can show it first. A second import of the same file finds nothing to
change.
"""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from deepedu.base.vietnamese import fold, words
from deepedu.school.roster import FIELD_NAMES, ROLE_NAMES, Roster, RosterRow, Teaching, name_key


@dataclass(frozen=True)
class KnownPerson:
    """Somebody who has an account already."""

    id: int
    role: str
    full_name: str
    username: str
    code: str = ""
    class_name: str = ""
    birth_date: date | None = None
    email: str = ""
    phone: str = ""
    guardian_of: tuple[str, ...] = ()
    teaches: tuple[Teaching, ...] = ()


class FieldChange(NamedTuple):
    """A field of a person that the roster tells otherwise, by the name it has in ``RosterRow``."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Match:
    """A row, who it is, and what would change."""

    row: RosterRow
    person: KnownPerson
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """A row that a person has to decide on; ``reason`` in Vietnamese, ``people`` whom it may mean."""

    row: RosterRow
    reason: str
    people: tuple[KnownPerson, ...] = ()


@dataclass(frozen=True)
class ImportPlan:
    """What an import would do. Whoever is not in the roster stays as they are."""

    create: tuple[RosterRow, ...]
    update: tuple[Match, ...]
    unchanged: tuple[Match, ...]
    conflicts: tuple[Conflict, ...]


def plan(roster: Roster, existing: Iterable[KnownPerson]) -> ImportPlan:
    """Holds a roster against who is there. What a row does not tell is never erased; guardians and lessons are added.

    A person is known by code or username; else pupils and teachers by name and birth date, or by name and class where
    one side has no birth date; guardians by name with phone, e-mail or child.
    """
    people = list(existing)
    matching = _Matching(people)
    found: list[tuple[RosterRow, list[KnownPerson], str]] = [(row, *matching.by_key(row)) for row in roster.rows]
    claimed = {person.id for _, candidates, _ in found for person in candidates}
    found = [
        (row, candidates, reason) if candidates or reason else (row, matching.by_name(row, claimed), "")
        for row, candidates, reason in found
    ]
    wanted = Counter(person.id for _, candidates, _ in found for person in candidates)
    create: list[RosterRow] = []
    matches: list[Match] = []
    conflicts: list[Conflict] = []
    for row, candidates, reason in found:
        if not reason and candidates:
            reason = _doubt(row, candidates, wanted)
        if reason:
            conflicts.append(Conflict(row, reason, tuple(candidates)))
        elif candidates:
            matches.append(Match(row, candidates[0], _changes(row, candidates[0])))
        else:
            create.append(row)
    codes = {person.code.casefold() for person in people if person.role == "student"}
    codes |= {row.code.casefold() for row in (*create, *(match.row for match in matches)) if row.role == "student"}
    for row in [*create, *(match.row for match in matches)]:
        missing = [code for code in row.guardian_of if code.casefold() not in codes]
        if missing:
            conflicts.append(Conflict(row, f"không có học sinh mang mã {', '.join(missing)}: hãy nạp học sinh trước"))
            create = [other for other in create if other is not row]
            matches = [match for match in matches if match.row is not row]
    return ImportPlan(
        tuple(create),
        tuple(match for match in matches if match.changes),
        tuple(match for match in matches if not match.changes),
        tuple(conflicts),
    )


class _Matching:
    """Whom rows may mean."""

    def __init__(self, people: Iterable[KnownPerson]) -> None:
        self._codes: dict[str, KnownPerson] = {}
        self._usernames: dict[str, KnownPerson] = {}
        self._names: dict[object, list[KnownPerson]] = defaultdict(list)
        for person in people:
            if person.code:
                self._codes[person.code.casefold()] = person
            self._usernames[person.username.casefold()] = person
            self._names[person.role, name_key(person.full_name)].append(person)

    def by_key(self, row: RosterRow) -> tuple[list[KnownPerson], str]:
        """By code or username; with the reason when that cannot be right."""
        by_code = self._codes.get(row.code.casefold()) if row.code else None
        by_username = self._usernames.get(row.username) if row.username else None
        if by_code and by_username and by_code.id != by_username.id:
            return [by_code, by_username], f"tên đăng nhập {row.username} đã thuộc về người khác"
        person = by_code or by_username
        if person is None:
            return [], ""
        column = f"mã {row.code}" if by_code else f"tên đăng nhập {row.username}"
        if person.role != row.role:
            role = ROLE_NAMES.get(row.role, row.role)
            return [person], f"{column} đã thuộc về {person.full_name}, không phải là {role}"
        has_birth_date = row.birth_date is not None and row.birth_date == person.birth_date
        if fold(" ".join(words(row.full_name))) != fold(" ".join(words(person.full_name))) and not has_birth_date:
            return [person], f"{column} đã thuộc về {person.full_name}: hãy kiểm tra mã và họ tên"
        return [person], ""

    def by_name(self, row: RosterRow, claimed: Collection[int]) -> list[KnownPerson]:
        """By name and something else, of those whom no row means by code or username."""
        alike = [p for p in self._names.get((row.role, name_key(row.full_name)), []) if p.id not in claimed]
        if row.role == "guardian":
            return _guardians_alike(row, alike)
        if row.birth_date:
            born = [person for person in alike if person.birth_date == row.birth_date]
            if born:
                return born
        return [
            person
            for person in alike
            if person.class_name.casefold() == row.class_name.casefold()
            and not (person.birth_date and row.birth_date)
            and not (person.code and row.code)
        ]


def _guardians_alike(row: RosterRow, alike: Sequence[KnownPerson]) -> list[KnownPerson]:
    tests: tuple[Callable[[KnownPerson], object], ...] = (
        lambda person: row.phone and person.phone == row.phone,
        lambda person: row.email and person.email.lower() == row.email,
        lambda person: _codes(person.guardian_of) & _codes(row.guardian_of),
    )
    return next((found for test in tests if (found := [person for person in alike if test(person)])), [])


def _codes(codes: Iterable[str]) -> set[str]:
    return {code.casefold() for code in codes}


def _doubt(row: RosterRow, candidates: Sequence[KnownPerson], wanted: Mapping[int, int]) -> str:
    if len(candidates) > 1:
        return f"có {len(candidates)} người cùng tên {row.full_name}: hãy ghi mã để phân biệt"
    person = candidates[0]
    if wanted[person.id] > 1:
        return f"nhiều dòng trong tệp cùng chỉ {person.full_name}: hãy ghi mã để phân biệt"
    if row.code and person.code and row.code.casefold() != person.code.casefold():
        known = f"{person.full_name} đã có mã {person.code}"
        return f"{known}, tệp ghi {row.code}: hãy kiểm tra (Excel có thể đã bỏ số 0 ở đầu)"
    return ""


def _changes(row: RosterRow, person: KnownPerson) -> tuple[FieldChange, ...]:
    changes: list[FieldChange] = []
    for name in ("full_name", "code", "class_name", "birth_date", "email", "username", "phone"):
        before, after = getattr(person, name), getattr(row, name)
        is_same = after.casefold() == before.casefold() if isinstance(after, str) else after == before
        # A list typed without accents does not take them away from a name.
        is_bare = name == "full_name" and after.isascii() and fold(after) == fold(before)
        if after and not is_bare and not (is_same and name != "full_name") and after != before:
            changes.append(FieldChange(name, before, after))
    children = tuple(code for code in row.guardian_of if code.casefold() not in _codes(person.guardian_of))
    if children:
        changes.append(FieldChange("guardian_of", person.guardian_of, (*person.guardian_of, *children)))
    lessons = tuple(teaching for teaching in row.teaches if teaching not in person.teaches)
    if lessons:
        changes.append(FieldChange("teaches", person.teaches, (*person.teaches, *lessons)))
    return tuple(changes)


# --- Usernames -------------------------------------------------------------------------------------------------------


def suggest_username(full_name: str, taken: Collection[str]) -> str:
    """The given name and the initials of the others: "Nguyễn Thị Hồng Hạnh" -> "hanhnth", then "hanhnth2".

    Args:
        taken: usernames in lower case.
    """
    syllables = re.findall(r"[a-z0-9]+", fold(full_name)) or ["nguoidung"]
    base = (syllables[-1] + "".join(syllable[0] for syllable in syllables[:-1]))[:56]
    # Usernames have three characters at least.
    base = base if len(base) > 2 else f"{base}01"
    number = 1
    while (name := base if number == 1 else f"{base}{number}") in taken:
        number += 1
    return name


# --- What people take away -------------------------------------------------------------------------------------------

# Spreadsheets run cells that begin so, also in the wide letters of East Asian keyboards.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")


@dataclass(frozen=True)
class InitialPassword:
    """What a new person needs to sign in for the first time."""

    full_name: str
    class_name: str
    username: str
    password: str


def result_csv(roster: Roster, import_plan: ImportPlan) -> bytes:
    """What became of every line, as CSV in UTF-8 with a byte order mark, which Excel needs."""
    lines: list[tuple[str, int, str, str, str, str, str, str]] = []

    def add(row: RosterRow, result: str, note: str = "") -> None:
        role = ROLE_NAMES[row.role]
        lines.append((row.sheet, row.line, result, role, row.full_name, row.code, row.class_name, note))

    for row in import_plan.create:
        add(row, "thêm mới")
    for match in import_plan.update:
        add(match.row, "cập nhật", "; ".join(_shown_change(change) for change in match.changes))
    for match in import_plan.unchanged:
        add(match.row, "không đổi")
    for conflict in import_plan.conflicts:
        add(conflict.row, "chưa nạp", conflict.reason)
    for problem in roster.problems:
        result = "lưu ý" if problem.is_warning else "chưa nạp"
        lines.append((problem.sheet, problem.line, result, "", "", "", "", problem.message))
    header = ("Trang tính", "Dòng", "Kết quả", "Vai trò", "Họ và tên", "Mã", "Lớp", "Ghi chú")
    return _csv_bytes([header, *sorted(lines, key=lambda line: line[:2])])


def passwords_csv(passwords: Iterable[InitialPassword]) -> bytes:
    """The list to hand out, by class, as CSV in UTF-8 with a byte order mark."""
    ordered = sorted(passwords, key=lambda each: (each.class_name, fold(each.full_name.rpartition(" ")[2])))
    for each in ordered:
        # It would be printed with a sign in front that does not belong to it.
        assert not _FORMULA.match(each.password), "a password must not begin like a formula"
    header = ("Lớp", "Họ và tên", "Tên đăng nhập", "Mật khẩu lần đầu")
    return _csv_bytes([header, *((e.class_name, e.full_name, e.username, e.password) for e in ordered)])


def _shown_change(change: FieldChange) -> str:
    names = {"guardian_of": "con", "teaches": "giảng dạy", "birth_date": "ngày sinh", "phone": "điện thoại"}
    name = names.get(change.field) or FIELD_NAMES.get(change.field, change.field).lower()
    return f"{name}: {_shown(change.before) or 'trống'} → {_shown(change.after)}"


def _shown(value: Any) -> str:
    if isinstance(value, Teaching):
        return " ".join(part for part in (value.subject, value.class_name) if part)
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value)
    return f"{value:%d/%m/%Y}" if isinstance(value, date) else str(value or "")


def _csv_bytes(lines: Iterable[Sequence[object]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for line in lines:
        cells = [str(cell) for cell in line]
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in cells])
    return out.getvalue().encode("utf-8-sig")
