"""One completion as the event loop sees it: submitted, read event by event, given up when its client leaves."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from deepedu.base.errors import EngineDraining, EngineError
from deepedu.engine.engine import Engine
from deepedu.engine.events import Finished, FirstToken, Sampling, TextDelta
from deepedu.engine.metrics import Metrics, Outcome
from deepedu.engine.prompt import Prompt
from deepedu.engine.scheduler import Ended, Failed, Job


@dataclass(frozen=True)
class Usage:
    """What a completion took. ``ttft_ms`` counts from acceptance and includes ``queue_ms``."""

    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    ttft_ms: float
    queue_ms: float
    prefill_ms: float
    tokens_per_s: float
    cached_tokens: int
    engine: Mapping[str, Any]

    def usage(self, *, details: bool = False) -> dict[str, Any]:
        """OpenAI's usage object; with ``details`` what the attention method did."""
        usage = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }
        return usage | {"engine": dict(self.engine)} if details else usage

    def timings(self) -> dict[str, float]:
        """Our own addition to a response."""
        return {
            "ttft_ms": round(self.ttft_ms, 1),
            "queue_ms": round(self.queue_ms, 1),
            "prefill_ms": round(self.prefill_ms, 1),
            "tokens_per_s": round(self.tokens_per_s, 2),
        }


class Completion:
    """Submits on creation, so that a full queue is refused before a response begins.

    Raises:
        EngineLoading, EngineBusy, EngineDraining: it was not queued.
    """

    def __init__(self, engine: Engine, metrics: Metrics, endpoint: str, prompt: Prompt, sampling: Sampling) -> None:
        self.id = ("chatcmpl-" if endpoint == "chat" else "cmpl-") + uuid.uuid4().hex
        self.created = int(time.time())
        self._engine, self._metrics, self._endpoint = engine, metrics, endpoint
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._outcome: Outcome = "cancelled"
        loop = asyncio.get_running_loop()

        def sink(event: Any) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, event)

        self._job: Job = engine.submit(prompt, sampling, sink)

    async def events(self) -> AsyncIterator[str | Usage]:
        """Text deltas, then ``Usage``.

        Raises:
            DeepEduError: the completion failed.
        """
        ttft_ms, finished = 0.0, None
        while True:
            event = await self._events.get()
            if isinstance(event, TextDelta):
                yield event.text
            elif isinstance(event, FirstToken):
                ttft_ms = self._age_ms()
            elif isinstance(event, Finished):
                finished = event
            elif isinstance(event, Failed):
                self._outcome = "failed"
                raise event.error
            elif isinstance(event, Ended):
                yield self._ended(event, finished, ttft_ms)
                return

    def close(self) -> None:
        """Called once, however the response ended; frees the place when the computation goes on."""
        self._engine.cancel(self._job)
        self._metrics.count(self._endpoint, self._outcome)

    def _ended(self, event: Ended, finished: Finished | None, ttft_ms: float) -> Usage:
        if event.cancelled or finished is None:
            if self._engine.status == "draining":
                self._outcome = "unavailable"
                raise EngineDraining("the server shut down before the answer was complete: ask again later")
            raise EngineError("the completion was cancelled")
        self._outcome = "ok"
        self._metrics.served(finished.prompt_tokens, finished.completion_tokens, ttft_ms / 1000, self._age_ms() / 1000)
        self._metrics.attended(finished.tally, finished.cached_tokens)
        return Usage(
            finish_reason=finished.reason,
            prompt_tokens=finished.prompt_tokens,
            completion_tokens=finished.completion_tokens,
            ttft_ms=ttft_ms,
            queue_ms=self._job.queue_ms,
            prefill_ms=finished.prefill_ms,
            tokens_per_s=finished.tokens_per_s,
            cached_tokens=finished.cached_tokens,
            engine={
                "method": self._engine.settings.method,
                "cached_from": finished.cached_from,
                "retrieval_calls": finished.tally.retrieval_calls,
                "mean_cluster_blocks": round(finished.tally.mean_cluster_blocks, 2),
                "rows_read": finished.tally.rows_read,
                "selection_cache_hits": finished.tally.cache_hits,
            },
        )

    def _age_ms(self) -> float:
        return (time.perf_counter() - self._job.submitted_at) * 1000
