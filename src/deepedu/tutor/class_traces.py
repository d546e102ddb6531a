"""Reads what learners left: turns, submissions, marked answers, flags. One question to the database for each kind,
however many learners; what a destroyed key sealed is left out."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import KeyDestroyed
from deepedu.school.accounts import Account, account_of
from deepedu.school.classes import Classroom
from deepedu.store import Database
from deepedu.store.conversations import PastTurn
from deepedu.store.tables import (
    ClassMember,
    Conversation,
    Flag,
    Person,
    QuizAssignment,
    SchoolClass,
    StoredAttempt,
    StoredQuiz,
    Submission,
    Turn,
    TurnSignal,
)
from deepedu.tutor.alike_questions import AskedQuestion
from deepedu.tutor.assignments import Assignment
from deepedu.tutor.class_view import MarkedAnswer, Stretch, week_start
from deepedu.tutor.quiz import read_item

# More would keep a page waiting, and tell nothing new.
MOST_QUESTIONS = 5000


@dataclass(frozen=True)
class ClassCard:
    """A class at a glance. ``active``: pupils who asked or sat a quiz since Monday. Flags are those not yet seen."""

    classroom: Classroom
    pupils: int
    active: int
    safety_flags: int
    answer_flags: int
    open_quizzes: int


@dataclass(frozen=True)
class QuizResult:
    """One learner's work on an assignment; no points before it is handed in."""

    assignment: Assignment
    started_at: datetime
    finished_at: datetime | None
    points: Decimal
    max_points: Decimal


@dataclass(frozen=True)
class Said:
    """What somebody said of an answer. ``author``: a teacher's username, empty for the asker."""

    kind: str
    detail: str
    author: str
    at: datetime


@dataclass(frozen=True)
class StudiedLesson:
    """A lesson that a learner's answers and hints led to."""

    book: str
    lesson: str
    times: int
    last_at: datetime


def class_cards(database: Database, classrooms: Sequence[Classroom], at: datetime) -> list[ClassCard]:
    """The classes as cards, in the order given."""
    ids = [each.id for each in classrooms]
    pupils = (
        sa.select(ClassMember.class_id, Person.learner_id)
        .join(Person, Person.id == ClassMember.person_id)
        .where(ClassMember.class_id.in_(ids), Person.role == "student", Person.is_active)
    )
    is_open = sa.and_(
        QuizAssignment.opens_at <= at, sa.or_(QuizAssignment.closes_at.is_(None), QuizAssignment.closes_at > at)
    )
    given = sa.select(QuizAssignment.class_id).where(QuizAssignment.class_id.in_(ids), is_open)
    with database.read() as session:
        learners: defaultdict[int, set[str]] = defaultdict(set)
        for class_id, learner in session.execute(pupils):
            learners[class_id].add(learner or "")
        everybody = sorted({learner for found in learners.values() for learner in found})
        flags = _unseen(session, everybody)
        active = _active(session, everybody, week_start(at))
        opened = Counter[int](session.scalars(given).all())
    return [
        ClassCard(
            each,
            len(learners[each.id]),
            len(active & learners[each.id]),
            sum(flags[learner, "safety"] for learner in learners[each.id]),
            sum(flags[learner, kind] for learner in learners[each.id] for kind in ("grounding", "wrong")),
            opened[each.id],
        )
        for each in classrooms
    ]


def pupils_of(database: Database, learner_ids: Sequence[str]) -> dict[str, tuple[Account, tuple[str, ...]]]:
    """Who some learners are, with the names of their classes, newest year first."""
    classes = (
        sa.select(Person, SchoolClass.name)
        .outerjoin(ClassMember, ClassMember.person_id == Person.id)
        .outerjoin(SchoolClass, SchoolClass.id == ClassMember.class_id)
        .where(Person.learner_id.in_(learner_ids))
        .order_by(SchoolClass.school_year.desc(), SchoolClass.name)
    )
    found: dict[str, tuple[Account, tuple[str, ...]]] = {}
    with database.read() as session:
        for person, name in session.execute(classes):
            account, names = found.get(person.learner_id or "", (account_of(person), ()))
            found[person.learner_id or ""] = (account, (*names, name) if name else names)
    return found


def stretches_of(database: Database, learner_ids: Sequence[str], since: datetime) -> list[Stretch]:
    """Turns and quizzes of some learners that began at ``since`` or later."""
    turns = (
        sa.select(Conversation.owner, Turn.started_at, Turn.finished_at)
        .join(Turn, Turn.conversation_id == Conversation.id)
        .where(Conversation.owner.in_(learner_ids), Turn.started_at >= since)
    )
    works = sa.select(Submission.learner_id, Submission.started_at, Submission.finished_at).where(
        Submission.learner_id.in_(learner_ids), Submission.started_at >= since
    )
    with database.read() as session:
        asked = [Stretch(owner or "", start, end) for owner, start, end in session.execute(turns)]
        return asked + [Stretch(owner, start, end, is_quiz=True) for owner, start, end in session.execute(works)]


def last_active(database: Database, learner_ids: Sequence[str]) -> dict[str, datetime]:
    """When each learner last asked or sat a quiz; who never did is left out."""
    turns = (
        sa.select(Conversation.owner, sa.func.max(Turn.started_at))
        .join(Turn, Turn.conversation_id == Conversation.id)
        .where(Conversation.owner.in_(learner_ids))
        .group_by(Conversation.owner)
    )
    works = (
        sa.select(Submission.learner_id, sa.func.max(Submission.started_at))
        .where(Submission.learner_id.in_(learner_ids))
        .group_by(Submission.learner_id)
    )
    found: dict[str, datetime] = {}
    with database.read() as session:
        for owner, at in (*session.execute(turns), *session.execute(works)):
            found[owner or ""] = max(at, found.get(owner or "", at))
    return found


def questions_of(database: Database, learner_ids: Sequence[str], since: datetime) -> list[AskedQuestion]:
    """Questions that some learners asked since, the newest ``MOST_QUESTIONS``. What told of danger is no question of a
    lesson and stays with who watches over it."""
    told = sa.exists().where(Flag.turn_id == Turn.id, Flag.kind == "safety")
    wanted = (
        sa.select(Conversation.owner, Turn.question)
        .join(Turn, Turn.conversation_id == Conversation.id)
        .where(Conversation.owner.in_(learner_ids), Turn.started_at >= since, Turn.status == "done", ~told)
        .order_by(Turn.id.desc())
        .limit(MOST_QUESTIONS)
    )
    with database.read() as session:
        rows = [(owner or "", question) for owner, question in session.execute(wanted)]
    return [AskedQuestion(owner, question) for owner, question in _opened(database, rows)]


def marked_answers(database: Database, learner_ids: Sequence[str], since: datetime) -> list[MarkedAnswer]:
    """Every marked answer of some learners since, with the item it was given to."""
    wanted = sa.select(
        StoredAttempt.learner_id, StoredAttempt.item_id, StoredAttempt.skill, StoredAttempt.marked
    ).where(StoredAttempt.learner_id.in_(learner_ids), StoredAttempt.at >= since)
    with database.read() as session:
        rows = [(row, row.marked) for row in session.execute(wanted)]
    return [
        MarkedAnswer(row.learner_id, row.item_id, row.skill, json.loads(marked)["score"])
        for row, marked in _opened(database, rows)
    ]


def quiz_items(database: Database, class_id: int) -> dict[str, tuple[str, str]]:
    """Items of all quizzes that were given to a class: id -> ``(stem, skill)``."""
    given = sa.select(QuizAssignment.quiz_id).where(QuizAssignment.class_id == class_id)
    with database.read() as session:
        contents = session.scalars(sa.select(StoredQuiz.content).where(StoredQuiz.id.in_(given))).all()
    items = [read_item(item) for content in contents for item in content["items"]]
    return {item.id: (item.stem, item.skill) for item in items}


def results_of_learner(database: Database, learner_id: str) -> list[QuizResult]:
    """Everything that a learner began, the newest first."""
    wanted = (
        sa.select(Submission, QuizAssignment, StoredQuiz.title)
        .join(QuizAssignment, QuizAssignment.id == Submission.assignment_id)
        .join(StoredQuiz, StoredQuiz.id == QuizAssignment.quiz_id)
        .where(Submission.learner_id == learner_id)
        .order_by(Submission.started_at.desc())
    )
    attempts = sa.select(StoredAttempt.submission_id, StoredAttempt.marked).where(
        StoredAttempt.learner_id == learner_id, StoredAttempt.submission_id.is_not(None)
    )
    points, most = defaultdict[int | None, Decimal](Decimal), defaultdict[int | None, Decimal](Decimal)
    with database.read() as session:
        marks = [(submission, marked) for submission, marked in session.execute(attempts)]
        works = session.execute(wanted).all()
    for submission, marked in _opened(database, marks):
        plain = json.loads(marked)
        points[submission] += Decimal(plain["points"])
        most[submission] += Decimal(plain["max_points"])
    return [
        QuizResult(_assignment(assigned, title), work.started_at, work.finished_at, points[work.id], most[work.id])
        for work, assigned, title in works
    ]


def turns_of(database: Database, turn_ids: Sequence[int]) -> dict[int, PastTurn]:
    """Turns by id, of whatever conversation; the caller has checked whose they are."""
    with database.read() as session:
        rows = session.scalars(sa.select(Turn).where(Turn.id.in_(turn_ids))).all()
    found: dict[int, PastTurn] = {}
    for row in rows:
        try:
            question, draft = database.vault.open(row.question), database.vault.open(row.draft)
            answer = None if row.answer is None else json.loads(database.vault.open(row.answer))
        except KeyDestroyed:
            continue
        found[row.id] = PastTurn(row.id, row.conversation_id, question, row.status, draft, answer, None, row.started_at)
    return found


def said_of(database: Database, turn_ids: Sequence[int]) -> dict[int, list[Said]]:
    """What was said of some turns' answers, oldest first."""
    wanted = sa.select(TurnSignal).where(TurnSignal.turn_id.in_(turn_ids)).order_by(TurnSignal.id)
    with database.read() as session:
        rows = [(row, row.detail) for row in session.scalars(wanted)]
    found: defaultdict[int, list[Said]] = defaultdict(list)
    for row, detail in _opened(database, rows):
        found[row.turn_id].append(Said(row.kind, detail, row.author, row.at))
    return found


def lessons_of(database: Database, learner_id: str, since: datetime) -> list[StudiedLesson]:
    """Lessons that a learner's answers and hints cite since, the one last studied first. No words of the learner."""
    wanted = (
        sa.select(Turn.started_at, Turn.answer)
        .join(Conversation, Conversation.id == Turn.conversation_id)
        .where(Conversation.owner == learner_id, Turn.started_at >= since, Turn.answer.is_not(None))
        .order_by(Turn.started_at)
    )
    with database.read() as session:
        rows = [(at, answer) for at, answer in session.execute(wanted) if answer is not None]
    times, last = Counter[tuple[str, str]](), dict[tuple[str, str], datetime]()
    for at, answer in _opened(database, rows):
        for place in set(_places(json.loads(answer))):
            times[place] += 1
            last[place] = at
    return [StudiedLesson(*place, times[place], last[place]) for place in sorted(last, key=last.__getitem__)[::-1]]


# --- Inside ----------------------------------------------------------------------------------------------------------


def _opened(database: Database, rows: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for named, sealed in rows:
        try:
            yield named, database.vault.open(sealed)
        except KeyDestroyed:
            continue


def _places(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cited = [sentence["citation"] for sentence in answer.get("sentences", ()) if sentence.get("citation")]
    for place in (*cited, *answer.get("hint", {}).get("sources", ())):
        if place.get("lesson"):
            yield place["book"], place["lesson"]


def _unseen(session: Session, learner_ids: Sequence[str]) -> Counter[tuple[str, str]]:
    wanted = (
        sa.select(Flag.learner_id, Flag.kind, sa.func.count())
        .where(Flag.learner_id.in_(learner_ids), Flag.seen_at.is_(None))
        .group_by(Flag.learner_id, Flag.kind)
    )
    return Counter({(learner, kind): count for learner, kind, count in session.execute(wanted)})


def _active(session: Session, learner_ids: Sequence[str], since: datetime) -> set[str]:
    asked = (
        sa.select(Conversation.owner)
        .join(Turn, Turn.conversation_id == Conversation.id)
        .where(Conversation.owner.in_(learner_ids), Turn.started_at >= since)
        .distinct()
    )
    sat = (
        sa.select(Submission.learner_id)
        .where(Submission.learner_id.in_(learner_ids), Submission.started_at >= since)
        .distinct()
    )
    return {owner for owner in (*session.scalars(asked), *session.scalars(sat)) if owner}


def _assignment(row: QuizAssignment, title: str) -> Assignment:
    return Assignment(
        row.id, row.quiz_id, row.class_id, title, row.opens_at, row.closes_at, row.is_exam, row.shows_keys
    )
