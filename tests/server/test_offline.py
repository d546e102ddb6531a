"""Nothing leaves: start, ingestion, chat, quiz and learning open no socket but those on loopback.

In a process of its own, because the guard cannot be taken out again. Every connection, datagram and name lookup that
the process tries is written down, whether the guard refuses it or not.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopback_model import Endpoint

PROGRAM = r"""
import asyncio, json, sys
from pathlib import Path

tried = []
def note(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        if args[0].family.name in ("AF_INET", "AF_INET6"):
            tried.append([event, str(args[1][0] if args[1] else None)])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        tried.append([event, str(args[0])])
sys.addaudithook(note)

data, url, wish = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
from deepedu.base.config import Settings
from deepedu.base.egress import guard
from deepedu.cli.serve import named_endpoints
settings = Settings.model_validate({"store": {"data_dir": data}, "search": {"dense": "off"}, "llm": {"url": url}})
guard(named_endpoints(settings))

from fastapi.testclient import TestClient
from deepedu.cli.demo_school import PASSWORD, furnish
from deepedu.cli.main import cli
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.server.app import create_app
from deepedu.store import Database

database = Database(settings.store)
book = ingest(database, [SAMPLE_PDF], settings.ingest)[0].book_id
furnish(database, book)
database.close()
done = {}
with TestClient(create_app(settings), headers={"Origin": "http://testserver"}) as client:
    def sign_in(username):
        client.cookies.clear()
        assert client.post("/login", data={"username": username, "password": PASSWORD}).status_code == 200
    sign_in("6b01")
    reply = client.post("/api/ask", json={"question": "Nước tinh khiết sôi ở bao nhiêu độ?"}).text
    done["chat"] = "event: completed" in reply
    quiz = client.get("/api/quizzes").json()
    done["quiz"] = "/quizzes" in client.get("/quizzes").url.path and bool(quiz)
    sign_in("colan")
    done["desk"] = client.get("/teach/classes/1").status_code == 200
    if wish == "leak":
        import httpx
        try:
            httpx.get("http://example.com/")
        except httpx.HTTPError as error:
            done["refused"] = type(error).__name__
questions = data / "questions.jsonl"
questions.write_text(json.dumps({"question": "Nước tinh khiết sôi ở bao nhiêu độ?", "answer": "100"}) + "\n")
from click.testing import CliRunner
learnt = CliRunner().invoke(cli, ["--data", str(data), "learn", str(questions), "--llm", url])
done["learn"] = learnt.exit_code == 0 or learnt.output
print(json.dumps({"tried": tried, "done": done}))
"""


def run(tmp_path: Path, endpoint: Endpoint, wish: str) -> dict[str, dict[str, object]]:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), endpoint.url, wish]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def outside(tried: object) -> list[object]:
    assert isinstance(tried, list)
    return [each for each in tried if each[1] not in ("127.0.0.1", "::1", "localhost", "None")]


@pytest.mark.timeout(300)
def test_a_school_day_stays_in_the_building(tmp_path: Path, endpoint: Endpoint) -> None:
    told = run(tmp_path, endpoint, "day")
    assert told["done"] == {"chat": True, "quiz": True, "desk": True, "learn": True}
    assert told["tried"], "the model on loopback was asked, so something was written down"
    assert outside(told["tried"]) == []


@pytest.mark.timeout(300)
def test_what_tries_to_leave_is_seen_and_refused(tmp_path: Path, endpoint: Endpoint) -> None:
    told = run(tmp_path, endpoint, "leak")
    assert outside(told["tried"])
    assert told["done"]["refused"] == "ConnectError"
