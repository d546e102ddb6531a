"""``/v1/cache`` over HTTP, and what a chat over a warmed lesson tells."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.base.config import EngineSettings  # noqa: E402
from deepedu.engine.engine import Engine  # noqa: E402

Serving = Callable[[Engine], AbstractContextManager[str]]
Served = tuple[Engine, str]

LESSON = "Năm 938, Ngô Quyền đánh tan quân Nam Hán trên sông Bạch Đằng. " * 8
SHARED = {"type": "shared", "tag": "book-1"}
RULES: Any = [{"role": "system", "content": [{"type": "text", "text": LESSON, "cache_control": SHARED}]}]
BODY = {"model": "tiny", "messages": RULES}


@pytest.fixture
def make_served(tiny: Any, tmp_path: Path, serving: Serving) -> Iterator[Callable[..., Served]]:
    open_servers: list[AbstractContextManager[str]] = []

    def make(**settings: Any) -> Served:
        given = {"kv_memory_gb": 0.1, "cache_dir": tmp_path, "prefill_chunk_tokens": 64, **settings}
        engine = Engine(EngineSettings(model="/models/tiny", **given))
        engine.use(tiny)
        server = serving(engine)
        url = server.__enter__()
        open_servers.append(server)
        return engine, url

    yield make
    for server in open_servers:
        server.__exit__(None, None, None)


@pytest.fixture
def served(make_served: Callable[..., Served]) -> Served:
    return make_served()


def post(url: str, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/cache/{path}", json={**BODY, **body} if path != "forget" else body, timeout=60)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def chat(url: str, question: str = "Ai thắng?", **more: Any) -> dict[str, Any]:
    messages = [*RULES, {"role": "user", "content": question}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 5, "usage_details": True, **more}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def metrics(url: str) -> dict[str, float]:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("prefix/*/*"))


def test_a_lesson_is_looked_up_warmed_used_and_forgotten(served: Served, tmp_path: Path) -> None:
    _, url = served
    cold = post(url, "lookup").json()
    total = cold["shared_tokens"]
    assert total > 128
    assert cold == {"shared_tokens": total, "cached_tokens": 0, "cached_from": None, "warm": False}
    answer = post(url, "warm")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer)
    done = [event["done_tokens"] for event in events]
    assert done == sorted(done)
    assert len(done) > 2
    assert {event["total_tokens"] for event in events} == {total}
    (file,) = files(tmp_path)
    assert file.parent.name == "book-1"
    rows_bytes = events[-1]["bytes"]
    assert events[-1] == {"done_tokens": total, "total_tokens": total, "stored": "disk", "bytes": rows_bytes}
    assert 0 < file.stat().st_size - rows_bytes < 10_000
    assert post(url, "lookup").json() == {**cold, "cached_tokens": total, "cached_from": "memory", "warm": True}
    assert chat(url)["usage"]["prompt_tokens_details"] == {"cached_tokens": total}
    size = file.stat().st_size
    assert post(url, "forget", tag="book-1").json() == {"files": 1, "bytes": size}
    assert post(url, "forget", tag="book-1").json() == {"files": 0, "bytes": 0}
    assert post(url, "lookup").json() == cold
    assert files(tmp_path) == []


def test_after_a_restart_the_lesson_comes_from_disk(make_served: Callable[..., Served]) -> None:
    engine, url = make_served()
    wanted = chat(url)["choices"][0]["message"]["content"]
    total = post(url, "lookup").json()["shared_tokens"]
    engine.close()
    _, url = make_served()
    assert post(url, "lookup").json()["cached_from"] == "disk"
    again = chat(url)
    assert again["choices"][0]["message"]["content"] == wanted
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == total
    assert again["usage"]["engine"]["cached_from"] == "disk"
    # Warming what is on disk already is told at once.
    assert events_of(post(url, "warm"))[-1]["stored"] == "disk"


def test_usage_tells_what_the_method_did(make_served: Callable[..., Served]) -> None:
    _, url = make_served(method="token_select", method_set="block_tokens=32", budget_tokens=640)
    usage = chat(url)["usage"]
    assert set(usage["engine"]) >= {"method", "cached_from", "retrieval_calls", "rows_read"}
    assert usage["engine"]["method"] == "token_select"
    assert usage["engine"]["cached_from"] is None
    assert usage["engine"]["rows_read"] > 0
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
    assert "engine" not in chat(url, usage_details=False)["usage"]


def test_a_stream_tells_the_same_in_its_last_chunk(served: Served) -> None:
    _, url = served
    total = post(url, "lookup").json()["shared_tokens"]
    chat(url)
    body = {
        "model": "tiny",
        "messages": [*RULES, {"role": "user", "content": "Ở đâu?"}],
        "max_tokens": 3,
        "stream": True,
        "usage_details": True,
        "stream_options": {"include_usage": True},
    }
    chunks = events_of(httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60))
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": total}
    assert chunks[-1]["usage"]["engine"]["cached_from"] == "memory"


def test_private_turns_are_reused_for_the_same_user_only(served: Served) -> None:
    _, url = served
    private = "Em tên là Lan, " * 20
    shared = post(url, "lookup").json()["shared_tokens"]
    chat(url, private, user="lan")
    cached = {
        user: chat(url, f"{private} em hỏi", user=user)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for user in ("minh", "lan")
    }
    assert cached["minh"] == shared
    assert cached["lan"] >= shared + 64
    messages = [*RULES, {"role": "user", "content": f"{private} em hỏi"}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 3}
    nobody = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
    assert nobody["usage"]["prompt_tokens_details"]["cached_tokens"] == shared


def test_metrics_tell_method_reuse_and_retrievals(make_served: Callable[..., Served]) -> None:
    _, url = make_served(method="token_select", method_set="block_tokens=32", budget_tokens=640)
    total = post(url, "lookup").json()["shared_tokens"]
    chat(url)
    usage = chat(url)["usage"]
    values = metrics(url)
    assert values['deepedu_engine_attention_info{method="token_select"}'] == 1
    assert values["deepedu_engine_cached_prompt_tokens_total"] == total
    assert values["deepedu_engine_rows_read_total"] >= usage["engine"]["rows_read"] > 0
    assert "deepedu_engine_retrieval_calls_total" in values
    assert values['deepedu_engine_requests_total{endpoint="chat",outcome="ok"}'] == 2


class Gate:
    """Holds each slice of a prompt until the test lets it go."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slices, self.go = 0, threading.Semaphore(0)
        prefill = engine.runner.prefill

        def held(running: Any, limit: int) -> Any:
            assert self.go.acquire(timeout=30)
            self.slices += 1
            return prefill(running, limit)

        monkeypatch.setattr(engine.runner, "prefill", held)


def test_closing_the_connection_cancels_between_slices_and_keeps_what_is_there(
    served: Served, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None], tmp_path: Path
) -> None:
    engine, url = served
    monkeypatch.setattr("deepedu.engine.scheduler.SLICE_S", 1e-9)
    gate = Gate(engine, monkeypatch)
    with httpx.stream("POST", f"{url}/v1/cache/warm", json=BODY, timeout=30) as answer:
        gate.go.release()
        lines = (line for line in answer.iter_lines() if line)
        assert json.loads(next(lines)[6:])["done_tokens"] == 64
    # The server hears of it while the next slice is held.
    eventually(lambda: any(job.cancelled.is_set() for job in engine._scheduler._running))
    gate.go.release(9)
    eventually(lambda: engine.running == 0)
    assert gate.slices == 2
    assert engine.runner.cache.reserved_bytes == 0
    assert post(url, "lookup").json()["cached_tokens"] == 128
    monkeypatch.undo()
    assert events_of(post(url, "warm"))[0]["done_tokens"] > 128
    assert post(url, "lookup").json()["warm"]
    # The half that was written when the connection closed has gone.
    assert len(files(tmp_path)) == 1


def test_people_go_before_a_warming(
    served: Served, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    engine, url = served
    monkeypatch.setattr("deepedu.engine.scheduler.SLICE_S", 1e-9)
    order: list[str] = []
    gate = Gate(engine, monkeypatch)

    def warm() -> None:
        post(url, "warm")
        order.append("warmed")

    def talk() -> None:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Chào"}], "max_tokens": 2}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        order.append("answered")

    threads = [threading.Thread(target=warm), threading.Thread(target=talk)]
    threads[0].start()
    eventually(lambda: engine.running == 1)
    threads[1].start()
    eventually(lambda: engine.waiting == 1)
    gate.go.release(99)
    for thread in threads:
        thread.join(60)
    assert order == ["answered", "warmed"]


def test_a_full_queue_answers_429(
    make_served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    engine, url = make_served(max_queue=1)
    gate = Gate(engine, monkeypatch)
    threads = [threading.Thread(target=post, args=(url, "warm")) for _ in range(2)]
    for count, thread in enumerate(threads, start=1):
        thread.start()
        eventually(lambda count=count: engine.running + engine.waiting == count)
    refused = post(url, "warm")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    gate.go.release(99)
    # Those that warm leave room for people.
    assert chat(url)["usage"]["completion_tokens"] > 0
    for thread in threads:
        thread.join(60)


def test_a_full_disk_is_told_in_the_stream(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, url = served

    def full(_tensors: Any, path: str, _metadata: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    error = events_of(post(url, "warm"))[-1]["error"]
    assert "No space left" in error["message"]
    assert "engine.prefix_disk_gb" in error["message"]
    assert error["code"] == "engine_error"
    assert files(tmp_path) == []
    # In memory it serves all the same.
    assert post(url, "lookup").json()["warm"]


def test_a_failure_is_told_in_the_stream(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, url = served

    def failing(*_: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(engine.runner, "prefill", failing)
    error = events_of(post(url, "warm"))[-1]["error"]
    assert error["code"] == "engine_error"
    assert "secret" not in error["message"]
    monkeypatch.undo()
    assert events_of(post(url, "warm"))[-1]["stored"] == "disk"


def test_a_drained_warming_says_so_and_keeps_what_is_there(
    served: Served, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    engine, url = served
    monkeypatch.setattr("deepedu.engine.scheduler.SLICE_S", 1e-9)
    gate, answers = Gate(engine, monkeypatch), []
    thread = threading.Thread(target=lambda: answers.append(post(url, "warm")))
    thread.start()
    gate.go.release()
    eventually(lambda: gate.slices == 1)
    assert not engine.drain(0)
    gate.go.release(9)
    thread.join(30)
    assert events_of(answers[0])[-1]["error"]["code"] == "draining"
    assert engine.runner.cache.held_bytes > 0
    assert (post(url, "warm").status_code, post(url, "warm").json()["error"]["code"]) == (503, "draining")


def test_without_a_disk_it_is_kept_in_memory(make_served: Callable[..., Served], tmp_path: Path) -> None:
    _, url = make_served(prefix_disk_gb=0)
    assert events_of(post(url, "warm"))[-1]["stored"] == "memory"
    assert post(url, "lookup").json()["warm"]
    assert files(tmp_path) == []
    assert post(url, "forget", tag="book-1").json() == {"files": 0, "bytes": 0}
    assert not post(url, "lookup").json()["warm"]


def test_the_folder_may_go_while_the_engine_runs(served: Served, tmp_path: Path) -> None:
    import shutil

    _, url = served
    post(url, "warm")
    wanted = chat(url)["choices"]
    shutil.rmtree(tmp_path / "prefix")
    assert chat(url)["choices"] == wanted
    assert post(url, "forget", tag="book-1").json() == {"files": 0, "bytes": 0}
    assert events_of(post(url, "warm"))[-1]["stored"] == "disk"
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("lookup", {"model": "other"}, 404, "model_not_found"),
        ("warm", {"model": "other"}, 404, "model_not_found"),
        ("warm", {"messages": [{"role": "user", "content": "Chào"}]}, 400, "invalid_request"),
        ("lookup", {"messages": []}, 400, "invalid_value"),
        ("lookup", {"tokens": 5}, 400, "unknown_parameter"),
        ("forget", {"tag": "../x"}, 400, "invalid_value"),
        ("forget", {}, 400, "invalid_value"),
    ],
)
def test_requests_that_cannot_be(served: Served, path: str, body: dict[str, Any], status: int, code: str) -> None:
    answer = post(served[1], path, **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_conversation_without_shared_parts_is_not_warm(served: Served) -> None:
    answer = post(served[1], "lookup", messages=[{"role": "user", "content": "Chào"}]).json()
    assert answer == {"shared_tokens": 0, "cached_tokens": 0, "cached_from": None, "warm": False}


def test_a_lesson_larger_than_the_memory_is_refused(served: Served) -> None:
    engine, url = served
    engine.runner.cache.limit_bytes = 100 * engine.runner.row_bytes
    answer = post(url, "warm")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "budget_error")


def test_while_loading_the_routes_say_so(serving: Serving, tmp_path: Path) -> None:
    with serving(Engine(EngineSettings(model="/models/tiny", cache_dir=tmp_path))) as url:
        for path, body in (("lookup", {}), ("warm", {}), ("forget", {"tag": "x"})):
            answer = post(url, path, **body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "loading")
