"""Choosing tokens for one new query, and using the choice again while the queries stay alike."""

from dataclasses import dataclass

from torch import Tensor

from deepedu.attention.base import Call, Selection
from deepedu.attention.scoring import key_scores, soft_vote

STATE = "decode_choice"


@dataclass(frozen=True)
class _Choice:
    direction: Tensor
    rows_by_vote: Tensor
    local_start: int


@dataclass(frozen=True)
class DecodeCache:
    """Selects for a single query; keeps the choice in the call's state, which lives as long as the request.

    Source: Wu et al. 2024, TokenSelect (arXiv 2411.02886), selection cache.
    """

    reuse_cosine: float

    def select(self, call: Call) -> Selection:
        """The choice for the call's one query, made or reused."""
        sinks, count = call.budget.sinks, call.budget.selected
        local_start = call.stop - call.budget.local
        if local_start - sinks <= count:
            return Selection(0, 1, 0)
        query = call.queries[:, 0]
        direction = query.flatten().float()
        direction = direction / call.over_all_heads(direction.square().sum()).sqrt()
        kept: _Choice | None = call.state.get(STATE)
        if kept is not None and float(call.over_all_heads(kept.direction @ direction)) >= self.reuse_cosine:
            # Tokens that left the local window since the choice stay visible in the place of the least voted ones.
            room = count - (local_start - kept.local_start)
            if room > 0:
                call.tally.cache_hits += 1
                return Selection(0, 1, kept.local_start, (kept.rows_by_vote[:room].sort().values,))
        call.tally.retrieval_calls += 1
        call.tally.blocks += 1
        votes = call.over_all_heads(soft_vote(key_scores(call, query[None], sinks, local_start))[0])
        rows = votes.topk(count, sorted=True).indices + sinks
        call.state[STATE] = _Choice(direction, rows, local_start)
        return Selection(0, 1, local_start, (rows.sort().values,))
