"""The guardian's pages: what one's children have studied, in plain words; conversations only where the school allows.

``children_of`` and ``student_for`` are asked on every request, so a right that was revoked ends at once.
"""

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from deepedu.base.errors import NotFound
from deepedu.school.classes import children_of, classes_of, has_consent, student_for
from deepedu.server.access import Guardian
from deepedu.server.maths import to_html
from deepedu.server.pages import render
from deepedu.server.student_routes import learning_of, read_transcript
from deepedu.server.turn_view import views_of
from deepedu.server.tutor_routes import Services
from deepedu.store.conversations import conversations_of
from deepedu.store.tables import now
from deepedu.tutor.class_traces import last_active, pupils_of, stretches_of
from deepedu.tutor.class_view import by_owner, is_released, study_minutes, week_start

router = APIRouter(include_in_schema=False)


@router.get("/family", response_class=HTMLResponse)
def family(request: Request, services: Services, account: Guardian) -> HTMLResponse:
    """The guardian's children as cards."""
    database, present = services.database, now()
    children = children_of(database, account)
    learners = [child.learner_id for child in children if child.learner_id]
    of = by_owner(stretches_of(database, learners, week_start(present)))
    week = {learner: study_minutes(of.get(learner, ())) for learner in learners}
    return render(
        request,
        "family.html",
        account,
        children=children,
        classes={learner: names for learner, (_, names) in pupils_of(database, learners).items()},
        consents={child.public_id: has_consent(database, child) for child in children},
        last=last_active(database, learners),
        days={learner: len(minutes) for learner, minutes in week.items()},
        minutes={learner: round(sum(minutes.values())) for learner, minutes in week.items()},
    )


@router.get("/family/{public_id}", response_class=HTMLResponse)
def child_page(request: Request, services: Services, account: Guardian, public_id: str) -> HTMLResponse:
    """What a child has studied, how far it is, and results of quizzes that are over."""
    database = services.database
    child = student_for(database, account, public_id)
    present = now()
    learning = learning_of(database, child, told_at=present)
    released = [(r, ten) for r, ten in learning["results"] if r.finished_at and is_released(r.assignment, present)]
    recent = present - timedelta(days=learning["shown_days"])
    may_read = services.settings.school.guardian_transcripts
    return render(
        request,
        "family_child.html",
        account,
        child=child,
        classes=classes_of(database, child),
        has_consent=has_consent(database, child),
        recent=recent,
        conversations=conversations_of(database, child.owner) if may_read else None,
        **{**learning, "results": released},
    )


@router.get("/family/{public_id}/conversations/{conversation_id:int}", response_class=HTMLResponse)
def child_transcript(
    request: Request, services: Services, account: Guardian, public_id: str, conversation_id: int
) -> HTMLResponse:
    """A child's conversation, where the school lets guardians read them; reading it is written to the audit log."""
    child = student_for(services.database, account, public_id)
    if not services.settings.school.guardian_transcripts:
        raise NotFound("Không có trang này.")
    turns = read_transcript(services.database, account, child, conversation_id)
    return render(
        request,
        "family_transcript.html",
        account,
        child=child,
        turns=views_of(services.database, turns),
        times={turn.id: turn.started_at for turn in turns},
        maths=to_html,
    )
