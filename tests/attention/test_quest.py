"""Quest: pages by the bound of their channel-wise lowest and highest keys."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_sequences import chosen, made

from deepedu.attention.base import Budget
from deepedu.attention.methods.quest import Quest
from deepedu.attention.scoring import key_scores, page_scores
from deepedu.base.errors import ConfigError


@settings(max_examples=20, deadline=None)
@given(page=st.integers(1, 20), seed=st.integers(0, 20))
def test_a_page_scores_at_least_as_high_as_its_best_key(page: int, seed: int) -> None:
    sequence = made(100, seed=seed)
    call = sequence.call(99, 100)
    bounds = page_scores(call, call.queries.transpose(0, 1), "bound", page, 100)[0]
    scores = key_scores(call, call.queries.transpose(0, 1), 0, bounds.shape[1] * page)[0]
    best = scores.view(28, -1, page).amax(2)
    assert (bounds >= best - 1e-5).all()
    if page == 1:
        torch.testing.assert_close(bounds, best)


@pytest.mark.parametrize(("kind", "pooled"), [("mean", torch.mean), ("min", torch.amin), ("max", torch.amax)])
def test_summaries_of_a_growing_sequence_are_those_of_the_whole(kind: Any, pooled: Any) -> None:
    rows, whole = made(200, pieces=True).rows, made(200).rows.keys(0, 192).view(4, 12, 16, 8)
    for stop in (3, 16, 17, 100, 101, 200):
        assert torch.equal(rows.summaries(kind, 16, stop), pooled(whole[:, : stop // 16], dim=2))
    assert rows.summaries(kind, 16, 47).shape[1] == 2


def test_each_key_head_reads_the_best_pages_of_its_group() -> None:
    # Written out plainly: the page's highest possible score, the highest of the group's heads, the best pages.
    budget = Budget(tokens=16 + 32 + 48, sinks=16, local=32)
    call = made(320).call(319, 320, budget, phase="decode")
    (selection,) = Quest().select(call)
    assert selection.local_start == 288
    for kv_head in range(4):
        pages = call.rows.keys(0, 288)[kv_head].view(18, 16, 8)
        bounds = [
            max(
                float(torch.maximum(call.queries[head, 0] * page.amin(0), call.queries[head, 0] * page.amax(0)).sum())
                for head in range(kv_head * 7, kv_head * 7 + 7)
            )
            for page in pages[1:]
        ]
        best = sorted(sorted(range(17), key=lambda index: -bounds[index])[:3])
        assert chosen(selection, kv_head) == [row for page in best for row in range(16 * page + 16, 16 * page + 32)]


def test_the_page_that_the_window_cuts_is_read_whole() -> None:
    budget = Budget(tokens=16 + 32 + 48, sinks=16, local=32)
    call = made(315).call(314, 315, budget, phase="decode")
    (selection,) = Quest().select(call)
    assert selection.local_start == 272  # The window begins at 283; the 11 rows before it cost a page.
    assert [len(rows) for rows in selection.rows] == [32] * 4


def test_the_first_layers_are_dense() -> None:
    sequence = made(320)
    reads = [next(Quest().select(sequence.call(319, 320, phase="decode", layer=layer))) for layer in range(3)]
    assert [each.local_start > 0 for each in reads] == [False, False, True]


def test_too_few_rows_for_a_page_leave_sinks_and_window() -> None:
    call = made(320).call(319, 320, Budget(tokens=45, sinks=8, local=32), phase="decode")
    (selection,) = Quest().select(call)
    assert not selection.rows
    assert 320 - selection.local_start + 8 <= 45


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match="page_tokens=0"):
        Quest(page_tokens=0)


def test_it_counts_one_retrieval_a_step() -> None:
    sequence = made(210)
    for call in sequence.calls(100, Budget(tokens=90, sinks=8, local=32), decode=10):
        if call.phase == "decode":
            list(Quest().select(call))
    assert sequence.tally.retrieval_calls == 10
