"""Quizzes at work: given to classes, filled in, handed in, marked. Attempts, and nothing else, move mastery.

What pupils give is sealed with their own keys. Marks are computed once, in the transaction that closes the work; a quiz
that was given to a class changes no more (see ``quiz_shelf``).
"""

import json
import logging
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
import sqlalchemy.exc
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, DeepEduError, KeyDestroyed, NotAllowed, NotFound
from deepedu.store import Database
from deepedu.store.tables import QuizAssignment, StoredAttempt, Submission, now
from deepedu.tutor.assignments import GRACE, Assignment, TimeOver, assigned_quiz
from deepedu.tutor.mastery import Attempt, SkillMastery, trace
from deepedu.tutor.quiz import Item, Mark, Placed, Quiz, Short, arranged
from deepedu.tutor.quiz_reading import Given, is_blank, is_number

log = logging.getLogger(__name__)

_LONGEST_GIVEN = 2000


class HandedIn(NotAllowed):
    """The work was handed in before."""

    code = "handed_in"
    http_status = 409


class Unreadable(BadRequest):
    """Answers that cannot be read; ``problems`` tells by item id what was expected."""

    code = "unreadable_answer"

    def __init__(self, message: str, problems: Mapping[str, str]) -> None:
        super().__init__(message)
        self.problems = dict(problems)


@dataclass(frozen=True)
class Work:
    """One pupil's work on an assignment: the items in the pupil's order, and what was filled in so far, by item id."""

    id: int
    assignment: Assignment
    quiz: Quiz
    placed: tuple[Placed, ...]
    given: dict[str, Any]
    started_at: datetime
    finished_at: datetime | None

    def unanswered(self) -> list[int]:
        """Numbers, from 1 in the pupil's order, of items without an answer or with statements that have none."""
        return [number for number, each in enumerate(self.placed, 1) if _is_open(each, self.given.get(each.item.id))]

    def problems(self) -> dict[str, str]:
        """What could not be read if it were handed in now, by item id."""
        return _marked(self.placed, self.given, self.quiz.subject)[1]


@dataclass(frozen=True)
class MarkedItem:
    """One marked item of a finished work. ``given`` in the item's own order, None where nothing was answered."""

    item_id: str
    skill: str
    score: float
    points: Decimal
    max_points: Decimal
    right: tuple[bool, ...]
    given: str | None


@dataclass(frozen=True)
class Result:
    """A pupil's marks on an assignment; ``marks`` is empty until the work is handed in."""

    learner_id: str
    started_at: datetime
    finished_at: datetime | None
    marks: tuple[MarkedItem, ...]

    @property
    def points(self) -> Decimal:
        return sum((mark.points for mark in self.marks), Decimal(0))

    @property
    def max_points(self) -> Decimal:
        return sum((mark.max_points for mark in self.marks), Decimal(0))


def results_of(database: Database, assignment_id: int, learner_ids: Sequence[str]) -> list[Result]:
    """The work of some pupils on an assignment; pupils who have not begun are left out."""
    with database.read() as session:
        rows = session.scalars(
            sa.select(Submission).where(
                Submission.assignment_id == assignment_id, Submission.learner_id.in_(learner_ids)
            )
        ).all()
        attempts = _attempt_rows(session, [row.id for row in rows])
        return [
            Result(row.learner_id, row.started_at, row.finished_at, _marks(database, attempts[row.id])) for row in rows
        ]


# --- Pupils ----------------------------------------------------------------------------------------------------------


def begin(database: Database, class_ids: Sequence[int], assignment_id: int, learner_id: str) -> Work:
    """A pupil's work on an assignment, begun now if it was not before; what was begun can be read after closing.

    Raises:
        NotFound: no such assignment of these classes.
        TimeOver: it is not open, and was not begun.
    """
    try:
        with database.write() as session:
            assignment, quiz = assigned_quiz(session, class_ids, assignment_id)
            row = _submission(session, assignment_id, learner_id)
            if row is None:
                if not assignment.is_open(now()):
                    raise TimeOver("Bài này chưa mở hoặc đã hết giờ.")
                # From our clock, not the database's: closing is judged by it too.
                row = Submission(
                    assignment_id=assignment_id, learner_id=learner_id, seed=secrets.randbelow(2**31), started_at=now()
                )
                session.add(row)
                session.flush()
            return _work(database, assignment, quiz, row)
    except sqlalchemy.exc.IntegrityError:
        # Begun in another tab at the same moment.
        found = work_of(database, class_ids, assignment_id, learner_id)
        assert found is not None, "a pupil's second work on an assignment was refused, so there is a first"
        return found


def work_of(database: Database, class_ids: Sequence[int], assignment_id: int, learner_id: str) -> Work | None:
    """A pupil's work on an assignment; None: not begun.

    Raises:
        NotFound: no such assignment of these classes.
    """
    with database.read() as session:
        assignment, quiz = assigned_quiz(session, class_ids, assignment_id)
        row = _submission(session, assignment_id, learner_id)
        return None if row is None else _work(database, assignment, quiz, row)


def works_of(database: Database, learner_id: str) -> dict[int, datetime | None]:
    """What a pupil has begun: by assignment, when it was handed in; None: not yet."""
    with database.read() as session:
        wanted = sa.select(Submission).where(Submission.learner_id == learner_id)
        return {row.assignment_id: row.finished_at for row in session.scalars(wanted)}


def keep_given(
    database: Database, class_ids: Sequence[int], assignment_id: int, learner_id: str, given: Mapping[str, Given]
) -> Assignment:
    """Keeps what is filled in so far; items that ``given`` does not name stay as they were.

    Raises:
        NotFound: no such assignment of these classes, or not begun.
        HandedIn: the work was handed in.
        TimeOver: the time is over.
        BadRequest: an answer is far too long to be one.
    """
    with database.write() as session:
        assignment, quiz = assigned_quiz(session, class_ids, assignment_id)
        row = _unfinished(session, assignment, learner_id)
        _fill(database, quiz, row, given)
        return assignment


def hand_in(
    database: Database, class_ids: Sequence[int], assignment_id: int, learner_id: str, given: Mapping[str, Given]
) -> Result:
    """Closes a work with what is given, marks it, and keeps the attempts: all of it or nothing.

    What is given is kept even where the work is not closed for it. Once the time is over there is none left to mend an
    answer: what cannot be read counts as not answered then.

    Raises:
        NotFound: no such assignment of these classes, or not begun.
        HandedIn: the work was handed in before; the first time counts.
        TimeOver: the time is over; what was kept before is marked by ``close_overdue``.
        Unreadable: answers cannot be read. Nothing is closed then.
    """
    if given:
        keep_given(database, class_ids, assignment_id, learner_id, given)
    with database.write() as session:
        assignment, quiz = assigned_quiz(session, class_ids, assignment_id)
        row = _unfinished(session, assignment, learner_id)
        return _close(session, database, assignment, quiz, row, is_late=not assignment.is_open(now()))


def close_overdue(database: Database, class_ids: Sequence[int] | None = None) -> int:
    """Hands in what was begun and not handed in when its time was over; returns how many. What cannot be read counts as
    not answered. Each work is closed by itself, so that a damaged one holds no other up."""
    overdue = (
        sa.select(Submission.id)
        .join(QuizAssignment, QuizAssignment.id == Submission.assignment_id)
        .where(Submission.finished_at.is_(None), QuizAssignment.closes_at <= now() - GRACE)
    )
    if class_ids is not None:
        overdue = overdue.where(QuizAssignment.class_id.in_(class_ids))
    with database.read() as session:
        waiting = session.scalars(overdue).all()
    closed = 0
    for submission_id in waiting:
        try:
            closed += _close_one(database, submission_id)
        except KeyDestroyed:
            continue
        except DeepEduError as error:
            log.warning("work %d is overdue and cannot be closed: %s", submission_id, error)
    return closed


def keep_attempt(database: Database, learner_id: str, placed: Placed, given: Given, subject: str | None) -> MarkedItem:
    """Marks an answer that belongs to no assignment and keeps the attempt.

    Raises:
        BadRequest: the answer cannot be read, or is none.
    """
    if is_blank(given):
        raise BadRequest("Em chưa trả lời: hãy trả lời rồi bấm lại.")
    _check_number(placed.item, given)
    marked = _told(placed.item, placed.mark(given, subject=subject))
    with database.write() as session:
        session.add(_attempt_row(database, learner_id, None, marked, now()))
    return marked


def attempts_of(
    database: Database, learner_ids: Sequence[str], *, told_at: datetime | None = None
) -> dict[str, list[Attempt]]:
    """All attempts of some pupils at items that name a skill, by pupil.

    Args:
        told_at: only those whose marks the pupils may know by then: not those of an exam that others still sit.
    """
    found: dict[str, list[Attempt]] = {learner: [] for learner in learner_ids}
    # Columns, not an object for each row: a class has ten thousand.
    wanted = sa.select(
        StoredAttempt.id, StoredAttempt.learner_id, StoredAttempt.skill, StoredAttempt.at, StoredAttempt.marked
    ).where(StoredAttempt.learner_id.in_(learner_ids), StoredAttempt.skill != "")
    if told_at is not None:
        sat = (
            sa.select(Submission.id)
            .join(QuizAssignment, QuizAssignment.id == Submission.assignment_id)
            .where(QuizAssignment.is_exam, QuizAssignment.closes_at > told_at - GRACE)
        )
        wanted = wanted.where(sa.or_(StoredAttempt.submission_id.is_(None), StoredAttempt.submission_id.not_in(sat)))
    with database.read() as session:
        for row in session.execute(wanted):
            try:
                score = json.loads(database.vault.open(row.marked))["score"]
            except KeyDestroyed:
                continue
            attempt = Attempt(skill=row.skill, score=score, at=row.at, id=str(row.id))
            found[row.learner_id].append(attempt)
    return found


def score_of(database: Database, row: StoredAttempt) -> float:
    """The score of a kept attempt, 0 to 1.

    Raises:
        KeyDestroyed: the pupil was erased.
    """
    return json.loads(database.vault.open(row.marked))["score"]


def mastery_of(database: Database, learner_ids: Sequence[str]) -> dict[str, Mapping[str, SkillMastery]]:
    """Where pupils stand with each skill, computed from their attempts alone."""
    return {learner: trace(attempts) for learner, attempts in attempts_of(database, learner_ids).items()}


# --- Inside ----------------------------------------------------------------------------------------------------------


def _submission(session: Session, assignment_id: int, learner_id: str) -> Submission | None:
    return session.scalar(
        sa.select(Submission).where(Submission.assignment_id == assignment_id, Submission.learner_id == learner_id)
    )


def _unfinished(session: Session, assignment: Assignment, learner_id: str) -> Submission:
    row = session.scalar(
        sa.select(Submission)
        .where(Submission.assignment_id == assignment.id, Submission.learner_id == learner_id)
        # Of two who close it at once, the second waits and finds it closed.
        .with_for_update()
    )
    if row is None:
        raise NotFound("Em chưa bắt đầu bài này.")
    if row.finished_at is not None:
        raise HandedIn("Bài này đã nộp rồi.")
    if assignment.is_over(now()):
        raise TimeOver("Đã hết giờ làm bài: những câu đã lưu được tính là bài nộp.")
    return row


def _work(database: Database, assignment: Assignment, quiz: Quiz, row: Submission) -> Work:
    placed = arranged(quiz, row.seed)
    return Work(row.id, assignment, quiz, placed, _given(database, row), row.started_at, row.finished_at)


def _given(database: Database, row: Submission) -> dict[str, Any]:
    return json.loads(database.vault.open(row.given)) if row.given else {}


def _fill(database: Database, quiz: Quiz, row: Submission, given: Mapping[str, Given]) -> None:
    known = {item.id for item in quiz.items}
    fresh = {item_id: value for item_id, value in given.items() if item_id in known}
    for value in fresh.values():
        if len(json.dumps(value, ensure_ascii=False)) > _LONGEST_GIVEN:
            raise BadRequest(f"Một câu trả lời dài quá {_LONGEST_GIVEN} kí tự: hãy viết ngắn lại.")
    row.given = database.vault.seal(row.learner_id, json.dumps(_given(database, row) | fresh, ensure_ascii=False))


def _close_one(database: Database, submission_id: int) -> bool:
    """Closes an overdue work, unless it was closed by now or its assignment got more time."""
    with database.write() as session:
        row = session.get(Submission, submission_id, with_for_update=True)
        if row is None or row.finished_at is not None:
            return False
        assigned = session.get_one(QuizAssignment, row.assignment_id)
        assignment, quiz = assigned_quiz(session, [assigned.class_id], assigned.id)
        if not assignment.is_over(now()):
            return False
        _close(session, database, assignment, quiz, row, is_late=True)
        return True


def _close(
    session: Session, database: Database, assignment: Assignment, quiz: Quiz, row: Submission, *, is_late: bool
) -> Result:
    placed, at = arranged(quiz, row.seed), now()
    at = at if assignment.closes_at is None else min(at, assignment.closes_at)
    marks, problems = _marked(placed, _given(database, row), quiz.subject)
    if problems and not is_late:
        numbers = [number for number, each in enumerate(placed, 1) if each.item.id in problems]
        told = "; ".join(f"Câu {n}: {problems[placed[n - 1].item.id]}" for n in numbers)
        raise Unreadable(f"Chưa nộp được. {told}", problems)
    session.add_all(_attempt_row(database, row.learner_id, row.id, mark, at) for mark in marks)
    row.finished_at = at
    session.flush()
    return Result(row.learner_id, row.started_at, row.finished_at, tuple(marks))


def _marked(
    placed: Sequence[Placed], given: Mapping[str, Given], subject: str | None
) -> tuple[list[MarkedItem], dict[str, str]]:
    """Every item marked, and what could not be read, by item id: it is marked as not answered."""
    marks: list[MarkedItem] = []
    problems: dict[str, str] = {}
    for each in placed:
        said = given.get(each.item.id)
        try:
            _check_number(each.item, said)
            mark = each.mark(None if is_blank(said) else said, subject=subject)
        except BadRequest as error:
            problems[each.item.id] = str(error)
            mark = each.mark(None, subject=subject)
        marks.append(_told(each.item, mark))
    return marks, problems


def _check_number(item: Item, given: Given) -> None:
    """Refuses words where the pupil is told that a number is wanted: by the unit beside the answer, or the rounding."""
    asks_number = isinstance(item, Short) and (item.unit or item.decimals is not None)
    if asks_number and isinstance(given, str) and not is_blank(given) and not is_number(given):
        raise BadRequest(f"cần một số, ví dụ “0,5” hoặc “1/2”, nhận được “{given[:40]}”")


def _is_open(placed: Placed, given: Given) -> bool:
    if is_blank(given):
        return True
    try:
        mark = placed.mark(given)
    except BadRequest:
        return False
    return mark.given is not None and not isinstance(placed.item, Short) and "-" in mark.given


def _told(item: Item, mark: Mark) -> MarkedItem:
    return MarkedItem(item.id, item.skill, mark.score, mark.points, mark.max_points, mark.right, mark.given)


def _attempt_row(
    database: Database, learner_id: str, submission_id: int | None, mark: MarkedItem, at: datetime
) -> StoredAttempt:
    plain = {
        "score": mark.score,
        "points": str(mark.points),
        "max_points": str(mark.max_points),
        "right": list(mark.right),
        "given": mark.given,
    }
    return StoredAttempt(
        learner_id=learner_id,
        submission_id=submission_id,
        item_id=mark.item_id,
        skill=mark.skill,
        marked=database.vault.seal(learner_id, json.dumps(plain, ensure_ascii=False)),
        at=at,
    )


def _attempt_rows(session: Session, submission_ids: Sequence[int]) -> defaultdict[int, list[StoredAttempt]]:
    found: defaultdict[int, list[StoredAttempt]] = defaultdict(list)
    wanted = sa.select(StoredAttempt).where(StoredAttempt.submission_id.in_(submission_ids)).order_by(StoredAttempt.id)
    for row in session.scalars(wanted):
        if row.submission_id is not None:
            found[row.submission_id].append(row)
    return found


def _marks(database: Database, rows: Sequence[StoredAttempt]) -> tuple[MarkedItem, ...]:
    marks: list[MarkedItem] = []
    for row in rows:
        try:
            plain = json.loads(database.vault.open(row.marked))
        except KeyDestroyed:
            continue
        points, most = Decimal(plain["points"]), Decimal(plain["max_points"])
        right, given = tuple(plain["right"]), plain["given"]
        marks.append(MarkedItem(row.item_id, row.skill, plain["score"], points, most, right, given))
    return tuple(marks)
