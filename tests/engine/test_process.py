"""The server as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deepedu.base.config import EngineSettings
from deepedu.base.errors import EngineError, ModelError
from deepedu.engine.process import serve

pytest.importorskip("torch", reason="needs the extra 'engine'")

COMMAND = (sys.executable, "-c", "from deepedu.cli.main import main; main()", "engine")
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hà Nội"}]}

# As "deepedu engine serve", but every token takes a tenth of a second.
SLOW = """
import sys, time
from pathlib import Path
from deepedu.base.config import EngineSettings
from deepedu.engine import engine, generate, process

class Slow(generate.Generation):
    def accept(self, logits):
        time.sleep(0.1)
        return super().accept(logits)

settings = EngineSettings(
    model=sys.argv[1], port=0, drain_s=float(sys.argv[2]), device="cpu", cache_dir=sys.argv[3], kv_memory_gb=0.2
)
process.serve(
    settings,
    engine=engine.Engine(settings, start=Slow),
    on_listening=lambda host, port: print('{"event": "listening", "port": %d}' % port, flush=True),
)
"""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEEPEDU_ENGINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DEEPEDU_ENGINE_KV_MEMORY_GB", "0.2")


@contextmanager
def started(command: tuple[str, ...], stdin: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = json.loads(process.stdout.readline())
        assert line["event"] == "listening"
        yield process, f"http://127.0.0.1:{line['port']}"
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        process.stdout.close()
        process.stderr.close()


def health(url: str) -> str:
    return httpx.get(f"{url}/health", timeout=30).json()["status"]


def test_serve_announces_its_port_loads_answers_and_ends_on_sigterm(
    tiny_folder: Path, eventually: Callable[..., None]
) -> None:
    command = (*COMMAND, "serve", "--model", str(tiny_folder), "--port", "0", "--device", "cpu", "--announce", "--tied")
    with started(command, stdin=subprocess.PIPE) as (process, url):
        # The port is open before torch is even imported.
        assert health(url) in ("loading", "ok")
        eventually(lambda: health(url) == "ok", 120)
        answer = httpx.post(f"{url}/v1/chat/completions", json={**CHAT, "max_tokens": 3}, timeout=60)
        assert answer.json()["usage"]["completion_tokens"] == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_parent_that_is_gone_takes_the_log_with_it_and_the_engine_still_ends_in_order(
    tiny_folder: Path, eventually: Callable[..., None]
) -> None:
    command = (*COMMAND, "serve", "--model", str(tiny_folder), "--port", "0", "--device", "cpu", "--announce", "--tied")
    with started(command, stdin=subprocess.PIPE) as (process, url):
        eventually(lambda: health(url) == "ok", 120)
        for pipe in (process.stderr, process.stdout, process.stdin):
            assert pipe is not None
            pipe.close()
        # Its first line after that finds nobody: it must neither stop the engine's ending nor hurry it.
        assert process.wait(30) == 0


@pytest.mark.parametrize(("drain_s", "complete"), [(60.0, True), (0.3, False)])
def test_sigterm_drains(
    tiny_folder: Path, tmp_path: Path, eventually: Callable[..., None], drain_s: float, complete: bool
) -> None:
    command = (sys.executable, "-c", SLOW, str(tiny_folder), str(drain_s), str(tmp_path))
    with started(command) as (process, url):
        eventually(lambda: health(url) == "ok", 120)
        chunks: list[dict[str, Any]] = []

        def read() -> None:
            body = {**CHAT, "max_tokens": 30, "stream": True}
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
                chunks.extend(json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {"))

        thread = threading.Thread(target=read)
        thread.start()
        eventually(lambda: httpx.get(f"{url}/health", timeout=30).json().get("running") == 1)
        process.send_signal(signal.SIGTERM)
        if complete:
            eventually(lambda: health(url) == "draining")
            assert httpx.post(f"{url}/v1/chat/completions", json=CHAT, timeout=30).status_code == 503
        thread.join(60)
        assert process.wait(30) == 0
        if complete:
            assert chunks[-1]["choices"][0]["finish_reason"] == "length"
        else:
            assert chunks[-1]["error"]["code"] == "draining"


def test_a_second_signal_does_not_wait(tiny_folder: Path, tmp_path: Path, eventually: Callable[..., None]) -> None:
    with started((sys.executable, "-c", SLOW, str(tiny_folder), "600", str(tmp_path))) as (process, url):
        eventually(lambda: health(url) == "ok", 120)
        body = {**CHAT, "max_tokens": 400, "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
            next(answer.iter_lines())
            process.send_signal(signal.SIGTERM)
            eventually(lambda: health(url) == "draining")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_sigterm_while_loading_ends_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hub:
        # A hub that never answers.
        endpoint = f"http://127.0.0.1:{hub.getsockname()[1]}"
        environment = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"}
        command = ("env", *[f"{key}={value}" for key, value in environment.items()], *COMMAND)
        arguments = ("serve", "--model", "nobody/nothing", "--port", "0", "--announce")
        with started((*command, *arguments)) as (process, url):
            assert health(url) == "loading"
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            assert time.monotonic() - begun < 20


def test_a_tied_server_ends_with_its_parent(tiny_folder: Path, eventually: Callable[..., None]) -> None:
    # The parent starts the server, which announces itself on the same output, and is killed.
    arguments = [*COMMAND, "serve", "--model", str(tiny_folder), "--port", "0", "--announce", "--tied"]
    start = f"import subprocess, time; subprocess.Popen({arguments!r}, stdin=subprocess.PIPE); time.sleep(600)"
    with started((sys.executable, "-c", start)) as (process, url):
        eventually(lambda: health(url) == "ok", 120)
        process.kill()
        eventually(lambda: _refuses(url), 60)


def _refuses(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", timeout=30)
    except httpx.ConnectError:
        return True
    except httpx.HTTPError:
        return False
    return False


def test_a_model_that_cannot_be_loaded_ends_the_process_with_its_message(tmp_path: Path) -> None:
    settings = EngineSettings(model=str(tmp_path), port=0, cache_dir=tmp_path)
    with pytest.raises(ModelError, match=r"config\.json"):
        serve(settings)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--method", "chunk_roling"], "unknown_method", "did you mean 'chunk_rolling'?"),
        (["--method", "quest", "--set", "pagetokens=16"], "config_error", "has no field 'pagetokens'"),
        (["--set", "tau=hot"], "config_error", "expected float, came 'hot'"),
        (["--set", "tau"], "config_error", "expected key=value"),
        (["--budget-tokens", "600"], "budget_error", "give at least 640"),
    ],
)
def test_settings_that_cannot_be_end_the_server_with_a_message(
    tiny_folder: Path, arguments: list[str], code: str, words: str
) -> None:
    command = [*COMMAND, "serve", "--model", str(tiny_folder), "--port", "0", "--device", "cpu", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 1
    message = " ".join(done.stderr.split())
    assert code in message
    assert words in message
    assert "Traceback" not in message


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            serve(EngineSettings(model="demo", port=port))


def test_fetch_tells_where_the_model_is_or_what_is_wrong(tiny_folder: Path) -> None:
    run = [*COMMAND, "fetch", str(tiny_folder)]
    done = subprocess.run(run, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0
    assert str(tiny_folder) in done.stdout.replace("\n", "")
    quiet = subprocess.run([*run, "--quiet"], capture_output=True, check=False, timeout=120)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"")
    run = [*COMMAND, "fetch", "/nowhere"]
    failed = subprocess.run(run, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120)
    assert failed.returncode == 1
    assert "model_not_available" in failed.stderr
    assert "Traceback" not in failed.stderr
