"""The chat client against every kind of answer an endpoint can give."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

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
from deepedu.llm.client import ChatClient

ASK = [Message("user", "Nước sôi ở bao nhiêu độ?")]


def sse(*chunks: dict[str, Any] | str) -> bytes:
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def piece(text: str | None = None, finish: str | None = None) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {"model": "m", "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}
GOOD = sse(piece("Nước "), piece("sôi"), piece(None, "stop"), USAGE, "[DONE]")


def stream_response(content: bytes | AsyncIterator[bytes]) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)


def client(handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> ChatClient:
    settings = {"url": "http://model.test", "model": "m"} | settings
    return ChatClient(LLMSettings(**settings), transport=httpx.MockTransport(handler))


async def collect(chat: ChatClient) -> tuple[str, Finished]:
    async with chat:
        events = [event async for event in chat.stream(ASK, max_tokens=5)]
    *deltas, end = events
    assert isinstance(end, Finished)
    return "".join(d.text for d in deltas if isinstance(d, Delta)), end


def run(chat: ChatClient) -> tuple[str, Finished]:
    return asyncio.run(collect(chat))


def test_streams_text_usage_and_finish() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return stream_response(GOOD)

    text, end = run(client(handler))
    assert text == "Nước sôi"
    assert (end.finish_reason, end.model, end.prompt_tokens, end.completion_tokens) == ("stop", "m", 12, 3)
    assert end.first_token_ms is not None
    assert str(seen[0].url) == "http://model.test/v1/chat/completions"
    body = json.loads(seen[0].content)
    assert body["temperature"] == 0
    assert body["max_tokens"] == 5


@pytest.mark.parametrize("given", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_base_url_forms(given: str) -> None:
    assert client(lambda _: httpx.Response(200), url=given).url == "http://h:1/v1/"


@pytest.mark.parametrize("given", ["", "localhost:8000", "ftp://h"])
def test_bad_url_is_a_config_error(given: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.url"):
        client(lambda _: httpx.Response(200), url=given)


def test_first_listed_model_is_asked_when_none_is_named() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [{"id": "first"}, {"id": "second"}]})
        assert json.loads(request.content)["model"] == "first"
        return stream_response(GOOD)

    assert run(client(handler, model=None))[0] == "Nước sôi"


def test_no_model_served_says_what_to_do() -> None:
    with pytest.raises(LLMError, match="--llm-model"):
        run(client(lambda _: httpx.Response(200, json={"data": []}), model=None))


def test_busy_server_is_asked_again_after_its_pause() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        if len(calls) == 1:
            return httpx.Response(429, headers={"Retry-After": "0"}, json={"error": {"message": "queue full"}})
        return stream_response(GOOD)

    assert run(client(handler))[0] == "Nước sôi"
    assert len(calls) == 2


def test_long_pause_is_not_waited_for() -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={"Retry-After": "900"}, json={"error": {"message": "queue full"}})

    with pytest.raises(LLMBusy) as caught:
        run(client(handler))
    assert caught.value.retry_after_s == 900


def test_broken_reply_is_not_asked_again_once_text_came() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        return stream_response(sse(piece("Nước ")))

    with pytest.raises(LLMUnreachable, match="broke"):
        run(client(handler))
    assert len(calls) == 1


def test_refused_connection_is_tried_again_then_reported() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        raise httpx.ConnectError("refused")

    with pytest.raises(LLMUnreachable, match="--llm URL"):
        run(client(handler, retries=1))
    assert len(calls) == 2


def test_lost_connection_after_sending_is_not_tried_again() -> None:
    calls: list[int] = []

    def handler(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        raise httpx.ReadError("reset")

    with pytest.raises(LLMUnreachable):
        run(client(handler))
    assert len(calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "prompt has 40000 tokens, the window is 32768"},
        {"message": "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens."},
        {"type": "exceed_context_size_error", "message": "too large", "n_prompt_tokens": 40000, "n_ctx": 32768},
    ],
)
def test_too_long_prompt_of_each_server_carries_both_numbers(error: dict[str, Any]) -> None:
    with pytest.raises(ContextLengthExceeded) as caught:
        run(client(lambda _: httpx.Response(400, json={"error": error})))
    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (40000, 32768)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500, text="<html>boom</html>"),
        httpx.Response(404, json={"error": "model not found"}),
        httpx.Response(200, json={"not": "a stream"}),
        stream_response(b"data: {broken\n\n"),
        stream_response(b"data: [1, 2]\n\n"),
        stream_response(sse({"error": {"message": "out of memory"}})),
    ],
)
def test_no_foreign_error_escapes(response: httpx.Response) -> None:
    with pytest.raises(LLMError) as caught:
        run(client(lambda _: response))
    assert not caught.value.retryable


def test_silence_before_the_first_token_times_out() -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(30)
        yield b""

    with pytest.raises(LLMTimeout, match=r"0\.1 s"):
        run(client(lambda _: stream_response(never()), first_token_timeout_s=0.1))


def test_silence_between_tokens_times_out_but_a_slow_reader_does_not() -> None:
    async def stalls() -> AsyncIterator[bytes]:
        yield sse(piece("Nước "))
        await asyncio.sleep(30)
        yield GOOD

    with pytest.raises(LLMTimeout):
        run(client(lambda _: stream_response(stalls()), token_timeout_s=0.1))

    async def slow_reader() -> str:
        text = ""
        async with client(lambda _: stream_response(GOOD), token_timeout_s=0.1) as chat:
            async for event in chat.stream(ASK, max_tokens=5):
                await asyncio.sleep(0.2)
                text += event.text if isinstance(event, Delta) else ""
        return text

    assert asyncio.run(slow_reader()) == "Nước sôi"


def test_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEDU_LLM_API_KEY", "secret")

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer secret"
        return stream_response(GOOD)

    run(client(handler))
