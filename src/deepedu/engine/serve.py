"""The OpenAI-compatible HTTP server around an engine."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from deepedu.base.errors import (
    DeepEduError,
    EngineBusy,
    EngineDraining,
    EngineError,
    EngineLoading,
    RequestRefused,
)
from deepedu.engine.cache_routes import add_cache_routes
from deepedu.engine.completion import Completion, Usage
from deepedu.engine.engine import Engine
from deepedu.engine.events import Sampling
from deepedu.engine.metrics import Metrics, Outcome
from deepedu.engine.openai_requests import ChatRequest, CompletionRequest, Parsed, parse
from deepedu.engine.prompt import Prompt
from deepedu.engine.request_body import check_model, check_servable, error_object, read_body, status_of

logger = logging.getLogger(__name__)

IGNORED_HEADER = "x-deepedu-ignored"
RETRY_WHILE_LOADING_S = 5


def create_app(engine: Engine) -> FastAPI:
    """The application; the engine may still be loading."""
    app = FastAPI(title="DeepEdu engine", docs_url=None, redoc_url=None, openapi_url=None)
    metrics = Metrics(lambda: engine.waiting, lambda: engine.running, engine.settings.method)
    app.state.metrics = metrics
    _add_status_routes(app, engine, metrics)
    _add_error_handlers(app)

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        with _Counted(metrics, "chat"):
            parsed = parse(ChatRequest, await read_body(request))
            check_servable(engine, parsed.body.model)
            messages = parsed.body.chat_messages()
            prompt = await asyncio.to_thread(engine.encode_chat, messages, parsed.body.user)
            completion = _submit(engine, metrics, "chat", parsed, prompt)
        return await _respond(engine, completion, parsed, request, _Chat())

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        with _Counted(metrics, "completions"):
            parsed = parse(CompletionRequest, await read_body(request))
            check_servable(engine, parsed.body.model)
            ids = await asyncio.to_thread(_prompt_ids, engine, parsed.body.prompt)
            completion = _submit(engine, metrics, "completions", parsed, Prompt(ids, owner=parsed.body.user))
        return await _respond(engine, completion, parsed, request, _Text())

    add_cache_routes(app, engine)
    return app


def _add_status_routes(app: FastAPI, engine: Engine, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> Response:
        status = engine.status
        body: dict[str, Any] = {"status": status, "model": engine.names[0]}
        if status == "loading" and (event := engine.last_progress) is not None:
            body["progress"] = {"stage": event.stage, "done": event.done, "total": event.total, "unit": event.unit}
        if status == "failed":
            body["error"] = str(engine.failure)
        if status == "ok":
            body |= {"window_tokens": engine.loaded.window_tokens, "waiting": engine.waiting, "running": engine.running}
        return JSONResponse(body, status_code=200 if status == "ok" else 503)

    @app.get("/metrics")
    async def show_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [_model(name) for name in engine.names]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        check_model(engine, name)
        return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "deepedu"}


def _prompt_ids(engine: Engine, prompt: str | list[str] | list[int]) -> list[int]:
    if isinstance(prompt, str):
        return engine.encode_text(prompt)
    if isinstance(prompt[0], str):
        return engine.encode_text(prompt[0])
    ids = [int(each) for each in prompt]
    size = engine.loaded.model.config.get_text_config().vocab_size
    if wrong := [each for each in ids if not 0 <= each < size]:
        raise RequestRefused(f"token id {wrong[0]} is not below the vocabulary's size {size}", param="prompt")
    return ids


def _submit(
    engine: Engine,
    metrics: Metrics,
    endpoint: str,
    parsed: Parsed[Any],
    prompt: Prompt,
) -> Completion:
    if not prompt.ids:
        raise RequestRefused("the prompt is empty", param="prompt" if endpoint == "completions" else "messages")
    body = parsed.body
    sampling = Sampling(
        max_tokens=engine.room_tokens(len(prompt.ids), body.completion_limit),
        temperature=body.temperature,
        top_p=body.top_p,
        seed=body.seed,
        stop=body.stops,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
    )
    return Completion(engine, metrics, endpoint, prompt, sampling)


class _Counted:
    """Counts a request that is refused before it is queued; later ends are counted by its completion."""

    def __init__(self, metrics: Metrics, endpoint: str) -> None:
        self._metrics, self._endpoint = metrics, endpoint

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self._metrics.count(self._endpoint, _outcome(error))


def _outcome(error: BaseException) -> Outcome:
    if isinstance(error, EngineBusy):
        return "busy"
    if isinstance(error, EngineLoading | EngineDraining):
        return "unavailable"
    if isinstance(error, ClientDisconnect | asyncio.CancelledError):
        return "cancelled"
    return "refused" if isinstance(error, DeepEduError) and status_of(error) < 500 else "failed"


class _Chat:
    """Shapes of ``/v1/chat/completions``."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def first(self) -> dict[str, Any] | None:
        return {"delta": {"role": "assistant", "content": ""}}

    def delta(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}}

    def last(self) -> dict[str, Any]:
        return {"delta": {}}

    def whole(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}


class _Text:
    """Shapes of ``/v1/completions``."""

    kind = "text_completion"
    chunk_kind = "text_completion"

    def first(self) -> dict[str, Any] | None:
        return None

    def delta(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def last(self) -> dict[str, Any]:
        return {"text": ""}

    def whole(self, text: str) -> dict[str, Any]:
        return {"text": text}


async def _respond(
    engine: Engine, completion: Completion, parsed: Parsed[Any], request: Request, shape: _Chat | _Text
) -> Response:
    headers = {IGNORED_HEADER: ", ".join(parsed.ignored)} if parsed.ignored else {}
    base = {"id": completion.id, "created": completion.created, "model": engine.names[0]}
    if parsed.body.stream:
        lines = _stream(
            completion,
            base,
            shape,
            include_usage=parsed.body.include_usage,
            usage_details=parsed.body.usage_details,
        )
        headers["cache-control"] = "no-cache"
        return _EventStream(completion, lines, headers)
    text, usage = await _whole(completion, request)
    choice = shape.whole(text) | {"index": 0, "finish_reason": usage.finish_reason, "logprobs": None}
    body = base | {
        "object": shape.kind,
        "choices": [choice],
        "usage": usage.usage(details=parsed.body.usage_details),
        "timings": usage.timings(),
    }
    if parsed.ignored:
        body["ignored_parameters"] = list(parsed.ignored)
    return JSONResponse(body, headers=headers)


class _EventStream(StreamingResponse):
    """Server-sent events; frees the completion's place also when the client left before the first of them."""

    def __init__(self, completion: Completion, lines: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers=headers)
        self._completion = completion

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._completion.close()


async def _whole(completion: Completion, request: Request) -> tuple[str, Usage]:
    async def read() -> tuple[str, Usage]:
        parts: list[str] = []
        async for event in completion.events():
            if isinstance(event, Usage):
                return "".join(parts), event
            parts.append(event)
        raise EngineError("the completion ended without an end")

    reading = asyncio.ensure_future(read())
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise ClientDisconnect
        return reading.result()
    finally:
        completion.close()
        reading.cancel()
        leaving.cancel()
        await asyncio.gather(reading, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream(
    completion: Completion,
    base: Mapping[str, Any],
    shape: _Chat | _Text,
    *,
    include_usage: bool,
    usage_details: bool,
) -> AsyncIterator[bytes]:
    def chunk(choice: dict[str, Any] | None, finish_reason: str | None = None, **more: Any) -> bytes:
        choices = [] if choice is None else [choice | {"index": 0, "finish_reason": finish_reason, "logprobs": None}]
        usage = {"usage": None} if include_usage else {}
        return _line({**base, "object": shape.chunk_kind, "choices": choices, **usage, **more})

    try:
        if (first := shape.first()) is not None:
            yield chunk(first)
        async for event in completion.events():
            if isinstance(event, str):
                yield chunk(shape.delta(event))
            elif include_usage:
                yield chunk(shape.last(), event.finish_reason)
                yield chunk(None, usage=event.usage(details=usage_details), timings=event.timings())
            else:
                yield chunk(shape.last(), event.finish_reason, timings=event.timings())
    except DeepEduError as error:
        # The status is sent already; the error goes into the stream, as the OpenAI clients expect it.
        yield _line({"error": error_object(error)})
    yield b"data: [DONE]\n\n"


def _line(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(DeepEduError)
    async def ours(_: Request, error: DeepEduError) -> Response:
        headers = {}
        if isinstance(error, EngineBusy):
            headers["retry-after"] = str(error.retry_after_s)
        elif isinstance(error, EngineLoading):
            headers["retry-after"] = str(RETRY_WHILE_LOADING_S)
        return JSONResponse({"error": error_object(error)}, status_code=status_of(error), headers=headers)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        known = (
            "GET /v1/models, /health, /metrics; POST /v1/chat/completions, /v1/completions, "
            "/v1/cache/lookup, /v1/cache/warm, /v1/cache/forget"
        )
        message = f"{request.method} {request.url.path}: {error.detail}; this server has {known}"
        refused = RequestRefused(message, kind="not_found" if error.status_code == 404 else "invalid_request")
        return JSONResponse({"error": error_object(refused)}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=499)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        fault = EngineError(f"unexpected {type(error).__name__} in the server; see its log")
        return JSONResponse({"error": error_object(fault)}, status_code=500)
