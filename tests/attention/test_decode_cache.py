"""A decode step's choice, made or used again."""

import torch
from made_sequences import chosen, made

from deepedu.attention.base import Budget
from deepedu.attention.decode_cache import STATE, DecodeCache
from deepedu.attention.scoring import key_scores, soft_vote

BUDGET = Budget(tokens=8 + 32 + 20, sinks=8, local=32)


def test_a_used_choice_gives_up_its_least_voted_rows_first() -> None:
    sequence = made(320)
    first = sequence.call(299, 300, BUDGET, phase="decode")
    votes = soft_vote(key_scores(first, first.queries.transpose(0, 1), 8, 268))[0]
    by_vote = (votes.argsort(descending=True) + 8).tolist()
    for row in range(299, 319):
        selection = DecodeCache(reuse_cosine=-1).select(sequence.call(row, row + 1, BUDGET, phase="decode"))
        assert selection.local_start == 268
        assert chosen(selection) == sorted(by_vote[: 20 - (row - 299)])
    # Nothing of the choice is left.
    selection = DecodeCache(reuse_cosine=-1).select(sequence.call(319, 320, BUDGET, phase="decode"))
    assert selection.local_start == 288
    assert sequence.tally.retrieval_calls == 2


def test_queries_are_compared_with_the_one_that_chose() -> None:
    # 20 degrees from step to step are close (cos 0.94), 40 from the choosing query are not (0.77).
    sequence = made(310)
    for step in range(10):
        angle = torch.tensor(20.0 * step) * (torch.pi / 180)
        sequence.queries[:, 300 + step] = 0
        sequence.queries[:, 300 + step, 0], sequence.queries[:, 300 + step, 1] = angle.cos(), angle.sin()
    for row in range(300, 310):
        DecodeCache(reuse_cosine=0.9).select(sequence.call(row, row + 1, BUDGET, phase="decode"))
    assert (sequence.tally.retrieval_calls, sequence.tally.cache_hits) == (5, 5)


def test_what_fits_needs_no_choice() -> None:
    sequence = made(60)
    selection = DecodeCache(reuse_cosine=-1).select(sequence.call(59, 60, BUDGET, phase="decode"))
    assert selection.local_start == 0
    assert STATE not in sequence.state
    assert sequence.tally.retrieval_calls == 0


def test_the_choice_lies_in_the_calls_state_only() -> None:
    cache = DecodeCache(reuse_cosine=-1)
    one, other = made(300, seed=1), made(300, seed=2)
    cache.select(one.call(299, 300, BUDGET, phase="decode"))
    cache.select(other.call(299, 300, BUDGET, phase="decode"))
    assert (one.tally.retrieval_calls, other.tally.retrieval_calls) == (1, 1)
    assert STATE in one.state
