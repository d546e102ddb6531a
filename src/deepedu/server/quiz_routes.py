"""The teacher's quizzes: the list, one quiz with its items, and the form of an item."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest
from deepedu.school.accounts import Account
from deepedu.school.audit import record
from deepedu.school.classes import classes_of
from deepedu.server.access import Teacher
from deepedu.server.pages import HEADERS, go, render
from deepedu.server.quiz_drafts import drafts_of
from deepedu.server.quiz_form import FIELDS, KINDS, LONGEST, BadForm, form_of, head_of, item_of
from deepedu.server.quiz_view import evidence_views, views
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.library import book_detail, list_books
from deepedu.store.tables import now
from deepedu.tutor import quiz_shelf
from deepedu.tutor.assignments import assignments_of, handed_in
from deepedu.tutor.quiz_bank import bank_as_csv, bank_as_json
from deepedu.tutor.quiz_shelf import MOST_ITEMS, ShelvedQuiz, shelf_of, shelved_quiz, standing

router = APIRouter(include_in_schema=False)
Field = Annotated[str, Form(max_length=LONGEST * 2)]
Kind = Literal["choice", "true_false", "short"]
# So many lessons are offered as skills; more would make a page slow.
_MOST_LESSONS = 400


# --- The list --------------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes", response_class=HTMLResponse)
def shelf(request: Request, services: Services, account: Teacher) -> Response:
    """Own quizzes, and what was given to own classes."""
    database = services.database
    classes = {each.id: each for each in classes_of(database, account)}
    given = assignments_of(database, list(classes), author_id=account.id)
    return render(
        request,
        "quiz_shelf.html",
        account,
        quizzes=shelf_of(database, account.id),
        assignments=given,
        classes=classes,
        counts=handed_in(database, [each.id for each in given]),
        drafts=drafts_of(request).of(account),
        at=now(),
    )


@router.get("/teach/quizzes/new", response_class=HTMLResponse)
def new_quiz_page(request: Request, account: Teacher) -> Response:
    """The form of a new quiz."""
    return _new_page(request, account, {}, {})


@router.post("/teach/quizzes/new", response_class=HTMLResponse)
def new_quiz(
    request: Request,
    services: Services,
    account: Teacher,
    title: Field = "",
    subject: Field = "",
    grade: Field = "",
    kind: Field = "choice",
) -> Response:
    """Begins a quiz and goes on to its first item."""
    form = {"title": title, "subject": subject, "grade": grade}
    try:
        with services.database.write() as session:
            quiz_id = quiz_shelf.put_quiz(session, account.id, head_of(form))
            record(session, account.public_id, "quiz.make", f"quiz:{quiz_id}")
    except BadForm as error:
        return _new_page(request, account, form, error.problems)
    wanted = kind if kind in KINDS else "choice"
    return go(f"/teach/quizzes/{quiz_id}/items/new?kind={wanted}", "Đã tạo đề. Giờ hãy viết câu đầu tiên.")


def _new_page(request: Request, account: Account, form: dict[str, str], errors: dict[str, str]) -> Response:
    return render(request, "quiz_new.html", account, status=400 if errors else 200, form=form, errors=errors)


# --- One quiz --------------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/{quiz_id:int}", response_class=HTMLResponse)
def quiz_page(request: Request, services: Services, account: Teacher, quiz_id: int) -> Response:
    """A quiz with its items and keys."""
    return _sheet(request, services, account, shelved_quiz(services.database, account.id, quiz_id))


@router.post("/teach/quizzes/{quiz_id:int}", response_class=HTMLResponse)
def change_quiz(
    request: Request,
    services: Services,
    account: Teacher,
    quiz_id: int,
    title: Field = "",
    subject: Field = "",
    grade: Field = "",
) -> Response:
    """Changes title, subject and grade."""
    form = {"title": title, "subject": subject, "grade": grade}
    shelved = shelved_quiz(services.database, account.id, quiz_id)
    try:
        with services.database.write() as session:
            quiz_shelf.change_head(session, account.id, quiz_id, head_of(form, shelved.head.seed))
    except BadForm as error:
        return _sheet(request, services, account, shelved, form, error.problems)
    return go(f"/teach/quizzes/{quiz_id}", "Đã lưu.")


@router.post("/teach/quizzes/{quiz_id:int}/copy")
def copy_quiz(services: Services, account: Teacher, quiz_id: int) -> Response:
    """Makes a copy, which can be changed."""
    with services.database.write() as session:
        copy = quiz_shelf.copy_quiz(session, account.id, quiz_id)
        record(session, account.public_id, "quiz.copy", f"quiz:{copy}", f"of quiz:{quiz_id}")
    return go(f"/teach/quizzes/{copy}", "Đây là bản sao: sửa thoải mái, đề gốc giữ nguyên.")


@router.get("/teach/quizzes/{quiz_id:int}/delete", response_class=HTMLResponse)
def delete_page(request: Request, services: Services, account: Teacher, quiz_id: int) -> Response:
    """Says what goes with the quiz, and asks."""
    return _delete_page(request, services, account, quiz_id)


@router.post("/teach/quizzes/{quiz_id:int}/delete", response_class=HTMLResponse)
def delete_quiz(
    request: Request, services: Services, account: Teacher, quiz_id: int, confirmed: Field = ""
) -> Response:
    """Deletes a quiz with what was handed in of it; not while pupils may be working on it."""
    shelved = shelved_quiz(services.database, account.id, quiz_id)
    if standing(services.database, account.id, quiz_id).begun and not confirmed:
        error = "Hãy đánh dấu ô xác nhận: kết quả của học sinh sẽ mất theo đề."
        return _delete_page(request, services, account, quiz_id, error)
    try:
        with services.database.write() as session:
            gone = quiz_shelf.delete_quiz(session, account.id, quiz_id)
            record(session, account.public_id, "quiz.delete", f"quiz:{quiz_id}", f"works: {gone.begun}")
    except BadRequest as error:
        return _delete_page(request, services, account, quiz_id, str(error))
    return go("/teach/quizzes", f"Đã xóa đề “{shelved.head.title}”.")


@router.get("/teach/quizzes/{quiz_id:int}/export.{form}")
def export_quiz(services: Services, account: Teacher, quiz_id: int, form: Literal["json", "csv"]) -> Response:
    """The items as a file that can be imported again."""
    items = shelved_quiz(services.database, account.id, quiz_id).items
    content = bank_as_json(items) if form == "json" else bank_as_csv(items)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="de-{quiz_id}.{form}"'}
    media_type = "application/json" if form == "json" else "text/csv; charset=utf-8"
    return Response(content, media_type=media_type, headers=headers)


def _sheet(
    request: Request,
    services: Any,
    account: Account,
    shelved: ShelvedQuiz,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    head = shelved.head
    mine = {each.id: each for each in classes_of(services.database, account)}
    given = assignments_of(services.database, list(mine), author_id=account.id)
    return render(
        request,
        "quiz_sheet.html",
        account,
        status=400 if errors else 200,
        quiz=shelved,
        form=form or {"title": head.title, "subject": head.subject or "", "grade": str(head.grade or "")},
        errors=errors or {},
        assignments=[each for each in given if each.quiz_id == shelved.id],
        classes=mine,
        evidence=evidence_views(services.database, shelved.items),
        most=MOST_ITEMS,
        at=now(),
        **views(),
    )


def _delete_page(request: Request, services: Any, account: Account, quiz_id: int, error: str = "") -> Response:
    return render(
        request,
        "quiz_delete.html",
        account,
        status=400 if error else 200,
        quiz=shelved_quiz(services.database, account.id, quiz_id),
        standing=standing(services.database, account.id, quiz_id),
        error=error,
    )


# --- One item --------------------------------------------------------------------------------------------------------


@router.get("/teach/quizzes/{quiz_id:int}/items/new", response_class=HTMLResponse)
def new_item_page(
    request: Request, services: Services, account: Teacher, quiz_id: int, kind: Annotated[Kind, Query()] = "choice"
) -> Response:
    """The form of a new item; its skill is that of the last one."""
    shelved = shelved_quiz(services.database, account.id, quiz_id)
    _check_changeable(shelved)
    skill = shelved.items[-1].skill if shelved.items else ""
    return _item_page(request, services, account, shelved, {"kind": kind, "skill": skill})


@router.post("/teach/quizzes/{quiz_id:int}/items/new", response_class=HTMLResponse)
async def new_item(request: Request, services: Services, account: Teacher, quiz_id: int) -> Response:
    """Adds an item."""
    form = await _fields(request)
    return await asyncio.to_thread(_save_item, request, services, account, quiz_id, form, None)


@router.get("/teach/quizzes/{quiz_id:int}/items/{item_id}", response_class=HTMLResponse)
def item_page(request: Request, services: Services, account: Teacher, quiz_id: int, item_id: str) -> Response:
    """The form of an item."""
    shelved = shelved_quiz(services.database, account.id, quiz_id)
    _check_changeable(shelved)
    return _item_page(request, services, account, shelved, form_of(shelved.item(item_id)), item_id)


@router.post("/teach/quizzes/{quiz_id:int}/items/{item_id}", response_class=HTMLResponse)
async def change_item(request: Request, services: Services, account: Teacher, quiz_id: int, item_id: str) -> Response:
    """Changes an item."""
    form = await _fields(request)
    return await asyncio.to_thread(_save_item, request, services, account, quiz_id, form, item_id)


@router.post("/teach/quizzes/{quiz_id:int}/items/{item_id}/remove")
def remove_item(services: Services, account: Teacher, quiz_id: int, item_id: str) -> Response:
    """Takes an item out."""
    with services.database.write() as session:
        quiz_shelf.remove_item(session, account.id, quiz_id, item_id)
    return go(f"/teach/quizzes/{quiz_id}", "Đã bỏ câu hỏi khỏi đề.")


@router.post("/teach/quizzes/{quiz_id:int}/items/{item_id}/move")
def move_item(
    services: Services, account: Teacher, quiz_id: int, item_id: str, where: Annotated[Literal["up", "down"], Form()]
) -> Response:
    """Moves an item one place."""
    with services.database.write() as session:
        quiz_shelf.move_item(session, account.id, quiz_id, item_id, where)
    return go(f"/teach/quizzes/{quiz_id}#item-{item_id}")


async def _fields(request: Request) -> dict[str, str]:
    """The fields of an item that a form holds; others are left out."""
    async with request.form() as form:
        return {name: value[: LONGEST * 2] for name, value in form.items() if name in FIELDS and isinstance(value, str)}


def _check_changeable(shelved: ShelvedQuiz) -> None:
    if shelved.is_assigned:
        raise BadRequest("Đề này đã giao cho lớp nên không sửa được: hãy tạo một bản sao rồi sửa bản sao.")


def _save_item(
    request: Request, services: Any, account: Account, quiz_id: int, form: dict[str, str], item_id: str | None
) -> Response:
    database: Database = services.database
    shelved = shelved_quiz(database, account.id, quiz_id)
    _check_changeable(shelved)
    before = None if item_id is None else shelved.item(item_id)
    if form.get("kind") not in KINDS:
        raise BadRequest(f"Cần một trong ba loại câu, nhận được {form.get('kind', '')[:40]!r}: hãy mở lại đề.")
    try:
        item = item_of(form, before)
        if any(each.id == item.id and each.id != item_id for each in shelved.items):
            raise BadForm({"stem": "câu này đã có trong đề; hãy sửa lại hoặc bỏ một câu"})
    except BadForm as error:
        return _item_page(request, services, account, shelved, form, item_id, error.problems)
    with database.write() as session:
        if item_id is None:
            quiz_shelf.add_items(session, account.id, quiz_id, [item])
        else:
            quiz_shelf.replace_item(session, account.id, quiz_id, item_id, item)
    if item_id is None and "and_next" in request.query_params:
        return go(f"/teach/quizzes/{quiz_id}/items/new?kind={item.kind}", "Đã thêm câu hỏi. Viết tiếp câu sau.")
    return go(f"/teach/quizzes/{quiz_id}#item-{item.id}", "Đã thêm câu hỏi." if item_id is None else "Đã lưu câu hỏi.")


def _item_page(
    request: Request,
    services: Any,
    account: Account,
    shelved: ShelvedQuiz,
    form: dict[str, str],
    item_id: str | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    return render(
        request,
        "quiz_item.html",
        account,
        status=400 if errors else 200,
        quiz=shelved,
        item_id=item_id,
        form=dict.fromkeys(FIELDS, "") | form,
        errors=errors or {},
        lessons=_lessons(services.database, shelved),
        longest=LONGEST,
    )


def _lessons(database: Database, shelved: ShelvedQuiz) -> list[str]:
    """Lessons to name as an item's skill: of the books of the quiz's subject and grade, else of all."""
    books = [book for book in list_books(database) if book.status == "ready"]
    head = shelved.head
    fitting = [b for b in books if head.subject in (None, b.subject) and head.grade in (None, b.grade)]
    found: dict[str, None] = {}
    for book in fitting or books:
        found |= {s.display: None for s in book_detail(database, book.id).sections if s.kind == "lesson"}
        if len(found) > _MOST_LESSONS:
            break
    return list(found)[:_MOST_LESSONS]
