"""Scores of keys, votes and means."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_sequences import made

from deepedu.attention.scoring import best_rows, block_means, grouped_scores, key_scores, soft_vote


@pytest.mark.parametrize(("heads", "kv_heads"), [(28, 4), (12, 2), (4, 4), (6, 1)])
@pytest.mark.parametrize("pieces", [False, True])
def test_a_query_head_is_scored_against_its_groups_key_head(heads: int, kv_heads: int, pieces: bool) -> None:
    call = made(130, heads, kv_heads, pieces=pieces).call(100, 130)
    queries = call.queries[:, :3].transpose(0, 1)
    scores = key_scores(call, queries, 7, 121)
    assert scores.shape == (3, heads, 114)
    for head in range(heads):
        keys = call.rows.keys(7, 121)[head // (heads // kv_heads)]
        torch.testing.assert_close(scores[:, head], queries[:, head] @ keys.T * call.scale, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(grouped_scores(call, queries, [call.rows.keys(7, 121)]), scores)


def test_scores_are_float32_whatever_the_rows_are() -> None:
    call = made(40).call(0, 40)
    keys = call.rows.keys(0, 40).bfloat16()
    assert grouped_scores(call, call.queries.transpose(0, 1), [keys]).dtype == torch.float32


def test_every_head_has_one_vote() -> None:
    votes = soft_vote(torch.tensor([[[0.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]]]))
    torch.testing.assert_close(votes, torch.tensor([[1.25, 0.25, 0.25, 0.25]]))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30, unique=True), st.integers(0, 40), st.integers(0, 9))
def test_best_rows_are_the_highest_in_ascending_order(votes: list[int], count: int, first: int) -> None:
    best = sorted(range(len(votes)), key=lambda row: -votes[row])[:count]
    expected = sorted(row + first for row in best)
    assert best_rows(torch.tensor(votes, dtype=torch.float32), count, first).tolist() == expected


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 100])
def test_block_means(length: int) -> None:
    queries = torch.randn(3, length, 5, generator=torch.Generator().manual_seed(0))
    means = block_means(queries, 32)
    expected = [queries[:, at : at + 32].mean(1) for at in range(0, length, 32)]
    torch.testing.assert_close(means, torch.stack(expected))
