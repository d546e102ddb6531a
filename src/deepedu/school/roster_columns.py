"""Which rows of a sheet are the list, and which column is which, by headers in whatever words schools use."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import fold
from deepedu.school.roster import RosterRole

HEADER_WITHIN_LINES = 30

_WHO = "( hoc sinh| hs| giao vien| gv| can bo| nguoi dung| nhan vien)"
# Of headers without accents and signs. Whole headers: "ten lop" is no name.
_HEADERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("guardian_of", r"(ma |ma so |ma hoc sinh |ma hs )(cua )?con( em)?|con( em)?|child(ren)?( code| id)?"),
        (
            "code",
            rf"ma|id|code|ma so|ma( so)?{_WHO}( .*)?|mshs|(ma|so) dinh danh( .*)?|"
            "(student|teacher|pupil|staff) (code|id|number)",
        ),
        (
            "class_name",
            "(ten |ma |cac )?lop( hoc)?|(cac )?lop (day|giang day|phu trach|chu nhiem)|class( name)?|classes|classroom",
        ),
        ("role", "vai tro|role|loai( nguoi dung| tai khoan)?|doi tuong|user type"),
        ("birth_date", "ngay( thang)?( nam)? sinh( .*)?|sinh ngay|date of birth|dob|birth ?da(te|y)( .*)?"),
        ("email", rf"(dia chi )?(e ?mail|thu dien tu){_WHO}?( address)?"),
        ("username", "ten dang nhap|(ten )?tai khoan|user ?name|login( name)?"),
        (
            "phone",
            rf"((so )?(dien thoai|dt)|sdt|di dong|phone|mobile)( di dong| lien he| lien lac| number){{0,1}}{_WHO}?",
        ),
        ("subject", "(ten |cac )?(bo )?mon( hoc| day| giang day| phu trach)?|subjects?"),
        ("family_name", "ho|ho( va)?( ten| chu)? (dem|lot)|ho va dem|last name|surname|family name"),
        ("middle_name", "(ten |chu )?(dem|lot)|middle name"),
        ("given_name", "ten( goi)?|first name|given name"),
        (
            "full_name",
            rf"(ho( va)? ten|ten day du|ho( ten)? dem va ten)( khai sinh)?{_WHO}?|ten{_WHO}|hoc sinh|giao vien|"
            "(full|student|teacher|pupil|display) ?name|name",
        ),
    )
)
_GUARDIAN = re.compile(
    r"\b(?P<guardian>phu huynh|ph|cha me|bo me|ba me|(nguoi )?giam ho|guardian|parent)\b"
    r"|\b(?P<mother>me|mother)\b|\b(?P<father>cha|bo|ba|father)\b"
)
CONTACTS = ("father", "mother", "guardian")
COUNTERS = frozenset(("stt", "tt", "so tt", "so thu tu", "no", "#", ""))
_CLASS_IN_TITLE = re.compile(r"(?:lớp|lop|class)\s*:?\s*(\d{1,2}(?:\s?[A-ZĐa-zđ]\d{0,2}\b|[/._-]?\w{1,4}\b)?)", re.I)
_CLASS_AS_TITLE = re.compile(r"(?:lớp|lop|class)?\s*(\d{1,2}(?:\s?[A-ZĐa-zđ]\w{0,6}|[._-]\d{1,2}))", re.I)


@dataclass(frozen=True)
class Sheet:
    """Cells as text, with the numbers of their lines; blank lines left out."""

    title: str
    lines: list[tuple[int, list[str]]]


def plain_key(text: str) -> str:
    """Letters and digits without accents and signs, in small letters: "Mã HS (*)" -> "ma hs"."""
    return " ".join(re.findall(r"[a-z0-9]+", fold(text)))


def _recognise(header: str) -> str | None:
    """Which field a header names."""
    key = plain_key(header)
    for name, pattern in _HEADERS:
        if pattern.fullmatch(key):
            return name
    match = _GUARDIAN.search(key)
    if not match:
        return None
    rest = plain_key(key[: match.start()] + " " + key[match.end() :])
    if re.search(r"dien thoai|\bsdt\b|\bdt\b|di dong|phone|mobile", rest):
        return f"{match.lastgroup}_phone"
    if re.search(r"e ?mail|thu dien tu", rest):
        return f"{match.lastgroup}_email"
    return f"{match.lastgroup}_name" if re.fullmatch(r"|(ho va |ho )?ten( cua)?|(full )?name", rest) else None


def recognised(cells: Sequence[str]) -> dict[str, int]:
    """The column of each field; of two for one, the one that names whom it is of."""
    found: dict[str, int] = {}
    for index, cell in enumerate(cells):
        name = _recognise(cell)
        if name is None:
            continue
        is_better = (
            name in found and re.search(_WHO, plain_key(cell)) and not re.search(_WHO, plain_key(cells[found[name]]))
        )
        if name not in found or is_better:
            found[name] = index
    return found


@dataclass(frozen=True)
class Table:
    """A sheet's list: where its fields stand, and what its title tells of everybody in it."""

    sheet: Sheet
    header: list[str]
    header_line: int
    columns: dict[str, int]
    lines: list[tuple[int, list[str]]]
    class_name: str
    role: RosterRole

    def header_of(self, name: str) -> str:
        """What a field's column is called in the file; empty where it has no header."""
        index = self.columns.get(name, len(self.header))
        return self.header[index] if index < len(self.header) else ""


def find_table(sheet: Sheet) -> Table | None:
    """The list of a sheet; None where no line within the first ones is a header with names in it."""
    best: tuple[int, int, int, list[str]] | None = None
    for index, (_, cells) in enumerate(sheet.lines[:HEADER_WITHIN_LINES]):
        below = sheet.lines[index + 1][1] if index + 1 < len(sheet.lines) else []
        merged = _merged_header(cells, below)
        for height, header in ((1, cells), (2, merged)):
            found = recognised(header)
            has_name = "full_name" in found or "given_name" in found
            if has_name and (len(found) > 1 or sum(map(bool, header)) == 1) and (best is None or len(found) > best[0]):
                best = (len(found), index, height, header)
    if best is None:
        return None
    _, index, height, header = best
    lines = sheet.lines[index + height :]
    columns = recognised(header)
    beside = columns.get("full_name", -2) + 1
    # "Họ và tên" over two columns: the given name stands in the second, which has no header of its own.
    if beside > 0 and beside not in columns.values() and not (beside < len(header) and header[beside]):
        named = [cells for _, cells in lines if len(cells) >= beside and cells[beside - 1]]
        if sum(len(cells) > beside and bool(cells[beside]) for cells in named) > len(named) / 3:
            columns["family_name"], columns["given_name"] = columns.pop("full_name"), beside
    titles = [cell for _, cells in sheet.lines[:index] for cell in cells if cell]
    return Table(
        sheet,
        header,
        sheet.lines[index][0],
        columns,
        lines,
        _class_of(sheet.title, titles),
        _role_of(sheet.title, header),
    )


def _merged_header(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Two header lines as one: "Cha" above "Họ tên" and "Số điện thoại". Empty where the second is no header."""
    if not lower or any(re.search(r"\d", cell) for cell in lower):
        return []
    header: list[str] = []
    group = ""
    for index in range(max(len(upper), len(lower))):
        above = upper[index] if index < len(upper) else ""
        below = lower[index] if index < len(lower) else ""
        group = above or (group if below else "")
        joined = f"{below} {group}".strip()
        header.append(joined if _recognise(joined) or not below else below)
    return header


def _class_of(sheet_title: str, titles: Iterable[str]) -> str:
    for title in titles:
        if match := _CLASS_IN_TITLE.search(title):
            return plain_class_name(match[1])
    match = _CLASS_AS_TITLE.fullmatch(sheet_title.strip())
    return plain_class_name(match[1]) if match else ""


def _role_of(sheet_title: str, header: Iterable[str]) -> RosterRole:
    keys = [plain_key(sheet_title), *(plain_key(cell) for cell in header)]
    if any(
        re.search(r"^ma( so)? (giao vien|gv|can bo)|^giao vien$|^teachers?$|danh sach giao vien", key) for key in keys
    ):
        return "teacher"
    return "guardian" if re.search(r"^(danh sach )?phu huynh$|^guardians?$|^parents$", keys[0]) else "student"


def plain_class_name(text: str) -> str:
    """A class in one spelling: "lớp 6a 1" -> "6A1"."""
    plain = re.sub(r"^(lớp|lop|class)\s+", "", text.strip(), flags=re.IGNORECASE)
    compact = re.fullmatch(r"(\d{1,2})\s*([A-Za-zĐđ])\s*(\d{0,2})", plain)
    return "".join(compact.groups()).upper() if compact else " ".join(plain.split())
