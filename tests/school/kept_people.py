"""A school in which every table that knows people knows these: for tests of what is handed out and what is deleted.

An's words, and nobody else's, hold ``AN``; Bình's hold ``BINH``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from deepedu.school.accounts import Account, account_of, create_person, open_session
from deepedu.school.audit import record
from deepedu.school.classes import create_class, enrol, grant
from deepedu.store import Database
from deepedu.store.tables import (
    ApiKey,
    Base,
    Consent,
    Conversation,
    Flag,
    PlaybookDelta,
    QuizAssignment,
    StoredAttempt,
    StoredLadders,
    StoredQuiz,
    Submission,
    Turn,
    TurnSignal,
    now,
)

AN, BINH = "xoàitượngkẽm", "mítmậtđồng"
NAMES = {
    "an": ("student", "Nguyễn Khuê An"),
    "binh": ("student", "Trần Dạ Bình"),
    "lan": ("teacher", "Phạm Ngự Lan"),
    "me.an": ("guardian", "Hoàng Thảo Hà"),
    "admin": ("admin", "Vũ Quản Trị"),
}


@dataclass
class KeptPeople:
    """Accounts by username; ``turns``: the turn of each pupil."""

    database: Database
    people: dict[str, Account]
    turns: dict[str, int]
    class_id: int

    def __getitem__(self, username: str) -> Account:
        return self.people[username]


def keep_people(database: Database) -> KeptPeople:
    """Fills the tables."""
    people: dict[str, Account] = {}
    turns: dict[str, int] = {}
    with database.write() as session:
        for username, (role, name) in NAMES.items():
            details: dict[str, Any] = {"code": f"code.{username}", "phone": f"0912-{username}"}
            if role == "student":
                details["birth_date"] = "2014-05-01"
            row = create_person(session, role, username, name, **details)  # pyright: ignore[reportArgumentType]
            people[username] = account_of(row)
        class_id = create_class(session, "6A", "2026-2027", 6).id
        for username in ("an", "binh", "lan"):
            enrol(session, class_id, people[username].id)
        grant(session, people["me.an"].id, people["an"].id)
        quiz = StoredQuiz(author_id=people["lan"].id, title="Nhiệt độ", content={"items": []})
        session.add(quiz)
        session.flush()
        assignment = QuizAssignment(quiz_id=quiz.id, class_id=class_id)
        session.add(assignment)
        session.flush()
        for username, words in (("an", AN), ("binh", BINH)):
            turns[username] = _traces(session, database, people, username, words, assignment.id)
        record(session, people["admin"].public_id, "person.create", people["an"].public_id, "student")
    for account in people.values():
        open_session(database, account.id, hours=12)
    return KeptPeople(database, people, turns, class_id)


def _traces(
    session: Session, database: Database, people: dict[str, Account], username: str, words: str, assignment_id: int
) -> int:
    person, teacher = people[username], people["lan"]
    learner = person.owner

    def sealed(text: str) -> str:
        return database.vault.seal(learner, text)

    conversation = Conversation(owner=learner, scope={"grade": 6})
    session.add(conversation)
    session.flush()
    turn = Turn(
        conversation_id=conversation.id,
        ordinal=0,
        question=sealed(f"{words} hỏi gì"),
        status="done",
        draft=sealed(f"{words} nháp"),
        answer=sealed(json.dumps({"text": f"{words} trả lời"})),
        finished_at=now(),
    )
    submission = Submission(
        assignment_id=assignment_id, learner_id=learner, seed=1, given=sealed(json.dumps({"1": f"{words} bài làm"}))
    )
    session.add_all([turn, submission])
    session.flush()
    session.add_all(
        [
            TurnSignal(turn_id=turn.id, kind="correction", detail=sealed(f"{words} sửa"), author=teacher.full_name),
            StoredLadders(learner_id=learner, state=sealed(json.dumps([{"question": f"{words} gợi ý"}]))),
            Flag(
                learner_id=learner,
                conversation_id=conversation.id,
                turn_id=turn.id,
                kind="safety",
                detail=sealed(f"{words} cờ"),
                seen_by=teacher.id,
            ),
            StoredAttempt(
                learner_id=learner,
                submission_id=submission.id,
                item_id="q1",
                skill="Nhiệt độ",
                marked=sealed(json.dumps({"given": f"{words} chọn"})),
            ),
            Consent(
                student_id=person.id,
                guardian_id=people["me.an"].id if username == "an" else None,
                guardian_name=f"Người giám hộ {words}",
                text_version="1",
                recorded_by=people["admin"].id,
            ),
            ApiKey(key_digest=f"digest {words}", person_id=person.id, label=f"khóa {words}"),
        ]
    )
    journal = database.data_dir / "learn" / "l-1.jsonl"
    journal.parent.mkdir(exist_ok=True)
    line = {"problem": f"turn{turn.id}-0123abcd", "attempt": {"text": f"{words} lượt học"}}
    with journal.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
    _learnt_from(session, turn.id)
    return turn.id


def _learnt_from(session: Session, turn_id: int) -> None:
    session.add(
        PlaybookDelta(
            version=turn_id,
            delta_id=f"l-1:turn{turn_id}-0123abcd",
            author='{"role": "model", "name": "qwen"}',
            reason=f"học từ câu turn{turn_id}-0123abcd",
            at=now(),
            operations=json.dumps(
                [{"op": "ADD", "text": "Nước sôi ở 100 °C.", "evidence": [f"l-1:turn{turn_id}-0123abcd"]}]
            ),
            touched=["b-1"],
            digest="0" * 64,
        )
    )


def rows_of(database: Database, table: str, wanted: Callable[[Any], bool] = bool) -> list[Any]:
    """Rows of a table that ``wanted`` takes."""
    with database.read() as session:
        return [row for row in session.execute(Base.metadata.tables[table].select()) if wanted(row)]


def bytes_of(folder: Any) -> bytes:
    """All files below a folder, as they lie on the disk."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
