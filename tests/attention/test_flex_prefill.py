"""FlexPrefill: patterns by head, and exact attention over the chosen blocks."""

import math

import pytest
import torch
from made_sequences import Made, made
from torch import Tensor

from deepedu.attention import reference
from deepedu.attention.base import Budget, Call
from deepedu.attention.methods.flex_prefill import FlexPrefill
from deepedu.attention.reference import TensorRows
from deepedu.base.errors import ConfigError

BUDGET = Budget(tokens=16, sinks=4, local=8)


def block_map(method: FlexPrefill, call: Call) -> Tensor:
    keys = call.rows.keys(0, call.stop)
    return torch.stack([method.blocks_of_head(call, head, keys[head // call.group]) for head in range(call.heads)])


def masked(method: FlexPrefill, call: Call) -> Tensor:
    """Softmax over all rows with the blocks that are not chosen masked out."""
    size = method.block_tokens
    keys, values = next(call.rows.parts(0, call.stop))
    rows, own = torch.arange(call.stop), torch.arange(call.start, call.stop)
    blocks = block_map(method, call)[:, own // size - call.start // size][:, :, rows // size]
    allowed = blocks & (rows <= own[:, None])
    scores = call.queries @ keys.repeat_interleave(call.group, 0).transpose(1, 2) * call.scale
    weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
    return (weights @ values.repeat_interleave(call.group, 0)).transpose(0, 1)


@pytest.mark.parametrize("tau", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("chunk", [300, 96, 77, 5])
def test_attention_over_the_chosen_blocks_is_exact(tau: float, chunk: int) -> None:
    method = FlexPrefill(block_tokens=16, gamma=0.6, tau=tau, min_budget_tokens=16)
    for call in made(300, heads=4, kv_heads=2).calls(chunk, BUDGET):
        if call.stop > 32:
            torch.testing.assert_close(method.attend(call), masked(method, call), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tau", [0.0, 10.0])
def test_to_cover_everything_is_dense(tau: float) -> None:
    method = FlexPrefill(block_tokens=16, gamma=1, tau=tau, min_budget_tokens=0)
    for call in made(200, heads=4, kv_heads=2).calls(77, BUDGET):
        torch.testing.assert_close(method.attend(call), reference.dense(call), atol=1e-5, rtol=1e-5)


def test_the_first_block_and_the_diagonal_are_always_read_and_nothing_later() -> None:
    method = FlexPrefill(block_tokens=16, gamma=0.01, tau=0.0, min_budget_tokens=0)
    for call in made(300).calls(77, BUDGET):
        chosen = block_map(method, call)
        own = torch.arange(call.start // 16, math.ceil(call.stop / 16))
        assert chosen[:, :, 0].all()
        assert chosen[:, torch.arange(len(own)), own].all()
        assert not (chosen & (torch.arange(chosen.shape[2]) > own[:, None])).any()


def test_query_aware_blocks_are_the_fewest_that_reach_gamma() -> None:
    method = FlexPrefill(block_tokens=16, gamma=0.7, tau=10, min_budget_tokens=0)
    call = made(320, heads=4, kv_heads=2, seed=5).call(0, 320, BUDGET)
    chosen = block_map(method, call)
    for head in range(4):
        queries = call.queries[head].view(20, 16, 8).mean(1)
        keys = call.rows.keys(0, 320)[head // 2].view(20, 16, 8).mean(1)
        causal = torch.ones(20, 20, dtype=torch.bool).tril()
        weights = torch.softmax((queries @ keys.T * call.scale).masked_fill(~causal, float("-inf")), dim=1)
        expected = (torch.arange(20) == 0) | torch.eye(20, dtype=torch.bool)
        mass = 0.0
        for index in weights.flatten().argsort(descending=True).tolist():
            expected[index // 20, index % 20] = True
            mass += float(weights.flatten()[index])
            if mass >= 0.7 * 20:
                break
        assert torch.equal(chosen[head], expected & causal)


def vertical_and_slash(length: int, column: int, distance: int) -> Made:
    """One head of which every query looks at one row and at the row so far before it."""
    keys = 0.01 * torch.randn(1, length, length + 1, generator=torch.Generator().manual_seed(0))
    keys[0, torch.arange(length), torch.arange(length)] += 30
    keys[0, column, length] = 30
    queries = torch.zeros(1, length, length + 1)
    queries[0, :, length] = 10
    queries[0, torch.arange(distance, length), torch.arange(length - distance)] += 10
    return Made(TensorRows(keys, torch.zeros(1, length, length + 1)), queries)


def test_vertical_and_slash_lines_are_found() -> None:
    method = FlexPrefill(block_tokens=16, gamma=0.9, tau=0, min_budget_tokens=0)
    call = vertical_and_slash(256, column=70, distance=96).call(0, 256, BUDGET, scale=0.1)
    (chosen,) = block_map(method, call)
    for block in range(16):
        assert chosen[block, 4] == (block >= 4)
        assert block < 6 or chosen[block, block - 6]
    assert chosen.sum() < 80  # Of 136 in the triangle.


def test_the_pattern_changes_where_the_divergence_is_tau() -> None:
    call = made(320, heads=4, kv_heads=2).call(0, 320, BUDGET)
    head, keys = 1, call.rows.keys(0, 320)[0]
    pooled = keys.view(20, 16, 8).mean(1)
    probe = call.queries[head, -16:]
    estimate = torch.softmax(pooled @ probe.mean(0) * call.scale, dim=0).double()
    later = torch.arange(320) > torch.arange(304, 320)[:, None]
    true = torch.softmax((probe @ keys.T * call.scale).masked_fill(later, float("-inf")), dim=1).mean(0)
    true = true.view(20, 16).sum(1).double()
    middle = (estimate + true) / 2
    divergence = ((estimate * (estimate / middle).log()).sum() + (true * (true / middle).log()).sum()) / 2
    root = float(divergence) ** 0.5
    maps = [
        FlexPrefill(block_tokens=16, gamma=0.5, tau=tau, min_budget_tokens=0).blocks_of_head(call, head, keys)
        for tau in (0.0, root * 0.999, root * 1.001, 10.0)
    ]
    assert torch.equal(maps[0], maps[1])
    assert torch.equal(maps[2], maps[3])
    assert not torch.equal(maps[1], maps[2])


def test_short_prompts_are_dense() -> None:
    method = FlexPrefill(block_tokens=16, gamma=0.01, min_budget_tokens=128)
    sequence = made(128, heads=4, kv_heads=2)
    call = sequence.call(0, 128, BUDGET)
    torch.testing.assert_close(method.attend(call), reference.dense(call), atol=1e-5, rtol=1e-5)
    assert sequence.tally.retrieval_calls == 0


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match=r"gamma=1\.5"):
        FlexPrefill(gamma=1.5)
