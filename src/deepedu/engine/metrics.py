"""What ``/metrics`` tells, in Prometheus' text format."""

from collections.abc import Callable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from deepedu.attention.tally import Tally

Outcome = Literal["ok", "refused", "busy", "unavailable", "cancelled", "failed"]

# A school's CPU takes minutes where a GPU takes a second.
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self, waiting: Callable[[], float], running: Callable[[], float], method: str) -> None:
        self.registry = CollectorRegistry()
        Info("deepedu_engine_attention", "The attention method", registry=self.registry).info({"method": method})
        self._requests = Counter(
            "deepedu_engine_requests",
            "Requests by endpoint and outcome",
            ["endpoint", "outcome"],
            registry=self.registry,
        )
        self._prompt = Counter(
            "deepedu_engine_prompt_tokens", "Prompt tokens of served requests", registry=self.registry
        )
        self._completion = Counter(
            "deepedu_engine_completion_tokens", "Completion tokens of served requests", registry=self.registry
        )
        self._ttft = Histogram(
            "deepedu_engine_time_to_first_token_seconds",
            "From acceptance to first token, waiting included",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._duration = Histogram(
            "deepedu_engine_request_duration_seconds",
            "From acceptance to the end",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._cached = Counter(
            "deepedu_engine_cached_prompt_tokens", "Prompt tokens found in the cache", registry=self.registry
        )
        self._retrievals = Counter(
            "deepedu_engine_retrieval_calls", "Passes over cached keys to choose rows", registry=self.registry
        )
        self._blocks = Counter(
            "deepedu_engine_retrieved_blocks",
            "Query blocks those passes served; over retrieval calls it is the mean cluster",
            registry=self.registry,
        )
        self._rows = Counter("deepedu_engine_rows_read", "Cached rows that were attended", registry=self.registry)
        self._hits = Counter(
            "deepedu_engine_selection_cache_hits", "Decode steps that reused a choice", registry=self.registry
        )
        Gauge("deepedu_engine_queue_length", "Requests that wait", registry=self.registry).set_function(waiting)
        Gauge("deepedu_engine_running", "Requests being computed", registry=self.registry).set_function(running)

    def count(self, endpoint: str, outcome: Outcome) -> None:
        """One more request has ended so."""
        self._requests.labels(endpoint, outcome).inc()

    def served(self, prompt_tokens: int, completion_tokens: int, ttft_s: float, duration_s: float) -> None:
        """Sizes and times of a request that was computed."""
        self._prompt.inc(prompt_tokens)
        self._completion.inc(completion_tokens)
        self._ttft.observe(ttft_s)
        self._duration.observe(duration_s)

    def attended(self, tally: Tally, cached_tokens: int) -> None:
        """What the attention method did for a request, and what the cache saved it."""
        self._cached.inc(cached_tokens)
        self._retrievals.inc(tally.retrieval_calls)
        self._blocks.inc(tally.blocks)
        self._rows.inc(tally.rows_read)
        self._hits.inc(tally.cache_hits)

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self.registry)
