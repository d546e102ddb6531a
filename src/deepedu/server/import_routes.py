"""Importing a roster on the page: upload, look at what it would do, confirm, take the report and the passwords away.

Between these steps the roster lies in memory, bound to the admin who sent it, and is forgotten after half an hour.
Nothing is written before the admin confirms exactly what was shown.
"""

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest, DocumentTooLarge, NotFound
from deepedu.school.accounts import Account
from deepedu.school.class_changes import is_school_year
from deepedu.school.roster import Roster, Teaching
from deepedu.school.roster_file import MAX_FILE_BYTES, read_roster
from deepedu.school.roster_import import Imported, ImportPreview, SchoolChanged, import_roster, preview_import
from deepedu.school.roster_plan import passwords_csv, result_csv
from deepedu.server.access import Admin
from deepedu.server.admin_routes import Text, present_year
from deepedu.server.pages import HEADERS, go, render
from deepedu.server.tutor_routes import Services
from deepedu.server.upload import files_of, received, safe_name, text_of

KEPT_S = 30 * 60.0
_AROUND_BYTES = 10_000


@dataclass
class PendingImport:
    """A roster between upload and the end of its import. ``lock`` is held while it is carried out."""

    account_id: int
    filename: str
    preview: ImportPreview
    expires_at: float
    result: Imported | None = None
    passwords_taken: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


class PendingImports:
    """One for each admin at most: a new upload takes the place of the one before. Safe to share between threads."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingImport] = {}
        self._lock = threading.Lock()

    def put(self, account: Account, filename: str, preview: ImportPreview) -> str:
        """Keeps it; returns the token that names it."""
        token = secrets.token_urlsafe(12)
        with self._lock:
            self._forget_old(account.id)
            self._pending[token] = PendingImport(account.id, filename, preview, time.monotonic() + KEPT_S)
        return token

    def get(self, account: Account, token: str) -> PendingImport:
        """The admin's import.

        Raises:
            NotFound: none, another's, or forgotten by now: the three are not told apart.
        """
        with self._lock:
            self._forget_old()
            found = self._pending.get(token)
        if found is None or found.account_id != account.id:
            raise NotFound("Danh sách này không còn (đã quá 30 phút, hoặc đã gửi danh sách khác): hãy gửi lại tệp.")
        return found

    def drop(self, account: Account) -> None:
        """Forgets what an admin sent."""
        with self._lock:
            self._forget_old(account.id)

    def _forget_old(self, account_id: int | None = None) -> None:
        present = time.monotonic()
        self._pending = {
            token: each
            for token, each in self._pending.items()
            if each.expires_at > present and each.account_id != account_id
        }


@asynccontextmanager
async def _imports(app: FastAPI) -> AsyncIterator[None]:
    app.state.imports = PendingImports()
    yield


router = APIRouter(include_in_schema=False, lifespan=_imports)


@router.get("/admin/import", response_class=HTMLResponse)
def import_page(request: Request, services: Services, account: Admin) -> Response:
    """Which files are taken, and the form."""
    return _form(request, account, present_year(services))


@router.post("/admin/import", response_class=HTMLResponse)
async def upload(request: Request, services: Services, account: Admin) -> Response:
    """Reads a roster and goes on to what it would do."""
    year = present_year(services)
    try:
        async with received(request, max_bytes=MAX_FILE_BYTES + _AROUND_BYTES) as form:
            year = text_of(form, "school_year") or year
            if not is_school_year(year):
                told = f"Năm học cần có dạng 2026-2027, nhận được {year[:32]!r}: hãy sửa lại."
                return _form(request, account, year, {"school_year": told})
            files = files_of(form, "file")
            if not files:
                raise BadRequest("Chưa chọn tệp: hãy chọn danh sách CSV hoặc Excel (.xlsx).")
            filename = safe_name(files[0].filename or "")
            content = await files[0].read()
        roster = await asyncio.to_thread(read_roster, content, filename)
        token = await asyncio.to_thread(_keep, request, account, filename, roster, year)
    except (BadRequest, DocumentTooLarge) as error:
        return _form(request, account, year, {"file": str(error)})
    return go(f"/admin/import/{token}")


@router.get("/admin/import/{token}", response_class=HTMLResponse)
def preview_page(request: Request, services: Services, account: Admin, token: str) -> Response:
    """What the import would do by now; once it is done, what it did."""
    pending = request.app.state.imports.get(account, token)
    if pending.result is not None:
        return _result(request, account, token, pending)
    # The school may have changed since the upload.
    shown = pending.preview
    pending.preview = preview_import(services.database, shown.roster, shown.school_year)
    return _preview(request, account, token, pending)


@router.post("/admin/import/{token}/confirm", response_class=HTMLResponse)
def confirm(request: Request, services: Services, account: Admin, token: str, digest: Text = "") -> Response:
    """Carries out what was shown, once; a second click finds it done."""
    pending = request.app.state.imports.get(account, token)
    with pending.lock:
        if pending.result is None:
            try:
                if digest != pending.preview.digest:
                    raise SchoolChanged("Bản xem trước này đã cũ: hãy xem lại rồi xác nhận.")
                pending.result = import_roster(services.database, account.public_id, pending.preview)
            except SchoolChanged as error:
                shown = pending.preview
                pending.preview = preview_import(services.database, shown.roster, shown.school_year)
                return _preview(request, account, token, pending, str(error))
    return go(f"/admin/import/{token}")


@router.post("/admin/import/{token}/cancel")
def cancel(request: Request, account: Admin, token: str) -> Response:
    """Forgets the roster; nothing was written."""
    request.app.state.imports.get(account, token)
    request.app.state.imports.drop(account)
    return go("/admin/import", "Đã bỏ danh sách, không ghi gì.")


@router.get("/admin/import/{token}/report.csv")
def report(request: Request, account: Admin, token: str) -> Response:
    """What becomes, or became, of every line."""
    pending = request.app.state.imports.get(account, token)
    shown = pending.result.preview if pending.result is not None else pending.preview
    return _csv(result_csv(shown.roster, shown.plan), "ket-qua-nhap.csv")


@router.post("/admin/import/{token}/passwords.csv")
def passwords(request: Request, account: Admin, token: str) -> Response:
    """The initial passwords of the new people: given once, then forgotten."""
    pending = request.app.state.imports.get(account, token)
    with pending.lock:
        if pending.result is None or pending.passwords_taken or not pending.result.passwords:
            raise NotFound(
                "Mật khẩu ban đầu đã được tải về và không còn ở máy chủ: hãy in phiếu mới ở trang của từng lớp."
            )
        content = passwords_csv(pending.result.passwords)
        pending.result, pending.passwords_taken = Imported(pending.result.preview, ()), True
    return _csv(content, "mat-khau-ban-dau.csv")


def _keep(request: Request, account: Account, filename: str, roster: Roster, year: str) -> str:
    preview = preview_import(request.app.state.services.database, roster, year)
    return request.app.state.imports.put(account, filename, preview)


def _form(request: Request, account: Account, year: str, errors: dict[str, str] | None = None) -> Response:
    return render(
        request,
        "admin_import.html",
        account,
        status=400 if errors else 200,
        year=year,
        errors=errors or {},
        max_mb=MAX_FILE_BYTES / 1e6,
    )


def _preview(request: Request, account: Account, token: str, pending: PendingImport, changed: str = "") -> Response:
    shown = pending.preview
    return render(
        request,
        "admin_import_preview.html",
        account,
        status=409 if changed else 200,
        token=token,
        filename=pending.filename,
        shown=shown,
        created=Counter(row.role for row in shown.plan.create),
        changes=[
            (match.person.full_name, [(each.field, _told(each.before), _told(each.after)) for each in match.changes])
            for match in shown.plan.update[:100]
        ],
        errors=[each for each in shown.roster.problems if not each.is_warning],
        warnings=[each for each in shown.roster.problems if each.is_warning],
        changed=changed,
    )


def _result(request: Request, account: Account, token: str, pending: PendingImport) -> Response:
    assert pending.result is not None, "asked for the result of an import that is not done"
    return render(
        request,
        "admin_import_result.html",
        account,
        token=token,
        done=pending.result.preview,
        passwords=len(pending.result.passwords),
        passwords_taken=pending.passwords_taken,
        left_out=sum(not each.is_warning for each in pending.result.preview.roster.problems)
        + len(pending.result.preview.plan.conflicts),
    )


def _told(value: Any) -> str:
    """A field of a person as people read it."""
    if isinstance(value, Teaching):
        return value.class_name
    if isinstance(value, tuple):
        return ", ".join(_told(part) for part in value)
    return f"{value:%d/%m/%Y}" if isinstance(value, date) else str(value or "")


def _csv(content: bytes, filename: str) -> Response:
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{filename}"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)
