"""The plainest possible attention, dense and selective, and rows in two tensors: what everything is compared with."""

from collections.abc import Iterator

import torch
from torch import Tensor

from deepedu.attention.base import Call, KVRows, Selection


class TensorRows(KVRows):
    """Rows of one layer held in two tensors."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """``keys`` and ``values``: [kv_heads, length, head_dim]."""
        super().__init__()
        self._keys, self._values = keys, values
        self.kv_heads, _, self.head_dim = keys.shape

    @property
    def length(self) -> int:
        """Rows there are."""
        return self._keys.shape[1]

    def parts(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One piece."""
        yield self._keys[:, start:stop], self._values[:, start:stop]

    def gather(self, rows: Tensor, kv_head: int | None = None) -> tuple[Tensor, Tensor]:
        """Copies of the rows."""
        heads = slice(None) if kv_head is None else slice(kv_head, kv_head + 1)
        return self._keys[heads].index_select(1, rows), self._values[heads].index_select(1, rows)


def dense(call: Call) -> Tensor:
    """Every query over every row up to its own, [q_len, heads, head_dim], head by head."""
    return selective(call, [Selection(0, call.q_len, 0)])


def selective(call: Call, selections: list[Selection]) -> Tensor:
    """Softmax over all rows with the rows that are not selected masked out, query by query and head by head."""
    (keys, values) = next(iter(TensorRows(*_all(call)).parts(0, call.stop)))
    group = call.heads // call.rows.kv_heads
    out = torch.empty(call.q_len, call.heads, call.rows.head_dim, dtype=call.queries.dtype)
    for selection in selections:
        for query in range(selection.begin, selection.end):
            for head in range(call.heads):
                rows = rows_read(call, selection, query, head)
                scores = keys[head // group, rows].double() @ call.queries[head, query].double() * call.scale
                mixed = torch.softmax(scores, dim=0) @ values[head // group, rows].double()
                out[query, head] = mixed.to(out.dtype)
    return out


def rows_read(call: Call, selection: Selection, query: int, head: int) -> Tensor:
    """The rows that one query of a selection reads with one of its heads, ascending."""
    own = call.start + query
    local = torch.arange(selection.local_start, own + 1)
    if selection.local_start == 0:
        return local
    if head in selection.exact_heads:
        return torch.arange(own + 1)
    sinks = torch.arange(min(call.budget.sinks, selection.local_start))
    chosen = selection.rows_of(head // call.group)
    return torch.cat([sinks, local] if chosen is None else [sinks, chosen, local])


def _all(call: Call) -> tuple[Tensor, Tensor]:
    pieces = list(call.rows.parts(0, call.stop))
    return torch.cat([k for k, _ in pieces], dim=1), torch.cat([v for _, v in pieces], dim=1)
