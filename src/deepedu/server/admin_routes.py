"""The school admin's first page, and the people of the school: found, made, changed, locked, given a new password."""

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.base.errors import BadRequest
from deepedu.school import people
from deepedu.school.accounts import ROLES, Account
from deepedu.school.class_changes import add_members, list_classes, remove_member
from deepedu.school.classes import school_year_of
from deepedu.school.directory import STATES, find_people, person_detail
from deepedu.school.linked_accounts import unlink
from deepedu.school.overview import overview
from deepedu.school.people import STAFF, BadField, Details
from deepedu.server.access import Admin
from deepedu.server.pages import go, render
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False)
Text = Annotated[str, Form(max_length=1000)]
Texts = Annotated[list[str], Form(max_length=2000)]
Search = Annotated[str, Query(max_length=200)]


def present_year(services: Any) -> str:
    """The school year that new classes are of."""
    return services.settings.school.school_year or school_year_of(date.today())


@router.get("/admin", response_class=HTMLResponse)
def home(request: Request, services: Services, account: Admin) -> Response:
    """The school at a glance, and what is left to do."""
    year = present_year(services)
    school = services.settings.school
    return render(
        request,
        "admin.html",
        account,
        overview=overview(services.database, year),
        year=year,
        needs_consent=school.needs_consent,
    )


# --- Finding ---------------------------------------------------------------------------------------------------------


@router.get("/admin/people", response_class=HTMLResponse)
def people_page(
    request: Request,
    services: Services,
    account: Admin,
    words: Search = "",
    role: Search = "",
    class_id: Search = "",
    state: Search = "",
    page: Search = "1",
) -> Response:
    """The people, found by name, username or code, role, class and state."""
    found = find_people(
        services.database,
        words=words,
        role=role,
        class_id=_number(class_id),
        state=state,
        page=_number(page) or 1,
    )
    chosen = {"words": words, "role": role, "class_id": class_id, "state": state}
    classes = list_classes(services.database)
    return render(
        request, "admin_people.html", account, found=found, chosen=chosen, classes=classes, roles=ROLES, states=STATES
    )


# --- Making ----------------------------------------------------------------------------------------------------------


@router.get("/admin/people/new", response_class=HTMLResponse)
def new_person_page(request: Request, services: Services, account: Admin) -> Response:
    """The form for a new account."""
    return _new_person(request, services, account, Details("", ""), "student", "")


@router.post("/admin/people/new", response_class=HTMLResponse)
def new_person(
    request: Request,
    services: Services,
    account: Admin,
    role: Text = "",
    full_name: Text = "",
    username: Text = "",
    code: Text = "",
    email: Text = "",
    phone: Text = "",
    class_id: Text = "",
) -> Response:
    """Makes an account; the answer shows its initial password, once."""
    details = Details(full_name, username, code, email, phone)
    joined = _number(class_id)
    try:
        if joined is not None and role not in ("student", "teacher"):
            raise BadField("class_id", "Chỉ học sinh và giáo viên thuộc về một lớp: hãy bỏ chọn lớp.")
        class_ids = () if joined is None else (joined,)
        slip = people.add_person(services.database, account.public_id, role, details, class_ids=class_ids)
    except BadField as error:
        return _new_person(request, services, account, details, role, class_id, error)
    return render(request, "admin_password.html", account, slip=slip, is_new=True)


def _new_person(
    request: Request,
    services: Any,
    account: Account,
    details: Details,
    role: str,
    class_id: str,
    error: BadField | None = None,
) -> Response:
    return render(
        request,
        "admin_person_new.html",
        account,
        status=error.http_status if error else 200,
        details=details,
        role=role,
        class_id=class_id,
        roles=ROLES,
        classes=list_classes(services.database, present_year(services)),
        errors=_errors(error),
    )


# --- One person ------------------------------------------------------------------------------------------------------


@router.get("/admin/people/{public_id}", response_class=HTMLResponse)
def person_page(request: Request, services: Services, account: Admin, public_id: str) -> Response:
    """Everything of a person, with forms to change it."""
    return _person(request, services, account, public_id)


@router.post("/admin/people/{public_id}", response_class=HTMLResponse)
def change_person(
    request: Request,
    services: Services,
    account: Admin,
    public_id: str,
    full_name: Text = "",
    username: Text = "",
    code: Text = "",
    email: Text = "",
    phone: Text = "",
    role: Text = "",
) -> Response:
    """Changes name, username, code, e-mail, phone or, among the staff, the role."""
    details = Details(full_name, username, code, email, phone)
    try:
        changed = people.change_person(services.database, account.public_id, public_id, details, role)
    except BadField as error:
        return _person(request, services, account, public_id, error=error, details=details)
    return go(f"/admin/people/{public_id}", "Đã lưu." if changed else "Không có gì thay đổi.")


@router.post("/admin/people/{public_id}/password", response_class=HTMLResponse)
def reset_password(request: Request, services: Services, account: Admin, public_id: str) -> Response:
    """Gives a new initial password; the answer shows it, once, and nothing keeps it."""
    slip = people.reset_password(services.database, account.public_id, public_id)
    return render(request, "admin_password.html", account, slip=slip, is_new=False)


@router.post("/admin/people/{public_id}/lock", response_class=HTMLResponse)
def lock(request: Request, services: Services, account: Admin, public_id: str) -> Response:
    """Takes an account out of use."""
    try:
        people.lock(services.database, account.public_id, public_id)
    except BadRequest as error:
        return _person(request, services, account, public_id, error=BadField("lock", str(error)))
    return go(f"/admin/people/{public_id}", "Đã khóa tài khoản và đăng xuất khỏi mọi thiết bị.")


@router.post("/admin/people/{public_id}/unlock")
def unlock(services: Services, account: Admin, public_id: str) -> Response:
    """Takes an account into use again."""
    people.unlock(services.database, account.public_id, public_id)
    return go(f"/admin/people/{public_id}", "Đã mở khóa tài khoản.")


@router.post("/admin/people/{public_id}/sign-out")
def sign_out(services: Services, account: Admin, public_id: str) -> Response:
    """Signs all browsers of a person out."""
    count = people.sign_out(services.database, account.public_id, public_id)
    return go(f"/admin/people/{public_id}", f"Đã đăng xuất khỏi {count} thiết bị.")


@router.post("/admin/people/{public_id}/unlink")
def unlink_account(services: Services, account: Admin, public_id: str) -> Response:
    """Forgets which account elsewhere a person signs in with."""
    with services.database.write() as session:
        unlink(session, account.public_id, public_id)
    return go(f"/admin/people/{public_id}", "Đã bỏ liên kết. Lần đăng nhập tới sẽ được nối lại theo tên.")


@router.post("/admin/people/{public_id}/classes")
def join_class(services: Services, account: Admin, public_id: str, class_id: Text = "") -> Response:
    """Adds a pupil or teacher to a class."""
    address = f"/admin/people/{public_id}"
    username = person_detail(services.database, public_id).listed.account.username
    chosen = _number(class_id)
    if chosen is None:
        return go(address, "Chưa chọn lớp.")
    done = add_members(services.database, account.public_id, chosen, username)
    if done.unknown:
        return go(address, "Chỉ học sinh và giáo viên thuộc về một lớp.")
    return go(address, "Đã thêm vào lớp." if done.added else "Đã ở trong lớp này từ trước.")


@router.post("/admin/people/{public_id}/classes/{class_id:int}/leave")
def leave_class(services: Services, account: Admin, public_id: str, class_id: int) -> Response:
    """Takes somebody out of a class."""
    remove_member(services.database, account.public_id, class_id, public_id)
    return go(f"/admin/people/{public_id}", "Đã đưa ra khỏi lớp. Thêm lại bằng mẫu bên dưới nếu nhầm.")


@router.post("/admin/people/{public_id}/guardians", response_class=HTMLResponse)
def add_guardian(request: Request, services: Services, account: Admin, public_id: str, who: Text = "") -> Response:
    """Lets a guardian see a pupil's progress."""
    try:
        other = people.tie(services.database, account.public_id, public_id, who)
    except BadField as error:
        return _person(request, services, account, public_id, error=error, who=who)
    return go(f"/admin/people/{public_id}", f"Đã nối với {other.full_name}.")


@router.post("/admin/people/{public_id}/guardians/{other_id}/revoke")
def revoke_guardian(services: Services, account: Admin, public_id: str, other_id: str) -> Response:
    """Takes a guardian's access away at once."""
    people.untie(services.database, account.public_id, public_id, other_id)
    return go(f"/admin/people/{public_id}", "Đã thu hồi quyền xem; có hiệu lực ngay.")


def _person(
    request: Request,
    services: Any,
    account: Account,
    public_id: str,
    *,
    error: BadField | None = None,
    details: Details | None = None,
    who: str = "",
) -> Response:
    person = person_detail(services.database, public_id)
    known = person.listed.account
    present = Details(known.full_name, known.username, person.listed.code or "", person.email or "", person.phone or "")
    mine = {class_id for class_id, _ in person.classes}
    classes = [each for each in list_classes(services.database) if each.id not in mine]
    return render(
        request,
        "admin_person.html",
        account,
        status=error.http_status if error else 200,
        person=person,
        details=details or present,
        classes=classes,
        is_staff=known.role in STAFF,
        staff=STAFF,
        who=who,
        errors=_errors(error),
    )


def _errors(error: BadField | None) -> dict[str, str]:
    return {error.field: str(error)} if error else {}


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= 9 else None
