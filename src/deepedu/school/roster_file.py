"""Reading a roster from a file: CSV or Excel as schools have them, to cells, to people.

Nothing is written here. ``read_roster`` says what a file holds and what is wrong with it.
"""

import csv
import io
import re
import unicodedata
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import openpyxl

from deepedu.base.errors import BadRequest
from deepedu.school.roster import Roster, everybody
from deepedu.school.roster_columns import HEADER_WITHIN_LINES, Sheet, find_table, recognised
from deepedu.school.roster_rows import Reading

MAX_FILE_BYTES = 20_000_000
MAX_UNPACKED_BYTES = 100_000_000
MAX_ROWS = 20_000
# Sheets formatted down to their last line are common; what lies below this one is not looked at.
_LAST_LINE = 50_000
_LAST_COLUMN = 100


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
    tables = [table for sheet in sheets if (table := find_table(sheet))]
    if not tables:
        seen = next((cells for sheet in sheets for _, cells in sheet.lines), [])
        shown = ", ".join(cell for cell in seen if cell)[:120]
        raise BadRequest(
            f"{filename}: không tìm thấy cột “Họ và tên” (hoặc “Họ đệm” và “Tên”) trong {HEADER_WITHIN_LINES} dòng "
            f"đầu; dòng đầu là “{shown}”. Hãy thêm dòng tiêu đề, ví dụ: Mã học sinh, Họ và tên, Lớp, Ngày sinh."
        )
    ignored += [f"trang tính “{s.title}”: không có danh sách" for s in sheets if all(t.sheet is not s for t in tables)]
    reading = Reading(filename, today or date.today())
    for table in tables:
        reading.read(table)
    if not reading.found and not reading.problems:
        raise BadRequest(
            f"{filename}: có dòng tiêu đề nhưng không có dòng dữ liệu nào; hãy điền danh sách rồi nạp lại."
        )
    rows, repeated = everybody(reading.found)
    problems = sorted([*reading.problems, *repeated], key=lambda problem: (problem.sheet, problem.line))
    ignored += reading.ignored
    return Roster(tuple(rows), tuple(problems), tuple(ignored))


# --- From bytes to cells ---------------------------------------------------------------------------------------------

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


def _read_sheets(content: bytes, filename: str, ignored: list[str]) -> list[Sheet]:
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
    return [Sheet("", _read_csv(_decode(content, filename), filename))]


def _read_workbook(content: bytes, filename: str, ignored: list[str]) -> list[Sheet]:
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
            return [Sheet(sheet.title, _sheet_lines(sheet, filename)) for sheet in visible]
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
    if len(lines) >= MAX_ROWS + HEADER_WITHIN_LINES:
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
            return f"{value:.2E}"  # Digits are lost, or were letters: told as such with its row.
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
        rows = [cells for _, cells in parsed(separator, HEADER_WITHIN_LINES)]
        return max((len(recognised(row)) for row in rows), default=0), sum(len(row) > 1 for row in rows)

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
