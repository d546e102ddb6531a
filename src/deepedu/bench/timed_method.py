"""Methods that measure themselves, and the one that attends to nothing."""

import time
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method, Phase
from deepedu.attention.sparse import attend_dense, attend_selections

BOTH: frozenset[Phase] = frozenset({"prefill", "decode"})


@dataclass
class Seconds:
    """Time spent choosing rows and attending to them, summed over layers."""

    selection: float = 0.0
    attention: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Timed(Method):
    """Another method, with a clock. Phases it does not have, and exact tokens, are attended densely unmeasured."""

    name: ClassVar[str] = "timed"
    paper: ClassVar[str] = ""
    phases: ClassVar[frozenset[Phase]] = BOTH
    limits: ClassVar[str] = ""

    inner: Method
    seconds: Seconds = field(default_factory=Seconds)

    def attend(self, call: Call) -> Tensor:
        """As the method does; a method with a pattern of its own counts as attention altogether."""
        inner, began = self.inner, time.perf_counter()
        if call.phase not in inner.phases:
            return attend_dense(call)
        if type(inner).attend is not Method.attend:
            out = inner.attend(call)
            self.seconds.attention += time.perf_counter() - began
            return out
        selections = list(inner.select(call))
        chosen = time.perf_counter()
        out = attend_selections(call, selections)
        self.seconds.selection += chosen - began
        self.seconds.attention += time.perf_counter() - chosen
        return out


@dataclass(frozen=True, kw_only=True)
class Floor(Method):
    """Attention replaced by nothing: what the rest of the model takes. Its output is zero, so its text is noise."""

    name: ClassVar[str] = "floor"
    paper: ClassVar[str] = ""
    phases: ClassVar[frozenset[Phase]] = BOTH
    limits: ClassVar[str] = "computes no attention"

    exact_tokens: int = 0

    def attend(self, call: Call) -> Tensor:
        """Zeros."""
        shape = (call.q_len, call.heads, call.rows.head_dim)
        return torch.zeros(shape, dtype=call.queries.dtype, device=call.queries.device)
