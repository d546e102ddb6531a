"""The tutor over HTTP: ``/api/ask`` streams a turn, ``/api/books`` lists the library."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict
from importlib import resources
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from deepedu.base.errors import DeepEduError, LLMBusy, NotFound
from deepedu.school.accounts import Account
from deepedu.search.evidence import Scope
from deepedu.server.access import Allow, Asker, open_to_all
from deepedu.server.admission import Admitting
from deepedu.server.asking import pupil_of
from deepedu.server.maths import to_html
from deepedu.store import Database
from deepedu.store.library import book_detail, list_books
from deepedu.store.tables import Section
from deepedu.tutor.guided import Cared, Closed, GuidedEvent, Hinted, Masked
from deepedu.tutor.turn import LONGEST_QUESTION, Checked, Completed, Draft, Found, Started

router = APIRouter()
# The page of a server without accounts.
open_page = APIRouter(include_in_schema=False)
_readers = Depends(Allow("student", "teacher", "admin", open_too=True))


def services_of(request: Request) -> Any:
    """The application's ``Services``."""
    return request.app.state.services


Services = Annotated[Any, Depends(services_of)]


class _EventStream(StreamingResponse):
    media_type = "text/event-stream"


class AskRequest(BaseModel):
    """A question, and where to look."""

    model_config = ConfigDict(extra="forbid")

    # A little above the limit, so that the tutor's own message about long questions can be given.
    question: str = Field(max_length=LONGEST_QUESTION * 4)
    book_ids: list[int] | None = None
    grade: int | None = None
    subject: str | None = None
    # A lesson's section: looked into first, then the rest of its book, whatever ``book_ids`` say.
    lesson_id: int | None = None
    conversation_id: int | None = None


def feedback_key(salt: bytes, turn_id: int) -> str:
    """What entitles to speak of a turn. The salt is the server process's own: after a restart it is another."""
    return hashlib.blake2b(str(turn_id).encode(), key=salt, digest_size=16).hexdigest()


_EVENT = {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}}


@router.post(
    "/api/ask",
    response_class=_EventStream,
    responses={200: {"content": {"text/event-stream": {"schema": _EVENT}}}},
)
async def ask(body: AskRequest, services: Services, account: Asker, admission: Admitting) -> StreamingResponse:
    """Server-sent events ``started`` (with the ``feedback_key`` of the turn), ``found``, ``draft``, ``checked``,
    ``completed`` or ``error``. A pupil's turn may begin with ``masked``, and end with ``hint``, ``care`` or ``closed``
    in place of an answer."""
    await admission.admit(services, account)
    tutor = services.tutor
    if tutor is None:
        state = services.model_state
        raise LLMBusy("Mô hình đang khởi động, xin thử lại sau ít phút." if state.error is None else state.error)
    scope = await asyncio.to_thread(scope_of, services.database, body)
    events = await turn_events(services, account, body.question, scope, body.conversation_id)
    turn = _streamed(admission.alone(account, events), services.salt)
    return StreamingResponse(turn, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def scope_of(database: Database, body: AskRequest) -> Scope:
    """Where a question is looked up.

    Raises:
        NotFound: no such lesson.
    """
    book_ids = body.book_ids
    if body.lesson_id is not None:
        with database.read() as session:
            section = session.get(Section, body.lesson_id)
        if section is None:
            raise NotFound("Không có bài học này trong thư viện: hãy chọn lại bài.")
        book_ids = [section.book_id]
    return Scope(tuple(book_ids) if book_ids is not None else None, body.grade, body.subject, body.lesson_id)


async def turn_events(
    services: Services, account: Account | None, question: str, scope: Scope, conversation_id: int | None
) -> AsyncGenerator[GuidedEvent, None]:
    """The turn of whoever asks: a pupil's by the class's policy, everybody else's answered directly."""
    if account is not None and account.learner_id is not None:
        pupil = await asyncio.to_thread(pupil_of, services.database, account)
        return services.guided.ask(question, pupil, scope=scope, conversation_id=conversation_id)
    owner = account.owner if account is not None else None
    return services.tutor.ask(question, scope=scope, conversation_id=conversation_id, owner=owner)


async def _streamed(events: AsyncGenerator[GuidedEvent, None], salt: bytes) -> AsyncIterator[str]:
    try:
        # Closing matters: when the browser goes away, the model must stop working for it.
        async with aclosing(events):
            async for event in events:
                name, data = event_json(event)
                if isinstance(event, Started):
                    data["feedback_key"] = feedback_key(salt, event.turn_id)
                yield f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
    except DeepEduError as error:
        data = json.dumps({"code": error.code, "message": str(error)}, ensure_ascii=False)
        yield f"event: error\ndata: {data}\n\n"


def event_json(event: GuidedEvent) -> tuple[str, dict[str, Any]]:
    """A turn's event as ``(name, plain values)``."""
    match event:
        case Masked() | Cared() | Closed() | Hinted():
            name = {Masked: "masked", Cared: "care", Closed: "closed", Hinted: "hint"}[type(event)]
            return name, asdict(event) | ({"html": to_html(event.text)} if isinstance(event, Hinted) else {})
        case Started():
            return "started", asdict(event)
        case Found():
            passages = [
                {
                    "marker": marker,
                    "passage_id": e.passage_id,
                    "book_id": e.book_id,
                    "book": e.book,
                    "chapter": e.chapter,
                    "lesson": e.lesson,
                    "first_page": e.first_page,
                    "last_page": e.last_page,
                    "has_pages": e.has_pages,
                    "text": e.text,
                    "shown_to_model": marker <= event.shown,
                }
                for marker, e in enumerate(event.evidence, 1)
            ]
            return "found", {"passages": passages, "search_ms": event.search_ms}
        case Draft():
            return "draft", {"text": event.text}
        case Checked():
            return "checked", asdict(event.sentence) | {"html": to_html(event.sentence.text)}
        case Completed():
            answer = event.answer.to_json()
            for sentence in answer["sentences"]:
                sentence["html"] = to_html(sentence["text"])
            return "completed", {
                "answer": answer,
                "model": asdict(event.finished) if event.finished else None,
                "notice": event.notice,
                "total_ms": event.total_ms,
                "context": event.context.to_json() if event.context else None,
                "bullets": {"shown": event.bullets_shown, "used": event.bullets_used},
            }


@router.get("/api/books", dependencies=[_readers])
def books(services: Services) -> dict[str, Any]:
    """All books with their state."""
    return {"books": [asdict(book) for book in list_books(services.database)]}


@router.get("/api/books/{book_id}", dependencies=[_readers])
def book(book_id: int, services: Services) -> dict[str, Any]:
    """One book with its chapters and lessons."""
    return asdict(book_detail(services.database, book_id))


@router.get("/api/health", dependencies=[open_to_all])
def health(services: Services) -> dict[str, Any]:
    """Whether questions can be asked now, and if not, why."""
    return {"status": services.model_state.status, "error": services.model_state.error}


@open_page.get("/", response_class=HTMLResponse, dependencies=[open_to_all])
def page() -> HTMLResponse:
    """The page to ask on, of a server without accounts."""
    html = resources.files("deepedu.server").joinpath("web/index.html").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"})
