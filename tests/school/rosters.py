"""Rosters for tests: written as text or as workbooks, read, and carried out."""

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import openpyxl

from deepedu.school.roster import Roster, RowProblem
from deepedu.school.roster_file import read_roster
from deepedu.school.roster_plan import ImportPlan, KnownPerson, suggest_username

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
