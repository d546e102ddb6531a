"""Similarity Chunk Rolling: clusters of similar query blocks share one retrieval."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.decode_cache import DecodeCache
from deepedu.attention.lost_mass import LostMass
from deepedu.attention.scoring import best_rows, block_means, key_scores, soft_vote
from deepedu.base.errors import ConfigError

RUNNING_MEAN = "running_mean_query"
# Queries of a block that are compared before RoPE.
COMPARED_QUERIES = 32


@dataclass(frozen=True, kw_only=True)
class ChunkRolling(Method):
    """Rolls over the blocks of a chunk: a block joins the cluster while its mean query is close to the anchor's.

    ``tau``: least cosine to the anchor block. ``max_cluster_tokens``: longest cluster. ``similarity``: mean queries
    compared after RoPE (``roped``), before it (``unroped``), or before it less the layer's running mean (``centered``).
    ``fingerprint``: what the one retrieval of a cluster asks with: the anchor block's mean query (``anchor``, as
    published) or the mean queries of all its blocks in one pass over the keys (``blocks``). ``pool``, with ``blocks``:
    one choice for the cluster by the ``max`` or ``sum`` of the blocks' votes, or from the same pass one choice for
    ``each`` block. ``local``: the local window of a query is its whole ``cluster`` so far, the budget for selected
    tokens being reduced by what this window is longer than the usual one (as published); or its own ``block``, the
    cluster's earlier blocks being selected from like everything else. ``probes``: mean queries per block; more are
    means over equal parts of the block, whose votes are added. ``heads``: all heads of a layer share one choice
    (``layer``, as published), or those of one key/value head do (``kv``). ``vote``: its softmax runs over the rows to
    choose from (``candidates``, as published), or over the whole past, so that a head that looks elsewhere anyway has
    little say (``past``). ``lead_tokens``: so many rows just before a block's window are read always, in the place of
    as many selected ones, at most a quarter of those; without them a block's first query sees nothing near.
    ``block_tokens``: queries of a base block.
    ``reuse_cosine``: in decode the last choice serves again while the new query is at least this close to its query;
    above 1 every step chooses anew.
    ``max_lost_mass``: in the prefill a query head that loses more than this share of its attention by such choices
    reads every row instead, whatever the budget (``exact_heads``); 1: no head does (as published).
    ``late_layers``: share of the layers, the last ones, that read only sinks and window in the prefill: what a prompt's
    token gathers there reaches no more than the rows of the few layers above; 0: none does (as published).

    Source: the published method is ``anchor`` with ``roped`` and ``local="cluster"``.
    Differs: the defaults, for the reasons in docs/decisions/0007; ``test_chunk_rolling`` pins each variant.
    """

    name: ClassVar[str] = "chunk_rolling"
    paper: ClassVar[str] = "Similarity Chunk Rolling (SCALE)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = (
        "scans every cached key once per cluster and layer; similarity before RoPE needs its angles; "
        "heads above max_lost_mass read more than the budget"
    )

    block_tokens: int = 512
    tau: float = 0.95
    max_cluster_tokens: int = 8192
    similarity: Literal["roped", "unroped", "centered"] = "unroped"
    fingerprint: Literal["anchor", "blocks"] = "blocks"
    pool: Literal["max", "sum", "each"] = "each"
    local: Literal["cluster", "block"] = "block"
    probes: int = 4
    heads: Literal["layer", "kv"] = "kv"
    vote: Literal["candidates", "past"] = "past"
    lead_tokens: int = 128
    reuse_cosine: float = 1.01
    max_lost_mass: float = 0.3
    late_layers: float = 0.34

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.max_cluster_tokens < self.block_tokens:
            raise ConfigError(
                "chunk_rolling needs 1 <= block_tokens <= max_cluster_tokens, came "
                f"block_tokens={self.block_tokens}, max_cluster_tokens={self.max_cluster_tokens}"
            )
        if self.lead_tokens < 0:
            raise ConfigError(f"chunk_rolling.lead_tokens must be at least 0, came {self.lead_tokens}")
        if self.probes < 1 or self.block_tokens % self.probes:
            raise ConfigError(
                f"chunk_rolling.probes must divide block_tokens={self.block_tokens} evenly, came {self.probes}"
            )
        for share in ("max_lost_mass", "late_layers"):
            if not 0 <= getattr(self, share) <= 1:
                raise ConfigError(f"chunk_rolling.{share} is a share from 0 to 1, came {getattr(self, share)}")
        if self.pool == "each" and self.fingerprint == "blocks" and self.local == "cluster":
            raise ConfigError("chunk_rolling: pool=each needs local=block, each block having a window of its own")

    def select(self, call: Call) -> Iterator[Selection]:
        if call.phase == "decode":
            yield DecodeCache(self.reuse_cosine).select(call)
            return
        block = min(self.block_tokens, call.budget.local)
        if call.layers and call.layer >= call.layers * (1 - self.late_layers):
            yield from self._with_block_windows(call, 0, call.q_len, block, None, chooses=False)
            return
        if self.max_lost_mass == 1:
            yield from self._chosen(call, block, None)
            return
        lost = LostMass(call)
        found: list[Selection] = []
        for selection in self._chosen(call, block, lost):
            lost.add(selection)
            found.append(selection)
        exact = lost.exact_heads(self.max_lost_mass)
        yield from (replace(each, exact_heads=exact) if each.local_start else each for each in found)

    def _chosen(self, call: Call, block: int, lost: LostMass | None) -> Iterator[Selection]:
        for first, last in self._clusters(call, block):
            begin, end = first * block, min(last * block, call.q_len)
            if self.local == "cluster":
                yield self._with_cluster_window(call, begin, end, block, lost)
            else:
                yield from self._with_block_windows(call, begin, end, block, lost)

    def _clusters(self, call: Call, block: int) -> Iterator[tuple[int, int]]:
        """Blocks ``first..last`` of each cluster."""
        means = self._compared(call, block)
        longest = max(1, self.max_cluster_tokens // block)
        first = 0
        while first < len(means):
            cosines = call.over_all_heads(means[first : first + longest] @ means[first])
            apart = torch.nonzero(cosines[1:] < self.tau)
            last = first + 1 + (int(apart[0]) if len(apart) else len(cosines) - 1)
            yield first, last
            first = last

    def _compared(self, call: Call, block: int) -> Tensor:
        """The blocks' mean queries as they are compared: [blocks, heads * head_dim], of length 1."""
        queries, size = call.queries, block
        if self.similarity != "roped" and call.unrope is not None:
            # Turning every query back takes as long as all the rest of choosing; a few of each block tell its mean.
            step = block // COMPARED_QUERIES if block % COMPARED_QUERIES == 0 else 1
            rows = torch.arange(call.start, call.stop, step, device=queries.device)
            queries, size = call.unrope(queries[:, ::step], rows), block // step
        means = block_means(queries, size).flatten(1).float()
        if self.similarity == "centered":
            total, count = call.state.get(RUNNING_MEAN, (torch.zeros_like(means[0]), 0))
            total, count = total + means.sum(0), count + len(means)
            call.state[RUNNING_MEAN] = (total, count)
            # The mean of a single block is the block itself, and nothing would be left of it.
            means = means - total / count if count > 1 else means
        return means / call.over_all_heads(means.square().sum(1, keepdim=True)).sqrt().clamp(min=1e-12)

    def _with_cluster_window(self, call: Call, begin: int, end: int, block: int, lost: LostMass | None) -> Selection:
        sinks, length = call.budget.sinks, end - begin
        local = max(call.budget.local, length)
        count = max(1, call.budget.selected - (local - call.budget.local))
        local_start = call.start + end - local
        if local_start - sinks <= count:
            return Selection(begin, end, 0)
        blocks = -(-length // block)
        call.tally.retrieval_calls += 1
        call.tally.blocks += blocks
        asked = 1 if self.fingerprint == "anchor" else blocks
        votes = self._votes(call, (begin, end), block, [(call.start + begin, local_start)] * asked, lost)
        return Selection(begin, end, local_start, _best(self._pooled(votes), local_start, count, sinks))

    def _with_block_windows(
        self, call: Call, begin: int, end: int, block: int, lost: LostMass | None, *, chooses: bool = True
    ) -> Iterator[Selection]:
        sinks, lead = call.budget.sinks, min(self.lead_tokens, call.budget.selected // 4)
        count = call.budget.selected - lead
        spans = [(at, min(at + block, end)) for at in range(begin, end, block)]
        windows = [call.start + stop - call.budget.local - lead for _, stop in spans]
        # The first blocks of a sequence, whose whole past fits the budget, need no choice.
        dense = sum(window - sinks <= count for window in windows)
        for at, stop in spans[:dense]:
            yield Selection(at, stop, 0)
        spans, windows = spans[dense:], windows[dense:]
        if not spans:
            return
        if count == 0 or not chooses:
            yield from (Selection(at, stop, window) for (at, stop), window in zip(spans, windows, strict=True))
            return
        call.tally.retrieval_calls += 1
        call.tally.blocks += len(spans)
        pasts = [(call.start + at, window) for (at, _), window in zip(spans, windows, strict=True)]
        if self.fingerprint == "anchor":
            # Asked once, by the first block, of everything that any block of the cluster may read.
            pasts = [(pasts[-1][0], windows[-1])]
        votes = self._votes(call, (spans[0][0], end), block, pasts, lost)
        if self.fingerprint == "anchor" or self.pool != "each":
            # One vote for the cluster; of its best rows a block takes those that lie before its own window.
            votes = self._pooled(votes).expand(len(spans), -1, -1)
        for (at, stop), window, vote in zip(spans, windows, votes, strict=True):
            yield Selection(at, stop, window, _best(vote, window, count, sinks))

    def _pooled(self, votes: Tensor) -> Tensor:
        return votes.amax(0) if self.pool == "max" else votes.sum(0)

    def _votes(
        self, call: Call, queries: tuple[int, int], block: int, pasts: list[tuple[int, int]], lost: LostMass | None
    ) -> Tensor:
        """Votes of consecutive blocks in one pass over the keys.

        Args:
            call: the call.
            queries: first query of the first block that votes, and the end of the queries that the votes are for.
            block: queries of a block.
            pasts: for each block that votes the row where its past ends, and the row where its window begins.
            lost: is given the scores of its queries from the same pass.

        Returns:
            [blocks, 1 or kv_heads, rows from the sinks to the last window]; 0 for rows outside a block's candidates.
        """
        (begin, end), (sinks, last) = queries, (call.budget.sinks, pasts[-1][1])
        asking = torch.cat(
            [
                _spread(block_means(call.queries[:, at : at + block], -(-block // self.probes)), self.probes)
                for at in range(begin, begin + block * len(pasts), block)
            ]
        )
        first, stop = (0, max(past for past, _ in pasts)) if self.vote == "past" else (sinks, last)
        if lost is None:
            flat = key_scores(call, asking, first, stop)
        else:
            sampled = lost.queries(begin, end)
            every = torch.cat([asking, call.queries[:, list(sampled)].transpose(0, 1)])
            scored = key_scores(call, every, 0, call.start + end)
            lost.keep(sampled, scored[len(asking) :])
            flat = scored[: len(asking), :, first:stop]
        scores = flat.reshape(len(pasts), self.probes, call.heads, -1)
        for index, (past, window) in enumerate(pasts):
            scores[index, ..., (past if self.vote == "past" else window) - first :] = float("-inf")
        groups = call.rows.kv_heads if self.heads == "kv" else 1
        by_group = scores.reshape(len(pasts), self.probes, groups, call.heads // groups, -1)
        votes = soft_vote(by_group).sum(1)[..., sinks - first : last - first]
        return votes if self.heads == "kv" else call.over_all_heads(votes)


def _best(votes: Tensor, window: int, count: int, sinks: int) -> tuple[Tensor, ...]:
    """Rows before a window with the highest votes, for each row of ``votes`` [1 or kv_heads, rows]."""
    return tuple(best_rows(vote[: window - sinks], count, sinks) for vote in votes)


def _spread(means: Tensor, count: int) -> Tensor:
    """Exactly ``count`` means: those of a short last block come round again."""
    return means[torch.arange(count) % len(means)]
