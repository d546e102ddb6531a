"""The pupil's quizzes: the list, the work with its drafts kept, handing in, and the result. No key leaves the server
before the pupil may see it."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import DeepEduError, NotAllowed, NotFound
from deepedu.school.accounts import Account
from deepedu.school.classes import Classroom, classes_of, members
from deepedu.server.access import Student
from deepedu.server.admission import may_learn
from deepedu.server.pages import go, render
from deepedu.server.quiz_view import evidence_views, result_line, views
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.tables import now
from deepedu.tutor.assignments import Assignment, TimeOver, assignments_of
from deepedu.tutor.classwork import (
    HandedIn,
    Result,
    Unreadable,
    Work,
    begin,
    close_overdue,
    hand_in,
    keep_given,
    results_of,
    work_of,
    works_of,
)
from deepedu.tutor.quiz import Placed, TrueFalse
from deepedu.tutor.quiz_reading import LETTERS
from deepedu.tutor.quiz_results import mark_of_ten

router = APIRouter(include_in_schema=False)
log = logging.getLogger(__name__)
_NO_CONSENT = "Chưa có xác nhận đồng ý của cha mẹ hoặc người giám hộ: em hãy hỏi thầy cô chủ nhiệm."
# Fields of an answer are named by this and the item's id; those of a statement by its letter as well.
_FIELD = "q-"


async def keep_closing(database: Database, every_s: float = 60.0) -> None:
    """Hands in overdue work, for ever; to run beside the server."""
    while True:
        try:
            await asyncio.to_thread(close_overdue, database)
        except DeepEduError as error:
            log.error("overdue work was not closed, the next try is in %g s: %s", every_s, error)
        await asyncio.sleep(every_s)


# --- The list --------------------------------------------------------------------------------------------------------


@router.get("/quizzes", response_class=HTMLResponse)
def quizzes(request: Request, services: Services, account: Student) -> Response:
    """What is open, coming, done and missed."""
    if not may_learn(services, account):
        return without_consent(request, services, account)
    database, classes = services.database, own_classes(services.database, account)
    close_overdue(database, list(classes))
    works, at = works_of(database, account.owner), now()
    groups: dict[str, list[Assignment]] = {"open": [], "coming": [], "done": [], "missed": []}
    for each in assignments_of(database, list(classes)):
        groups[state_of(each, works, at)].append(each)
    groups["open"].sort(key=lambda each: (each.closes_at is None, each.closes_at or each.opens_at))
    return render(request, "quiz_list.html", account, groups=groups, works=works, classes=classes, at=at, **views())


def open_quizzes(database: Database, account: Account) -> list[Assignment]:
    """What a pupil can work on at this moment and has not handed in, the first to close first."""
    classes, at = own_classes(database, account), now()
    works = works_of(database, account.owner)
    found = [each for each in assignments_of(database, list(classes)) if state_of(each, works, at) == "open"]
    return sorted(found, key=lambda each: (each.closes_at is None, each.closes_at or each.opens_at))


def without_consent(request: Request, services: Any, account: Account) -> Response:
    """The page for a pupil whose guardian's consent is not on record."""
    classrooms = classes_of(services.database, account)
    teachers = members(services.database, classrooms[0].id, "teacher") if classrooms else []
    return render(request, "no_consent.html", account, teachers=[teacher.full_name for teacher in teachers])


def state_of(assignment: Assignment, works: Mapping[int, datetime | None], at: datetime) -> str:
    """``open``, ``coming``, ``done`` or ``missed``. ``works``: see ``classwork.works_of``."""
    if works.get(assignment.id) is not None:
        return "done"
    if at < assignment.opens_at:
        return "coming"
    return "open" if assignment.is_open(at) else "missed"


def own_classes(database: Database, account: Account) -> dict[int, Classroom]:
    """A pupil's classes by id."""
    return {each.id: each for each in classes_of(database, account)}


# --- One quiz --------------------------------------------------------------------------------------------------------


@router.get("/quizzes/{assignment_id:int}", response_class=HTMLResponse)
def quiz_page(request: Request, services: Services, account: Student, assignment_id: int) -> Response:
    """What it is; once begun the work; once handed in the result."""
    return _quiz_page(request, services, account, assignment_id)


@router.post("/quizzes/{assignment_id:int}/begin")
def begin_page(request: Request, services: Services, account: Student, assignment_id: int) -> Response:
    """Begins the work."""
    check_consent(services, account)
    try:
        begin(services.database, list(own_classes(services.database, account)), assignment_id, account.owner)
    except TimeOver as error:
        return _quiz_page(request, services, account, assignment_id, str(error))
    return go(f"/quizzes/{assignment_id}")


@router.post("/quizzes/{assignment_id:int}/save", response_class=HTMLResponse)
async def save(request: Request, services: Services, account: Student, assignment_id: int) -> Response:
    """Keeps what is filled in, for browsers without scripts; or goes on to handing in."""
    async with request.form() as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    return await asyncio.to_thread(_save, services, account, assignment_id, fields)


@router.get("/quizzes/{assignment_id:int}/hand-in", response_class=HTMLResponse)
def confirm_page(request: Request, services: Services, account: Student, assignment_id: int) -> Response:
    """Names what is not answered or cannot be read, and asks."""
    check_consent(services, account)
    work = _work(services.database, account, assignment_id)
    if work is None or work.finished_at is not None or work.assignment.is_over(now()):
        return go(f"/quizzes/{assignment_id}")
    return _confirm_page(request, account, work)


@router.post("/quizzes/{assignment_id:int}/hand-in", response_class=HTMLResponse)
def hand_in_page(request: Request, services: Services, account: Student, assignment_id: int) -> Response:
    """Hands in what was kept; a second click finds it done."""
    check_consent(services, account)
    database, address = services.database, f"/quizzes/{assignment_id}"
    try:
        hand_in(database, list(own_classes(database, account)), assignment_id, account.owner, {})
    except HandedIn:
        return go(address, "Bài này em đã nộp rồi. Lần nộp đầu tiên được tính.")
    except TimeOver as error:
        return go(address, str(error))
    except Unreadable:
        work = _work(database, account, assignment_id)
        assert work is not None, "what cannot be handed in was begun"
        return _confirm_page(request, account, work, status=400)
    return go(address, "Đã nộp bài.")


def _quiz_page(request: Request, services: Any, account: Account, assignment_id: int, error: str = "") -> Response:
    if not may_learn(services, account):
        return without_consent(request, services, account)
    database, classes = services.database, own_classes(services.database, account)
    close_overdue(database, list(classes))
    work, at = _work(database, account, assignment_id), now()
    if work is None:
        assignment = next(each for each in assignments_of(database, list(classes)) if each.id == assignment_id)
        return render(
            request,
            "quiz_start.html",
            account,
            status=403 if error else 200,
            assignment=assignment,
            classroom=classes[assignment.class_id],
            state=state_of(assignment, {}, at),
            error=error,
        )
    if work.finished_at is not None:
        return _result_page(request, services, account, work)
    if work.assignment.is_over(at):
        # Its closing failed; the next try is in a minute.
        raise TimeOver("Đã hết giờ làm bài; bài của em đang được thu. Em mở lại trang này sau ít phút.")
    return _taking_page(request, account, work)


def _taking_page(request: Request, account: Account, work: Work) -> Response:
    return render(
        request,
        "quiz_take.html",
        account,
        work=work,
        assignment=work.assignment,
        items=[(number_, placed.shown(), _filled(placed, work)) for number_, placed in enumerate(work.placed, 1)],
        errors=work.problems(),
        at=now(),
        letters=LETTERS,
        **views(),
    )


def _confirm_page(request: Request, account: Account, work: Work, status: int = 200) -> Response:
    problems = work.problems()
    told = [(n, problems[each.item.id]) for n, each in enumerate(work.placed, 1) if each.item.id in problems]
    return render(
        request,
        "quiz_confirm.html",
        account,
        status=status,
        work=work,
        assignment=work.assignment,
        unanswered=work.unanswered(),
        problems=told,
    )


def _result_page(request: Request, services: Any, account: Account, work: Work) -> Response:
    database, assignment, at = services.database, work.assignment, now()
    result = _result(database, account, assignment.id)
    # While others sit the exam, a mark would tell them a key.
    is_told = not assignment.is_exam or assignment.is_over(at)
    shows_keys, numbered = assignment.may_show_keys(at), enumerate(work.placed, 1)
    marks = {mark.item_id: mark for mark in result.marks} if is_told else {}
    return render(
        request,
        "quiz_result.html",
        account,
        assignment=assignment,
        work=work,
        result=result if is_told else None,
        ten=mark_of_ten(result) if is_told else None,
        lines=[result_line(n, placed, marks.get(placed.item.id), shows_key=shows_keys) for n, placed in numbered],
        answered=len(work.placed) - sum(mark.given is None for mark in result.marks),
        shows_keys=shows_keys,
        evidence=evidence_views(database, [each.item for each in work.placed]) if shows_keys else {},
        **views(),
    )


def _save(services: Any, account: Account, assignment_id: int, fields: Mapping[str, str]) -> Response:
    check_consent(services, account)
    database, address = services.database, f"/quizzes/{assignment_id}"
    work = _work(database, account, assignment_id)
    if work is None:
        raise NotFound("Em chưa bắt đầu bài này.")
    try:
        keep_given(database, list(own_classes(database, account)), assignment_id, account.owner, _given(work, fields))
    except HandedIn:
        return go(address, "Bài này em đã nộp rồi. Lần nộp đầu tiên được tính.")
    except TimeOver as error:
        return go(address, str(error))
    if "hand_in" in fields:
        return go(f"{address}/hand-in")
    return go(address, "Đã lưu bài làm. Em chưa nộp.")


def _given(work: Work, fields: Mapping[str, str]) -> dict[str, Any]:
    """What a form fills in: of every item of the page, so that what was emptied is empty."""
    return {placed.item.id: answer_in(placed, fields) for placed in work.placed}


def answer_in(placed: Placed, fields: Mapping[str, str]) -> str | dict[str, str]:
    """What the fields of a form answer to an item: a letter or text, or truths by letter."""
    name = f"{_FIELD}{placed.item.id}"
    if isinstance(placed.item, TrueFalse):
        truths = {letter: fields.get(f"{name}-{letter}", "") for letter in "abcd"}
        return {letter: truth for letter, truth in truths.items() if truth}
    return fields.get(name, "")


def _filled(placed: Placed, work: Work) -> Any:
    """What the fields of an item hold: a text, or truths by letter."""
    given = work.given.get(placed.item.id)
    if isinstance(placed.item, TrueFalse):
        return given if isinstance(given, dict) else {}
    return "" if given is None else str(given)


def _work(database: Database, account: Account, assignment_id: int) -> Work | None:
    return work_of(database, list(own_classes(database, account)), assignment_id, account.owner)


def _result(database: Database, account: Account, assignment_id: int) -> Result:
    return results_of(database, assignment_id, [account.owner])[0]


def check_consent(services: Any, account: Account) -> None:
    """Refuses a pupil whose guardian's consent is not on record.

    Raises:
        NotAllowed: it is not.
    """
    if not may_learn(services, account):
        raise NotAllowed(_NO_CONSENT)
