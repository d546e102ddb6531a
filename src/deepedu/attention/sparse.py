"""Exact attention over a selection: gathered rows once, query groups folded, parts merged without a mask.

Source: Ainslie et al. 2023 (arXiv 2305.13245), grouped queries: query head h reads key/value head h // group, so a
group's queries over the same rows are one longer run of queries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from deepedu.attention.base import Call, Selection
from deepedu.attention.kernels.partial_attention import merge, partial_attention

# Queries that see the same earlier rows without a mask; only their own rows need a causal one. More of them where few
# heads are folded: the kernel is fastest with about a thousand queries in all.
TILE = 128
FOLDED = 1024


def attend_selections(call: Call, selections: Iterable[Selection]) -> Tensor:
    """Attention output of all selections of a call, [q_len, heads, head_dim]. Counts the rows read."""
    out = torch.empty(call.q_len, call.heads, call.rows.head_dim, dtype=call.queries.dtype, device=call.queries.device)
    done = 0
    exact: list[Selection] = []
    for selection in selections:
        assert selection.begin == done, "selections cover the queries in order"
        done = selection.end
        _attend(call, selection, out)
        if selection.local_start and selection.exact_heads:
            # What they read does not depend on the selection, so neighbouring ones are one run of queries to them.
            if exact and (exact[-1].end, exact[-1].exact_heads) == (selection.begin, selection.exact_heads):
                selection = replace(selection, begin=exact.pop().begin)
            exact.append(selection)
    assert done == call.q_len, "selections cover all queries"
    for run in exact:
        _attend_exact_heads(call, run, out)
    return out


def attend_dense(call: Call) -> Tensor:
    """Attention of every query over all rows up to its own, [q_len, heads, head_dim]."""
    return attend_selections(call, [Selection(0, call.q_len, 0)])


def _attend(call: Call, selection: Selection, out: Tensor) -> None:
    """Writes the output of all heads but the exact ones, and counts the rows that all of them read."""
    assert selection.local_start <= call.start + selection.begin, "every query reads its own row"
    kv_heads, group = call.rows.kv_heads, call.group
    # Dense attention leaves no head anything else to read.
    exact = selection.exact_heads if selection.local_start else ()
    if len({len(rows) for rows in selection.rows}) <= 1 and not exact:
        call.tally.rows_read += _attend_heads(call, selection, range(kv_heads), range(call.heads), out)
        return
    read = len(exact) * (call.start + selection.end)
    for kv_head in range(kv_heads):
        heads = [head for head in range(kv_head * group, (kv_head + 1) * group) if head not in exact]
        if heads:
            read += len(heads) * _attend_heads(call, selection, range(kv_head, kv_head + 1), heads, out)
    call.tally.rows_read += round(read / call.heads)


def _attend_exact_heads(call: Call, run: Selection, out: Tensor) -> None:
    dense = Selection(run.begin, run.end, 0)
    for kv_head in range(call.rows.kv_heads):
        heads = [head for head in run.exact_heads if head // call.group == kv_head]
        if heads:
            _attend_heads(call, dense, range(kv_head, kv_head + 1), heads, out)


def _attend_heads(call: Call, selection: Selection, kv_heads: range, heads: Sequence[int], out: Tensor) -> int:
    """Writes the output of query heads, as many for each of these key/value heads; returns the rows that each read."""
    begin, end = selection.begin, selection.end
    group, head_dim = len(heads) // len(kv_heads), call.rows.head_dim
    tile_queries = max(TILE, FOLDED // group)
    picked = slice(kv_heads.start, kv_heads.stop)
    # A slice where it can be one: picking heads one by one copies their queries.
    written = slice(heads.start, heads.stop) if isinstance(heads, range) else list(heads)
    queries = call.queries[written, begin:end]
    # A single query may see its own row like any other, so it needs no causal part.
    single = end - begin == 1
    context = _Context(call, selection, picked, own=1 if single else 0)
    own = None if single else _own_rows(call, selection, picked, queries, tile_queries)
    for tile in range(0, end - begin, tile_queries):
        size = min(tile_queries, end - begin - tile)
        folded = queries[:, tile : tile + size].reshape(1, len(kv_heads), group * size, head_dim)
        result = None if own is None else own[tile // tile_queries]
        for keys, values in context.until(tile):
            part = partial_attention(folded, keys[None], values[None], call.scale)
            unfolded = (part[0].view(-1, size, head_dim), part[1].reshape(-1, size))
            result = unfolded if result is None else merge(result, unfolded)
        assert result is not None, "a query sees at least its own row"
        out[begin + tile : begin + tile + size, written] = result[0].transpose(0, 1)
    return context.count


def _own_rows(
    call: Call, selection: Selection, kv_heads: slice, queries: Tensor, tile_queries: int
) -> list[tuple[Tensor, Tensor]]:
    """Causal attention of each tile over its own rows: output [heads, size, head_dim] and log-sum-exp per tile."""
    first, stop = call.start + selection.begin, call.start + selection.end
    keys, values = _joined([(k[kv_heads], v[kv_heads]) for k, v in call.rows.parts(first, stop)])
    length, whole = stop - first, (stop - first) // tile_queries
    found: list[tuple[Tensor, Tensor]] = []
    for size, count, offset in ((tile_queries, whole, 0), (length - whole * tile_queries, 1, whole * tile_queries)):
        if size == 0 or count == 0:
            continue
        run = slice(offset, offset + size * count)
        tiles = [_tiles(each[:, run], size) for each in (queries, keys, values)]
        group = queries.shape[0] // keys.shape[0]
        per_head = [torch.repeat_interleave(each, group, dim=1) for each in tiles[1:]]
        out, lse = partial_attention(tiles[0], per_head[0], per_head[1], call.scale, causal=True)
        found += [(out[i], lse[i]) for i in range(count)]
    return found


def _tiles(rows: Tensor, size: int) -> Tensor:
    heads, length, head_dim = rows.shape
    return rows.reshape(heads, length // size, size, head_dim).transpose(0, 1)


class _Context:
    """The rows that come before a tile, in as few pieces as they can be had without copying twice."""

    def __init__(self, call: Call, selection: Selection, kv_heads: slice, own: int) -> None:
        self._call, self._heads = call, kv_heads
        self._begin = call.start + selection.begin + own
        self._gathered: tuple[Tensor, Tensor] | None = None
        stop = call.start + selection.end
        if selection.local_start == 0:
            self.count = stop
            return
        pieces = list(call.rows.parts(0, min(call.budget.sinks, selection.local_start)))
        pieces = [(k[kv_heads], v[kv_heads]) for k, v in pieces]
        pieces.append(_gather(call, selection, kv_heads))
        pieces += [(k[kv_heads], v[kv_heads]) for k, v in call.rows.parts(selection.local_start, stop)]
        self._gathered = _joined(pieces)
        self.count = self._gathered[0].shape[1]
        self._before = self.count - (stop - self._begin)

    def until(self, tile: int) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the rows before the tile that starts at query ``tile`` of the selection."""
        if self._gathered is None:
            parts = self._call.rows.parts(0, self._begin + tile)
            # The kernel divides by the number of keys.
            return [(k[self._heads], v[self._heads]) for k, v in parts if k.shape[1]]
        count = self._before + tile
        return [(self._gathered[0][:, :count], self._gathered[1][:, :count])] if count else []


def _gather(call: Call, selection: Selection, kv_heads: slice) -> tuple[Tensor, Tensor]:
    heads = range(kv_heads.start, kv_heads.stop)
    if len(selection.rows) == 1 and len(heads) == call.rows.kv_heads:
        return call.rows.gather(selection.rows[0])
    if not selection.rows:
        none = call.rows.keys(0, 0)[kv_heads]
        return none, none
    pieces = [call.rows.gather(rows, head) for head in heads if (rows := selection.rows_of(head)) is not None]
    return torch.cat([k for k, _ in pieces]), torch.cat([v for _, v in pieces])


def _joined(pieces: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(pieces) == 1:
        return pieces[0]
    return torch.cat([k for k, _ in pieces], dim=1), torch.cat([v for _, v in pieces], dim=1)
