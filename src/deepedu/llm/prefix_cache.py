"""The prefix cache of our engine over the wire: what it holds of a prompt, warming it, forgetting it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from deepedu.base.errors import LLMError, LLMUnreachable, Unsupported
from deepedu.llm.chat import Message
from deepedu.llm.client import ChatClient, wire_message

# What servers answer that know no such path.
_NOT_THERE = (404, 405, 501)


@dataclass(frozen=True)
class PrefixState:
    """What the cache holds of the shared beginning of a prompt. ``cached_from`` is ``"memory"`` or ``"disk"``."""

    shared_tokens: int
    cached_tokens: int
    cached_from: str | None
    is_warm: bool


@dataclass(frozen=True)
class WarmProgress:
    """``done_tokens`` of ``total_tokens`` are computed. The last one tells where they are kept, ``"disk"`` or
    ``"memory"``, and in how many bytes."""

    done_tokens: int
    total_tokens: int
    stored: str | None = None
    stored_bytes: int | None = None


@dataclass(frozen=True)
class Forgotten:
    """What was deleted."""

    files: int
    bytes: int


class PrefixCache(Protocol):
    """A cache of shared beginnings of prompts."""

    async def lookup(self, messages: Sequence[Message], *, timeout_s: float = 10.0) -> PrefixState | None:
        """What is held of these messages' shared beginning; None where there is no such cache.

        Raises:
            LLMError: the endpoint did not answer, or not as expected.
        """
        ...

    def warm(self, messages: Sequence[Message]) -> AsyncGenerator[WarmProgress, None]:
        """Computes the shared beginning and keeps it, after the requests of people. Closing the iterator stops it;
        what was computed until then is kept and need not be computed again.

        Raises:
            Unsupported: there is no such cache.
            LLMError: the endpoint failed; its message says why.
        """
        ...

    async def forget(self, tag: str) -> Forgotten | None:
        """Deletes everything of this tag; None where there is no such cache.

        Raises:
            LLMError: the endpoint did not answer, or not as expected.
        """
        ...


class PrefixCacheClient:
    """The cache behind one endpoint. An endpoint that is not ours has none and is not even asked."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client

    async def lookup(self, messages: Sequence[Message], *, timeout_s: float = 10.0) -> PrefixState | None:
        """See ``PrefixCache.lookup``."""
        body = await self._body(messages)
        answer = None if body is None else await self._post("cache/lookup", body, timeout_s)
        if answer is None:
            return None
        try:
            shared, cached = int(answer["shared_tokens"]), int(answer["cached_tokens"])
            return PrefixState(shared, cached, answer.get("cached_from"), bool(answer.get("warm", cached >= shared)))
        except (KeyError, TypeError, ValueError) as error:
            raise self._strange("cache/lookup", answer) from error

    async def warm(self, messages: Sequence[Message]) -> AsyncGenerator[WarmProgress, None]:
        """See ``PrefixCache.warm``."""
        body = await self._body(messages)
        if body is None:
            raise self._none_here()
        last: WarmProgress | None = None
        async with self._client.open_events("cache/warm", body) as source:
            status = source.response.status_code
            if status in _NOT_THERE:
                raise self._none_here()
            if status != 200:
                raise self._client.refusal(status, await source.response.aread(), source.response.headers)
            async with aclosing(source.aiter_sse()) as events:
                async for event in events:
                    if event.data == "[DONE]":
                        break
                    last = self._progress(self._client.chunk(event.data))
                    yield last
        if last is None or last.stored is None:
            raise LLMUnreachable(f"{self._client.url} broke off before the end; what was computed is kept there")

    async def forget(self, tag: str) -> Forgotten | None:
        """See ``PrefixCache.forget``."""
        if not await self._client.is_ours():
            return None
        answer = await self._post("cache/forget", {"tag": tag}, 30.0)
        if answer is None:
            return None
        try:
            return Forgotten(int(answer["files"]), int(answer["bytes"]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._strange("cache/forget", answer) from error

    async def _body(self, messages: Sequence[Message]) -> dict[str, Any] | None:
        if not await self._client.is_ours():
            return None
        wire = [wire_message(message, marked=True) for message in messages]
        return {"model": await self._client.model(), "messages": wire}

    async def _post(self, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        response = await self._client.request("POST", path, body, timeout_s=timeout_s)
        if response.status_code in _NOT_THERE:
            return None
        if response.status_code != 200:
            raise self._client.refusal(response.status_code, response.content, response.headers)
        try:
            answer = response.json()
        except ValueError as error:
            raise self._strange(path, response.text) from error
        if not isinstance(answer, dict):
            raise self._strange(path, answer)
        return answer

    def _progress(self, told: dict[str, Any]) -> WarmProgress:
        try:
            size = told.get("bytes")
            return WarmProgress(
                int(told["done_tokens"]),
                int(told["total_tokens"]),
                told.get("stored"),
                None if size is None else int(size),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._strange("cache/warm", told) from error

    def _none_here(self) -> Unsupported:
        return Unsupported(
            f"máy chủ mô hình ở {self._client.url} không có bộ nhớ đệm bài học; hãy dùng máy chủ của DeepEdu "
            "(deepedu serve hoặc deepedu engine serve), bản mới nhất"
        )

    def _strange(self, path: str, answer: object) -> LLMError:
        return LLMError(f"{self._client.url}{path}: expected the prefix cache's answer, came {str(answer)[:200]!r}")
