"""The tutor as a solver of the loop, and files of questions."""

import asyncio
import json
from pathlib import Path

import pytest

from deepedu.base.config import SearchSettings, TutorSettings
from deepedu.base.errors import BadRequest
from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.problem import Problem
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import last_conversation
from deepedu.tutor.question_file import read_questions
from deepedu.tutor.solver import EitherSolver, TutorSolver

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"


def solver(library: Database, *replies: str) -> TutorSolver:
    return TutorSolver(
        library, Search(library, SearchSettings(dense="off")), ScriptedModel(list(replies)), TutorSettings()
    )


def problem(expected: str | None = "1742|năm 1742", question: str = QUESTION) -> Problem:
    return Problem(id="q", question=question, expected=expected)


@pytest.mark.parametrize(("expected", "right"), [("1742", True), ("1743|1742", True), ("174", False), ("1752", False)])
def test_a_label_tells_whether_the_shown_answer_is_right(sample_library: Database, expected: str, right: bool) -> None:
    answered = solver(sample_library, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    attempt = asyncio.run(answered.attempt(problem(expected)))
    assert (attempt.is_right, attempt.signals[0].kind) == (right, "quiz")
    # Nobody asked: no conversation is kept.
    assert last_conversation(sample_library) is None


def test_without_a_label_grounding_tells(sample_library: Database) -> None:
    true, false = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].", "Anders Celsius đề xuất nó năm 1752 [1]."
    assert asyncio.run(solver(sample_library, true).attempt(problem(None))).is_right is True
    wrong = asyncio.run(solver(sample_library, false).attempt(problem(None)))
    assert wrong.is_right is False
    assert wrong.signals[0].kind == "grounding"
    assert wrong.signals[0].detail
    unknown = solver(sample_library, "Paris.").attempt(problem(None, "Thủ đô của nước Pháp là gì?"))
    assert asyncio.run(unknown).is_right is None


def test_a_known_answer_is_worked_out_as_the_books_sentence(sample_library: Database) -> None:
    found = asyncio.run(solver(sample_library).work_out(problem()))
    assert found is not None
    assert "1742" in found
    assert "Celsius" in found
    assert asyncio.run(solver(sample_library).work_out(problem("1999"))) is None


def test_exercises_and_questions_go_their_own_ways(sample_library: Database) -> None:
    class Other(TutorSolver):
        async def work_out(self, problem: Problem) -> str | None:
            return problem.id

    either = EitherSolver(
        Other(sample_library, Search(sample_library, SearchSettings(dense="off")), ScriptedModel([]), TutorSettings()),
        solver(sample_library),
    )
    exercise = Problem(id="bài", question="1 + 1 = ?", choices=("A. 1", "B. 2"), expected="B. 2")
    assert asyncio.run(either.work_out(exercise)) == "bài"
    assert asyncio.run(either.work_out(problem("1999"))) is None


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines), "utf-8")
    return path


def test_a_file_of_questions(tmp_path: Path) -> None:
    choices = {
        "question": "2 + 3 = ?",
        "choices": ["A. 5", "B. 6"],
        "answer": "A",
        "explanation": "2 + 3 = 5.",
        "id": 7,
    }
    book = {"question": "Ai đặt tên cho nhân?", "answers": ["Brown", "Robert Brown"], "grade": 6, "subject": "KHTN"}
    open_ended = {"question": "Vì sao lá xanh?"}
    first, second, third = read_questions(write(tmp_path / "q.jsonl", choices, "", book, book, open_ended))
    assert (first.choices, first.expected, first.example_kind) == (("A. 5", "B. 6"), "A", "method")
    assert first.solution == "2 + 3 = 5. Đáp án: A"
    assert (second.expected, second.scope.grade, second.example_kind) == ("Brown|Robert Brown", 6, "fact")
    assert third.expected is None
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2"),
        ('{"answer": "x"}', "question"),
        ('{"question": ""}', "question"),
        ('{"question": "?", "grade": 13}', "grade"),
        ('{"question": "?", "choices": ["A. 1", "B. 2"]}', "one answer"),
        ('{"question": "?", "choices": ["A. 1", "B. 2"], "answer": "con mèo"}', "line 2"),
        ("[1]", "line 2"),
    ],
)
def test_what_is_no_question_is_named(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read_questions(write(tmp_path / "q.jsonl", {"question": "?"}, line))


def test_no_questions_at_all(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="holds no question"):
        read_questions(write(tmp_path / "q.jsonl", ""))
    with pytest.raises(BadRequest, match="cannot read"):
        read_questions(tmp_path / "missing.jsonl")
