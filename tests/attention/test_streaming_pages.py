"""Two levels: pages by their summaries, tokens inside the kept pages."""

from typing import Literal

import pytest
import torch
from made_sequences import SMALL, chosen, made

from deepedu.attention.base import Budget
from deepedu.attention.methods.streaming_pages import StreamingPages
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.attention.scoring import block_means, key_scores, page_scores, soft_vote
from deepedu.base.errors import ConfigError

BUDGET = Budget(tokens=8 + 32 + 20, sinks=8, local=32)


@pytest.mark.parametrize("summary", ["mean", "bound"])
def test_keeping_all_pages_is_the_flat_choice(summary: Literal["mean", "bound"]) -> None:
    flat, paged = TokenSelect(reuse_cosine=2), StreamingPages(summary=summary, candidates_per_selected=1000)
    here, there = made(400), made(400)
    for mine, its in zip(here.calls(150, BUDGET, 3), there.calls(150, BUDGET, 3), strict=True):
        for one, other in zip(paged.select(mine), flat.select(its), strict=True):
            assert (one.begin, one.end, one.local_start) == (other.begin, other.end, other.local_start)
            assert chosen(one) == chosen(other)


@pytest.mark.parametrize("summary", ["mean", "bound"])
@pytest.mark.parametrize("length", [300, 301, 315])
def test_the_best_tokens_of_the_best_pages(summary: Literal["mean", "bound"], length: int) -> None:
    # Written out plainly. Pages of 8, of which ceil(20 * 2 / 8) + 1 = 6 are kept.
    call = made(length).call(length - 1, length, BUDGET, phase="decode")
    (selection,) = StreamingPages(page_tokens=8, summary=summary, candidates_per_selected=2).select(call)
    window, query = length - 32, call.queries.transpose(0, 1)
    votes = soft_vote(page_scores(call, query, summary, 8, window)[..., 1:])[0]
    pages = [int(index) + 1 for index in votes.topk(6).indices]
    candidates = sorted(8 * page + i for page in pages for i in range(8)) + list(range(window // 8 * 8, window))
    scores = key_scores(call, query, 0, window)[..., candidates]
    expected = sorted(candidates[int(index)] for index in soft_vote(scores)[0].topk(20).indices)
    assert chosen(selection) == expected


def test_exactly_k_tokens_are_selected() -> None:
    for call in made(400).calls(100, BUDGET, 5):
        for selection in StreamingPages(page_tokens=8, candidates_per_selected=1).select(call):
            assert selection.local_start == 0 or len(chosen(selection)) == 20


def test_it_reads_few_keys() -> None:
    # 3000 rows: the gathered keys are those of the kept pages only, whatever the length.
    sequence = made(3000, heads=4, kv_heads=2)
    gathered: list[int] = []
    gather = sequence.rows.gather

    def counted(rows: torch.Tensor, kv_head: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        gathered.append(len(rows))
        return gather(rows, kv_head)

    sequence.rows.gather = counted
    call = sequence.call(2999, 3000, BUDGET, phase="decode")
    list(StreamingPages().select(call))
    assert len(gathered) == 1
    assert 20 <= gathered[0] <= 20 * 4 + 3 * 16


def test_a_block_asks_with_its_mean_query() -> None:
    sequence = made(264)
    call = sequence.call(200, 264, SMALL)
    found = list(StreamingPages(page_tokens=8, candidates_per_selected=1).select(call))
    means = block_means(call.queries, 32)
    for index, selection in enumerate(found):
        single = sequence.call(
            200 + 32 * index + 31, 232 + 32 * index, SMALL, phase="decode", queries=means[index][:, None]
        )
        (alone,) = StreamingPages(page_tokens=8, candidates_per_selected=1).select(single)
        assert chosen(selection) == chosen(alone)


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match="page_tokens"):
        StreamingPages(page_tokens=0)
