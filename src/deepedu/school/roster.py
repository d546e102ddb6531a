"""Rosters: a school's lists of pupils, teachers and guardians, as CSV or Excel, read and compared with who is there.

Nothing is written here. ``read_roster`` says what a file holds and what is wrong with it, ``plan`` what an import would
change; whoever carries the plan out can show it first. A second import of the same file finds nothing to change.
"""

import csv
import io
import re
import unicodedata
import warnings
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal, NamedTuple

import openpyxl

from deepedu.base.errors import BadRequest
from deepedu.base.vietnamese import fold, words

RosterRole = Literal["student", "teacher", "guardian"]
ROLE_NAMES: Mapping[RosterRole, str] = {"student": "học sinh", "teacher": "giáo viên", "guardian": "phụ huynh"}

MAX_FILE_BYTES = 20_000_000
MAX_UNPACKED_BYTES = 100_000_000
MAX_ROWS = 20_000
# Sheets formatted down to their last line are common; what lies below this one is not looked at.
_LAST_LINE = 50_000
_LAST_COLUMN = 100
_HEADER_WITHIN_LINES = 30


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


def read_roster(content: bytes, filename: str, *, today: date | None = None) -> Roster:
    """Reads a roster in CSV (any usual separator and encoding) or XLSX (a sheet for each class, or all in one).

    Args:
        filename: shown in messages; the content decides what the file is.
        today: the latest birth date; None takes the clock.

    Raises:
        BadRequest: the file as a whole cannot be read: empty, too large, no table, behind a password, in an encoding
            from before Unicode, or without the columns that are needed.
    """
    if not content.strip():
        raise BadRequest(f"{filename}: tệp rỗng; hãy chọn lại tệp danh sách.")
    if len(content) > MAX_FILE_BYTES:
        raise BadRequest(_too_large(filename, f"{len(content) / 1e6:.0f} MB"))
    ignored: list[str] = []
    sheets = _read_sheets(content, filename, ignored)
    _refuse_old_encodings(
        " ".join(cell for sheet in sheets for _, cells in sheet.lines[:300] for cell in cells), filename
    )
    tables = [table for sheet in sheets if (table := _find_table(sheet))]
    if not tables:
        seen = next((cells for sheet in sheets for _, cells in sheet.lines), [])
        shown = ", ".join(cell for cell in seen if cell)[:120]
        raise BadRequest(
            f"{filename}: không tìm thấy cột “Họ và tên” (hoặc “Họ đệm” và “Tên”) trong {_HEADER_WITHIN_LINES} dòng "
            f"đầu; dòng đầu là “{shown}”. Hãy thêm dòng tiêu đề, ví dụ: Mã học sinh, Họ và tên, Lớp, Ngày sinh."
        )
    ignored += [f"trang tính “{s.title}”: không có danh sách" for s in sheets if all(t.sheet is not s for t in tables)]
    reading = _Reading(filename, today or date.today())
    for table in tables:
        reading.read(table)
    if not reading.found and not reading.problems:
        raise BadRequest(
            f"{filename}: có dòng tiêu đề nhưng không có dòng dữ liệu nào; hãy điền danh sách rồi nạp lại."
        )
    rows = reading.people()
    problems = sorted(reading.problems, key=lambda problem: (problem.sheet, problem.line))
    ignored += reading.ignored
    return Roster(tuple(rows), tuple(problems), tuple(ignored))


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


# --- From bytes to cells ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sheet:
    """Cells as text, with the numbers of their lines; blank lines left out."""

    title: str
    lines: list[tuple[int, list[str]]]


_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    SyntaxError,  # XML that cannot be parsed
    ArithmeticError,
    OSError,
    RuntimeError,
)
_SAVE_AS = "hãy mở bằng Excel, chọn Lưu thành (Save As) .xlsx rồi nạp lại."


def _read_sheets(content: bytes, filename: str, ignored: list[str]) -> list[_Sheet]:
    head = content[:1024]
    if head.startswith(b"PK\x03\x04"):
        return _read_workbook(content, filename, ignored)
    if head.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise BadRequest(f"{filename}: tệp Excel có mật khẩu; hãy bỏ mật khẩu rồi nạp lại.")
        raise BadRequest(f"{filename}: đây là tệp Excel kiểu cũ (.xls); {_SAVE_AS}")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<table", b"<head")):
        raise BadRequest(f"{filename}: đây là trang web hoặc XML mang tên bảng tính; {_SAVE_AS}")
    if b"%PDF-" in head or head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"{\\rtf")):
        raise BadRequest(
            f"{filename}: đây là tệp PDF, ảnh hoặc RTF, không phải bảng; hãy xuất danh sách ra Excel hoặc CSV."
        )
    return [_Sheet("", _read_csv(_decode(content, filename), filename))]


def _read_workbook(content: bytes, filename: str, ignored: list[str]) -> list[_Sheet]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            entries = package.infolist()
            unpacked_bytes = sum(entry.file_size for entry in entries)
        if unpacked_bytes > MAX_UNPACKED_BYTES:
            raise BadRequest(_too_large(filename, f"{unpacked_bytes / 1e6:.0f} MB khi giải nén"))
        if not any(entry.filename.startswith("xl/") for entry in entries):
            raise BadRequest(f"{filename}: đây là tệp Word, OpenDocument hoặc tệp nén, không phải Excel; {_SAVE_AS}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of styles and checks that we do not read.
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
            ignored += [f"trang tính ẩn “{s.title}”" for s in book.worksheets if s.sheet_state != "visible"]
            visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            return [_Sheet(sheet.title, _sheet_lines(sheet, filename)) for sheet in visible]
    except _BROKEN as error:
        raise BadRequest(f"{filename}: tệp Excel hỏng hoặc bị cắt cụt; hãy mở bằng Excel và lưu lại.") from error


def _sheet_lines(sheet: Any, filename: str) -> list[tuple[int, list[str]]]:
    # What a file says of its own size is often wrong.
    sheet.reset_dimensions()
    lines: list[tuple[int, list[str]]] = []
    for number, row in enumerate(sheet.iter_rows(max_row=_LAST_LINE, max_col=_LAST_COLUMN), 1):
        cells = [_cell_text(cell) for cell in row]
        if any(cells):
            _append_line(lines, number, cells, filename)
    return lines


def _append_line(lines: list[tuple[int, list[str]]], number: int, cells: list[str], filename: str) -> None:
    if len(lines) >= MAX_ROWS + _HEADER_WITHIN_LINES:
        raise BadRequest(_too_large(filename, f"hơn {MAX_ROWS} dòng"))
    while cells and not cells[-1]:
        cells.pop()
    lines.append((number, cells))


def _cell_text(cell: Any) -> str:
    """A cell as its reader sees it, as far as it matters: leading zeros, whole numbers, dates."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = str(cell.number_format)
        if abs(value) >= 1e15 or "E+" in shown:
            return f"{value:.2E}"  # Digits are lost, or were letters: told as such below.
        if float(value).is_integer():
            return str(int(value)).zfill(len(shown) if re.fullmatch("0+", shown) else 0)
    return _clean(str(value))


def _decode(content: bytes, filename: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", "replace")
    elif content[1:200:2].count(0) > 40 or content[1:20:2].count(0) > 5:
        text = content.decode("utf-16-le", "replace")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = unicodedata.normalize("NFC", content.decode("cp1258", "replace"))
            if _is_old_encoding(text):
                text = content.decode("cp1252", "replace")
    strange = sum(unicodedata.category(c) in ("Cc", "Cn", "Co") and c not in "\t\r\n\f" for c in text[:4096])
    if strange > len(text[:4096]) / 100:
        raise BadRequest(f"{filename}: không phải tệp văn bản hay bảng tính; hãy xuất danh sách ra Excel hoặc CSV.")
    return text


def _read_csv(text: str, filename: str) -> list[tuple[int, list[str]]]:
    named = re.match(r"sep=(.)\r?\n", text)
    body = text[named.end() :] if named else text
    first = 2 if named else 1

    def parsed(separator: str, most: int | None = None) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(body, newline=""), delimiter=separator)
        start = first
        for row in reader:
            yield start, [_clean(cell) for cell in row]
            start = first + reader.line_num
            if most is not None and reader.line_num > most:
                return

    def fitness(separator: str) -> tuple[int, int]:
        rows = [cells for _, cells in parsed(separator, _HEADER_WITHIN_LINES)]
        return max((len(_recognised(row)) for row in rows), default=0), sum(len(row) > 1 for row in rows)

    try:
        separator = named[1] if named else max(",;\t", key=fitness)
        lines: list[tuple[int, list[str]]] = []
        for number, cells in parsed(separator):
            if any(cells):
                _append_line(lines, number, cells, filename)
    except csv.Error as error:
        raise BadRequest(
            f"{filename}: không tách được thành cột ({error}); có thể thiếu dấu ngoặc kép đóng. Hãy lưu lại từ Excel."
        ) from error
    return lines


def _too_large(filename: str, size: str) -> str:
    return (
        f"{filename}: tệp quá lớn ({size}); giới hạn là {MAX_FILE_BYTES / 1e6:.0f} MB "
        f"({MAX_UNPACKED_BYTES / 1e6:.0f} MB khi giải nén) và {MAX_ROWS} dòng mỗi trang. Hãy chia theo khối lớp."
    )


def _clean(text: str) -> str:
    """Composed, in one line, without invisible characters."""
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(c for c in composed if unicodedata.category(c) != "Cf").split())


_TONES = ("", "\u0300", "\u0301", "\u0303", "\u0309", "\u0323")
_LETTERS = frozenset(unicodedata.normalize("NFC", v + t) for v in "aăâeêioôơuưy" for t in _TONES) | {"đ"}
_OLD_SIGNS = re.compile(r"[A-Za-z][µ¸¶·¹¨©ª«¬®»¾¼½§]|[§®©ª«¬¡¢£¤¥¦¹][A-Za-z]|[a-z][À-ÖØ-Þ]")
_OLD_PAIRS = re.compile(r"a[àáâãêèéùõ]|e[âàáãùõ]|o[âêùõ]|u[ùõ]|y[ùõ]", re.IGNORECASE)
_TWICE_ENCODED = re.compile(r"á[»º]|Ä[‘ƒ\x91]|Æ[°¡]|Ã[¡-¿\xa0]")


def _is_old_encoding(text: str) -> bool:
    """Whether the words that are not plain ASCII are mostly such as no Vietnamese text in Unicode has."""
    found = [word for word in text.split() if not word.isascii() and re.search(r"[^\W\d_]", word)]
    odd = [
        word
        for word in found
        if _OLD_SIGNS.search(word)
        or _OLD_PAIRS.search(word)
        or any(c.isalpha() and not c.isascii() and c.lower() not in _LETTERS for c in word)
    ]
    variety = len({c for word in odd for c in word if not c.isascii()})
    return len(odd) >= 3 and variety >= 3 and len(odd) > 0.3 * len(found)


def _refuse_old_encodings(text: str, filename: str) -> None:
    if _is_old_encoding(text):
        if len(_TWICE_ENCODED.findall(text)) >= 3:
            raise BadRequest(
                f"{filename}: chữ tiếng Việt đã bị đọc nhầm bảng mã (“Nguyá»…n”); hãy xuất lại từ phần mềm gốc dạng "
                "Excel (.xlsx), hoặc trong Excel dùng Dữ liệu > Từ văn bản/CSV với bảng mã UTF-8."
            )
        name = "TCVN3 (phông .Vn)" if len(re.findall("[µ¸¶·¹¨©ª«¬®»¾¼½§]", text)) >= 3 else "VNI hoặc TCVN3"
        raise BadRequest(
            f"{filename}: danh sách dùng bảng mã cũ {name}, không phải Unicode; hãy chuyển sang Unicode bằng công cụ "
            "của UniKey (Ctrl+Shift+F6) rồi lưu lại dạng .xlsx hoặc CSV UTF-8."
        )
    lost = len(re.findall(r"[^\W\d_]\?[^\W\d_]|[^\W\d_]\?(?=[\s,;])", text))
    if lost >= 5 and lost > 0.1 * len(text.split()):
        raise BadRequest(
            f"{filename}: các chữ có dấu đã mất, thành dấu hỏi (“Nguy?n”); hãy lưu lại từ Excel dạng .xlsx hoặc "
            "“CSV UTF-8”, không phải “CSV”."
        )


# --- Which column is which -------------------------------------------------------------------------------------------

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
_CONTACTS = ("father", "mother", "guardian")
_COUNTERS = frozenset(("stt", "tt", "so tt", "so thu tu", "no", "#", ""))
_CLASS_IN_TITLE = re.compile(r"(?:lớp|lop|class)\s*:?\s*(\d{1,2}(?:\s?[A-ZĐa-zđ]\d{0,2}\b|[/._-]?\w{1,4}\b)?)", re.I)
_CLASS_AS_TITLE = re.compile(r"(?:lớp|lop|class)?\s*(\d{1,2}(?:\s?[A-ZĐa-zđ]\w{0,6}|[._-]\d{1,2}))", re.I)


def _key(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", fold(text)))


def _recognise(header: str) -> str | None:
    """Which field a header names."""
    key = _key(header)
    for name, pattern in _HEADERS:
        if pattern.fullmatch(key):
            return name
    match = _GUARDIAN.search(key)
    if not match:
        return None
    rest = _key(key[: match.start()] + " " + key[match.end() :])
    if re.search(r"dien thoai|\bsdt\b|\bdt\b|di dong|phone|mobile", rest):
        return f"{match.lastgroup}_phone"
    if re.search(r"e ?mail|thu dien tu", rest):
        return f"{match.lastgroup}_email"
    return f"{match.lastgroup}_name" if re.fullmatch(r"|(ho va |ho )?ten( cua)?|(full )?name", rest) else None


def _recognised(cells: Sequence[str]) -> dict[str, int]:
    """The column of each field; of two for one, the one that names whom it is of."""
    found: dict[str, int] = {}
    for index, cell in enumerate(cells):
        name = _recognise(cell)
        if name is None:
            continue
        is_better = name in found and re.search(_WHO, _key(cell)) and not re.search(_WHO, _key(cells[found[name]]))
        if name not in found or is_better:
            found[name] = index
    return found


@dataclass(frozen=True)
class _Table:
    """A sheet's list: where its fields stand, and what its title tells of everybody in it."""

    sheet: _Sheet
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


def _find_table(sheet: _Sheet) -> _Table | None:
    best: tuple[int, int, int, list[str]] | None = None
    for index, (_, cells) in enumerate(sheet.lines[:_HEADER_WITHIN_LINES]):
        below = sheet.lines[index + 1][1] if index + 1 < len(sheet.lines) else []
        merged = _merged_header(cells, below)
        for height, header in ((1, cells), (2, merged)):
            found = _recognised(header)
            has_name = "full_name" in found or "given_name" in found
            if has_name and (len(found) > 1 or sum(map(bool, header)) == 1) and (best is None or len(found) > best[0]):
                best = (len(found), index, height, header)
    if best is None:
        return None
    _, index, height, header = best
    lines = sheet.lines[index + height :]
    columns = _recognised(header)
    beside = columns.get("full_name", -2) + 1
    # "Họ và tên" over two columns: the given name stands in the second, which has no header of its own.
    if beside > 0 and beside not in columns.values() and not (beside < len(header) and header[beside]):
        named = [cells for _, cells in lines if len(cells) >= beside and cells[beside - 1]]
        if sum(len(cells) > beside and bool(cells[beside]) for cells in named) > len(named) / 3:
            columns["family_name"], columns["given_name"] = columns.pop("full_name"), beside
    titles = [cell for _, cells in sheet.lines[:index] for cell in cells if cell]
    return _Table(
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
            return _class_name(match[1])
    match = _CLASS_AS_TITLE.fullmatch(sheet_title.strip())
    return _class_name(match[1]) if match else ""


def _role_of(sheet_title: str, header: Iterable[str]) -> RosterRole:
    keys = [_key(sheet_title), *(_key(cell) for cell in header)]
    if any(
        re.search(r"^ma( so)? (giao vien|gv|can bo)|^giao vien$|^teachers?$|danh sach giao vien", key) for key in keys
    ):
        return "teacher"
    return "guardian" if re.search(r"^(danh sach )?phu huynh$|^guardians?$|^parents$", keys[0]) else "student"


def _class_name(text: str) -> str:
    plain = re.sub(r"^(lớp|lop|class)\s+", "", text.strip(), flags=re.IGNORECASE)
    compact = re.fullmatch(r"(\d{1,2})\s*([A-Za-zĐđ])\s*(\d{0,2})", plain)
    return "".join(compact.groups()).upper() if compact else " ".join(plain.split())


# --- From cells to people --------------------------------------------------------------------------------------------

_ROLE_WORDS: tuple[tuple[RosterRole, str], ...] = (
    ("student", "hoc sinh,hs,hoc vien,student,pupil"),
    ("teacher", "giao vien,gv,giao vien chu nhiem,gvcn,thay,co,thay co,teacher"),
    ("guardian", "phu huynh,ph,cha,bo,ba,me,cha me,nguoi giam ho,giam ho,guardian,parent"),
)
_ROLES: dict[str, RosterRole] = {word: role for role, listed in _ROLE_WORDS for word in listed.split(",")}
_FOOTER = re.compile(
    r"(tong (so|cong)|nguoi lap|(pho )?hieu truong|giao vien chu nhiem|thu truong|ky ten|xac nhan|ghi chu)\b.*"
    r"|.*\bngay\b.*\bthang\b.*\bnam\b.*"
)
_DATES = (re.compile(r"(\d{1,2})[/.\- ](\d{1,2})[/.\- ](\d{4})"), re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})"))
_SCIENTIFIC = re.compile(r"\d+([.,]\d+)?E\+?\d+", re.IGNORECASE)
_EMAIL = re.compile(r"[^\s@,;<>\"]+@[^\s@,;<>\"]+\.[^\s@,;<>\".]{2,}")
_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@-]{1,62}[a-z0-9]")
_PHONE_IN_TEXT = re.compile(r"(?:\+?84|0)[\d .\-]{8,13}\d")
_MOST_NAME_LETTERS = 100
# How messages name the fields where a file has no header for them.
_FIELD_NAMES = {"full_name": "Họ và tên", "code": "Mã học sinh", "class_name": "Lớp", "username": "Tên đăng nhập"}


@dataclass(frozen=True)
class _Found:
    """A row before it is held against the others, with the guardians that its line names."""

    row: RosterRow
    contacts: tuple[RosterRow, ...] = ()


class _Reading:
    """What was read so far, of all sheets of a file."""

    def __init__(self, filename: str, today: date) -> None:
        self.filename = filename
        self.today = today
        self.found: list[_Found] = []
        self.problems: list[RowProblem] = []
        self.ignored: list[str] = []

    def read(self, table: _Table) -> None:
        """Adds a sheet's people and problems."""
        title = table.sheet.title
        place = f"trang tính “{title}”, " if title else ""
        used = set(table.columns.values())
        names = [cell for index, cell in enumerate(table.header) if index not in used and _key(cell) not in _COUNTERS]
        self.ignored += [f"{place}cột “{name}”" for name in names]
        if table.role == "student" and not table.class_name and not table.columns.keys() & {"class_name", "role"}:
            raise BadRequest(
                f"{self.filename}: {place}không có cột “Lớp”, tên trang tính và tiêu đề cũng không nói là lớp nào; "
                "hãy thêm cột “Lớp”, hoặc đặt tên trang tính là tên lớp (ví dụ 6A)."
            )
        if "code" not in table.columns and any(f"{who}_name" in table.columns for who in _CONTACTS):
            expected, remedy = "cột mã học sinh để nối phụ huynh với con", "hãy thêm cột đó; phụ huynh chưa được nạp"
            self.problems.append(
                RowProblem(table.header_line, _FIELD_NAMES["code"], "", expected, remedy, title, is_warning=True)
            )
        is_below = False
        for line, cells in table.lines:
            values = {name: cells[i] for name, i in table.columns.items() if i < len(cells) and cells[i]}
            if not values or all(value == table.header_of(name) for name, value in values.items()):
                continue  # Blank but for its number, or the header once more on a new page.
            # Below "Hiệu trưởng" stands his name, which is no pupil's.
            if _is_footer(values) or (is_below and len(values) == 1):
                is_below = True
                self.ignored.append(f"{place}dòng {line}: “{' '.join(values.values())[:80]}”")
                continue
            row = _Row(self, table, line, values).read()
            if row:
                self.found.append(row)

    def people(self) -> list[RosterRow]:
        """Everybody, each once: pupils and teachers in the file's order, then guardians."""
        kept: list[_Found] = []
        seen: dict[object, RosterRow] = {}
        order = {id(found): index for index, found in enumerate(self.found)}
        merged = _merge_teachers(self.found)
        # Rows that tell least come last, so that they meet what they may repeat.
        for found in sorted(merged, key=lambda found: not (found.row.code or found.row.birth_date)):
            repeated = next(((name, seen[key]) for name, key in _identities(found.row) if key in seen), None)
            if repeated is None or self._tell_repeated(found.row, *repeated):
                kept.append(found)
                for _, key in _identities(found.row):
                    seen.setdefault(key, found.row)
                seen.setdefault(_in_class(found.row), found.row)
        kept.sort(key=lambda found: order.get(id(found), 0))
        return [*(found.row for found in kept if found.row.role != "guardian"), *_merge_guardians(kept)]

    def _tell_repeated(self, row: RosterRow, column: str, earlier: RosterRow) -> bool:
        """Whether the row is taken all the same: two people may share name and birthday, but not a code."""
        is_namesake = column == "full_name" and bool(row.code and earlier.code)
        where = f"{earlier.sheet}, dòng {earlier.line}" if earlier.sheet else f"dòng {earlier.line}"
        remedy = "hãy kiểm tra có phải cùng một người không" if is_namesake else "hãy sửa hoặc xóa một dòng"
        came, name = str(getattr(row, column)), _FIELD_NAMES[column]
        expected = f"mỗi người một dòng ({where} đã có)"
        self.problems.append(RowProblem(row.line, name, came, expected, remedy, row.sheet, is_namesake))
        return is_namesake


class _Row:
    """One line, field by field; what is wrong with it goes to the reading."""

    def __init__(self, reading: _Reading, table: _Table, line: int, values: dict[str, str]) -> None:
        self._reading = reading
        self._table = table
        self._line = line
        self._values = values
        self._is_whole = True

    def read(self) -> _Found | None:
        """The person and the guardians of this line; None when something is wrong that must be put right first."""
        role = self._role()
        is_known_role = self._is_whole
        full_name, code, class_text = self._full_name(), self._code("code"), self._class_text()
        row = RosterRow(
            self._line,
            role,
            full_name,
            code="" if role == "guardian" else code,
            class_name=_class_name(class_text) if role == "student" else "",
            birth_date=self._birth_date(),
            email=self._email("email"),
            username=self._username(),
            phone="" if role == "student" and self._is_guardian_phone() else self._phone("phone"),
            sheet=self._table.sheet.title,
        )
        if role == "student" and is_known_role and not class_text:
            self._tell("class_name", "tên lớp, ví dụ 6A", "hãy điền lớp của học sinh")
        if role == "teacher":
            row = replace(row, teaches=_teachings(class_text, self._values.get("subject", "")))
        if role == "guardian":
            children = [part for part in re.split(r"[,;\s]+", self._values.get("guardian_of", "")) if part] or [code]
            row = replace(row, guardian_of=tuple(child for child in children if child))
            if not row.guardian_of:
                self._tell("code", "mã học sinh của con", "hãy điền mã học sinh của con để nối phụ huynh với con")
        contacts = self._contacts(row) if role == "student" and self._is_whole else ()
        return _Found(row, contacts) if self._is_whole else None

    def _tell(self, name: str, expected: str, remedy: str, *, is_warning: bool = False) -> None:
        column = self._table.header_of(name) or _FIELD_NAMES.get(name, name)
        came, title = self._values.get(name, "")[:80], self._table.sheet.title
        self._reading.problems.append(RowProblem(self._line, column, came, expected, remedy, title, is_warning))
        self._is_whole = self._is_whole and is_warning

    def _role(self) -> RosterRole:
        text = self._values.get("role")
        if text is None:
            return self._table.role
        role = _ROLES.get(_key(text))
        if role is None:
            self._tell("role", "học sinh, giáo viên hoặc phụ huynh", "hãy sửa vai trò, hoặc để trống nếu là học sinh")
        return role or "student"

    def _full_name(self) -> str:
        parts = [self._values.get(name, "") for name in ("full_name", "family_name", "middle_name", "given_name")]
        name = " ".join(part for part in parts if part)
        wanted = "full_name" if "full_name" in self._table.columns else "given_name"
        self._values.setdefault(wanted, name)
        if not name:
            self._tell(wanted, "họ và tên", "hãy điền họ tên, hoặc xóa dòng này")
        elif len(name) > _MOST_NAME_LETTERS:
            self._tell(wanted, f"không quá {_MOST_NAME_LETTERS} chữ", "có thể thiếu dấu ngoặc kép đóng; hãy sửa ô này")
        elif not any(c.isalpha() for c in name) or not all(c.isalpha() or c in " .'’-‘()" for c in name):
            self._tell(wanted, "họ tên chỉ gồm chữ cái", "hãy sửa lại họ tên")
        return name.title() if name.isupper() and " " in name else name

    def _code(self, name: str) -> str:
        code = self._values.get(name, "").replace(" ", "")
        if _SCIENTIFIC.fullmatch(code):
            self._tell(name, "mã đầy đủ", "Excel đã đổi mã thành số; hãy định dạng cột là Văn bản (Text) rồi gõ lại mã")
        elif len(code) > 64:
            self._tell(name, "mã không quá 64 ký tự", "hãy sửa lại mã")
        return code

    def _class_text(self) -> str:
        text = self._values.get("class_name", self._table.class_name)
        if _SCIENTIFIC.fullmatch(text) or _DATES[1].fullmatch(text):
            self._tell(
                "class_name", "tên lớp", "Excel đã đổi tên lớp thành ngày hoặc số; hãy định dạng cột là Văn bản (Text)"
            )
        elif len(text) > 64:
            self._tell("class_name", "tên lớp không quá 64 ký tự", "hãy sửa lại tên lớp")
        return text

    def _birth_date(self) -> date | None:
        text = self._values.get("birth_date")
        if text is None:
            return None
        day_first, year_first = (pattern.fullmatch(text) for pattern in _DATES)
        try:
            if day_first:
                birth = date(int(day_first[3]), int(day_first[2]), int(day_first[1]))
            elif year_first:
                birth = date(int(year_first[1]), int(year_first[2]), int(year_first[3]))
            else:
                birth = None
        except ValueError:
            birth = None
        if birth is None or birth.year < 1920 or birth > self._reading.today:
            self._tell("birth_date", "ngày sinh có thật dạng ngày/tháng/năm, ví dụ 05/09/2014", "hãy sửa lại ngày sinh")
            return None
        return birth

    def _email(self, name: str) -> str:
        text = self._values.get(name, "").lower()
        if text and not _EMAIL.fullmatch(text):
            self._tell(name, "một địa chỉ e-mail", "hãy sửa lại, hoặc để trống", is_warning=name != "email")
            return ""
        return text

    def _username(self) -> str:
        text = self._values.get("username", "").lower()
        if text and not _USERNAME.fullmatch(text):
            told = "3 đến 64 chữ cái không dấu, chữ số hoặc . _ - @"
            self._tell("username", told, "hãy sửa lại, hoặc để trống để DeepEdu tự đặt")
        return text

    def _phone(self, name: str) -> str:
        text = self._values.get(name, "")
        digits = re.sub(r"\D", "", text)
        if digits.startswith("84") and len(digits) in (11, 12):
            digits = "0" + digits[2:]
        # Excel takes the leading zero for nothing.
        digits = f"0{digits}" if len(digits) == 9 and digits[0] in "35789" else digits
        if text and (not re.fullmatch(r"0\d{9,10}", digits) or re.search(r"[^\W\d_]", text)):
            self._tell(name, "một số điện thoại, ví dụ 0912345678", "hãy sửa lại, hoặc để trống", is_warning=True)
            return ""
        return digits

    def _is_guardian_phone(self) -> bool:
        """A phone without owner beside a guardian's name without phone: the one that the school calls."""
        names = [who for who in _CONTACTS if f"{who}_name" in self._table.columns]
        return bool(names) and not any(f"{who}_phone" in self._table.columns for who in names)

    def _contacts(self, child: RosterRow) -> tuple[RosterRow, ...]:
        if not child.code:
            if "code" in self._table.columns and any(f"{who}_name" in self._values for who in _CONTACTS):
                self._tell("code", "mã học sinh để nối phụ huynh với con", "hãy điền mã học sinh", is_warning=True)
            return ()
        found: list[RosterRow] = []
        for who in _CONTACTS:
            name = self._values.get(f"{who}_name", "")
            if inside := _PHONE_IN_TEXT.search(name):
                self._values.setdefault(f"{who}_phone", inside[0])
                name = (name[: inside.start()] + name[inside.end() :]).strip(" -–,;:()")
            phone = self._phone(f"{who}_phone")
            if not phone and self._is_guardian_phone() and not found:
                phone = self._phone("phone")
            if not name and not phone:
                continue
            if not all(c.isalpha() or c in " .'’-‘()" for c in name) or len(name) > _MOST_NAME_LETTERS:
                self._tell(
                    f"{who}_name", "họ tên một người", "hãy sửa lại; phụ huynh này chưa được nạp", is_warning=True
                )
                continue
            found.append(
                RosterRow(
                    self._line,
                    "guardian",
                    (name.title() if name.isupper() and " " in name else name) or f"Phụ huynh em {child.full_name}",
                    email=self._email(f"{who}_email"),
                    phone=phone,
                    guardian_of=(child.code,),
                    sheet=child.sheet,
                )
            )
        return tuple(found)


def _is_footer(values: Mapping[str, str]) -> bool:
    return all(_FOOTER.fullmatch(_key(value)) for value in values.values())


def _teachings(class_text: str, subject_text: str) -> tuple[Teaching, ...]:
    classes = [_class_name(part) for part in re.split(r"[,;]", class_text) if part.strip()] or [""]
    subjects = [part.strip() for part in re.split(r"[,;]", subject_text) if part.strip()] or [""]
    return tuple(Teaching(c, s) for c in classes for s in subjects if c or s)


def _name_key(name: str) -> tuple[str, ...]:
    return tuple(words(name))


def _in_class(row: RosterRow) -> object:
    return (row.role, _name_key(row.full_name), row.class_name.casefold())


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
        found.append(("full_name", (row.role, _name_key(row.full_name), row.birth_date)))
    elif not row.code:
        found.append(("full_name", _in_class(row)))
    return found


def _merge_teachers(found: Sequence[_Found]) -> list[_Found]:
    """A teacher has a line for each class in many lists: one row with all of them."""
    first: dict[object, int] = {}
    merged: list[_Found] = []
    for each in found:
        row = each.row
        identity = (row.code.casefold() or row.email or row.username, _name_key(row.full_name))
        if row.role != "teacher" or not identity[0] or identity not in first:
            if row.role == "teacher" and identity[0]:
                first[identity] = len(merged)
            merged.append(each)
            continue
        earlier = merged[first[identity]].row
        teaches = tuple(dict.fromkeys(earlier.teaches + row.teaches))
        merged[first[identity]] = _Found(replace(_filled(earlier, row), teaches=teaches))
    return merged


def _merge_guardians(found: Iterable[_Found]) -> list[RosterRow]:
    """Guardians of brothers and sisters are one: the same name with the same phone, e-mail or child."""
    merged: dict[tuple[str, ...], list[RosterRow]] = defaultdict(list)
    for each in found:
        for row in (each.row, *each.contacts) if each.row.role == "guardian" else each.contacts:
            alike = merged[_name_key(row.full_name)]
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


# --- What an import would change -------------------------------------------------------------------------------------


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
            self._names[person.role, _name_key(person.full_name)].append(person)

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
        alike = [p for p in self._names.get((row.role, _name_key(row.full_name)), []) if p.id not in claimed]
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
    name = names.get(change.field) or _FIELD_NAMES.get(change.field, change.field).lower()
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
