"""Exercises without a book: a model answers with bullets and a calculator, and code marks it.

The reply's form is asked for in the rules and read in code. Models of this size put the right numbers into a formula
and then calculate wrongly, so that a reply ends with an expression, never with its value.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from deepedu.base.vietnamese import words
from deepedu.llm.chat import ChatModel, Finished, Message, TextPart, whole_reply
from deepedu.playbook.bullet import Bullet
from deepedu.playbook.examples import ARROW
from deepedu.playbook.interaction import Signal
from deepedu.playbook.problem import Attempt, Problem
from deepedu.tutor.calculator import calculations
from deepedu.tutor.expression import NotArithmetic, evaluate
from deepedu.tutor.marking import mark_choice, mark_number, mark_text
from deepedu.tutor.substitution import substitutions

_ID = re.compile(r"\bb-\d+\b")
_OPERATION = re.compile(r"\d\s*[%)]?\s*[-+*/x×÷^]|sqrt|ln|log")
# Numbers that a solution may use without the question giving them: halves, squares, percent.
_COMMON = {Fraction(1), Fraction(2), Fraction(100)}


@dataclass(frozen=True)
class Form:
    """How a kind of exercise is asked and marked.

    Args:
        rules: of the answer, shown to the model first; the same for every question.
        read: what answer a reply gives; None where it gives none.
        is_right: whether an answer is the expected one.
        tokens: longest reply.
        offers: what stands over the bullets.
        asks: the words around a question.
        asks_knowing: how a solution is asked for whose result is known; empty: it is not.
        demonstrates: how an example's solution is replied, in this form.
        one_kind: all questions are answered from one fixed set of labels.
        shows: what of a right reply can be shown as an example; empty: nothing.
    """

    rules: str
    read: Callable[[str, Problem], str | None]
    is_right: Callable[[str, Problem], bool]
    tokens: int
    offers: str = "Điều đã học được từ các câu trước:"
    asks: str = "Câu hỏi: {question}"
    asks_knowing: str = ""
    demonstrates: Callable[[str], str] = str
    one_kind: bool = False
    shows: Callable[[str, str], str] = lambda text, answer: ""  # noqa: ARG005


class ExerciseSolver:
    """A ``playbook.problem.Solver`` for exercises of one form."""

    def __init__(self, model: ChatModel, form: Form) -> None:
        self.model, self.form = model, form

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        """See ``Solver``. Without an expected answer there is a signal only where no answer could be read."""
        text, finished = await self._ask(self.form.asks.format(question=problem.question), bullets)
        answer = self.form.read(text, problem)
        signals: tuple[Signal, ...] = ()
        if answer is None:
            signals = (Signal(kind="execution", good=False, detail="no answer could be read in the reply"),)
        elif problem.expected is not None:
            signals = (Signal(kind="quiz", good=self.form.is_right(answer, problem)),)
        return Attempt(
            text=text,
            answer=answer or "",
            signals=signals,
            used=tuple(bullet.id for bullet in bullets if _rests_on(text, answer, bullet)),
            solution=self.form.shows(text, answer or "") if signals and all(each.good for each in signals) else "",
            prompt_tokens=finished.prompt_tokens or 0,
            completion_tokens=finished.completion_tokens or 0,
        )

    async def work_out(self, problem: Problem) -> str | None:
        """See ``Solver``: by the formula that the question names, else one of the model's that reaches the known
        result without writing it down."""
        if not self.form.asks_knowing or problem.expected is None:
            return None
        by_formula = await asyncio.to_thread(self._by_formula, problem)
        if by_formula is not None:
            return by_formula
        asked = self.form.asks_knowing.format(question=problem.question, expected=problem.expected)
        text, _ = await self._ask(asked, ())
        answer = self.form.read(text, problem)
        if answer is None or not self.form.is_right(answer, problem):
            return None
        found = last_expression(text)
        if found is None or not _stands_on(found, problem):
            return None
        return f"{found} = {answer}"

    def _by_formula(self, problem: Problem) -> str | None:
        for expression in substitutions(problem.question):
            answer = self.form.read(expression, problem)
            if answer is not None and self.form.is_right(answer, problem):
                return f"{expression} = {answer}"
        return None

    async def _ask(self, asked: str, bullets: Sequence[Bullet]) -> tuple[str, Finished]:
        # What all questions share comes first, then what questions of one kind share.
        messages = [Message("system", (TextPart(self.form.rules, shared=True),))]
        rules: list[str] = []
        for bullet in bullets:
            question, arrow, solution = bullet.text.partition(f"\n{ARROW} ")
            if arrow:
                # Small models copy what they seem to have said themselves, far better than what they are told.
                messages.append(Message("user", self.form.asks.format(question=question)))
                messages.append(Message("assistant", self.form.demonstrates(solution)))
            else:
                rules.append(f"- [{bullet.id}] {' '.join(bullet.text.split())}")
        learnt = "\n".join(rules)
        messages.append(Message("user", f"{self.form.offers}\n{learnt}\n\n{asked}" if rules else asked))
        return await whole_reply(self.model, messages, max_tokens=self.form.tokens)


def last_expression(text: str) -> str | None:
    """The last line of a reply that is an expression, else the last calculation in it; None without any."""
    for line in reversed(text.strip().splitlines()):
        for piece in reversed(re.split(r"(?<![<>=!])=(?!=)|:\s", line.strip("`$ .*"))):
            piece = piece.strip("`$ .*\\[]")
            if not re.search(r"\d", piece) or not _OPERATION.search(piece):
                continue
            try:
                evaluate(piece)
            except NotArithmetic:
                continue
            return piece
    found = calculations(text)
    return found[-1].expression if found else None


def read_expression(reply: str, _: Problem) -> str | None:
    """The value of a reply's last expression to six digits after the point; a bare number where there is none."""
    expression = last_expression(reply)
    if expression is None:
        numbers = [] if _OPERATION.search(reply) else re.findall(r"-?\d[\d,]*(?:\.\d+)?", reply)
        return numbers[-1].replace(",", "") if numbers else None
    try:
        return f"{float(evaluate(expression)):.6f}".rstrip("0").rstrip(".")
    except OverflowError:
        return None


def shown_expression(reply: str, answer: str) -> str:
    """A right reply's expression with its value; empty where it is a bare number."""
    expression = last_expression(reply)
    return f"{expression} = {answer}" if expression else ""


NUMBER = Form(
    rules="Giải bài toán. Viết ngắn gọn cách làm. Dòng cuối chỉ viết một biểu thức số cho đáp số, không tính ra kết "
    "quả: máy tính sẽ tính.",
    read=read_expression,
    shows=shown_expression,
    demonstrates=lambda solution: solution.rpartition(" = ")[0] or solution,
    is_right=lambda answer, problem: mark_number(answer, problem.expected or "", decimals=2),
    tokens=160,
    asks_knowing="Câu hỏi: {question}\nĐáp số đúng là {expected}. Viết biểu thức số cho ra đáp số đó từ các số trong "
    "bài.",
)
CHOICE = Form(
    rules="Chọn đáp án đúng. Viết ngắn gọn cách làm trong một hai câu. Dòng cuối viết: Đáp án: và chữ cái.",
    read=lambda reply, _: reply.strip() or None,
    is_right=lambda answer, problem: mark_choice(answer, problem.choices, problem.expected or ""),
    tokens=160,
)
TEXT = Form(
    rules="Trả lời thật ngắn gọn, chỉ viết câu trả lời.",
    read=lambda reply, _: reply.strip() or None,
    is_right=lambda answer, problem: mark_text(answer, problem.answers),
    tokens=64,
)


def _rests_on(text: str, answer: str | None, bullet: Bullet) -> bool:
    """Whether a reply names a bullet, or gives the answer that the bullet's example gives."""
    if bullet.id in _ID.findall(text):
        return True
    solution = " ".join(words(bullet.text.rpartition(ARROW)[2])) if ARROW in bullet.text else ""
    return bool(answer) and bool(solution) and f" {' '.join(words(answer or ''))} ".endswith(f" {solution} ")


def _stands_on(expression: str, problem: Problem) -> bool:
    """Whether an expression is made of the question's own numbers: another way to a known result is no solution."""
    asked = _numbers(problem.question)
    given = _COMMON | asked | {number / 100 for number in asked}
    return len(_numbers(expression)) > 0 and _numbers(expression) <= given


def _numbers(text: str) -> set[Fraction]:
    """The numbers of a text, thousands grouped or not, magnitudes left out."""
    return {
        Fraction(found.replace(",", "")) for found in re.findall(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", text)
    }
