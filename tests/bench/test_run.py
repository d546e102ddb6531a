"""Running a bench, its record, and comparing two records: through a bench that exists only here."""

import io
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench import report, run
from deepedu.cli.bench import bench


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A bench named toy: its figures come from the context it was given."""
    module = ModuleType("deepedu.bench.tasks.toy", "Measures nothing.\n\nMore words.")

    def run_toy(context: run.BenchContext) -> run.BenchResult:
        (context.tmp_dir / "scratch").write_text("x")
        module.tmp_dir = context.tmp_dir  # type: ignore[attr-defined]
        with context.progress("toy", 2) as advance:
            advance(2)
        port = context.settings.engine.port
        return run.BenchResult({"half": 0.5, "port": port, "seed_seen": context.seed, "bad": float("nan")}, {"n": 3})

    module.run = run_toy  # type: ignore[attr-defined]
    module.OPTIONS = {"colour": "of the bike shed"}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(run, "task_names", lambda: ["retrieval", "toy"])
    return module


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(bench, list(arguments), catch_exceptions=True)


def test_a_run_writes_a_record_that_a_program_can_read(toy: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "toy.json"
    result = invoke(
        "toy", "--out", str(out), "--seed", "7", "--set", "engine.port=81", "--set", "colour=red", "--quick"
    )
    assert result.exit_code == 0, result.output
    assert "half" in result.output
    record = json.loads(out.read_text())
    assert record["figures"] == {"half": 0.5, "port": 81, "seed_seen": 7}
    assert record["undefined"] == ["bad"]
    assert record["options"] == {"colour": "red"}
    assert record["quick"] is True
    assert record["settings"]["engine"]["port"] == 81
    assert record["details"] == {"n": 3}
    assert record["machine"]["cores"] >= 1
    assert record["versions"]["python"].startswith("3.")
    assert {"started", "finished", "commit", "duration_s"} <= record.keys()
    assert not toy.tmp_dir.exists()


@pytest.mark.usefixtures("toy")
def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'retrieval'"):
        run.load_task("retreival")
    with pytest.raises(ConfigError, match=r"has no option 'color'; it has: colour"):
        run.run_bench("toy", Settings(), options={"color": "red"})
    assert isinstance(invoke("toy", "--set", "nonsense").exception, ConfigError)


def test_every_bench_in_the_folder_can_be_loaded_and_explains_itself() -> None:
    assert "retrieval" in run.task_names()
    for name in run.task_names():
        task = run.load_task(name)
        assert callable(task.run)
        assert (task.__doc__ or "").strip()


def test_missing_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"nowhere.*DEEPEDU_DATA"):
        _ = run.BenchContext(Settings(), tmp_path).data_dir
    monkeypatch.delenv("DEEPEDU_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="shared"):
        _ = run.BenchContext(Settings(), tmp_path).data_dir


def test_an_unwritable_place_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        run.write_record({}, tmp_path / "file" / "out.json")


def record_of(figures: dict[str, float], **changes: Any) -> dict[str, Any]:
    base = {"bench": "toy", "quick": False, "seed": 0, "options": {}, "machine": {"cpu": "A"}, "versions": {"x": "1"}}
    return {**base, "figures": figures, **changes}


def compared(first: dict[str, Any], second: dict[str, Any]) -> str:
    screen = io.StringIO()
    report.compare(first, second, Console(file=screen, width=120))
    return screen.getvalue()


def test_compare_shows_difference_and_ratio() -> None:
    text = compared(record_of({"recall": 0.5, "zero": 0, "gone": 1}), record_of({"recall": 0.75, "zero": 2, "new": 3}))
    assert "warning" not in text
    row = next(line for line in text.splitlines() if "recall" in line)
    assert "+0.25" in row
    assert "1.500" in row
    assert "new" in text
    assert "gone" in text


def test_compare_warns_when_machine_or_versions_differ() -> None:
    text = compared(record_of({"a": 1}), record_of({"a": 1}, machine={"cpu": "B"}, versions={"x": "2"}, quick=True))
    assert "machine differ: cpu 'A' and 'B'" in text
    assert "versions differ: x '1' and '2'" in text
    assert "quick differs" in text


def test_compare_reads_the_files_that_runs_write(tmp_path: Path) -> None:
    for name, value in (("a", 1.0), ("b", 3.0)):
        run.write_record(record_of({"speed": value}), tmp_path / f"{name}.json")
    result = invoke("compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert result.exit_code == 0, result.output
    assert "3.000" in result.output
    (tmp_path / "c.json").write_text("[1]")
    assert isinstance(invoke("compare", str(tmp_path / "a.json"), str(tmp_path / "c.json")).exception, ConfigError)


def test_the_commit_is_that_of_this_code() -> None:
    found = run.commit()
    assert found is None or len(found["id"]) == 40
