"""The classes of the school for its admin: made, changed, filled, moved up, and their initial passwords on paper."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.school import class_changes
from deepedu.school.accounts import Account
from deepedu.school.class_changes import ClassForm, Enrolled
from deepedu.school.classes import POLICIES, class_for, members
from deepedu.school.directory import count_unused
from deepedu.school.people import BadField, renew_unused
from deepedu.server.access import Admin
from deepedu.server.admin_routes import Search, Text, Texts, present_year
from deepedu.server.pages import go, render
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False)


@router.get("/admin/classes", response_class=HTMLResponse)
def classes_page(request: Request, services: Services, account: Admin, year: Search = "") -> Response:
    """The classes of a school year, and a form for a new one."""
    return _classes(request, services, account, year, ClassForm("", present_year(services)))


@router.post("/admin/classes", response_class=HTMLResponse)
def add_class(
    request: Request,
    services: Services,
    account: Admin,
    name: Text = "",
    school_year: Text = "",
    grade: Text = "",
    policy: Text = "tutor",
) -> Response:
    """Makes a class."""
    form = ClassForm(name, school_year, grade, policy)
    try:
        class_id = class_changes.add_class(services.database, account.public_id, form)
    except BadField as error:
        return _classes(request, services, account, "", form, error)
    return go(f"/admin/classes/{class_id}", "Đã tạo lớp. Hãy thêm giáo viên và học sinh.")


def _classes(
    request: Request, services: Any, account: Account, year: str, form: ClassForm, error: BadField | None = None
) -> Response:
    every = class_changes.list_classes(services.database)
    years = sorted({each.school_year for each in every}, reverse=True)
    chosen = year if year in years else next((each for each in (present_year(services), *years) if each in years), "")
    return render(
        request,
        "admin_classes.html",
        account,
        status=error.http_status if error else 200,
        classes=[each for each in every if each.school_year == chosen],
        years=years,
        year=chosen,
        form=form,
        policies=POLICIES,
        errors={error.field: str(error)} if error else {},
    )


@router.get("/admin/classes/{class_id:int}", response_class=HTMLResponse)
def class_page(request: Request, services: Services, account: Admin, class_id: int) -> Response:
    """A class with its members, and forms to change it."""
    return _class(request, services, account, class_id)


@router.post("/admin/classes/{class_id:int}", response_class=HTMLResponse)
def change_class(
    request: Request,
    services: Services,
    account: Admin,
    class_id: int,
    name: Text = "",
    school_year: Text = "",
    grade: Text = "",
    policy: Text = "",
) -> Response:
    """Changes name, school year, grade or policy."""
    form = ClassForm(name, school_year, grade, policy)
    try:
        changed = class_changes.change_class(services.database, account.public_id, class_id, form)
    except BadField as error:
        return _class(request, services, account, class_id, form=form, error=error)
    return go(f"/admin/classes/{class_id}", "Đã lưu." if changed else "Không có gì thay đổi.")


@router.post("/admin/classes/{class_id:int}/members", response_class=HTMLResponse)
def add_members(request: Request, services: Services, account: Admin, class_id: int, who: Text = "") -> Response:
    """Adds pupils and teachers by username or code; tells whom it does not know."""
    try:
        done: Enrolled = class_changes.add_members(services.database, account.public_id, class_id, who)
    except BadField as error:
        return _class(request, services, account, class_id, error=error, who=who)
    if done.unknown:
        told = f"Đã thêm {done.added} người. Không tìm thấy học sinh hay giáo viên: {', '.join(done.unknown)}."
        left = "\n".join(done.unknown)
        return _class(request, services, account, class_id, error=BadField("who", told), who=left)
    return go(f"/admin/classes/{class_id}", f"Đã thêm {done.added} người vào lớp.")


@router.post("/admin/classes/{class_id:int}/members/{public_id}/leave")
def remove_member(services: Services, account: Admin, class_id: int, public_id: str) -> Response:
    """Takes somebody out of the class."""
    class_changes.remove_member(services.database, account.public_id, class_id, public_id)
    return go(f"/admin/classes/{class_id}", "Đã đưa ra khỏi lớp. Thêm lại bằng tên đăng nhập nếu nhầm.")


def _class(
    request: Request,
    services: Any,
    account: Account,
    class_id: int,
    *,
    form: ClassForm | None = None,
    error: BadField | None = None,
    who: str = "",
) -> Response:
    classroom = class_for(services.database, account, class_id)
    return render(
        request,
        "admin_class.html",
        account,
        status=error.http_status if error else 200,
        classroom=classroom,
        form=form or _form_of(classroom),
        teachers=members(services.database, class_id, "teacher"),
        students=members(services.database, class_id, "student"),
        unused=count_unused(services.database, class_id),
        policies=POLICIES,
        who=who,
        errors={error.field: str(error)} if error else {},
    )


def _form_of(classroom: Any) -> ClassForm:
    return ClassForm(classroom.name, classroom.school_year, str(classroom.grade or ""), classroom.policy)


# --- Moving up -------------------------------------------------------------------------------------------------------


@router.get("/admin/classes/{class_id:int}/move-up", response_class=HTMLResponse)
def move_up_page(request: Request, services: Services, account: Admin, class_id: int) -> Response:
    """Asks for the name of the next year, and who comes along."""
    classroom = class_for(services.database, account, class_id)
    return _move_up(request, services, account, class_id, class_changes.next_year(_form_of(classroom)), None)


@router.post("/admin/classes/{class_id:int}/move-up", response_class=HTMLResponse)
def move_up(
    request: Request,
    services: Services,
    account: Admin,
    class_id: int,
    name: Text = "",
    school_year: Text = "",
    grade: Text = "",
    staying: Texts = [],  # noqa: B006 - FastAPI copies defaults.
) -> Response:
    """Moves the class to the next school year."""
    form = ClassForm(name, school_year, grade, class_for(services.database, account, class_id).policy)
    try:
        came, left = class_changes.move_up(services.database, account.public_id, class_id, form, frozenset(staying))
    except BadField as error:
        return _move_up(request, services, account, class_id, form, frozenset(staying), error)
    return go(f"/admin/classes/{class_id}", f"Lớp đã lên năm học mới: {came} người đi cùng, {left} người rời lớp.")


def _move_up(
    request: Request,
    services: Any,
    account: Account,
    class_id: int,
    form: ClassForm,
    staying: frozenset[str] | None,
    error: BadField | None = None,
) -> Response:
    return render(
        request,
        "admin_class_up.html",
        account,
        status=error.http_status if error else 200,
        classroom=class_for(services.database, account, class_id),
        form=form,
        teachers=members(services.database, class_id, "teacher"),
        students=members(services.database, class_id, "student"),
        staying=staying,
        errors={error.field: str(error)} if error else {},
    )


# --- Initial passwords on paper --------------------------------------------------------------------------------------


@router.get("/admin/classes/{class_id:int}/passwords", response_class=HTMLResponse)
def passwords_page(request: Request, services: Services, account: Admin, class_id: int) -> Response:
    """Says what printing does, and asks."""
    classroom = class_for(services.database, account, class_id)
    unused = count_unused(services.database, class_id)
    return render(request, "admin_slips_ask.html", account, classroom=classroom, unused=unused)


@router.post("/admin/classes/{class_id:int}/passwords", response_class=HTMLResponse)
def print_passwords(request: Request, services: Services, account: Admin, class_id: int) -> Response:
    """Makes new initial passwords for who never changed theirs; the answer is the paper to cut."""
    classroom = class_for(services.database, account, class_id)
    slips = renew_unused(services.database, account.public_id, class_id)
    # Of an admin at the server itself the address would lead pupils to their own machine.
    address = "" if request.url.hostname in ("127.0.0.1", "::1", "localhost") else str(request.base_url)
    return render(request, "admin_slips.html", account, classroom=classroom, slips=slips, address=address)
