"""The results of a class in spreadsheets: CSV and XLSX.

A cell that a spreadsheet would take for a formula is kept text: with an apostrophe in CSV, as a text cell in XLSX.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from openpyxl import Workbook
from openpyxl.styles import Font

from deepedu.server.quiz_view import number
from deepedu.tutor.classwork import MarkedItem, Result
from deepedu.tutor.quiz_results import ClassResult, mark_of_ten

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
# What XML cannot hold.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
Cell = str | Decimal | None


@dataclass(frozen=True)
class PupilLine:
    """A pupil of the class with the work, where there is one."""

    name: str
    code: str
    username: str
    result: Result | None

    @property
    def state(self) -> str:
        """What became of the work, in Vietnamese."""
        if self.result is None:
            return "chưa làm"
        if self.result.finished_at is None:
            return "đang làm"
        # Marks are deleted after the school's time of keeping them.
        return "đã nộp" if self.result.marks else "đã nộp, điểm đã xóa"

    def marks(self) -> Mapping[str, MarkedItem]:
        """The marks by item id."""
        return {mark.item_id: mark for mark in self.result.marks} if self.result else {}


def results_rows(summary: ClassResult, lines: Sequence[PupilLine]) -> list[list[Cell]]:
    """The table of results with its header; numbers as numbers."""
    header: list[Cell] = ["Mã số", "Họ và tên", "Tên đăng nhập", "Tình trạng", "Điểm", "Thang 10"]
    rows: list[list[Cell]] = [[*header, *(f"Câu {each.number}" for each in summary.items)]]
    for line in lines:
        marks = line.marks()
        has_marks = line.result is not None and bool(marks)
        points = line.result.points if line.result is not None and has_marks else None
        ten = mark_of_ten(line.result) if line.result is not None else None
        each = [marks[one.item.id].points if one.item.id in marks else None for one in summary.items]
        rows.append([line.code, line.name, line.username, line.state, points, ten, *each])
    return rows


def as_csv(rows: Sequence[Sequence[Cell]]) -> bytes:
    """Rows as CSV in UTF-8 with a byte order mark, numbers with a decimal comma."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for row in rows:
        writer.writerow([_csv_cell(cell) for cell in row])
    return out.getvalue().encode("utf-8-sig")


def as_xlsx(rows: Sequence[Sequence[Cell]], title: str) -> bytes:
    """Rows as an Excel workbook of one sheet."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None, "a new workbook has a sheet"
    sheet.title = re.sub(r"[\[\]:*?/\\]", " ", _CONTROL.sub("", title))[:31].strip("' ") or "Kết quả"
    for number_of_row, row in enumerate(rows, 1):
        for column, value in enumerate(row, 1):
            content = _CONTROL.sub("", value) if isinstance(value, str) else None if value is None else float(value)
            cell = sheet.cell(number_of_row, column, content)
            if isinstance(content, str):
                # Else text that begins with "=" would be a formula.
                cell.data_type = "s"
            if number_of_row == 1:
                cell.font = Font(bold=True)
    sheet.freeze_panes = "C2"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _csv_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"'{cell}" if _FORMULA.match(cell) else cell
    return "" if cell is None else number(cell)
