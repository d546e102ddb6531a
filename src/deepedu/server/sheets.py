"""Tables as files for spreadsheets: CSV and XLSX. What is text stays text: nothing in them is run as a formula.

Source: OWASP, "CSV Injection": cells that begin with ``= + - @``, a tab or a return get an apostrophe in front.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from fastapi import Response
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

Cell = str | int | float | None
Kind = Literal["csv", "xlsx"]
KINDS: tuple[Kind, ...] = ("csv", "xlsx")
_TYPES: dict[Kind, str] = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# Full-width signs are read as their narrow ones by some programs; white space in front is skipped.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠|%]|[\t\r\n]")
_NO_TITLE = re.compile(r"[\[\]:*?/\\]")
_LONGEST_TITLE = 31


def safe_cell(value: Cell) -> Cell:
    """A cell as no program takes it for a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    plain = ILLEGAL_CHARACTERS_RE.sub("", value)
    return f"'{plain}" if _FORMULA.match(plain) else plain


def to_csv(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Rows as CSV in UTF-8, with the mark by which Excel knows it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8-sig")


def to_xlsx(title: str, rows: Iterable[Sequence[Cell]]) -> bytes:
    """Rows as a workbook of one sheet."""
    book = Workbook(write_only=True)
    sheet = book.create_sheet(_NO_TITLE.sub(" ", title).strip()[:_LONGEST_TITLE] or "DeepEdu")
    for row in rows:
        cells: list[Any] = []
        for value in row:
            cell = WriteOnlyCell(sheet, value=None if isinstance(value, str) else value)
            if isinstance(value, str):
                # Set after the type is known, else a text that begins with "=" becomes a formula.
                cell.value = safe_cell(value)
                cell.data_type = "s"
            cells.append(cell)
        sheet.append(cells)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def download(kind: Kind, name: str, title: str, rows: Iterable[Sequence[Cell]]) -> Response:
    """The file as an answer. ``name`` is ASCII, without the ending, and holds no person's name."""
    content = to_csv(rows) if kind == "csv" else to_xlsx(title, rows)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{kind}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, media_type=_TYPES[kind], headers=headers)
