"""Items for quizzes from files and from lessons: read or made, looked at, chosen."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel
from starlette.responses import Response

from deepedu.base.errors import BadRequest, DocumentTooLarge, NotFound
from deepedu.llm.chat import ChatModel
from deepedu.school.accounts import Account
from deepedu.school.audit import record
from deepedu.search.evidence import Evidence
from deepedu.search.passages import load_passages, load_section
from deepedu.server.access import Teacher
from deepedu.server.pages import go, is_number, render
from deepedu.server.quiz_drafts import ItemDraft, drafts_of, keep_drafts
from deepedu.server.quiz_form import LONGEST, BadForm, head_of
from deepedu.server.quiz_view import evidence_views, views
from deepedu.server.tutor_routes import Services
from deepedu.server.upload import files_of, received, safe_name, text_of
from deepedu.store import Database
from deepedu.store.library import BookDetail, book_detail, document_digests, list_books
from deepedu.store.tables import Passage
from deepedu.tutor import quiz_shelf
from deepedu.tutor.quiz import Item
from deepedu.tutor.quiz_bank import read_bank
from deepedu.tutor.quiz_making import Kind, MakingResult, make_items
from deepedu.tutor.quiz_shelf import QuizHead, QuizLine, shelf_of, shelved_quiz

router = APIRouter(include_in_schema=False, lifespan=keep_drafts)
api = APIRouter(prefix="/api/teach/quizzes", tags=["quizzes"])
Field = Annotated[str, Form(max_length=LONGEST)]
Number = Annotated[str, Query(max_length=20)]
MAX_FILE_BYTES = 20_000_000
MOST_MADE = 20
PAGE_ITEMS = 100
_AROUND_BYTES = 10_000


# --- From a file -----------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/import", response_class=HTMLResponse)
def import_page(request: Request, services: Services, account: Teacher, quiz: Number = "") -> Response:
    """Which files are taken, and the form."""
    return _import_page(request, services, account, quiz)


@router.post("/teach/quizzes/import", response_class=HTMLResponse)
async def upload(request: Request, services: Services, account: Teacher) -> Response:
    """Reads a file and goes on to what it holds."""
    quiz = ""
    try:
        async with received(request, max_bytes=MAX_FILE_BYTES + _AROUND_BYTES) as form:
            quiz = text_of(form, "quiz")
            files = files_of(form, "file")
            if not files:
                raise BadRequest("Chưa chọn tệp: hãy chọn tệp Word (.docx), CSV hoặc JSON.")
            filename = safe_name(files[0].filename or "")
            content = await files[0].read()
        bank = await asyncio.to_thread(read_bank, content, filename)
        quiz_id = await asyncio.to_thread(_own_open_quiz, services.database, account, quiz)
    except (BadRequest, DocumentTooLarge) as error:
        return await asyncio.to_thread(_import_page, request, services, account, quiz, str(error))
    head = QuizHead(title=filename.rpartition(".")[0] or filename)
    return go(f"/teach/quizzes/drafts/{drafts_of(request).put(account, filename, head, quiz_id, bank).token}")


def _import_page(request: Request, services: Any, account: Account, quiz: str, error: str = "") -> Response:
    return render(
        request,
        "quiz_import.html",
        account,
        status=400 if error else 200,
        quizzes=_open_quizzes(services.database, account),
        quiz=quiz,
        error=error,
        max_mb=MAX_FILE_BYTES / 1e6,
    )


# --- From a lesson ---------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/make", response_class=HTMLResponse)
def make_page(
    request: Request, services: Services, account: Teacher, book: Number = "", lesson: Number = "", quiz: Number = ""
) -> Response:
    """The books; with a book its lessons and the form."""
    return _make_page(request, services, account, {"book": book, "lesson": lesson, "quiz": quiz})


@router.post("/teach/quizzes/make", response_class=HTMLResponse)
async def make(
    request: Request,
    services: Services,
    account: Teacher,
    book: Field = "",
    lesson: Field = "",
    kind: Field = "choice",
    count: Field = "5",
    quiz: Field = "",
    uses_model: Field = "",
) -> Response:
    """Begins to make items in the background."""
    form = {"book": book, "lesson": lesson, "kind": kind, "count": count, "quiz": quiz, "uses_model": uses_model}
    drafts = drafts_of(request)
    running = next((draft for draft in drafts.of(account) if draft.status == "making"), None)
    if running is not None:
        return go(
            f"/teach/quizzes/drafts/{running.token}", "Một bộ câu hỏi đang được tạo: hãy đợi hoặc hủy bộ này trước."
        )
    try:
        detail, passages, rest, wanted = await asyncio.to_thread(_material, services.database, form)
        quiz_id = await asyncio.to_thread(_own_open_quiz, services.database, account, quiz)
    except BadForm as error:
        return await asyncio.to_thread(_make_page, request, services, account, form, error.problems)
    existing: Sequence[Item] = ()
    if quiz_id is not None:
        existing = (await asyncio.to_thread(shelved_quiz, services.database, account.id, quiz_id)).items
    digests = document_digests(services.database, [detail.book.id])
    made_kind: Kind = kind if kind in ("true_false", "short") else "choice"  # pyright: ignore[reportAssignmentType]

    async def work(model: ChatModel | None) -> MakingResult:
        return await make_items(
            model, passages, kind=made_kind, count=wanted, existing=existing, book=rest, digests=digests
        )

    title = passages[0].lesson or detail.book.title
    head = QuizHead(title=title, subject=detail.book.subject, grade=detail.book.grade)
    model = services.tutor.model if uses_model and services.tutor is not None else None
    draft = drafts.make(account, f"{title} – {detail.book.title}", head, quiz_id, wanted, model, work)
    return go(f"/teach/quizzes/drafts/{draft.token}")


def _material(database: Database, form: dict[str, str]) -> tuple[BookDetail, tuple[Evidence, ...], list[Evidence], int]:
    """The book, the lesson's passages, the book's other passages, and how many items are wanted."""
    problems: dict[str, str] = {}
    if not (is_number(form["count"]) and 1 <= int(form["count"]) <= MOST_MADE):
        problems["count"] = f"Cần số từ 1 đến {MOST_MADE}, nhận được {form['count'][:20]!r}: hãy sửa lại."
    detail = _ready_book(database, form["book"])
    sections = [] if detail is None else [section.id for section in detail.sections]
    if not is_number(form["lesson"]) or int(form["lesson"]) not in sections:
        problems["lesson"] = "Chưa chọn bài học: hãy chọn một bài trong sách."
    if problems or detail is None:
        raise BadForm(problems)
    with database.read() as session:
        passages = load_section(session, int(form["lesson"]))
        ids = session.scalars(sa.select(Passage.id).where(Passage.book_id == detail.book.id)).all()
        rest = list(load_passages(session, ids).values())
    if not passages:
        raise BadForm({"lesson": "Mục này không có nội dung riêng: hãy chọn một bài học cụ thể."})
    return detail, passages, rest, int(form["count"])


def _make_page(
    request: Request, services: Any, account: Account, form: dict[str, str], errors: dict[str, str] | None = None
) -> Response:
    detail = _ready_book(services.database, form["book"])
    return render(
        request,
        "quiz_make.html",
        account,
        status=400 if errors else 200,
        books=[book for book in list_books(services.database) if book.status == "ready"],
        detail=detail,
        lessons=[] if detail is None else [section for section in detail.sections if section.kind != "chapter"],
        form={"kind": "choice", "count": "5", "uses_model": "on", **form},
        errors=errors or {},
        quizzes=_open_quizzes(services.database, account),
        has_model=services.tutor is not None,
        most=MOST_MADE,
    )


def _ready_book(database: Database, book: str) -> BookDetail | None:
    if not is_number(book):
        return None
    try:
        detail = book_detail(database, int(book))
    except NotFound:
        return None
    return detail if detail.book.status == "ready" else None


# --- Looking and choosing --------------------------------------------------------------------------------------------


class MakingState(BaseModel):
    """How far the making of items is."""

    status: Literal["making", "done", "failed", "cancelled"]
    seconds: int
    asked: int


@api.get("/drafts/{token}", response_description="How far it is.")
def making_state(request: Request, account: Teacher, token: str) -> MakingState:
    """How far the making of items is, for the page that waits."""
    draft = drafts_of(request).get(account, token)
    return MakingState(status=draft.status, seconds=draft.seconds, asked=draft.asked)


@router.get("/teach/quizzes/drafts/{token}", response_class=HTMLResponse)
def draft_page(request: Request, services: Services, account: Teacher, token: str, page: Number = "1") -> Response:
    """Items to choose from; while they are being made, how far it is."""
    draft = drafts_of(request).get(account, token)
    if draft.status == "making":
        return render(request, "quiz_making.html", account, draft=draft)
    return _draft_page(request, services, account, draft, page)


@router.post("/teach/quizzes/drafts/{token}", response_class=HTMLResponse)
def choose(
    request: Request,
    services: Services,
    account: Teacher,
    token: str,
    keep: Annotated[list[str], Form(max_length=500)] = [],  # noqa: B006 - FastAPI copies defaults.
    quiz: Field = "",
    title: Field = "",
    subject: Field = "",
    grade: Field = "",
    page: Field = "1",
) -> Response:
    """Puts the chosen items into a quiz."""
    draft = drafts_of(request).get(account, token)
    form = {"title": title, "subject": subject, "grade": grade, "quiz": quiz}
    items = [item for item in draft.items if item.id in keep]
    try:
        if not items:
            raise BadForm({"keep": "Chưa chọn câu nào: hãy đánh dấu những câu muốn lấy."})
        quiz_id = _own_open_quiz(services.database, account, quiz)
        head = head_of(form) if quiz_id is None else None
        with services.database.write() as session:
            if head is not None:
                quiz_id, added = quiz_shelf.put_quiz(session, account.id, head, items), len(items)
                record(session, account.public_id, "quiz.make", f"quiz:{quiz_id}")
            else:
                assert quiz_id is not None, "either a new quiz is made or there is one"
                added = quiz_shelf.add_items(session, account.id, quiz_id, items)
    except BadForm as error:
        return _draft_page(request, services, account, draft, page, form, error.problems)
    except BadRequest as error:
        return _draft_page(request, services, account, draft, page, form, {"keep": str(error)})
    draft.quiz_id = quiz_id
    left_out = f" {len(items) - added} câu đã có sẵn trong đề." if added < len(items) else ""
    return go(f"/teach/quizzes/{quiz_id}", f"Đã thêm {added} câu vào đề.{left_out}")


@router.post("/teach/quizzes/drafts/{token}/drop")
async def drop(request: Request, account: Teacher, token: str) -> Response:
    """Forgets a draft; what is being made is stopped."""
    drafts_of(request).drop(account, token)
    return go("/teach/quizzes", "Đã bỏ bộ câu hỏi tạm. Đề của thầy cô không đổi.")


def _draft_page(
    request: Request,
    services: Any,
    account: Account,
    draft: ItemDraft,
    page: str,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    head, pages = draft.head, max(1, -(-len(draft.items) // PAGE_ITEMS))
    number = min(int(page), pages) if is_number(page) and int(page) > 0 else 1
    shown = draft.items[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
    given = {"title": head.title, "subject": head.subject or "", "grade": str(head.grade or "")}
    return render(
        request,
        "quiz_draft.html",
        account,
        status=400 if errors else 200,
        draft=draft,
        items=shown,
        page=number,
        page_count=pages,
        before=(number - 1) * PAGE_ITEMS,
        form=form or {**given, "quiz": str(draft.quiz_id or "")},
        errors=errors or {},
        quizzes=_open_quizzes(services.database, account),
        evidence=evidence_views(services.database, shown),
        **views(),
    )


def _open_quizzes(database: Database, account: Account) -> list[QuizLine]:
    """Own quizzes that can still be changed."""
    return [quiz for quiz in shelf_of(database, account.id) if not quiz.is_assigned]


def _own_open_quiz(database: Database, account: Account, quiz: str) -> int | None:
    """The quiz that items are to go into; None: a new one.

    Raises:
        BadForm: none of this teacher's, or it was given to a class.
    """
    if not quiz:
        return None
    if quiz not in [str(each.id) for each in _open_quizzes(database, account)]:
        raise BadForm({"quiz": "Đề này không còn, hoặc đã giao cho lớp: hãy chọn đề khác hoặc tạo đề mới."})
    return int(quiz)
