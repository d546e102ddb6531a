"""Scores of cached keys for a few queries, and choosing the best of them."""

from typing import Literal

import torch
from torch import Tensor

from deepedu.attention.base import Call


def key_scores(call: Call, queries: Tensor, start: int, stop: int) -> Tensor:
    """Scaled scores of rows ``start..stop``, float32.

    Args:
        call: the cache and the scale.
        queries: [n, heads, head_dim].
        start, stop: rows.

    Returns:
        [n, heads, stop - start]. Query head h is scored against key/value head h // group.
    """
    return grouped_scores(call, queries, [keys for keys, _ in call.rows.parts(start, stop)])


def grouped_scores(call: Call, queries: Tensor, keys: list[Tensor]) -> Tensor:
    """Scaled scores of given keys (pieces [kv_heads, m, head_dim]), float32 [n, heads, total m]."""
    count, kv_heads = queries.shape[0], call.rows.kv_heads
    folded = queries.transpose(0, 1).reshape(kv_heads, call.group * count, -1)
    pieces = [folded.to(piece.dtype) @ piece.transpose(1, 2) for piece in keys]
    scores = (pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1)).float().mul_(call.scale)
    return scores.view(call.heads, count, -1).transpose(0, 1)


def page_scores(call: Call, queries: Tensor, summary: Literal["mean", "bound"], page_tokens: int, stop: int) -> Tensor:
    """Scaled scores of every whole page in rows ``0..stop``, float32 [n, heads, pages]; queries [n, heads, head_dim].

    ``mean`` scores the page's mean key. ``bound`` is the most that any key between the page's channel-wise lowest and
    highest could score, so no row of the page scores above it.

    Source: Tang et al. 2024, Quest (arXiv 2406.10774), page criticality.
    """
    if summary == "mean":
        return grouped_scores(call, queries, [call.rows.summaries("mean", page_tokens, stop)])
    highest = grouped_scores(call, queries.clamp(min=0), [call.rows.summaries("max", page_tokens, stop)])
    lowest = grouped_scores(call, queries.clamp(max=0), [call.rows.summaries("min", page_tokens, stop)])
    return highest.add_(lowest)


def soft_vote(scores: Tensor) -> Tensor:
    """One score per row: softmax over rows for each head, then the sum over heads. [..., heads, n] -> [..., n].

    Source: Wu et al. 2024, TokenSelect (arXiv 2411.02886), head soft vote.
    """
    return torch.softmax(scores, dim=-1).sum(-2)


def best_rows(votes: Tensor, count: int, first_row: int) -> Tensor:
    """Ascending rows of the ``count`` highest votes; ``votes`` [n] belong to rows from ``first_row`` on."""
    return votes.topk(min(count, votes.shape[-1]), sorted=False).indices.sort().values + first_row


def block_means(queries: Tensor, block_tokens: int) -> Tensor:
    """Mean query of each block of ``block_tokens``, the last of which may be shorter.

    Args:
        queries: [heads, q_len, head_dim].
        block_tokens: queries of a block.

    Returns:
        [blocks, heads, head_dim].
    """
    heads, q_len, head_dim = queries.shape
    whole = q_len // block_tokens
    blocks = queries[:, : whole * block_tokens].reshape(heads, whole, block_tokens, head_dim)
    means = torch.mean(blocks, dim=2)
    if q_len > whole * block_tokens:
        means = torch.cat([means, torch.mean(queries[:, whole * block_tokens :], dim=1, keepdim=True)], dim=1)
    return means.transpose(0, 1)
