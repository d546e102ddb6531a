"""Signing in at the school's OpenID Connect issuer: there by ``/oidc/start``, and back by ``/oidc/callback``.

What the answer is held against (state, nonce, the secret of PKCE) is kept by the browser that began, in a signed cookie
of ten minutes: an answer in another browser, or a second time, is refused. Signing out ends our session only.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from deepedu.base.errors import NotFound
from deepedu.school.accounts import open_session
from deepedu.school.linked_accounts import Identity, sign_in_linked
from deepedu.server.access import open_to_all, remember, serves_https
from deepedu.server.oidc_issuer import SECRET_VARIABLE, Begun, Issuer, SignInRefused
from deepedu.server.pages import HOME, go, own_path
from deepedu.server.tutor_routes import Services

router = APIRouter(include_in_schema=False)
CALLBACK = "oidc/callback"
LASTS_S = 600
_COOKIE = "deepedu_oidc"
_AGAIN = "Trình duyệt này chưa bắt đầu đăng nhập, hoặc đã quá 10 phút: hãy mở lại trang đăng nhập."


class _SignIns:
    """The issuer, and which answers of it were used already. Used from one event loop."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self._used: dict[str, float] = {}

    def use(self, begun: Begun) -> None:
        """
        Raises:
            SignInRefused: it was used before.
        """
        present = time.time()
        self._used = {state: at for state, at in self._used.items() if present - at < LASTS_S}
        if begun.state in self._used:
            raise SignInRefused("Lần đăng nhập này đã xong: hãy mở lại trang đăng nhập.")
        self._used[begun.state] = begun.at


def _sign_ins(request: Request, services: Any) -> _SignIns:
    if services.settings.server.oidc_issuer is None:
        raise NotFound("Máy chủ này không có đăng nhập bằng tài khoản của trường.")
    state = request.app.state
    if not hasattr(state, "sign_ins"):
        state.sign_ins = _SignIns(Issuer(services.settings.server, os.environ.get(SECRET_VARIABLE)))
    return state.sign_ins


@router.get("/oidc/start", dependencies=[open_to_all])
async def start(request: Request, services: Services, then: str = "") -> Response:
    """Sends the browser to the issuer; ``then`` is the page of ours to go on to."""
    issuer = _sign_ins(request, services).issuer
    own = request.base_url.replace(scheme="https") if serves_https(services.settings) else request.base_url
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    begun = Begun(state, nonce, verifier, f"{own}{CALLBACK}", own_path(then) or "", time.time())
    response = RedirectResponse(await issuer.authorization_url(begun), 303)
    response.set_cookie(
        _cookie(services),
        _signed(begun, services.salt),
        max_age=LASTS_S,
        httponly=True,
        secure=serves_https(services.settings),
        # Not strict: the browser comes back from another site.
        samesite="lax",
        path="/",
    )
    return response


@router.get("/oidc/callback", dependencies=[open_to_all])
async def callback(
    request: Request, services: Services, state: str = "", code: str = "", error: str = "", iss: str = ""
) -> Response:
    """Signs in whom the issuer vouches for."""
    sign_ins = _sign_ins(request, services)
    begun = _begun(request, services)
    if not hmac.compare_digest(begun.state.encode(), state.encode()):
        raise SignInRefused(_AGAIN)
    sign_ins.use(begun)
    # Source: RFC 9207; an answer of another issuer is not asked about at ours.
    if iss and iss != sign_ins.issuer.name:
        raise SignInRefused("Câu trả lời đến từ một nơi đăng nhập khác: hãy mở lại trang đăng nhập.")
    if error or not code:
        told = error if re.fullmatch(r"[a-z_]{1,64}", error) else "không có mã"
        raise SignInRefused(f"Nơi đăng nhập không cho vào ({told}): hãy thử lại, hoặc hỏi người quản trị.")
    claims = await sign_ins.issuer.claims(begun, code)
    who = identity_of(claims, sign_ins.issuer.name, services.settings.server.oidc_claim)
    account = await asyncio.to_thread(sign_in_linked, services.database, who)
    hours = services.settings.server.session_hours
    token = await asyncio.to_thread(open_session, services.database, account.id, hours=hours)
    response = go(own_path(begun.then) or HOME[account.role])
    remember(response, services.settings, token)
    response.delete_cookie(
        _cookie(services), httponly=True, secure=serves_https(services.settings), samesite="lax", path="/"
    )
    return response


def identity_of(claims: Mapping[str, Any], issuer: str, claim: str) -> Identity:
    """Who the claims are about; ``claim`` names the one that is matched with people.

    Raises:
        SignInRefused: that claim is not among them.
    """
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise SignInRefused(
            f"Nơi đăng nhập không cho biết {claim!r} của người này: người quản trị cần bật claim đó, hoặc đặt "
            "server.oidc_claim khác."
        )
    # Some issuers write it as text.
    is_verified = str(claims.get("email_verified", True)).casefold() != "false"
    # An address that nobody verified may be somebody else's username as well.
    return Identity(issuer, claims["sub"], name.strip(), is_verified, claim != "email" or is_verified)


def _cookie(services: Any) -> str:
    return f"__Host-{_COOKIE}" if serves_https(services.settings) else _COOKIE


def _signed(begun: Begun, salt: bytes) -> str:
    text = base64.urlsafe_b64encode(json.dumps(asdict(begun)).encode()).decode()
    return f"{text}.{_signature(text, salt)}"


def _begun(request: Request, services: Any) -> Begun:
    text, _, signature = request.cookies.get(_cookie(services), "").rpartition(".")
    if not text or not hmac.compare_digest(_signature(text, services.salt).encode(), signature.encode()):
        raise SignInRefused(_AGAIN)
    begun = Begun(**json.loads(base64.urlsafe_b64decode(text)))
    if time.time() - begun.at > LASTS_S:
        raise SignInRefused(_AGAIN)
    return begun


def _signature(text: str, salt: bytes) -> str:
    return hashlib.blake2b(text.encode(), key=salt, person=b"deepedu-oidc", digest_size=32).hexdigest()
