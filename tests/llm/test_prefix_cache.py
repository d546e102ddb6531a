"""The prefix cache over the wire, against a loopback engine and against servers that have none."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from deepedu.base.config import LLMSettings
from deepedu.base.errors import LLMBusy, LLMError, LLMUnreachable, Unsupported
from deepedu.llm.chat import Delta, Finished, Message, TextPart
from deepedu.llm.client import ChatClient
from deepedu.llm.prefix_cache import Forgotten, PrefixCacheClient, PrefixState, WarmProgress
from loopback_model import Endpoint

LESSON = (Message("system", (TextPart("quy tắc " * 300, shared=True, tag="book-1"),)), Message("user", "Câu hỏi:"))
OURS = {"data": [{"id": "m", "owned_by": "deepedu"}]}


def on(endpoint: Endpoint, use: Callable[[PrefixCacheClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with ChatClient(LLMSettings(url=endpoint.url)) as chat:
            return await use(PrefixCacheClient(chat))

    return asyncio.run(run())


async def warmed(cache: PrefixCacheClient) -> list[WarmProgress]:
    return [step async for step in cache.warm(LESSON)]


def test_lookup_warm_and_forget(endpoint: Endpoint) -> None:
    endpoint.is_ours = True

    async def use(cache: PrefixCacheClient) -> None:
        assert await cache.lookup(LESSON) == PrefixState(600, 0, None, False)
        steps = await warmed(cache)
        assert [step.done_tokens for step in steps] == [0, 100, 200, 300, 400, 500, 600]
        assert steps[-1] == WarmProgress(600, 600, "disk", 600_000)
        assert await cache.lookup(LESSON) == PrefixState(600, 600, "disk", True)
        assert await cache.forget("book-1") == Forgotten(1, 1000)
        assert await cache.lookup(LESSON) == PrefixState(600, 0, None, False)

    on(endpoint, use)


@pytest.mark.parametrize(("is_ours", "has_cache"), [(False, True), (True, False)])
def test_a_server_without_a_cache(endpoint: Endpoint, is_ours: bool, has_cache: bool) -> None:
    endpoint.is_ours, endpoint.has_cache = is_ours, has_cache

    async def use(cache: PrefixCacheClient) -> None:
        assert await cache.lookup(LESSON) is None
        assert await cache.forget("book-1") is None
        with pytest.raises(Unsupported, match="deepedu engine serve"):
            await warmed(cache)

    on(endpoint, use)


def test_leaving_stops_the_warming_and_what_is_done_is_kept(endpoint: Endpoint) -> None:
    endpoint.is_ours, endpoint.pause_s = True, 0.05

    async def leave(cache: PrefixCacheClient) -> None:
        steps = cache.warm(LESSON)
        async for step in steps:
            if step.done_tokens >= 200:
                break
        await steps.aclose()
        endpoint.pause_s = 0.0
        assert (await warmed(cache))[0].done_tokens >= 200

    on(endpoint, leave)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (httpx.Response(429, json={"error": {"message": "full"}}), LLMBusy),
        (httpx.Response(500, text="boom"), LLMError),
        (httpx.Response(200, json=[1]), LLMError),
        (httpx.Response(200, json={"strange": 1}), LLMError),
        (httpx.Response(200, text="<html>"), LLMError),
    ],
)
def test_no_foreign_error_escapes(response: httpx.Response, error: type[LLMError]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=OURS) if request.method == "GET" else response

    async def use() -> None:
        async with ChatClient(LLMSettings(url="http://m.test"), transport=httpx.MockTransport(handler)) as chat:
            cache = PrefixCacheClient(chat)
            for call in (cache.lookup(LESSON), cache.forget("book-1"), warmed(cache)):
                with pytest.raises(error):
                    await call

    asyncio.run(use())


@pytest.mark.parametrize(
    ("told", "error", "says"),
    [
        ({"error": {"message": "no space left on device", "code": "disk_full"}}, LLMError, "no space left"),
        ({"done_tokens": 1, "total_tokens": 2}, LLMUnreachable, "broke off"),
        ({"done": 1}, LLMError, "expected"),
    ],
)
def test_a_warming_that_fails_half_way_says_why(told: dict[str, Any], error: type[LLMError], says: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=OURS)
        stream = f"data: {json.dumps(told)}\n\n".encode()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    async def use() -> None:
        async with ChatClient(LLMSettings(url="http://m.test"), transport=httpx.MockTransport(handler)) as chat:
            with pytest.raises(error, match=says):
                await warmed(PrefixCacheClient(chat))

    asyncio.run(use())


def ask(endpoint: Endpoint, messages: tuple[Message, ...], owner: str | None = None) -> Finished:
    async def run() -> Finished:
        async with ChatClient(LLMSettings(url=endpoint.url, model="loopback-model")) as chat:
            *_, end = [event async for event in chat.stream(messages, max_tokens=5, owner=owner)]
        assert not isinstance(end, Delta)
        return end

    return asyncio.run(run())


def test_our_engine_is_told_what_is_shared_and_tells_what_it_saved(endpoint: Endpoint) -> None:
    endpoint.is_ours = True
    on(endpoint, warmed)
    end = ask(endpoint, LESSON, "c-1")
    assert (end.prompt_tokens, end.cached_tokens, end.cached_from) == (2310, 600, "disk")
    (body,) = endpoint.bodies
    (part,) = body["messages"][0]["content"]
    assert part["cache_control"] == {"type": "shared", "tag": "book-1"}
    assert body["messages"][1]["content"] == "Câu hỏi:"
    assert (body["user"], body["usage_details"]) == ("c-1", True)


def test_another_server_is_sent_only_what_it_knows(endpoint: Endpoint) -> None:
    end = ask(endpoint, LESSON, "c-1")
    (body,) = endpoint.bodies
    assert body["messages"][0] == {"role": "system", "content": LESSON[0].text}
    assert not body.keys() & {"user", "usage_details"}
    assert end.cached_tokens is None


def test_an_older_engine_of_ours_is_asked_without_details() -> None:
    bodies: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=OURS)
        bodies.append(json.loads(request.content))
        if "usage_details" in bodies[-1]:
            return httpx.Response(400, json={"error": {"message": "unknown parameter 'usage_details'"}})
        stream = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    async def use() -> None:
        settings = LLMSettings(url="http://m.test", retries=0)
        async with ChatClient(settings, transport=httpx.MockTransport(handler)) as chat:
            for _ in range(2):
                events = [event async for event in chat.stream(LESSON, max_tokens=5, owner="c-1")]
                assert events[0] == Delta("a")

    asyncio.run(use())
    assert ["usage_details" in body for body in bodies] == [True, False, False]
    assert {body["user"] for body in bodies} == {"c-1"}
