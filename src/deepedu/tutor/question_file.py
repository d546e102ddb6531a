"""Questions to learn from: files of JSON lines, and what pupils asked and were not content with."""

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepedu.base.errors import BadRequest
from deepedu.playbook.bullet import BulletScope, Language
from deepedu.playbook.delta import told
from deepedu.playbook.interaction import Signal
from deepedu.playbook.problem import OR, Problem
from deepedu.store import Database
from deepedu.store.signals import failed_turns
from deepedu.tutor.marking import mark_choice


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")

    question: str = Field(min_length=1)
    answer: str | None = None
    answers: list[str] = Field(default_factory=list)
    choices: list[str] = Field(default_factory=list)
    explanation: str | None = None
    language: Language = "vi"
    grade: int | None = Field(default=None, ge=1, le=12)
    subject: str | None = None


def read_questions(path: Path) -> list[Problem]:
    """The questions of a file, in order; the same question twice is asked once.

    Each line is a JSON object with ``question``, and if known ``answer`` or ``answers``, ``choices``, ``explanation``,
    ``language``, ``grade``, ``subject``. Other fields are left alone.

    Raises:
        BadRequest: the file cannot be read, or a line of it is no question: which, and what is wrong with it.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {str(path)!r} as UTF-8 text: {error}") from error
    problems: dict[str, Problem] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            problem = _problem(_Line.model_validate(json.loads(line)))
        except (ValueError, ValidationError) as error:
            why = told(error) if isinstance(error, ValidationError) else str(error)
            raise BadRequest(f"{path}, line {number}: expected a question as a JSON object; {why}") from error
        problems.setdefault(problem.id, problem)
    if not problems:
        raise BadRequest(f"{path} holds no question")
    return list(problems.values())


def questions_of_turns(database: Database) -> list[Problem]:
    """The pupils' questions whose answers somebody spoke against, oldest first; a teacher's correction is the expected
    answer.

    Raises:
        StoreError: the database failed.
    """
    problems: list[Problem] = []
    for turn in failed_turns(database):
        corrections = [detail for kind, detail in turn.signals if kind == "correction"]
        problems.append(
            Problem(
                # Who asked is not in it, and another correction is another problem.
                id=f"turn{turn.turn_id}-{hashlib.sha256(repr(turn.signals).encode()).hexdigest()[:8]}",
                question=turn.question,
                expected=corrections[-1] if corrections else None,
                scope=BulletScope(grade=turn.scope.get("grade"), subject=turn.scope.get("subject")),
                example_kind="fact",
                signals=tuple(
                    Signal.model_validate({"kind": kind, "good": False, "detail": detail})
                    for kind, detail in turn.signals
                ),
            )
        )
    return problems


def _problem(line: _Line) -> Problem:
    answers = [answer for answer in (line.answer, *line.answers) if answer]
    if line.choices:
        if len(answers) != 1:
            raise ValueError(f"a question with choices has one answer, came {len(answers)}")
        mark_choice(answers[0], line.choices, answers[0])
    explained = line.explanation
    whole = json.dumps([line.question, line.choices], ensure_ascii=False)
    return Problem(
        id=hashlib.sha256(whole.encode()).hexdigest()[:16],
        question="\n".join((line.question, *line.choices)),
        about=line.question if line.choices else "",
        expected=OR.join(answers) or None,
        solution=f"{' '.join(explained.split())} Đáp án: {answers[0]}" if explained and answers else None,
        choices=tuple(line.choices),
        # What the book says is a fact; how an exercise is done is a method.
        example_kind="method" if line.choices else "fact",
        language=line.language,
        scope=BulletScope(grade=line.grade, subject=line.subject),
    )
