"""Personal data: the file of everything that is kept about a person, erasing, and how long data are kept.

Whoever takes a file out, and every change, stands in the audit log.
"""

import logging
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Form, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.responses import RedirectResponse, Response

from deepedu.base.errors import BadRequest, DeepEduError, NotFound
from deepedu.school import audit
from deepedu.school.accounts import Account
from deepedu.school.classes import student_for
from deepedu.school.consent import consent_overview, consent_text, consents_of, needs_assent, withdrawn_students
from deepedu.school.directory import find_people, person_detail
from deepedu.school.erasure import (
    CHOSEN_REASONS,
    Certificate,
    certificates,
    erase,
    reason_of,
    requested_erasures,
)
from deepedu.school.personal_file import file_name, personal_file
from deepedu.school.retention import COPY_DAYS, last_run, run_retention
from deepedu.server.access import Admin, Anyone, Guardian
from deepedu.server.pages import go, render
from deepedu.server.tutor_routes import Services
from deepedu.store.tables import now

router = APIRouter(include_in_schema=False)
log = logging.getLogger(__name__)
Text = Annotated[str, Form(max_length=300)]
Search = Annotated[str, Query(max_length=200)]


# --- Everybody: one's own --------------------------------------------------------------------------------------------


@router.get("/me/privacy", response_class=HTMLResponse)
def own_privacy(request: Request, services: Services, account: Anyone) -> Response:
    """What is kept about who is signed in, for how long, and how to get it."""
    consents = consents_of(services.database, account) if account.role == "student" else []
    return render(
        request,
        "privacy_me.html",
        account,
        text=consent_text(services.settings, account.language),
        in_force=next((each for each in consents if each.withdrawn_at is None), None),
    )


@router.get("/me/export")
def own_file(services: Services, account: Anyone) -> StreamingResponse:
    """Everything that is kept about who is signed in."""
    return _file(services, account, account)


@router.get("/family/export/{public_id}")
def family_file(services: Services, account: Guardian, public_id: str) -> StreamingResponse:
    """A child's file; with conversations only where the school lets guardians read them."""
    child = student_for(services.database, account, public_id)
    transcripts = services.settings.school.guardian_transcripts
    return _file(services, account, child, for_guardian=True, transcripts=transcripts)


# --- Admins ----------------------------------------------------------------------------------------------------------


@router.get("/admin/privacy", response_class=HTMLResponse)
def overview(request: Request, services: Services, account: Admin, words: Search = "") -> Response:
    """What waits to be done, people to look up, classes without consent, periods, certificates."""
    database = services.database
    return render(
        request,
        "privacy.html",
        account,
        words=words,
        found=find_people(database, words=words) if words.strip() else None,
        requested=requested_erasures(database),
        withdrawn=withdrawn_students(database),
        classes=consent_overview(database),
        needs_consent=services.settings.school.needs_consent,
        periods=services.settings.school,
        copy_days=COPY_DAYS,
        last=last_run(database),
        certificates=certificates(database),
    )


@router.post("/admin/privacy/retention")
def run_now(services: Services, account: Admin, tasks: BackgroundTasks) -> RedirectResponse:
    """Deletes what is too old, now rather than tonight; after the answer, because much may be too old."""
    tasks.add_task(_run_retention, services, account.public_id)
    return go("/admin/privacy", "Đang xóa dữ liệu quá hạn. Tải lại trang sau ít phút để xem kết quả.")


@router.get("/admin/privacy/people/{public_id}", response_class=HTMLResponse)
def person_page(request: Request, services: Services, account: Admin, public_id: str) -> Response:
    """One person: the file, consents, erasing."""
    return _person_page(request, services, account, public_id)


@router.get("/admin/privacy/people/{public_id}/export")
def person_file(services: Services, account: Admin, public_id: str) -> StreamingResponse:
    """Everything that is kept about a person."""
    return _file(services, account, _account(services, public_id))


@router.post("/admin/privacy/people/{public_id}/erase", response_class=HTMLResponse)
def person_erase(
    request: Request, services: Services, account: Admin, public_id: str, username: Text = "", reason: Text = ""
) -> Response:
    """Erases a person for good, if the username was typed."""
    person = _account(services, public_id)
    chosen = reason_of(reason) if reason in CHOSEN_REASONS else None
    errors: dict[str, str] = {}
    if chosen is None:
        errors["reason"] = "Chưa chọn lý do: hãy chọn một lý do."
    if username.strip().casefold() != person.username:
        errors["username"] = "Không đúng tên đăng nhập của người này: hãy gõ lại đúng như trên trang."
    if chosen is None or errors:
        return _person_page(request, services, account, public_id, errors=errors, reason=reason)
    try:
        erase(services.database, public_id, reason=chosen, by=account)
    except BadRequest as error:
        return _person_page(request, services, account, public_id, errors={"username": str(error)}, reason=reason)
    number = next(number for number, each in certificates(services.database).items() if each.person == public_id)
    return go(f"/admin/privacy/certificates/{number}", "Đã xóa hẳn dữ liệu. Hãy in hoặc lưu giấy chứng nhận này.")


@router.get("/admin/privacy/certificates/{number}", response_class=HTMLResponse)
def certificate_page(request: Request, services: Services, account: Admin, number: int) -> Response:
    """The certificate of an erasure, to print."""
    certificate = _certificate(services, number)
    return render(request, "privacy_certificate.html", account, number=number, certificate=certificate)


@router.get("/admin/privacy/certificates/{number}/json")
def certificate_json(services: Services, account: Admin, number: int) -> Response:  # noqa: ARG001
    """The same for programs."""
    headers = {"Content-Disposition": f'attachment; filename="deepedu-erasure-{number}.json"'}
    return Response(_certificate(services, number).to_json(), media_type="application/json", headers=headers)


# --- Parts -----------------------------------------------------------------------------------------------------------


def _file(
    services: Any, viewer: Account, person: Account, *, for_guardian: bool = False, transcripts: bool = True
) -> StreamingResponse:
    at = now()
    pieces = personal_file(services.database, person, for_guardian=for_guardian, transcripts=transcripts, at=at)
    told = "with transcripts" if transcripts else "without transcripts"
    audit.log(services.database, viewer.public_id, "person.export", person.public_id, told)
    headers = {"Content-Disposition": f'attachment; filename="{file_name(person, at)}"'}
    headers |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


def _run_retention(services: Any, actor: str) -> None:
    try:
        run_retention(services.database, services.settings.school, actor=actor)
    except DeepEduError as error:
        # Nobody waits for the end of a task: the page goes on showing the run before.
        log.error("deleting old data: %s", error)


def _account(services: Any, public_id: str) -> Account:
    return person_detail(services.database, public_id).listed.account


def _certificate(services: Any, number: int) -> Certificate:
    found = certificates(services.database).get(number)
    if found is None:
        raise NotFound(f"Không có giấy chứng nhận xóa số {number}.")
    return found


def _person_page(
    request: Request,
    services: Any,
    account: Account,
    public_id: str,
    *,
    errors: dict[str, str] | None = None,
    reason: str = "",
) -> Response:
    detail = person_detail(services.database, public_id)
    person = detail.listed.account
    return render(
        request,
        "privacy_person.html",
        account,
        status=400 if errors else 200,
        detail=detail,
        person=person,
        consents=consents_of(services.database, person) if person.role == "student" else [],
        text=consent_text(services.settings),
        asks_child=needs_assent(detail.birth_date, now().astimezone().date()),
        reasons=CHOSEN_REASONS,
        errors=errors or {},
        reason=reason,
    )
