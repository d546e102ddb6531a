"""``deepedu ask`` and ``chat`` as a user runs them: a process, a library, a model endpoint on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from deepedu.store import Database
from deepedu.store.conversations import last_conversation, past_turns
from loopback_model import TRUE_DRAFT, Endpoint

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "deepedu", *arguments]


def run(*arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEEPEDU_SEARCH_DENSE": "off", "COLUMNS": "120"}
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment, input=typed, timeout=120, check=False
    )


@pytest.mark.usefixtures("sample_library")
def test_an_answer_for_people(endpoint: Endpoint) -> None:
    result = run("ask", QUESTION, "--llm", endpoint.url)
    assert result.returncode == 0, result.stderr
    assert "✓ Anders Celsius" in result.stdout
    assert "Bài 2. Đo nhiệt độ · trang 6" in result.stdout
    assert "mô hình loopback-model" in result.stdout


@pytest.mark.usefixtures("sample_library")
def test_an_answer_for_programs(endpoint: Endpoint) -> None:
    result = run("ask", QUESTION, "--llm", endpoint.url, "--json")
    whole = json.loads(result.stdout)
    answer = whole["answer"]
    assert whole["context"]["policy"] == "passages"
    assert answer["sentences"][0]["status"] == "supported"
    assert answer["sentences"][0]["citation"]["page"] == 6


@pytest.mark.usefixtures("sample_library")
@pytest.mark.parametrize("book", ["99", "Toán 10"])
def test_a_book_that_is_not_there_is_named_with_those_that_are(endpoint: Endpoint, book: str) -> None:
    result = run("ask", QUESTION, "--llm", endpoint.url, "--book", book)
    assert result.returncode == 1
    assert "Khoa học tự nhiên 6" in result.stderr
    assert endpoint.requests == 0


def test_an_empty_library_says_what_to_do(endpoint: Endpoint) -> None:
    result = run("ask", QUESTION, "--llm", endpoint.url)
    assert result.returncode == 1
    assert "deepedu ingest" in result.stderr


@pytest.mark.usefixtures("sample_library")
def test_without_a_model_the_book_answers_alone() -> None:
    result = run("ask", QUESTION, "--llm", "http://127.0.0.1:9/v1", "--llm-model", "any")
    assert result.returncode == 0, result.stderr
    assert "1742" in result.stdout
    assert "trích nguyên văn sách" in result.stdout
    assert "Mô hình không trả lời được" in result.stdout


def test_killed_while_answering_nothing_is_lost_or_broken(sample_library: Database, endpoint: Endpoint) -> None:
    endpoint.reply, endpoint.pause_s = "Celsius " * 500, 0.05
    environment = {**os.environ, "DEEPEDU_SEARCH_DENSE": "off"}
    child = subprocess.Popen(
        command("ask", QUESTION, "--llm", endpoint.url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    wait_for(lambda: "Celsius" in drafts(sample_library))
    child.send_signal(signal.SIGKILL)
    child.wait()
    conversation = last_conversation(sample_library)
    assert conversation is not None
    (turn,) = past_turns(sample_library, conversation)
    assert (turn.status, turn.question) == ("interrupted", QUESTION)
    assert turn.draft.startswith("Celsius")
    with sample_library.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    endpoint.reply, endpoint.pause_s = TRUE_DRAFT, 0.0
    assert run("ask", QUESTION, "--llm", endpoint.url).returncode == 0
    continued = run("chat", "--continue", "--llm", endpoint.url, typed="/thoat\n")
    assert QUESTION in continued.stdout


def test_chat_goes_on_turn_by_turn(sample_library: Database, endpoint: Endpoint) -> None:
    typed = f"{QUESTION}\n\nThế ông ấy là người nước nào?\n/moi\n{QUESTION}\n/thoat\n"
    result = run("chat", "--llm", endpoint.url, typed=typed)
    assert result.returncode == 0, result.stderr
    with sample_library.read() as session:
        rows = session.execute(sa.text("SELECT conversation_id, ordinal FROM turns ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [(1, 0), (1, 1), (2, 0)]


def drafts(library: Database) -> str:
    conversation = last_conversation(library)
    return "" if conversation is None else past_turns(library, conversation)[-1].draft


def wait_for(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_data_folder_of_the_root_option_is_used(sample_library: Database, endpoint: Endpoint, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    sample_library.close()
    sample_library.data_dir.rename(moved)
    assert run("ask", QUESTION, "--llm", endpoint.url).returncode == 1
    assert run("--data", str(moved), "ask", QUESTION, "--llm", endpoint.url).returncode == 0
