"""What the model is shown, within a budget of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import estimate_tokens
from deepedu.llm.chat import Message
from deepedu.search.evidence import Evidence

# Short on purpose: a small model follows three rules better than ten, and every token of it is paid in each prompt.
RULES = (
    "Bạn là trợ giảng. Chỉ dùng các đoạn trích từ sách giáo khoa dưới đây để trả lời bằng tiếng Việt, ngắn gọn, "
    "một đến ba câu. Giữ nguyên con số, ngày tháng và tên riêng trong sách. Cuối mỗi câu ghi số của đoạn đã dùng, "
    "ví dụ [1]. Nếu các đoạn không có câu trả lời, chỉ viết: Sách chưa nói đến điều này."
)


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
) -> Prompt:
    """Rules, then the earlier turns that fit, then passages and question.

    Passages come first when the budget is tight, best first, whole; history gets what they leave. At least one
    passage is always shown: the budget is a wish, the model's window is the limit, and its server guards that.
    """
    left = budget_tokens - estimate_tokens(RULES) - estimate_tokens(question)
    shown: list[Evidence] = []
    for item in evidence[:passages]:
        cost = estimate_tokens(_passage(1, item))
        if shown and cost > left:
            break
        shown.append(item)
        left -= cost
    turns: list[Message] = []
    for past_question, past_answer in reversed(history):
        cost = estimate_tokens(past_question) + estimate_tokens(past_answer)
        if cost > left:
            break
        turns[:0] = [Message("user", past_question), Message("assistant", past_answer)]
        left -= cost
    body = "\n\n".join(_passage(marker, item) for marker, item in enumerate(shown, 1))
    ask = f"{body}\n\nCâu hỏi: {question}" if shown else f"Câu hỏi: {question}"
    messages = (Message("system", RULES), *turns, Message("user", ask))
    return Prompt(messages, tuple(shown), budget_tokens - left)


def _passage(marker: int, item: Evidence) -> str:
    return f"[{marker}] {item.lesson or item.book}: {item.text}"
