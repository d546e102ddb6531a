"""One pupil for the teachers of the pupil's classes: mastery with its reasons, results, activity, conversations.

``student_for`` answers for a foreign pupil as for none at all. Reading a conversation is written to the audit log.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest, KeyDestroyed, NotFound
from deepedu.school import audit
from deepedu.school.accounts import Account
from deepedu.school.classes import classes_of, student_for
from deepedu.server.access import Teacher
from deepedu.server.feedback_routes import LONGEST
from deepedu.server.maths import to_html
from deepedu.server.pages import go, render
from deepedu.server.plots import Bar, bars
from deepedu.server.turn_view import views_of
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.conversations import PastTurn, conversations_of, past_turns, turn_for
from deepedu.store.signals import keep_signal
from deepedu.store.tables import now
from deepedu.tutor.class_traces import lessons_of, results_of_learner, said_of, stretches_of
from deepedu.tutor.class_view import heat_cell, local_day, natural_order, study_minutes
from deepedu.tutor.classwork import attempts_of, close_overdue
from deepedu.tutor.mastery import explain
from deepedu.tutor.quiz_results import of_ten

router = APIRouter(include_in_schema=False)
SHOWN_DAYS = 28
EXPLAINED = 5
_NO_CONVERSATION = "Không có cuộc trò chuyện này của học sinh."


def learning_of(
    database: Database, student: Account, *, told_at: datetime | None = None, days: int = SHOWN_DAYS
) -> dict[str, Any]:
    """What a page shows of how a pupil learns; no words of the pupil.

    Args:
        told_at: mastery from those marks only that may be known outside of the school by then.

    Returns:
        ``skills``: ``(cell, explanation)`` of each skill; ``lessons``; ``results``, newest first; ``minutes`` by day,
        newest first; ``plot`` of them; ``shown_days``.
    """
    learner, present = student.learner_id or "", now()
    close_overdue(database, [each.id for each in classes_of(database, student)])
    since = present - timedelta(days=days)
    attempts = attempts_of(database, [learner], told_at=told_at)[learner]
    skills = sorted({attempt.skill for attempt in attempts}, key=natural_order)
    explained = [explain(attempts, skill, last=EXPLAINED) for skill in skills]
    minutes = study_minutes(stretches_of(database, [learner], since))
    shown = [local_day(present) - timedelta(days=back) for back in reversed(range(days))]
    series = [Bar(f"{day:%d/%m}", (round(minutes.get(day, 0.0)),)) for day in shown]
    return {
        "skills": [(heat_cell(each.mastery), each) for each in explained],
        "lessons": lessons_of(database, learner, since),
        "results": [(each, of_ten(each.points, each.max_points)) for each in results_of_learner(database, learner)],
        "minutes": [(day, max(1, round(minutes[day]))) for day in sorted(minutes, reverse=True)],
        "plot": bars(series, f"Số phút học mỗi ngày, {days} ngày gần đây"),
        "shown_days": days,
    }


@router.get("/teach/students/{public_id}", response_class=HTMLResponse)
def student_page(request: Request, services: Services, account: Teacher, public_id: str) -> HTMLResponse:
    """A pupil's learning and conversations. The list of conversations has the pupil's words, so it is logged too."""
    student = student_for(services.database, account, public_id)
    mine = {each.id: each for each in classes_of(services.database, account)}
    audit.log(services.database, account.public_id, "student.view", student.public_id)
    return render(
        request,
        "desk_student.html",
        account,
        student=student,
        classes=[each for each in classes_of(services.database, student) if each.id in mine],
        conversations=conversations_of(services.database, student.owner),
        **learning_of(services.database, student),
    )


@router.get("/teach/students/{public_id}/conversations/{conversation_id:int}", response_class=HTMLResponse)
def transcript(
    request: Request, services: Services, account: Teacher, public_id: str, conversation_id: int
) -> HTMLResponse:
    """A conversation as it was, with hints' reasons, struck sentences and what was said of answers."""
    student = student_for(services.database, account, public_id)
    return _transcript(request, services, account, student, conversation_id)


def _transcript(
    request: Request,
    services: Any,
    account: Account,
    student: Account,
    conversation_id: int,
    problem: tuple[int, str, str] | None = None,
) -> HTMLResponse:
    turns = read_transcript(services.database, account, student, conversation_id)
    return render(
        request,
        "desk_transcript.html",
        account,
        status=400 if problem else 200,
        student=student,
        conversation_id=conversation_id,
        turns=views_of(services.database, turns),
        times={turn.id: turn.started_at for turn in turns},
        signals=said_of(services.database, [turn.id for turn in turns]),
        longest=LONGEST,
        problem=problem,
        maths=to_html,
    )


def read_transcript(database: Database, reader: Account, student: Account, conversation_id: int) -> list[PastTurn]:
    """The turns of a pupil's conversation; that ``reader`` read them is written down.

    Raises:
        NotFound: no such conversation of this pupil, or its key is gone.
    """
    try:
        turns = past_turns(database, conversation_id, owner=student.owner)
    except (NotFound, KeyDestroyed) as error:
        raise NotFound(_NO_CONVERSATION) from error
    audit.log(database, reader.public_id, "conversation.read", student.public_id, f"conversation:{conversation_id}")
    return turns


@router.post("/teach/students/{public_id}/turns/{turn_id:int}/correction", response_class=HTMLResponse)
def correct(
    request: Request,
    services: Services,
    account: Teacher,
    public_id: str,
    turn_id: int,
    answer: Annotated[str, Form(max_length=LONGEST * 4)] = "",
) -> Response:
    """Keeps the teacher's right answer beside the tutor's; the playbook learns from it."""
    database = services.database
    student = student_for(database, account, public_id)
    try:
        turn = turn_for(database, turn_id, owner=student.owner)
    except (NotFound, KeyDestroyed) as error:
        raise NotFound(_NO_CONVERSATION) from error
    plain = answer.strip()
    try:
        if not 0 < len(plain) <= LONGEST:
            raise BadRequest(f"Cần từ 1 đến {LONGEST} ký tự, nhận được {len(plain)}: hãy sửa lại câu trả lời đúng.")
        keep_signal(database, turn_id, "correction", detail=plain, author=account.username)
    except (BadRequest, NotFound) as error:
        told = "Câu này chưa có câu trả lời nên không sửa được." if isinstance(error, NotFound) else str(error)
        return _transcript(request, services, account, student, turn.conversation_id, (turn_id, plain, told))
    audit.log(database, account.public_id, "answer.correct", student.public_id, f"turn:{turn_id}")
    address = f"/teach/students/{student.public_id}/conversations/{turn.conversation_id}#turn-{turn_id}"
    return go(address, "Đã ghi câu trả lời đúng. Sổ tay sẽ học từ đó.")
