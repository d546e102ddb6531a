"""The tutor as an OpenAI-compatible model, asked with OpenAI's own client; and the page of keys."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import OpenAI
from schoolroom import School

from deepedu.base.config import Settings
from deepedu.base.errors import LLMBusy, RequestRefused
from deepedu.engine import openai_requests as engine_requests
from deepedu.llm.chat import Delta, Finished, Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.school import audit
from deepedu.school.api_keys import account_of_key, create_key, keys_of, revoke_key
from deepedu.server import openai_requests, openai_routes
from deepedu.server.app import create_app
from deepedu.server.openai_requests import read_chat
from deepedu.server.openai_routes import AT_ONCE, MODEL, QUESTIONS
from deepedu.store.conversations import conversations_of, past_turns
from deepedu.store.flags import flags_of
from deepedu.store.tables import Conversation, Person, Turn

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
TRUE = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."
FALSE = "Anders Celsius đề xuất thang nhiệt độ vào năm 1850 [1]."
CHAT = "/v1/chat/completions"


def key_for(school: School, username: str = "lan") -> str:
    with school.database.write() as session:
        return create_key(session, school.people[username].id, "Moodle")


def ask(question: str = QUESTION, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question}], **more}


@dataclass
class Door:
    """The server as a program sees it, by OpenAI's client."""

    school: School
    model: ScriptedModel
    url: str
    key: str
    client: OpenAI

    def owner(self, user: str = "") -> str:
        return account_of_key(self.school.database, self.key).owner_of(user)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(answer=lambda _: TRUE)


@pytest.fixture
def door(school: School, model: ScriptedModel, start: Callable[[FastAPI], str]) -> Iterator[Door]:
    url, key = start(school.app(model=model)), key_for(school)
    with OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        yield Door(school, model, url, key, client)


@pytest.fixture
def program(school: School) -> Iterator[TestClient]:
    """A program without a browser: no cookies, no origin, a good key."""
    with TestClient(school.app(), headers={"Authorization": f"Bearer {key_for(school)}"}) as client:
        yield client


# --- Answers ----------------------------------------------------------------------------------------------------------


def test_the_official_client_gets_a_checked_answer(door: Door) -> None:
    assert [each.id for each in door.client.models.list()] == [MODEL]
    assert door.client.models.retrieve(MODEL).owned_by != "deepedu"
    answer = door.client.chat.completions.create(**ask())
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.role, answer.model) == ("stop", "assistant", MODEL)
    told, sources = (choice.message.content or "").split("\n\nNguồn:\n")
    assert told == "Anders Celsius đề xuất thang nhiệt độ vào năm 1742. [1]"
    assert re.match(r"\[1\] .+, trang \d+: “.*1742.*”$", sources)
    ours = answer.model_extra["deepedu"] if answer.model_extra else {}
    assert (ours["kind"], ours["notice"], ours["notes"]) == ("answer", None, [])
    assert [(each["number"], each["quote"] in sources) for each in ours["sources"]] == [(1, True)]
    assert [(each["status"], each["source"]) for each in ours["sentences"]] == [("supported", 1)]
    assert "ignored_parameters" not in (answer.model_extra or {})
    assert answer.system_fingerprint


def test_what_the_model_invents_is_not_told(door: Door) -> None:
    door.model.answer = lambda _: FALSE
    answer = door.client.chat.completions.create(**ask())
    content = answer.choices[0].message.content or ""
    assert "1850" not in content
    assert "1742" in content
    verdicts = (answer.model_extra or {})["deepedu"]["sentences"]
    assert {each["status"] for each in verdicts} == {"quoted"}


def test_what_no_book_says_is_told_as_such(door: Door) -> None:
    door.model.answer = lambda _: "Sách chưa nói đến điều này."
    answer = door.client.chat.completions.create(**ask("Thủ đô của nước Pháp là gì?"))
    content = answer.choices[0].message.content or ""
    assert content.startswith("Sách chưa nói đến điều này.")
    assert "Nguồn:" not in content
    assert (answer.model_extra or {})["deepedu"]["kind"] == "not_found"


def test_a_stream_tells_the_same_and_nothing_unchecked(door: Door) -> None:
    door.model.answer = lambda _: f"{FALSE} {TRUE}"
    whole = door.client.chat.completions.create(**ask()).choices[0].message.content
    chunks = list(door.client.chat.completions.create(**ask(stream=True, stream_options={"include_usage": True})))
    texts = [each.choices[0].delta.content or "" for each in chunks if each.choices]
    assert "".join(texts) == whole
    assert not any("1850" in text for text in texts)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    last = next(each for each in chunks if each.choices and each.choices[0].finish_reason)
    assert (last.model_extra or {})["deepedu"]["kind"] == "answer"
    # The scripted model counts no prompt, so there is nothing to tell.
    assert (chunks[-1].choices, chunks[-1].usage) == ([], None)
    assert {each.id for each in chunks} == {chunks[0].id}


def test_tokens_are_the_models_own(door: Door, endpoint: Any, start: Callable[[FastAPI], str]) -> None:
    endpoint.is_ours = True
    layers = {"store": {"data_dir": door.school.database.data_dir}, "search": {"dense": "off"}}
    url = start(create_app(Settings.model_validate({**layers, "llm": {"url": endpoint.url}})))
    with OpenAI(base_url=f"{url}/v1", api_key=door.key, max_retries=0) as client:
        usage = client.chat.completions.create(**ask()).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (2310, 9, 2319)


def test_a_model_that_fails_leaves_the_book(door: Door) -> None:
    door.model.answer = lambda _: LLMBusy("bận")
    answer = door.client.chat.completions.create(**ask())
    content = answer.choices[0].message.content or ""
    assert "1742" in content
    assert "lời của sách" in content
    assert "lời của sách" in (answer.model_extra or {})["deepedu"]["notice"]
    # No model finished, so nothing was spent.
    assert answer.usage is not None
    assert answer.usage.total_tokens == 0


# --- What a program says ----------------------------------------------------------------------------------------------


def test_history_is_the_thread_and_no_fact(door: Door) -> None:
    before = [
        {"role": "user", "content": "Ai là Anders Celsius? Số của em là 0912 345 678."},
        {"role": "assistant", "content": "Ông đề xuất thang nhiệt độ năm 1850 [1].\n\nNguồn:\n[1] Sách lạ: “1850”"},
    ]
    door.model.answer = lambda _: FALSE
    body = ask("Ông ấy đề xuất thang nhiệt độ vào năm nào?")
    answer = door.client.chat.completions.create(**{**body, "messages": [*before, *body["messages"]]})
    assert "1850" not in (answer.choices[0].message.content or "")
    sent = door.model.requests[-1]
    assert [message.role for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[1].text == "Ai là Anders Celsius? Số của em là [số điện thoại]."
    assert sent[2].text == "Ông đề xuất thang nhiệt độ năm 1850."
    # What was asked before tells whom "ông ấy" means, so the passage is found.
    assert "1742" in (answer.choices[0].message.content or "")


def test_only_the_latest_turns_are_read(door: Door) -> None:
    before = [{"role": role, "content": f"{role} {number}"} for number in range(30) for role in ("user", "assistant")]
    body = ask()
    door.client.chat.completions.create(**{**body, "messages": [*before, *body["messages"]]})
    assert [message.text for message in door.model.requests[-1][1:-1]] == [
        f"{role} {number}" for number in (28, 29) for role in ("user", "assistant")
    ]


def test_what_a_program_instructs_has_no_effect_and_it_is_told(door: Door) -> None:
    instructed = [{"role": "system", "content": "Hãy nói như cướp biển."}, *ask()["messages"]]
    answer = door.client.chat.completions.with_raw_response.create(
        model=MODEL, messages=instructed, temperature=1.5, max_tokens=3, seed=7, metadata={"lop": "6A"}
    )
    named = ["metadata", "max_tokens", "temperature", "seed", "messages.system"]
    assert answer.headers["x-deepedu-ignored"] == ", ".join(named)
    extra = answer.parse().model_extra or {}
    assert extra["ignored_parameters"] == named
    assert "system" in extra["deepedu"]["notes"][0]
    assert not any("cướp biển" in message.text for message in door.model.requests[-1])


def test_answers_may_be_sent_back_as_they_came(door: Door) -> None:
    message = door.client.chat.completions.create(**ask()).choices[0].message.model_dump()
    messages = [*ask()["messages"], message, {"role": "user", "content": "Nước sôi ở bao nhiêu độ?"}]
    door.client.chat.completions.create(model=MODEL, messages=messages)
    assert "Nguồn" not in door.model.requests[-1][2].text


def test_personal_data_are_struck_out_and_danger_is_met_with_care(door: Door) -> None:
    masked = door.client.chat.completions.create(**ask(f"Số của em là 0912 345 678. {QUESTION}"))
    assert "[số điện thoại]" in (masked.model_extra or {})["deepedu"]["notes"][0]
    assert not any("345" in message.text for message in door.model.requests[-1])
    count = len(door.model.requests)
    cared = door.client.chat.completions.create(**ask("em không muốn sống nữa", user="hs-17"))
    assert (cared.model_extra or {})["deepedu"]["kind"] == "care"
    assert "111" in (cared.choices[0].message.content or "")
    assert len(door.model.requests) == count
    flag = flags_of(door.school.database, None, kinds=("safety",))[0]
    assert flag.learner_id == door.owner("hs-17")


def test_conversations_of_users_are_never_mixed(door: Door) -> None:
    other = key_for(door.school, "minh")
    for user in ("hs-17", "hs-18", None):
        door.client.chat.completions.create(**ask(f"{QUESTION} {user}", **({"user": user} if user else {})))
    with OpenAI(base_url=f"{door.url}/v1", api_key=other, max_retries=0) as client:
        client.chat.completions.create(**ask(user="hs-17"))
    database = door.school.database
    owners = [door.owner("hs-17"), door.owner("hs-18"), door.owner()]
    owners.append(account_of_key(database, other).owner_of("hs-17"))
    assert len(set(owners)) == 4
    for owner in owners:
        (one,) = conversations_of(database, owner)
        assert len(past_turns(database, one.id, owner=owner)) == 1
    assert conversations_of(database, door.school.people["lan"].owner) == []
    with database.read() as session:
        stored = str(session.execute(sa.select(Conversation.__table__)).all())
        stored += str(session.execute(sa.select(Turn.__table__)).all())
    assert "hs-17" not in stored
    assert "Celsius" not in stored  # a number would stand in a time's microseconds by chance


# --- What is refused --------------------------------------------------------------------------------------------------


# What is changed in a good request, the parameter that is named, and the code.
REFUSED: list[tuple[dict[str, Any], str | None, str]] = [
    ({"model": "gpt-5"}, "model", "model_not_found"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": [{"role": "assistant", "content": "Chào em"}]}, "messages", "invalid_value"),
    ({"messages": [{"role": "tool", "content": "1", "tool_call_id": "x"}]}, "messages.0.role", "invalid_value"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, None, "invalid_value"),
    ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
    ({"n": 2}, "n", "unsupported_parameter"),
    ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
    ({"temprature": 1}, "temprature", "unknown_parameter"),
    ({"temperature": 5}, "temperature", "invalid_value"),
    ({"user": ""}, "user", "invalid_value"),
    ({"user": "\ud800"}, "user", "invalid_value"),
    ({"messages": [{"role": "user", "content": "  "}]}, None, "bad_request"),
    ({"messages": [{"role": "user", "content": "x" * 3000}]}, None, "bad_request"),
]


def test_what_is_not_served_is_refused_by_name(program: TestClient) -> None:
    for changed, param, code in REFUSED:
        for stream in (False, True):
            answer = program.post(CHAT, content=json.dumps({**ask(), "stream": stream, **changed}))
            assert answer.status_code == (404 if code == "model_not_found" else 400), changed
            error = answer.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert (error["type"], error["code"]) == ("invalid_request_error", code), changed
            assert param is None or error["param"] == param, changed


def test_options_of_a_stream_need_a_stream(program: TestClient) -> None:
    answer = program.post(CHAT, json=ask(stream_options={"include_usage": True}))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream_options")


def test_what_is_no_object_is_refused_and_so_is_an_endless_body(program: TestClient) -> None:
    for raw in (b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000):
        answer = program.post(CHAT, content=raw)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json"), raw[:9]
    answer = program.post(CHAT, content=b" " * (openai_routes.MAX_BODY_BYTES + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    "more",
    [
        *({name: 1} for name in ("n", "best", "seed", "top_p", "max_tokens", "max_completion_tokens", "store")),
        *({name: 0} for name in ("temperature", "top_logprobs", "max_tokens", "presence_penalty")),
        *({name: "auto"} for name in ("tool_choice", "function_call", "service_tier", "prediction", "stop", "user")),
        *({name: []} for name in ("tools", "functions", "stop", "modalities", "messages")),
        *({name: {}} for name in ("logit_bias", "audio", "web_search_options", "metadata", "stream_options")),
        *({name: None} for name in ("n", "stop", "user", "seed", "tools", "unknown", "stream_options")),
        {"logprobs": False},
        {"logprobs": True},
        {"response_format": {"type": "text"}},
        {"modalities": ["text"]},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        {"temperature": "1"},
        {"stop": ["a"] * 17},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Nước?"}], "name": "An"}]},
        {"messages": [{"role": "user"}]},
    ],
)
def test_the_engine_reads_the_same_requests(more: dict[str, Any]) -> None:
    """Both take a request, or both refuse it for the same parameter; nothing that only one of them ignores is new."""

    def read(how: Callable[[bytes], Any]) -> tuple[Any, ...]:
        try:
            return "taken", how(json.dumps({**ask(), **more}).encode())
        except RequestRefused as error:
            return "refused", error.param, error.kind

    ours = read(read_chat)
    engine = read(lambda raw: engine_requests.parse(engine_requests.ChatRequest, raw))
    if engine[0] == "refused":
        assert ours == engine
    else:
        assert ours[0] == "taken"
        assert set(engine[1].ignored) <= set(ours[1].ignored)
    assert openai_requests.IGNORED is engine_requests.IGNORED


# --- Who gets in ------------------------------------------------------------------------------------------------------


def test_without_a_good_key_nothing_opens(door: Door) -> None:
    with OpenAI(base_url=f"{door.url}/v1", api_key="dk-khong-phai", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as error:
            client.chat.completions.create(**ask())
        assert error.value.code == "invalid_api_key"
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
    with door.school.database.write() as session:
        revoke_key(session, door.school.people["lan"], account_of_key(door.school.database, door.key).key_id)
    with pytest.raises(openai.AuthenticationError, match="thu hồi"):
        door.client.chat.completions.create(**ask())
    assert door.model.requests == []


def test_a_cookie_is_no_key(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    for header in (None, "", "Bearer", "Bearer ", "Basic ZGs6eA==", "dk-x"):
        answer = client.post(CHAT, json=ask(), headers={} if header is None else {"Authorization": header})
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_key_is_no_sign_in(program: TestClient) -> None:
    for address in ("/api/books", "/keys", "/admin"):
        assert program.get(address, headers={"Accept": "application/json"}).status_code == 401


def test_programs_come_from_anywhere(program: TestClient) -> None:
    for origin in ("http://moodle.truong.edu.vn", "null"):
        assert program.post(CHAT, json=ask(), headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize(("values", "status"), [({"is_active": False}, 401), ({"role": "guardian"}, 403)])
def test_the_person_behind_a_key_must_still_be_one(
    program: TestClient, school: School, values: dict[str, Any], status: int
) -> None:
    assert program.get("/v1/models").status_code == 200
    with school.database.write() as session:
        session.execute(sa.update(Person).where(Person.username == "lan").values(**values))
    assert program.get("/v1/models").status_code == status


def test_a_server_without_accounts_has_no_door(school: School) -> None:
    with TestClient(school.app(server={"access": "open"})) as client:
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {key_for(school)}"}).status_code == 404


def test_while_the_model_starts_programs_are_told_to_wait(school: School) -> None:
    app = school.app()
    with TestClient(app) as client:
        app.state.services.tutor = None
        answer = client.post(CHAT, json=ask(), headers={"Authorization": f"Bearer {key_for(school)}"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
    assert int(answer.headers["retry-after"]) > 0


# --- How much ---------------------------------------------------------------------------------------------------------


def test_a_key_may_not_ask_without_end(door: Door) -> None:
    for _ in range(QUESTIONS):
        door.client.chat.completions.create(**ask())
    with pytest.raises(openai.RateLimitError) as error:
        door.client.chat.completions.create(**ask())
    assert error.value.code == "rate_limit_exceeded"
    assert int(error.value.response.headers["retry-after"]) > 0
    with OpenAI(base_url=f"{door.url}/v1", api_key=key_for(door.school, "minh"), max_retries=0) as client:
        client.chat.completions.create(**ask())


@dataclass
class Slow:
    """Thinks for some time, and counts whether it is let finish."""

    seconds: float = 60.0
    begun: int = 0
    closed: int = 0

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del messages, max_tokens, owner
        self.begun += 1
        try:
            await asyncio.sleep(self.seconds)
            yield Delta(TRUE)
            yield Finished("stop", "slow", 10, 10, None, None)
        finally:
            self.closed += 1


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize("stream", [False, True])
def test_a_program_that_leaves_stops_the_model_and_frees_its_place(
    school: School, start: Callable[[FastAPI], str], monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(openai_routes, "BEAT_S", 0.05)
    slow = Slow()
    url, key = start(school.app(model=slow)), key_for(school)

    async def leave_again_and_again() -> None:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
            for count in range(AT_ONCE + 1):
                asking = asyncio.create_task(_ask_and_wait(client, stream))
                await asyncio.to_thread(wait_for, lambda count=count: slow.begun > count)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await asyncio.to_thread(wait_for, lambda: slow.begun == slow.closed)

    asyncio.run(leave_again_and_again())
    owner = account_of_key(school.database, key).owner_of("")
    wait_for(lambda: _statuses(school, owner) == {"stopped"})


async def _ask_and_wait(client: httpx.AsyncClient, stream: bool) -> None:
    if not stream:
        await client.post(CHAT, json=ask())
        return
    async with client.stream("POST", CHAT, json=ask(stream=True)) as answer:
        assert answer.status_code == 200
        async for _ in answer.aiter_lines():
            pass


def test_something_is_said_while_nothing_is_known(
    school: School, start: Callable[[FastAPI], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody between takes the line for dead; a client of OpenAI's reads over it."""
    monkeypatch.setattr(openai_routes, "BEAT_S", 0.02)
    slow = Slow(seconds=1.0)
    url, key = start(school.app(model=slow)), key_for(school)
    with httpx.stream(
        "POST", url + CHAT, json=ask(stream=True), headers={"Authorization": f"Bearer {key}"}, timeout=20
    ) as answer:
        assert any(line.startswith(":") for line in answer.iter_lines())
    with OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        chunks = list(client.chat.completions.create(**ask(stream=True)))
    assert "1742" in "".join(each.choices[0].delta.content or "" for each in chunks)


def _statuses(school: School, owner: str) -> set[str]:
    with school.database.read() as session:
        wanted = sa.select(Turn.status).join(Conversation, Conversation.id == Turn.conversation_id)
        return set(session.scalars(wanted.where(Conversation.owner == owner)))


def test_a_key_may_not_ask_too_much_at_once(school: School, start: Callable[[FastAPI], str]) -> None:
    slow = Slow()
    url, key = start(school.app(model=slow)), key_for(school)
    headers = {"Authorization": f"Bearer {key}"}

    async def crowd() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=10) as client:
            waiting = [asyncio.create_task(client.post(CHAT, json=ask())) for _ in range(AT_ONCE + 2)]
            done, pending = await asyncio.wait(waiting, timeout=4)
            assert len(pending) == AT_ONCE
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            return [task.result() for task in done]

    answers = asyncio.run(crowd())
    assert [each.status_code for each in answers] == [429, 429]
    wait_for(lambda: slow.begun == slow.closed)


# --- The page ---------------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    assert "Chưa có khóa nào" in client.get("/keys").text
    made = client.post("/keys", data={"label": "Moodle của trường"})
    key = re.search(r'class="secret">(dk-[\w-]+)<', made.text)
    assert key
    assert made.headers["cache-control"] == "no-store"
    again = client.get("/keys").text
    assert key[1] not in again
    assert "Moodle của trường" in again
    assert "http://testserver/v1" in again
    assert client.get("/v1/models", headers={"Authorization": f"Bearer {key[1]}"}).status_code == 200
    assert [each.action for each in audit.entries(school.database)] == ["key.create"]


def test_a_key_is_revoked_on_the_page(client: TestClient, school: School) -> None:
    key = key_for(school)
    key_id = account_of_key(school.database, key).key_id
    school.sign_in(client, "minh")
    assert "Chưa có khóa nào" in client.get("/keys").text
    assert client.post(f"/keys/{key_id}/revoke").status_code == client.post("/keys/999/revoke").status_code == 404
    school.sign_in(client, "admin")
    assert "Phạm Thị Lan" in client.get("/keys").text
    assert client.post(f"/keys/{key_id}/revoke").headers["location"] == "/keys"
    assert "Đã thu hồi" in client.get("/keys").text
    assert client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_what_is_wrong_stands_beside_the_field(client: TestClient, school: School) -> None:
    school.sign_in(client, "lan")
    answer = client.post("/keys", data={"label": " "})
    assert answer.status_code == 400
    assert 'id="label-error"' in answer.text
    assert keys_of(school.database, school.people["lan"]) == []


def test_the_page_is_for_staff(client: TestClient, school: School) -> None:
    for username in ("an", "me.an", None):
        school.sign_in(client, username)
        for answer in (client.get("/keys"), client.post("/keys", data={"label": "x"})):
            assert answer.status_code == (303 if username is None else 403)
    school.sign_in(client, "lan")
    assert client.post("/keys", data={"label": "x"}, headers={"Origin": "http://xau.example"}).status_code == 403
    assert keys_of(school.database, school.people["admin"]) == []
