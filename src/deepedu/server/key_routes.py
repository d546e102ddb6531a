"""The page on which teachers and admins make and revoke the keys of programs."""

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from deepedu.school.accounts import Account
from deepedu.school.api_keys import LONGEST_LABEL, create_key, keys_of, revoke_key
from deepedu.school.people import BadField
from deepedu.server.access import Staff, serves_https
from deepedu.server.openai_routes import MODEL
from deepedu.server.pages import go, render
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False)


@router.get("/keys", response_class=HTMLResponse)
def keys_page(request: Request, services: Services, account: Staff) -> Response:
    """The keys, and a form for a new one."""
    return _keys(request, services, account)


@router.post("/keys", response_class=HTMLResponse)
def make_key(
    request: Request, services: Services, account: Staff, label: Annotated[str, Form(max_length=1000)] = ""
) -> Response:
    """Makes a key. The answer shows it, and nothing shows it again."""
    try:
        with services.database.write() as session:
            key = create_key(session, account.id, label)
    except BadField as error:
        return _keys(request, services, account, label=label, error=error)
    return _keys(request, services, account, fresh=key)


@router.post("/keys/{key_id:int}/revoke")
def take_key_back(services: Services, account: Staff, key_id: int) -> Response:
    """Revokes a key."""
    with services.database.write() as session:
        revoke_key(session, account, key_id)
    return go("/keys", "Đã thu hồi khóa: chương trình dùng khóa đó không hỏi được nữa.")


def _keys(
    request: Request,
    services: Any,
    account: Account,
    *,
    label: str = "",
    fresh: str | None = None,
    error: BadField | None = None,
) -> Response:
    address = request.base_url.replace(scheme="https") if serves_https(services.settings) else request.base_url
    return render(
        request,
        "keys.html",
        account,
        status=error.http_status if error else 200,
        keys=keys_of(services.database, account),
        fresh=fresh,
        label=label,
        longest=LONGEST_LABEL,
        base_url=f"{address}v1",
        model=MODEL,
        errors={error.field: str(error)} if error else {},
    )
