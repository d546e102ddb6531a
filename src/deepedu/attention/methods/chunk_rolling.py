"""Similarity Chunk Rolling: clusters of similar query blocks share one retrieval."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.decode_cache import DecodeCache
from deepedu.attention.scoring import best_rows, block_means, key_scores, soft_vote
from deepedu.base.errors import ConfigError

RUNNING_MEAN = "running_mean_query"


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
    means over equal parts of the block, whose votes are added. ``block_tokens``: queries of a base block.
    ``reuse_cosine``: in decode the last choice serves again while the new query is at least this close to its query.

    Source: the published method is ``anchor`` with ``roped`` and ``local="cluster"``.
    Differs: the defaults, for the reasons in docs/decisions/0007; ``test_chunk_rolling`` pins each variant.
    """

    name: ClassVar[str] = "chunk_rolling"
    paper: ClassVar[str] = "Similarity Chunk Rolling (SCALE)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = "scans every cached key once per cluster and layer; similarity before RoPE needs its angles"

    block_tokens: int = 512
    tau: float = 0.95
    max_cluster_tokens: int = 4096
    similarity: Literal["roped", "unroped", "centered"] = "unroped"
    fingerprint: Literal["anchor", "blocks"] = "blocks"
    pool: Literal["max", "sum", "each"] = "each"
    local: Literal["cluster", "block"] = "block"
    probes: int = 1
    reuse_cosine: float = 0.9

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.max_cluster_tokens < self.block_tokens:
            raise ConfigError(
                "chunk_rolling needs 1 <= block_tokens <= max_cluster_tokens, came "
                f"block_tokens={self.block_tokens}, max_cluster_tokens={self.max_cluster_tokens}"
            )
        if self.probes < 1 or self.block_tokens % self.probes:
            raise ConfigError(
                f"chunk_rolling.probes must divide block_tokens={self.block_tokens} evenly, came {self.probes}"
            )
        if self.pool == "each" and self.fingerprint == "blocks" and self.local == "cluster":
            raise ConfigError("chunk_rolling: pool=each needs local=block, each block having a window of its own")

    def select(self, call: Call) -> Iterator[Selection]:
        if call.phase == "decode":
            yield DecodeCache(self.reuse_cosine).select(call)
            return
        block = min(self.block_tokens, call.budget.local)
        for first, last in self._clusters(call, block):
            begin, end = first * block, min(last * block, call.q_len)
            if self.local == "cluster":
                yield self._with_cluster_window(call, begin, end, block)
            else:
                yield from self._with_block_windows(call, begin, end, block)

    def _clusters(self, call: Call, block: int) -> Iterator[tuple[int, int]]:
        """Blocks ``first..last`` of each cluster."""
        means = self._compared(call, block)
        longest = max(1, self.max_cluster_tokens // block)
        first = 0
        while first < len(means):
            cosines = means[first : first + longest] @ means[first]
            apart = torch.nonzero(cosines[1:] < self.tau)
            last = first + 1 + (int(apart[0]) if len(apart) else len(cosines) - 1)
            yield first, last
            first = last

    def _compared(self, call: Call, block: int) -> Tensor:
        """The blocks' mean queries as they are compared: [blocks, heads * head_dim], of length 1."""
        queries = call.queries
        if self.similarity != "roped" and call.unrope is not None:
            queries = call.unrope(queries, call.start)
        means = block_means(queries, block).flatten(1).float()
        if self.similarity == "centered":
            total, count = call.state.get(RUNNING_MEAN, (torch.zeros_like(means[0]), 0))
            total, count = total + means.sum(0), count + len(means)
            call.state[RUNNING_MEAN] = (total, count)
            # The mean of a single block is the block itself, and nothing would be left of it.
            means = means - total / count if count > 1 else means
        return torch.nn.functional.normalize(means, dim=1)

    def _with_cluster_window(self, call: Call, begin: int, end: int, block: int) -> Selection:
        sinks, length = call.budget.sinks, end - begin
        local = max(call.budget.local, length)
        count = max(1, call.budget.selected - (local - call.budget.local))
        local_start = call.start + end - local
        if local_start - sinks <= count:
            return Selection(begin, end, 0)
        blocks = 1 if self.fingerprint == "anchor" else -(-length // block)
        call.tally.retrieval_calls += 1
        call.tally.blocks += -(-length // block)
        votes = self._votes(call, begin, block, [local_start] * blocks)
        pooled = votes.amax(0) if self.pool == "max" else votes.sum(0)
        return Selection(begin, end, local_start, (best_rows(pooled, count, sinks),))

    def _with_block_windows(self, call: Call, begin: int, end: int, block: int) -> Iterator[Selection]:
        sinks, count = call.budget.sinks, call.budget.selected
        spans = [(at, min(at + block, end)) for at in range(begin, end, block)]
        windows = [call.start + stop - call.budget.local for _, stop in spans]
        # The first blocks of a sequence, whose whole past fits the budget, need no choice.
        dense = sum(window - sinks <= count for window in windows)
        for at, stop in spans[:dense]:
            yield Selection(at, stop, 0)
        spans, windows = spans[dense:], windows[dense:]
        if not spans:
            return
        call.tally.retrieval_calls += 1
        call.tally.blocks += len(spans)
        asked = windows[-1:] if self.fingerprint == "anchor" else windows
        votes = self._votes(call, spans[0][0], block, asked)
        if self.fingerprint == "anchor" or self.pool != "each":
            # One vote for the cluster; of its best rows a block takes those that lie before its own window.
            votes = (votes.amax(0) if self.pool == "max" else votes.sum(0)).expand(len(spans), -1)
        for (at, stop), window, vote in zip(spans, windows, votes, strict=True):
            yield Selection(at, stop, window, (best_rows(vote[: window - sinks], count, sinks),))

    def _votes(self, call: Call, begin: int, block: int, windows: list[int]) -> Tensor:
        """Votes of consecutive blocks, the first from query ``begin`` on, each for the rows before its own window.

        Returns:
            [blocks, rows from the sinks to the last window]; 0 for rows in or after a block's window.
        """
        sinks = call.budget.sinks
        probes = [
            _spread(block_means(call.queries[:, at : at + block], -(-block // self.probes)), self.probes)
            for at in range(begin, begin + block * len(windows), block)
        ]
        flat = key_scores(call, torch.cat(probes), sinks, windows[-1])
        scores = flat.reshape(len(windows), self.probes, call.heads, -1)
        for index, window in enumerate(windows):
            scores[index, ..., window - sinks :] = float("-inf")
        return soft_vote(scores).sum(1)


def _spread(means: Tensor, count: int) -> Tensor:
    """Exactly ``count`` means: those of a short last block come round again."""
    return means[torch.arange(count) % len(means)]
