"""Signing in and out, the password, the language, and where each role begins."""

import asyncio
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from deepedu.base.errors import AccessDenied, BadRequest, NotSignedIn
from deepedu.school.accounts import (
    ROLES,
    Account,
    check_password,
    close_session,
    has_people,
    open_session,
    set_password,
    signed_in,
)
from deepedu.server.access import Allow, cookie_name, forget, open_to_all, remember
from deepedu.server.pages import HOME, LANGUAGES, Language, go, own_path, render, set_language
from deepedu.server.tutor_routes import Services
from deepedu.store.tables import Person

router = APIRouter(include_in_schema=False)
Text = Annotated[str, Form(max_length=200)]
# Also with a first password: this is where it is changed.
Newcomer = Annotated[Account, Depends(Allow(*ROLES, first_password=True))]


@router.get("/", dependencies=[open_to_all])
async def home(request: Request, services: Services) -> RedirectResponse:
    """To where the person's role begins, or to sign in."""
    try:
        account = await _present(request, services)
    except NotSignedIn:
        return RedirectResponse("/login", 303)
    return RedirectResponse(HOME[account.role], 303)


@router.get("/login", response_class=HTMLResponse, dependencies=[open_to_all])
async def login_page(request: Request, services: Services, then: str = "") -> HTMLResponse:
    """The form to sign in."""
    return await _login_page(request, services, then=then)


@router.post("/login", response_class=HTMLResponse, dependencies=[open_to_all])
async def login(request: Request, services: Services, username: Text, password: Text, then: Text = "") -> HTMLResponse:
    """Signs in; the page says what was wrong otherwise."""
    address = request.client.host if request.client else ""
    try:
        services.login_rate.take((address, username.casefold()))
        # Each check takes 20 ms of a core: a class that signs in at once waits its turn, and pages go on.
        async with services.password_checks:
            account = await asyncio.to_thread(check_password, services.database, username, password)
    except AccessDenied as error:
        return await _login_page(request, services, then=then, username=username, error=error)
    hours = services.settings.server.session_hours
    token = await asyncio.to_thread(open_session, services.database, account.id, hours=hours)
    response = go(own_path(then) or HOME[account.role])
    remember(response, services.settings, token)
    return response  # pyright: ignore[reportReturnType]


@router.post("/logout", dependencies=[open_to_all])
async def logout(request: Request, services: Services) -> RedirectResponse:
    """Signs out."""
    token = request.cookies.get(cookie_name(services.settings))
    if token:
        await asyncio.to_thread(close_session, services.database, token)
    response = go("/login", "Đã đăng xuất.")
    forget(response, services.settings)
    return response


@router.get("/password", response_class=HTMLResponse)
async def password_page(request: Request, account: Newcomer) -> HTMLResponse:
    """The form to change the password."""
    return render(request, "password.html", account, error=None)


@router.post("/password", response_class=HTMLResponse)
async def password(
    request: Request, services: Services, account: Newcomer, present: Text, fresh: Text, again: Text
) -> HTMLResponse:
    """Changes the password; all other browsers are signed out."""
    token = request.cookies[cookie_name(services.settings)]
    try:
        if fresh != again:
            raise BadRequest("Hai lần nhập mật khẩu mới không giống nhau: hãy nhập lại.")
        if fresh == present:
            raise BadRequest("Mật khẩu mới phải khác mật khẩu hiện nay.")
        async with services.password_checks:
            await asyncio.to_thread(check_password, services.database, account.username, present)
            await asyncio.to_thread(
                set_password, services.database, account.id, fresh, must_change=False, keep_token=token
            )
    except (BadRequest, AccessDenied) as error:
        return render(request, "password.html", account, status=error.http_status, error=str(error))
    return go(HOME[account.role], "Đã đổi mật khẩu.")  # pyright: ignore[reportReturnType]


@router.post("/language", dependencies=[open_to_all])
async def language(request: Request, services: Services, chosen: Text, then: Text = "/") -> RedirectResponse:
    """Changes the language of the pages."""
    if chosen not in LANGUAGES:
        raise BadRequest(f"expected one of {', '.join(LANGUAGES)}, came {chosen!r}")
    wanted: Language = chosen
    response = go(own_path(then) or "/")
    set_language(response, wanted)
    try:
        account = await _present(request, services)
    except NotSignedIn:
        return response
    with services.database.write() as session:
        session.execute(sa.update(Person).where(Person.id == account.id).values(language=wanted))
    return response


async def _present(request: Request, services: Services) -> Account:
    token = request.cookies.get(cookie_name(services.settings), "")
    if not token:
        raise NotSignedIn("Cần đăng nhập.")
    hours = services.settings.server.session_hours
    return await asyncio.to_thread(signed_in, services.database, token, hours=hours)


async def _login_page(
    request: Request, services: Services, *, then: str, username: str = "", error: AccessDenied | None = None
) -> HTMLResponse:
    return render(
        request,
        "login.html",
        status=error.http_status if error else 200,
        then=own_path(then) or "",
        username=username,
        error=str(error) if error else None,
        is_empty=not await asyncio.to_thread(has_people, services.database),
        oidc=services.settings.server.oidc_issuer is not None,
    )
