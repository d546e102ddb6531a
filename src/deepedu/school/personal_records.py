"""What is kept about a person, as plain values: read from every table that knows the person, texts opened.

Of other people it tells what concerns the person: the names of teachers, of guardians, of a guardian's children;
whoever else did something is told by role.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import KeyDestroyed
from deepedu.store import Database
from deepedu.store.tables import (
    ApiKey,
    AuditEntry,
    ClassMember,
    Consent,
    Conversation,
    Flag,
    Guardianship,
    LoginSession,
    Person,
    QuizAssignment,
    SchoolClass,
    StoredAttempt,
    StoredLadders,
    StoredQuiz,
    Submission,
    Turn,
    TurnSignal,
)

_PUBLIC_ID = re.compile(r"\b[0-9a-f]{16}\b")
_ROLES = {"student": "học sinh", "teacher": "giáo viên", "guardian": "người giám hộ", "admin": "quản trị"}
# Files in their order, with what stands in them.
FILES = {
    "account.json": "Tài khoản",
    "classes.json": "Lớp và giáo viên",
    "guardians.json": "Người giám hộ, hoặc con em",
    "consents.json": "Sự đồng ý",
    "sign_ins.json": "Trình duyệt đang đăng nhập và khóa API",
    "submissions.json": "Bài kiểm tra đã làm",
    "attempts.json": "Từng câu đã được chấm",
    "quizzes.json": "Bài kiểm tra đã soạn",
    "ladders.json": "Gợi ý đã nhận",
    "flags.json": "Việc cần người lớn xem",
    "audit.json": "Nhật ký: ai đã xem hay thay đổi gì",
}
# What a guardian gets only where the school lets guardians read conversations.
_TRANSCRIPTS = ("ladders.json",)
# What only the pupil and the school get: it may be about the guardian.
_NOT_FOR_GUARDIANS = ("flags.json",)


@dataclass(frozen=True)
class _Reader:
    """What the parts of the file are read with."""

    database: Database
    session: Session
    person: Person
    owner: str


def read_records(
    database: Database, session: Session, person: Person, owner: str, *, for_guardian: bool, transcripts: bool
) -> dict[str, Any]:
    """Everything but conversations: by the names of ``FILES``, without those that this reader does not get."""
    reader = _Reader(database, session, person, owner)
    made = {
        "account.json": _account(reader),
        "classes.json": _classes(reader),
        "guardians.json": _guardians(reader),
        "consents.json": _consents(reader),
        "sign_ins.json": _sign_ins(reader),
        "submissions.json": _submissions(reader),
        "attempts.json": _attempts(reader),
        "quizzes.json": _quizzes(reader),
        "ladders.json": _ladders(reader),
        "flags.json": _flags(reader),
        "audit.json": _audit(reader, for_guardian=for_guardian),
    }
    assert list(made) == list(FILES)
    left_out = (*(() if transcripts else _TRANSCRIPTS), *(_NOT_FOR_GUARDIANS if for_guardian else ()))
    return {name: values for name, values in made.items() if name not in left_out}


def _account(reader: _Reader) -> dict[str, Any]:
    person = reader.person
    names = ("public_id", "role", "username", "full_name", "code", "birth_date", "email", "phone", "language")
    more = ("learner_id", "oidc_subject", "is_active", "must_change_password", "created_at", "failed_logins")
    values = {name: getattr(person, name) for name in (*names, *more, "locked_until")}
    return {**values, "has_password": person.password_hash is not None}


def _classes(reader: _Reader) -> list[dict[str, Any]]:
    rows = reader.session.execute(
        sa.select(SchoolClass, ClassMember.since)
        .join(ClassMember, ClassMember.class_id == SchoolClass.id)
        .where(ClassMember.person_id == reader.person.id)
        .order_by(SchoolClass.school_year, SchoolClass.name)
    ).all()
    found: list[dict[str, Any]] = []
    for row, since in rows:
        teachers = reader.session.scalars(
            sa.select(Person.full_name)
            .join(ClassMember, ClassMember.person_id == Person.id)
            .where(ClassMember.class_id == row.id, Person.role == "teacher")
            .order_by(Person.full_name)
        )
        told = {"name": row.name, "school_year": row.school_year, "grade": row.grade, "since": since}
        found.append({**told, "teachers": list(teachers)})
    return found


def _guardians(reader: _Reader) -> list[dict[str, Any]]:
    """The other side of every guardianship; one that was revoked does not tell whose."""
    mine, other = Guardianship.student_id, Guardianship.guardian_id
    if reader.person.role == "guardian":
        mine, other = other, mine
    rows = reader.session.execute(
        sa.select(Guardianship, Person.full_name)
        .join(Person, other == Person.id)
        .where(mine == reader.person.id)
        .order_by(Guardianship.granted_at)
    )
    return [
        {
            "full_name": name if row.revoked_at is None else None,
            "granted_at": row.granted_at,
            "revoked_at": row.revoked_at,
        }
        for row, name in rows
    ]


def _consents(reader: _Reader) -> list[dict[str, Any]]:
    mine = sa.or_(Consent.student_id == reader.person.id, Consent.guardian_id == reader.person.id)
    names = ("guardian_name", "text_version", "given_at", "withdrawn_at")
    rows = reader.session.scalars(sa.select(Consent).where(mine).order_by(Consent.id))
    return [{name: getattr(row, name) for name in names} for row in rows]


def _sign_ins(reader: _Reader) -> dict[str, Any]:
    person_id = reader.person.id
    browsers = reader.session.scalars(
        sa.select(LoginSession).where(LoginSession.person_id == person_id).order_by(LoginSession.created_at)
    )
    keys = reader.session.scalars(sa.select(ApiKey).where(ApiKey.person_id == person_id).order_by(ApiKey.id))
    return {
        "browsers": [
            {name: getattr(row, name) for name in ("created_at", "last_seen_at", "expires_at")} for row in browsers
        ],
        "api_keys": [
            {name: getattr(row, name) for name in ("label", "created_at", "last_used_at", "revoked_at")} for row in keys
        ],
    }


def _submissions(reader: _Reader) -> list[dict[str, Any]]:
    rows = reader.session.execute(
        sa.select(Submission, StoredQuiz.title, QuizAssignment.is_exam)
        .join(QuizAssignment, QuizAssignment.id == Submission.assignment_id)
        .join(StoredQuiz, StoredQuiz.id == QuizAssignment.quiz_id)
        .where(Submission.learner_id == reader.owner)
        .order_by(Submission.id)
    )
    return [
        {
            "id": row.id,
            "quiz": title,
            "is_exam": is_exam,
            "given": _parsed(reader.database, row.given),
            "started_at": row.started_at,
            "finished_at": row.finished_at,
        }
        for row, title, is_exam in rows
    ]


def _attempts(reader: _Reader) -> list[dict[str, Any]]:
    rows = reader.session.scalars(
        sa.select(StoredAttempt).where(StoredAttempt.learner_id == reader.owner).order_by(StoredAttempt.id)
    )
    return [
        {
            "submission": row.submission_id,
            "item": row.item_id,
            "skill": row.skill,
            "marked": _parsed(reader.database, row.marked),
            "at": row.at,
        }
        for row in rows
    ]


def _quizzes(reader: _Reader) -> list[dict[str, Any]]:
    rows = reader.session.scalars(
        sa.select(StoredQuiz).where(StoredQuiz.author_id == reader.person.id).order_by(StoredQuiz.id)
    )
    return [{"title": row.title, "content": row.content, "created_at": row.created_at} for row in rows]


def _ladders(reader: _Reader) -> dict[str, Any] | None:
    row = reader.session.get(StoredLadders, reader.owner)
    return None if row is None else {"state": _parsed(reader.database, row.state), "changed_at": row.changed_at}


def _flags(reader: _Reader) -> list[dict[str, Any]]:
    rows = reader.session.scalars(sa.select(Flag).where(Flag.learner_id == reader.owner).order_by(Flag.id))
    names = ("turn_id", "kind", "severity", "at", "seen_at")
    return [
        {**{name: getattr(row, name) for name in names}, "detail": _opened(reader.database, row.detail)} for row in rows
    ]


def _audit(reader: _Reader, *, for_guardian: bool) -> list[dict[str, Any]]:
    own = reader.person.public_id
    people: Any = reader.session.execute(sa.select(Person.public_id, Person.role))
    roles = dict(people.all())
    rows = reader.session.scalars(
        sa.select(AuditEntry)
        .where(sa.or_(AuditEntry.actor == own, AuditEntry.subject == own))
        .order_by(AuditEntry.number)
    )
    found: list[dict[str, Any]] = []
    for row in rows:
        # What is done about a pupil's safety may be done about the guardian.
        if for_guardian and row.action.startswith(("flag", "safety")):
            continue
        found.append(
            {
                "number": row.number,
                "at": row.at,
                "action": row.action,
                "by": _told_by_role(row.actor, own, roles),
                "about": _told_by_role(row.subject, own, roles),
                "detail": _PUBLIC_ID.sub(lambda match: _told_by_role(match[0], own, roles), row.detail),
            }
        )
    return found


def _told_by_role(name: str, own: str, roles: Mapping[str, str]) -> str:
    if name == own:
        return "chính người này"
    return _ROLES[roles[name]] if name in roles else _PUBLIC_ID.sub("…", name)


def read_conversation(database: Database, conversation_id: int) -> dict[str, Any] | None:
    """A conversation with its turns; None: deleted meanwhile."""
    with database.read() as session:
        row = session.get(Conversation, conversation_id)
        if row is None:
            return None
        turns = session.scalars(sa.select(Turn).where(Turn.conversation_id == row.id).order_by(Turn.ordinal)).all()
        told = [_turn(database, session, turn) for turn in turns]
        return {"created_at": row.created_at.isoformat(), "scope": row.scope, "turns": told}


def _turn(database: Database, session: Session, turn: Turn) -> dict[str, Any]:
    signals = session.scalars(sa.select(TurnSignal).where(TurnSignal.turn_id == turn.id).order_by(TurnSignal.id))
    return {
        "question": _opened(database, turn.question),
        "status": turn.status,
        "draft": _opened(database, turn.draft),
        "answer": _parsed(database, turn.answer),
        "error": _opened(database, turn.error),
        "model": turn.model,
        "started_at": turn.started_at,
        "finished_at": turn.finished_at,
        "feedback": [
            {"kind": each.kind, "detail": _opened(database, each.detail), "by": each.author or None, "at": each.at}
            for each in signals
        ],
    }


def _opened(database: Database, sealed: str | None) -> str | None:
    """A sealed text; None for none, and for one whose key is destroyed."""
    if not sealed:
        return None
    try:
        return database.vault.open(sealed)
    except KeyDestroyed:
        return None


def _parsed(database: Database, sealed: str | None) -> Any:
    """Sealed JSON."""
    text = _opened(database, sealed)
    return json.loads(text) if text else None
