"""Attention over a part of the keys, with the log-sum-exp that lets parts be merged exactly.

Source: Rabe and Staats 2021 (arXiv 2112.05682); Dao et al. 2022 (arXiv 2205.14135), the online softmax.
"""

import torch
from torch import Tensor

# Scores that the plain twin holds at once; bounds its memory.
PLAIN_SCORES = 1 << 26


def partial_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, *, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Softmax attention of each query over these keys only.

    Args:
        queries: [batch, heads, q_len, head_dim].
        keys: [batch, heads, kv_len, head_dim], kv_len > 0; query i sees keys 0..i where ``causal`` (q_len = kv_len).
        values: as ``keys``.
        scale: factor on q.k.

    Returns:
        Output [batch, heads, q_len, head_dim], and log-sum-exp of the scaled scores, float32 [batch, heads, q_len].
    """
    if queries.device.type == "cpu":
        # Private, but the only kernel of torch on the CPU that hands out the log-sum-exp; the plain twin tests it.
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries, keys, values, 0.0, causal, scale=scale
        )
        return out, lse
    return plain_partial_attention(queries, keys, values, scale, causal=causal)


def plain_partial_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, *, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """The same in plain torch: the twin that the kernel is tested against, and what other devices run."""
    q_len, kv_len = queries.shape[2], keys.shape[2]
    step = max(1, PLAIN_SCORES // max(1, queries.shape[0] * queries.shape[1] * kv_len))
    outs: list[Tensor] = []
    sums: list[Tensor] = []
    for begin in range(0, q_len, step):
        scores = (queries[:, :, begin : begin + step] @ keys.transpose(-1, -2)).float() * scale
        if causal:
            seen = torch.arange(begin, begin + scores.shape[2], device=keys.device)
            scores.masked_fill_(torch.arange(kv_len, device=keys.device) > seen[:, None], float("-inf"))
        lse = torch.logsumexp(scores, dim=-1)
        outs.append((torch.exp(scores - lse[..., None]).to(values.dtype) @ values).to(queries.dtype))
        sums.append(lse)
    return torch.cat(outs, dim=2), torch.cat(sums, dim=2)


def merge(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention over both sets of keys, from the outputs and log-sum-exps over each; the sets are disjoint."""
    (out_a, lse_a), (out_b, lse_b) = first, second
    share_a = torch.sigmoid(lse_a - lse_b).unsqueeze(-1).to(out_a.dtype)
    return torch.lerp(out_b, out_a, share_a), torch.logaddexp(lse_a, lse_b)
