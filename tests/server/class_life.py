"""What a class leaves behind: questions with answers and hints, flags, a quiz that was handed in."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from schoolroom import School

from deepedu.store import Database
from deepedu.store.conversations import finish_turn, start_turn
from deepedu.store.flags import raise_flag
from deepedu.store.tables import Passage, QuizAssignment, Turn, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.classwork import begin, hand_in
from deepedu.tutor.quiz import Choice, Item
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz

QUESTION = "Anders Celsius đề xuất thang nhiệt độ vào năm nào?"
STRUCK = "Anders Celsius sinh năm 1999."
LESSON = "Bài 2. Nhiệt độ"
SKILLS = ("Bài 10. Đo thể tích", "Bài 2. Nhiệt độ")


def asked(
    school: School,
    username: str,
    question: str = QUESTION,
    answer: dict[str, Any] | None = None,
    *,
    conversation_id: int | None = None,
    at: datetime | None = None,
) -> tuple[int, int]:
    """A finished turn of a pupil: ``(conversation_id, turn_id)``."""
    owner = school.people[username].owner
    conversation_id, turn_id = start_turn(school.database, question, {}, conversation_id, owner=owner)
    finish_turn(school.database, turn_id, "done", draft="", answer=answer or told(question, "Năm 1742."))
    if at is not None:
        with school.database.write() as session:
            turn = session.get_one(Turn, turn_id)
            turn.started_at, turn.finished_at = at, at + timedelta(seconds=20)
    return conversation_id, turn_id


def told(question: str, text: str, *, struck: str | None = None, citation: dict[str, Any] | None = None) -> Any:
    """An answer as it is kept, with one sentence that holds and perhaps one that does not."""
    sentences = [
        {"text": text, "status": "supported", "citation": citation, "score": 1, "reason": None, "replaces": None}
    ]
    if struck:
        wrong = {"text": struck, "status": "unsupported", "citation": None, "score": 0.1, "replaces": None}
        sentences.append({**wrong, "reason": "Sách không có năm 1999."})
    return {"question": question, "found": True, "sentences": sentences, "nearest": [], "text": text}


def hinted(question: str) -> Any:
    """A hint as it is kept."""
    hint = {"rung": 2, "rungs": 6, "name": "lesson", "text": "Em xem bài nhiệt độ nhé.", "sources": []}
    reason = {"reason": "Học sinh nài xin đáp án: giữ bậc 2, cần một lần tự làm để lên bậc."}
    return {"kind": "hint", "question": question, "found": True, "sentences": [], "text": "", "hint": hint | reason}


def citation(database: Database, words: str = "Anders Celsius đề xuất") -> dict[str, Any]:
    """A citation of the sample textbook."""
    with database.read() as session:
        passage = session.scalars(sa.select(Passage).where(Passage.text.contains(words))).first()
        assert passage is not None
        start = passage.text.index(words)
        return {
            "marker": 1, "passage_id": passage.id, "book_id": passage.book_id, "book": "Khoa học tự nhiên 6",
            "chapter": None, "lesson": LESSON, "page": passage.first_page, "page_label": str(passage.first_page),
            "has_pages": True, "quote": words, "start": start, "end": start + len(words), "page_start": 0,
        }  # fmt: skip


def flagged(school: School, username: str, kind: str = "safety", detail: str = "self_harm: em muốn chết") -> int:
    """A flag on a new turn of a pupil; returns the turn's id."""
    answer = {"kind": "care", "question": "x", "found": True, "sentences": [], "text": "Em ơi, cô chú ở đây."}
    if kind == "grounding":
        answer = told(QUESTION, "Năm 1742.", struck=STRUCK, citation=citation(school.database))
    question = "em muon chet qua" if kind == "safety" else QUESTION
    conversation_id, turn_id = asked(school, username, question, answer)
    learner = school.people[username].learner_id
    assert learner is not None
    severity = "urgent" if kind == "safety" else ""
    raise_flag(school.database, learner, conversation_id, turn_id, kind, severity=severity, detail=detail)
    return turn_id


def items() -> list[Item]:
    """Two items on each of two skills; A is right everywhere."""
    return [
        Choice(stem=f"Câu {n} về {skill}?", options=("a", "b", "c", "d"), key=0, skill=skill)
        for skill in SKILLS
        for n in (1, 2)
    ]


def sat(school: School, teacher: str, class_name: str, given: dict[str, str], *, is_over: bool = False) -> int:
    """A quiz that the named pupils handed in, each with one option for everything; returns the assignment's id."""
    class_id = school.classes[class_name]
    author = school.people[teacher].id
    with school.database.write() as session:
        quiz_id = put_quiz(session, author, QuizHead(title="Kiểm tra 15 phút"), items())
        opens, closes = now() - timedelta(hours=1), now() + timedelta(hours=1)
        assignment = assign(session, quiz_id, class_id, author_id=author, opens_at=opens, closes_at=closes)
    for username, option in given.items():
        learner = school.people[username].learner_id or ""
        work = begin(school.database, [class_id], assignment, learner)
        answers: dict[str, Any] = {}
        for placed in work.placed:
            assert isinstance(placed.item, Choice)
            answers[placed.item.id] = "ABCD"[placed.order.index("abcd".index(option))]
        hand_in(school.database, [class_id], assignment, learner, answers)
    if is_over:
        close(school, assignment)
    return assignment


def close(school: School, assignment: int) -> None:
    """Ends an assignment a minute ago."""
    with school.database.write() as session:
        session.get_one(QuizAssignment, assignment).closes_at = now() - timedelta(minutes=1)
