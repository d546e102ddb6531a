"""The pupil's pages and conversations: what is shown, whose it is, and who may ask at all."""

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import ORIGIN, School

from deepedu.base.config import Settings
from deepedu.base.errors import AccountLocked, LLMUnreachable
from deepedu.llm.chat import Delta, Finished, Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.school.accounts import open_session
from deepedu.server.access import COOKIE
from deepedu.server.admission import QUESTIONS, Admission, may_learn
from deepedu.server.app import create_app
from deepedu.server.turn_view import views_of
from deepedu.store import Database
from deepedu.store.conversations import finish_turn, past_turns, start_turn
from deepedu.store.lease import Lease
from deepedu.store.signals import failed_turns
from deepedu.store.tables import Book, Consent, SchoolClass, Turn, TurnSignal, now

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
REPLY = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]. Ông sinh ra trên Mặt Trăng năm 1900 [1]."


@pytest.fixture
def client(school: School) -> Iterator[TestClient]:
    """An's browser, in a class that gets explanations rather than hints."""
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="explain"))
    with TestClient(school.app(model=ScriptedModel(answer=lambda _: REPLY)), follow_redirects=False) as client:
        yield school.sign_in(client, "an")


def ask(client: TestClient, question: str = QUESTION, **more: str) -> str:
    """Asks by the form; returns the conversation's address."""
    answer = client.post("/chat", data={"question": question, **more})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].partition("#")[0]


def stream(client: TestClient, **body: Any) -> list[tuple[str, Any]]:
    response = client.post("/api/ask", json=body)
    assert response.status_code == 200, response.text
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


# --- Choosing ---


def test_books_are_offered_with_their_lessons(client: TestClient) -> None:
    page = client.get("/learn").text
    assert "Hỏi sách này" in page
    lessons = client.get(re.findall(r"/learn/books/\d+", page)[0]).text
    link = re.findall(r'/chat\?book=\d+&amp;lesson=\d+">[^<]*Đo nhiệt độ', lessons)
    assert link, lessons
    chat = client.get(link[0].split('"')[0].replace("&amp;", "&")).text
    assert re.search(r"Em đang học:.*Đo nhiệt độ", chat)
    assert re.search(r'<option value="\d+" selected>', chat)


def test_a_lesson_of_another_book_is_not_taken(client: TestClient) -> None:
    assert "Em đang học:" not in client.get("/chat?book=999&lesson=1").text


def test_a_pupil_sees_the_books_of_the_own_grade_first(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.add(Book(sha256="x", source_name="x", format="pdf", title="Sách lớp chín", grade=9, status="ready"))
    assert "Sách lớp chín" not in client.get("/learn").text
    assert "Sách lớp chín" in client.get("/learn?grade=all").text
    assert "Không có sách nào như vậy" in client.get("/learn?grade=9&subject=Nhạc").text
    school.sign_in(client, "lan")
    assert "Sách lớp chín" in client.get("/learn").text


def test_an_empty_library_says_so(client: TestClient, school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(Book).values(status="reading"))
    for address in ("/learn", "/chat"):
        page = client.get(address).text
        assert "chưa có cuốn sách nào" in page
        assert "<textarea" not in page
    assert client.get("/learn/books/1").status_code == 404
    assert client.get("/learn/books/999").status_code == 404


def test_a_model_that_is_not_there_is_told(client: TestClient) -> None:
    services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    services.tutor, services.model_state.status = None, "failed"
    for address in ("/learn", "/chat"):
        assert 'data-status="failed"' in client.get(address).text
    answer = client.post("/chat", data={"question": QUESTION})
    assert answer.status_code == 503
    assert QUESTION in answer.text


# --- The conversation ---


def test_a_turn_by_the_form_shows_what_was_checked(client: TestClient) -> None:
    page = client.get(ask(client)).text
    assert QUESTION in page
    assert re.search(r'<li class="supported">.*?1742', page, re.DOTALL)
    assert re.search(r"<mark>[^<]*1742[^<]*</mark>", page)
    assert "trang 6" in page
    assert "một hệ thống AI" in page
    assert "Hỏi lại" in page


def test_what_failed_the_check_is_struck_out(school: School) -> None:
    citation = None
    sentence = {
        "text": "Sai $x^2$.",
        "status": "unsupported",
        "citation": citation,
        "reason": "Sách không nói.",
        "score": 0,
    }
    answer = {"question": "?", "found": True, "sentences": [{**sentence, "replaces": None}], "nearest": [], "text": ""}
    page = shown(school, "done", answer)
    assert re.search(r'<del class="said">Sai <math .*</math>\.</del>', page)
    assert "Sách không nói." in page


def shown(school: School, status: str, answer: dict[str, Any] | None = None, **more: Any) -> str:
    """The page of a conversation whose one turn ended so."""
    owner = school.people["an"].owner
    conversation, turn = start_turn(school.database, "Hỏi <b>gì</b>?", {}, None, owner=owner)
    finish_turn(school.database, turn, status, answer=answer, **{"draft": "", **more})
    with TestClient(school.app()) as client:
        return school.sign_in(client, "an").get(f"/chat/{conversation}").text


@pytest.mark.parametrize(
    ("status", "told"), [("stopped", "dừng giữa chừng"), ("failed", "Không trả lời được câu này. Hỏng rồi")]
)
def test_turns_that_came_to_no_answer_say_so_and_offer_again(school: School, status: str, told: str) -> None:
    page = shown(school, status, draft="Nửa câu <i>", error="Hỏng rồi")
    assert told in page
    assert "Nửa câu &lt;i&gt;" in page
    assert "Hỏi &lt;b&gt;gì&lt;/b&gt;?" in page
    assert "Hỏi lại" in page
    assert "Có ích" not in page


def test_an_interrupted_turn_says_so(school: School) -> None:
    owner = school.people["an"].owner
    conversation, turn = start_turn(school.database, "Gì?", {}, None, owner=owner)
    with school.database.write() as session:
        session.execute(sa.update(Turn).where(Turn.id == turn).values(lease=str(replace(Lease.mine(), birth="0"))))
    assert past_turns(school.database, conversation, owner=owner)[0].status == "interrupted"
    with TestClient(school.app()) as client:
        assert "máy chủ khởi động lại" in school.sign_in(client, "an").get(f"/chat/{conversation}").text


def test_care_is_shown_without_the_decoration_of_a_chat(school: School) -> None:
    page = shown(school, "done", {"kind": "care", "found": True, "sentences": [], "text": "Em ơi\nGọi 111."})
    assert '<div class="care">Em ơi\nGọi 111.</div>' in page
    article = page.partition("<article")[2].partition("</article>")[0]
    assert "<button" not in article


def test_a_hint_is_shown_with_its_place(school: School) -> None:
    place = {"book": "KHTN 6", "chapter": None, "lesson": "Bài 3", "page": 7, "page_label": "7", "has_pages": True}
    hint = {
        "rung": 2,
        "rungs": 6,
        "name": "lesson",
        "text": "Xem $x$.",
        "sources": [place],
        "reason": "chỉ cho thầy cô",
    }
    page = shown(school, "done", {"kind": "hint", "found": True, "sentences": [], "text": "Xem $x$.", "hint": hint})
    assert "Gợi ý 2 trên 6" in page
    assert "KHTN 6 · Bài 3 · trang 7" in page
    assert "<math" in page
    assert "chỉ cho thầy cô" not in page


def test_a_passage_that_is_gone_leaves_its_quote(client: TestClient, school: School) -> None:
    address = ask(client)
    with school.database.write() as session:
        session.execute(sa.delete(Book))
    page = client.get(address).text
    assert "không còn trong thư viện" in page
    assert re.search(r"<mark>[^<]*1742", page)


def test_a_question_goes_on_in_its_conversation(client: TestClient) -> None:
    address = ask(client)
    number = address.rsplit("/", 1)[1]
    assert ask(client, "Nó đông đặc ở bao nhiêu độ?", conversation_id=number) == address
    assert client.get(address).text.count('<article class="turn" ') == 2


@pytest.mark.parametrize("question", ["", "   ", "a" * 2500])
def test_what_cannot_be_asked_stays_in_the_form(client: TestClient, question: str) -> None:
    answer = client.post("/chat", data={"question": question})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert f">{question}</textarea>" in answer.text


def test_a_model_that_fails_leaves_the_books_words(school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="explain"))
    model = ScriptedModel(answer=lambda _: LLMUnreachable("weg"))
    with TestClient(school.app(model=model), follow_redirects=False) as client:
        page = client.get(ask(school.sign_in(client, "an"))).text
    assert "Mô hình không trả lời được" in page
    assert "Trích nguyên văn sách" in page


def test_the_piece_of_one_turn_is_that_of_the_page(client: TestClient) -> None:
    page = client.get(ask(client)).text
    turn = re.findall(r'id="turn-(\d+)"', page)[0]
    piece = client.get(f"/chat/turns/{turn}").text
    assert piece.strip()[:40] in page
    assert re.sub(r"\s+", " ", piece).strip() in re.sub(r"\s+", " ", page)


def test_feedback_by_the_form_is_kept_and_shown(client: TestClient, school: School) -> None:
    address = ask(client)
    turn = re.findall(r'id="turn-(\d+)"', client.get(address).text)[0]
    post = f"/chat/turns/{turn}/feedback"
    assert (
        client.post(post, data={"kind": "wrong", "detail": " năm khác "}).headers["location"]
        == f"{address}#turn-{turn}"
    )
    assert client.post(post, data={"kind": "thumbs_down"}).status_code == 303
    assert failed_turns(school.database)[0].signals == (("wrong", "năm khác"), ("thumbs_down", ""))
    page = client.get(address).text
    assert "Cảm ơn" in page
    assert re.search(r'value="thumbs_down" aria-pressed="true"', page)
    assert re.search(r'value="thumbs_up" aria-pressed="false"', page)
    assert client.post(post, data={"kind": "correction"}).status_code == 400


def test_a_teachers_correction_is_not_shown_as_the_pupils_word(client: TestClient, school: School) -> None:
    turn = int(re.findall(r'id="turn-(\d+)"', client.get(ask(client)).text)[0])
    owner = school.people["an"].owner
    with school.database.write() as session:
        sealed = school.database.vault.seal(owner, "1742")
        session.add(TurnSignal(turn_id=turn, kind="correction", detail=sealed, author="cô Lan", at=now()))
    (view,) = views_of(school.database, past_turns(school.database, 1, owner=owner))
    assert view.said == frozenset()
    assert view.copy_text.startswith(QUESTION)
    assert "trang 6" in view.copy_text


def test_a_conversation_is_deleted_only_by_a_form_that_says_what_it_does(client: TestClient) -> None:
    address = ask(client)
    assert "Xoá hẳn" in client.get("/chat/all").text
    assert (
        client.post("/chat/delete", data={"conversation_id": address.rsplit("/", 1)[1]}).headers["location"] == "/learn"
    )
    assert client.get(address).status_code == 404
    assert "Em chưa hỏi câu nào" in client.get("/chat/all").text


# --- Whose it is ---


def test_nobody_elses_conversation_is_there(client: TestClient, school: School) -> None:
    address = ask(client)
    number = address.rsplit("/", 1)[1]
    turn = re.findall(r'id="turn-(\d+)"', client.get(address).text)[0]
    for other in ("binh", "lan"):
        school.sign_in(client, other)
        assert client.get(address).status_code == 404
        assert client.get(f"/chat/turns/{turn}").status_code == 404
        assert client.get(f"/api/conversations/{number}").status_code == 404
        assert client.delete(f"/api/conversations/{number}").status_code == 404
        assert client.post("/chat/delete", data={"conversation_id": number}).status_code == 404
        assert client.post(f"/chat/turns/{turn}/feedback", data={"kind": "thumbs_up"}).status_code == 404
        assert client.post("/chat", data={"question": "Gì?", "conversation_id": number}).status_code == 404
        assert client.get("/api/conversations").json() == {"conversations": []}
    missing = client.get("/api/conversations/999").json()
    assert missing == client.get(f"/api/conversations/{number}").json()
    school.sign_in(client, "an")
    assert client.get(address).status_code == 200


def test_conversations_over_json(client: TestClient) -> None:
    number = int(ask(client, book="1").rsplit("/", 1)[1])
    (item,) = client.get("/api/conversations").json()["conversations"]
    assert (item["id"], item["title"], item["book_ids"], item["turns"]) == (number, QUESTION, [1], 1)
    body = client.get(f"/api/conversations/{number}").json()
    assert [turn["status"] for turn in body["turns"]] == ["done"]
    assert body["turns"][0]["answer"]["found"]
    assert client.delete(f"/api/conversations/{number}").status_code == 204
    assert client.get("/api/conversations").json() == {"conversations": []}
    described = client.get("/openapi.json").json()["paths"]["/api/conversations/{conversation_id}"]["get"]["responses"]
    assert described["404"]["description"] == "No such conversation of this person."


def test_a_conversation_of_who_was_erased_is_gone(client: TestClient, school: School) -> None:
    address = ask(client)
    services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    services.database.vault.destroy(school.people["an"].owner)
    assert client.get(address).status_code == 404
    assert client.get("/learn").status_code == 200


@pytest.mark.parametrize("username", ["me.an", "admin"])
def test_guardians_and_admins_have_no_chat(client: TestClient, school: School, username: str) -> None:
    school.sign_in(client, username)
    for address in ("/learn", "/chat", "/chat/all", "/api/conversations"):
        assert client.get(address).status_code == 403


# --- Who may ask ---


def test_without_consent_a_friendly_page_says_what_is_missing(client: TestClient, school: School) -> None:
    ask(client)
    with school.database.write() as session:
        session.execute(sa.update(Consent).values(withdrawn_at=now()))
    for address in ("/learn", "/chat", "/chat/1", "/learn/books/1"):
        page = client.get(address)
        assert page.status_code == 200
        assert "Còn thiếu một bước nữa" in page.text
        assert "Phạm Thị Lan" in page.text
        assert "<textarea" not in page.text
    refused = client.post("/api/ask", json={"question": QUESTION})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    assert "Còn thiếu" in client.post("/chat", data={"question": QUESTION}).text
    # What is one's own can still be deleted.
    assert client.delete("/api/conversations/1").status_code == 204
    school.sign_in(client, "lan")
    assert "Hỏi sách này" in client.get("/learn").text


def test_a_school_may_do_without_consent(school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.delete(Consent))
    with TestClient(school.app(school={"needs_consent": False})) as client:
        assert "Còn thiếu" not in school.sign_in(client, "an").get("/learn").text
        services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
        assert may_learn(services, school.people["an"])


def test_too_many_questions_are_refused_with_the_time_to_wait(client: TestClient, school: School) -> None:
    for _ in range(QUESTIONS):
        assert stream(client, question="Gì?")[0][0] == "started"
    refused = client.post("/api/ask", json={"question": "Gì?"})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "hãy thử lại sau" in refused.json()["error"]["message"]
    form = client.post("/chat", data={"question": "Câu cần giữ"})
    assert form.status_code == 429
    assert "Câu cần giữ</textarea>" in form.text
    school.sign_in(client, "binh")
    assert stream(client, question="Gì?")[0][0] == "started"


async def _numbers() -> AsyncGenerator[int, None]:
    for number in range(3):
        yield number


def test_one_turn_at_a_time_for_each_account(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepedu.server.admission.GRACE_S", 0.1)
    an, binh = school.people["an"], school.people["binh"]

    async def check() -> None:
        admission = Admission()
        with TestClient(school.app()) as client:
            services = client.app.state.services  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
            first = admission.alone(an, _numbers())
            assert await anext(first) == 0
            with pytest.raises(AccountLocked, match="vẫn đang được trả lời"):
                await admission.admit(services, an)
            with pytest.raises(AccountLocked):
                await anext(admission.alone(an, _numbers()))
            await admission.admit(services, binh)
            # Stopping frees it, so does the end.
            await first.aclose()
            await admission.admit(services, an)
            assert [n async for n in admission.alone(an, _numbers())] == [0, 1, 2]
            await admission.admit(services, an)
            await admission.admit(services, None)

    asyncio.run(check())


class _SlowModel:
    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del messages, max_tokens, owner
        while True:
            yield Delta("Celsius ")
            await asyncio.sleep(0.05)


def test_a_second_question_waits_for_the_first_to_be_stopped(school: School, start: Any) -> None:
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="explain"))
    url = start(school.app(model=_SlowModel()))
    cookies = {COOKIE: open_session(school.database, school.people["an"].id, hours=1)}
    with httpx.Client(base_url=url, cookies=cookies, headers={"Origin": url}) as browser:
        with browser.stream("POST", "/api/ask", json={"question": QUESTION}) as first:
            lines = first.iter_lines()
            assert next(lines) == "event: started"
            second = browser.post("/api/ask", json={"question": QUESTION})
            assert (second.status_code, second.json()["error"]["code"]) == (429, "account_locked")
        # Stopped: asking again at once is no second turn.
        with browser.stream("POST", "/api/ask", json={"question": QUESTION}) as again:
            assert again.status_code == 200
            assert next(again.iter_lines()) == "event: started"


# --- Over the stream ---


def test_checked_sentences_come_with_their_html(school: School) -> None:
    with school.database.write() as session:
        session.execute(sa.update(SchoolClass).values(policy="explain"))
    reply = "Celsius đề xuất thang nhiệt độ vào năm $1742$ [1]. <b>Hết</b> rồi."
    with TestClient(school.app(model=ScriptedModel(answer=lambda _: reply))) as client:
        got = stream(school.sign_in(client, "an"), question=QUESTION)
    name, answer = got[-1][0], got[-1][1]["answer"]
    assert name == "completed"
    assert all("html" in sentence for sentence in answer["sentences"])
    checked = next(data for name, data in got if name == "checked")
    assert "<mn>1742</mn>" in checked["html"]
    assert "<b>" not in json.dumps([s["html"] for s in answer["sentences"]])


def test_a_lesson_is_looked_up_in_its_book(client: TestClient) -> None:
    got = stream(client, question=QUESTION, lesson_id=1)
    assert {passage["book_id"] for passage in got[1][1]["passages"]} == {1}
    assert client.get("/api/conversations").json()["conversations"][0]["book_ids"] == [1]
    missing = client.post("/api/ask", json={"question": QUESTION, "lesson_id": 999})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


# --- Texts and files ---

TEMPLATES = ["learn", "learn_book", "model_state", "conversation_line", "chat_all", "no_consent"]


@pytest.mark.parametrize("name", [*TEMPLATES, "chat_turn", "chat"])
def test_every_text_has_its_english(name: str) -> None:
    web = resources.files("deepedu.server") / "web"
    english: dict[str, str] = {}
    for file in web.iterdir():
        if file.name.startswith("en") and file.name.endswith(".toml"):
            english |= tomllib.loads(file.read_text(encoding="utf-8"))
    template = (web / "templates" / f"{name}.html").read_text(encoding="utf-8")
    texts = [a or b for a, b in re.findall(r"""\b_\((?:"([^"]+)"|'([^']+)')""", template)]
    assert [text for text in texts if text not in english] == []
    for text in texts:
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", english[text]))


def test_pages_carry_no_scripts_or_styles_of_their_own(client: TestClient) -> None:
    for address in ("/learn", "/learn/books/1", ask(client), "/chat", "/chat/all"):
        page = client.get(address).text
        assert not re.search(r"<style|style=|\son\w+=|<script(?! src=\"/static/)", page)
        assert not re.search(r"(src|href)=\"(?!/|#|data:,)", page)
    for name in ("chat.js", "health.js", "chat.css"):
        assert client.get(f"/static/{name}").status_code == 200


def test_a_server_without_accounts_has_none_of_this(sample_library: Database) -> None:
    layers = {"store": {"data_dir": sample_library.data_dir}, "search": {"dense": "off"}, "server": {"access": "open"}}
    with TestClient(create_app(Settings.model_validate(layers), model=ScriptedModel(answer=lambda _: REPLY))) as client:
        assert client.get("/learn").status_code == 404
        # Nobody is counted there.
        for _ in range(QUESTIONS + 1):
            assert client.post("/api/ask", json={"question": "Gì?"}, headers={"Origin": ORIGIN}).status_code == 200
