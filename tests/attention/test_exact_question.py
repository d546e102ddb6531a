"""Budgets and tallies, and the question's own tokens, which attend densely."""

import pytest
import torch
from made_sequences import SMALL, made

from deepedu.attention import reference, run
from deepedu.attention.base import Budget, Tally
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.base.errors import BudgetError


@pytest.mark.parametrize("exact_from", [0, 100, 150, 199])
def test_rows_from_the_question_on_are_dense(exact_from: int) -> None:
    sequence = made(200, heads=4, kv_heads=2)
    call = sequence.call(100, 200, SMALL)
    out = run.attend(TokenSelect(), call, exact_from)
    exact = reference.dense(call)
    split = max(0, exact_from - 100)
    torch.testing.assert_close(out[split:], exact[split:], atol=1e-5, rtol=1e-5)
    if split:
        before = TokenSelect().attend(sequence.call(100, exact_from, SMALL))
        assert torch.equal(out[:split], before)
        assert not torch.allclose(out[:split], exact[:split], atol=1e-3)


@pytest.mark.parametrize("exact_from", [None, 200, 300])
def test_without_a_question_the_method_decides(exact_from: int | None) -> None:
    call = made(200, heads=4, kv_heads=2).call(100, 200, SMALL)
    assert torch.equal(run.attend(TokenSelect(), call, exact_from), TokenSelect().attend(call))


def test_decode_is_the_methods_whatever_the_question() -> None:
    sequence = made(200, heads=4, kv_heads=2)
    call = sequence.call(199, 200, SMALL, phase="decode")
    run.attend(TokenSelect(), call, 0)
    assert sequence.tally.retrieval_calls == 1


@pytest.mark.parametrize(
    ("tokens", "sinks", "local", "message"),
    [(639, 128, 512, "give at least 640"), (100, -1, 10, "sinks=-1"), (100, 10, 0, "local=0")],
)
def test_a_budget_that_cannot_hold(tokens: int, sinks: int, local: int, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget(tokens, sinks, local)


def test_a_budget_of_sinks_and_window_selects_nothing() -> None:
    assert Budget(640, 128, 512).selected == 0
    assert Budget().selected == 1024


def test_tallies_add_up() -> None:
    total = Tally()
    assert total.mean_cluster_blocks == 0
    for _ in range(2):
        total.add(Tally(retrieval_calls=2, blocks=6, rows_read=10, cache_hits=1))
    assert total == Tally(4, 12, 20, 2)
    assert total.mean_cluster_blocks == 3
