"""What people say of answers: only who asked, and teachers; the newest word counts; learning finds it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from deepedu.base.config import Settings
from deepedu.base.errors import NotFound
from deepedu.llm.scripted import ScriptedModel
from deepedu.server.app import create_app
from deepedu.server.playbook_routes import KEY_VARIABLE
from deepedu.store import Database
from deepedu.store.conversations import start_turn
from deepedu.store.signals import failed_turns, keep_signal
from deepedu.tutor.question_file import questions_of_turns

Start = Callable[[FastAPI], str]
QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
KEY = "khoa-bi-mat-cua-truong-0123"


def app_of(data_dir: Path) -> FastAPI:
    settings = Settings.model_validate(
        {"store": {"data_dir": data_dir}, "search": {"dense": "off"}, "server": {"access": "open"}}
    )
    model = ScriptedModel(answer=lambda _: "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    return create_app(settings, model=model)


@pytest.fixture
def url(sample_library: Database, start: Start, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return start(app_of(sample_library.data_dir))


def ask(url: str) -> dict[str, Any]:
    response = httpx.post(f"{url}/api/ask", json={"question": QUESTION, "grade": 6})
    return json.loads(response.text.split("\n\n")[0].partition("data: ")[2])


def say(url: str, turn_id: int, **said: str) -> httpx.Response:
    return httpx.post(f"{url}/api/turns/{turn_id}/feedback", json=said)


def test_who_asked_may_speak_and_the_newest_word_counts(url: str, sample_library: Database) -> None:
    turn = ask(url)
    key = turn["feedback_key"]
    assert say(url, turn["turn_id"], kind="wrong", key=key, detail=" năm khác ").status_code == 200
    assert say(url, turn["turn_id"], kind="thumbs_down", key=key).status_code == 200
    (failed,) = failed_turns(sample_library)
    assert failed.signals == (("wrong", "năm khác"), ("thumbs_down", ""))
    assert say(url, turn["turn_id"], kind="thumbs_up", key=key).status_code == 200
    assert failed_turns(sample_library) == ()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"kind": "wrong", "key": "x"}, 401),
        ({"kind": "wrong", "key": "é"}, 401),
        ({"kind": "wrong"}, 401),
        ({"kind": "correction", "key": "x"}, 400),
        ({"kind": "wrong", "key": "x", "detail": "a" * 2000}, 400),
    ],
)
def test_nobody_else_may(url: str, sample_library: Database, said: dict[str, str], status: int) -> None:
    turn = ask(url)
    assert say(url, turn["turn_id"], **said).status_code == status
    assert failed_turns(sample_library) == ()


def test_the_key_of_one_turn_opens_no_other(url: str) -> None:
    first, second = ask(url), ask(url)
    assert say(url, second["turn_id"], kind="wrong", key=first["feedback_key"]).status_code == 401


def test_a_teachers_correction_is_what_is_expected(url: str, sample_library: Database) -> None:
    turn = ask(url)
    path = f"{url}/api/playbook/turns/{turn['turn_id']}/correction"
    said = {"answer": "năm 1742", "by": "cô Lan"}
    assert httpx.post(path, json=said).status_code == 401
    headers = {"Authorization": f"Bearer {KEY}"}
    assert httpx.post(path, json={**said, "answer": " "}, headers=headers).status_code == 400
    assert httpx.post(path, json=said, headers=headers).status_code == 200
    assert httpx.post(path.replace(f"/{turn['turn_id']}/", "/999/"), json=said, headers=headers).status_code == 404
    (problem,) = questions_of_turns(sample_library)
    assert (problem.question, problem.expected, problem.scope.grade) == (QUESTION, "năm 1742", 6)
    assert [signal.kind for signal in problem.signals] == ["correction"]
    # A second thought is another problem.
    assert httpx.post(path, json={**said, "answer": "1743"}, headers=headers).status_code == 200
    (again,) = questions_of_turns(sample_library)
    assert (again.expected, again.id == problem.id) == ("1743", False)


def test_only_an_answer_can_be_spoken_of(sample_library: Database) -> None:
    _, turn_id = start_turn(sample_library, "?", {}, None)
    for missing in (turn_id, 999):
        with pytest.raises(NotFound):
            keep_signal(sample_library, missing, "wrong")
