"""Quoting and "not in the book" on real questions: ViQuAD paragraphs, with the right one and without its article."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from deepedu.base.vietnamese import fold, words
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Status
from deepedu.tutor.grounding import Grounder

QUESTIONS = 60


@dataclass(frozen=True)
class Case:
    question: str
    golds: tuple[str, ...]
    right: Evidence
    others: tuple[Evidence, ...]


def _joined(text: str) -> str:
    text = re.sub(r" ([,.;:!?%)\]])", r"\1", text.replace("_", " "))
    return re.sub(r"([(\[]) ", r"\1", text).strip()


def _evidence(number: int, text: str) -> Evidence:
    return Evidence(number, 1, "ViQuAD", None, None, text, 1, 1, ((0, len(text), 1, 0),))


@pytest.fixture(scope="module")
def cases(shared_data: Path) -> list[Case]:
    path = shared_data / "uit_viquad" / "test_ViQuAD_wordseg.json"
    if not path.is_file():
        pytest.skip(f"no ViQuAD at {path}")
    rows = json.loads(path.read_text(encoding="utf-8"))
    contexts = list(dict.fromkeys(_joined(row["context"]) for row in rows))
    numbered = {text: _evidence(n, text) for n, text in enumerate(contexts)}
    listed: list[Case] = []
    for row in random.Random(5).sample(rows, QUESTIONS):
        right = numbered[_joined(row["context"])]
        # Paragraphs far away in the file are of other articles.
        others = [numbered[contexts[(right.passage_id + shift) % len(contexts)]] for shift in (120, 240, 360)]
        golds = tuple(label[3] for label in row["label"])
        listed.append(Case(_joined(row["question"]), golds, right, tuple(others)))
    return listed


def _holds_gold(text: str, golds: Sequence[str]) -> bool:
    return any(fold(gold) in fold(text) for gold in golds)


@pytest.mark.shared_data
def test_quotes_answer_most_questions(cases: list[Case]) -> None:
    answers = [Grounder(c.question, [*c.others[:2], c.right]).finish("") for c in cases]
    right = sum(_holds_gold(answer.text, case.golds) for answer, case in zip(answers, cases, strict=True))
    assert sum(answer.found for answer in answers) >= 0.85 * len(cases)
    assert right >= 0.6 * len(cases)


@pytest.mark.shared_data
def test_questions_about_other_articles_are_not_in_the_book(cases: list[Case]) -> None:
    answers = [Grounder(c.question, c.others).finish(f"{c.golds[0]}.") for c in cases]
    assert sum(not answer.found for answer in answers) >= 0.85 * len(cases)


@pytest.mark.shared_data
def test_changed_numbers_of_real_sentences_are_never_supported(cases: list[Case]) -> None:
    tried = 0
    for case in cases:
        for number in sorted({n for n in words(case.right.text) if n.isdecimal() and len(n) == 4}):
            changed = str(int(number) + 13)
            if changed in case.right.text:
                continue
            tried += 1
            draft = re.sub(rf"\b{number}\b", changed, case.right.text)
            checked = Grounder(case.question, [case.right]).finish(draft)
            assert not [s for s in checked.sentences if s.status is Status.SUPPORTED and changed in s.text]
    assert tried > 20
