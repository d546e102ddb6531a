"""Two levels: page summaries choose pages, and tokens are scored only inside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.attention.scoring import best_rows, block_means, grouped_scores, key_scores, page_scores, soft_vote
from deepedu.base.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StreamingPages(Method):
    """Like a flat choice of tokens by soft vote, but a retrieval reads one summary a page and the kept pages' keys.

    A flat retrieval reads all N keys; this one N / page_tokens summaries (twice that for ``bound``) and
    ``candidates_per_selected`` * k keys, which does not grow with N.

    ``block_tokens``: queries that choose together, by their mean. ``page_tokens``: rows of a page. ``summary``: a page
    is scored by its ``mean`` key or by the ``bound`` of its channel-wise lowest and highest key.
    ``candidates_per_selected``: rows in the kept pages for each row that is selected of them.

    Source: the two-level selectors of HISA and of AsyncTLS (arXiv 2604.07815), without a trained indexer.
    Differs: the token scorer is the soft vote over the model's own keys; keeping all pages gives exactly the flat
    choice (``test_streaming_pages``).
    """

    name: ClassVar[str] = "streaming_pages"
    paper: ClassVar[str] = "AsyncTLS (arXiv 2604.07815) and HISA, two-level selection"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = "a token is missed when its page's summary hides it; chooses anew at every decode step"

    block_tokens: int = 512
    page_tokens: int = 16
    summary: Literal["mean", "bound"] = "mean"
    candidates_per_selected: int = 4

    def __post_init__(self) -> None:
        if min(self.block_tokens, self.page_tokens, self.candidates_per_selected) < 1:
            raise ConfigError(
                "streaming_pages needs block_tokens, page_tokens and candidates_per_selected of at least 1, came "
                f"{self.block_tokens}, {self.page_tokens} and {self.candidates_per_selected}"
            )

    def select(self, call: Call) -> Iterator[Selection]:
        block = min(self.block_tokens, call.budget.local)
        for index, fingerprint in enumerate(block_means(call.queries, block)):
            yield self._choose(call, fingerprint[None], index * block, min((index + 1) * block, call.q_len))

    def _choose(self, call: Call, fingerprint: Tensor, begin: int, end: int) -> Selection:
        sinks, count = call.budget.sinks, call.budget.selected
        local_start = call.start + end - call.budget.local
        if local_start - sinks <= count:
            return Selection(begin, end, 0)
        call.tally.retrieval_calls += 1
        call.tally.blocks += 1
        candidates = self._candidates(call, fingerprint, local_start)
        if candidates is None:
            votes = soft_vote(key_scores(call, fingerprint, sinks, local_start))[0]
            return Selection(begin, end, local_start, (best_rows(votes, count, sinks),))
        keys, _ = call.rows.gather(candidates)
        votes = soft_vote(grouped_scores(call, fingerprint, [keys]))[0]
        return Selection(begin, end, local_start, (candidates[best_rows(votes, count, 0)],))

    def _candidates(self, call: Call, fingerprint: Tensor, local_start: int) -> Tensor | None:
        """Rows of the kept pages, ascending; None where all pages are kept."""
        page, sinks, count = self.page_tokens, call.budget.sinks, call.budget.selected
        first, whole = sinks // page, local_start // page
        # One more, because the sinks may take most of the first page.
        kept = -(-count * self.candidates_per_selected // page) + 1
        if kept >= whole - first:
            return None
        votes = soft_vote(page_scores(call, fingerprint, self.summary, page, local_start)[..., first:])[0]
        pages = best_rows(votes, kept, first)
        rows = (pages[:, None] * page + torch.arange(page, device=pages.device)).flatten()
        # The page that the window cuts has no summary yet, and is always looked into.
        rest = torch.arange(whole * page, local_start, device=pages.device)
        return torch.cat([rows[rows >= sinks], rest])
