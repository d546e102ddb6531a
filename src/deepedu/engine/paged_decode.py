"""One decode step of several sequences at once, each reading rows of its own from the blocks of a shared cache."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from deepedu.attention.base import Selection


def rows_read(
    selection: Selection, sinks: int, stop: int, kv_heads: int, device: torch.device | None = None
) -> list[Tensor]:
    """The rows that the last query of ``stop`` rows reads, for each key/value head: int64, ascending; on ``device``,
    where the selection's rows are (default: the CPU)."""
    first = torch.arange(min(sinks, selection.local_start), device=device)
    local = torch.arange(selection.local_start, stop, device=device)
    found: list[Tensor] = []
    for head in range(kv_heads):
        chosen = selection.rows_of(head)
        found.append(torch.cat([first, local] if chosen is None else [first, chosen, local]))
    return found


def decode_attention(
    cached: tuple[Tensor, Tensor],
    queries: Tensor,
    tables: Sequence[Tensor],
    rows: Sequence[Sequence[Tensor]],
    scale: float,
) -> Tensor:
    """Attention of one query of each sequence over its chosen rows: one gather and one kernel for all of them.

    Args:
        cached: keys and values of a layer, each [blocks, kv_heads, block_tokens, head_dim] with any strides.
        queries: [sequences, heads, head_dim].
        tables: each sequence's blocks in order (int64); what follows the used ones does not matter.
        rows: for each sequence and key/value head the rows to read (int64), at least one.
        scale: factor on q.k before softmax.

    Returns:
        [sequences, heads, head_dim].
    """
    keys, values = cached
    _, kv_heads, block_tokens, head_dim = keys.shape
    count = len(queries)
    padded = pad_sequence([head for each in rows for head in each], batch_first=True, padding_value=-1)
    there = padded >= 0
    at = padded.clamp(min=0).view(count, kv_heads, -1)
    table = pad_sequence(list(tables), batch_first=True)
    block = table.gather(1, (at // block_tokens).flatten(1)).view_as(at)
    place = (block, torch.arange(kv_heads, device=at.device)[:, None], at % block_tokens)
    mask = None if bool(there.all()) else there.view(count, kv_heads, 1, -1)
    folded = queries.reshape(count, kv_heads, -1, head_dim)
    out = scaled_dot_product_attention(folded, keys[place], values[place], attn_mask=mask, scale=scale)
    return out.reshape(count, -1, head_dim)
