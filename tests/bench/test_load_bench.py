"""The bench of many pupils at once: markers, figures, a small run, and a leak that it must find."""

import asyncio
import importlib.util
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from starlette.types import ASGIApp

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench.load.browser import Asked
from deepedu.bench.load.markers import MOST, last_marker, marker, strangers
from deepedu.bench.load.plan import Done, Findings, Plan
from deepedu.bench.load.school import furnish
from deepedu.bench.load.serve import Pace, PacedModel, TellingModelTime
from deepedu.bench.run import run_bench
from deepedu.bench.tasks.load import percentile, summarise
from deepedu.llm.chat import Delta, Finished, Message
from deepedu.server import conversation_routes
from deepedu.server.app import create_app
from deepedu.store import Database
from deepedu.store.conversations import ConversationSummary, conversations_of
from deepedu.store.tables import Conversation

numbers = st.integers(0, MOST - 1)
needs_locust = pytest.mark.skipif(
    importlib.util.find_spec("locust") is None,
    reason="locust, which plays the pupils, is not installed (extra 'bench')",
)


@given(numbers, numbers, numbers)
def test_a_marker_tells_whose_it_is_and_nothing_of_others(mine: int, other: int, number: int) -> None:
    text = f"<p>Nước sôi ở bao nhiêu độ? (phiếu {marker(other, number).upper()}) và {marker(mine, number)}</p>"
    assert (len(strangers(text, mine)) == 1) is (mine != other)
    assert last_marker(text) == marker(mine, number)
    assert strangers("không có phiếu nào: qxz, qxzab", mine) == []


def test_figures_leave_out_what_began_before_all_were_there() -> None:
    findings = Findings(
        done=[
            Done("sign_in", -5.0, 900.0),
            Done("ask_explain", 1.0, 100.0, first_ms=40.0, model_ms=2000.0),
            Done("ask_tutor", 2.0, 300.0, first_ms=300.0),
            Done("ask_tutor", 3.0, error="broke off"),
            Done("learn", 4.0, 20.0),
        ],
        foreign=["qxzaaaaab"],
    )
    figures, details = summarise(findings, 2, 30.0)
    assert (figures["own_time_p50_ms"], figures["own_time_p95_ms"]) == (100.0, 300.0)
    assert figures["own_time_p95_ms_explain"] == 100.0
    assert (figures["errors"], figures["foreign_data"], figures["requests"]) == (1, 1, 4)
    assert figures["asks_per_minute"] == 6.0
    assert math.isnan(figures["sign_in_p95_ms"])
    assert details["kinds"]["sign_in"]["p95_ms"] == 900.0
    assert details["failed"][0]["error"] == "broke off"


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 99))
def test_a_percentile_is_one_of_the_values_and_enough_lie_below(values: list[float], share: int) -> None:
    found = percentile(values, share)
    assert sum(round(value, 1) <= found for value in values) >= share / 100 * len(values)


async def _reply(model: PacedModel) -> tuple[list[str], float]:
    asked = Message(
        "user", "[1] Bài 1. Đo: Một mét bằng mười đề-xi-mét và một trăm xăng-ti-mét.\n\nCâu hỏi: mét? qxzaabaac"
    )
    began = time.perf_counter()
    pieces = [event async for event in model.stream([asked], max_tokens=100)]
    assert isinstance(pieces[-1], Finished)
    return [piece.text for piece in pieces if isinstance(piece, Delta)], time.perf_counter() - began


async def _slow_listener(model: PacedModel) -> float:
    began = time.perf_counter()
    async for _ in model.stream([Message("user", "Câu hỏi: qxzaabaac")], max_tokens=100):
        time.sleep(0.03)
    return time.perf_counter() - began


def test_the_model_speaks_by_its_timetable_and_echoes_the_marker() -> None:
    pieces, took_s = asyncio.run(_reply(PacedModel(Pace(first_token_ms=20, token_ms=5, words=60))))
    assert "qxzaabaac" in "".join(pieces)
    assert "xăng-ti-mét [1]." in "".join(pieces)
    assert took_s >= (20 + 5 * (len(pieces) - 1)) / 1000
    # Eight words of 20 ms each, and a listener who takes 30 ms for each: the waits are not added to each other.
    assert asyncio.run(_slow_listener(PacedModel(Pace(first_token_ms=20, token_ms=20, words=0)))) < 0.48


def test_own_time_is_the_whole_less_the_models() -> None:
    answered = Asked("completed", first_ms=80.0, done_ms=2500.0, model_ms=2300.0)
    assert (answered.own_ms, answered.own_first_ms) == (200.0, 80.0)
    hinted = Asked("hint", first_ms=1300.0, done_ms=1300.0, model_ms=1200.0)
    assert (hinted.own_ms, hinted.own_first_ms) == (100.0, 100.0)


@needs_locust
def test_a_small_run() -> None:
    settings = Settings.model_validate({"search": {"dense": "off"}})
    options = {"users": "5", "seconds": "3", "pace_s": "1"}
    record = run_bench("load", settings, quick=True, options=options, console=Console(quiet=True))
    figures, details = record["figures"], record["details"]
    assert (figures["errors"], figures["foreign_data"]) == (0, 0), details
    assert figures["users"] == 5
    assert figures["requests"] > figures["asks_per_minute"] * 3 / 60 > 2
    assert 0 < figures["own_time_p50_ms"] <= figures["own_time_p95_ms"]
    assert {"ask_explain", "ask_tutor", "conversation", "conversations", "autosave", "sign_in", "learn"} <= set(
        details["kinds"]
    )
    assert details["server_log"] == ""


@needs_locust
def test_a_leak_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_everybody(database: Database, owner: str, limit: int = 100) -> list[ConversationSummary]:
        with database.read() as session:
            owners = set(session.scalars(sa.select(Conversation.owner))) | {owner}
        return [each for one in owners if one for each in conversations_of(database, one, limit)]

    monkeypatch.setattr(conversation_routes, "conversations_of", of_everybody)
    settings = Settings.model_validate({"store": {"data_dir": tmp_path / "school"}, "search": {"dense": "off"}})
    roster = furnish(settings, 4)
    app = TellingModelTime(create_app(settings, model=PacedModel(Pace(5, 1, 10))))
    with _running(app) as url:
        Plan(url, roster, 4, seconds=4, pace_s=1).write(tmp_path / "plan.json")
        files = [str(tmp_path / name) for name in ("plan.json", "findings.json")]
        subprocess.run([sys.executable, "-m", "deepedu.bench.load.pupils", *files], check=True, timeout=120)
    findings = Findings.read(tmp_path / "findings.json")
    assert findings.foreign
    assert summarise(findings, 4, 4)[0]["foreign_data"] > 0


@pytest.mark.parametrize(("option", "value"), [("users", "0"), ("seconds", "many"), ("kill", "maybe")])
@needs_locust
def test_options_that_cannot_be_taken(option: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepedu.bench.tasks.load._measure", lambda *_: ({}, {}))
    with pytest.raises(ConfigError, match=f"--set {option}"):
        run_bench("load", Settings(), options={option: value}, console=Console(quiet=True))


@contextmanager
def _running(app: ASGIApp) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the server died while starting"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
