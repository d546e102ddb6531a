"""The playbook as pages for teachers: what waits beside its books, decisions, history, differences, going back.

Everything is done by the functions of ``playbook_routes``; here are forms, and what a person reads.
"""

import difflib
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from deepedu.base.errors import BadRequest, BulletChanged, PlaybookError
from deepedu.playbook.bullet import BulletId, Kind, Status
from deepedu.school.accounts import Account
from deepedu.server import playbook_routes as routes
from deepedu.server.access import Staff
from deepedu.server.pages import go, own_path, render
from deepedu.server.playbook_routes import Decision, Edit, Listed, PlaybookDesk, Rejection, Rollback
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False, prefix="/teach/playbook")
# Each stands beside its passages.
PER_PAGE = 10
STATUSES: tuple[Status, ...] = get_args(Status)
KINDS: tuple[Kind, ...] = get_args(Kind)
Field = Annotated[str, Form(max_length=4000)]
Page = Annotated[int, Query(ge=1)]
Asked = TypeVar("Asked", bound=BaseModel)
# Of a text: what both have, what only the older has, what only the newer has.
Piece = tuple[Literal["same", "gone", "new"], str]


@router.get("", response_class=HTMLResponse)
def playbook(
    request: Request,
    services: Services,
    account: Staff,
    status: Status = "proposed",
    kind: Literal["", "fact", "method", "mistake", "explanation", "tool"] = "",
    page: Page = 1,
) -> HTMLResponse:
    """Bullets of a status, each beside what it stands on, with the forms to decide."""
    desk = PlaybookDesk(services, account)
    counts = Counter(bullet.status for bullet in desk.book.state().ordered())
    asked = Listed(status=status, kind=kind or None, offset=(page - 1) * PER_PAGE, limit=PER_PAGE)
    found = routes.bullets(asked, desk)
    return render(
        request,
        "playbook.html",
        account,
        counts=counts,
        statuses=STATUSES,
        kinds=KINDS,
        chosen=status,
        kind=kind,
        page=page,
        page_count=max(1, -(-found["total"] // PER_PAGE)),
        total=found["total"],
        bullets=found["bullets"],
    )


@router.get("/bullets/{bullet_id}", response_class=HTMLResponse)
def bullet_page(request: Request, services: Services, account: Staff, bullet_id: BulletId) -> HTMLResponse:
    """One bullet beside its books, with its history and the form to change it."""
    return _bullet(request, services, account, bullet_id)


def _bullet(
    request: Request,
    services: Any,
    account: Account,
    bullet_id: BulletId,
    *,
    form: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    is_conflict: bool = False,
) -> HTMLResponse:
    told = routes.bullet(bullet_id, PlaybookDesk(services, account))
    bullet = told["bullet"]
    return render(
        request,
        "playbook_bullet.html",
        account,
        status=status,
        bullet=bullet,
        version=told["version"],
        history=[_timed(entry) for entry in told["history"]],
        history_goes_on=told["history_goes_on"],
        form=form or _form_of(bullet),
        pieces=word_diff(bullet["text"], form["text"]) if form and form.get("text") else None,
        errors=errors or {},
        kinds=KINDS,
        is_conflict=is_conflict,
    )


def _form_of(bullet: Mapping[str, Any]) -> dict[str, str]:
    scope = bullet["scope"]
    named = {name: str(scope[name] or "") for name in ("grade", "subject", "lesson")}
    return {"text": bullet["text"], "kind": bullet["kind"], "section": bullet["section"], "reason": "", **named}


# --- Decisions -------------------------------------------------------------------------------------------------------


@router.post("/bullets/{bullet_id}/approve", response_class=HTMLResponse)
def approve(
    request: Request,
    services: Services,
    account: Staff,
    bullet_id: BulletId,
    expected: Field = "",
    reason: Field = "",
    then: Field = "",
) -> Response:
    """Lets a bullet be shown to pupils."""
    try:
        asked = _read(Decision, {"expected": expected, "reason": reason})
        routes.approve(bullet_id, asked, PlaybookDesk(services, account))
    except (_BadForm, BulletChanged, PlaybookError) as error:
        return _refused(request, services, account, bullet_id, error, {"reason": reason})
    return _done(then, "Đã duyệt: từ nay điều này được dùng khi trả lời học sinh.")


@router.post("/bullets/{bullet_id}/reject", response_class=HTMLResponse)
def reject(
    request: Request,
    services: Services,
    account: Staff,
    bullet_id: BulletId,
    expected: Field = "",
    reason: Field = "",
    then: Field = "",
) -> Response:
    """Keeps a bullet from pupils, with the reason."""
    try:
        asked = _read(Rejection, {"expected": expected, "reason": reason})
        routes.reject(bullet_id, asked, PlaybookDesk(services, account))
    except (_BadForm, BulletChanged, PlaybookError) as error:
        return _refused(request, services, account, bullet_id, error, {"reason": reason})
    return _done(then, "Đã loại: điều này không được dùng nữa. Có thể duyệt lại trong mục Đã loại.")


@router.post("/bullets/{bullet_id}/edit", response_class=HTMLResponse)
def edit(
    request: Request,
    services: Services,
    account: Staff,
    bullet_id: BulletId,
    expected: Field = "",
    text: Field = "",
    kind: Field = "",
    section: Field = "",
    grade: Field = "",
    subject: Field = "",
    lesson: Field = "",
    reason: Field = "",
    approved: Field = "",
) -> Response:
    """Changes a bullet, and with ``approved`` lets the result be shown."""
    desk = PlaybookDesk(services, account)
    form = {"text": text, "kind": kind, "section": section, "grade": grade, "subject": subject, "lesson": lesson}
    form |= {"reason": reason, "approved": approved}
    # The form cannot change the book that a bullet is bound to.
    book = desk.present(bullet_id)["bullet"]["scope"]["book"]
    scope = {"grade": grade or None, "subject": subject.strip() or None, "lesson": lesson.strip() or None, "book": book}
    values = {"expected": expected, "text": text, "kind": kind, "section": section, "scope": scope, "reason": reason}
    try:
        asked = _read(Edit, {**values, "approve": bool(approved)})
        routes.edit(bullet_id, asked, desk)
    except (_BadForm, BadRequest, BulletChanged, PlaybookError) as error:
        return _refused(request, services, account, bullet_id, error, form)
    told = "Đã sửa và duyệt." if approved else "Đã sửa. Điều đổi nội dung cần được duyệt lại trước khi dùng."
    return _done(f"/teach/playbook/bullets/{bullet_id}", told)


class _BadForm(BadRequest):
    """What was filled in cannot be taken; ``fields`` tells where and why."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(fields.values()))
        self.fields = dict(fields)


_TOLD = {
    "text": "Nội dung cần có chữ, không quá dài (khoảng 550 ký tự) và không có ký tự lạ.",
    "reason": "Hãy ghi lý do, nhiều nhất 500 ký tự: lý do được hiện cạnh điều này và gia sư học từ đó.",
    "kind": "Hãy chọn một loại trong danh sách.",
    "section": "Tên mục không được có ký tự lạ.",
    "grade": "Lớp cần là một số từ 1 đến 12, hoặc bỏ trống.",
    "version": "Không có phiên bản này.",
}


def _read(model: type[Asked], values: Mapping[str, Any]) -> Asked:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fields = [str(each["loc"][-1] if each["loc"][0] == "scope" else each["loc"][0]) for each in error.errors()]
        told = "Trang này đã cũ: hãy mở lại rồi làm lại."
        raise _BadForm({name: _TOLD.get(name, told) for name in fields}) from error


def _refused(
    request: Request,
    services: Any,
    account: Account,
    bullet_id: BulletId,
    error: BadRequest | PlaybookError,
    form: Mapping[str, str],
) -> Response:
    """The bullet as it is now, with what the teacher filled in and what was wrong with it."""
    present = PlaybookDesk(services, account).present(bullet_id)["bullet"]
    told = error.fields if isinstance(error, _BadForm) else {"form": str(error)}
    return _bullet(
        request,
        services,
        account,
        bullet_id,
        form={**_form_of(present), **form},
        errors=told,
        status=error.http_status,
        is_conflict=isinstance(error, BulletChanged),
    )


def _done(then: str, said: str) -> RedirectResponse:
    return go(own_path(then) or "/teach/playbook", said)


# --- The past --------------------------------------------------------------------------------------------------------


@router.get("/history", response_class=HTMLResponse)
def history(
    request: Request, services: Services, account: Staff, before: Annotated[int | None, Query(ge=1)] = None
) -> HTMLResponse:
    """Changes of the book, newest first."""
    found = routes.history(PlaybookDesk(services, account), 30, before)
    return render(
        request,
        "playbook_history.html",
        account,
        version=found["version"],
        next_before=found["next_before"],
        changes=[_timed(entry) for entry in found["changes"]],
    )


@router.get("/diff", response_class=HTMLResponse)
def diff(
    request: Request,
    services: Services,
    account: Staff,
    before: Annotated[int, Query(ge=0)],
    after: Annotated[int | None, Query(ge=0)] = None,
) -> HTMLResponse:
    """What differs between two versions."""
    desk = PlaybookDesk(services, account)
    return render(request, "playbook_diff.html", account, version=desk.book.version, **_diff(desk, before, after))


def _diff(desk: PlaybookDesk, before: int, after: int | None) -> dict[str, Any]:
    found = routes.diff(desk, before, after)
    for change in found["changed"]:
        change["pieces"] = word_diff(change["before"]["text"], change["after"]["text"])
    return found


@router.get("/rollback", response_class=HTMLResponse)
def rollback_page(
    request: Request, services: Services, account: Staff, version: Annotated[int, Query(ge=0)]
) -> HTMLResponse:
    """Shows what going back would change, and asks."""
    return _rollback(request, PlaybookDesk(services, account), account, version)


@router.post("/rollback", response_class=HTMLResponse)
def rollback(
    request: Request,
    services: Services,
    account: Staff,
    version: Annotated[int, Form(ge=0)],
    reason: Field = "",
) -> Response:
    """Makes an earlier version the present one; this too is a change that can be taken back."""
    desk = PlaybookDesk(services, account)
    try:
        done = routes.rollback(_read(Rollback, {"version": version, "reason": reason}), desk)
    except _BadForm as error:
        return _rollback(request, desk, account, version, error.fields)
    told = f"Sổ tay đã trở về như phiên bản {version}." if done["changed"] else "Sổ tay vốn đã như phiên bản đó."
    return go("/teach/playbook/history", told)


def _rollback(
    request: Request, desk: PlaybookDesk, account: Account, version: int, errors: Mapping[str, str] | None = None
) -> HTMLResponse:
    present = desk.book.version
    found = _diff(desk, present, version)
    status = 400 if errors else 200
    return render(
        request, "playbook_rollback.html", account, status=status, version=present, errors=errors or {}, **found
    )


def _timed(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "at": datetime.fromisoformat(entry["at"])}


def word_diff(old: str, new: str) -> list[Piece]:
    """Two texts as one, word by word."""
    first, second = old.split(), new.split()
    pieces: list[Piece] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(("same", " ".join(first[a:b])))
            continue
        if a < b:
            pieces.append(("gone", " ".join(first[a:b])))
        if c < d:
            pieces.append(("new", " ".join(second[c:d])))
    return pieces
