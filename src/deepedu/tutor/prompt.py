"""What the model is shown, within a budget of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import estimate_tokens
from deepedu.llm.chat import Message, TextPart
from deepedu.search.evidence import Evidence

# Short on purpose: a small model follows three rules better than ten, and every token of it is paid in each prompt.
RULES = (
    "Bạn là trợ giảng. Chỉ dùng các đoạn trích từ sách giáo khoa dưới đây để trả lời bằng tiếng Việt, ngắn gọn, "
    "một đến ba câu. Giữ nguyên con số, ngày tháng và tên riêng trong sách. Cuối mỗi câu ghi số của đoạn đã dùng, "
    "ví dụ [1]. Nếu các đoạn không có câu trả lời, chỉ viết: Sách chưa nói đến điều này."
)

LEARNT = "Điều đã học được và đã kiểm chứng; câu nào dựa vào điều nào thì ghi số của điều đó:"


@dataclass(frozen=True)
class Prompt:
    """Messages to send, and the passages that fitted, in marker order: ``shown[0]`` is ``[1]``."""

    messages: tuple[Message, ...]
    shown: tuple[Evidence, ...]
    tokens: int


def build_prompt(
    question: str,
    evidence: Sequence[Evidence],
    history: Sequence[tuple[str, str]],
    *,
    passages: int,
    budget_tokens: int,
    learnt: str = "",
) -> Prompt:
    """Rules and what was learnt, then the earlier turns that fit, then passages and question.

    Passages come first when the budget is tight, best first, whole; history gets what they leave. At least one
    passage is always shown: the budget is a wish, the model's window is the limit, and its server guards that.
    """
    left = budget_tokens - estimate_tokens(RULES + learnt) - estimate_tokens(question)
    shown: list[Evidence] = []
    for item in evidence[:passages]:
        cost = estimate_tokens(_passage(1, item))
        if shown and cost > left:
            break
        shown.append(item)
        left -= cost
    turns, left = _turns_within(history, left)
    body = "\n\n".join(_passage(marker, item) for marker, item in enumerate(shown, 1))
    ask = f"{body}\n\n{_asked(question)}" if shown else _asked(question)
    rules = with_learnt(Message("system", (TextPart(RULES, shared=True),)), learnt)
    return Prompt((rules, *turns, Message("user", ask)), tuple(shown), budget_tokens - left)


def build_lesson_prompt(
    question: str,
    system: Message,
    passages: Sequence[Evidence],
    history: Sequence[tuple[str, str]],
    *,
    budget_tokens: int,
    learnt: str = "",
) -> Prompt:
    """Rules and lesson as ``system`` has them, what was learnt, then the earlier turns that fit, then the question.

    ``passages`` are the lesson's, in marker order; the budget is for what follows it.
    """
    turns, left = _turns_within(history, budget_tokens - estimate_tokens(question))
    system = with_learnt(system, learnt)
    used = budget_tokens - left + estimate_tokens(system.text)
    return Prompt((system, *turns, Message("user", _asked(question))), tuple(passages), used)


def with_learnt(system: Message, learnt: str) -> Message:
    """The rules with bullets at their end: what is the same for every question stands before what is not."""
    if not learnt:
        return system
    parts = system.content if not isinstance(system.content, str) else (TextPart(system.content),)
    return Message("system", (*parts, TextPart(f"\n{LEARNT}\n{learnt}")))


def _turns_within(history: Sequence[tuple[str, str]], left: int) -> tuple[list[Message], int]:
    """The latest turns that fit into ``left`` tokens, and what they leave."""
    turns: list[Message] = []
    for past_question, past_answer in reversed(history):
        cost = estimate_tokens(past_question) + estimate_tokens(past_answer)
        if cost > left:
            break
        turns[:0] = [Message("user", past_question), Message("assistant", past_answer)]
        left -= cost
    return turns, left


def _asked(question: str) -> str:
    return f"Câu hỏi: {question}"


def _passage(marker: int, item: Evidence) -> str:
    return f"[{marker}] {item.lesson or item.book}: {item.text}"
