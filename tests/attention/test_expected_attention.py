"""Expected Attention: closed form, moments over chunks, and what is kept."""

import dataclasses

import pytest
import torch
from made_sequences import Made, made, rotate

from deepedu.attention.base import Budget
from deepedu.attention.methods.expected_attention import ExpectedAttention
from deepedu.attention.reference import TensorRows
from deepedu.base.errors import ConfigError, Unsupported

BUDGET = Budget(tokens=40, sinks=4, local=8)


def kept(method: ExpectedAttention, sequence: Made, chunk: int, budget: Budget = BUDGET) -> list[list[int]]:
    results = [method.keep(call) for call in sequence.calls(chunk, budget)]
    assert all(each is None for each in results[:-1])
    assert results[-1] is not None
    return [rows.tolist() for rows in results[-1]]


def plain_votes(sequence: Made, horizon: int, sinks: int = 4, norm: bool = True) -> torch.Tensor:
    """The paper's score, query head by query head in float64, its rotation averaged by rotating unit vectors."""
    length = sequence.length
    queries = rotate(sequence.queries, 0, -1)[:, sinks:].double()
    keys, values = (each.double() for each in next(sequence.rows.parts(0, length)))
    unit = torch.eye(8)
    rotation = torch.stack([rotate(unit[:, None], length + ahead)[:, 0].T.double() for ahead in range(horizon)]).mean(0)
    heads, kv_heads = queries.shape[0], keys.shape[0]
    votes = torch.zeros(kv_heads, length, dtype=torch.float64)
    for head in range(heads):
        mean, covariance = queries[head].mean(0), torch.cov(queries[head].T, correction=0)
        mean, covariance = rotation @ mean, rotation @ covariance @ rotation.T
        own = keys[head // (heads // kv_heads)]
        scores = own @ mean * 8**-0.5 + torch.einsum("nd,de,ne->n", own, covariance, own) / 16
        votes[head // (heads // kv_heads)] += torch.softmax(scores, dim=0)
    votes *= values.norm(dim=2) if norm else 1
    votes[:, :sinks] = float("inf")
    return votes


@pytest.mark.parametrize("chunk", [150, 64, 7, 3])
@pytest.mark.parametrize("norm", [True, False])
def test_it_keeps_the_rows_of_highest_score(chunk: int, norm: bool) -> None:
    sequence = made(150)
    votes = plain_votes(sequence, 16, norm=norm)
    expected = [sorted(row.topk(40).indices.tolist()) for row in votes]
    assert kept(ExpectedAttention(horizon_tokens=16, value_norm=norm), sequence.afresh(), chunk) == expected


def test_the_closed_form_is_the_mean_over_gaussian_queries() -> None:
    noise = torch.Generator().manual_seed(0)
    mean, key = torch.randn(8, generator=noise), torch.randn(8, generator=noise)
    root = 0.5 * torch.randn(8, 8, generator=noise)
    queries = mean + torch.randn(400_000, 8, generator=noise) @ root.T
    sampled = torch.exp(queries @ key * 8**-0.5).mean()
    closed = torch.exp(mean @ key * 8**-0.5 + key @ root @ root.T @ key / 16)
    assert float(sampled / closed) == pytest.approx(1, abs=0.02)


def test_without_spread_it_is_the_attention_of_the_one_query() -> None:
    noise = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 100, 8, generator=noise), torch.randn(2, 100, 8, generator=noise)
    query = torch.randn(4, 1, 8, generator=noise)
    sequence = Made(TensorRows(keys, values), rotate(query.expand(4, 100, 8), 0))
    asked = rotate(query, 100)[:, 0]
    weights = torch.softmax(torch.einsum("gjd,gnd->gjn", asked.view(2, 2, 8), keys) * 8**-0.5, dim=-1).mean(1)
    weights[:, :4] = 1
    expected = [sorted(each.topk(40).indices.tolist()) for each in weights]
    assert kept(ExpectedAttention(horizon_tokens=1, value_norm=False), sequence, 30) == expected


def test_what_all_queries_look_for_stays() -> None:
    # Key head 1, which query heads 7 to 13 read, holds the row; before RoPE these heads ask for it everywhere.
    noise = torch.Generator().manual_seed(0)
    keys = 0.3 * torch.randn(4, 200, 8, generator=noise)
    queries = 0.1 * torch.randn(28, 200, 8, generator=noise)
    queries[7:14, :, 3] += 6
    keys[1, 90, 3] = 4.0  # Channel 3 turns slowest.
    sequence = Made(TensorRows(keys, torch.ones(4, 200, 8)), rotate(queries, 0))
    stay = kept(ExpectedAttention(horizon_tokens=4), sequence, 64, Budget(tokens=8, sinks=0, local=1))
    assert 90 in stay[1]


def test_sinks_stay_and_all_heads_keep_as_many() -> None:
    for rows in kept(ExpectedAttention(), made(150), 64):
        assert rows[:4] == [0, 1, 2, 3]
        assert len(rows) == 40


def test_nothing_is_dropped_while_everything_fits() -> None:
    for call in made(40).calls(16, BUDGET):
        assert ExpectedAttention().keep(call) is None


def test_a_model_without_rope_is_refused() -> None:
    call = dataclasses.replace(made(100).call(0, 100, BUDGET), unrope=None)
    with pytest.raises(Unsupported, match="RoPE"):
        ExpectedAttention().keep(call)


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match="horizon_tokens=0"):
        ExpectedAttention(horizon_tokens=0)
