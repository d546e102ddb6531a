"""Exercises: what a reply's answer is, who marks it, and what is shown with a question."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.bullet import Author, Bullet
from deepedu.playbook.problem import Attempt, Problem
from deepedu.tutor.exercise import CHOICE, NUMBER, TEXT, ExerciseSolver, Form, last_expression, read_expression

MARGIN = Problem(
    id="m",
    question="Formula: Operating Margin = (Operating Income / Revenue) × 100\nIncome $45,000, revenue $300,000.",
    expected="15.0",
)
ROWS = Problem(id="r", question="Có 3 hàng, mỗi hàng 4 cây. Hỏi có bao nhiêu cây?", expected="12")


def bullet(number: int, text: str, **more: Any) -> Bullet:
    at = datetime(2026, 9, 5, tzinfo=UTC)
    values: dict[str, Any] = {"section": "", "kind": "method", "author": Author(role="model"), **more}
    return Bullet(id=f"b-{number:05d}", order=number, text=text, created_at=at, changed_at=at, **values)


def attempt(reply: str, problem: Problem = MARGIN, form: Form = NUMBER, *bullets: Bullet) -> Attempt:
    return asyncio.run(ExerciseSolver(ScriptedModel([reply]), form).attempt(problem, bullets))


def worked_out(reply: str, problem: Problem = ROWS, form: Form = NUMBER) -> str | None:
    return asyncio.run(ExerciseSolver(ScriptedModel([reply]), form).work_out(problem))


# --- Expressions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "expression", "value"),
    [
        ("Operating Margin = (45,000 / 300,000) × 100", "(45,000 / 300,000) × 100", "15"),
        ("(45,000 / 300,000) × 100 = 15%", "(45,000 / 300,000) × 100", "15"),
        ("(45,000 / 300,000) × 100 = 90.00 %.", "(45,000 / 300,000) × 100", "15"),
        ("(13% - 1.2%) / 1.6", "(13% - 1.2%) / 1.6", "0.07375"),
        ("= 3 + 4 = 7", "3 + 4", "7"),
        ("= (45,000 / 300,000) × 100 = 0.15 × 100 = 15", "0.15 × 100", "15"),
        ("```\n(45000/300000)*100\n```", "(45000/300000)*100", "15"),
        ("```python\n(45000/300000)*100\n```", "(45000/300000)*100", "15"),
        ("`(45000 / 300000) * 100`", "(45000 / 300000) * 100", "15"),
        ("**(45,000 / 300,000) × 100**", "(45,000 / 300,000) × 100", "15"),
        ("\\[ \\frac{45000}{300000} \\times 100 \\]", "\\frac{45000}{300000} \\times 100", "15"),
        ("$$\\frac{45,000}{300,000} \\times 100 = 15$$", "\\frac{45,000}{300,000} \\times 100", "15"),
        ("Expression: (45000 / 300000) * 100", "(45000 / 300000) * 100", "15"),
        ("The expression is (45,000 / 300,000) * 100.", "(45,000 / 300,000) * 100", "15"),
        ("1. Income: $45,000\n2. Revenue: $300,000\n(45,000 / 300,000) * 100", "(45,000 / 300,000) * 100", "15"),
        ("(45,000 / 300,000) * 100\n\nNote: this is a percentage.", "(45,000 / 300,000) * 100", "15"),
        ("Step 1: 5 + 5\nStep 2: 10 / 2", "10 / 2", "5"),
        ("P_0 = D_1 / (r - g) = 4 / (0.13 - 0.03)", "4 / (0.13 - 0.03)", "40"),
        ("$4 / (13% - 3%)", "4 / (13% - 3%)", "40"),
        ("5,000 × (1 + 0.05)^3", "5,000 × (1 + 0.05)^3", "5788.125"),
        ("45,000 ÷ 300,000 x 100%", "45,000 ÷ 300,000 x 100%", "15"),
        ("10 / 3", "10 / 3", "3.333333"),
        ("−5 + 3", "−5 + 3", "-2"),
        ("2 × 50", "2 × 50", "100"),
        ("sqrt(16)", "sqrt(16)", "4"),
        ("$1.2 million / 4", "1.2 million / 4", "300000"),
    ],
)
def test_the_last_expression_of_a_reply(reply: str, expression: str, value: str) -> None:
    assert last_expression(reply) == expression
    assert read_expression(reply, MARGIN) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [("15.00", "15.00"), ("The answer is $15.00.", "15.00"), ("Đáp số: 1,250 cây", "1250"), ("-5", "-5")],
)
def test_a_bare_number_where_there_is_no_expression(reply: str, value: str) -> None:
    assert last_expression(reply) is None
    assert read_expression(reply, MARGIN) == value


@pytest.mark.parametrize("reply", ["", "I do not know.", "Operating Income / Revenue", "Em không biết ạ"])
def test_a_reply_without_an_answer_is_a_signal_of_its_own(reply: str) -> None:
    found = attempt(reply)
    assert (found.answer, found.text, found.is_right) == ("", reply, False)
    assert [(each.kind, each.good) for each in found.signals] == [("execution", False)]
    assert found.signals[0].detail


@pytest.mark.parametrize(
    ("reply", "right"),
    [("(45,000 / 300,000) × 100", True), ("45,000 / 300,000", False), ("15.004", True), ("16", False)],
)
def test_code_marks_what_a_model_wrote(reply: str, right: bool) -> None:
    found = attempt(reply)
    assert (found.is_right, found.signals[0].kind) == (right, "quiz")
    unknown = attempt(reply, MARGIN.model_copy(update={"expected": None}))
    assert (unknown.signals, unknown.is_right, unknown.answer) == ((), None, found.answer)


# --- Other forms -----------------------------------------------------------------------------------------------------

CHOICES = Problem(id="c", question="6 x 7 = ?", choices=("A. 40", "B. 42", "C. 48"), expected="B. 42")
NAME = Problem(id="n", question="Ai đặt tên cho nhân tế bào?", expected="Robert Brown|Brown")


@pytest.mark.parametrize(
    ("problem", "form", "reply", "right"),
    [
        (CHOICES, CHOICE, "6 x 7 = 42.\nĐáp án: B", True),
        (CHOICES, CHOICE, "Đáp án: C", False),
        (CHOICES, CHOICE, "Không biết.", False),
        (NAME, TEXT, "Brown.", True),
        (NAME, TEXT, "robert brown", True),
        (NAME, TEXT, "Robert Hooke", False),
    ],
)
def test_choices_and_words(problem: Problem, form: Form, reply: str, right: bool) -> None:
    assert attempt(reply, problem, form).is_right is right
    assert attempt(" \n ", problem, form).signals[0].kind == "execution"


# --- Working out -----------------------------------------------------------------------------------------------------


def test_a_solution_reaches_the_result_from_the_numbers_of_the_question() -> None:
    assert worked_out("3 × 4") == "3 × 4 = 12"
    assert worked_out("Có 3 hàng.\n3 x 4 = 12 (cây)") == "3 x 4 = 12"


@pytest.mark.parametrize("reply", ["12 × 1", "12 + 0", "0 + 12.00", "12/1", "12", "3 + 4", "Không biết.", ""])
def test_writing_the_result_down_is_no_solution(reply: str) -> None:
    assert worked_out(reply) is None


def test_a_result_that_stands_in_the_question_may_be_written() -> None:
    same = Problem(id="s", question="Lấy 12 chia cho 1 được bao nhiêu?", expected="12")
    assert worked_out("12 / 1", same) == "12 / 1 = 12"


def test_nothing_is_worked_out_where_nothing_is_known() -> None:
    silent = ExerciseSolver(ScriptedModel([]), NUMBER)
    assert asyncio.run(silent.work_out(ROWS.model_copy(update={"expected": None}))) is None
    # A form that asks for no solutions.
    assert asyncio.run(ExerciseSolver(ScriptedModel([]), CHOICE).work_out(CHOICES)) is None


def test_a_solution_is_asked_for_with_the_result_and_without_bullets() -> None:
    model = ScriptedModel(["3 x 4"])
    asyncio.run(ExerciseSolver(model, NUMBER).work_out(ROWS))
    asked = model.requests[0][1].text
    assert ROWS.question in asked
    assert "Đáp số đúng là 12." in asked


# --- Bullets ---------------------------------------------------------------------------------------------------------


def test_bullets_that_a_reply_names_are_used() -> None:
    shown = (bullet(1, "Nhân số hàng với số cây."), bullet(2, "Chia đều."), bullet(12, "Cộng lại."))
    assert attempt("Theo [b-00012] và b-00001: 3 x 4", ROWS, NUMBER, *shown).used == ("b-00001", "b-00012")
    assert attempt("Theo [b-00099]: 3 x 4", ROWS, NUMBER, *shown).used == ()
    assert attempt("Theo b-000012: 3 x 4", ROWS, NUMBER, *shown).used == ()


def test_bullets_whose_example_has_the_answer_are_used() -> None:
    shown = (
        bullet(1, "Ai đặt tên cho tế bào?\n→ Robert Hooke"),
        bullet(2, "Ai đặt tên cho nhân?\n→ Robert Brown"),
        bullet(3, "Robert Brown là nhà thực vật học."),
    )
    assert attempt("Robert Brown.", NAME, TEXT, *shown).used == ("b-00002",)
    assert attempt("robert hooke", NAME, TEXT, *shown).used == ("b-00001",)
    assert attempt("Brownie Robert Brownie", NAME, TEXT, *shown).used == ()


def test_what_is_shared_comes_first_and_the_question_last() -> None:
    model = ScriptedModel(["3 x 4", "3 x 4"])
    solver = ExerciseSolver(model, NUMBER)
    asyncio.run(solver.attempt(ROWS, (bullet(1, "Nhân số hàng\nvới số cây."), bullet(2, "Chia đều."))))
    asyncio.run(solver.attempt(ROWS))
    rules, asked = model.requests[0]
    assert not isinstance(rules.content, str)
    assert [(part.text, part.shared) for part in rules.content] == [(NUMBER.rules, True)]
    assert isinstance(asked.content, str)
    assert asked.text == (
        f"{NUMBER.offers}\n- [b-00001] Nhân số hàng với số cây.\n- [b-00002] Chia đều.\n\nCâu hỏi: {ROWS.question}"
    )
    assert [message.text for message in model.requests[1]] == [NUMBER.rules, f"Câu hỏi: {ROWS.question}"]


def test_a_reply_is_no_longer_than_the_form_allows_and_tokens_are_counted() -> None:
    found = attempt("3 x 4 + 1", ROWS, replace(NUMBER, tokens=3))
    assert (found.text, found.completion_tokens, found.prompt_tokens) == ("3 x 4", 3, 0)


def test_braces_in_a_question_are_only_braces() -> None:
    braces = Problem(id="b", question="Tập hợp {1; 2} có {0} phần tử?", expected="2")
    model = ScriptedModel(["1 + 1", "1 + 1"])
    solver = ExerciseSolver(model, NUMBER)
    assert asyncio.run(solver.attempt(braces)).is_right
    assert asyncio.run(solver.work_out(braces)) == "1 + 1 = 2"
    assert braces.question in model.requests[0][1].text


@pytest.mark.parametrize("reply", ["10^400 * 2", "5 / 0", "Kết quả: 5 / 0"])
def test_what_has_no_value_is_no_answer(reply: str) -> None:
    assert read_expression(reply, Problem(id="x", question="?")) is None


@pytest.mark.parametrize("reply", ["24 / 2", "11 + 1", "12.0 * 1", "12,0 * 1", "144 / 12", "1.2 * 10"])
def test_numbers_from_nowhere_are_no_solution(reply: str) -> None:
    asked = Problem(id="x", question="Có 3 hàng, mỗi hàng 4 cây. Hỏi mấy cây?", expected="12")
    assert asyncio.run(ExerciseSolver(ScriptedModel([reply]), NUMBER).work_out(asked)) is None


def test_the_questions_own_numbers_are_one() -> None:
    asked = Problem(id="x", question="Có 3 hàng, mỗi hàng 4 cây. Hỏi mấy cây?", expected="12")
    assert asyncio.run(ExerciseSolver(ScriptedModel(["3 * 4"]), NUMBER).work_out(asked)) == "3 * 4 = 12"
    tax = Problem(id="y", question="Lãi 5% của 200?", expected="10")
    assert asyncio.run(ExerciseSolver(ScriptedModel(["200 * 0.05"]), NUMBER).work_out(tax)) == "200 * 0.05 = 10"


def test_examples_are_turns_that_the_model_seems_to_have_had() -> None:
    model = ScriptedModel(["3 * 4"])
    made = Bullet(
        id="b-00007",
        order=7,
        section="",
        text="2 hàng, mỗi hàng 5 cây?\n→ 2 * 5 = 10",
        kind="method",
        status="verified",
        author=Author(role="model"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        changed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    asked = Problem(id="x", question="3 hàng, mỗi hàng 4 cây?", expected="12")
    asyncio.run(ExerciseSolver(model, NUMBER).attempt(asked, [made]))
    roles = [(message.role, message.text) for message in model.requests[0]][1:]
    assert roles == [
        ("user", "Câu hỏi: 2 hàng, mỗi hàng 5 cây?"),
        # As a reply is asked for: an expression, not its value.
        ("assistant", "2 * 5"),
        ("user", "Câu hỏi: 3 hàng, mỗi hàng 4 cây?"),
    ]
