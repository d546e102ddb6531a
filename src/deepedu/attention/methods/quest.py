"""Quest: the newest query reads the pages that could hold its highest scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.scoring import page_scores
from deepedu.base.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Quest(Method):
    """Each key/value head reads the pages of highest bound on q.k, from the pages' channel-wise lowest and highest key.

    ``page_tokens``: rows of a page. ``dense_layers``: this many first layers read everything.

    Source: Tang et al. 2024 (arXiv 2406.10774).
    Differs: pages are chosen per key/value head, a page's score being the highest of the group's query heads, where
    the released code chooses per query head with repeated keys (``test_quest``); no least number of pages, so that the
    budget holds.
    """

    name: ClassVar[str] = "quest"
    paper: ClassVar[str] = "Tang et al. 2024, Quest (arXiv 2406.10774)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"decode"})
    limits: ClassVar[str] = "decode only; the first layers (dense_layers) read everything; reads whole pages"

    page_tokens: int = 16
    dense_layers: int = 2

    def __post_init__(self) -> None:
        if self.page_tokens < 1 or self.dense_layers < 0:
            raise ConfigError(
                "quest needs page_tokens >= 1 and dense_layers >= 0, came "
                f"page_tokens={self.page_tokens}, dense_layers={self.dense_layers}"
            )

    def select(self, call: Call) -> Iterator[Selection]:
        sinks, selected = call.budget.sinks, call.budget.selected
        window = call.stop - call.budget.local
        if call.layer < self.dense_layers or window - sinks <= selected:
            yield Selection(0, call.q_len, 0)
            return
        # The page that the window cuts is read whole, at the cost of what may be selected.
        local_start = max(window // self.page_tokens * self.page_tokens, sinks, window - selected)
        count = (selected - (window - local_start)) // self.page_tokens
        if count == 0:
            yield Selection(0, call.q_len, local_start)
            return
        call.tally.retrieval_calls += 1
        call.tally.blocks += 1
        yield Selection(0, call.q_len, local_start, self._best_pages(call, count, local_start))

    def _best_pages(self, call: Call, count: int, local_start: int) -> tuple[Tensor, ...]:
        """Rows of each key/value head's best pages between sinks and window."""
        page, sinks = self.page_tokens, call.budget.sinks
        first = sinks // page
        scores = page_scores(call, call.queries.transpose(0, 1), "bound", page, local_start)[..., first:]
        per_head = scores.amax(0).view(call.rows.kv_heads, call.group, -1).amax(1)
        pages = per_head.topk(min(count, per_head.shape[1]), sorted=False).indices.sort().values + first
        rows = pages[..., None] * page + torch.arange(page, device=pages.device)
        # The sinks may end within the first page.
        return tuple(each[each >= sinks] for each in rows.flatten(1))
