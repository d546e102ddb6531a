"""Who may use a route. Every route of the application names its roles, or says that it is open to all; an application
with a route that says neither does not start.

A browser proves itself by a cookie, so whatever changes something must come from a page of ours: browsers tell where a
request comes from (``Sec-Fetch-Site``, ``Origin``) and scripts cannot forge it. Programs use an API key instead.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.responses import Response

from deepedu.base.errors import ForeignOrigin, NotAllowed, NotSignedIn
from deepedu.school.accounts import ROLES, Account, Role, signed_in


class _RowNumber(IntegerConvertor):
    """``{name:int}`` in the address of a route: no more digits than a row's number has, or it is no such address."""

    regex = "[0-9]{1,18}"


register_url_convertor("int", _RowNumber())

COOKIE = "deepedu_session"
# The prefix makes browsers refuse the cookie from any other host or over plain http.
SECURE_COOKIE = "__Host-deepedu_session"
_SAFE = ("GET", "HEAD", "OPTIONS")
# Where an account goes that still has its first password.
CHANGE_PASSWORD = "/password"


class MustChangePassword(NotAllowed):
    """Signed in with an initial password: nothing else is open before it was changed."""

    code = "must_change_password"


class Allow:
    """A dependency: lets through who is signed in with one of ``roles``, and gives the account.

    ``open_too``: where the server runs without accounts, lets everybody through, and gives None.
    """

    def __init__(self, *roles: Role, open_too: bool = False, first_password: bool = False) -> None:
        self.roles = frozenset(roles)
        self.open_too = open_too
        self._first_password = first_password

    async def __call__(self, request: Request) -> Account | None:
        services: Any = request.app.state.services
        if services.settings.server.access == "open":
            if self.open_too:
                return None
            raise NotAllowed("Máy chủ này chạy không có tài khoản (server.access = open).")
        token = request.cookies.get(cookie_name(services.settings), "")
        if not token:
            raise NotSignedIn("Cần đăng nhập.")
        hours = services.settings.server.session_hours
        account = await asyncio.to_thread(signed_in, services.database, token, hours=hours)
        check_origin(request)
        if account.role not in self.roles:
            raise NotAllowed("Trang này không dành cho tài khoản của bạn.")
        if account.must_change_password and not self._first_password:
            raise MustChangePassword("Cần đổi mật khẩu ban đầu trước khi dùng tiếp.")
        request.state.account = account
        return account


class Open:
    """A dependency that lets everybody through; what changes something must still come from a page of ours."""

    async def __call__(self, request: Request) -> None:
        check_origin(request)


Student = Annotated[Account, Depends(Allow("student"))]
Teacher = Annotated[Account, Depends(Allow("teacher"))]
Guardian = Annotated[Account, Depends(Allow("guardian"))]
Admin = Annotated[Account, Depends(Allow("admin"))]
Staff = Annotated[Account, Depends(Allow("teacher", "admin"))]
Anyone = Annotated[Account, Depends(Allow(*ROLES))]
# Whoever may ask the tutor.
Asker = Annotated[Account | None, Depends(Allow("student", "teacher", open_too=True))]
open_to_all = Depends(Open())


def check_origin(request: Request) -> None:
    """Refuses a request that changes something and does not come from a page of this server.

    Raises:
        ForeignOrigin: it comes from elsewhere, or does not tell.
    """
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if origin is not None and origin != "null":
        same = urlsplit(origin).netloc == request.headers.get("host", "")
    else:
        same = site in ("same-origin", "none")
    if not same:
        raise ForeignOrigin("Yêu cầu này không đến từ trang của máy chủ: hãy mở lại trang rồi làm lại.")


def cookie_name(settings: Any) -> str:
    """The cookie that holds a sign-in."""
    return SECURE_COOKIE if serves_https(settings) else COOKIE


def serves_https(settings: Any) -> bool:
    """Whether browsers reach this server by https."""
    return settings.server.certificate is not None or settings.server.behind_https


def remember(response: Response, settings: Any, token: str) -> None:
    """Gives a browser the cookie of its sign-in."""
    response.set_cookie(
        cookie_name(settings), token, httponly=True, secure=serves_https(settings), samesite="lax", path="/"
    )


def forget(response: Response, settings: Any) -> None:
    """Takes the cookie back."""
    response.delete_cookie(
        cookie_name(settings), httponly=True, secure=serves_https(settings), samesite="lax", path="/"
    )


def rules_of(app: FastAPI) -> dict[tuple[str, str], frozenset[Role] | None]:
    """Every route as ``(method, path)`` with the roles it is open to; None: to everybody.

    Raises:
        RuntimeError: a route names no rule, or more than one, or is of a kind that this does not look into.
    """
    rules: dict[tuple[str, str], frozenset[Role] | None] = {}
    for route in _routes(app.routes):
        found = {id(call): call for call in _calls(route.dependant) if isinstance(call, Allow | Open)}
        if len(found) != 1:
            raise RuntimeError(f"{route.path}: expected one rule of access, found {len(found)}; see server/access.py")
        rule = next(iter(found.values()))
        for method in route.methods or ():
            rules[method, route.path] = rule.roles if isinstance(rule, Allow) else None
    return rules


def _routes(routes: Iterable[Any]) -> Iterator[APIRoute]:
    for route in routes:
        # Releases of FastAPI keep the routes of a router either beside the others or below it.
        below = getattr(route, "original_router", None)
        if isinstance(route, APIRoute):
            yield route
        elif below is not None:
            yield from _routes(below.routes)
        elif getattr(route, "path", None) not in ("/static", "/openapi.json"):
            raise RuntimeError(f"{route!r}: a route that rules of access are not known for; see server/access.py")


def _calls(dependant: Dependant) -> list[Any]:
    return [each.call for each in dependant.dependencies] + [
        call for each in dependant.dependencies for call in _calls(each)
    ]
