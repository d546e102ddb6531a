"""Keys and values of one layer, in contiguous blocks that are allocated once and filled from the front."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from deepedu.attention.base import KVRows

RowsDtype = Literal["model", "int8"]

# Rows of a block that is added when the first one is full.
GROWTH_ROWS = 1024
# Rows of an int8 block that are turned back into numbers at once.
READ_ROWS = 4096


@dataclass
class RowBlock:
    """Rows of one layer: ``keys`` and ``values`` [kv_heads, capacity, head_dim], the first ``used`` of them filled.

    Where the rows are int8, ``key_scales`` and ``value_scales`` [kv_heads, capacity, 1] turn them back into ``dtype``.
    """

    keys: Tensor
    values: Tensor
    key_scales: Tensor | None
    value_scales: Tensor | None
    dtype: torch.dtype
    used: int = 0

    @classmethod
    def allocate(
        cls,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
        rows_dtype: RowsDtype = "model",
    ) -> "RowBlock":
        """An empty block. The system hands out its memory as it is filled."""
        shape = (kv_heads, capacity, head_dim)
        if rows_dtype == "model":
            keys, values = (torch.empty(shape, dtype=dtype, device=device) for _ in range(2))
            return cls(keys, values, None, None, dtype)
        keys, values = (torch.empty(shape, dtype=torch.int8, device=device) for _ in range(2))
        scales = [torch.empty(kv_heads, capacity, 1, dtype=torch.float32, device=device) for _ in range(2)]
        return cls(keys, values, scales[0], scales[1], dtype)

    @property
    def capacity(self) -> int:
        """Rows it can hold."""
        return self.keys.shape[1]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, keys and values of all heads."""
        scales = 0 if self.key_scales is None else 2 * self.key_scales.element_size()
        return self.keys.shape[0] * (2 * self.keys.shape[2] * self.keys.element_size() + scales)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Appends rows, [kv_heads, n, head_dim]; there is room for them."""
        span = slice(self.used, self.used + keys.shape[1])
        assert span.stop <= self.capacity, "the caller looks for room"
        if self.key_scales is None or self.value_scales is None:
            self.keys[:, span], self.values[:, span] = keys, values
        else:
            self.keys[:, span], self.key_scales[:, span] = _quantised(keys)
            self.values[:, span], self.value_scales[:, span] = _quantised(values)
        self.used = span.stop

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Rows ``start..stop``: views where they are stored as they are used."""
        span = slice(start, stop)
        if self.key_scales is None or self.value_scales is None:
            return self.keys[:, span], self.values[:, span]
        keys = self.keys[:, span].to(self.dtype) * self.key_scales[:, span].to(self.dtype)
        return keys, self.values[:, span].to(self.dtype) * self.value_scales[:, span].to(self.dtype)

    def take(self, rows: Tensor, kv_head: int | None) -> tuple[Tensor, Tensor]:
        """Copies of rows (int64 [n]); nothing else is looked at, so that rows in a file stay there."""
        heads = slice(None) if kv_head is None else slice(kv_head, kv_head + 1)
        keys, values = self.keys[heads].index_select(1, rows), self.values[heads].index_select(1, rows)
        if self.key_scales is None or self.value_scales is None:
            return keys, values
        key_scales = self.key_scales[heads].index_select(1, rows).to(self.dtype)
        value_scales = self.value_scales[heads].index_select(1, rows).to(self.dtype)
        return keys.to(self.dtype) * key_scales, values.to(self.dtype) * value_scales

    def copy_from(self, other: "RowBlock", start: int, stop: int) -> None:
        """Appends rows ``start..stop`` of another block of the same kind, bit for bit."""
        span = slice(self.used, self.used + stop - start)
        self.keys[:, span], self.values[:, span] = other.keys[:, start:stop], other.values[:, start:stop]
        if self.key_scales is not None and self.value_scales is not None:
            assert other.key_scales is not None
            assert other.value_scales is not None
            self.key_scales[:, span] = other.key_scales[:, start:stop]
            self.value_scales[:, span] = other.value_scales[:, start:stop]
        self.used = span.stop


def _quantised(rows: Tensor) -> tuple[Tensor, Tensor]:
    scales = rows.abs().amax(-1, keepdim=True).float().clamp_(min=1e-12) / 127
    return torch.round(rows.float() / scales).to(torch.int8), scales


class LayerRows(KVRows):
    """Rows of one layer of one sequence: a prefix that others may read too, then blocks of its own."""

    def __init__(self, own: RowBlock, prefix: RowBlock | None = None, prefix_rows: int = 0) -> None:
        """``prefix_rows``: how many of the prefix's rows belong to this sequence; it is never written to."""
        super().__init__()
        self.kv_heads, _, self.head_dim = own.keys.shape
        self._shared = [(prefix, prefix_rows)] if prefix is not None and prefix_rows else []
        self._own = [own]
        self.shared_rows = prefix_rows
        self.evicted_rows = 0

    @property
    def length(self) -> int:
        """Rows there are."""
        return self.shared_rows + sum(block.used for block in self._own)

    @property
    def positions(self) -> int:
        """Tokens seen, those whose rows were dropped among them."""
        return self.length + self.evicted_rows

    @property
    def own_blocks(self) -> list[RowBlock]:
        """The blocks that belong to this sequence alone."""
        return self._own

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Adds rows, [kv_heads, n, head_dim]."""
        done = 0
        while done < keys.shape[1]:
            block = self._own[-1]
            room = block.capacity - block.used
            if room == 0:
                self._own.append(_alike(block, max(GROWTH_ROWS, keys.shape[1] - done)))
                continue
            piece = slice(done, done + room)
            block.write(keys[:, piece], values[:, piece])
            done = min(keys.shape[1], done + room)

    def parts(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One piece per block; blocks of int8 rows come in pieces that bound the memory."""
        offset, found = 0, False
        for block, rows in self._blocks():
            first, last = max(start, offset), min(stop, offset + rows)
            step = last - first if block.key_scales is None else READ_ROWS
            for at in range(first, last, max(1, step)):
                yield block.read(at - offset, min(at + step, last) - offset)
                found = True
            offset += rows
        if not found:
            yield self._own[0].read(0, 0)

    def gather(self, rows: Tensor, kv_head: int | None = None) -> tuple[Tensor, Tensor]:
        """Copies of the rows."""
        pieces: list[tuple[Tensor, Tensor]] = []
        offset = 0
        blocks = [(block, count) for block, count in self._blocks() if count]
        if len(blocks) == 1:
            return blocks[0][0].take(rows, kv_head)
        edges = torch.tensor([sum(count for _, count in blocks[:i]) for i in range(1, len(blocks))], dtype=rows.dtype)
        cuts = [0, *torch.searchsorted(rows, edges.to(rows.device)).tolist(), len(rows)]
        for (block, count), first, last in zip(blocks, cuts[:-1], cuts[1:], strict=True):
            if last > first:
                pieces.append(block.take(rows[first:last] - offset, kv_head))
            offset += count
        if not pieces:
            return self._own[0].take(rows, kv_head)
        return torch.cat([k for k, _ in pieces], dim=1), torch.cat([v for _, v in pieces], dim=1)

    def retain(self, kept: tuple[Tensor, ...]) -> None:
        """Drops every row but ``kept`` (per kv head, ascending, all of one length)."""
        pieces = [self.gather(rows, head) for head, rows in enumerate(kept)]
        before = self.length
        block = _alike(self._own[0], len(kept[0]) + GROWTH_ROWS)
        block.write(torch.cat([k for k, _ in pieces]), torch.cat([v for _, v in pieces]))
        self._shared, self._own, self.shared_rows = [], [block], 0
        self.evicted_rows += before - block.used
        self._summaries.clear()

    def _blocks(self) -> list[tuple[RowBlock, int]]:
        return [*self._shared, *((block, block.used) for block in self._own)]


def _alike(block: RowBlock, capacity: int) -> RowBlock:
    heads, _, head_dim = block.keys.shape
    kind: RowsDtype = "model" if block.key_scales is None else "int8"
    return RowBlock.allocate(heads, capacity, head_dim, block.dtype, block.keys.device, kind)
