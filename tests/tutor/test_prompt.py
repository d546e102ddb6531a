"""The prompt keeps its budget: best passages first and whole, history with what is left."""

from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.vietnamese import estimate_tokens
from deepedu.search.evidence import Evidence
from deepedu.tutor.prompt import RULES, build_prompt


def passage(number: int, text: str) -> Evidence:
    return Evidence(number, 1, "Sách", "Chương I", f"Bài {number}", text, number, number, ((0, len(text), number, 0),))


def test_markers_follow_the_order_of_the_evidence() -> None:
    prompt = build_prompt("Hỏi?", [passage(1, "Một."), passage(2, "Hai.")], [], passages=3, budget_tokens=2000)
    assert "[1] Bài 1: Một." in prompt.messages[-1].text
    assert "[2] Bài 2: Hai." in prompt.messages[-1].text
    assert prompt.messages[-1].text.endswith("Câu hỏi: Hỏi?")
    assert prompt.messages[0].text == RULES


def test_history_comes_between_rules_and_question_newest_kept() -> None:
    history = [("cũ " * 200, "xưa " * 200), ("mới", "nay")]
    prompt = build_prompt("Hỏi?", [passage(1, "Một.")], history, passages=3, budget_tokens=400)
    assert [m.role for m in prompt.messages] == ["system", "user", "assistant", "user"]
    assert prompt.messages[1].text == "mới"


def test_no_evidence_still_asks() -> None:
    prompt = build_prompt("Hỏi?", [], [], passages=3, budget_tokens=400)
    assert prompt.shown == ()
    assert prompt.messages[-1].text == "Câu hỏi: Hỏi?"


@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=8),
    history=st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), max_size=4),
    limit=st.integers(1, 8),
    budget=st.integers(200, 2000),
)
def test_budget_holds_beyond_the_first_passage(
    sizes: list[int], history: list[tuple[str, str]], limit: int, budget: int
) -> None:
    evidence = [passage(number, "a" * size) for number, size in enumerate(sizes, 1)]
    prompt = build_prompt("Hỏi?", evidence, history, passages=limit, budget_tokens=budget)
    assert list(prompt.shown) == evidence[: len(prompt.shown)]
    assert 1 <= len(prompt.shown) <= limit
    # Every part is counted, with at most one token of rounding for each.
    used = sum(estimate_tokens(message.text) for message in prompt.messages)
    if len(prompt.shown) > 1 or len(prompt.messages) > 2:
        assert used <= budget + len(prompt.shown) + 8
