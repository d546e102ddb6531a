"""The teachers' part: closed without a key, quotes beside their books, decisions on what was read, whole or not."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy.orm import Session

from deepedu.base.config import Settings, load_settings
from deepedu.base.errors import ConfigError
from deepedu.curriculum.removal import delete_books
from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, InteractionEvidence, PassageEvidence
from deepedu.playbook.delta import Add, Count, Judge, Put, Retire
from deepedu.server import feedback_routes
from deepedu.server.app import create_app
from deepedu.server.playbook_routes import KEY_VARIABLE, NAMED_IDS, key_from, router
from deepedu.store import Database
from deepedu.store.tables import Book

Start = Callable[[FastAPI], str]
KEY = "khoa-bi-mat-cua-truong-0123"
MODEL, TEACHER = Author(role="model", name="qwen"), Author(role="teacher", name="thầy Nam")
# On page 6, and in other spacing than the book has.
QUOTE = "Năm 1742, nhà thiên văn học\n  người Thụy Điển  Anders Celsius đề xuất một thang nhiệt độ"
FIRST, SECOND, THIRD = "b-00001", "b-00002", "b-00003"


def app_of(database: Database) -> FastAPI:
    settings = {"store": {"data_dir": database.data_dir}, "search": {"dense": "off"}, "server": {"access": "open"}}
    return create_app(Settings.model_validate(settings), model=ScriptedModel(answer=lambda _: "Vâng."))


@pytest.fixture
def book(sample_library: Database) -> Playbook:
    """Three proposed bullets, version 1: a fact with quotes, a method, a mistake."""
    with sample_library.read() as session:
        sha256 = session.scalars(sa.select(Book.sha256)).one()
    evidence = (
        PassageEvidence(book=sha256, page=6, quote=QUOTE),
        PassageEvidence(book=sha256, page=6, quote="Sách không hề nói câu này."),
        PassageEvidence(book="0" * 64, page=3, quote="Sách đã xóa."),
        InteractionEvidence(reference="lượt-7", signal="grounding"),
    )
    book = Playbook(sample_library)
    add = (
        Add(text="Anders Celsius đề xuất thang nhiệt độ năm 1742.", kind="fact", evidence=evidence),
        Add(text="Muốn đổi độ F sang độ C, trừ 32 rồi nhân 5/9.", kind="method"),
        Add(text="Học sinh hay quên đơn vị.", kind="mistake"),
    )
    book.change(add, MODEL, "học từ lượt hỏi")
    return book


@pytest.fixture
def app(book: Playbook, sample_library: Database, monkeypatch: pytest.MonkeyPatch) -> FastAPI:  # noqa: ARG001
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return app_of(sample_library)


@pytest.fixture
def teacher(app: FastAPI, start: Start) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=start(app) + "/api/playbook", headers=headers, timeout=30) as client:
        yield client


def one(teacher: httpx.Client, bullet_id: str) -> dict[str, Any]:
    response = teacher.get(f"/bullets/{bullet_id}")
    assert response.status_code == 200, response.text
    return response.json()["bullet"]


def post(teacher: httpx.Client, bullet_id: str, verb: str, **more: Any) -> httpx.Response:
    if "expected" not in more:
        more["expected"] = one(teacher, bullet_id)["revision"]
    return teacher.post(f"/bullets/{bullet_id}/{verb}", json={"by": "cô Lan", **more})


def guarded() -> list[APIRoute]:
    """The routes for teachers, of whatever router."""
    routes = [route for route in (*router.routes, *feedback_routes.router.routes) if isinstance(route, APIRoute)]
    return [route for route in routes if route.path.startswith("/api/playbook")]


def walk(url: str, headers: dict[str, str]) -> list[tuple[str, int, str]]:
    """Asks every route for teachers: its path, the status, the code of the error."""
    found: list[tuple[str, int, str]] = []
    for route in guarded():
        for method in route.methods or ():
            path = route.path.replace("{bullet_id}", FIRST).replace("{turn_id}", "1")
            # Wrong in every other way too: what is told first is that the door is closed.
            response = httpx.request(method, url + path, headers=headers, json={"by": ""}, params={"limit": "x"})
            found.append((f"{method} {path}", response.status_code, response.json()["error"]["code"]))
    return found


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {KEY}x"},
        {"Authorization": f"Bearer {KEY[:-1]}"},
        {"Authorization": "Bearer"},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer khóa-của-trường".encode().decode("latin-1")},
        {"Cookie": f"Authorization=Bearer {KEY}"},
    ],
)
def test_every_route_needs_the_key(app: FastAPI, start: Start, book: Playbook, headers: dict[str, str]) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    url = start(app)
    answers = walk(url, raw)  # pyright: ignore[reportArgumentType]
    assert len(answers) == 9
    assert {(status, code) for _, status, code in answers} == {(401, "wrong_key")}, answers
    # No route under the path was left out.
    paths = {path for path in app.openapi()["paths"] if path.startswith("/api/playbook")}
    assert paths == {route.path for route in guarded()}
    response = httpx.get(f"{url}/api/playbook/bullets")
    assert response.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in response.json()["error"]["message"]
    assert httpx.get(response.url, headers={"Authorization": f"bearer   {KEY}"}).status_code == 200
    assert book.version == 1


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_key_on_the_server_every_route_is_closed(
    sample_library: Database, start: Start, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv(KEY_VARIABLE, value)
    url = start(app_of(sample_library))
    for headers in ({}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": "Bearer"}):
        answers = walk(url, headers)
        assert {(status, code) for _, status, code in answers} == {(403, "access_closed")}, answers
    assert KEY_VARIABLE in httpx.get(f"{url}/api/playbook/bullets").json()["error"]["message"]
    # The pupils' part is as open as before.
    assert httpx.get(f"{url}/api/health").status_code == 200


@pytest.mark.parametrize("key", ["k" * 15, "khóa-bí-mật-của-trường", "mot khoa co dau cach"])
def test_a_key_that_is_none_stops_the_server_at_start(
    key: str, sample_library: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(ConfigError, match=KEY_VARIABLE) as error:
        app_of(sample_library)
    assert key not in str(error.value)
    assert key_from({KEY_VARIABLE: "k" * 16}) == "k" * 16


def test_the_key_is_a_secret(
    app: FastAPI, teacher: httpx.Client, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    # Known to be read elsewhere, so no unknown setting, and never shown as one.
    loaded = load_settings(environment={KEY_VARIABLE: KEY, "DEEPEDU_STORE_DATA_DIR": str(tmp_path)})
    assert KEY not in repr(loaded)
    with caplog.at_level(logging.DEBUG):
        answers = [teacher.get("/bullets"), teacher.get("/bullets", headers={"Authorization": f"Bearer {KEY}x"})]
    assert [answer.status_code for answer in answers] == [200, 401]
    assert not any(KEY in answer.text for answer in answers)
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert KEY not in "".join(ours)
    assert KEY not in repr(app.state.services)


def test_a_quote_stands_beside_its_passage(teacher: httpx.Client, sample_library: Database) -> None:
    listed = teacher.get("/bullets").json()["bullets"][0]
    here, not_found, deleted, interaction = listed["evidence"]
    passage = here["passage"]
    marked = passage["text"][passage["start"] : passage["end"]]
    assert marked == " ".join(QUOTE.split())
    assert passage["text"].startswith("2. Các thang nhiệt độ")
    assert passage["heading"].endswith("2. Các thang nhiệt độ")
    assert (passage["first_page"], passage["last_page"], here["page"]) == (6, 6, 6)
    with sample_library.read() as session:
        stored = session.scalars(sa.select(Book)).one()
    assert (here["title"], here["book_id"], here["has_pages"]) == (stored.title, stored.id, True)
    assert here["book_is_here"]
    assert here["quote"].split() == QUOTE.split()
    assert (not_found["book_is_here"], not_found["title"], not_found["passage"]) == (True, stored.title, None)
    nothing = {"book_is_here": False, "book_id": None, "title": None, "has_pages": None, "passage": None}
    assert deleted == {"type": "passage", "book": "0" * 64, "page": 3, "quote": "Sách đã xóa.", **nothing}
    assert interaction == {"type": "interaction", "reference": "lượt-7", "signal": "grounding"}
    # A book that is deleted takes no bullet with it.
    delete_books(sample_library, [here["book_id"]])
    gone = one(teacher, FIRST)["evidence"][0]
    assert gone == {"type": "passage", "book": here["book"], "page": 6, "quote": here["quote"], **nothing}


def test_of_two_places_the_one_on_the_page_is_shown(
    teacher: httpx.Client, book: Playbook, sample_library: Database
) -> None:
    with sample_library.read() as session:
        sha256 = session.scalars(sa.select(Book.sha256)).one()
    twice = tuple(PassageEvidence(book=sha256, page=page, quote="Em có biết?") for page in (5, 15))
    book.change([Add(text="Mục hay trong sách.", kind="explanation", evidence=twice)], MODEL, "x")
    places = [each["passage"] for each in one(teacher, "b-00004")["evidence"]]
    assert [place["first_page"] for place in places] == [5, 15]
    # A page that is wrong still leads to the book's words.
    astray = PassageEvidence(book=sha256, page=19, quote=QUOTE)
    book.change([Add(text="Một điều khác.", kind="fact", evidence=(astray,))], MODEL, "x")
    assert one(teacher, "b-00005")["evidence"][0]["passage"]["first_page"] == 6


def test_marks_without_width_do_not_hide_a_quote(
    teacher: httpx.Client, book: Playbook, sample_library: Database
) -> None:
    with sample_library.write() as session:
        sha256 = session.scalars(sa.select(Book.sha256)).one()
        old, new = "Anders Celsius đề xuất", "Anders Cel\u00adsius\u200b đề xuất"
        session.execute(sa.text("UPDATE passages SET text = replace(text, :old, :new)"), {"old": old, "new": new})
    # What the book's own cleaning makes of such a quote.
    quote = PassageEvidence(book=sha256, page=6, quote="Cel\u00adsius\u200b đề xuất")
    assert quote.quote == "Celsius đề xuất"
    book.change([Add(text="Một điều khác.", kind="fact", evidence=(quote,))], MODEL, "x")
    passage = one(teacher, "b-00004")["evidence"][0]["passage"]
    assert passage["text"][passage["start"] : passage["end"]] == "Cel\u00adsius\u200b đề xuất"


def test_bullets_by_status_and_kind_in_the_order_of_the_book(teacher: httpx.Client, book: Playbook) -> None:
    book.change([Judge(bullet_id=SECOND, status="verified", reasons=("đúng",))], TEACHER, "x")

    def ids(**params: Any) -> tuple[list[str], int, int]:
        got = teacher.get("/bullets", params=params).json()
        return [each["id"] for each in got["bullets"]], got["total"], got["version"]

    assert ids() == ([FIRST, SECOND, THIRD], 3, 2)
    assert ids(status="proposed", kind="", offset=0, limit=50) == ([FIRST, THIRD], 2, 2)
    assert ids(status="verified") == ([SECOND], 1, 2)
    assert ids(status="proposed", kind="mistake") == ([THIRD], 1, 2)
    assert ids(offset=1, limit=1) == ([SECOND], 3, 2)
    assert ids(offset=9) == ([], 3, 2)
    kept = book.state().bullets[SECOND].model_dump(mode="json")
    shown = teacher.get("/bullets", params={"status": "verified"}).json()["bullets"][0]
    assert {name: shown[name] for name in kept} == kept
    assert set(shown) - set(kept) == {"revision"}


@pytest.mark.parametrize(
    "params", [{"status": "approved"}, {"kind": "rule"}, {"limit": 0}, {"limit": 201}, {"offset": -1}, {"staus": "x"}]
)
def test_what_cannot_be_listed_is_told(teacher: httpx.Client, params: dict[str, Any]) -> None:
    response = teacher.get("/bullets", params=params)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
    assert next(iter(params)) in response.json()["error"]["message"]


def test_one_bullet_with_its_history(teacher: httpx.Client, book: Playbook) -> None:
    book.change([Count(bullet_id=SECOND, helpful=1), Retire(bullet_id=THIRD, reason="cũ")], MODEL, "đếm")
    post(teacher, SECOND, "approve", reason="đúng công thức")
    got = teacher.get(f"/bullets/{SECOND}").json()
    assert (got["version"], got["history_goes_on"]) == (3, False)
    seen = [(each["version"], each["operations"], each["author"], each["reason"]) for each in got["history"]]
    model = {"role": "model", "name": "qwen"}
    assert seen == [
        (3, {"JUDGE": 1}, {"role": "teacher", "name": "cô Lan"}, "đúng công thức"),
        # Only what concerns this bullet.
        (2, {"COUNT": 1}, model, "đếm"),
        (1, {"ADD": 1}, model, "học từ lượt hỏi"),
    ]
    assert got["history"][0]["at"] == got["bullet"]["changed_at"]
    short = teacher.get(f"/bullets/{SECOND}", params={"limit": 2}).json()
    assert ([each["version"] for each in short["history"]], short["history_goes_on"]) == ([3, 2], True)


@pytest.mark.parametrize("verb", ["", "/approve", "/reject", "/edit"])
def test_an_unknown_bullet(teacher: httpx.Client, book: Playbook, verb: str) -> None:
    body = {"by": "cô Lan", "reason": "x", "expected": "x"}
    response = teacher.request("POST" if verb else "GET", f"/bullets/b-00099{verb}", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    assert "b-00099" in response.json()["error"]["message"]
    assert book.version == 1


def test_approving(teacher: httpx.Client, book: Playbook) -> None:
    response = post(teacher, FIRST, "approve")
    assert response.status_code == 200, response.text
    assert response.json() == {"version": 2, "bullet": one(teacher, FIRST)}
    bullet = book.state().bullets[FIRST]
    assert (bullet.status, bullet.reasons) == ("verified", ())
    (change,) = book.history(limit=1)
    assert (change.delta.author, change.delta.reason) == (Author(role="teacher", name="cô Lan"), "giáo viên duyệt")
    assert post(teacher, SECOND, "approve", reason=" đúng \n rồi ").json()["bullet"]["reasons"] == ["đúng rồi"]


def test_rejecting(teacher: httpx.Client, book: Playbook) -> None:
    bullet = post(teacher, FIRST, "reject", reason="sai năm").json()["bullet"]
    assert (bullet["status"], bullet["reasons"]) == ("quarantined", ["sai năm"])
    assert book.history(limit=1)[0].delta.reason == "sai năm"


@pytest.mark.parametrize(
    ("verb", "body", "names"),
    [
        ("reject", {}, "reason"),
        ("reject", {"reason": " \u200b "}, "reason"),
        ("approve", {"by": "  "}, "by"),
        ("approve", {"by": None}, "by"),
        ("approve", {"reason": "x\x00y"}, "reason"),
        ("approve", {"reason": "x" * 501}, "reason"),
        ("approve", {"expected": None}, "expected"),
        ("approve", {"aprove": True}, "aprove"),
        ("edit", {"text": "  "}, "text"),
        ("edit", {"text": "từ " * 500}, "text"),
        ("edit", {"kind": "rule"}, "kind"),
        ("edit", {"scope": {"grade": 13}}, "scope.grade"),
        ("edit", {"scope": {"class": 6}}, "scope.class"),
        ("edit", {"status": "verified"}, "status"),
    ],
)
def test_what_is_no_decision_changes_nothing(
    teacher: httpx.Client, book: Playbook, verb: str, body: dict[str, Any], names: str
) -> None:
    response = post(teacher, FIRST, verb, **body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request"), response.text
    assert response.json()["error"]["message"].startswith(f"{names}:")
    assert book.version == 1


def test_an_edit_waits_to_be_verified_again(teacher: httpx.Client, book: Playbook) -> None:
    post(teacher, SECOND, "approve")
    scope = {"grade": 6, "subject": "Khoa học tự nhiên"}
    bullet = post(teacher, SECOND, "edit", text="Trừ 32 rồi chia 1,8.", kind="tool", scope=scope).json()["bullet"]
    assert (bullet["text"], bullet["kind"], bullet["status"]) == ("Trừ 32 rồi chia 1,8.", "tool", "proposed")
    assert bullet["scope"] == {**scope, "book": None, "lesson": None}
    assert post(teacher, SECOND, "edit", scope={}).json()["bullet"]["scope"]["grade"] is None
    # Another heading says nothing new: the book's own rule.
    post(teacher, SECOND, "approve")
    bullet = post(teacher, SECOND, "edit", section="Đổi đơn vị").json()["bullet"]
    assert (bullet["section"], bullet["status"]) == ("Đổi đơn vị", "verified")
    assert book.history(limit=1)[0].delta.reason == "giáo viên sửa"


def test_an_edit_that_is_approved_is_one_change(teacher: httpx.Client, book: Playbook) -> None:
    response = post(teacher, SECOND, "edit", text="Trừ 32 rồi chia 1,8.", approve=True, reason="gọn hơn")
    bullet = response.json()["bullet"]
    assert (bullet["text"], bullet["status"], bullet["reasons"]) == ("Trừ 32 rồi chia 1,8.", "verified", ["gọn hơn"])
    (change,) = book.history(limit=1)
    assert (change.version, [each.op for each in change.delta.operations]) == (2, ["UPDATE", "JUDGE"])
    assert book.at(1).bullets[SECOND].status == "proposed"


def test_an_edit_that_fails_does_nothing_at_all(
    teacher: httpx.Client, book: Playbook, app: FastAPI, sample_library: Database
) -> None:
    app.state.services.playbook = Playbook(sample_library, limit_tokens=1)
    long = "Một điều dài hơn nhiều so với trước, " * 5
    response = post(teacher, SECOND, "edit", text=long, approve=True)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "playbook_full")
    assert book.version == 1
    bullet = one(teacher, SECOND)
    assert (bullet["text"], bullet["status"]) == ("Muốn đổi độ F sang độ C, trừ 32 rồi nhân 5/9.", "proposed")


@pytest.mark.parametrize("more", [{}, {"approve": True}, {"text": " Học sinh hay quên đơn vị.\n", "kind": "mistake"}])
def test_an_edit_of_nothing(teacher: httpx.Client, book: Playbook, more: dict[str, Any]) -> None:
    response = post(teacher, THIRD, "edit", **more)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
    assert "text" in response.json()["error"]["message"]
    assert book.version == 1


def test_what_is_retired_is_brought_back_before_it_is_edited(teacher: httpx.Client, book: Playbook) -> None:
    book.change([Retire(bullet_id=THIRD, reason="cũ")], TEACHER, "cũ")
    response = post(teacher, THIRD, "edit", text="Khác.", approve=True)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")
    assert book.version == 2
    assert post(teacher, THIRD, "approve").json()["bullet"]["status"] == "verified"


@pytest.mark.parametrize("token", ["revision", "changed_at"])
@pytest.mark.parametrize(
    ("verb", "more"), [("approve", {}), ("reject", {"reason": "sai"}), ("edit", {"text": "Khác.", "approve": True})]
)
def test_who_read_an_older_one_is_shown_the_present_one(
    teacher: httpx.Client, book: Playbook, verb: str, more: dict[str, Any], token: str
) -> None:
    read = one(teacher, FIRST)[token]
    assert post(teacher, FIRST, "edit", text="Celsius, 1742.").status_code == 200
    response = post(teacher, FIRST, verb, expected=read, **more)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (409, "bullet_changed")
    assert error["details"] == {"version": 2, "bullet": one(teacher, FIRST)}
    assert FIRST in error["message"]
    assert book.version == 2
    # With what the answer holds the teacher can go on.
    assert post(teacher, FIRST, verb, expected=error["details"]["bullet"][token], **more).status_code == 200


def test_counting_is_no_change_of_what_was_read(teacher: httpx.Client, book: Playbook) -> None:
    read = one(teacher, FIRST)
    book.change([Count(bullet_id=FIRST, helpful=3, harmful=1)], MODEL, "đếm")
    assert one(teacher, FIRST)["changed_at"] != read["changed_at"]
    bullet = post(teacher, FIRST, "approve", expected=read["revision"]).json()["bullet"]
    assert (bullet["status"], bullet["helpful"]) == ("verified", 3)


def test_another_bullet_with_the_same_time_is_another_revision(teacher: httpx.Client, book: Playbook) -> None:
    read = one(teacher, FIRST)
    other = book.state().bullets[FIRST].model_copy(update={"text": "Celsius, 1842."})
    book.change([Put(bullet=other)], TEACHER, "nhập từ tệp")
    assert one(teacher, FIRST)["changed_at"] == read["changed_at"]
    assert post(teacher, FIRST, "approve", expected=read["revision"]).status_code == 409


def test_what_another_process_does_at_the_last_moment_counts(
    teacher: httpx.Client, app: FastAPI, book: Playbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = one(teacher, FIRST)["revision"]
    database: Database = app.state.services.database
    write = database.write

    def after_another() -> AbstractContextManager[Session]:
        # Between the request and its transaction.
        monkeypatch.setattr(database, "write", write)
        book.change([Judge(bullet_id=FIRST, status="quarantined", reasons=("sai",))], TEACHER, "sai")
        return write()

    monkeypatch.setattr(database, "write", after_another)
    assert post(teacher, FIRST, "approve", expected=read).status_code == 409
    assert (book.version, book.state().bullets[FIRST].status) == (2, "quarantined")


def test_of_many_at_once_one_decides(
    teacher: httpx.Client, start: Start, sample_library: Database, book: Playbook
) -> None:
    # Two servers on one database, as two processes would be.
    bases = [str(teacher.base_url), start(app_of(sample_library)) + "/api/playbook/"]
    gate = threading.Barrier(4)

    def decide(number: int, bullet_id: str, read: str) -> int:
        body = {"by": f"cô {number}", "reason": f"lần {number}", "expected": read}
        url = f"{bases[number % 2]}bullets/{bullet_id}/approve"
        gate.wait()
        return httpx.post(url, json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=30).status_code

    for bullet_id in (FIRST, SECOND, THIRD):
        read = one(teacher, bullet_id)["revision"]
        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(lambda n, i=bullet_id, r=read: decide(n, i, r), range(4))) == [200, 409, 409, 409]
    assert book.version == 4


def test_history_goes_back_page_by_page(teacher: httpx.Client, book: Playbook) -> None:
    for number in range(5):
        book.change([Count(bullet_id=FIRST, helpful=1)], MODEL, f"đếm {number}")
    got = teacher.get("/history", params={"limit": 4}).json()
    assert ([each["version"] for each in got["changes"]], got["next_before"], got["version"]) == ([6, 5, 4, 3], 3, 6)
    got = teacher.get("/history", params={"limit": 4, "before": got["next_before"]}).json()
    assert ([each["version"] for each in got["changes"]], got["next_before"]) == ([2, 1], None)
    first = got["changes"][-1]
    assert (first["operations"], first["bullet_count"]) == ({"ADD": 3}, 3)
    assert first["bullet_ids"] == [FIRST, SECOND, THIRD]
    assert first["author"] == {"role": "model", "name": "qwen"}
    assert teacher.get("/history", params={"before": 99}).json()["changes"][0]["version"] == 6
    assert teacher.get("/history", params={"before": 1}).json()["changes"] == []
    # A large change names its first bullets only.
    book.change([Add(text=f"Điều {number}", kind="tool") for number in range(30)], MODEL, "nhiều")
    change = teacher.get("/history", params={"limit": 1}).json()["changes"][0]
    assert (change["bullet_count"], len(change["bullet_ids"])) == (30, NAMED_IDS)


def test_what_differs_between_versions(teacher: httpx.Client, book: Playbook) -> None:
    post(teacher, FIRST, "approve", reason="đúng")
    book.change([Add(text="Mới.", kind="tool")], MODEL, "x")
    got = teacher.get("/diff", params={"before": 1}).json()
    assert (got["before"], got["after"], got["removed"]) == (1, 3, [])
    assert [each["id"] for each in got["added"]] == ["b-00004"]
    (changed,) = got["changed"]
    assert changed["fields"] == ["status", "reasons", "changed_at"]
    assert (changed["before"]["status"], changed["after"]["status"]) == ("proposed", "verified")
    back = teacher.get("/diff", params={"before": 3, "after": 2}).json()
    assert ([each["id"] for each in back["removed"]], back["changed"]) == (["b-00004"], [])
    for wrong, status in (({"before": 9}, 404), ({"before": 0, "after": 9}, 404), ({}, 400), ({"before": -1}, 400)):
        assert teacher.get("/diff", params=wrong).status_code == status


def test_rolling_back(teacher: httpx.Client, book: Playbook) -> None:
    read = one(teacher, FIRST)
    post(teacher, FIRST, "approve")
    body = {"version": 1, "by": "cô Lan", "reason": "duyệt nhầm"}
    assert teacher.post("/rollback", json=body).json() == {"version": 3, "changed": True}
    assert one(teacher, FIRST) == read
    (change,) = book.history(limit=1)
    assert (change.delta.author, change.delta.reason) == (Author(role="teacher", name="cô Lan"), "duyệt nhầm")
    assert teacher.post("/rollback", json=body).json() == {"version": 3, "changed": False}
    # The bullet is as it was, so what was read of it then may be decided on again.
    assert post(teacher, FIRST, "approve", expected=read["revision"]).status_code == 200
    for wrong, status in (({"version": 99}, 404), ({"reason": " "}, 400), ({"by": ""}, 400), ({"version": -1}, 400)):
        assert teacher.post("/rollback", json={**body, **wrong}).status_code == status
    assert book.version == 4
