"""The web server: streamed turns, books, errors, and a model that comes up beside it."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from deepedu.base.config import Settings
from deepedu.llm.chat import Delta, Finished, Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.server import app as app_module
from deepedu.server.app import create_app
from deepedu.server.engine_process import EngineProcess
from deepedu.store import Database
from deepedu.store.conversations import past_turns

Start = Callable[[FastAPI], str]
QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"


def settings(data_dir: Path) -> Settings:
    return Settings.model_validate(
        {"store": {"data_dir": data_dir}, "search": {"dense": "off"}, "server": {"access": "open"}}
    )


@pytest.fixture
def url(sample_library: Database, start: Start) -> str:
    model = ScriptedModel(answer=lambda _: "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    return start(create_app(settings(sample_library.data_dir), model=model))


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_a_turn_streams_to_its_checked_end(url: str) -> None:
    response = httpx.post(f"{url}/api/ask", json={"question": QUESTION})
    assert response.headers["content-type"].startswith("text/event-stream")
    got = events(response.text)
    names = [name for name, _ in got]
    assert names[:2] == ["started", "found"]
    assert names[-1] == "completed"
    assert got[-1][1]["context"]["line"] == "Ngữ cảnh: 2 đoạn sách"
    answer = got[-1][1]["answer"]
    assert answer["found"]
    sentence = answer["sentences"][0]
    assert sentence["status"] == "supported"
    passage = next(p for p in got[1][1]["passages"] if p["passage_id"] == sentence["citation"]["passage_id"])
    quote = sentence["citation"]
    assert passage["text"][quote["start"] : quote["end"]] == quote["quote"]


def test_books_and_one_book(url: str) -> None:
    (book,) = httpx.get(f"{url}/api/books").json()["books"]
    assert (book["status"], book["grade"]) == ("ready", 6)
    detail = httpx.get(f"{url}/api/books/{book['id']}").json()
    lessons = [s["title"] for s in detail["sections"] if s["kind"] == "lesson"]
    assert "Đo nhiệt độ" in lessons


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/books/999", None, 404, "not_found"),
        ("GET", "/api/nothing", None, 404, "not_found"),
        ("GET", "/api/ask", None, 405, "bad_request"),
        ("POST", "/api/ask", b"{broken", 400, "bad_request"),
        ("POST", "/api/ask", {"question": "?", "qestion": "?"}, 400, "bad_request"),
        ("POST", "/api/ask", {"question": "a" * 9000}, 400, "bad_request"),
        ("POST", "/api/ask", {}, 400, "bad_request"),
    ],
)
def test_errors_have_one_shape(url: str, method: str, path: str, body: Any, status: int, code: str) -> None:
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    response = httpx.request(method, url + path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


def test_an_error_within_the_stream_is_an_event(url: str) -> None:
    got = events(httpx.post(f"{url}/api/ask", json={"question": " "}).text)
    assert got[-1][0] == "error"
    assert got[-1][1]["code"] == "bad_request"


def test_the_page_loads_nothing_from_elsewhere(url: str) -> None:
    page = httpx.get(url + "/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("http-equiv", "")


class EndlessModel:
    """Talks until nobody listens."""

    is_closed = False

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del messages, max_tokens, owner
        try:
            while True:
                yield Delta("Celsius ")
                await asyncio.sleep(0.05)
        finally:
            self.is_closed = True


def test_leaving_stops_the_turn_and_keeps_its_draft(sample_library: Database, start: Start) -> None:
    model = EndlessModel()
    url = start(create_app(settings(sample_library.data_dir), model=model))
    with httpx.stream("POST", f"{url}/api/ask", json={"question": QUESTION}) as response:
        for line in response.iter_lines():
            if line == "event: draft":
                break
    deadline = time.monotonic() + 20
    while past_turns(sample_library, 1)[0].status == "running":
        assert time.monotonic() < deadline, "the turn went on although nobody listens"
        time.sleep(0.05)
    assert past_turns(sample_library, 1)[0].status == "stopped"
    assert model.is_closed


# An engine as the server sees one: it announces its port, answers /health, and dies when asked to.
FAKE_ENGINE = """
import http.server, json, os, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die":
            os._exit(3)
        body = {"status": "ok"} if self.path == "/health" else {"data": [{"id": "fake"}]}
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(body).encode())
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
        chunk = {"choices": [{"delta": {"content": "1742 [1]."}, "finish_reason": "stop"}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\\n\\ndata: [DONE]\\n\\n".encode())
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["DEEPEDU_ENGINE_PORT"])), Handler)
print(json.dumps({"event": "listening", "port": server.server_address[1]}), flush=True)
server.serve_forever()
"""


def test_an_engine_that_dies_is_started_again(
    sample_library: Database, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[EngineProcess] = []

    def fake(engine_settings: Any, *, publish_in: Path) -> EngineProcess:
        engines.append(
            EngineProcess(engine_settings, publish_in=publish_in, command=[sys.executable, "-c", FAKE_ENGINE])
        )
        return engines[0]

    monkeypatch.setattr(app_module, "EngineProcess", fake)
    chosen = settings(sample_library.data_dir)
    chosen = chosen.model_copy(update={"engine": chosen.engine.model_copy(update={"port": 0})})
    url = start(create_app(chosen))

    def answered() -> bool:
        response = httpx.post(f"{url}/api/ask", json={"question": QUESTION}, timeout=30)
        return response.status_code == 200 and events(response.text)[-1][1].get("notice", "") is None

    wait_for(answered)
    with pytest.raises(httpx.HTTPError):
        httpx.get(engines[0].url.removesuffix("/v1") + "/die")
    wait_for(lambda: engines[0].restarts == 1)
    wait_for(answered)


def test_a_model_that_cannot_start_is_told_to_those_who_ask(
    sample_library: Database, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    monkeypatch.setattr(
        app_module, "EngineProcess", lambda s, publish_in: EngineProcess(s, publish_in=publish_in, command=command)
    )
    url = start(create_app(settings(sample_library.data_dir)))
    wait_for(lambda: httpx.get(f"{url}/api/health").json()["status"] == "failed")
    response = httpx.post(f"{url}/api/ask", json={"question": QUESTION})
    assert response.status_code == 503
    assert "no such model" in response.json()["error"]["message"]


def wait_for(condition: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
