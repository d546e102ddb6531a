"""An OpenID Connect issuer on loopback that signs with real keys, and lies where a test wants it to."""

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import Key, KeyParameters, OctKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "deepedu", "bí mật của trường:1"
SIGNS: KeyParameters = {"use": "sig"}


@dataclass
class FakeIssuer:
    """``person``: claims of who signs in there. ``changed``: what the token says otherwise; None leaves a claim out.
    ``header`` and ``key``: signed otherwise than as published; ``HS256`` signs with the public key as the secret.
    ``document``: what discovery says otherwise."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "s-1", "email": "lan@truong.edu.vn"})
    changed: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    key: Key | None = None
    document: dict[str, Any] = field(default_factory=dict)
    published: list[RSAKey] = field(default_factory=lambda: [RSAKey.generate_key(2048, SIGNS, auto_kid=True)])
    token_error: str | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def app(self) -> FastAPI:
        """The server, to be started on loopback; its address belongs into ``url``."""
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def discovery() -> dict[str, Any]:
            self.asked.append("discovery")
            paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            return {"issuer": self.url, **{name: f"{self.url}/{path}" for name, path in paths.items()}, **self.document}

        @app.get("/keys")
        def keys() -> dict[str, Any]:
            self.asked.append("keys")
            # Others' keys stand beside those that sign; whoever takes them all is lost.
            other = OctKey.generate_key(256, SIGNS, auto_kid=True).as_dict(private=True)
            return {"keys": [other, *(key.as_dict(private=False) for key in self.published)]}

        @app.get("/authorize")
        def authorize(request: Request) -> RedirectResponse:
            query = dict(request.query_params)
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            return RedirectResponse(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")

        @app.post("/token")
        async def token(request: Request) -> JSONResponse:
            form = dict(parse_qsl((await request.body()).decode()))
            query = self.codes.pop(form["code"], None)
            error = self.token_error or self._fault(request, form, query)
            if error or query is None:
                return JSONResponse({"error": error or "invalid_grant"}, 400)
            return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.id_token(query)})

        return app

    def id_token(self, query: dict[str, str]) -> str:
        """A token for a sign-in that began with ``query``."""
        present = int(time.time())
        told = {"iss": self.url, "aud": query["client_id"], "iat": present, "exp": present + 300}
        claims = {**told, "nonce": query["nonce"], **self.person, **self.changed}
        claims = {name: value for name, value in claims.items() if value is not None}
        key = self.key or self.published[0]
        header = {"alg": "RS256", "kid": self.published[0].kid, **self.header}
        header = {name: value for name, value in header.items() if value is not None}
        if header["alg"] not in ("none", "HS256"):
            return jwt.encode(header, claims, key, algorithms=[header["alg"]])
        # By hand: the library does not lend itself to this.
        signed = f"{_base64(_json(header))}.{_base64(_json(claims))}"
        secret = self.published[0].as_pem(private=False)
        signature = hmac.digest(secret, signed.encode(), "sha256") if header["alg"] == "HS256" else b""
        return f"{signed}.{_base64(signature)}"

    def _fault(self, request: Request, form: dict[str, str], query: dict[str, str] | None) -> str | None:
        basic = base64.b64encode(f"{CLIENT_ID}:b%C3%AD%20m%E1%BA%ADt%20c%E1%BB%A7a%20tr%C6%B0%E1%BB%9Dng%3A1".encode())
        by_header = request.headers.get("authorization") == f"Basic {basic.decode()}"
        by_form = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        takes_basic = "client_secret_basic" in self.document.get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        if not (by_header if takes_basic else by_form):
            return "invalid_client"
        if query is None or form.get("redirect_uri") != query["redirect_uri"]:
            return "invalid_grant"
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        is_bound = query.get("code_challenge_method") == "S256" and _base64(digest) == query.get("code_challenge")
        return None if is_bound else "invalid_grant"


def _json(values: dict[str, Any]) -> bytes:
    return bytes(JSONResponse(values).body)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
