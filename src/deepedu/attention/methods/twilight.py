"""Twilight: of what another method chose, the fewest rows that hold enough of the attention."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.registry import make_method
from deepedu.base.errors import ConfigError

LEVELS = 15  # Steps of a 4-bit number.


def _default_base() -> Method:
    return make_method("token_select")


@dataclass(frozen=True, kw_only=True)
class Twilight(Method):
    """Top-p pruning behind any selecting method: a ragged choice, one for each key/value head.

    ``base``: the method whose choice is pruned. ``p``: share of the attention's mass to keep, 1 keeps everything.
    Mass is estimated with keys of 4 bits, over all rows that the base reads; sinks and local rows are always kept and
    count.

    Source: Lin et al. 2025 (arXiv 2502.02770), hierarchical top-p pruning.
    Differs: the rows of a key/value head are what any query head of its group needs; a run of several queries asks
    with its mean query; sorted exactly instead of by a searched threshold (``test_twilight``).
    """

    name: ClassVar[str] = "twilight"
    paper: ClassVar[str] = "Lin et al. 2025, Twilight (arXiv 2502.02770)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = (
        "attends densely in a phase that its base does not have; the 4-bit keys are made at every call, "
        "so that it saves attention, not the reading of keys"
    )

    base: Method = field(default_factory=_default_base)
    p: float = 0.85

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise ConfigError(f"twilight.p must be above 0 and at most 1, came {self.p}")
        if type(self.base).select is Method.select:
            raise ConfigError(f"twilight.base must be a method that selects rows, came {self.base.name!r}")

    def select(self, call: Call) -> Iterator[Selection]:
        if call.phase not in self.base.phases:
            yield Selection(0, call.q_len, 0)
            return
        for selection in self.base.select(call):
            yield selection if self.p == 1 or not selection.rows else self._pruned(call, selection)

    def _pruned(self, call: Call, selection: Selection) -> Selection:
        kv_heads = call.rows.kv_heads
        probe = torch.mean(call.queries[:, selection.begin : selection.end], dim=1).view(kv_heads, call.group, -1)
        sinks = call.rows.keys(0, call.budget.sinks)
        local = call.rows.keys(selection.local_start, call.start + selection.end)
        pruned: list[Tensor] = []
        for head in range(kv_heads):
            rows = selection.rows_of(head)
            assert rows is not None, "only a selection with rows is pruned"
            keys = torch.cat([sinks[head], local[head], call.rows.gather(rows, head)[0][0]])
            scores = probe[head].float() @ four_bits(keys).T * call.scale
            always = keys.shape[0] - rows.shape[0]
            pruned.append(rows[top_p(torch.softmax(scores, dim=1), always, self.p)])
        return replace(selection, rows=tuple(pruned))


def four_bits(keys: Tensor) -> Tensor:
    """Keys [n, head_dim] as they are after asymmetric 4-bit quantisation of each, float32."""
    keys = keys.float()
    low = keys.amin(1, keepdim=True)
    step = ((keys.amax(1, keepdim=True) - low) / LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
    return torch.round((keys - low) / step) * step + low


def top_p(weights: Tensor, always: int, p: float) -> Tensor:
    """Which of the columns after the first ``always`` some row needs to reach mass ``p`` with the fewest of them.

    Args:
        weights: [group, always + n], each row of sum 1.
        always: columns that are kept anyway.
        p: mass to reach.

    Returns:
        bool [n].
    """
    missing = p - weights[:, :always].sum(1, keepdim=True)
    ordered, order = weights[:, always:].sort(dim=1, descending=True)
    before = ordered.cumsum(1) - ordered
    return torch.zeros_like(ordered, dtype=torch.bool).scatter(1, order, before < missing).any(0)
