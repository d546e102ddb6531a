"""The pupil's pages: choosing a book and a lesson, and learning by conversation."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from deepedu.base.errors import DeepEduError, LLMBusy, NotFound
from deepedu.school.accounts import Account
from deepedu.school.classes import classes_of, members
from deepedu.server.admission import Admitting, may_learn
from deepedu.server.conversation_routes import Learner, delete_own, own_turn, own_turns
from deepedu.server.feedback_routes import LONGEST, keep_word
from deepedu.server.maths import to_html
from deepedu.server.pages import go, is_number, render
from deepedu.server.progress_routes import today_of
from deepedu.server.turn_view import TurnView, views_of
from deepedu.server.tutor_routes import AskRequest, Services, scope_of, turn_events
from deepedu.store import Database
from deepedu.store.conversations import conversations_of
from deepedu.store.library import BookSummary, SectionSummary, book_detail, list_books
from deepedu.store.tables import Conversation, Section
from deepedu.tutor.turn import LONGEST_QUESTION, Started

router = APIRouter(include_in_schema=False)
# A browser sends an empty field where nothing was chosen.
Choice = Annotated[str, Form(max_length=20)]
_RECENT = 5


# --- Choosing what to learn ------------------------------------------------------------------------------------------


@router.get("/learn", response_class=HTMLResponse)
def learn(
    request: Request,
    services: Services,
    account: Learner,
    grade: Annotated[str, Query(max_length=10)] = "",
    subject: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """Books to choose from and conversations to go on with. ``grade`` is ``all`` or a number; unset: the pupil's."""
    if not may_learn(services, account):
        return _without_consent(request, services, account)
    books = _ready(services.database)
    grades = sorted({book.grade for book in books if book.grade is not None})
    chosen = grade or _own_grade(services.database, account, grades)
    shown = [b for b in books if chosen in ("all", str(b.grade)) and subject in ("", b.subject)]
    return render(
        request,
        "learn.html",
        account,
        books=shown,
        has_books=bool(books),
        grades=grades,
        subjects=sorted({book.subject for book in books if book.subject}),
        grade=chosen,
        subject=subject,
        recent=conversations_of(services.database, account.owner, _RECENT),
        titles={book.id: book.title for book in books},
        model=services.model_state,
        today=today_of(services, account),
    )


@router.get("/learn/books/{book_id}", response_class=HTMLResponse)
def lessons(request: Request, services: Services, account: Learner, book_id: int) -> HTMLResponse:
    """The lessons of a book."""
    if not may_learn(services, account):
        return _without_consent(request, services, account)
    try:
        detail = book_detail(services.database, book_id)
    except NotFound as error:
        raise NotFound("Không có cuốn sách này trong thư viện.") from error
    if detail.book.status != "ready":
        raise NotFound("Cuốn sách này chưa đọc xong: hãy quay lại sau ít phút.")
    return render(request, "learn_book.html", account, book=detail.book, chapters=_chapters(detail.sections))


def _chapters(sections: Sequence[SectionSummary]) -> list[tuple[SectionSummary | None, list[SectionSummary]]]:
    """Chapters with their lessons in reading order; None heads lessons that stand before any chapter."""
    chapters: list[tuple[SectionSummary | None, list[SectionSummary]]] = []
    for section in sections:
        if section.kind == "chapter":
            chapters.append((section, []))
        elif section.kind == "lesson":
            if not chapters:
                chapters.append((None, []))
            chapters[-1][1].append(section)
    return [(chapter, inside) for chapter, inside in chapters if inside]


def _own_grade(database: Database, account: Account, grades: Sequence[int]) -> str:
    """The grade of the pupil's newest class, if there are books for it."""
    if account.role != "student":
        return "all"
    own = next((each.grade for each in classes_of(database, account)), None)
    return str(own) if own in grades else "all"


def _ready(database: Database) -> list[BookSummary]:
    return [book for book in list_books(database) if book.status == "ready"]


def _without_consent(request: Request, services: Services, account: Account) -> HTMLResponse:
    classrooms = classes_of(services.database, account)
    teachers = members(services.database, classrooms[0].id, "teacher") if classrooms else []
    return render(request, "no_consent.html", account, teachers=[teacher.full_name for teacher in teachers])


# --- The conversation ------------------------------------------------------------------------------------------------


@router.get("/chat", response_class=HTMLResponse)
def new_chat(
    request: Request, services: Services, account: Learner, book: int | None = None, lesson: int | None = None
) -> HTMLResponse:
    """A new conversation, over one book or all."""
    if not may_learn(services, account):
        return _without_consent(request, services, account)
    return _chat_page(request, services, account, book=book, lesson=lesson)


@router.post("/chat", response_class=HTMLResponse)
async def ask_by_form(
    request: Request,
    services: Services,
    account: Learner,
    admission: Admitting,
    # A little above the limit, so that the tutor's own message about long questions can be given.
    question: Annotated[str, Form(max_length=LONGEST_QUESTION * 4)] = "",
    conversation_id: Choice = "",
    book: Choice = "",
    lesson: Choice = "",
) -> HTMLResponse:
    """Runs a turn to its end, for browsers without scripts, and shows its conversation."""
    book_id, lesson_id, kept_in = _number(book), _number(lesson), _number(conversation_id)
    body = AskRequest(
        question=question,
        book_ids=None if book_id is None else [book_id],
        lesson_id=lesson_id,
        conversation_id=kept_in,
    )
    started: Started | None = None
    try:
        await admission.admit(services, account)
        if services.tutor is None:
            raise LLMBusy("Mô hình đang khởi động, xin thử lại sau ít phút.")
        scope = await asyncio.to_thread(scope_of, services.database, body)
        events = admission.alone(account, await turn_events(services, account, question, scope, kept_in))
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Started):
                    started = event
    except DeepEduError as error:
        # A turn that began is kept with what became of it; before that, nothing but the page holds the question.
        if started is None:
            return await asyncio.to_thread(
                _refused, request, services, account, error, question, kept_in, book_id, lesson_id
            )
    assert started is not None, "a turn without an error has begun"
    where = f"?lesson={lesson_id}" if lesson_id is not None else ""
    return go(f"/chat/{started.conversation_id}{where}#turn-{started.turn_id}")  # pyright: ignore[reportReturnType]


@router.get("/chat/all", response_class=HTMLResponse)
def all_chats(request: Request, services: Services, account: Learner) -> HTMLResponse:
    """All conversations of this person, each with its deletion."""
    found = conversations_of(services.database, account.owner)
    titles = {book.id: book.title for book in list_books(services.database)}
    return render(request, "chat_all.html", account, conversations=found, titles=titles)


@router.post("/chat/delete")
def delete_by_form(services: Services, account: Learner, conversation_id: Annotated[int, Form()]) -> RedirectResponse:
    """Deletes a conversation."""
    delete_own(services.database, account, conversation_id)
    return go("/learn", "Đã xoá cuộc trò chuyện.")


@router.get("/chat/turns/{turn_id}", response_class=HTMLResponse)
def turn_piece(request: Request, services: Services, account: Learner, turn_id: int) -> HTMLResponse:
    """One turn as the conversation's page holds it, for the page that has just streamed it."""
    (view,) = views_of(services.database, [own_turn(services.database, account, turn_id)])
    return render(request, "chat_turn.html", account, turn=view, maths=to_html)


@router.post("/chat/turns/{turn_id}/feedback")
def feedback_by_form(
    services: Services,
    account: Learner,
    turn_id: int,
    kind: Annotated[Literal["thumbs_up", "thumbs_down", "wrong"], Form()],
    detail: Annotated[str, Form(max_length=LONGEST)] = "",
) -> RedirectResponse:
    """Keeps what is said of an answer, for browsers without scripts."""
    turn = own_turn(services.database, account, turn_id)
    keep_word(services.database, account, turn_id, kind, detail.strip() if kind == "wrong" else "")
    return go(f"/chat/{turn.conversation_id}#turn-{turn_id}", "Cảm ơn em! Ý kiến đã được ghi lại.")


@router.get("/chat/{conversation_id}", response_class=HTMLResponse)
def chat(
    request: Request, services: Services, account: Learner, conversation_id: int, lesson: int | None = None
) -> HTMLResponse:
    """A conversation as it was kept, and the form to go on with it."""
    if not may_learn(services, account):
        return _without_consent(request, services, account)
    return _chat_page(request, services, account, conversation_id=conversation_id, lesson=lesson)


def _refused(
    request: Request,
    services: Any,
    account: Account,
    error: DeepEduError,
    question: str,
    conversation_id: int | None,
    book: int | None,
    lesson: int | None,
) -> HTMLResponse:
    if not may_learn(services, account):
        return _without_consent(request, services, account)
    return _chat_page(
        request,
        services,
        account,
        conversation_id=conversation_id,
        book=book,
        lesson=lesson,
        question=question,
        error=error,
    )


def _chat_page(
    request: Request,
    services: Any,
    account: Account,
    *,
    conversation_id: int | None = None,
    book: int | None = None,
    lesson: int | None = None,
    question: str = "",
    error: DeepEduError | None = None,
) -> HTMLResponse:
    database, turns = services.database, list[TurnView]()
    if conversation_id is not None:
        turns = views_of(database, own_turns(database, account, conversation_id))
        book = book if book is not None else _book_of(database, conversation_id)
    books = _ready(database)
    return render(
        request,
        "chat.html",
        account,
        status=200 if error is None else error.http_status,
        conversation_id=conversation_id,
        turns=turns,
        books=books,
        book=next((each for each in books if each.id == book), None),
        lesson=_lesson(database, lesson, book),
        conversations=conversations_of(database, account.owner, 30),
        model=services.model_state,
        longest=LONGEST_QUESTION,
        question=question,
        error=None if error is None else str(error),
        maths=to_html,
    )


def _lesson(database: Database, section_id: int | None, book_id: int | None) -> Section | None:
    """A lesson to learn from, if it is one of the chosen book."""
    if section_id is None:
        return None
    with database.read() as session:
        section = session.get(Section, section_id)
        return section if section is not None and book_id in (None, section.book_id) else None


def _book_of(database: Database, conversation_id: int) -> int | None:
    """The one book that a conversation is over; None: over more."""
    with database.read() as session:
        scope = session.scalar(sa.select(Conversation.scope).where(Conversation.id == conversation_id)) or {}
    book_ids = scope.get("book_ids") or []
    return book_ids[0] if len(book_ids) == 1 else None


def _number(text: str) -> int | None:
    return int(text) if is_number(text) else None
