"""What a class made of a quiz, computed from marks alone."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.tutor.classwork import MarkedItem, Result
from deepedu.tutor.quiz import Choice, Claim, Item, Quiz, Short, TrueFalse, mark
from deepedu.tutor.quiz_results import class_result, mark_of_ten, of_ten, sign_of

START = datetime(2026, 9, 7, 1, 0, tzinfo=UTC)
CITY = Choice(stem="Thủ đô?", options=("Huế", "Hà Nội", "Đà Nẵng", "Vinh"), key=1)
CLAIMS = TrueFalse(stem="Xét:", statements=tuple(Claim(text=f"ý {n}", truth=n < 3) for n in (1, 2, 3, 4)))
LENGTH = Short(stem="Dài bao nhiêu?", key="2,5", unit="m")
QUIZ = Quiz(title="Đề", items=(CITY, CLAIMS, LENGTH), subject="Toán")


def marked(item: Item, answer: str) -> MarkedItem:
    told = mark(item, answer, subject=QUIZ.subject)
    return MarkedItem(item.id, "", told.score, told.points, told.max_points, told.right, told.given)


def result(learner: str, *answers: str) -> Result:
    marks = tuple(marked(item, answer) for item, answer in zip(QUIZ.items, answers, strict=True)) if answers else ()
    return Result(learner, START, START if answers else None, marks)


RESULTS = [
    result("l1", "B", "ĐĐSS", "2,5"),
    result("l2", "A", "ĐĐĐS", " HAI mét"),
    result("l3", "A", "", "hai  mét"),
    result("l4"),
]


def test_points_and_means() -> None:
    summary = class_result(QUIZ, RESULTS)
    assert [each.points for each in RESULTS] == [Decimal("1.75"), Decimal("0.5"), Decimal(0), Decimal(0)]
    assert (summary.handed_in, summary.max_points, summary.mean_points) == (3, Decimal("1.75"), Decimal("0.75"))
    assert summary.mean_of_ten == Decimal("4.29")
    assert [mark_of_ten(each) for each in RESULTS] == [Decimal("10.00"), Decimal("2.86"), Decimal("0.00"), None]
    assert summary.histogram() == [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]


def test_what_was_answered_instead_of_the_key() -> None:
    city, claims, length = class_result(QUIZ, RESULTS).items
    assert city.answers == (("A", 2, False), ("B", 1, True), ("C", 0, False), ("D", 0, False))
    assert claims.answers == (("a", 2, True), ("b", 2, True), ("c", 1, False), ("d", 2, False))
    assert claims.unanswered == 1
    assert length.answers == (("2,5", 1, True), ("HAI mét", 2, False))
    assert [each.number for each in class_result(QUIZ, RESULTS).hardest()] == [1, 3, 2]


@pytest.mark.parametrize(("answer", "sign"), [("", "open"), ("ĐĐSS", "right"), ("ĐĐSĐ", "partly"), ("SSĐĐ", "wrong")])
def test_signs(answer: str, sign: str) -> None:
    assert sign_of(marked(CLAIMS, answer)) == sign


def test_without_work_there_are_no_means() -> None:
    summary = class_result(QUIZ, [result("l4")])
    assert (summary.handed_in, summary.mean_points, summary.mean_of_ten) == (0, None, None)
    assert summary.hardest() == []
    assert of_ten(Decimal(0), Decimal(0)) == 0


@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.text("ĐS", min_size=4, max_size=4)), max_size=6))
def test_every_pupil_is_counted_once(answers: list[tuple[str, str]]) -> None:
    results = [result(f"l{n}", choice, truths, "1") for n, (choice, truths) in enumerate(answers)]
    summary = class_result(QUIZ, results)
    assert sum(summary.histogram()) == len(results)
    city, claims, _ = summary.items
    assert sum(count for _, count, _ in city.answers) == len(results)
    assert all(0 <= count <= len(results) for _, count, _ in claims.answers)
    assert all(each.mean is None or 0 <= each.mean <= 1 for each in summary.items)
