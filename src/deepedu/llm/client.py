"""Client of any OpenAI-compatible chat endpoint: our engine, vLLM, llama.cpp's server, Ollama."""

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
from httpx_sse import EventSource, SSEError, aconnect_sse

from deepedu.base.config import LLMSettings
from deepedu.base.errors import (
    ConfigError,
    ContextLengthExceeded,
    LLMBusy,
    LLMError,
    LLMTimeout,
    LLMUnreachable,
)
from deepedu.llm.chat import Delta, Finished, Message

log = logging.getLogger(__name__)

# A server that asks for a longer pause than this is as good as down to somebody who waits for an answer.
LONGEST_PAUSE_S = 20.0
# How our engine signs the models it lists; only it is sent what is not OpenAI's own.
OUR_SIGN = "deepedu"


class ChatClient:
    """Asks one endpoint. Use as an async context manager, or call ``close``."""

    def __init__(self, settings: LLMSettings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        if not settings.url:
            raise ConfigError(
                "llm.url: expected the base URL of an OpenAI-compatible endpoint, came none; give --llm URL"
            )
        self.settings = settings
        self.url = _base_url(settings.url)
        key = os.environ.get("DEEPEDU_LLM_API_KEY")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(None, connect=settings.connect_timeout_s),
            transport=transport,
            # A school's proxy settings must not carry pupils' words to another machine.
            trust_env=False,
        )
        self._model = settings.model
        self._is_ours: bool | None = None
        # An engine of ours from before there were details refuses the wish for them.
        self._tells_details = True

    async def __aenter__(self) -> "ChatClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def models(self) -> list[str]:
        """Names the endpoint serves.

        Raises:
            LLMError: it cannot be reached or does not speak the protocol.
        """
        response = await self.request("GET", "models", timeout_s=self.settings.connect_timeout_s * 2)
        if response.status_code != 200:
            raise self.refusal(response.status_code, response.content, response.headers)
        try:
            entries = response.json()["data"]
            self._is_ours = any(entry.get("owned_by") == OUR_SIGN for entry in entries)
            return [str(entry["id"]) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LLMError(f"{self.url}models: expected an OpenAI model list, came {response.text[:200]!r}") from error

    async def is_ours(self) -> bool:
        """Whether our engine serves this endpoint: it alone knows the prefix cache and what goes with it. False as
        long as nobody answers."""
        if self._is_ours is None:
            try:
                await self.models()
            except LLMError as error:
                log.debug("cannot tell whose endpoint this is: %s", error)
        return bool(self._is_ours)

    async def model(self) -> str:
        """The model to ask: the one named in the settings, else the first the endpoint lists."""
        if self._model is None:
            names = await self.models()
            if not names:
                raise LLMError(f"{self.url} serves no model; load one there, or name one with --llm-model")
            self._model = names[0]
        return self._model

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``. Greedy. Sent again only while nothing of the reply has come.

        Marks of shared text, the owner and the wish for details go to our own engine only: a strict server refuses
        what it does not know, and no other has a use for them.
        """
        is_marked = owner is not None or any(message.is_shared for message in messages)
        is_ours = is_marked and await self.is_ours()
        body: dict[str, Any] = {
            "model": await self.model(),
            "messages": [wire_message(message, marked=is_ours) for message in messages],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if is_ours:
            body |= {"user": owner} if owner is not None else {}
            body |= {"usage_details": True} if self._tells_details else {}
        attempt = 0
        while True:
            started = False
            try:
                async with aclosing(self._attempt(body)) as events:
                    async for event in events:
                        started = True
                        yield event
                return
            except LLMError as error:
                if error.status == 400 and "usage_details" in str(error) and body.pop("usage_details", None):
                    self._tells_details = False
                    continue
                pause_s = _pause_s(error, attempt)
                if started or not error.retryable or attempt == self.settings.retries or pause_s > LONGEST_PAUSE_S:
                    raise
                attempt += 1
                log.info("model endpoint: %s; asking again in %.1f s", error, pause_s)
                await asyncio.sleep(pause_s)

    async def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float
    ) -> httpx.Response:
        """One plain request; whatever its status, the response is returned.

        Raises:
            LLMTimeout, LLMUnreachable: no response.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._http.request(method, path, json=body)
        except TimeoutError as error:
            raise LLMTimeout(f"{self.url}{path} did not answer in time; is the model server overloaded?") from error
        except httpx.HTTPError as error:
            raise self.unreachable(error) from error

    @asynccontextmanager
    async def open_events(self, path: str, body: dict[str, Any]) -> AsyncIterator[EventSource]:
        """A request whose response is an event stream; its status is for the caller to judge, and limits of time too.

        Raises:
            LLMError: no response, or one that broke.
        """
        try:
            async with aconnect_sse(self._http, "POST", path, json=body) as source:
                yield source
        except SSEError as error:
            raise LLMError(f"{self.url}{path}: expected an event stream: {error}") from error
        except httpx.HTTPError as error:
            raise self.unreachable(error) from error

    async def _attempt(self, body: dict[str, Any]) -> AsyncGenerator[Delta | Finished, None]:
        reply = _Reply(body["model"])
        try:
            async with asyncio.timeout(self.settings.first_token_timeout_s) as limit:
                async with self.open_events("chat/completions", body) as source:
                    if source.response.status_code != 200:
                        content = await source.response.aread()
                        raise self.refusal(source.response.status_code, content, source.response.headers)
                    async for event in source.aiter_sse():
                        if event.data == "[DONE]":
                            break
                        text = reply.take(self.chunk(event.data))
                        if text:
                            # The limit must not run while the consumer of this generator is at work.
                            limit.reschedule(None)
                            yield Delta(text)
                            limit.reschedule(asyncio.get_running_loop().time() + self.settings.token_timeout_s)
        except TimeoutError as error:
            waited = self.settings.token_timeout_s if reply.first_token_at else self.settings.first_token_timeout_s
            raise LLMTimeout(f"no token from {self.url} within {waited:g} s; is the model too large for it?") from error
        if reply.finish_reason is None:
            raise LLMUnreachable(f"{self.url} broke the reply off before its end", retryable=True)
        yield reply.finished()

    def chunk(self, data: str) -> dict[str, Any]:
        """One event of a stream. Raises: LLMError: not a JSON object, or one that tells an error."""
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise LLMError(f"{self.url}: expected JSON in the stream, came {data[:200]!r}") from error
        if not isinstance(chunk, dict):
            raise LLMError(f"{self.url}: expected a JSON object in the stream, came {data[:200]!r}")
        if "error" in chunk:
            told = chunk["error"] if isinstance(chunk["error"], dict) else {}
            raise self.refusal(int(told.get("status", 500)), data.encode(), httpx.Headers())
        return chunk

    def unreachable(self, error: httpx.HTTPError) -> LLMUnreachable:
        """A failed connection as an error of ours."""
        return LLMUnreachable(
            f"cannot reach the model at {self.url} ({type(error).__name__}: {error}); is it running? "
            "'deepedu engine serve' starts ours, --llm URL names another",
            # A connection that never opened carried no request, so it may be tried again.
            retryable=isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
        )

    def refusal(self, status: int, content: bytes, headers: httpx.Headers) -> LLMError:
        """An answer other than 200 as an error of ours."""
        text = content.decode("utf-8", "replace")
        try:
            details = json.loads(text)["error"]
            details = details if isinstance(details, dict) else {"message": str(details)}
        except (ValueError, KeyError, TypeError):
            details = {"message": text[:300]}
        message = str(details.get("message") or text[:300])
        if status == 400 and _is_too_long(details, message):
            prompt_tokens, window_tokens = _two_numbers(details, message)
            return ContextLengthExceeded(
                message, prompt_tokens=prompt_tokens, window_tokens=window_tokens, status=status
            )
        if status in (429, 503):
            return LLMBusy(f"the model is busy: {message}", retry_after_s=_retry_after_s(headers), status=status)
        return LLMError(f"{self.url} answered {status}: {message}", retryable=False, status=status)


class _Reply:
    """Gathers what a stream tells besides its text."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.begin = time.perf_counter()
        self.first_token_at: float | None = None
        self.last_token_at = self.begin
        self.pieces = 0
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> str:
        self.usage = chunk.get("usage") or self.usage
        self.model = chunk.get("model") or self.model
        text = ""
        for choice in chunk.get("choices") or []:
            text += (choice.get("delta") or {}).get("content") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if text:
            self.last_token_at = time.perf_counter()
            self.first_token_at = self.first_token_at or self.last_token_at
            self.pieces += 1
        return text

    def finished(self) -> Finished:
        completion_tokens = self.usage.get("completion_tokens")
        first_ms = speed = None
        if self.first_token_at is not None:
            first_ms = (self.first_token_at - self.begin) * 1000
            spent_s = self.last_token_at - self.first_token_at
            counted = completion_tokens or self.pieces
            speed = (counted - 1) / spent_s if counted > 1 and spent_s > 0 else None
        details = self.usage.get("prompt_tokens_details") or {}
        return Finished(
            self.finish_reason,
            self.model,
            self.usage.get("prompt_tokens"),
            completion_tokens,
            first_ms,
            speed,
            details.get("cached_tokens"),
            (self.usage.get("engine") or {}).get("cached_from"),
        )


def wire_message(message: Message, *, marked: bool) -> dict[str, Any]:
    """A message as the wire has it; with ``marked`` shared parts carry their mark, else all is one string."""
    if isinstance(message.content, str) or not (marked and message.is_shared):
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = []
    for part in message.content:
        mark = {"type": "shared"} | ({"tag": part.tag} if part.tag else {})
        parts.append({"type": "text", "text": part.text} | ({"cache_control": mark} if part.shared else {}))
    return {"role": message.role, "content": parts}


def _base_url(url: str) -> str:
    """With the ``/v1`` that people leave out, and a slash at the end."""
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"llm.url: expected something like http://127.0.0.1:8399/v1, came {url!r}")
    path = parsed.path.rstrip("/")
    return str(parsed.copy_with(path=(path or "/v1") + "/"))


def _pause_s(error: LLMError, attempt: int) -> float:
    if isinstance(error, LLMBusy) and error.retry_after_s is not None:
        return error.retry_after_s
    return 0.5 * 2**attempt


def _retry_after_s(headers: httpx.Headers) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None


def _is_too_long(details: dict[str, Any], message: str) -> bool:
    # OpenAI, vLLM and ours by code; llama.cpp by type; older vLLM by words only.
    if details.get("code") == "context_length_exceeded" or details.get("type") == "exceed_context_size_error":
        return True
    return "maximum context length" in message.lower()


def _two_numbers(details: dict[str, Any], message: str) -> tuple[int | None, int | None]:
    """``(prompt_tokens, window_tokens)`` from named fields, else from the words: the window is the smaller number."""
    prompt, window = details.get("prompt_tokens"), details.get("window_tokens")
    if details.get("type") == "exceed_context_size_error":
        prompt, window = details.get("n_prompt_tokens"), details.get("n_ctx")
    if isinstance(prompt, int) and isinstance(window, int):
        return prompt, window
    numbers = sorted({int(number) for number in re.findall(r"\d{2,}", message)})
    return (numbers[-1], numbers[0]) if len(numbers) >= 2 else (None, None)
