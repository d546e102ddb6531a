"""The code's own texts of every rung, for every question of the sample textbook."""

import json
from pathlib import Path

import pytest
from ladder_talk import Look, squashed

from deepedu.curriculum.sample import __file__ as sample
from deepedu.tutor.context import telling
from deepedu.tutor.hint_matter import Matter
from deepedu.tutor.hints import Rung
from deepedu.tutor.rung_texts import body


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_no_rung_before_the_last_tells_what_the_book_answers(look: Look, variant: int) -> None:
    lines = (Path(sample).parent / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [one for line in lines if (one := json.loads(line))["answerable"]]
    told: list[str] = []
    for one in asked:
        matter = Matter(one["question"], telling(one["question"], look(one["question"])))
        for rung in list(Rung)[Rung.ASKED : Rung.ANSWER]:
            text = body(matter, rung, variant)
            told += [f"{rung}: {text}" for answer in one["answers"] if squashed(answer) in squashed(text)]
    assert len(asked) > 50
    assert told == []
