"""Prefill and decode: one prompt through one model, text out as it comes."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from deepedu.attention.tally import Tally
from deepedu.base.errors import EngineError
from deepedu.engine.events import Finished, FinishReason, FirstToken, GenerationEvent, Sampling, TextDelta
from deepedu.engine.prompt import Prompt
from deepedu.engine.runner import Runner, Running
from deepedu.engine.text_stream import Detokenizer, StopFilter

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


class Generation:
    """One request on its way: its prompt in pieces, then token by token.

    Driven from outside: ``begin`` until it returns true, ``prefill`` while ``prefilling``, then for every new token
    the logits go to ``accept``. Each returns the events it caused; ``Finished`` is the last. ``end`` gives the memory
    back, however it went.
    """

    def __init__(self, runner: Runner, prompt: Prompt, sampling: Sampling) -> None:
        assert prompt.ids, "an empty prompt is refused before it gets here"
        # One token at least is left to compute: its logits are wanted.
        if prompt.shared_tokens == len(prompt.ids):
            prompt = replace(prompt, shared_tokens=prompt.shared_tokens - 1)
        self.runner, self.prompt, self.sampling = runner, prompt, sampling
        self.running: Running | None = None
        self.finished = False
        self.token_id = -1
        self._chooser = _Chooser(sampling)
        self._detokenizer = Detokenizer(runner.loaded.tokenizer)
        self._stop_filter = StopFilter(sampling.stop)
        self._count = 0
        self._prefilled = False
        self._keep = True
        self._started = self._first_at = self._last_at = time.perf_counter()

    @property
    def prefilling(self) -> bool:
        """Whether some of the prompt is still to be computed."""
        return not self._prefilled

    def begin(self) -> bool:
        """Takes the prompt into the cache; false while there is no memory for it."""
        self._started = time.perf_counter()
        with self._memory_errors():
            self.running = self.runner.begin(self.prompt, self.sampling.max_tokens)
        return self.running is not None

    def prefill(self, limit_tokens: int) -> list[GenerationEvent]:
        """Computes at most ``limit_tokens`` more of the prompt."""
        assert self.running is not None, "begin comes first"
        with self._memory_errors():
            logits = self.runner.prefill(self.running, limit_tokens)
        if logits is None:
            return []
        self._prefilled = True
        return self.accept(logits)

    def accept(self, logits: "torch.Tensor") -> list[GenerationEvent]:
        """Chooses the next token from the logits after the last one, float32 [vocabulary]."""
        events: list[GenerationEvent] = []
        try:
            self.token_id = self._chooser.choose(logits)
        except EngineError:
            # Rows that led to no numbers must not serve the next prompt.
            self._keep = False
            raise
        self._count += 1
        self._last_at = time.perf_counter()
        if self._count == 1:
            self._first_at = self._last_at
            events.append(FirstToken(prefill_ms=(self._first_at - self._started) * 1000))
        if self.token_id in self.runner.loaded.end_ids:
            return [*events, *self._finish("stop")]
        if text := self._stop_filter.push(self._detokenizer.push(self.token_id)):
            events.append(TextDelta(text))
        if self._stop_filter.stopped:
            return [*events, *self._finish("stop")]
        if self._count >= self.sampling.max_tokens:
            return [*events, *self._finish("length")]
        return events

    def cancel(self) -> list[GenerationEvent]:
        """Ends it where it is."""
        return [] if self.finished else self._finish("cancelled")

    def end(self) -> None:
        """Gives the memory back; harmless when it has none."""
        running, self.running = self.running, None
        if running is not None:
            self.runner.end(running, keep=self._keep)

    def _finish(self, reason: FinishReason) -> list[GenerationEvent]:
        events: list[GenerationEvent] = []
        if reason != "cancelled" and not self._stop_filter.stopped:
            tail = self._stop_filter.push(self._detokenizer.flush())
            tail += "" if self._stop_filter.stopped else self._stop_filter.flush()
            reason = "stop" if self._stop_filter.stopped else reason
            if tail:
                events.append(TextDelta(tail))
        self.finished = True
        decode_s = self._last_at - self._first_at
        running = self.running
        events.append(
            Finished(
                reason=reason,
                prompt_tokens=len(self.prompt.ids),
                completion_tokens=self._count,
                prefill_ms=(self._first_at - self._started) * 1000,
                tokens_per_s=(self._count - 1) / decode_s if decode_s > 0 else 0.0,
                cached_tokens=0 if running is None else running.cached_tokens,
                cached_from=None if running is None else running.cached_from,
                tally=Tally() if running is None else running.total(),
            )
        )
        return events

    @contextmanager
    def _memory_errors(self) -> Iterator[None]:
        import torch

        try:
            yield
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            # On the CPU torch has no class of its own for it.
            if type(error) is RuntimeError and "allocate memory" not in str(error):
                raise
            if self.runner.loaded.device.type == "cuda":
                torch.cuda.empty_cache()
            raise EngineError(
                f"not enough memory for a prompt of {len(self.prompt.ids)} tokens: shorten it or lower "
                "engine.prefill_chunk_tokens"
            ) from error


def generate(
    runner: Runner,
    prompt: Prompt,
    sampling: Sampling,
    *,
    cancelled: Event | None = None,
    prefill_chunk_tokens: int = 8192,
) -> Iterator[GenerationEvent]:
    """Completes one prompt, nothing else running.

    Args:
        runner: model, method and cache.
        prompt: at least one token; prompt and ``max_tokens`` fit the window together.
        sampling: how to choose tokens.
        cancelled: looked at between prefill chunks and between tokens.
        prefill_chunk_tokens: prompt tokens computed at once; bounds the memory of the prefill.

    Returns:
        Text deltas, one ``FirstToken``, and ``Finished`` as the last event.

    Raises:
        EngineError: out of memory, or the model computed something that is no number.
    """
    generation = Generation(runner, prompt, sampling)
    if not generation.begin():
        raise EngineError(f"not enough memory for the rows of {len(prompt.ids)} tokens: raise engine.kv_memory_gb")
    try:
        while not generation.finished:
            if cancelled is not None and cancelled.is_set():
                yield from generation.cancel()
            elif generation.prefilling:
                yield from generation.prefill(prefill_chunk_tokens)
            else:
                assert generation.running is not None
                logits = runner.decode([generation.running], [generation.token_id])
                yield from generation.accept(logits[0])
    finally:
        generation.end()


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
