"""What counts as a right reply."""

import unicodedata

import pytest

from deepedu.bench.longcontext.case import Question
from deepedu.bench.longcontext.scoring import score


def of(reply: str, *answers: str, **changes: object) -> float:
    return score(reply, Question("?", answers, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "answer", "expected"),
    [
        ("It is 71432.", "71432", 1),
        ("714321", "71432", 0),
        ("571432", "71432", 0),
        ("7143", "71432", 0),
        ("4,821,337", "4821337", 1),
        ("4.821.337 đồng", "4821337", 1),
        ("4 821 337", "4821337", 1),
        ("14,821,337", "4821337", 0),
        ("48.21337", "4821337", 0),
        ("**4821337**", "4821337", 1),
        ("x4821337", "4821337", 0),
        ("Con Mèo XANH!", "con mèo xanh", 1),
        ("con meo xanh", "con mèo xanh", 0),
        (unicodedata.normalize("NFD", "con mèo xanh"), "con mèo xanh", 1),
        ("hoà bình", "hòa bình", 1),
        ("xanh mèo con", "con mèo xanh", 0),
        ('2a8d601d-1d69-4e64-9f90-8ad825a74195"', "2a8d601d-1d69-4e64-9f90-8ad825a74195", 1),
        ("2a8d601d-1d69-4e64-9f90-8ad825a74196", "2a8d601d-1d69-4e64-9f90-8ad825a74195", 0),
        ("", "71432", 0),
    ],
)
def test_one_answer(reply: str, answer: str, expected: float) -> None:
    assert of(reply, answer) == expected


def test_all_answers_are_wanted_and_the_share_counts() -> None:
    assert of("111111, 222222, 333333", "111111", "222222", "333333", "444444") == 0.75
    assert of("111111 222222", "222222", "111111") == 1
    # Two short numbers beside each other are not one long number only.
    assert of("123 456", "123", "456") == 1


def test_naming_everything_there_is_is_no_knowledge() -> None:
    options = ("AAAAA", "BBBBB", "CCCCC", "DDDDD")
    assert of("VAR BBBBB, VAR DDDDD.", "DDDDD", "BBBBB", options=options) == 1
    assert of("AAAAA, BBBBB, CCCCC, DDDDD", "DDDDD", "BBBBB", options=options) == 0.5


def test_one_of_several_answers_suffices() -> None:
    assert of("in May 2018", "18 May 2018", "May 2018", match="any") == 1
    assert of("in June", "18 May 2018", "May 2018", match="any") == 0


def test_the_first_choice_that_is_named_counts() -> None:
    letters = {"match": "choice", "options": ("A", "B", "C", "D")}
    assert of("C) because a dog", "C", **letters) == 1
    assert of("B, not C", "C", **letters) == 0
    assert of("a cat, so C", "C", **letters) == 1
    assert of("Cats", "C", **letters) == 0
    phrases = {"match": "choice", "options": ("con mèo xanh", "con mèo nhỏ")}
    assert of("Con mèo nhỏ, chứ không phải con mèo xanh", "con mèo xanh", **phrases) == 0
    assert of("con mèo xanh.", "con mèo xanh", **phrases) == 1
    assert of("con chó", "con mèo xanh", **phrases) == 0
