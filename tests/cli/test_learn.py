"""``deepedu learn`` as a user runs it: a file of questions, a library, a model endpoint on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepedu.playbook.book import Playbook
from deepedu.store import Database
from loopback_model import Endpoint

QUESTIONS = (
    {"question": "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?", "answer": "1742"},
    {"question": "Ai đặt tên cho nhân tế bào?", "answer": "Robert Brown"},
)


def run(file: Path, endpoint: Endpoint, *more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEEPEDU_SEARCH_DENSE": "off", "COLUMNS": "160"}
    command = [sys.executable, "-m", "deepedu", "learn", str(file), "--llm", endpoint.url, *more]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def write(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "câu hỏi.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    return file


def test_a_run_is_reported_and_goes_on_where_it_was(
    sample_library: Database, endpoint: Endpoint, tmp_path: Path
) -> None:
    # The reply does not tell it; the book does.
    file = write(tmp_path, QUESTIONS[0] | {"answer": "Thụy Điển"}, QUESTIONS[1])
    first = run(file, endpoint)
    assert first.returncode == 0, first.stderr
    assert "2: đúng" in first.stdout
    assert "Chi phí" in first.stdout
    version, asked = Playbook(sample_library).version, endpoint.requests
    assert version > 0
    again = run(file, endpoint)
    assert "Đi tiếp lượt học" in again.stdout
    assert "đã xong 2 câu" in again.stdout
    assert (Playbook(sample_library).version, endpoint.requests) == (version, asked)


def test_nothing_goes_live_that_the_book_does_not_bear(
    sample_library: Database, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.reply = '{"wrong": "x", "cause": "y", "insight": {"kind": "fact", "text": "Số pi đúng bằng 3,14."}}'
    # Whatever the tutor answers is wrong by this label.
    done = run(write(tmp_path, {**QUESTIONS[0], "answer": "1999"}), endpoint)
    assert done.returncode == 0, done.stderr
    bullets = Playbook(sample_library).state().bullets.values()
    (pi,) = [bullet for bullet in bullets if "3,14" in bullet.text]
    assert pi.status == "quarantined"
    assert pi.reasons


@pytest.mark.usefixtures("sample_library")
def test_a_file_that_is_no_questions_file_is_refused_before_a_model_is_asked(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    done = run(write(tmp_path, {"câu": 1}), endpoint)
    assert done.returncode == 1
    assert "line 1" in done.stderr
    assert endpoint.requests == 0
