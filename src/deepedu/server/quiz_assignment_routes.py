"""Quizzes given to classes: assigning, changing times, and the results of a class."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest
from deepedu.school.accounts import Account
from deepedu.school.audit import log, record
from deepedu.school.classes import Classroom, class_for, classes_of, members
from deepedu.server.access import Teacher
from deepedu.server.pages import HEADERS, go, is_number, render
from deepedu.server.plots import Bar, bars
from deepedu.server.quiz_export import PupilLine, as_csv, as_xlsx, results_rows
from deepedu.server.quiz_form import BadForm
from deepedu.server.quiz_view import field_time, views
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.tables import Person, now
from deepedu.tutor.assignments import Assignment, BadTimes, assign, change_assignment, own_assignment, withdraw
from deepedu.tutor.classwork import close_overdue, results_of
from deepedu.tutor.quiz import Quiz
from deepedu.tutor.quiz_results import ClassResult, class_result, mark_of_ten, sign_of
from deepedu.tutor.quiz_shelf import shelved_quiz

router = APIRouter(include_in_schema=False)
Field = Annotated[str, Form(max_length=100)]
Fields = Annotated[list[str], Form(max_length=100)]
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


# --- Assigning -------------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/{quiz_id:int}/assign", response_class=HTMLResponse)
def assign_page(request: Request, services: Services, account: Teacher, quiz_id: int) -> Response:
    """The form: which classes, when, and whether it is an exam."""
    return _assign_page(request, services, account, quiz_id, {"shows_keys": "on"}, [])


@router.post("/teach/quizzes/{quiz_id:int}/assign", response_class=HTMLResponse)
def assign_quiz(
    request: Request,
    services: Services,
    account: Teacher,
    quiz_id: int,
    classes: Fields = [],  # noqa: B006 - FastAPI copies defaults.
    opens_at: Field = "",
    closes_at: Field = "",
    is_exam: Field = "",
    shows_keys: Field = "",
) -> Response:
    """Gives a quiz to classes: to all that were chosen or to none."""
    form = {"opens_at": opens_at, "closes_at": closes_at, "is_exam": is_exam, "shows_keys": shows_keys}
    database = services.database
    chosen = [class_for(database, account, int(each)) for each in dict.fromkeys(classes) if is_number(each)]
    try:
        opens, closes = _times(form)
        if not chosen:
            raise BadForm({"classes": "Chưa chọn lớp: hãy đánh dấu ít nhất một lớp."})
        with database.write() as session:
            for classroom in chosen:
                _assign_one(session, account, quiz_id, classroom, opens, closes, form)
    except BadForm as error:
        return _assign_page(request, services, account, quiz_id, form, classes, error.problems)
    names = ", ".join(classroom.name for classroom in chosen)
    return go(f"/teach/quizzes/{quiz_id}", f"Đã giao bài cho lớp {names}.")


def _assign_one(
    session: Any,
    account: Account,
    quiz_id: int,
    classroom: Classroom,
    opens_at: datetime,
    closes_at: datetime | None,
    form: dict[str, str],
) -> None:
    try:
        assignment_id = assign(
            session,
            quiz_id,
            classroom.id,
            author_id=account.id,
            opens_at=opens_at,
            closes_at=closes_at,
            is_exam=bool(form["is_exam"]),
            shows_keys=bool(form["shows_keys"]),
        )
    except BadTimes as error:
        raise BadForm({"closes_at": str(error)}) from error
    except BadRequest as error:
        raise BadForm({"classes": f"{classroom.name}: {error}"}) from error
    detail = f"quiz:{quiz_id} class:{classroom.id}{' exam' if form['is_exam'] else ''}"
    record(session, account.public_id, "quiz.assign", f"assignment:{assignment_id}", detail)


def _assign_page(
    request: Request,
    services: Any,
    account: Account,
    quiz_id: int,
    form: dict[str, str],
    chosen: Sequence[str],
    errors: dict[str, str] | None = None,
) -> Response:
    return render(
        request,
        "quiz_assign.html",
        account,
        status=400 if errors else 200,
        quiz=shelved_quiz(services.database, account.id, quiz_id),
        classes=classes_of(services.database, account),
        chosen=chosen,
        form={"opens_at": "", "closes_at": "", "is_exam": "", **form},
        errors=errors or {},
    )


def _times(form: dict[str, str]) -> tuple[datetime, datetime | None]:
    """When it opens and closes; as the server's clock shows them, which is that of the school."""
    problems: dict[str, str] = {}
    found: dict[str, datetime | None] = {}
    for name in ("opens_at", "closes_at"):
        try:
            found[name] = datetime.fromisoformat(form[name]).astimezone() if form[name] else None
        except (ValueError, OverflowError):
            problems[name] = f"Cần ngày và giờ, nhận được {form[name][:30]!r}: hãy chọn lại."
    if problems:
        raise BadForm(problems)
    return found["opens_at"] or now(), found["closes_at"]


# --- One assignment --------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/assignments/{assignment_id:int}", response_class=HTMLResponse)
def results_page(request: Request, services: Services, account: Teacher, assignment_id: int) -> Response:
    """The results of a class."""
    return _results_page(request, services, account, assignment_id)


@router.post("/teach/quizzes/assignments/{assignment_id:int}", response_class=HTMLResponse)
def change(
    request: Request,
    services: Services,
    account: Teacher,
    assignment_id: int,
    closes_at: Field = "",
    shows_keys: Field = "",
) -> Response:
    """Closes it at another time, and shows keys or not."""
    assignment, _ = _own(services.database, account, assignment_id)
    form = {"opens_at": "", "closes_at": closes_at}
    try:
        _, closes = _times(form)
        if closes_at == field_time(assignment.closes_at):
            closes = assignment.closes_at  # Seconds are not in the field.
        _change(services.database, account, assignment, closes, shows_keys=bool(shows_keys))
    except BadForm as error:
        return _results_page(request, services, account, assignment_id, form, error.problems)
    except BadRequest as error:
        return _results_page(request, services, account, assignment_id, form, {"closes_at": str(error)})
    return go(f"/teach/quizzes/assignments/{assignment_id}", "Đã lưu.")


@router.post("/teach/quizzes/assignments/{assignment_id:int}/close", response_class=HTMLResponse)
def close(request: Request, services: Services, account: Teacher, assignment_id: int) -> Response:
    """Closes it now; what pupils have filled in by now is handed in."""
    assignment, _ = _own(services.database, account, assignment_id)
    try:
        _change(services.database, account, assignment, now(), shows_keys=assignment.shows_keys)
    except BadRequest as error:
        return _results_page(request, services, account, assignment_id, None, {"closes_at": str(error)})
    told = "Đã đóng bài. Bài của những em chưa nộp được thu trong chưa đầy một phút."
    return go(f"/teach/quizzes/assignments/{assignment_id}", told)


@router.post("/teach/quizzes/assignments/{assignment_id:int}/withdraw", response_class=HTMLResponse)
def take_back(request: Request, services: Services, account: Teacher, assignment_id: int) -> Response:
    """Takes an assignment back that nobody has begun."""
    assignment, _ = _own(services.database, account, assignment_id)
    try:
        with services.database.write() as session:
            withdraw(session, assignment)
            record(session, account.public_id, "quiz.withdraw", f"assignment:{assignment_id}")
    except BadRequest as error:
        return _results_page(request, services, account, assignment_id, None, {"closes_at": str(error)})
    return go(f"/teach/quizzes/{assignment.quiz_id}", "Đã thu hồi bài giao.")


@router.get("/teach/quizzes/assignments/{assignment_id:int}/results.{form}")
def export_results(services: Services, account: Teacher, assignment_id: int, form: str) -> Response:
    """The results as a spreadsheet."""
    if form not in ("csv", "xlsx"):
        raise BadRequest(f"Cần csv hoặc xlsx, nhận được {form[:20]!r}.")
    assignment, quiz = _own(services.database, account, assignment_id)
    summary, lines = _summary(services.database, assignment, quiz)
    rows = results_rows(summary, lines)
    log(services.database, account.public_id, "quiz.results.export", f"assignment:{assignment_id}", form)
    content = as_csv(rows) if form == "csv" else as_xlsx(rows, assignment.title)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="ket-qua-{assignment_id}.{form}"'}
    return Response(content, media_type="text/csv; charset=utf-8" if form == "csv" else _XLSX, headers=headers)


def _own(database: Database, account: Account, assignment_id: int) -> tuple[Assignment, Quiz]:
    mine = [each.id for each in classes_of(database, account)]
    return own_assignment(database, account.id, mine, assignment_id)


def _change(
    database: Database, account: Account, assignment: Assignment, closes_at: datetime | None, *, shows_keys: bool
) -> None:
    with database.write() as session:
        changed = change_assignment(session, assignment, closes_at=closes_at, shows_keys=shows_keys)
        detail = f"closes {changed.closes_at:%Y-%m-%dT%H:%MZ}" if changed.closes_at else "stays open"
        record(session, account.public_id, "quiz.change", f"assignment:{assignment.id}", detail)


def _summary(database: Database, assignment: Assignment, quiz: Quiz) -> tuple[ClassResult, list[PupilLine]]:
    close_overdue(database, [assignment.class_id])
    pupils = members(database, assignment.class_id, "student")
    summary = class_result(quiz, results_of(database, assignment.id, [each.owner for each in pupils]))
    with database.read() as session:
        wanted = sa.select(Person.id, Person.code).where(Person.id.in_([each.id for each in pupils]))
        codes = {row.id: row.code for row in session.execute(wanted)}
    return summary, [
        PupilLine(each.full_name, codes.get(each.id) or "", each.username, summary.by_learner.get(each.owner))
        for each in pupils
    ]


def _results_page(
    request: Request,
    services: Any,
    account: Account,
    assignment_id: int,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    assignment, quiz = _own(services.database, account, assignment_id)
    summary, lines = _summary(services.database, assignment, quiz)
    log(services.database, account.public_id, "quiz.results", f"assignment:{assignment_id}")
    counts = summary.histogram()
    bins = (f"từ {place} đến {place + 1}: {count} em" for place, count in enumerate(counts) if count)
    return render(
        request,
        "quiz_results.html",
        account,
        status=400 if errors else 200,
        assignment=assignment,
        classroom=class_for(services.database, account, assignment.class_id),
        quiz=quiz,
        summary=summary,
        pupils=lines,
        histogram=bars(
            [Bar(f"{place}–{place + 1}", (count,)) for place, count in enumerate(counts)],
            "Phổ điểm trên thang 10: " + "; ".join(bins),
        ),
        counts=counts,
        form=form or {"closes_at": field_time(assignment.closes_at)},
        errors=errors or {},
        sign_of=sign_of,
        mark_of_ten=mark_of_ten,
        at=now(),
        **views(),
    )
