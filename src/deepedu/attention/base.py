"""What a method of reading a long KV cache is: three verbs, the rows it sees, and the budget it keeps to.

A method is a frozen dataclass in ``methods/<name>.py`` that overrides one verb:

* ``select``: which cached rows a run of queries reads (nothing is lost);
* ``keep``: which rows stay in the cache after the prompt (the others are gone);
* ``attend``: a whole attention pattern.

Rows are counted from 0 within one layer of one sequence, in the order in which they were appended. Keys are stored
after RoPE, so their order does not matter to attention itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from deepedu.attention.tally import Tally
from deepedu.base.errors import BudgetError

Phase = Literal["prefill", "decode"]

DEFAULT_SINKS = 128
DEFAULT_LOCAL = 512
DEFAULT_BUDGET_TOKENS = 1664


@dataclass(frozen=True)
class Budget:
    """Cached rows that one query may read: ``tokens`` = sinks + selected + local.

    ``sinks`` are the first rows, ``local`` the newest ones (the queries' own block among them); both are always read.

    Raises:
        BudgetError: ``tokens`` cannot hold sinks and local.
    """

    tokens: int = DEFAULT_BUDGET_TOKENS
    sinks: int = DEFAULT_SINKS
    local: int = DEFAULT_LOCAL

    def __post_init__(self) -> None:
        if self.sinks < 0 or self.local < 1:
            raise BudgetError(
                f"a budget has at least 0 sinks and 1 local token, came sinks={self.sinks}, local={self.local}"
            )
        if self.tokens < self.sinks + self.local:
            raise BudgetError(
                f"a budget of {self.tokens} tokens is below sinks + local = {self.sinks} + {self.local}: "
                f"give at least {self.sinks + self.local}"
            )

    @property
    def selected(self) -> int:
        """Rows between sinks and local that may be selected (k)."""
        return self.tokens - self.sinks - self.local


class KVRows(ABC):
    """Keys and values of one layer of one sequence, to read. ``length`` grows as rows are appended."""

    kv_heads: int
    head_dim: int

    def __init__(self) -> None:
        self._summaries: dict[tuple[str, int], Tensor] = {}

    @property
    @abstractmethod
    def length(self) -> int:
        """Rows there are."""

    @abstractmethod
    def parts(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of rows ``start..stop`` as contiguous pieces in order, each [kv_heads, n, head_dim].

        At least one piece, which may be empty.
        """

    @abstractmethod
    def gather(self, rows: Tensor, kv_head: int | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the given rows (int64 [n], ascending).

        Returns:
            Both [kv_heads, n, head_dim], or [1, n, head_dim] of one head where ``kv_head`` is given.
        """

    def keys(self, start: int, stop: int) -> Tensor:
        """Keys of rows ``start..stop``, [kv_heads, stop - start, head_dim]; copied where they lie in pieces."""
        pieces = [keys for keys, _ in self.parts(start, stop)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def summaries(self, kind: Literal["mean", "min", "max"], page_tokens: int, stop: int) -> Tensor:
        """Summaries of the keys of every whole page in rows ``0..stop``, [kv_heads, pages, head_dim].

        A page is computed once, when it is whole; later calls only add new pages.
        """
        pages = stop // page_tokens
        known = self._summaries.get((kind, page_tokens))
        have = 0 if known is None else known.shape[1]
        if have < pages:
            new = self.keys(have * page_tokens, pages * page_tokens)
            new = new.reshape(self.kv_heads, pages - have, page_tokens, self.head_dim)
            fresh = torch.mean(new, dim=2) if kind == "mean" else new.amin(2) if kind == "min" else new.amax(2)
            known = fresh if known is None else torch.cat([known, fresh], dim=1)
            self._summaries[kind, page_tokens] = known
        assert known is not None or pages == 0
        return self.keys(0, 0) if known is None else known[:, :pages]


@dataclass(frozen=True)
class Call:
    """One run of queries of one layer of one sequence.

    Attributes:
        rows: the cache, the rows of these queries among them; later rows must not be looked at.
        queries: [heads, q_len, head_dim], after RoPE. Query head h reads key/value head h // (heads // kv_heads).
        start: row of the first query.
        budget: what a query may read.
        scale: factor on q.k before softmax.
        phase: ``decode`` where one new token follows the prompt, else ``prefill``.
        layer: index of the layer.
        layers: how many layers the model has; 0 where that is not known.
        last: whether the prompt ends with these queries.
        state: what the method remembers of this layer in this sequence; empty at the start of every request.
        tally: counters to add to.
        unrope: takes [..., n, head_dim] and their rows (int64 [n]), returns them as they were before RoPE; None where
            the model's rotation is not known.
        rope_angles: takes positions (int64 [n]), returns cos and sin, each [n, head_dim]; None likewise.
        add_up: takes a tensor, returns its sum over the processes that hold the other heads of this layer, the same in
            all of them; None where this one holds all heads. Use ``over_all_heads``.
    """

    rows: KVRows
    queries: Tensor
    start: int
    budget: Budget
    scale: float
    phase: Phase = "prefill"
    layer: int = 0
    layers: int = 0
    last: bool = False
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    tally: Tally = field(default_factory=Tally)
    unrope: Callable[[Tensor, Tensor], Tensor] | None = None
    rope_angles: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    add_up: Callable[[Tensor], Tensor] | None = None

    def over_all_heads(self, part: Tensor) -> Tensor:
        """What sums over this process's heads come to over all heads of the layer; every process asks alike."""
        return part if self.add_up is None else self.add_up(part)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.queries.shape[0]

    @property
    def q_len(self) -> int:
        """Queries."""
        return self.queries.shape[1]

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.heads // self.rows.kv_heads

    @property
    def stop(self) -> int:
        """Row after the last query."""
        return self.start + self.q_len


@dataclass(frozen=True)
class Selection:
    """What queries ``begin..end`` (counted from the call's first query) read.

    They read the sinks, then ``rows``, then every row from ``local_start`` up to and including their own (causally).
    ``rows`` holds one int64 tensor for all key/value heads or one for each; each is ascending, without repetition,
    and lies in [sinks, local_start). ``local_start`` 0 is dense attention. Query heads among ``exact_heads``
    (ascending) read every row up to their own instead.
    """

    begin: int
    end: int
    local_start: int
    rows: tuple[Tensor, ...] = ()
    exact_heads: tuple[int, ...] = ()

    def rows_of(self, kv_head: int) -> Tensor | None:
        """The rows that one key/value head's queries read between sinks and window; None where there are none."""
        return self.rows[kv_head if len(self.rows) > 1 else 0] if self.rows else None


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A method. Subclasses set the class attributes and override one verb.

    ``exact_tokens``: of the last user turn, this many tokens at most attend densely in the prefill whatever the
    method says; the question's few tokens would drown in the mean of their block. 0 turns it off.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    phases: ClassVar[frozenset[Phase]]
    limits: ClassVar[str]

    exact_tokens: int = 256

    def select(self, call: Call) -> Iterable[Selection]:
        """Covers all queries of the call, in order, without overlap."""
        return (Selection(0, call.q_len, 0),)

    def keep(self, call: Call) -> tuple[Tensor, ...] | None:
        """Looked at after every run of prompt queries; rows are dropped where it returns some.

        Returns:
            None to keep everything, or per key/value head the ascending rows that stay; all of the same length.
        """
        del call
        return None

    def attend(self, call: Call) -> Tensor:
        """Attention output of the call's queries, [q_len, heads, head_dim]."""
        # Here, not at the top: the computation is written in terms of this module.
        from deepedu.attention.sparse import attend_selections

        return attend_selections(call, self.select(call))

    @property
    def evicts(self) -> bool:
        """Whether ``keep`` may drop rows."""
        return type(self).keep is not Method.keep
