"""Safety flags for the adults who answer for pupils: what was said, around it, and that somebody has looked."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from deepedu.base.errors import KeyDestroyed, NotFound
from deepedu.school import audit
from deepedu.school.accounts import Account
from deepedu.server.access import Staff
from deepedu.server.asking import help_lines
from deepedu.server.maths import to_html
from deepedu.server.pages import go, render
from deepedu.server.safety_watch import watched_kinds, watched_learners
from deepedu.server.turn_view import views_of
from deepedu.server.tutor_routes import Services
from deepedu.store.conversations import past_turns
from deepedu.store.flags import RaisedFlag, flags_of, mark_seen
from deepedu.tutor.class_traces import pupils_of, said_of

router = APIRouter(include_in_schema=False)
SHOWN = 100
# Turns before and after the one that was flagged: enough to understand it, and no more.
AROUND = 2


@router.get("/safety", response_class=HTMLResponse)
def safety(
    request: Request, services: Services, account: Staff, show: Literal["all", "unseen"] = "all"
) -> HTMLResponse:
    """Safety flags of the pupils whom this person answers for, newest first."""
    flags = _flags(services, account, unseen=show == "unseen")[:SHOWN]
    if flags:
        audit.log(services.database, account.public_id, "safety.list", "flags", f"{len(flags)}")
    return render(
        request,
        "desk_safety.html",
        account,
        flags=[(flag, *_words(flag)) for flag in flags],
        pupils=pupils_of(services.database, [flag.learner_id for flag in flags]),
        show=show,
        most=SHOWN,
        help_lines=help_lines(services.settings.school),
    )


@router.get("/safety/{flag_id:int}", response_class=HTMLResponse)
def around(request: Request, services: Services, account: Staff, flag_id: int) -> HTMLResponse:
    """The flagged turn with those around it. Opening it is written to the audit log."""
    flag, pupil = _flag(services, account, flag_id)
    try:
        turns = past_turns(services.database, flag.conversation_id, owner=flag.learner_id)
    except (NotFound, KeyDestroyed) as error:
        raise NotFound("Cuộc trò chuyện này đã bị xoá.") from error
    place = next((number for number, turn in enumerate(turns) if turn.id == flag.turn_id), len(turns) - 1)
    shown = turns[max(0, place - AROUND) : place + AROUND + 1]
    audit.log(services.database, account.public_id, "safety.read", pupil.public_id, f"flag:{flag_id}")
    return render(
        request,
        "desk_safety_turns.html",
        account,
        flag=flag,
        pupil=pupil,
        told=_words(flag),
        turns=views_of(services.database, shown),
        times={turn.id: turn.started_at for turn in shown},
        signals=said_of(services.database, [turn.id for turn in shown]),
        maths=to_html,
        help_lines=help_lines(services.settings.school),
    )


@router.post("/safety/{flag_id:int}/seen")
def seen(services: Services, account: Staff, flag_id: int) -> RedirectResponse:
    """Notes that this person has looked at a flag."""
    flag = next((each for each in _flags(services, account) if each.id == flag_id), None)
    if flag is None:
        raise NotFound(f"Không có cảnh báo số {flag_id} trong danh sách của thầy cô.")
    mark_seen(services.database, flag_id, account.id, watched_learners(services, account))
    # One that came through a program's key has no pupil, and can be seen all the same.
    pupil = pupils_of(services.database, [flag.learner_id]).get(flag.learner_id)
    subject = pupil[0].public_id if pupil else f"flag:{flag_id}"
    audit.log(services.database, account.public_id, "safety.seen", subject, f"flag:{flag_id}")
    return go("/safety", "Đã ghi nhận là đã xem.")


def _flags(services: Any, account: Account, *, unseen: bool = False) -> list[RaisedFlag]:
    kinds = watched_kinds(services, account)
    return flags_of(services.database, watched_learners(services, account), kinds=kinds, unseen=unseen)


def _flag(services: Any, account: Account, flag_id: int) -> tuple[RaisedFlag, Account]:
    flag = next((each for each in _flags(services, account) if each.id == flag_id), None)
    found = pupils_of(services.database, [flag.learner_id]) if flag is not None else {}
    if flag is None or flag.learner_id not in found:
        raise NotFound(f"Không có cảnh báo số {flag_id} trong danh sách của thầy cô.")
    return flag, found[flag.learner_id][0]


def _words(flag: RaisedFlag) -> tuple[str, str]:
    """What a flag is about, and the pupil's words that told it."""
    kind, _, words = flag.detail.partition(": ")
    return kind, words
