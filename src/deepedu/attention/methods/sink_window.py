"""Sinks and a sliding window: the first rows and the newest ones, nothing chosen in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from deepedu.attention.base import Call, Method, Phase, Selection
from deepedu.base.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SinkWindow(Method):
    """Reads the budget's sinks, and spends all that is left of the budget on the newest rows.

    ``block_tokens``: queries that share one window; the first of them sees a window shorter by that much.

    Source: Xiao et al. 2023 (arXiv 2309.17453), attention sinks.
    Differs: rows keep their own positions, and stay in the cache (other methods' rows do too, so that they compare);
    the window moves in steps of ``block_tokens`` (``test_sink_window``).
    """

    name: ClassVar[str] = "sink_window"
    paper: ClassVar[str] = "Xiao et al. 2023, StreamingLLM (arXiv 2309.17453)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = "never sees what lies between the sinks and the window"

    block_tokens: int = 128

    def __post_init__(self) -> None:
        if self.block_tokens < 1:
            raise ConfigError(f"sink_window.block_tokens must be at least 1, came {self.block_tokens}")

    def select(self, call: Call) -> Iterator[Selection]:
        sinks, window = call.budget.sinks, call.budget.tokens - call.budget.sinks
        block = min(self.block_tokens, window)
        for begin in range(0, call.q_len, block):
            end = min(begin + block, call.q_len)
            local_start = call.start + end - window
            yield Selection(begin, end, local_start if local_start > sinks else 0)
