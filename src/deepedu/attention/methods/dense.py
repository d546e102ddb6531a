"""Dense causal attention: every query reads every row before it."""

from dataclasses import dataclass
from typing import ClassVar

from deepedu.attention.base import Method, Phase


@dataclass(frozen=True, kw_only=True)
class Dense(Method):
    """Reads everything.

    Source: Vaswani et al. 2017 (arXiv 1706.03762).
    """

    name: ClassVar[str] = "dense"
    paper: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762)"
    phases: ClassVar[frozenset[Phase]] = frozenset({"prefill", "decode"})
    limits: ClassVar[str] = "reads all rows whatever the budget; its time grows with the square of the length"
