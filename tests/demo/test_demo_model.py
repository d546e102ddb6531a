"""The whole product on the real demo model. Slow: fetched and converted once, then half a minute a question."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepedu.base.config import EngineSettings

pytestmark = [pytest.mark.demo_model, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def _model() -> None:
    """The demo model in the user's cache, or a skip that says why not."""
    fetched = run("engine", "fetch", "--quiet", "demo")
    if fetched.returncode != 0:
        pytest.skip(f"the demo model can not be had here: {fetched.stderr.strip()[-300:]}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEEPEDU_SEARCH_EMBED_AFTER_INGEST": "off", "COLUMNS": "200"}
    command = [sys.executable, "-m", "deepedu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=850, check=False)


def test_the_demo_ends_with_the_right_answer_and_its_source(tmp_path: Path) -> None:
    result = run("--data", str(tmp_path / "demo"), "demo", "--no-school")
    assert result.returncode == 0, result.stderr
    answer = result.stdout.partition("Em hỏi:")[2]
    shown = [line for line in answer.splitlines() if line.startswith(("✓", "❝"))]
    assert any("Robert Hooke" in line for line in shown), answer
    assert "Bài 5" in answer
    assert "trang 12" in answer
    assert "chữ đầu tiên sau" in answer
    assert "token/giây" in answer
    assert "deepedu ask" in answer


@pytest.mark.parametrize("bench", ["grounding"])
def test_two_questions_of_the_bench(tmp_path: Path, bench: str) -> None:
    out = tmp_path / "record.json"
    result = run("bench", bench, "--quick", "--set", "sets=sample", "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert '"false_support_rate_sample"' in out.read_text(encoding="utf-8")


def test_the_cache_is_the_users() -> None:
    # Otherwise every run of the tests would fetch half a gigabyte.
    assert "pytest" not in str(EngineSettings().cache_dir)
