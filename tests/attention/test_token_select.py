"""TokenSelect: the sub-chunk's mean query, the heads' vote, and the choice that decode uses again."""

import pytest
import torch
from made_sequences import SMALL, Made, check, chosen, made
from torch import Tensor

from deepedu.attention.base import Budget
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.attention.reference import TensorRows
from deepedu.attention.run import attend
from deepedu.attention.sparse import attend_selections
from deepedu.base.errors import ConfigError

BUDGET = Budget(tokens=8 + 32 + 20, sinks=8, local=32)


def test_a_sub_chunk_reads_what_its_mean_query_votes_for() -> None:
    # Written out plainly, head by head.
    sequence = made(300)
    call = sequence.call(150, 300, BUDGET)
    found = list(TokenSelect().select(call))
    assert [(each.begin, each.end) for each in found] == [(0, 32), (32, 64), (64, 96), (96, 128), (128, 150)]
    keys = sequence.rows.keys(0, 300)
    for selection in found:
        window = 150 + selection.end - 32
        votes = torch.zeros(window - 8)
        for head in range(28):
            query = call.queries[head, selection.begin : selection.end].mean(0)
            votes += torch.softmax(keys[head // 7, 8:window] @ query * 8**-0.5, dim=0)
        assert selection.local_start == window
        assert chosen(selection) == sorted((votes.topk(20).indices + 8).tolist())
    assert (sequence.tally.retrieval_calls, sequence.tally.blocks) == (5, 5)


def conversation(length: int, needle: int, seed: int) -> Made:
    """Queries that hardly change, which all look for one row; its value is told by the output."""
    noise = torch.Generator().manual_seed(seed)
    keys = 0.3 * torch.randn(4, length, 8, generator=noise)
    keys[:, needle] = torch.tensor([4.0] + [0.0] * 7)
    values = 0.1 * torch.randn(4, length, 8, generator=noise)
    values[:, needle] = 10.0
    queries = 0.1 * torch.randn(28, length, 8, generator=noise)
    queries[:, :, 0] += 8
    return Made(TensorRows(keys, values), queries)


def decoded(method: TokenSelect, sequence: Made, first: int) -> Tensor:
    outs: list[Tensor] = []
    for row in range(first, sequence.length):
        call = sequence.call(row, row + 1, BUDGET, phase="decode")
        (selection,) = method.select(call)
        check(call, [selection], BUDGET.tokens)
        outs.append(attend_selections(call, [selection]))
    return torch.cat(outs)


def test_500_steps_with_a_new_conversation_in_between() -> None:
    cached, fresh = TokenSelect(reuse_cosine=0.9), TokenSelect(reuse_cosine=1.01)
    for seed, needle in ((1, 60), (2, 95)):
        sequence, plain = conversation(400, needle, seed), conversation(400, needle, seed)
        outs, expected = decoded(cached, sequence, 150), decoded(fresh, plain, 150)
        assert (outs.mean((1, 2)) > 9).all(), "the needle is read at every step"
        torch.testing.assert_close(outs, expected, atol=0.2, rtol=0)
        # Each conversation chooses afresh at its first step, and whenever new tokens have used up the 20 selected.
        assert (sequence.tally.retrieval_calls, sequence.tally.cache_hits) == (13, 237)
        assert (plain.tally.retrieval_calls, plain.tally.cache_hits) == (250, 0)


def test_the_first_step_of_a_conversation_chooses_afresh() -> None:
    method = TokenSelect(reuse_cosine=-1)
    for seed in (1, 2):
        sequence = made(300, seed=seed)
        list(method.select(sequence.call(298, 299, BUDGET, phase="decode")))
        assert (sequence.tally.retrieval_calls, sequence.tally.cache_hits) == (1, 0)
        list(method.select(sequence.call(299, 300, BUDGET, phase="decode")))
        assert (sequence.tally.retrieval_calls, sequence.tally.cache_hits) == (1, 1)


def test_a_used_choice_still_sees_every_new_token() -> None:
    sequence, method = made(400), TokenSelect(reuse_cosine=-1)
    for row in range(300, 400):
        call = sequence.call(row, row + 1, BUDGET, phase="decode")
        (selection,) = method.select(call)
        assert selection.local_start <= row + 1 - 32
        seen = {*range(8), *chosen(selection), *range(selection.local_start, row + 1)}
        assert len(seen) <= BUDGET.tokens
        # All that came after the choice was made is read.
        assert set(range(row - (row - 300) % 20 - 31, row + 1)) <= seen
    assert sequence.tally.retrieval_calls == 5  # 100 steps, a choice has room for 20 of them: each serves 20.


def test_a_different_query_chooses_afresh() -> None:
    sequence = made(300)
    sequence.queries[:, 299] *= -1
    method = TokenSelect()
    for row in (297, 298, 299):
        list(method.select(sequence.call(row, row + 1, SMALL, phase="decode")))
    calls = sequence.tally.retrieval_calls
    assert calls >= 2
    sequence.queries[:, 298] = sequence.queries[:, 299]
    sequence.state.clear()
    for row in (298, 299):
        list(method.select(sequence.call(row, row + 1, SMALL, phase="decode")))
    assert sequence.tally.retrieval_calls == calls + 1


def test_decode_without_reuse_is_a_block_of_one_query() -> None:
    sequence = made(300)
    (one,) = TokenSelect(reuse_cosine=2).select(sequence.call(299, 300, BUDGET, phase="decode"))
    (other,) = TokenSelect().select(sequence.call(299, 300, BUDGET))
    assert chosen(one) == chosen(other)
    assert torch.equal(
        attend(TokenSelect(), sequence.call(299, 300, BUDGET)),
        attend(TokenSelect(reuse_cosine=2), sequence.call(299, 300, BUDGET, phase="decode")),
    )


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match="block_tokens"):
        TokenSelect(block_tokens=0)
