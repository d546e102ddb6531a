"""Consent: a guardian gives and withdraws it, a class's signed papers are recorded, papers are printed."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.datastructures import FormData
from starlette.responses import Response

from deepedu.base.errors import BadRequest
from deepedu.school.accounts import Account
from deepedu.school.classes import children_of, class_for, student_for
from deepedu.school.consent import (
    ConsentText,
    PaperForm,
    StudentConsent,
    class_consents,
    consent_text,
    consents_of,
    give_consent,
    needs_assent,
    record_forms,
    withdraw_consent,
)
from deepedu.school.directory import person_detail
from deepedu.school.erasure import request_erasure, requested_erasures
from deepedu.server.access import Admin, Guardian, Staff
from deepedu.server.pages import go, render
from deepedu.server.tutor_routes import Services
from deepedu.store.tables import now

router = APIRouter(include_in_schema=False)
Text = Annotated[str, Form(max_length=300)]
Search = Annotated[str, Query(max_length=200)]
CHANGED = "Bản giải thích vừa thay đổi từ khi trang này mở ra: hãy đọc lại rồi gửi lại."
UNSURE = "Chưa đánh dấu ô xác nhận: hãy đánh dấu nếu thật sự muốn làm việc này."


async def _form(request: Request) -> AsyncIterator[FormData]:
    async with request.form() as form:
        yield form


Fields = Annotated[FormData, Depends(_form)]


# --- Guardians -------------------------------------------------------------------------------------------------------


@router.get("/family/consent/{public_id}", response_class=HTMLResponse)
def family_consent(request: Request, services: Services, account: Guardian, public_id: str) -> Response:
    """A child's consent: the text, where it stands, giving and withdrawing."""
    return _family_page(request, services, account, student_for(services.database, account, public_id))


@router.post("/family/consent/{public_id}", response_class=HTMLResponse)
def family_give(
    request: Request,
    services: Services,
    account: Guardian,
    public_id: str,
    text: Text = "",
    agreed: Text = "",
    assented: Text = "",
) -> Response:
    """Gives consent, to the text that was on the page."""
    child = student_for(services.database, account, public_id)
    shown = consent_text(services.settings, account.language)
    try:
        _check_shown(text, shown)
        if not agreed:
            raise BadRequest("Chưa đánh dấu “Tôi đồng ý”: hãy đánh dấu nếu đồng ý.")
        give_consent(
            services.database,
            child,
            shown,
            guardian_name=account.full_name,
            assented=bool(assented),
            by=account,
            guardian=account,
        )
    except BadRequest as error:
        return _family_page(request, services, account, child, error=str(error))
    return go(f"/family/consent/{public_id}", f"Đã ghi nhận đồng ý cho {child.full_name}.")


@router.post("/family/consent/{public_id}/withdraw", response_class=HTMLResponse)
def family_withdraw(
    request: Request, services: Services, account: Guardian, public_id: str, sure: Text = ""
) -> Response:
    """Withdraws consent; the tutor takes no more questions from this moment."""
    child = student_for(services.database, account, public_id)
    if not sure:
        return _family_page(request, services, account, child, error=UNSURE)
    withdraw_consent(services.database, child, by=account)
    return go(f"/family/consent/{public_id}", "Đã rút lại sự đồng ý. Gia sư không nhận câu hỏi của con nữa.")


@router.post("/family/consent/{public_id}/erasure", response_class=HTMLResponse)
def family_erasure(
    request: Request, services: Services, account: Guardian, public_id: str, sure: Text = ""
) -> Response:
    """Asks the school to erase everything about a child."""
    child = student_for(services.database, account, public_id)
    if not sure:
        return _family_page(request, services, account, child, error=UNSURE)
    request_erasure(services.database, child, by=account)
    return go(f"/family/consent/{public_id}", "Đã gửi yêu cầu xóa dữ liệu tới nhà trường.")


# --- Teachers and admins: consents of a class ------------------------------------------------------------------------


@router.get("/privacy/classes/{class_id}", response_class=HTMLResponse)
def class_page(request: Request, services: Services, account: Staff, class_id: int) -> Response:
    """Who of a class has consent, and the form to record signed papers."""
    return _class_page(request, services, account, class_id)


@router.post("/privacy/classes/{class_id}", response_class=HTMLResponse)
def class_record(request: Request, services: Services, account: Staff, class_id: int, fields: Fields) -> Response:
    """Records signed papers; first shows what would be recorded."""
    classroom = class_for(services.database, account, class_id)
    pupils = {each.student.public_id: each for each in class_consents(services.database, class_id)}
    forms = [
        PaperForm(public_id, str(fields.get(f"name.{public_id}", "")), f"assent.{public_id}" in fields)
        for public_id in map(str, fields.getlist("chosen"))
        if public_id in pupils
    ]
    shown = consent_text(services.settings)
    try:
        _check_shown(str(fields.get("text", "")), shown)
        if "sure" in fields:
            count = record_forms(services.database, forms, shown, by=account)
            return go(f"/privacy/classes/{class_id}", f"Đã ghi nhận {count} giấy đồng ý.")
        _check_forms(forms, pupils)
    except BadRequest as error:
        filled = {form.public_id: form for form in forms}
        return _class_page(request, services, account, class_id, error=str(error), filled=filled)
    listed = [(pupils[form.public_id], form) for form in forms]
    return render(request, "privacy_class_confirm.html", account, classroom=classroom, listed=listed, text=shown)


@router.post("/privacy/classes/{class_id}/withdraw", response_class=HTMLResponse)
def class_withdraw(
    request: Request, services: Services, account: Staff, class_id: int, public_id: Text = "", sure: Text = ""
) -> Response:
    """Records that a guardian withdrew in writing."""
    class_for(services.database, account, class_id)
    found = [each.student for each in class_consents(services.database, class_id) if each.in_force is not None]
    student = next((each for each in found if each.public_id == public_id), None)
    if student is None or not sure:
        error = "Chưa chọn học sinh nào đang có đồng ý." if student is None else UNSURE
        return _class_page(request, services, account, class_id, error=error)
    withdraw_consent(services.database, student, by=account)
    return go(f"/privacy/classes/{class_id}", f"Đã ghi nhận rút lại đồng ý cho {student.full_name}.")


@router.get("/privacy/classes/{class_id}/forms", response_class=HTMLResponse)
def class_forms(
    request: Request,
    services: Services,
    account: Staff,
    class_id: int,
    who: Search = "lacking",
    language: Search = "vi",
) -> Response:
    """Papers to print and sign: for pupils without consent, for all (``who=all``), or for one (``who=<public id>``)."""
    classroom = class_for(services.database, account, class_id)
    pupils = class_consents(services.database, class_id)
    if who == "lacking":
        pupils = [each for each in pupils if each.in_force is None]
    elif who != "all":
        pupils = [each for each in pupils if each.student.public_id == who]
    text = consent_text(services.settings, "en" if language == "en" else "vi")
    return render(request, "privacy_form.html", account, classroom=classroom, pupils=pupils, text=text)


# --- Admins: one pupil ------------------------------------------------------------------------------------------------


@router.post("/admin/privacy/people/{public_id}/consent")
def person_record(
    services: Services, account: Admin, public_id: str, text: Text = "", name: Text = "", assented: Text = ""
) -> Response:
    """Records one signed paper."""
    student = student_for(services.database, account, public_id)
    shown = consent_text(services.settings)
    _check_shown(text, shown)
    give_consent(services.database, student, shown, guardian_name=name, assented=bool(assented), by=account)
    return go(f"/admin/privacy/people/{public_id}", "Đã ghi nhận giấy đồng ý.")


@router.post("/admin/privacy/people/{public_id}/withdraw")
def person_withdraw(services: Services, account: Admin, public_id: str, sure: Text = "") -> Response:
    """Records that a guardian withdrew in writing."""
    student = student_for(services.database, account, public_id)
    if not sure:
        raise BadRequest(UNSURE)
    withdraw_consent(services.database, student, by=account)
    return go(f"/admin/privacy/people/{public_id}", "Đã ghi nhận rút lại đồng ý.")


# --- Parts -----------------------------------------------------------------------------------------------------------


def _check_shown(name: str, shown: ConsentText) -> None:
    if name != shown.name:
        raise BadRequest(CHANGED)


def _check_forms(forms: list[PaperForm], pupils: dict[str, StudentConsent]) -> None:
    """What ``record_forms`` would refuse, told before the page that asks whether one is sure."""
    if not forms:
        raise BadRequest("Chưa chọn học sinh nào: hãy đánh dấu những em đã nộp giấy đồng ý.")
    for form in forms:
        one = pupils[form.public_id]
        if not form.guardian_name.strip():
            raise BadRequest(f"Chưa có họ tên người giám hộ đã ký cho {one.student.full_name}: hãy ghi như trên giấy.")
        if one.needs_assent and not form.assented:
            raise BadRequest(f"{one.student.full_name}: chưa đánh dấu là em tự mình đồng ý. Từ 7 tuổi cần cả hai.")


def _family_page(request: Request, services: Any, account: Account, child: Account, error: str = "") -> Response:
    database = services.database
    consents = consents_of(database, child)
    requested = [person.id for person, _ in requested_erasures(database)]
    return render(
        request,
        "privacy_family.html",
        account,
        status=400 if error else 200,
        child=child,
        siblings=[each for each in children_of(database, account) if each.id != child.id],
        text=consent_text(services.settings, account.language),
        consents=consents,
        in_force=next((each for each in consents if each.withdrawn_at is None), None),
        asks_child=needs_assent(person_detail(database, child.public_id).birth_date, now().astimezone().date()),
        is_requested=child.id in requested,
        transcripts=services.settings.school.guardian_transcripts,
        error=error,
    )


def _class_page(
    request: Request,
    services: Any,
    account: Account,
    class_id: int,
    *,
    error: str = "",
    filled: dict[str, PaperForm] | None = None,
) -> Response:
    classroom = class_for(services.database, account, class_id)
    return render(
        request,
        "privacy_class.html",
        account,
        status=400 if error else 200,
        classroom=classroom,
        pupils=class_consents(services.database, class_id),
        text=consent_text(services.settings),
        error=error,
        filled=filled or {},
    )
