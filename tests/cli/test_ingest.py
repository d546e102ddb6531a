"""``deepedu ingest``: what a teacher sees, and the exit status a script sees."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from deepedu.cli.ingest import _View
from deepedu.cli.main import cli, main
from deepedu.curriculum.events import FileFinished, FileStarted, Indexing, Outcome, PageRead

TEXT = "Bài 1. Nước ta\n\nNước ta có nhiều sông ngòi. Bờ biển dài 3.260 km.\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["ingest", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "sách"
    place.mkdir()
    (place / "một.txt").write_text(TEXT, encoding="utf-8")
    (place / "hai.md").write_text(f"# Bài 2\n\n{TEXT}", encoding="utf-8")
    return place


def test_a_good_batch_is_summed_up(folder: Path) -> None:
    result = run(str(folder), "--grade", "8")
    assert result.exit_code == 0
    assert "2 tệp: 2 đã thêm" in result.output
    assert "[1/2]" in result.stderr
    again = run(str(folder))
    assert again.exit_code == 0
    assert "2 đã có" in again.output


def test_a_bad_file_sets_the_exit_status_and_says_how_many_were_read(folder: Path) -> None:
    (folder / "rỗng.txt").touch()
    result = run(str(folder))
    assert result.exit_code == 1
    assert "3 tệp: 2 đã thêm, 1 lỗi" in result.output
    assert "0 byte" in result.stderr


def test_the_exit_status_reaches_the_shell(folder: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["ingest", str(folder / "không có.txt")])
    assert stop.value.code == 1


def test_json_is_all_there_is_on_standard_output(folder: Path) -> None:
    (folder / "rỗng.txt").touch()
    result = run(str(folder), "--json")
    outcomes = json.loads(result.stdout)
    assert [outcome["status"] for outcome in outcomes] == ["added", "added", "failed"]
    assert outcomes[2]["code"] == "empty_document"
    assert result.stderr == ""


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "trống").mkdir()
    empty = run(str(tmp_path / "trống"))
    assert empty.exit_code == 1
    assert "Không có tài liệu nào" in empty.output
    assert run().exit_code == 2
    resumed = run("--resume")
    assert resumed.exit_code == 0
    assert "Không có sách nào bị ngắt" in resumed.output


def test_a_terminal_shows_count_rate_and_what_is_left() -> None:
    console = Console(force_terminal=True, width=100, record=True, color_system=None)
    path = Path("sách [a].pdf")
    with _View(console) as view:
        view.on_event(FileStarted(path, 1, 3, page_count=40, pages_read=12))
        view.on_event(PageRead(path, 13, 40))
        view.on_event(Indexing(path))
        view._bars.refresh() if view._bars else None
        view.on_event(FileFinished(Outcome(path, "resumed", "sách 1"), 1, 3))
        view._bars.refresh() if view._bars else None
    shown = console.export_text()
    assert "bị ngắt ở trang 12/40, đang đọc tiếp" in shown
    assert view.pages_read == 1
