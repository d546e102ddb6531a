"""FlexPrefill: every head reads the key blocks of its own pattern, chosen from the prompt itself."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase
from deepedu.attention.kernels.partial_attention import merge, partial_attention
from deepedu.attention.scoring import block_means
from deepedu.attention.sparse import attend_dense
from deepedu.base.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FlexPrefill(Method):
    """Query-aware blocks for heads whose block-pooled estimate is true, vertical and slash lines for the others.

    ``block_tokens``: rows of a block, and queries of the probe (the last ones). ``gamma``: share of the estimated
    attention to cover, 1 covers all. ``tau``: a head is query-aware while the root of the Jensen-Shannon divergence
    between its pooled estimate and the probe's true attention is below it. ``min_budget_tokens``: least vertical and
    slash lines.

    Source: Lai et al. 2025 (arXiv 2502.20766).
    Differs: works on each chunk of the prompt with the chunk's own probe; the query-aware set includes the block that
    crosses gamma, as the vertical and slash counts do (``test_flex_prefill``); blocks are counted from row 0.
    """

    name: ClassVar[str] = "flex_prefill"
    paper: ClassVar[str] = "Lai et al. 2025, FlexPrefill (arXiv 2502.20766)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill"})
    limits: ClassVar[str] = (
        "prefill only; gamma decides how much is read: the budget is no limit, but what fits it attends densely"
    )

    block_tokens: int = 128
    gamma: float = 0.9
    tau: float = 0.1
    min_budget_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.min_budget_tokens < 0 or not 0 < self.gamma <= 1:
            raise ConfigError(
                "flex_prefill needs block_tokens >= 1, min_budget_tokens >= 0 and 0 < gamma <= 1, came "
                f"block_tokens={self.block_tokens}, min_budget_tokens={self.min_budget_tokens}, gamma={self.gamma}"
            )

    def attend(self, call: Call) -> Tensor:
        if call.stop <= max(2 * self.block_tokens, self.min_budget_tokens, call.budget.tokens):
            return attend_dense(call)
        pieces = list(call.rows.parts(0, call.stop))
        keys, values = torch.cat([k for k, _ in pieces], dim=1), torch.cat([v for _, v in pieces], dim=1)
        out = torch.empty(call.q_len, call.heads, call.rows.head_dim, dtype=values.dtype, device=values.device)
        read = 0
        for head in range(call.heads):
            kv_head = head // call.group
            chosen = self.blocks_of_head(call, head, keys[kv_head])
            read += self._attend_head(call, head, chosen, keys[kv_head], values[kv_head], out)
        call.tally.retrieval_calls += 1
        call.tally.blocks += -(-call.stop // self.block_tokens) - call.start // self.block_tokens
        call.tally.rows_read += read // call.heads
        return out

    def _attend_head(self, call: Call, head: int, chosen: Tensor, keys: Tensor, values: Tensor, out: Tensor) -> int:
        """Writes one head's output; returns the rows it read, summed over query blocks."""
        size, read = self.block_tokens, 0
        for index, own in enumerate(range(call.start // size, -(-call.stop // size))):
            begin, end = max(call.start, own * size), min(call.stop, (own + 1) * size)
            queries = call.queries[None, None, head, begin - call.start : end - call.start]
            result = partial_attention(
                queries, keys[None, None, begin:end], values[None, None, begin:end], call.scale, causal=True
            )
            blocks = torch.nonzero(chosen[index, :own])
            rows = (blocks * size + torch.arange(size, device=keys.device)).flatten()
            # The chunk may begin within a block.
            rows = torch.cat([rows, torch.arange(own * size, begin, device=keys.device)])
            if len(rows):
                earlier = partial_attention(queries, keys[None, None, rows], values[None, None, rows], call.scale)
                result = merge(result, earlier)
            out[begin - call.start : end - call.start, head] = result[0][0, 0]
            read += len(rows) + end - begin
        return read

    def blocks_of_head(self, call: Call, head: int, keys: Tensor) -> Tensor:
        """Which key blocks each query block reads, bool [query blocks, key blocks], within the causal triangle."""
        size = self.block_tokens
        own = torch.arange(call.start // size, -(-call.stop // size), device=keys.device)
        key_blocks = torch.arange(-(-call.stop // size), device=keys.device)
        vertical, slash = _probe(call, head, keys, size)
        pooled_keys = block_means(keys[None].float(), size)[:, 0]
        query_aware = self._is_query_aware(call, head, pooled_keys, _sums(vertical, size))
        columns = self._top_blocks(vertical, at_least_only=query_aware)
        diagonals = self._top_blocks(slash, at_least_only=query_aware)
        distance = own[:, None] - key_blocks
        chosen = torch.isin(key_blocks, columns) | torch.isin(distance, diagonals)
        chosen = chosen | (key_blocks == 0) | (distance == 0)
        if query_aware:
            chosen |= self._query_aware_blocks(call, head, pooled_keys, distance >= 0)
        return chosen & (distance >= 0)

    def _is_query_aware(self, call: Call, head: int, pooled_keys: Tensor, true: Tensor) -> bool:
        probe = torch.mean(call.queries[head, -self.block_tokens :].float(), dim=0)
        estimate = torch.softmax(pooled_keys @ probe * call.scale, dim=0)
        return bool(_divergence(estimate, true) ** 0.5 < self.tau)

    def _top_blocks(self, weights: Tensor, at_least_only: bool) -> Tensor:
        """Blocks of lines of highest weight; as many as the lines that cover gamma fill, and at least the minimum."""
        sums = _sums(weights, self.block_tokens)
        count = self.min_budget_tokens // self.block_tokens
        if not at_least_only:
            count = max(count, int(_covering(weights, self.gamma).sum()) // self.block_tokens + 1)
        return sums.topk(min(count, len(sums)), sorted=False).indices

    def _query_aware_blocks(self, call: Call, head: int, pooled_keys: Tensor, causal: Tensor) -> Tensor:
        """The fewest blocks of the whole map that hold gamma of its estimated attention."""
        size, lead = self.block_tokens, call.start % self.block_tokens
        queries = call.queries[head].float()
        pooled = block_means(queries[None, max(0, size - lead) if lead else 0 :], size)[:, 0]
        if lead:
            pooled = torch.cat([torch.mean(queries[: size - lead], dim=0, keepdim=True), pooled])
        scores = (pooled @ pooled_keys.T * call.scale).masked_fill(~causal, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        return _covering(weights.flatten() / weights.shape[0], self.gamma).view_as(causal)


def _probe(call: Call, head: int, keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Mean true attention of the last queries: to each row, and to each distance back from the query."""
    queries = call.queries[head, -size:].float()
    count, rows = queries.shape[0], torch.arange(call.stop, device=keys.device)
    own = rows[-count:]
    scores = (queries @ keys.float().T * call.scale).masked_fill(rows > own[:, None], float("-inf"))
    weights = torch.softmax(scores, dim=1) / count
    slash = torch.zeros_like(weights[0])
    for index, backwards in enumerate(weights.flip(1)):
        later = count - 1 - index
        slash[: call.stop - later] += backwards[later:]
    return weights.sum(0), slash


def _sums(weights: Tensor, size: int) -> Tensor:
    padded = torch.nn.functional.pad(weights, (0, -len(weights) % size))
    return padded.view(-1, size).sum(1)


def _covering(weights: Tensor, share: float) -> Tensor:
    """The fewest of weights that sum to 1 that hold ``share`` of it, bool like ``weights``; all of them for 1."""
    if share >= 1:
        return torch.ones_like(weights, dtype=torch.bool)
    ordered, order = weights.double().sort(descending=True)
    before = ordered.cumsum(0) - ordered
    return torch.zeros_like(weights, dtype=torch.bool).scatter(0, order, before < share)


def _divergence(first: Tensor, second: Tensor) -> float:
    """Jensen-Shannon divergence of two distributions, in nats."""
    middle = (first + second) / 2
    parts = [torch.xlogy(each, each / middle.clamp(min=1e-30)).sum() for each in (first, second)]
    return max(0.0, float(sum(parts)) / 2)
