"""The tutor as an OpenAI-compatible model, for a school's own programs.

``GET /v1/models`` and ``POST /v1/chat/completions``, with ``Authorization: Bearer dk-…``. An answer is the checked one:
it streams once it is checked, sentence by sentence, because what has been sent cannot be taken back. Beside OpenAI's
fields it has ``deepedu``: ``kind`` (``answer``, ``not_found`` or ``care``), ``sources`` (numbered as in the text),
``sentences`` with their verdicts, ``nearest`` lessons, a ``notice`` where the model failed, and ``notes`` on the
request. Parameters without effect are named in ``ignored_parameters`` and the header ``x-deepedu-ignored``, as our
engine does.
"""

import asyncio
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deepedu import __version__
from deepedu.base.errors import AccessClosed, AccountLocked, DeepEduError, LLMBusy, NotAllowed, RequestRefused, WrongKey
from deepedu.llm.chat import Finished
from deepedu.school.api_keys import KEEPERS, KeyAccount, account_of_key
from deepedu.server.access import Allow
from deepedu.server.openai_answers import Told, answer_of, turn_for_program
from deepedu.server.openai_requests import ChatRequest, read_chat
from deepedu.server.rates import Rate
from deepedu.server.tutor_routes import Services
from deepedu.tutor.guided import GuidedEvent
from deepedu.tutor.turn import clean_question

MODEL = "deepedu-tutor"
# Not "deepedu": by that name clients of ours know the engine, and send it what only an engine understands.
OWNER = "deepedu-school"
IGNORED_HEADER = "x-deepedu-ignored"
MAX_BODY_BYTES = 1 << 20
# For each key: a program speaks for many users, yet must leave the model to the school's own pages.
QUESTIONS, SECONDS = 60, 60.0
AT_ONCE = 4
# Proxies close connections on which nothing comes for a minute, and a model may read for longer.
BEAT_S = 15.0
RETRY_WHILE_STARTING_S = 15


class KeyHolders(Allow):
    """Lets programs through that carry a key. Without cookies there is nothing that another site could borrow."""

    async def __call__(self, request: Request) -> KeyAccount:
        """Raises:
        AccessClosed: the server runs without accounts.
        WrongKey: no key, or none that is in use.
        NotAllowed: a key of somebody whose role has none.
        """
        services: Any = request.app.state.services
        if services.settings.server.access != "accounts":
            raise AccessClosed("Máy chủ này chạy không có tài khoản (server.access = open) nên không có khóa.")
        scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.casefold() != "bearer" or not given.strip():
            raise WrongKey("Cần khóa, gửi trong phần đầu 'Authorization: Bearer dk-…': tạo khóa trên trang /keys.")
        account = await asyncio.to_thread(account_of_key, services.database, given.strip())
        if account.role not in self.roles:
            raise NotAllowed("Tài khoản của khóa này không được dùng khóa.")
        return account


class _Door:
    """How much each key asks. Used from one event loop."""

    def __init__(self) -> None:
        self._rate = Rate(QUESTIONS, SECONDS)
        self._running: Counter[int] = Counter()

    def enter(self, key_id: int) -> Callable[[], None]:
        """Counts a question; what it returns is to be called at the end of it, once.

        Raises:
            AccountLocked: one too many, in this minute or at this moment.
        """
        if self._running[key_id] >= AT_ONCE:
            raise AccountLocked(f"Khóa này đang hỏi {AT_ONCE} câu cùng lúc: hãy đợi một câu được trả lời.", 5.0)
        self._rate.take(key_id)
        self._running[key_id] += 1
        return lambda: self._running.subtract([key_id])


async def _door_of(request: Request) -> _Door:
    state = request.app.state
    if not hasattr(state, "openai_door"):
        state.openai_door = _Door()
    return state.openai_door


class _OpenAIRoute(APIRoute):
    """Tells errors in OpenAI's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_in_form(request: Request) -> Response:
            try:
                return await handle(request)
            except DeepEduError as error:
                return _refusal(error)
            except ClientDisconnect:
                return Response(status_code=499)

        return handle_in_form


router = APIRouter(prefix="/v1", route_class=_OpenAIRoute)
Program = Annotated[KeyAccount, Depends(KeyHolders(*KEEPERS))]


@router.get("/models")
async def models(account: Program) -> dict[str, Any]:  # noqa: ARG001
    """The one model that is here: the tutor."""
    return {"object": "list", "data": [_model()]}


@router.get("/models/{name:path}")
async def model(name: str, account: Program) -> dict[str, Any]:  # noqa: ARG001
    """That model, by its name."""
    _check_model(name)
    return _model()


@router.post("/chat/completions")
async def chat_completions(
    request: Request, services: Services, account: Program, door: Annotated[_Door, Depends(_door_of)]
) -> Response:
    """Answers the last message; the ones before it are the thread."""
    asked = read_chat(await _read_body(request))
    _check_model(asked.model)
    clean_question(asked.question)
    if services.tutor is None:
        state = services.model_state
        told = "Mô hình đang khởi động, xin thử lại sau ít phút." if state.error is None else state.error
        raise LLMBusy(told, retry_after_s=RETRY_WHILE_STARTING_S)
    events = await turn_for_program(services, account, asked)
    leave = door.enter(account.key_id)
    headers = {IGNORED_HEADER: ", ".join(asked.ignored)} if asked.ignored else {}
    base = {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": MODEL,
        # Moodle reads it without asking whether it is there.
        "system_fingerprint": f"deepedu-{__version__}",
    }
    if asked.stream:
        return _EventStream(_stream(events, asked, base), headers | {"cache-control": "no-store"}, leave)
    try:
        told = await _unless_left(answer_of(events, asked), request)
    finally:
        leave()
    message = {"role": "assistant", "content": told.content, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    body = {**base, "object": "chat.completion", "choices": [choice], "usage": _usage(told.finished)}
    return JSONResponse({**body, **_ours(told, asked)}, headers=headers)


def _model() -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": OWNER}


def _check_model(name: str) -> None:
    if name != MODEL:
        raise RequestRefused(
            f"there is no model {name!r} here, this server has {MODEL!r}",
            param="model",
            kind="model_not_found",
            status=404,
        )


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            told = f"the body is larger than {MAX_BODY_BYTES} bytes: send fewer of the earlier messages"
            raise RequestRefused(told, kind="request_too_large", status=413)
    return bytes(body)


async def _unless_left(answering: Coroutine[Any, Any, Told], request: Request) -> Told:
    """The answer. When the program goes away before it is there, the model stops working for it."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.ensure_future(answering), asyncio.ensure_future(left())
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        leaving.cancel()
        await asyncio.gather(answer, leaving, return_exceptions=True)


class _EventStream(StreamingResponse):
    """Server-sent events; calls ``leave`` also when the client left before the first of them."""

    def __init__(self, lines: AsyncIterator[bytes], headers: Mapping[str, str], leave: Callable[[], None]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers=headers)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def _stream(
    events: AsyncGenerator[GuidedEvent, None], asked: ChatRequest, base: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    def chunk(delta: dict[str, Any] | None, finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        usage = {"usage": None} if asked.include_usage else {}
        choices = [] if delta is None else [choice]
        return _line({**base, "object": "chat.completion.chunk", "choices": choices, **usage, **more})

    yield chunk({"role": "assistant", "content": ""})
    answer = asyncio.ensure_future(answer_of(events, asked))
    try:
        while not (await asyncio.wait({answer}, timeout=BEAT_S))[0]:
            yield b": one moment\n\n"
        told = answer.result()
        for piece in told.pieces:
            yield chunk({"content": piece})
        yield chunk({}, "stop", **_ours(told, asked))
        if asked.include_usage:
            yield chunk(None, usage=_usage(told.finished))
    except DeepEduError as error:
        # The status is sent already; the error goes into the stream, as OpenAI's clients expect it.
        yield _line({"error": _error_object(error)})
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
    yield b"data: [DONE]\n\n"


def _ours(told: Told, asked: ChatRequest) -> dict[str, Any]:
    ignored = {"ignored_parameters": list(asked.ignored)} if asked.ignored else {}
    return {"deepedu": told.extension, **ignored}


def _usage(finished: Finished | None) -> dict[str, int] | None:
    """As the model's server counted; None where it did not. Without an answer of a model nothing was spent."""
    prompt, completion = (finished.prompt_tokens, finished.completion_tokens) if finished is not None else (0, 0)
    if prompt is None or completion is None:
        return None
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _line(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _refusal(error: DeepEduError) -> JSONResponse:
    status = error.status if isinstance(error, RequestRefused) else error.http_status
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, WrongKey) else {}
    if isinstance(error, AccountLocked | LLMBusy) and error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return JSONResponse({"error": _error_object(error)}, status, headers)


def _error_object(error: DeepEduError) -> dict[str, Any]:
    if isinstance(error, AccountLocked):
        kind, code = "rate_limit_error", "rate_limit_exceeded"
    elif isinstance(error, WrongKey):
        kind, code = "invalid_request_error", "invalid_api_key"
    elif isinstance(error, RequestRefused):
        kind, code = "invalid_request_error", error.kind
    else:
        kind, code = "invalid_request_error" if error.http_status < 500 else "server_error", error.code
    return {
        "message": str(error),
        "type": kind,
        "param": error.param if isinstance(error, RequestRefused) else None,
        "code": code,
    }
