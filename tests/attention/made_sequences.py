"""Made sequences: random keys, values and queries with a rotation, handed to methods call by call."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepedu.attention.base import Budget, Call, Method, Selection, Tally
from deepedu.attention.reference import TensorRows

SMALL = Budget(tokens=64, sinks=8, local=32)


class PiecedRows(TensorRows):
    """The same rows handed out in pieces, as a store of blocks would."""

    def parts(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        at = start
        while at < stop or at == start:
            end = min(stop, (at // 50 + 1) * 50)
            yield self._keys[:, at:end], self._values[:, at:end]
            at = max(end, at + 1)


def rope_angles(positions: Tensor, head_dim: int = 8) -> tuple[Tensor, Tensor]:
    frequencies = 100.0 ** -(torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim)
    angles = torch.cat([positions[:, None] * frequencies] * 2, dim=1)
    return angles.cos(), angles.sin()


def rotate(vectors: Tensor, start: int | Tensor, direction: int = 1) -> Tensor:
    """Vectors [..., n, head_dim] as they are at positions (or at those from one on), or (-1) as they were before."""
    positions = torch.arange(start, start + vectors.shape[-2]) if isinstance(start, int) else start
    cos, sin = rope_angles(positions, vectors.shape[-1])
    half = vectors.shape[-1] // 2
    turned = torch.cat([-vectors[..., half:], vectors[..., :half]], dim=-1)
    return vectors * cos + direction * turned * sin


@dataclass
class Made:
    """One layer of one sequence."""

    rows: TensorRows
    queries: Tensor
    state: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    tally: Tally = dataclasses.field(default_factory=Tally)

    @property
    def length(self) -> int:
        return self.queries.shape[1]

    def call(self, start: int, stop: int, budget: Budget = SMALL, **changes: Any) -> Call:
        head_dim = self.queries.shape[2]
        call = Call(
            rows=self.rows,
            queries=self.queries[:, start:stop],
            start=start,
            budget=budget,
            scale=head_dim**-0.5,
            layer=5,
            last=stop == self.length,
            state=self.state,
            tally=self.tally,
            unrope=lambda vectors, rows: rotate(vectors, rows, -1),
            rope_angles=lambda positions: rope_angles(positions, head_dim),
        )
        return dataclasses.replace(call, **changes)

    def calls(self, chunk: int, budget: Budget = SMALL, decode: int = 0) -> Iterator[Call]:
        """Prefill in chunks, then the last ``decode`` queries one by one."""
        prompt = self.length - decode
        for start in range(0, prompt, chunk):
            stop = min(start + chunk, prompt)
            yield self.call(start, stop, budget, last=stop == prompt)
        for row in range(prompt, self.length):
            yield self.call(row, row + 1, budget, phase="decode", last=False)

    def afresh(self) -> "Made":
        """The same sequence as a new request, the rows' summaries made anew."""
        keys, values = next(TensorRows.parts(self.rows, 0, self.length))
        return Made(type(self.rows)(keys, values), self.queries)


def made(
    length: int, heads: int = 28, kv_heads: int = 4, head_dim: int = 8, seed: int = 0, pieces: bool = False
) -> Made:
    """Queries with a part in common, as a model's are, so that neighbouring blocks are alike."""
    noise = torch.Generator().manual_seed(seed)
    keys = torch.randn(kv_heads, length, head_dim, generator=noise)
    values = torch.randn(kv_heads, length, head_dim, generator=noise)
    common = 2 * torch.randn(heads, 1, head_dim, generator=noise)
    queries = common + torch.randn(heads, length, head_dim, generator=noise)
    rows = (PiecedRows if pieces else TensorRows)(rotate(keys, 0), values)
    return Made(rows, rotate(queries, 0))


def selections(method: Method, call: Call) -> list[Selection]:
    """What the method reads in this call; everything in a phase that it does not have."""
    if call.phase not in method.phases:
        return [Selection(0, call.q_len, 0)]
    return list(method.select(call))


def chosen(selection: Selection, kv_head: int = 0) -> list[int]:
    rows = selection.rows_of(kv_head)
    return [] if rows is None else rows.tolist()


def check(call: Call, found: Sequence[Selection], most: int | None = None) -> None:
    """Selections are well formed, and no query reads more than ``most`` rows."""
    sinks, done = call.budget.sinks, 0
    for selection in found:
        assert selection.begin == done < selection.end
        done = selection.end
        assert 0 <= selection.local_start <= call.start + selection.begin
        assert len(selection.rows) in (0, 1, call.rows.kv_heads)
        for rows in selection.rows:
            assert rows.dtype == torch.int64
            assert (rows.diff() > 0).all(), "ascending and unique"
            assert ((rows >= sinks) & (rows < selection.local_start)).all(), "between sinks and window"
        if most is not None:
            longest = max((len(rows) for rows in selection.rows), default=0)
            read = min(sinks, selection.local_start) + longest + call.start + selection.end - selection.local_start
            assert read <= most, f"{read} rows read of {most}"
    assert done == call.q_len
