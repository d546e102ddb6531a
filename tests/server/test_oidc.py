"""Signing in at the school's OpenID Connect issuer, and every way in which somebody else might try to."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import sqlalchemy as sa
from fake_issuer import CLIENT_ID, CLIENT_SECRET, FakeIssuer
from fastapi import FastAPI
from fastapi.testclient import TestClient
from joserfc.jwk import RSAKey
from schoolroom import PASSWORD, School

from deepedu.base.config import ServerSettings
from deepedu.base.errors import ConfigError, NotAllowed
from deepedu.school import audit
from deepedu.school.linked_accounts import Identity, sign_in_linked, unlink
from deepedu.server import oidc_issuer, oidc_routes
from deepedu.server.access import COOKIE
from deepedu.server.oidc_issuer import Issuer, SignInRefused
from deepedu.server.oidc_routes import identity_of
from deepedu.store.tables import Person

LAN = "lan@truong.edu.vn"
ISSUER = "https://id.truong.edu.vn"
OIDC_COOKIE = "deepedu_oidc"


@pytest.fixture(scope="module")
def keys() -> list[RSAKey]:
    return [RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True) for _ in range(2)]


@pytest.fixture
def issuer(keys: list[RSAKey], start: Callable[[FastAPI], str]) -> FakeIssuer:
    made = FakeIssuer(published=keys[:1])
    made.url = start(made.app())
    return made


@pytest.fixture
def browser(school: School, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A browser of nobody, on a school that has an issuer; cô Lan's e-mail is known."""
    monkeypatch.setenv(oidc_issuer.SECRET_VARIABLE, CLIENT_SECRET)
    describe(school, "lan", email="Lan@Truong.edu.vn")
    server = {"oidc_issuer": issuer.url, "oidc_client_id": CLIENT_ID}
    with TestClient(school.app(server=server), follow_redirects=False) as client:
        yield school.sign_in(client, None)


def describe(school: School, who: str, /, **values: Any) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Person).where(Person.username == who).values(**values))


def person(school: School, username: str) -> Person:
    with school.database.read() as session:
        return session.scalars(sa.select(Person).where(Person.username == username)).one()


def begin(browser: TestClient, then: str = "") -> str:
    """Our address that the issuer sends the browser back to."""
    started = browser.get("/oidc/start", params={"then": then})
    assert started.status_code == 303, started.text
    at_issuer = httpx.get(started.headers["location"], follow_redirects=False)
    address = urlsplit(at_issuer.headers["location"])
    assert (address.netloc, address.path) == ("testserver", "/oidc/callback")
    return f"{address.path}?{address.query}"


def sign_in(browser: TestClient, then: str = "") -> Any:
    return browser.get(begin(browser, then))


def is_in(browser: TestClient) -> bool:
    return browser.get("/password").status_code == 200


def assert_refused(browser: TestClient, answer: Any, told: str, status: int = 403) -> None:
    assert answer.status_code == status, answer.text
    assert told in answer.text
    assert "<h1>" in answer.text
    assert COOKIE not in browser.cookies
    assert browser.get("/password").status_code == 303


# --- The way in -------------------------------------------------------------------------------------------------------


def test_who_is_known_by_email_gets_in_and_is_bound(browser: TestClient, school: School, issuer: FakeIssuer) -> None:
    assert 'href="/oidc/start' in browser.get("/login").text
    answer = sign_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/teach")
    assert is_in(browser)
    assert person(school, "lan").oidc_subject == f"{issuer.url} s-1"
    assert [(each.action, each.subject) for each in audit.entries(school.database)] == [
        ("person.link", school.people["lan"].public_id)
    ]
    # From now on the subject tells who it is, whatever the address becomes.
    issuer.person["email"] = "minh@truong.edu.vn"
    describe(school, "minh", email="minh@truong.edu.vn")
    browser.cookies.clear()
    assert sign_in(browser).headers["location"] == "/teach"
    assert "Phạm Thị Lan" in browser.get("/password").text
    assert len(audit.entries(school.database)) == 1


def test_the_cookie_of_the_sign_in_is_for_our_browser_alone(browser: TestClient) -> None:
    started = browser.get("/oidc/start")
    cookie = started.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=600" in cookie
    query = parse_qs(urlsplit(started.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["response_type"] == ["code"]
    assert len({*query["state"], *query["nonce"], *query["code_challenge"]}) == 3
    again = parse_qs(urlsplit(browser.get("/oidc/start").headers["location"]).query)
    assert again["state"] != query["state"]


def test_behind_https_cookies_and_addresses_are_https(
    school: School, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(oidc_issuer.SECRET_VARIABLE, CLIENT_SECRET)
    server = {"oidc_issuer": issuer.url, "oidc_client_id": CLIENT_ID, "behind_https": True}
    with TestClient(school.app(server=server), follow_redirects=False) as client:
        started = client.get("/oidc/start")
    assert started.headers["set-cookie"].startswith("__Host-")
    assert "secure" in started.headers["set-cookie"].lower()
    query = parse_qs(urlsplit(started.headers["location"]).query)
    assert query["redirect_uri"] == ["https://testserver/oidc/callback"]


def test_it_goes_on_to_a_page_of_ours_only(browser: TestClient) -> None:
    assert sign_in(browser, "/teach/quizzes?x=1").headers["location"] == "/teach/quizzes?x=1"
    for foreign in ("//xau.example", "https://xau.example", "/\\xau.example", "javascript:alert(1)"):
        assert sign_in(browser, foreign).headers["location"] == "/teach"


def test_the_first_password_is_not_asked_for_and_ends(browser: TestClient, school: School) -> None:
    describe(school, "lan", must_change_password=True)
    sign_in(browser)
    assert is_in(browser)
    assert browser.get("/teach").status_code != 303
    browser.post("/logout")
    told = browser.post("/login", data={"username": "lan", "password": PASSWORD})
    assert told.status_code == 401


def test_a_password_of_ones_own_stays(browser: TestClient) -> None:
    sign_in(browser)
    browser.post("/logout")
    assert not is_in(browser)
    assert browser.post("/login", data={"username": "lan", "password": PASSWORD}).status_code == 303


def test_signing_out_ends_our_session_only(browser: TestClient) -> None:
    sign_in(browser)
    token = browser.cookies[COOKIE]
    assert browser.post("/logout").headers["location"] == "/login"
    browser.cookies.set(COOKIE, token)
    assert not is_in(browser)
    browser.cookies.clear()
    assert sign_in(browser).status_code == 303


def test_a_client_without_basic_sends_its_secret_in_the_form(browser: TestClient, issuer: FakeIssuer) -> None:
    issuer.document["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    assert sign_in(browser).status_code == 303
    assert is_in(browser)


def test_what_the_issuer_publishes_is_kept(browser: TestClient, issuer: FakeIssuer) -> None:
    for _ in range(3):
        sign_in(browser)
    assert issuer.asked == ["discovery", "keys"]


def test_a_new_key_of_the_issuer_is_looked_for(
    browser: TestClient, issuer: FakeIssuer, keys: list[RSAKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(browser)
    issuer.published = [keys[1]]
    browser.cookies.clear()
    assert_refused(browser, sign_in(browser), "khóa ký")
    monkeypatch.setattr(oidc_issuer, "KEYS_AGAIN_S", 0.0)
    assert sign_in(browser).status_code == 303
    assert issuer.asked == ["discovery", "keys", "keys"]


def test_a_token_without_key_id_is_tried_with_each_key(
    browser: TestClient, issuer: FakeIssuer, keys: list[RSAKey]
) -> None:
    issuer.published = [keys[1], keys[0]]
    issuer.key, issuer.header = keys[0], {"kid": None}
    assert sign_in(browser).status_code == 303


# --- Attacks ----------------------------------------------------------------------------------------------------------


def test_an_answer_that_this_browser_did_not_begin_is_refused(browser: TestClient) -> None:
    """Login CSRF: somebody sends a pupil the end of a sign-in of their own."""
    address = begin(browser)
    browser.cookies.clear()
    assert_refused(browser, browser.get(address), "chưa bắt đầu đăng nhập")


def test_an_answer_for_another_sign_in_is_refused(browser: TestClient) -> None:
    other = begin(browser)
    browser.cookies.clear()
    begin(browser)
    assert_refused(browser, browser.get(other), "chưa bắt đầu đăng nhập")


def test_an_answer_is_good_once(browser: TestClient) -> None:
    address = begin(browser)
    begun = browser.cookies[OIDC_COOKIE]
    assert browser.get(address).status_code == 303
    assert OIDC_COOKIE not in browser.cookies
    browser.cookies.clear()
    browser.cookies.set(OIDC_COOKIE, begun)
    assert_refused(browser, browser.get(address), "đã xong")


def test_an_answer_comes_in_time(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    address = begin(browser)
    monkeypatch.setattr(oidc_routes, "LASTS_S", -1)
    assert_refused(browser, browser.get(address), "10 phút")


def test_a_forged_cookie_is_refused(browser: TestClient) -> None:
    address = begin(browser)
    signed = browser.cookies[OIDC_COOKIE]
    browser.cookies.clear()
    for cookie in ("", ".", "e30=.", "x", "e30=.0000", "é", signed[:-1], f"A{signed}"):
        answer = browser.get(address, headers={b"Cookie": f"{OIDC_COOKIE}={cookie}".encode()})
        assert answer.status_code == 403
        assert COOKIE not in browser.cookies


def test_a_code_of_somebody_else_does_not_fit(browser: TestClient) -> None:
    """Code injection: PKCE ties a code to the browser that asked for it."""
    stolen = parse_qs(urlsplit(begin(browser)).query)["code"][0]
    browser.cookies.clear()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    answer = browser.get(f"/oidc/callback?{urlencode({'code': stolen, 'state': state})}")
    assert_refused(browser, answer, "không nhận mã này")


HOUR = 3600


# What a token says otherwise, and what of it is told. Times count from now.
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"nonce": "khac"}, "một lần đăng nhập khác"),
    ({"nonce": None}, "một lần đăng nhập khác"),
    ({"aud": "ung-dung-khac"}, "một ứng dụng khác"),
    ({"aud": None}, "một ứng dụng khác"),
    ({"aud": [CLIENT_ID, "khac"]}, "nhiều ứng dụng"),
    ({"aud": [CLIENT_ID, "khac"], "azp": "khac"}, "một ứng dụng khác"),
    ({"azp": "khac"}, "một ứng dụng khác"),
    ({"iss": "https://xau.example"}, "một nơi đăng nhập khác"),
    ({"iss": None}, "một nơi đăng nhập khác"),
    ({"exp": None}, "hết hạn"),
    ({"exp": "mai"}, "hết hạn"),
    ({"exp": True}, "hết hạn"),
    ({"exp": -HOUR}, "hết hạn"),
    ({"iat": HOUR}, "chưa có hiệu lực"),
    ({"nbf": HOUR}, "chưa có hiệu lực"),
    ({"sub": None}, "không nói là ai"),
    ({"sub": 7}, "không nói là ai"),
    ({"email": None}, "&#39;email&#39;"),
]


def test_a_token_for_another_purpose_is_refused(browser: TestClient, school: School, issuer: FakeIssuer) -> None:
    for changed, told in UNFIT:
        issuer.changed = {
            name: int(time.time()) + value if name in ("exp", "iat", "nbf") and type(value) is int else value
            for name, value in changed.items()
        }
        assert_refused(browser, sign_in(browser), told)
    assert person(school, "lan").oidc_subject is None


def test_a_token_that_the_issuer_did_not_sign_is_refused(
    browser: TestClient, issuer: FakeIssuer, keys: list[RSAKey], school: School
) -> None:
    issuer.header = {"alg": "none"}
    assert_refused(browser, sign_in(browser), "cách ký")
    # The public key taken for a shared secret.
    issuer.header = {"alg": "HS256"}
    assert_refused(browser, sign_in(browser), "cách ký")
    # Another key under the issuer's name, and under a name of its own.
    issuer.header, issuer.key = {}, keys[1]
    assert_refused(browser, sign_in(browser), "chữ ký")
    issuer.header = {"kid": "cua-toi"}
    assert_refused(browser, sign_in(browser), "khóa ký")
    # A key that the token brings along.
    issuer.header = {"kid": keys[0].kid, "jwk": keys[1].as_dict(private=False)}
    assert_refused(browser, sign_in(browser), "chữ ký")
    assert person(school, "lan").oidc_subject is None


def test_what_is_no_token_is_refused(browser: TestClient, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for token in ("", "x", "a.b.c", "e30.e30.e30", "bnVsbA.e30.", "é.é.é"):
        monkeypatch.setattr(issuer, "id_token", lambda _, token=token: token)
        assert_refused(browser, sign_in(browser), "cách ký")


def test_an_answer_of_another_issuer_is_refused(browser: TestClient) -> None:
    assert_refused(browser, browser.get(begin(browser) + "&iss=https%3A%2F%2Fxau.example"), "nơi đăng nhập khác")


def test_a_refusal_of_the_issuer_is_told(browser: TestClient) -> None:
    for error, told in (("access_denied", "access_denied"), ("<script>", "không có mã"), ("", "không có mã")):
        state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
        answer = browser.get(f"/oidc/callback?{urlencode({'state': state, 'error': error})}")
        assert_refused(browser, answer, told)
        assert "<script>" not in answer.text


# --- Who it is --------------------------------------------------------------------------------------------------------


def test_who_is_unknown_locked_or_ambiguous_is_told_so(browser: TestClient, school: School, issuer: FakeIssuer) -> None:
    issuer.person = {"sub": "s-2", "email": "la@truong.edu.vn"}
    count = len(school.people)
    assert_refused(browser, sign_in(browser), "Chưa có tài khoản")
    # Mothers and children often share an address.
    for username in ("me.an", "an"):
        describe(school, username, email="nha.an@truong.edu.vn")
    issuer.person = {"sub": "s-3", "email": "nha.an@truong.edu.vn"}
    assert_refused(browser, sign_in(browser), "2 tài khoản")
    issuer.person = {"sub": "s-1", "email": LAN}
    describe(school, "lan", is_active=False)
    assert_refused(browser, sign_in(browser), "bị khóa")
    describe(school, "lan", is_active=True)
    assert sign_in(browser).status_code == 303
    describe(school, "lan", is_active=False)
    browser.cookies.clear()
    assert_refused(browser, sign_in(browser), "bị khóa")
    with school.database.read() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Person)) == count
        assert session.scalars(sa.select(Person.username).where(Person.oidc_subject.is_not(None))).all() == ["lan"]


def test_an_address_that_nobody_verified_is_nobodys(browser: TestClient, issuer: FakeIssuer, school: School) -> None:
    for unverified in (False, "false"):
        issuer.person = {"sub": "s-9", "email": LAN, "email_verified": unverified}
        assert_refused(browser, sign_in(browser), "Chưa có tài khoản")
    # Nor is it somebody's username.
    describe(school, "minh", username="minh@truong.edu.vn")
    issuer.person = {"sub": "s-9", "email": "minh@truong.edu.vn", "email_verified": False}
    assert_refused(browser, sign_in(browser), "Chưa có tài khoản")
    issuer.person["email_verified"] = True
    assert sign_in(browser).status_code == 303


def test_an_account_is_bound_to_one_person(browser: TestClient, issuer: FakeIssuer, school: School) -> None:
    """An address that is given to somebody else at the issuer does not bring the old account along."""
    sign_in(browser)
    issuer.person["sub"] = "s-moi"
    browser.cookies.clear()
    assert_refused(browser, sign_in(browser), "đã gắn với một người khác")
    with school.database.write() as session:
        unlink(session, school.people["admin"].public_id, school.people["lan"].public_id)
    assert sign_in(browser).status_code == 303
    assert [each.action for each in audit.entries(school.database)] == ["person.link", "person.unlink", "person.link"]


@pytest.mark.parametrize(
    ("name", "username"), [("LAN", "lan"), ("  lan ", "lan"), ("Lan@TRUONG.edu.vn", "lan"), ("MÈO@a.vn", "an")]
)
def test_names_are_matched_in_any_case(school: School, name: str, username: str) -> None:
    describe(school, "lan", email=LAN)
    describe(school, "an", email="me\u0300o@a.vn")
    assert sign_in_linked(school.database, Identity(ISSUER, "s", name)).username == username


def test_what_a_claim_may_be_taken_for(school: School) -> None:
    claims = {"sub": "s", "preferred_username": "lan", "email": "x@y.vn", "email_verified": False}
    who = identity_of(claims, ISSUER, "preferred_username")
    assert (who.name, who.may_be_email, who.may_be_username) == ("lan", False, True)
    who = identity_of({"sub": "s", "email": "x@y.vn"}, ISSUER, "email")
    assert (who.may_be_email, who.may_be_username) == (True, True)
    for missing in ({}, {"email": ""}, {"email": 7}, {"email": ["x@y.vn"]}):
        with pytest.raises(SignInRefused, match="oidc_claim"):
            identity_of({"sub": "s", **missing}, ISSUER, "email")
    describe(school, "an", email="lan")
    with pytest.raises(NotAllowed, match="2 tài khoản"):
        sign_in_linked(school.database, Identity(ISSUER, "s", "lan"))
    assert sign_in_linked(school.database, Identity(ISSUER, "s", "lan", may_be_email=False)).username == "lan"


def test_the_school_may_change_its_issuer(school: School) -> None:
    sign_in_linked(school.database, Identity("https://cu.example", "s", "lan"))
    assert sign_in_linked(school.database, Identity(ISSUER, "s", "lan")).username == "lan"
    assert person(school, "lan").oidc_subject == f"{ISSUER} s"


def test_who_left_and_came_back_is_the_new_account(school: School) -> None:
    describe(school, "an", email="an@truong.edu.vn", is_active=False)
    describe(school, "binh", email="an@truong.edu.vn")
    assert sign_in_linked(school.database, Identity(ISSUER, "s", "an@truong.edu.vn")).username == "binh"


def test_an_endless_subject_is_refused(school: School) -> None:
    with pytest.raises(NotAllowed, match="quá dài"):
        sign_in_linked(school.database, Identity(ISSUER, "s" * 300, "lan"))


# --- Settings and the issuer's faults ---------------------------------------------------------------------------------


def test_without_an_issuer_there_is_no_such_page(client: TestClient) -> None:
    assert "/oidc/start" not in client.get("/login").text
    for address in ("/oidc/start", "/oidc/callback?state=x&code=y"):
        assert client.get(address).status_code == 404


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": ISSUER},
        {"oidc_issuer": "http://id.truong.edu.vn", "oidc_client_id": CLIENT_ID},
        {"oidc_issuer": "http://127.0.0.1.xau.example", "oidc_client_id": CLIENT_ID},
        {"oidc_issuer": "id.truong.edu.vn", "oidc_client_id": CLIENT_ID},
    ],
)
def test_settings_that_will_not_do(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="oidc"):
        Issuer(ServerSettings.model_validate(settings), None)
    Issuer(ServerSettings(oidc_issuer=ISSUER, oidc_client_id=CLIENT_ID), None)


UNFIT_DOCUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"issuer": "https://xau.example"}, "giống hệt nhau"),
    ({"token_endpoint": "https://oauth2.example/token"}, "server.offline = false"),
    ({"jwks_uri": "http://127.0.0.1:1/keys"}, "server.offline = false"),
    ({"authorization_endpoint": "http://id.truong.edu.vn/a"}, "https://"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "https://"),
    ({"jwks_uri": None}, "jwks_uri"),
    ({"token_endpoint": 7}, "token_endpoint"),
]


def test_a_discovery_document_that_will_not_do(browser: TestClient, issuer: FakeIssuer) -> None:
    for document, told in UNFIT_DOCUMENTS:
        issuer.document = document
        answer = browser.get("/oidc/start")
        assert answer.status_code in (400, 502)
        assert told in answer.text
        assert OIDC_COOKIE not in browser.cookies
    # Not kept: once it is mended, people get in.
    issuer.document = {}
    assert sign_in(browser).status_code == 303


def test_other_hosts_are_reached_where_the_school_lets_connections_out(
    school: School, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(oidc_issuer.SECRET_VARIABLE, CLIENT_SECRET)
    issuer.document = {"token_endpoint": issuer.url.replace("127.0.0.1", "localhost") + "/token"}
    server = {"oidc_issuer": issuer.url, "oidc_client_id": CLIENT_ID}
    for offline, status in ((True, 400), (False, 303)):
        with TestClient(school.app(server={**server, "offline": offline}), follow_redirects=False) as client:
            assert client.get("/oidc/start", headers={"Accept": "text/html"}).status_code == status


def test_an_issuer_that_is_not_there_is_told(school: School, start: Callable[[FastAPI], str]) -> None:
    other = FastAPI()
    for server, told in (
        ({"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": CLIENT_ID}, "Không nối được"),
        ({"oidc_issuer": start(other), "oidc_client_id": CLIENT_ID}, "trả lời 404"),
    ):
        with TestClient(school.app(server=server), follow_redirects=False) as client:
            answer = client.get("/oidc/start", headers={"Accept": "text/html"})
            assert answer.status_code == 502
            assert told in answer.text


def test_a_secret_that_the_issuer_does_not_take_is_told(
    browser: TestClient, school: School, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.token_error = "invalid_client"
    assert_refused(browser, sign_in(browser), oidc_issuer.SECRET_VARIABLE, 502)
    issuer.token_error = None
    monkeypatch.setenv(oidc_issuer.SECRET_VARIABLE, "cu")
    server = {"oidc_issuer": issuer.url, "oidc_client_id": CLIENT_ID}
    with TestClient(school.app(server=server), follow_redirects=False) as other:
        assert_refused(other, sign_in(school.sign_in(other, None)), "oidc_client_id", 502)
