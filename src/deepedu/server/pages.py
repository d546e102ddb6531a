"""Pages: Jinja templates in ``web/templates``, in Vietnamese; other languages from ``web/<language>*.toml``.

Every text of a template stands in ``_("…")``. Pages load nothing but our own files, and no script or style inside them.
"""

import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import resources
from typing import Any, Literal
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from deepedu.school.accounts import Account
from deepedu.server.safety_watch import unseen_safety

Language = Literal["vi", "en"]
LANGUAGES: tuple[Language, ...] = ("vi", "en")
_FLASH, _LANGUAGE = "deepedu_said", "deepedu_language"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HOME = {"student": "/learn", "teacher": "/teach", "guardian": "/family", "admin": "/admin"}


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("deepedu.server", "web/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["day"] = lambda at: _local(at, "%d/%m/%Y")
    environment.filters["moment"] = lambda at: _local(at, "%H:%M %d/%m/%Y")
    environment.filters["percent"] = lambda share: f"{round(100 * share)} %"
    return environment


@functools.cache
def catalogue(language: Language) -> Mapping[str, str]:
    """Vietnamese text -> text in ``language``; empty for Vietnamese itself."""
    if language == "vi":
        return {}
    texts: dict[str, str] = {}
    for part in sorted(resources.files("deepedu.server").joinpath("web").iterdir(), key=lambda each: each.name):
        if re.fullmatch(rf"{language}(_\w+)?\.toml", part.name):
            texts |= tomllib.loads(part.read_text(encoding="utf-8"))
    return texts


def translator(language: Language) -> Callable[..., str]:
    """``_``: a text in ``language``, its ``{names}`` filled in."""
    texts = catalogue(language)

    def translate(text: str, **values: Any) -> str:
        told = texts.get(text, text)
        return told.format(**values) if values else told

    return translate


def language_of(request: Request, account: Account | None = None) -> Language:
    """The person's language; before anybody is signed in the browser's, if we have it."""
    if account is not None:
        return account.language
    chosen = request.cookies.get(_LANGUAGE)
    if chosen in LANGUAGES:
        return chosen
    first = request.headers.get("accept-language", "vi").split(",")[0].strip()[:2].lower()
    return "en" if first == "en" else "vi"


def render(request: Request, template: str, account: Account | None = None, *, status: int = 200, **values: Any) -> Any:
    """A page. Templates see ``_``, ``language``, ``account``, ``school`` (its name), ``path``, ``said``, ``values``."""
    language = language_of(request, account)
    said = request.cookies.get(_FLASH)
    html = (
        _environment()
        .get_template(template)
        .render(
            _=translator(language),
            language=language,
            account=account,
            school=request.app.state.services.settings.school.name,
            path=request.url.path,
            home=HOME[account.role] if account else "/login",
            unseen_safety=unseen_safety(request.app.state.services, account),
            said=unquote(said) if said else None,
            **values,
        )
    )
    response = HTMLResponse(html, status, HEADERS)
    if said:
        response.delete_cookie(_FLASH)
    return response


def go(address: str, said: str | None = None) -> RedirectResponse:
    """Sends the browser on after a form, to a page that shows what was done."""
    response = RedirectResponse(address, 303)
    if said:
        response.set_cookie(_FLASH, quote(said[:500]), max_age=20, httponly=True, samesite="lax")
    return response


def set_language(response: RedirectResponse, language: Language) -> None:
    """Remembers a language for who is not signed in."""
    response.set_cookie(_LANGUAGE, language, max_age=365 * 86400, httponly=True, samesite="lax")


def is_number(text: str) -> bool:
    """Whether a field of a form is a number that a row, a page or a count can have."""
    return text.isdecimal() and len(text) <= 18


def own_path(address: str | None) -> str | None:
    """An address to go on to, if it is a page of ours; anything else could lead a pupil elsewhere."""
    return address if address and re.fullmatch(r"/(?![/\\])[\w\-./?=&%]*", address) else None


def wants_page(request: Request) -> bool:
    """Whether a browser waits for a page, rather than a program for data."""
    return not request.url.path.startswith(("/api/", "/v1/")) and "text/html" in request.headers.get("accept", "")


def _local(at: datetime | None, form: str) -> str:
    return "–" if at is None else at.astimezone().strftime(form)
