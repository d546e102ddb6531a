"""``/v1/cache``: what is held of a shared prefix, computing it ahead of time, forgetting it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from deepedu.base.errors import DeepEduError, EngineDraining, RequestRefused
from deepedu.engine.chat_prompt import ChatMessage, ChatPart
from deepedu.engine.engine import Engine
from deepedu.engine.events import Warmed, WarmProgress
from deepedu.engine.openai_requests import CacheRequest, ForgetRequest, parse
from deepedu.engine.request_body import check_servable, error_object, read_body
from deepedu.engine.scheduler import Ended, Failed, Job


def add_cache_routes(app: FastAPI, engine: Engine) -> None:
    """Adds the routes; the engine may still be loading."""

    @app.post("/v1/cache/lookup")
    async def lookup(request: Request) -> Response:
        prompt = await _shared_prompt(engine, request)
        cached, source = await asyncio.to_thread(engine.look, prompt)
        return JSONResponse(
            {
                "shared_tokens": prompt.shared_tokens,
                "cached_tokens": cached,
                "cached_from": source,
                "warm": 0 < prompt.shared_tokens == cached,
            }
        )

    @app.post("/v1/cache/warm")
    async def warm(request: Request) -> Response:
        prompt = await _shared_prompt(engine, request)
        if not prompt.shared_tokens:
            raise RequestRefused(
                'nothing to warm: mark leading content parts with "cache_control": {"type": "shared"}', param="messages"
            )
        events: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def sink(event: Any) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        job = engine.warm(prompt, sink)
        lines = _lines(engine, events, prompt.shared_tokens)
        return _WarmStream(engine, job, lines)

    @app.post("/v1/cache/forget")
    async def forget(request: Request) -> Response:
        body = parse(ForgetRequest, await read_body(request)).body
        engine.loaded  # noqa: B018 - refuses while loading
        files, size = await asyncio.to_thread(engine.forget, body.tag)
        return JSONResponse({"files": files, "bytes": size})


async def _shared_prompt(engine: Engine, request: Request) -> Any:
    body = parse(CacheRequest, await read_body(request)).body
    check_servable(engine, body.model)
    messages = body.chat_messages()
    if messages[-1].role == "system":
        # Some templates put the rules into the question, and so show none without one.
        messages.append(ChatMessage("user", (ChatPart("?"),)))
    return await asyncio.to_thread(engine.encode_chat, messages)


class _WarmStream(StreamingResponse):
    """Server-sent events; ends the warming also when the client left before the first of them."""

    def __init__(self, engine: Engine, job: Job, lines: AsyncIterator[bytes]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"cache-control": "no-cache"})
        self._engine, self._job = engine, job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Harmless when it is over; when the client left, the rest is not computed.
            self._engine.cancel(self._job)


async def _lines(engine: Engine, events: asyncio.Queue[Any], total: int) -> AsyncIterator[bytes]:
    try:
        async with aclosing(_progress(engine, events, total)) as told:
            async for each in told:
                yield _line(each)
    except DeepEduError as error:
        yield _line({"error": error_object(error)})
    yield b"data: [DONE]\n\n"


async def _progress(engine: Engine, events: asyncio.Queue[Any], total: int) -> AsyncGenerator[dict[str, Any], None]:
    warmed: Warmed | None = None
    while True:
        event = await events.get()
        if isinstance(event, WarmProgress):
            yield {"done_tokens": event.done_tokens, "total_tokens": event.total_tokens}
        elif isinstance(event, Warmed):
            warmed = event
        elif isinstance(event, Failed):
            raise event.error
        elif isinstance(event, Ended):
            break
    if warmed is None:
        raise EngineDraining("warming stopped before its end; what was computed is kept: ask again later")
    failure = await asyncio.wrap_future(engine.store(warmed.segment))
    if failure is not None:
        raise failure
    segment = warmed.segment
    size = segment.rows * sum(block.row_bytes for block in segment.blocks)
    stored = "disk" if engine.runner.cache.writes_disk else "memory"
    yield {"done_tokens": total, "total_tokens": total, "stored": stored, "bytes": size}


def _line(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
