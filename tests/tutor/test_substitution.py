"""Numbers in the places of variables, where the question names its formula."""

import asyncio

import pytest

from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.problem import Problem
from deepedu.tutor.exercise import NUMBER, ExerciseSolver
from deepedu.tutor.substitution import substitutions

TREYNOR = (
    "Formula: Treynor Ratio = (R_p - R_f) / β_p\nR_p: Return of the portfolio, R_f: Risk-free rate\n"
    "Question: With a risk-free rate of 1.5%, a beta of 2 and a return of 15%, what is the ratio?"
)


def worked_out(question: str, expected: str, reply: str = "I do not know.") -> str | None:
    solver = ExerciseSolver(ScriptedModel(answer=lambda _: reply), NUMBER)
    return asyncio.run(solver.work_out(Problem(id="p1", question=question, expected=expected, language="en")))


@pytest.mark.parametrize(
    ("question", "expected", "solution"),
    [
        (TREYNOR, "0.07", "(15% - 1.5%) / 2 = 0.0675"),
        (
            "Formula: GDP = C + I + G + (X - M)\nC: consumption\nQuestion: Consumption is $2 trillion, investment $1 "
            "trillion, spending $1.5 trillion, exports $500 billion and imports $750 billion.",
            "4250000000000.0",
            "2 trillion + 1 trillion + 1.5 trillion + (500 billion - 750 billion) = 4250000000000",
        ),
        (
            "Formula: Gross Profit Margin = Gross Profit / Revenue x 100\n"
            "Question: Revenue was $120,000 and gross profit $40,000.",
            "33.33",
            "40,000 / 120,000 × 100 = 33.333333",
        ),
        (
            "Formula: FV = PV(1 + r)^t\nQuestion: $1,000 lie for 2 years at 10%.",
            "1210.0",
            "1,000(1 + 10%)^2 = 1210",
        ),
        ("Công thức: v = s / t\nMột xe đi 120 km trong 2 giờ. Tính tốc độ.", "60", "120 / 2 = 60"),
    ],
    ids=["percent", "billions", "words as names", "a power", "Vietnamese"],
)
def test_the_assignment_that_gives_the_answer_is_the_solution(question: str, expected: str, solution: str) -> None:
    assert worked_out(question, expected) == solution


@pytest.mark.parametrize(
    "question",
    [
        "What are 3 and 4 together?",
        "Formula: C = S N(d1) - K\nQuestion: S is 100, K is 90 and d1 is 0.5.",
        "Formula: a = b / c\nQuestion: b is 12.",
        "Formula: Present Value\nQuestion: 12 years at 3%.",
        "Formula: z = a + b + c + d + e + f + g\nQuestion: 1, 2, 3, 4, 5, 6, 7.",
    ],
    ids=["no formula", "a function", "too few numbers", "no equation", "too many variables"],
)
def test_where_nothing_can_be_tried(question: str) -> None:
    assert list(substitutions(question)) == []


def test_an_answer_that_no_assignment_gives_is_left_to_the_model() -> None:
    assert worked_out(TREYNOR, "99") is None
    assert worked_out("Formula: v = s / t\nQuestion: 120 km in 2 hours and 3 minutes.", "363", "120 * 3 + 3") == (
        "120 * 3 + 3 = 363"
    )


def test_every_expression_is_tried_once_in_the_order_of_the_numbers() -> None:
    question = "Formula: s = a + b\nQuestion: 5 and 5 and 7."
    assert list(substitutions(question)) == ["5 + 5", "5 + 7", "7 + 5"]
