"""How far a pupil is with each lesson, why, what is due for review today, and the short practice of it."""

import asyncio
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest, NotAllowed, NotFound
from deepedu.school.accounts import Account
from deepedu.server.access import Student
from deepedu.server.admission import may_learn
from deepedu.server.asking import pupil_of
from deepedu.server.pages import go, render
from deepedu.server.quiz_taking_routes import answer_in, check_consent, open_quizzes, own_classes, without_consent
from deepedu.server.quiz_view import evidence_views, result_line, views
from deepedu.server.rates import Rate
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.tables import now
from deepedu.tutor.class_view import natural_order
from deepedu.tutor.classwork import MarkedItem, attempts_of, keep_attempt
from deepedu.tutor.hints import Policy
from deepedu.tutor.mastery import Attempt, Explanation, Level, due, explain, trace
from deepedu.tutor.practice import practice_items
from deepedu.tutor.quiz import LETTERS, Placed, Quiz, arranged

router = APIRouter(include_in_schema=False)
Skill = Annotated[str, Form(max_length=500)]
KEPT_S = 2 * 60 * 60.0
EXAM_OFF = "Lớp em đang làm bài kiểm tra nên phần ôn tập tạm đóng. Hẹn em sau giờ kiểm tra."
# So many steps are told of an estimate.
_STEPS = 5


@dataclass(frozen=True)
class SkillView:
    """Where a pupil stands with a skill, and why. ``p_known`` is from 0 to 1."""

    skill: str
    level: Level
    p_known: float
    attempts: int
    last_at: datetime | None
    due_at: datetime | None
    is_due: bool
    why: Explanation


def skill_views(attempts: Sequence[Attempt], at: datetime) -> list[SkillView]:
    """Every skill that a pupil has attempted: what is due first, then by name. For ``progress_skills.html``."""
    mastery = trace(attempts)
    waiting = due(mastery, at)
    ordered = [*waiting, *sorted((skill for skill in mastery if skill not in waiting), key=natural_order)]
    return [
        SkillView(
            skill,
            mastery[skill].level,
            mastery[skill].p_known,
            mastery[skill].attempts,
            mastery[skill].last_at,
            mastery[skill].due_at,
            skill in waiting,
            explain(attempts, skill, last=_STEPS),
        )
        for skill in ordered
    ]


def today_of(services: Any, account: Account) -> dict[str, Any]:
    """What a pupil has to do today, for ``progress_today.html``: ``due`` skills and ``open`` quizzes."""
    if account.learner_id is None or not may_learn(services, account):
        return {"due": [], "open": []}
    at = now()
    attempts = attempts_of(services.database, [account.learner_id], told_at=at)[account.learner_id]
    return {"due": due(trace(attempts), at), "open": open_quizzes(services.database, account)}


@router.get("/progress", response_class=HTMLResponse)
def progress(request: Request, services: Services, account: Student) -> Response:
    """The pupil's own progress."""
    if not may_learn(services, account):
        return without_consent(request, services, account)
    at = now()
    attempts = attempts_of(services.database, [account.owner], told_at=at)[account.owner]
    skills = skill_views(attempts, at)
    return render(
        request,
        "progress.html",
        account,
        skills=skills,
        due=[each for each in skills if each.is_due],
        counts={level.value: sum(each.level is level for each in skills) for level in Level},
    )


# --- Practice --------------------------------------------------------------------------------------------------------


@dataclass
class Practice:
    """A short practice under way. ``lock`` is held while an answer is marked, so that each item is marked once."""

    owner: str
    placed: tuple[Placed, ...]
    subjects: dict[str, str | None]
    began_at: float = field(default_factory=time.monotonic)
    marks: dict[str, MarkedItem] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def current(self) -> int | None:
        """The place of the first item that is not answered, from 0."""
        return next((n for n, each in enumerate(self.placed) if each.item.id not in self.marks), None)


class Practices:
    """One for each pupil: a new one takes the place of the one before. In memory; what was marked is kept for good."""

    def __init__(self) -> None:
        self.rate = Rate(6, 60)
        self.making = asyncio.Semaphore(1)
        self._practices: dict[str, Practice] = {}
        self._lock = threading.Lock()

    def put(self, practice: Practice) -> str:
        """Keeps it; returns the token that names it."""
        token = secrets.token_urlsafe(12)
        with self._lock:
            self._practices = {
                key: each
                for key, each in self._practices.items()
                if each.owner != practice.owner and time.monotonic() - each.began_at < KEPT_S
            }
            self._practices[token] = practice
        return token

    def get(self, account: Account, token: str) -> Practice:
        """A pupil's practice.

        Raises:
            NotFound: none, another's, or forgotten by now: the three are not told apart.
        """
        with self._lock:
            found = self._practices.get(token)
        if found is None or found.owner != account.owner:
            raise NotFound("Lượt ôn này không còn. Những câu em đã trả lời vẫn được tính: hãy bắt đầu lượt mới.")
        return found


async def practices_of(request: Request) -> Practices:
    """The application's practices."""
    state = request.app.state
    if not hasattr(state, "practices"):
        state.practices = Practices()
    return state.practices


@router.post("/progress/practice")
async def begin_practice(request: Request, services: Services, account: Student, skill: Skill = "") -> Response:
    """Puts a practice together: of one skill, or of all that are due."""
    await asyncio.to_thread(_check_open, services, account)
    practices = await practices_of(request)
    practices.rate.take(account.owner)
    skills = [skill] if skill else (await asyncio.to_thread(today_of, services, account))["due"]
    classes = await asyncio.to_thread(own_classes, services.database, account)
    at = now()
    async with practices.making:
        chosen = await practice_items(services.database, list(classes), account.owner, skills, at)
    if not chosen:
        return go("/progress", "Chưa có câu hỏi nào để ôn bài này. Em có thể đọc lại bài hoặc hỏi gia sư.")
    quiz = Quiz(title="Ôn tập", items=tuple(item for item, _ in chosen))
    placed = arranged(quiz, f"{account.owner} {at.isoformat()}")
    subjects = {item.id: subject for item, subject in chosen}
    return go(f"/progress/practice/{practices.put(Practice(account.owner, placed, subjects))}")


@router.get("/progress/practice/{token}", response_class=HTMLResponse)
async def practice_page(request: Request, services: Services, account: Student, token: str) -> Response:
    """What was answered, with its explanation, and the next item."""
    await asyncio.to_thread(_check_open, services, account)
    practice = (await practices_of(request)).get(account, token)
    return await asyncio.to_thread(_practice_page, request, services, account, token, practice)


@router.post("/progress/practice/{token}", response_class=HTMLResponse)
async def answer(request: Request, services: Services, account: Student, token: str) -> Response:
    """Marks one answer at once; a second click finds it marked."""
    async with request.form() as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    practice = (await practices_of(request)).get(account, token)
    return await asyncio.to_thread(_answer, request, services, account, token, practice, fields)


def _answer(
    request: Request, services: Any, account: Account, token: str, practice: Practice, fields: dict[str, str]
) -> Response:
    _check_open(services, account)
    place = next((n for n, each in enumerate(practice.placed) if each.item.id == fields.get("item")), None)
    if place is None:
        raise NotFound("Không có câu hỏi này trong lượt ôn: hãy mở lại lượt ôn.")
    placed = practice.placed[place]
    try:
        with practice.lock:
            if placed.item.id not in practice.marks:
                given = answer_in(placed, fields)
                subject = practice.subjects.get(placed.item.id)
                practice.marks[placed.item.id] = keep_attempt(services.database, account.owner, placed, given, subject)
    except BadRequest as error:
        return _practice_page(request, services, account, token, practice, str(error), fields)
    return go(f"/progress/practice/{token}#item-{place + 1}")


def _practice_page(
    request: Request,
    services: Any,
    account: Account,
    token: str,
    practice: Practice,
    error: str = "",
    fields: dict[str, str] | None = None,
) -> Response:
    done = [each for each in practice.placed if each.item.id in practice.marks]
    numbers = {each.item.id: n for n, each in enumerate(practice.placed, 1)}
    current = practice.current
    upcoming = None if current is None else practice.placed[current]
    return render(
        request,
        "progress_practice.html",
        account,
        status=400 if error else 200,
        token=token,
        lines=[result_line(numbers[each.item.id], each, practice.marks[each.item.id], shows_key=True) for each in done],
        evidence=evidence_views(services.database, [each.item for each in done]),
        item=None if upcoming is None else upcoming.shown(),
        filled=None if upcoming is None else answer_in(upcoming, fields or {}),
        number_now=None if current is None else current + 1,
        total=len(practice.placed),
        right=sum(mark.score == 1 for mark in practice.marks.values()),
        error=error,
        letters=LETTERS,
        **views(),
    )


def _check_open(services: Any, account: Account) -> None:
    """Refuses practice without consent, and while the pupil's class sits an exam.

    Raises:
        NotAllowed: one of the two.
    """
    check_consent(services, account)
    database: Database = services.database
    if pupil_of(database, account).policy is Policy.EXAM_OFF:
        raise NotAllowed(EXAM_OFF)
