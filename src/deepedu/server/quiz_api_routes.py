"""The pupil's quizzes for scripts: drafts are kept while they are written, and handing in."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from deepedu.server.access import Student
from deepedu.server.quiz_taking_routes import check_consent, own_classes, state_of
from deepedu.server.quiz_view import number
from deepedu.server.tutor_routes import Services
from deepedu.store.tables import now
from deepedu.tutor.assignments import Assignment, assignments_of
from deepedu.tutor.classwork import Unreadable, begin, hand_in, keep_given, works_of

router = APIRouter(prefix="/api/quizzes", tags=["quizzes"])


class GivenBody(BaseModel):
    """Answers by item id: a letter, truths by letter (`{"a": "Đ"}`), or a text. Items left out stay as they were."""

    model_config = ConfigDict(extra="forbid")

    given: dict[str, str | dict[str, str]] = Field(max_length=200)


class QuizItem(BaseModel):
    """An assigned quiz in a list."""

    id: int
    title: str
    opens_at: datetime
    closes_at: datetime | None
    is_exam: bool
    state: str = Field(description="open, coming, done or missed")


class QuizItems(BaseModel):
    """What was given to the pupil's classes, newest first."""

    quizzes: list[QuizItem]


class WorkBody(BaseModel):
    """A work: its items as the pupil is shown them, and what was filled in. Never a key."""

    title: str
    items: list[dict[str, Any]]
    given: dict[str, Any]
    seconds_left: float | None
    finished_at: datetime | None


class KeptBody(BaseModel):
    """What was kept for good, and how much time is left by the server's clock."""

    kept: list[str]
    seconds_left: float | None


class HandedInBody(BaseModel):
    """The work is closed. Points are told where they may be by now."""

    finished_at: datetime
    points: str | None
    max_points: str | None


_RESPONSES: dict[int | str, dict[str, Any]] = {
    403: {"description": "The time is over."},
    404: {"description": "No such quiz of this pupil's classes, or not begun."},
    409: {"description": "It was handed in before."},
}


@router.get("", response_description="The quizzes.")
def list_quizzes(services: Services, account: Student) -> QuizItems:
    """What was given to the pupil's classes."""
    classes, at = own_classes(services.database, account), now()
    works = works_of(services.database, account.owner)
    return QuizItems(
        quizzes=[
            QuizItem(
                id=each.id,
                title=each.title,
                opens_at=each.opens_at,
                closes_at=each.closes_at,
                is_exam=each.is_exam,
                state=state_of(each, works, at),
            )
            for each in assignments_of(services.database, list(classes))
        ]
    )


@router.post("/{assignment_id}/begin", response_description="The work.", responses=_RESPONSES)
def begin_work(services: Services, account: Student, assignment_id: int) -> WorkBody:
    """Begins a work, or goes on with it."""
    check_consent(services, account)
    work = begin(services.database, list(own_classes(services.database, account)), assignment_id, account.owner)
    return WorkBody(
        title=work.assignment.title,
        items=[placed.shown() for placed in work.placed],
        given=work.given,
        seconds_left=_seconds_left(work.assignment),
        finished_at=work.finished_at,
    )


@router.put("/{assignment_id}/given", response_description="It is kept.", responses=_RESPONSES)
def keep(services: Services, account: Student, assignment_id: int, body: GivenBody) -> KeptBody:
    """Keeps what is filled in so far; once this has answered it is not lost any more."""
    check_consent(services, account)
    mine = list(own_classes(services.database, account))
    assignment = keep_given(services.database, mine, assignment_id, account.owner, body.given)
    return KeptBody(kept=sorted(body.given), seconds_left=_seconds_left(assignment))


@router.post(
    "/{assignment_id}/hand-in",
    response_description="It is handed in.",
    response_model=HandedInBody,
    responses={**_RESPONSES, 400: {"description": "Answers cannot be read: `details` tells which. Nothing is closed."}},
)
def hand_in_work(services: Services, account: Student, assignment_id: int, body: GivenBody) -> Any:
    """Hands a work in."""
    check_consent(services, account)
    mine = list(own_classes(services.database, account))
    try:
        result = hand_in(services.database, mine, assignment_id, account.owner, body.given)
    except Unreadable as error:
        told = {"code": error.code, "message": str(error), "details": error.problems}
        return JSONResponse({"error": told}, error.http_status)
    assignment = next(each for each in assignments_of(services.database, mine) if each.id == assignment_id)
    is_told = not assignment.is_exam or assignment.is_over(now())
    assert result.finished_at is not None, "what was just handed in is finished"
    return HandedInBody(
        finished_at=result.finished_at,
        points=number(result.points) if is_told else None,
        max_points=number(result.max_points) if is_told else None,
    )


def _seconds_left(assignment: Assignment) -> float | None:
    if assignment.closes_at is None:
        return None
    return max(0.0, (assignment.closes_at - now()).total_seconds())
