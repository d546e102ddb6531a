"""A running server that is measured: one streamed request over HTTP, and the CPU time that it spends."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from deepedu.base.errors import EngineError

REPLY_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Streamed:
    """One streamed reply: seconds to its first token, and seconds for each token after it (0 where there is none)."""

    first_token_s: float
    token_s: float
    tokens: int
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class Peer:
    """A running server. ``version`` is that of the package that brought it, ``pid`` its first process."""

    name: str
    version: str
    url: str
    model: str | None = None
    pid: int | None = None

    def cpu_s(self) -> float:
        """CPU seconds that the server's processes have spent, all together."""
        import psutil

        first = psutil.Process(self.pid)
        spent = 0.0
        for process in (first, *first.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                spent += times.user + times.system
        return spent

    def complete(
        self, ids: Sequence[int], tokens: int, *, reuse: bool = False, limit_s: float = REPLY_LIMIT_S
    ) -> Streamed:
        """Streams ``tokens`` tokens after the prompt ``ids``, greedily, not stopping at an end token.

        Args:
            ids: the prompt as token ids.
            tokens: how many to generate.
            reuse: the server may keep and use what it computed of this prompt before.
            limit_s: the longest a reply may take.

        Raises:
            EngineError: the server refused, broke off, sent nothing, or took longer.
        """
        body: dict[str, Any] = {
            "prompt": list(ids),
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        # Our own server always ends at an end token: fewer may come of it.
        if self.name != "own":
            body["ignore_eos"] = True
        if self.model is not None:
            body["model"] = self.model
        if self.name == "llamacpp":
            body["cache_prompt"] = reuse
        try:
            return self._stream(body, limit_s, reuse)
        except httpx.HTTPError as error:
            raise EngineError(f"{self.name} did not answer: {type(error).__name__} {error}") from error

    def _stream(self, body: dict[str, Any], limit_s: float, reuse: bool) -> Streamed:
        first = last = 0.0
        pieces = 0
        usage: dict[str, Any] = {}
        # No proxy of the environment may stand between us and loopback.
        with httpx.Client(trust_env=False, timeout=httpx.Timeout(limit_s, connect=10)) as client:
            began = time.perf_counter()
            with client.stream("POST", f"{self.url}/v1/completions", json=body) as response:
                if response.status_code != 200:
                    raise EngineError(f"{self.name} answered {response.status_code}: {response.read()[:300]!r}")
                for line in response.iter_lines():
                    now = time.perf_counter()
                    if now - began > limit_s:
                        raise EngineError(f"{self.name} took more than {limit_s:.0f} s for one reply")
                    event = _event(self.name, line)
                    if event is None:
                        continue
                    usage = event.get("usage") or usage
                    # The last event of llama.cpp holds no text, only why it stopped.
                    if any(
                        choice.get("text") or not choice.get("finish_reason") for choice in event.get("choices", ())
                    ):
                        first, last, pieces = first or now, now, pieces + 1
        if not pieces:
            raise EngineError(f"{self.name} sent no token")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        if cached and not reuse:
            raise EngineError(f"{self.name} had {cached} tokens of the prompt already, which are not to be used")
        count = int(usage.get("completion_tokens") or pieces)
        return Streamed(
            first - began, (last - first) / (count - 1) if count > 1 else 0.0, count, usage.get("prompt_tokens")
        )


def _event(name: str, line: str) -> dict[str, Any] | None:
    kind, _, data = line.partition(":")
    if kind == "error":
        raise EngineError(f"{name} reported {data.strip()[:300]!r}")
    if kind != "data" or data.strip() in ("", "[DONE]"):
        return None
    try:
        event = json.loads(data)
    except ValueError as error:
        raise EngineError(f"{name} sent an event that is no JSON: {data[:100]!r}") from error
    if not isinstance(event, dict) or "error" in event:
        raise EngineError(f"{name} reported {data.strip()[:300]!r}")
    return event
