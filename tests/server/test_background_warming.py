"""New books are warmed in the background, and only when that is wished for."""

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from deepedu.base.config import IngestSettings, Settings
from deepedu.curriculum.ingest import ingest
from deepedu.server import warming
from deepedu.server.app import create_app
from deepedu.store import Database
from loopback_model import Endpoint

Start = Callable[[FastAPI], str]


def settings(data_dir: Path, url: str, wish: str) -> Settings:
    return Settings.model_validate(
        {
            "store": {"data_dir": data_dir},
            "search": {"dense": "off"},
            "server": {"access": "open"},
            "llm": {"url": url},
            "tutor": {"warm_after_ingest": wish},
        }
    )


def wait_for(condition: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_books_there_are_and_books_to_come(
    sample_library: Database, endpoint: Endpoint, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.is_ours = True
    monkeypatch.setattr(warming, "LOOK_EVERY_S", 0.1)
    start(create_app(settings(sample_library.data_dir, endpoint.url, "background")))
    wait_for(lambda: len(endpoint.cached) == 8)
    new = tmp_path / "moi.txt"
    sentences = " ".join(f"Câu số {number} nói về dòng sông thứ {number} của nước ta." for number in range(80))
    new.write_text(f"Bài 1. Sông ngòi\n\n{sentences}\n", encoding="utf-8")
    ingest(sample_library, [new], IngestSettings())
    wait_for(lambda: len(endpoint.cached) == 9)


def test_it_is_off_unless_wished_for(sample_library: Database, endpoint: Endpoint, start: Start) -> None:
    endpoint.is_ours = True
    url = start(create_app(settings(sample_library.data_dir, endpoint.url, "off")))
    assert httpx.get(f"{url}/api/health").json()["status"] == "ready"
    time.sleep(0.5)
    assert endpoint.cached == {}


def test_a_server_without_a_cache_serves_all_the_same(
    sample_library: Database, endpoint: Endpoint, start: Start
) -> None:
    url = start(create_app(settings(sample_library.data_dir, endpoint.url, "background")))
    question = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
    answer = httpx.post(f"{url}/api/ask", json={"question": question}, timeout=60).text
    assert "1742" in answer
    assert "Ngữ cảnh: 2 đoạn sách" in answer


def test_it_stops_when_the_disk_takes_no_more(sample_library: Database, endpoint: Endpoint, start: Start) -> None:
    endpoint.is_ours, endpoint.stored = True, "memory"
    start(create_app(settings(sample_library.data_dir, endpoint.url, "background")))
    wait_for(lambda: len(endpoint.cached) == 1)
    time.sleep(0.5)
    assert len(endpoint.cached) == 1
