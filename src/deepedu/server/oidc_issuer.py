"""An OpenID Connect issuer as we ask it: its endpoints, its keys, and the ID token for a code, verified.

Source: OpenID Connect Core 1.0 (3.1) and Discovery 1.0; PKCE is RFC 7636, what to verify in a token RFC 8725.
Differs: the issuer and what the server itself asks must be https except on loopback, and lie on the issuer's own host
while the server is offline, because the guard of outgoing connections lets through nothing else.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from deepedu.base.config import ServerSettings
from deepedu.base.egress import Endpoint
from deepedu.base.errors import AccessDenied, ConfigError, DeepEduError

log = logging.getLogger(__name__)

SECRET_VARIABLE = "DEEPEDU_SERVER_OIDC_CLIENT_SECRET"
# Signatures by the issuer's private key. With a shared secret or none at all, whoever reads the public key could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
SCOPE = "openid email profile"
KEPT_S = 3600.0
# Keys are asked for again when a token names an unknown one; not by every forged token.
KEYS_AGAIN_S = 30.0
LEEWAY_S = 60.0
TIMEOUT_S = 10.0
MAX_BYTES = 1 << 20


class SignInRefused(AccessDenied):
    """What came from the issuer, or in its name, cannot be trusted."""

    code = "sign_in_refused"


class IssuerFailed(DeepEduError):
    """The issuer cannot be reached, or does not speak the protocol."""

    code = "issuer_failed"
    http_status = 502


@dataclass(frozen=True)
class Endpoints:
    """What the issuer's discovery document tells. ``takes_basic``: the client's secret goes into the header."""

    authorization: str
    token: str
    keys: str
    takes_basic: bool


@dataclass(frozen=True)
class Begun:
    """A sign-in on its way: what the issuer's answer is held against. ``at``: seconds since the epoch."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    then: str
    at: float


class Issuer:
    """The school's issuer. Safe to share in one event loop; what it published is kept for an hour."""

    def __init__(self, settings: ServerSettings, secret: str | None) -> None:
        """
        Raises:
            ConfigError: no issuer, no client id, or an issuer that is neither https nor on loopback.
        """
        if not settings.oidc_issuer or not settings.oidc_client_id:
            raise ConfigError("Đăng nhập OpenID Connect cần cả server.oidc_issuer và server.oidc_client_id.")
        self.name, self._client_id = settings.oidc_issuer, settings.oidc_client_id
        self._secret, self._is_offline = secret or None, settings.offline
        _check_secure(self.name, "server.oidc_issuer")
        # The machine's own list of authorities: a school's issuer may have a certificate of the school's.
        self._tls = ssl.create_default_context()
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, list[tuple[str | None, Key]]] | None = None

    async def authorization_url(self, begun: Begun) -> str:
        """Where the browser signs in.

        Raises:
            IssuerFailed, ConfigError: the discovery document cannot be had, or not be used.
        """
        endpoints = await self._discovered()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client_id,
                "redirect_uri": begun.redirect_uri,
                "scope": SCOPE,
                "state": begun.state,
                "nonce": begun.nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoints.authorization}{'&' if urlsplit(endpoints.authorization).query else '?'}{query}"

    async def claims(self, begun: Begun, code: str) -> Mapping[str, Any]:
        """What the issuer says of who signed in, for the code that the browser brought.

        Raises:
            SignInRefused: the code is not good, or the ID token is not to be trusted.
            IssuerFailed, ConfigError: the issuer cannot be asked.
        """
        token = await self._exchanged(begun, code)
        header = _header(token)
        keys = await self._keys_for(header.get("kid"))
        claims = _signed_claims(token, keys)
        _check_claims(claims, issuer=self.name, client_id=self._client_id, nonce=begun.nonce, at=time.time())
        return claims

    async def _exchanged(self, begun: Begun, code: str) -> str:
        endpoints = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "code_verifier": begun.verifier,
        }
        auth: httpx.BasicAuth | None = None
        if self._secret is not None and endpoints.takes_basic:
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._secret, safe=""))
        else:
            form["client_id"] = self._client_id
            form |= {"client_secret": self._secret} if self._secret is not None else {}
        status, answer = await self._ask("POST", endpoints.token, data=form, auth=auth)
        if status != 200:
            told = str(answer.get("error", status))[:64]
            log.warning("the issuer refused a code: %s", told)
            if told == "invalid_client":
                raise IssuerFailed(
                    "Nơi đăng nhập không nhận máy chủ này (invalid_client): hãy kiểm tra server.oidc_client_id và "
                    f"biến môi trường {SECRET_VARIABLE}."
                )
            raise SignInRefused("Nơi đăng nhập không nhận mã này, có thể đã hết hạn: hãy đăng nhập lại.")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise IssuerFailed("Nơi đăng nhập không trả về 'id_token': hãy kiểm tra ứng dụng này có scope openid ở đó.")
        return token

    # --- What the issuer publishes -----------------------------------------------------------------------------------

    async def _discovered(self) -> Endpoints:
        if self._endpoints is None or time.monotonic() - self._endpoints[0] > KEPT_S:
            url = f"{self.name.rstrip('/')}/.well-known/openid-configuration"
            endpoints = self._read_discovery(url, await self._published(url))
            self._endpoints = time.monotonic(), endpoints
        return self._endpoints[1]

    def _read_discovery(self, url: str, document: Mapping[str, Any]) -> Endpoints:
        if document.get("issuer") != self.name:
            raise ConfigError(
                f"{url} là của issuer {str(document.get('issuer'))[:200]!r}, còn server.oidc_issuer là {self.name!r}: "
                "hãy ghi giống hệt nhau, kể cả dấu / ở cuối."
            )
        found: list[str] = []
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            value = document.get(name)
            if not isinstance(value, str):
                raise IssuerFailed(f"{url} thiếu {name!r}: đó có phải một nơi đăng nhập OpenID Connect không?")
            _check_secure(value, name)
            if self._is_offline and Endpoint.of(value) != Endpoint.of(self.name):
                raise ConfigError(
                    f"{name} của nơi đăng nhập là {value!r}, không nằm trên máy của server.oidc_issuer "
                    f"({self.name!r}), mà máy chủ đang chạy với server.offline = true nên chỉ được nối tới máy đó: hãy "
                    "dùng một nơi đăng nhập có đủ mọi địa chỉ trên cùng một máy, hoặc đặt server.offline = false."
                )
            found.append(value)
        methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return Endpoints(*found, takes_basic="client_secret_basic" in methods)

    async def _keys_for(self, kid: Any) -> Sequence[Key]:
        """Keys of that id; without one, all of them."""
        endpoints = await self._discovered()
        for may_ask in (KEPT_S, KEYS_AGAIN_S):
            if self._keys is None or time.monotonic() - self._keys[0] > may_ask:
                published = _read_keys(await self._published(endpoints.keys))
                self._keys = time.monotonic(), published
            found = [key for name, key in self._keys[1] if kid is None or name == kid]
            if found:
                return found
        raise _untrusted("khóa ký không phải của nơi đăng nhập")

    async def _published(self, url: str) -> Mapping[str, Any]:
        status, document = await self._ask("GET", url)
        if status != 200:
            raise IssuerFailed(f"{url} trả lời {status}: hãy kiểm tra server.oidc_issuer.")
        return document

    async def _ask(self, method: str, url: str, **request: Any) -> tuple[int, Mapping[str, Any]]:
        timeout = httpx.Timeout(TIMEOUT_S)
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                httpx.AsyncClient(verify=self._tls, timeout=timeout, trust_env=False) as http,
                http.stream(method, url, headers={"Accept": "application/json"}, **request) as answer,
            ):
                body = b""
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > MAX_BYTES:
                        raise IssuerFailed(f"{url} trả lời dài hơn {MAX_BYTES} byte: đó có phải nơi đăng nhập không?")
        except (httpx.HTTPError, TimeoutError) as error:
            log.warning("cannot reach the issuer at %s: %s", url, error)
            raise IssuerFailed(
                f"Không nối được tới nơi đăng nhập ({urlsplit(url).netloc}, {type(error).__name__}): hãy thử lại, hoặc "
                "đăng nhập bằng mật khẩu."
            ) from error
        try:
            values = httpx.Response(200, content=body).json()
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise IssuerFailed(f"{url} không trả lời bằng JSON: đó có phải nơi đăng nhập OpenID Connect không?")
        return answer.status_code, values


def _check_secure(url: str, name: str) -> None:
    parts = urlsplit(url)
    is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_here)):
        raise ConfigError(f"{name} cần bắt đầu bằng https:// (trừ khi ở ngay trên máy này), nhận được {url[:200]!r}.")


def _read_keys(document: Mapping[str, Any]) -> list[tuple[str | None, Key]]:
    """The keys that sign, by id; those that cannot be read are left out: other programs may use them."""
    listed = document.get("keys")
    found: list[tuple[str | None, Key]] = []
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("kty") not in ("RSA", "EC") or each.get("use", "sig") != "sig":
            continue
        try:
            found.append((each.get("kid"), JWKRegistry.import_key(each)))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("a key of the issuer cannot be read: %s", error)
    return found


# --- The ID token ----------------------------------------------------------------------------------------------------


def _untrusted(reason: str) -> SignInRefused:
    log.warning("refused an ID token: %s", reason)
    return SignInRefused(f"Không tin được câu trả lời của nơi đăng nhập ({reason}): hãy đăng nhập lại.")


def _header(token: str) -> Mapping[str, Any]:
    """Not verified: it only tells which key is said to have signed."""
    head = token.split(".", 1)[0].encode()
    try:
        values = httpx.Response(200, content=base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))).json()
    except ValueError:
        values = None
    if not isinstance(values, dict) or values.get("alg") not in ALGORITHMS:
        raise _untrusted("cách ký không được chấp nhận")
    return values


def _signed_claims(token: str, keys: Sequence[Key]) -> Mapping[str, Any]:
    for key in keys:
        try:
            return jwt.decode(token, key, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError, TypeError):
            continue
    raise _untrusted("chữ ký không đúng")


def _check_claims(claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, at: float) -> None:
    """
    Raises:
        SignInRefused: the token is another issuer's, for another client, not of this time, or of another sign-in.
    """
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != issuer:
        raise _untrusted("của một nơi đăng nhập khác")
    if client_id not in audiences or claims.get("azp", client_id) != client_id:
        raise _untrusted("dành cho một ứng dụng khác")
    if len(audiences) > 1 and "azp" not in claims:
        raise _untrusted("dành cho nhiều ứng dụng")
    if not _is_number(claims.get("exp")) or claims["exp"] + LEEWAY_S <= at:
        raise _untrusted("đã hết hạn")
    for name in ("iat", "nbf"):
        if name in claims and (not _is_number(claims[name]) or claims[name] - LEEWAY_S > at):
            raise _untrusted("chưa có hiệu lực: đồng hồ của hai máy có thể lệch nhau")
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _untrusted("của một lần đăng nhập khác")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise _untrusted("không nói là ai")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
