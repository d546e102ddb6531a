"""``deepedu engine warm``, and what becomes of the lessons when their book goes, as a user runs them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deepedu.base.config import load_settings
from deepedu.base.prefix_files import book_tag, prefix_folder
from deepedu.store import Database
from deepedu.store.library import document_digests
from loopback_model import Endpoint

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEEPEDU_ENGINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DEEPEDU_SEARCH_DENSE", "off")
    monkeypatch.setenv("COLUMNS", "160")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "deepedu", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.usefixtures("sample_library")
def test_a_book_is_warmed_once_and_then_serves(endpoint: Endpoint) -> None:
    endpoint.is_ours = True
    first = run("engine", "warm", "tự nhiên 6", "--llm", endpoint.url)
    assert first.returncode == 0, first.stderr
    assert "Cần nạp 8 bài" in first.stdout
    assert "[8/8] Bài 8. Cây lúa và quang hợp" in first.stdout
    assert "Đã nạp 8 bài" in first.stdout
    assert "MB" in first.stdout
    assert set(endpoint.cached.values()) == {next(iter(endpoint.cached.values()))}
    second = run("engine", "warm", "1", "--llm", endpoint.url)
    assert "Không còn bài nào phải nạp" in second.stdout
    endpoint.reply = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [3]."
    asked = run("ask", QUESTION, "--llm", endpoint.url)
    assert "Ngữ cảnh: cả bài học (2.310 token, " in asked.stdout
    assert "lấy từ bộ nhớ đệm trên đĩa)" in asked.stdout
    assert "✓ Anders Celsius" in asked.stdout


@pytest.mark.usefixtures("sample_library")
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(endpoint: Endpoint) -> None:
    endpoint.is_ours, endpoint.pause_s = True, 0.1
    child = subprocess.Popen(
        command("engine", "warm", "1", "--llm", endpoint.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background has Ctrl-C ignored, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while len(endpoint.cached) < 2:
        assert time.monotonic() < deadline, "nothing was warmed"
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert "deepedu engine warm 1" in output
    assert "Traceback" not in errors
    endpoint.pause_s = 0.0
    assert 2 <= len(endpoint.cached) < 8
    rest = run("engine", "warm", "1", "--llm", endpoint.url)
    assert "đã nạp sẵn" in rest.stdout
    assert len(endpoint.cached) == 8


@pytest.mark.usefixtures("sample_library")
def test_what_goes_wrong_is_said_in_one_line(endpoint: Endpoint) -> None:
    unknown = run("engine", "warm", "Toán 10", "--llm", endpoint.url)
    assert (unknown.returncode, "Khoa học tự nhiên 6" in unknown.stderr) == (1, True)
    foreign = run("engine", "warm", "1", "--llm", endpoint.url)
    assert (foreign.returncode, "không có bộ nhớ đệm" in foreign.stderr) == (1, True)
    nobody = run("engine", "warm", "1", "--llm", "http://127.0.0.1:9/v1")
    assert (nobody.returncode, "llm_unreachable" in nobody.stderr) == (1, True)
    endpoint.is_ours, endpoint.stored = True, "memory"
    full = run("engine", "warm", "1", "--llm", endpoint.url)
    assert "chỉ nằm trong bộ nhớ" in full.stdout


def test_an_empty_library_says_what_to_do(endpoint: Endpoint) -> None:
    result = run("engine", "warm", "1", "--llm", endpoint.url)
    assert result.returncode == 1
    assert "deepedu ingest" in result.stderr


def test_deleting_a_book_forgets_its_lessons_on_disk_and_in_the_engine(
    sample_library: Database, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.is_ours = True
    monkeypatch.setenv("DEEPEDU_LLM_URL", endpoint.url)
    tag = book_tag(document_digests(sample_library)[1])
    folder = prefix_folder(load_settings().settings.engine.cache_dir, tag)
    folder.mkdir(parents=True)
    (folder / "lesson.safetensors").write_bytes(b"rows")
    assert run("engine", "warm", "1").returncode == 0
    assert len(endpoint.cached) == 8
    deleted = run("books", "delete", "1", "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert not folder.exists()
    assert (endpoint.forgotten, endpoint.cached) == ([tag], {})


def test_replacing_a_book_forgets_its_lessons(
    sample_library: Database, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.is_ours = True
    monkeypatch.setenv("DEEPEDU_LLM_URL", endpoint.url)
    tag = book_tag(document_digests(sample_library)[1])
    new = tmp_path / "khtn6.txt"
    new.write_text("Bài 1. Đo chiều dài\n\nĐộ dài của một vật được đo bằng thước, đơn vị là mét.\n", encoding="utf-8")
    assert run("ingest", str(new), "--replace", "1").returncode == 0
    assert endpoint.forgotten == [tag]


@pytest.mark.usefixtures("sample_library")
def test_a_deleted_book_is_gone_although_the_engine_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEDU_LLM_URL", "http://127.0.0.1:9/v1")
    deleted = run("books", "delete", "1", "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert "còn trống" in run("books").stdout
    assert "Traceback" not in deleted.stderr
    assert os.environ["DEEPEDU_LLM_URL"]
