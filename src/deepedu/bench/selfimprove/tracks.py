"""Question sets with right answers, split into what may be learnt from and what is asked at the end."""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from deepedu.base.errors import ConfigError
from deepedu.bench.viquad import load_viquad
from deepedu.playbook.problem import OR, Problem
from deepedu.tutor.exercise import CHOICE, NUMBER, TEXT, Form
from deepedu.tutor.marking import mark_choice
from deepedu.tutor.question_file import read_questions

_FORMULA = re.compile(
    r"Use formula (?P<name>.*?) to answer the question\..*?Formula: (?P<formula>.*?), Explanation: (?P<meaning>.*?)\.?"
    r" Question: (?P<question>.*?)\.? Answer:$",
    re.DOTALL,
)
_TAGGED = re.compile(r'\d+\. What is best tag for entity "(.*?)" in sentence: "(.*?)\?"(?=\n)', re.DOTALL)
Asked = Literal["test", "validation"]
VALIDATED = ("formula", "finer")
# Words on either side of the value that a tag is asked for.
_AROUND = 14


@dataclass(frozen=True)
class Track:
    """One set: how it is asked and marked, what is learnt from, what is asked at the end.

    ``contexts`` are the texts of the library that questions are asked of; with them the tutor answers, not the form.
    """

    name: str
    form: Form
    train: tuple[Problem, ...]
    test: tuple[Problem, ...]
    contexts: tuple[str, ...] = ()


def load_track(
    name: str, data_dir: Callable[[], Path], *, train: int, test: int, seed: int, asked_of: Asked = "test"
) -> Track:
    """A track with so many questions of each part, drawn by ``seed``. No question that may be learnt from is asked.

    Args:
        name: ``formula``, ``finer``, ``zalo_math``, ``viquad``, or a file of questions with answers (see
            ``tutor.question_file``), of which the last third is the test.
        data_dir: tells where the shared data sets are.
        asked_of: which part is asked at the end; ``formula`` and ``finer`` have a validation part too, for a figure
            on questions that no change was made after.

    Raises:
        ConfigError: no such track, or its data is not there.
        BadRequest: a file of questions that is none.
    """
    if asked_of != "test" and name not in VALIDATED:
        raise ConfigError(f"only {', '.join(VALIDATED)} have a {asked_of} part, came the track {name!r}")
    if name == "viquad":
        contexts, learnt, asked = _viquad(data_dir())
        return Track(name, TEXT, _some(seed, learnt, train), _some(seed, asked, test), contexts)
    loader = _LOADERS.get(name)
    if loader is None and not name.endswith(".jsonl"):
        raise ConfigError(
            f"expected a track ({', '.join([*_LOADERS, 'viquad'])}) or a file that ends in .jsonl, came {name!r}"
        )
    try:
        form, learnt, asked = loader(data_dir(), asked_of) if loader else _custom(Path(name))
    except OSError as error:
        raise ConfigError(f"the track {name!r} cannot be read: {error}") from error
    known = {problem.topic for problem in learnt}
    unseen = [problem for problem in asked if problem.topic not in known]
    return Track(Path(name).stem, form, _some(seed, learnt, train), _some(seed, unseen, test))


def _some(seed: int, problems: Sequence[Problem], count: int) -> tuple[Problem, ...]:
    """The first of all problems in an order drawn by the seed: a larger count holds a smaller one's."""
    shuffled = random.Random(seed).sample(list(problems), len(problems))
    return tuple(shuffled[:count])


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


# --- Financial formulas ----------------------------------------------------------------------------------------------

_FORMULA_FORM = replace(
    NUMBER,
    rules="Answer the question with the given formula: replace each variable by its number in the question, and write "
    "only the arithmetic expression that gives the result. Do not calculate it, a calculator does.",
    tokens=96,
    offers="Solved before:",
    asks="{question}\nExpression:",
    asks_knowing="{question}\nThe right result is {expected}. Write the expression with the numbers of the question "
    "that gives it.\nExpression:",
)


_FORMULA_ASKED = {"test": ("e", "formula_test.jsonl"), "validation": ("v", "formula_val_subset_300.jsonl")}


def _formula(data_dir: Path, asked_of: Asked) -> tuple[Form, list[Problem], list[Problem]]:
    folder = data_dir / "ace_finance"
    parts = [
        [_formula_problem(f"{part}{number}", entry) for number, entry in enumerate(_lines(folder / file))]
        for part, file in (("t", "formula_train_subset_500.jsonl"), _FORMULA_ASKED[asked_of])
    ]
    return _FORMULA_FORM, parts[0], parts[1]


def _formula_problem(problem_id: str, entry: dict[str, Any]) -> Problem:
    found = _FORMULA.match(entry["context"])
    assert found, f"the data set has another form: {entry['context'][:200]}"
    asked = found["question"].strip().strip('"“”')
    return Problem(
        id=problem_id,
        question=f"Formula: {found['formula']}\n{found['meaning']}\nQuestion: {asked}",
        about=f"{found['name']}: {asked}",
        expected=entry["target"],
        language="en",
    )


# --- Tags of financial reports ---------------------------------------------------------------------------------------


_FINER_ASKED = {"test": ("e", "finer_test_subset_006_seed42.jsonl"), "validation": ("v", "finer_0.5_val.jsonl")}


def _finer(data_dir: Path, asked_of: Asked) -> tuple[Form, list[Problem], list[Problem]]:
    folder = data_dir / "ace_finance"
    part, file = _FINER_ASKED[asked_of]
    learnt, asked = _lines(folder / "finer_0.5_train.jsonl"), _lines(folder / file)
    tags = asked[0]["context"].split("options: ", 1)[1].split(". Answer the following", 1)[0].strip(",")
    form = Form(
        rules=f"You tag values in financial reports. US GAAP tags: {tags}.\n"
        "Reply with the one best tag and nothing else.",
        read=lambda reply, _: _first_tag(reply),
        is_right=lambda answer, problem: answer.casefold() == (problem.expected or "").casefold(),
        tokens=48,
        one_kind=True,
        offers="Tagged before:",
        asks="{question}\nTag:",
    )
    return form, _finer_problems("t", learnt), _finer_problems(part, asked)


def _first_tag(reply: str) -> str | None:
    found = re.search(r"\b[A-Z][A-Za-z0-9]{4,}\b", reply)
    return found.group() if found else None


def _finer_problems(part: str, entries: Sequence[dict[str, Any]]) -> list[Problem]:
    problems: list[Problem] = []
    for number, entry in enumerate(entries):
        asked = _TAGGED.findall(entry["context"].split("Answer the following", 1)[1])
        tags = [tag.strip() for tag in entry["target"].split(",")]
        for place, ((value, sentence), tag) in enumerate(zip(asked, tags, strict=True)):
            problems.append(
                Problem(
                    id=f"{part}{number}.{place}",
                    # A small model overlooks a solved question that is written otherwise than this one.
                    question=_around(value, sentence),
                    expected=tag,
                    solution=tag,
                    language="en",
                )
            )
    return problems


def _around(value: str, sentence: str) -> str:
    """The words around a value, which is what its tag depends on."""
    words = sentence.split()
    place = words.index(value) if value in words else 0
    first = max(0, place - _AROUND)
    return f'"{value}" in: {" ".join(words[first : place + _AROUND + 1])}'


# --- Vietnamese primary-school mathematics ---------------------------------------------------------------------------


def _zalo_math(data_dir: Path, _: Asked) -> tuple[Form, list[Problem], list[Problem]]:
    folder = data_dir / "zalo_math_2023"
    parts: list[list[Problem]] = []
    for part, file in (("t", "math_train.json"), ("e", "math_test_with_hand_label.json")):
        entries = json.loads((folder / file).read_text(encoding="utf-8"))["data"]
        problems = (_choice_problem(f"{part}{number}", entry) for number, entry in enumerate(entries))
        # A few keys are like none of their options.
        parts.append([problem for problem in problems if _has_key(problem)])
    return CHOICE, parts[0], parts[1]


def _has_key(problem: Problem) -> bool:
    try:
        return mark_choice(problem.expected or "", problem.choices, problem.expected or "")
    except ValueError:
        return False


def _choice_problem(problem_id: str, entry: dict[str, Any]) -> Problem:
    choices = tuple(entry["choices"])
    explained = entry.get("explanation")
    return Problem(
        id=problem_id,
        question="\n".join((entry["question"], *choices)),
        about=entry["question"],
        expected=entry["answer"],
        solution=f"{explained} Đáp án: {entry['answer']}" if explained else None,
        choices=choices,
    )


# --- Questions of Vietnamese articles --------------------------------------------------------------------------------


def _viquad(data_dir: Path) -> tuple[tuple[str, ...], list[Problem], list[Problem]]:
    """Every other question of the test set is learnt from: the same articles, other questions."""
    viquad = load_viquad(data_dir, ["test"])
    problems = [
        Problem(id=f"v{number}", question=one.text, expected=OR.join(one.answers), example_kind="fact")
        for number, one in enumerate(viquad.questions)
        if one.answers
    ]
    return tuple(viquad.contexts), problems[::2], problems[1::2]


# --- Files of one's own ----------------------------------------------------------------------------------------------


def _custom(path: Path) -> tuple[Form, list[Problem], list[Problem]]:
    problems = [problem for problem in read_questions(path) if problem.expected]
    form = CHOICE if any(problem.choices for problem in problems) else TEXT
    first = len(problems) * 2 // 3
    return form, problems[:first], problems[first:]


_LOADERS: dict[str, Callable[[Path, Asked], tuple[Form, list[Problem], list[Problem]]]] = {
    "formula": _formula,
    "finer": _finer,
    "zalo_math": _zalo_math,
}
