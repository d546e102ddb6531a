"""TokenSelect: each sub-chunk's mean query chooses the tokens that the sub-chunk reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.decode_cache import DecodeCache
from deepedu.attention.scoring import best_rows, block_means, key_scores, soft_vote
from deepedu.base.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class TokenSelect(Method):
    """One retrieval per sub-chunk of queries; all heads of a layer share the tokens that it chooses.

    ``block_tokens``: queries of a sub-chunk. ``reuse_cosine``: in decode the last choice serves again while the new
    query is at least this close to the query it was made for; above 1 every step chooses anew.

    Source: Wu et al. 2024 (arXiv 2411.02886): sub-chunk fingerprint, head soft vote, selection cache.
    Differs: scores are scaled by 1/sqrt(head_dim) before the softmax of the vote, as attention's own are; query head h
    votes against key/value head h // group (``test_token_select``); a reused choice gives up its least voted tokens
    for the tokens that have come since, so that the budget holds and nothing new is missed.
    """

    name: ClassVar[str] = "token_select"
    paper: ClassVar[str] = "Wu et al. 2024, TokenSelect (arXiv 2411.02886)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = "scans every cached key once per sub-chunk and layer"

    block_tokens: int = 512
    reuse_cosine: float = 0.9

    def __post_init__(self) -> None:
        if self.block_tokens < 1:
            raise ConfigError(f"token_select.block_tokens must be at least 1, came {self.block_tokens}")

    def select(self, call: Call) -> Iterator[Selection]:
        if call.phase == "decode":
            yield DecodeCache(self.reuse_cosine).select(call)
            return
        block = min(self.block_tokens, call.budget.local)
        fingerprints = block_means(call.queries, block)
        for index, fingerprint in enumerate(fingerprints):
            begin, end = index * block, min((index + 1) * block, call.q_len)
            yield _choose(call, fingerprint, begin, end)


def _choose(call: Call, fingerprint: torch.Tensor, begin: int, end: int) -> Selection:
    sinks, count = call.budget.sinks, call.budget.selected
    local_start = call.start + end - call.budget.local
    if local_start - sinks <= count:
        return Selection(begin, end, 0)
    call.tally.retrieval_calls += 1
    call.tally.blocks += 1
    votes = call.over_all_heads(soft_vote(key_scores(call, fingerprint[None], sinks, local_start))[0])
    return Selection(begin, end, local_start, (best_rows(votes, count, sinks),))
