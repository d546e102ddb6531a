"""The tutor on the demo model inside vLLM, whose prompts one of our methods reads. Slow: a minute to start."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="needs vLLM's CPU build: make test-vllm")

import httpx

pytestmark = [pytest.mark.demo_model, pytest.mark.timeout(900)]

DEEPEDU = [sys.executable, "-m", "deepedu"]
BUDGET_TOKENS = 768
# Whole lessons are read, so that prompts are longer than the budget.
ASKING = {"DEEPEDU_TUTOR_CONTEXT": "lesson", "DEEPEDU_SEARCH_EMBED_AFTER_INGEST": "off", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fetched = subprocess.run([*DEEPEDU, "engine", "fetch", "--quiet", "demo"], capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"the demo model can not be had here: {fetched.stderr.strip()[-300:]}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [*DEEPEDU, "engine", "serve", "--host", "vllm", "--model", "demo", "--port", str(port)]
    command += ["--budget-tokens", str(BUDGET_TOKENS), "--window-tokens", "8192", "--", "--enforce-eager"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    log = tmp_path_factory.mktemp("vllm") / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}/v1"
            until = time.monotonic() + 400
            while not _answers(url):
                assert server.poll() is None, log.read_text(encoding="utf-8")[-3000:]
                assert time.monotonic() < until, "vLLM did not start"
                time.sleep(1)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/models", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_the_demo_ends_with_the_right_answer_and_its_source(served: str, tmp_path: Path) -> None:
    environment = {**os.environ, **ASKING, "DEEPEDU_LLM_URL": served}
    command = [*DEEPEDU, "--data", str(tmp_path / "demo"), "demo", "--no-school"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    answer = done.stdout.partition("Em hỏi:")[2]
    shown = [line for line in answer.splitlines() if line.startswith(("✓", "❝"))]
    assert any("Robert Hooke" in line for line in shown), answer
    assert "trang 12" in answer


def test_what_else_the_tutor_asks_of_a_model(served: str, tmp_path: Path) -> None:
    environment = {**os.environ, **ASKING, "DEEPEDU_LLM_URL": served}
    record = tmp_path / "record.json"
    command = [
        *DEEPEDU,
        "bench",
        "grounding",
        "--quick",
        "--set",
        "sets=sample",
        "--set",
        "replies=fresh",
        "--out",
        str(record),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    figures = json.loads(record.read_text(encoding="utf-8"))["figures"]
    assert figures["false_support_rate_sample"] == 0
    assert figures["prompt_tokens_mean_sample"] > BUDGET_TOKENS
