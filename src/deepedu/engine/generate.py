"""Prefill and decode: one prompt through one model, text out as it comes."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from deepedu.base.errors import EngineError
from deepedu.engine.text_stream import Detokenizer, StopFilter
from deepedu.engine.weights import LoadedModel

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

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
    """Last event. ``tokens_per_s`` is the decode rate after the first token, 0 where there is no second one."""

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    prefill_ms: float
    tokens_per_s: float


GenerationEvent = TextDelta | FirstToken | Finished


def generate(
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    *,
    cancelled: Event | None = None,
    prefill_chunk_tokens: int = 8192,
) -> Iterator[GenerationEvent]:
    """Completes a prompt.

    Args:
        loaded: model and tokenizer.
        prompt_ids: at least one token id; prompt and ``max_tokens`` fit the window together.
        sampling: how to choose tokens.
        cancelled: looked at between prefill chunks and between tokens.
        prefill_chunk_tokens: prompt tokens computed at once; bounds the memory of the prefill.

    Returns:
        Text deltas, one ``FirstToken``, and ``Finished`` as the last event.

    Raises:
        EngineError: out of memory, or the model computed something that is no number.
    """
    import torch

    assert prompt_ids, "an empty prompt is refused before it gets here"
    cancelled = cancelled or Event()
    try:
        # Switched per step, not around the yields: the mode is the thread's, and a consumer shares the thread.
        yield from _complete(loaded, prompt_ids, sampling, cancelled, prefill_chunk_tokens)
    except torch.OutOfMemoryError as error:
        if loaded.device.type == "cuda":
            torch.cuda.empty_cache()
        raise EngineError(
            f"not enough memory for a prompt of {len(prompt_ids)} tokens: shorten it or lower "
            "engine.prefill_chunk_tokens"
        ) from error


def _complete(
    loaded: LoadedModel, prompt_ids: Sequence[int], sampling: Sampling, cancelled: Event, chunk_tokens: int
) -> Iterator[GenerationEvent]:
    started = time.perf_counter()
    cache = new_cache(loaded)
    chooser = _Chooser(sampling)
    detokenizer, stop_filter = Detokenizer(loaded.tokenizer), StopFilter(sampling.stop)
    count = 0
    reason: FinishReason = "length"
    first_at = last_at = started

    logits = prefill(loaded, prompt_ids, cache, chunk_tokens, cancelled)
    while logits is not None:
        token_id = chooser.choose(logits)
        count += 1
        last_at = time.perf_counter()
        if count == 1:
            first_at = last_at
            yield FirstToken(prefill_ms=(first_at - started) * 1000)
        if token_id in loaded.end_ids:
            reason = "stop"
            break
        if text := stop_filter.push(detokenizer.push(token_id)):
            yield TextDelta(text)
        if stop_filter.stopped:
            reason = "stop"
            break
        if count >= sampling.max_tokens:
            break
        logits = None if cancelled.is_set() else forward(loaded, [token_id], cache)
    if logits is None:
        reason = "cancelled"
    elif not stop_filter.stopped:
        tail = stop_filter.push(detokenizer.flush())
        tail += "" if stop_filter.stopped else stop_filter.flush()
        reason = "stop" if stop_filter.stopped else reason
        if tail:
            yield TextDelta(tail)
    decode_s = last_at - first_at
    yield Finished(
        reason=reason,
        prompt_tokens=len(prompt_ids),
        completion_tokens=count,
        prefill_ms=(first_at - started) * 1000,
        tokens_per_s=(count - 1) / decode_s if decode_s > 0 else 0.0,
    )


def new_cache(loaded: LoadedModel) -> Any:
    """An empty KV cache for one sequence."""
    from transformers import DynamicCache

    return DynamicCache(config=loaded.model.config)


def prefill(
    loaded: LoadedModel, prompt_ids: Sequence[int], cache: Any, chunk_tokens: int, cancelled: Event
) -> "torch.Tensor | None":
    """Fills the cache with the prompt, chunk by chunk.

    Returns:
        Logits after the last prompt token, float32 [vocabulary], or None when cancelled.
    """
    logits = None
    for start in range(0, len(prompt_ids), chunk_tokens):
        if cancelled.is_set():
            return None
        logits = forward(loaded, prompt_ids[start : start + chunk_tokens], cache)
    return logits


def forward(loaded: LoadedModel, token_ids: Sequence[int], cache: Any) -> "torch.Tensor":
    """Appends tokens to the cache.

    Returns:
        Logits after the last of them, float32 [vocabulary]; those of the others are never computed.
    """
    import torch

    with torch.inference_mode():
        ids = torch.tensor([list(token_ids)], dtype=torch.long, device=loaded.device)
        output = loaded.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{loaded.cache_argument: cache})
        return output.logits[0, -1].float()


class _Chooser:
    """Picks the next token. Draws on the CPU, so that a seed means the same on every device."""

    def __init__(self, sampling: Sampling) -> None:
        import torch

        self._sampling = sampling
        self._counts: dict[int, int] = {}
        self._random = torch.Generator()
        if sampling.seed is not None:
            self._random.manual_seed(sampling.seed)
        else:
            self._random.seed()

    def choose(self, logits: "torch.Tensor") -> int:
        """Token id chosen from ``logits`` [vocabulary]."""
        import torch

        with torch.inference_mode():
            logits = self._penalised(logits)
            if self._sampling.temperature == 0:
                token_id = int(logits.argmax())
                best = float(logits[token_id])
            else:
                token_id, best = self._draw(logits)
        if math.isnan(best) or math.isinf(best):
            raise EngineError("the model computed logits that are no numbers; try engine.dtype float32")
        self._counts[token_id] = self._counts.get(token_id, 0) + 1
        return token_id

    def _penalised(self, logits: "torch.Tensor") -> "torch.Tensor":
        import torch

        frequency, presence = self._sampling.frequency_penalty, self._sampling.presence_penalty
        if not self._counts or (frequency == 0 and presence == 0):
            return logits
        logits = logits.clone()
        ids = torch.tensor(list(self._counts), device=logits.device)
        counts = torch.tensor(list(self._counts.values()), dtype=logits.dtype, device=logits.device)
        logits[ids] -= counts * frequency + presence
        return logits

    def _draw(self, logits: "torch.Tensor") -> tuple[int, float]:
        import torch

        probabilities = torch.softmax(logits.cpu() / self._sampling.temperature, dim=-1)
        if not bool(torch.isfinite(probabilities).all()):
            return 0, math.nan
        if self._sampling.top_p < 1:
            ordered, ids = probabilities.sort(descending=True, stable=True)
            # Keep the smallest set that reaches top_p: a token stays if those before it do not reach it.
            ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= self._sampling.top_p, 0.0)
            return int(ids[torch.multinomial(ordered, 1, generator=self._random)]), 0.0
        return int(torch.multinomial(probabilities, 1, generator=self._random)), 0.0
