"""Signing in and out: passwords, cookies, lockout, pages of other sites, and every route's rule."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from schoolroom import PASSWORD, School

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.school.accounts import TRIES, create_person, open_session
from deepedu.server.access import COOKIE, SECURE_COOKIE, open_to_all, rules_of
from deepedu.server.app import create_app
from deepedu.server.pages import own_path
from deepedu.store.tables import Person, now


def log_in(client: TestClient, username: str, password: str = PASSWORD, **form: str):
    return client.post("/login", data={"username": username, "password": password, **form})


@pytest.mark.parametrize(
    ("username", "home"), [("an", "/learn"), ("lan", "/teach"), ("me.an", "/family"), ("admin", "/admin")]
)
def test_everybody_begins_at_their_own_page(client: TestClient, username: str, home: str) -> None:
    answer = log_in(client, username)
    assert (answer.status_code, answer.headers["location"]) == (303, home)
    assert client.get("/").headers["location"] == home


def test_the_cookie_is_out_of_reach_of_scripts(client: TestClient, school: School) -> None:
    cookie = log_in(client, "an").headers["set-cookie"].lower()
    assert cookie.startswith(COOKIE)
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    with TestClient(school.app(server={"behind_https": True}), base_url="https://testserver") as https:
        https.headers.update({"Origin": "https://testserver"})
        cookie = https.post("/login", data={"username": "an", "password": PASSWORD}, follow_redirects=False)
        assert cookie.headers["set-cookie"].startswith(SECURE_COOKIE)
        assert "secure" in cookie.headers["set-cookie"].lower()


def test_wrong_passwords_and_unknown_names_are_told_alike(client: TestClient) -> None:
    wrong, unknown = log_in(client, "an", "khong-phai-the"), log_in(client, "ai-do", "khong-phai-the")
    assert wrong.status_code == unknown.status_code == 401
    told = "Tên đăng nhập hoặc mật khẩu không đúng."
    assert told in wrong.text
    assert told in unknown.text
    assert COOKIE not in client.cookies


def test_an_account_rests_after_many_wrong_passwords(client: TestClient) -> None:
    for _ in range(TRIES):
        assert log_in(client, "an", "khong-phai-the").status_code == 401
    locked = log_in(client, "an")
    assert locked.status_code == 429
    assert "15 phút" in locked.text
    assert log_in(client, "binh").status_code == 303


def test_signing_out_ends_the_session_everywhere(client: TestClient) -> None:
    log_in(client, "an")
    token = client.cookies[COOKIE]
    client.post("/logout")
    client.cookies.clear()
    client.cookies.set(COOKIE, token)
    assert client.get("/password").headers["location"] == "/login?then=/password"


def test_a_session_ends_by_itself(client: TestClient, school: School) -> None:
    old = open_session(school.database, school.people["an"].id, hours=1, at=now() - timedelta(hours=2))
    client.cookies.set(COOKIE, old)
    assert client.get("/password").headers["location"].startswith("/login")


def test_the_first_password_opens_nothing_but_its_change(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        create_person(session, "student", "moi", "Bạn Mới", password="mat-khau-dau")
    log_in(client, "moi", "mat-khau-dau")
    assert client.get("/api/books").status_code in (303, 403)
    assert client.get("/api/books", headers={"Accept": "application/json"}).json()["error"]["code"] == (
        "must_change_password"
    )
    form = {"present": "mat-khau-dau", "fresh": "mot-cau-de-nho", "again": "mot-cau-khac-han"}
    assert "không giống nhau" in client.post("/password", data=form).text
    form["again"] = form["fresh"]
    assert client.post("/password", data=form).headers["location"] == "/learn"
    assert client.get("/api/books").status_code == 200


@pytest.mark.parametrize("fresh", ["ngan", "aaaaaaaaaa", PASSWORD, "an"])
def test_passwords_that_will_not_do(client: TestClient, fresh: str) -> None:
    log_in(client, "an")
    form = {"present": PASSWORD, "fresh": fresh, "again": fresh}
    assert client.post("/password", data=form).status_code == 400
    client.post("/logout")
    assert log_in(client, "an").status_code == 303


def test_a_new_password_signs_other_browsers_out(client: TestClient, school: School) -> None:
    other = open_session(school.database, school.people["an"].id, hours=12)
    log_in(client, "an")
    form = {"present": PASSWORD, "fresh": "mot-cau-de-nho", "again": "mot-cau-de-nho"}
    assert client.post("/password", data=form).status_code == 303
    assert client.get("/password").status_code == 200
    client.cookies.clear()
    client.cookies.set(COOKIE, other)
    assert client.get("/password").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://xau.example"},
        {"Origin": "null"},
        {"Origin": "http://testserver.xau.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ],
)
def test_pages_of_other_sites_change_nothing(client: TestClient, school: School, headers: dict[str, str]) -> None:
    school.sign_in(client, "an")
    del client.headers["Origin"]
    form = {"present": PASSWORD, "fresh": "mot-cau-de-nho", "again": "mot-cau-de-nho"}
    answer = client.post("/password", data=form, headers=headers)
    assert answer.status_code == 403
    del client.headers["Accept"]
    told = client.post("/login", data={"username": "an", "password": PASSWORD}, headers=headers)
    assert told.json()["error"]["code"] == "foreign_origin"


def test_a_form_of_ours_without_origin_is_taken(client: TestClient, school: School) -> None:
    school.sign_in(client, "an")
    del client.headers["Origin"]
    form = {"present": PASSWORD, "fresh": "mot-cau-de-nho", "again": "mot-cau-de-nho"}
    assert client.post("/password", data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_where_to_go_after_signing_in_is_a_page_of_ours() -> None:
    assert own_path("/learn?book=1") == "/learn?book=1"
    for foreign in ("//xau.example", "https://xau.example", "/\\xau.example", "javascript:alert(1)", "", None):
        assert own_path(foreign) is None


def test_pages_speak_the_language_of_the_person(client: TestClient, school: School) -> None:
    assert "Đăng nhập" in client.get("/login").text
    assert "Sign in" in client.get("/login", headers={"Accept-Language": "en-GB,en"}).text
    school.sign_in(client, "an")
    client.post("/language", data={"chosen": "en", "then": "/password"})
    assert "Change password" in client.get("/password").text


def test_an_empty_school_tells_how_to_begin(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.delete(Person))
    assert "deepedu school init" in client.get("/login").text


def test_pages_load_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/login")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for name in ("app.css", "theme.js"):
        assert client.get(f"/static/{name}").status_code == 200


def test_every_route_has_one_rule(school: School) -> None:
    rules = rules_of(school.app())
    assert rules["POST", "/api/ask"] == {"student", "teacher"}
    assert rules["GET", "/login"] is None
    assert rules["POST", "/api/playbook/rollback"] == {"teacher", "admin"}


def test_an_application_with_an_unguarded_route_does_not_start() -> None:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.get("/open", dependencies=[open_to_all])(lambda: None)
    rules_of(app)
    app.get("/unguarded")(lambda: None)
    with pytest.raises(RuntimeError, match="/unguarded"):
        rules_of(app)


def test_without_accounts_it_listens_on_this_machine_only() -> None:
    with pytest.raises(ConfigError, match="deepedu school init"):
        create_app(Settings.model_validate({"server": {"access": "open", "host": "0.0.0.0"}}))
