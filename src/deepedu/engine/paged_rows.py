"""Rows of a sequence that lie in the blocks of a shared, paged cache, as a model server of another make keeps them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from deepedu.attention.base import KVRows


class PagedRows(KVRows):
    """Reads one layer of one sequence. Selected rows are gathered from their blocks; rows that are read in one run are
    copied together once, until ``release``, or read block by block without a copy.

    Args:
        keys: the layer's cache, [blocks, kv_heads, block_tokens, head_dim], with any strides.
        values: likewise.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        _, self.kv_heads, self._block_tokens, self.head_dim = keys.shape
        self._cached = (keys, values)
        self._blocks = torch.empty(0, dtype=torch.int64, device=keys.device)
        self._length = 0
        self._joined: list[Tensor | None] = [None, None]
        self._by_block = False

    def point(self, blocks: Tensor, length: int, *, by_block: bool = False) -> None:
        """Says where the sequence lies now: its blocks in order (int64), and how many rows it has.

        ``by_block``: rows are handed out in one piece a block, which is right for a single query: a copy of them all
        would cost more than reading them once.
        """
        used = -(-length // self._block_tokens)
        self._blocks, self._length, self._by_block = blocks[:used], length, by_block
        self.release()

    def release(self) -> None:
        """Lets go of what was copied."""
        self._joined = [None, None]

    @property
    def length(self) -> int:
        """Rows there are."""
        return self._length

    def parts(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        """See ``KVRows``; one piece, or one for each block."""
        if not self._by_block:
            yield self._run(0)[:, start:stop], self._run(1)[:, start:stop]
            return
        if start >= stop:
            yield self._cached[0][0, :, :0], self._cached[1][0, :, :0]
        size = self._block_tokens
        for index in range(start // size, -(-stop // size) if start < stop else 0):
            block = int(self._blocks[index])
            held = slice(max(start - index * size, 0), min(stop - index * size, size))
            yield self._cached[0][block][:, held], self._cached[1][block][:, held]

    def keys(self, start: int, stop: int) -> Tensor:
        """See ``KVRows``; values are not touched."""
        return super().keys(start, stop) if self._by_block else self._run(0)[:, start:stop]

    def gather(self, rows: Tensor, kv_head: int | None = None) -> tuple[Tensor, Tensor]:
        """See ``KVRows``."""
        return self._gather(0, rows, kv_head), self._gather(1, rows, kv_head)

    def _gather(self, which: int, rows: Tensor, kv_head: int | None) -> Tensor:
        joined = self._joined[which]
        if joined is not None:
            return (joined if kv_head is None else joined[kv_head : kv_head + 1])[:, rows]
        cached = self._cached[which]
        block, offset = self._blocks[rows // self._block_tokens], rows % self._block_tokens
        if kv_head is not None:
            return cached[block, kv_head, offset][None]
        return cached[block, :, offset].transpose(0, 1)

    def _run(self, which: int) -> Tensor:
        joined = self._joined[which]
        if joined is None:
            picked = self._cached[which][self._blocks].transpose(0, 1)
            joined = self._joined[which] = picked.reshape(self.kv_heads, -1, self.head_dim)[:, : self._length]
        return joined
