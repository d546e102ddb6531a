"""Query heads for which no shared choice of rows will do: found on the prompt itself, so that they can read every row.

Most heads look at the same rows for a whole block of queries. Some look elsewhere for each query, at the earlier places
of the same word for instance; what a block chooses together holds little of what they want, whatever the budget. They
are few, and a handful of sampled queries tells which: the share of their attention that falls on rows not chosen.

Source: that a few heads need the whole cache: Xiao et al. 2024, DuoAttention (arXiv 2410.10819), which learns them
beforehand; sampled queries as a measure: Zhu et al. 2024, SampleAttention (arXiv 2406.15486).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from deepedu.attention.base import Call, Selection

STATE = "lost_mass"
# One query of so many is looked at.
SAMPLE_EVERY = 256


class LostMass:
    """The share of attention that each head of a call loses on rows that it does not read, from sampled queries.

    A method gives the scores of ``queries`` to ``keep`` before it makes the selection that they belong to, and that
    selection to ``add`` afterwards. What earlier calls of the request measured counts too.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._scores: dict[int, Tensor] = {}
        self._lost: Tensor
        self._lost, self._samples = call.state.get(STATE, (torch.zeros(call.heads, device=call.queries.device), 0))

    def queries(self, begin: int, end: int) -> Sequence[int]:
        """Those queries of ``begin..end``, counted from the call's first one, that are looked at; at least one."""
        # From the middle of their runs: late queries of a block lose more than early ones.
        return range(min(begin + SAMPLE_EVERY // 2, end - 1), end, SAMPLE_EVERY)

    def keep(self, queries: Sequence[int], scores: Tensor) -> None:
        """``scores`` [queries, heads, rows]: scaled, of all rows up to each query's own at least."""
        self._scores.update(zip(queries, scores, strict=True))

    def add(self, selection: Selection) -> None:
        """Measures a selection; the scores of its queries are dropped."""
        for query in range(selection.begin, selection.end):
            scores = self._scores.pop(query, None)
            if scores is not None:
                shares = torch.softmax(scores[:, : self._call.start + query + 1], dim=-1)
                self._lost = self._lost + 1 - self._held(selection, shares)
                self._samples += 1
        self._call.state[STATE] = (self._lost, self._samples)

    def exact_heads(self, share: float) -> tuple[int, ...]:
        """Query heads that lose more than ``share`` (0 to 1) on average, ascending."""
        above: list[bool] = (self._lost > share * self._samples).tolist()  # pyright: ignore[reportUnknownMemberType]
        return tuple(head for head, is_above in enumerate(above) if is_above)

    def _held(self, selection: Selection, shares: Tensor) -> Tensor:
        """What a selection holds of one query's shares [heads, rows]: [heads]."""
        call, local = self._call, selection.local_start
        held = shares[:, : min(call.budget.sinks, local)].sum(1) + shares[:, local:].sum(1)
        for head in range(call.rows.kv_heads):
            mine = slice(head * call.group, (head + 1) * call.group)
            if (rows := selection.rows_of(head)) is not None:
                held[mine] += shares[mine].index_select(1, rows).sum(1)
        return held
