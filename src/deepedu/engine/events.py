"""What is asked of a completion, and what is told about it while it runs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from deepedu.attention.tally import Tally
from deepedu.engine.prompt import Source

if TYPE_CHECKING:
    from deepedu.engine.cache import Segment

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen and when to end.

    ``temperature`` 0 is greedy: always the likeliest token, so the same prompt gives the same answer. Penalties are
    subtracted from the logits of tokens already in the completion: ``frequency_penalty`` per occurrence,
    ``presence_penalty`` once.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0


@dataclass(frozen=True)
class TextDelta:
    """A piece of the completion; joined they are the whole."""

    text: str


@dataclass(frozen=True)
class FirstToken:
    """The prompt is computed and the first token chosen; its text may still be held back."""

    prefill_ms: float


@dataclass(frozen=True)
class Finished:
    """Last event.

    ``tokens_per_s`` is the decode rate after the first token, 0 where there is no second one. ``cached_tokens`` of the
    prompt were found in the cache, ``cached_from`` memory or disk. ``tally`` is what the attention method did.
    """

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    prefill_ms: float
    tokens_per_s: float
    cached_tokens: int = 0
    cached_from: Source | None = None
    tally: Tally = field(default_factory=Tally)


GenerationEvent = TextDelta | FirstToken | Finished


@dataclass(frozen=True)
class WarmProgress:
    """Tokens of the prefix that are there, of how many."""

    done_tokens: int
    total_tokens: int


@dataclass(frozen=True)
class Warmed:
    """The whole prefix is in memory."""

    segment: "Segment"
