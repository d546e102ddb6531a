"""The audit log for admins: looking things up in it, checking its chain, taking it out as CSV."""

import csv
import io
from collections.abc import Iterator
from datetime import date
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.responses import Response

from deepedu.base.errors import StoreError
from deepedu.school import audit
from deepedu.school.audit_search import AuditFilter, actions, all_entries, find_entries
from deepedu.server.access import Admin
from deepedu.server.pages import is_number, render
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False)
Search = Annotated[str, Query(max_length=200)]
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@router.get("/admin/audit", response_class=HTMLResponse)
def audit_page(
    request: Request,
    services: Services,
    account: Admin,
    person: Search = "",
    action: Search = "",
    first: Search = "",
    last: Search = "",
    before: Search = "",
) -> Response:
    """Entries, newest first, by person, action and day."""
    chosen = {"person": person, "action": action, "first": first, "last": last}
    errors = {name: _DAY for name in ("first", "last") if chosen[name] and _day(chosen[name]) is None}
    return _page(request, services, account, chosen, errors, before=int(before) if is_number(before) else None)


@router.post("/admin/audit/verify", response_class=HTMLResponse)
def verify(request: Request, services: Services, account: Admin) -> Response:
    """Checks the chain of all entries, and says so in it."""
    try:
        count, broken = audit.verify(services.database), None
    except StoreError as error:
        count, broken = 0, str(error)
    told = "broken" if broken else f"{count} entries"
    audit.log(services.database, account.public_id, "audit.verify", "audit", told)
    chosen = {"person": "", "action": "", "first": "", "last": ""}
    return _page(request, services, account, chosen, {}, checked=count, broken=broken)


@router.get("/admin/audit.csv")
def audit_csv(
    services: Services, account: Admin, person: Search = "", action: Search = "", first: Search = "", last: Search = ""
) -> StreamingResponse:
    """The entries that the filter lets through, as CSV; by public ids, without names."""
    wanted = AuditFilter(person, action, _day(first), _day(last))
    audit.log(services.database, account.public_id, "audit.export", "audit")
    headers = {"Content-Disposition": f'attachment; filename="deepedu-audit-{date.today():%Y%m%d}.csv"'}
    headers |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_csv(services, wanted), media_type="text/csv; charset=utf-8", headers=headers)


_DAY = "Ngày cần có dạng năm-tháng-ngày, ví dụ 2026-11-30: hãy sửa lại."


def _page(
    request: Request,
    services: Services,
    account: Admin,
    chosen: dict[str, str],
    errors: dict[str, str],
    *,
    before: int | None = None,
    checked: int | None = None,
    broken: str | None = None,
) -> Response:
    wanted = AuditFilter(chosen["person"], chosen["action"], _day(chosen["first"]), _day(chosen["last"]))
    found = find_entries(services.database, wanted, before=before)
    if found.is_unknown:
        errors = {**errors, "person": "Không có ai với tên đăng nhập, mã số hay số định danh này."}
    return render(
        request,
        "audit.html",
        account,
        status=400 if errors else 200,
        found=found,
        chosen=chosen,
        query=urlencode({name: value for name, value in chosen.items() if value}),
        actions=actions(services.database),
        errors=errors,
        is_first=before is None,
        checked=checked,
        broken=broken,
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _csv(services: Services, wanted: AuditFilter) -> Iterator[bytes]:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("number", "at", "actor", "action", "subject", "detail"))
    # Excel takes UTF-8 for what it is only with this mark.
    yield b"\xef\xbb\xbf"
    for entry in all_entries(services.database, wanted):
        at = entry.at.astimezone().isoformat(timespec="seconds")
        writer.writerow(map(_cell, (entry.number, at, entry.actor, entry.action, entry.subject, entry.detail)))
        if out.tell() > 1 << 16:
            yield out.getvalue().encode()
            out.seek(0)
            out.truncate()
    yield out.getvalue().encode()


def _cell(value: object) -> str:
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
