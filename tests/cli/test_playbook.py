"""``deepedu playbook``: a teacher's view of what was learnt."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deepedu.base.config import load_settings
from deepedu.base.errors import BadRequest, InvalidDelta, NotFound
from deepedu.cli.main import cli
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, PassageEvidence
from deepedu.playbook.delta import Add, Count
from deepedu.store import Database

MODEL = Author(role="model", name="qwen")


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["playbook", *arguments], input=typed, env={"COLUMNS": "200"})


@pytest.fixture
def book() -> Iterator[Playbook]:
    """Two facts that a model proposed, version 1."""
    database = Database(load_settings().settings.store)
    book = Playbook(database)
    quote = PassageEvidence(book="0" * 64, page=12, quote="Ở áp suất thường, nước sôi ở 100 °C.")
    texts = ("Nước sôi ở 100 °C.", "Nước [đá] tan ở 0 °C.")
    book.change([Add(text=text, kind="fact", evidence=(quote,)) for text in texts], MODEL, "trả lời sai câu 3")
    yield book
    database.close()


def test_an_empty_playbook_says_so() -> None:
    for command in (["show"], ["history"], ["stats"]):
        result = run(*command)
        assert (result.exit_code, "còn trống" in result.output) == (0, True)


def test_what_was_learnt_and_what_it_stands_on(book: Playbook) -> None:
    listed = run("show").output
    assert "Kiến thức trong sách" in listed
    assert "Nước [đá] tan ở 0 °C." in listed
    assert "chờ duyệt" in listed
    one = run("show", "b-00001").output
    assert "trang 12: “Ở áp suất thường, nước sôi ở 100 °C.”" in one
    assert "mô hình qwen" in one
    assert isinstance(run("show", "b-9").exception, NotFound)
    assert "Không có" in run("show", "--status", "verified").output
    del book


def test_a_teacher_approves_and_rejects(book: Playbook) -> None:
    assert "Đã duyệt 1 điều (bản 2)" in run("approve", "b-00001", "--by", "cô Lan").output
    assert "Đã từ chối" in run("reject", "b-00002", "--reason", "không đúng sách", "--by", "cô Lan").output
    first, second = book.state().ordered()
    assert (first.status, second.status, second.reasons) == ("verified", "quarantined", ("không đúng sách",))
    assert isinstance(run("approve", "b-00001", "b-9").exception, InvalidDelta)
    told = run("history").output
    assert "giáo viên cô Lan" in told
    assert "trả lời sai câu 3" in told
    assert told.index("không đúng sách") < told.index("trả lời sai câu 3")
    assert "không đúng sách" not in run("history", "b-00001").output
    assert "Chưa có" in run("history", "b-9").output


def test_differences_and_the_way_back(book: Playbook) -> None:
    run("approve", "b-00001")
    assert "status: proposed → verified" in run("diff", "1").output
    assert "+ [b-00002] Nước [đá] tan ở 0 °C." in run("diff", "0", "1").output
    assert "như nhau" in run("diff", "1", "1").output
    assert run("rollback", "1", "--reason", "x", typed="n\n").exit_code != 0
    assert book.version == 2
    assert "bản mới: 3" in run("rollback", "1", "--reason", "duyệt nhầm", typed="y\n").output
    assert {bullet.status for bullet in book.state().ordered()} == {"proposed"}
    assert isinstance(run("rollback", "9", "--reason", "x", "--yes").exception, NotFound)


@pytest.mark.parametrize("name", ["so-tay.md", "so-tay.json"])
def test_there_and_back_through_a_file(book: Playbook, tmp_path: Path, name: str) -> None:
    run("approve", "b-00001")
    file = tmp_path / name
    assert "Đã ghi 2 điều" in run("export", str(file)).output
    written = file.read_bytes()
    assert "đã có tất cả" in run("import", str(file), "--keep-status").output
    run("rollback", "0", "--reason", "x", "--yes")
    # Nobody vouches for a file that is only read.
    run("import", str(file))
    assert {bullet.status for bullet in book.state().ordered()} == {"proposed"}
    run("import", str(file), "--replace", "--keep-status")
    assert run("export", str(file)).exit_code == 0
    assert file.read_bytes() == written


def test_a_file_that_says_otherwise_is_not_taken_silently(book: Playbook, tmp_path: Path) -> None:
    file = tmp_path / "so-tay.md"
    run("export", str(file))
    file.write_text(file.read_text(encoding="utf-8").replace("100 °C.", "90 °C."), encoding="utf-8")
    refused = run("import", str(file))
    assert isinstance(refused.exception, InvalidDelta)
    assert "--replace" in str(refused.exception)
    assert book.version == 1
    run("import", str(file), "--replace")
    assert book.state().bullets["b-00001"].text == "Nước sôi ở 90 °C."


def test_new_bullets_come_after_those_that_are_there(book: Playbook, tmp_path: Path) -> None:
    file = tmp_path / "so-tay.md"
    run("export", str(file))
    text = file.read_text(encoding="utf-8").replace("b-0000", "st-0000").replace("Nước", "Thép")
    file.write_text(text, encoding="utf-8")
    assert "Đã nhập 2 điều" in run("import", str(file)).output
    assert [bullet.id for bullet in book.state().ordered()] == ["b-00001", "b-00002", "st-00001", "st-00002"]


def test_files_that_cannot_be_used(book: Playbook, tmp_path: Path) -> None:
    assert isinstance(run("export", str(tmp_path / "x.txt")).exception, BadRequest)
    assert isinstance(run("import", str(tmp_path / "x.txt")).exception, BadRequest)
    assert isinstance(run("import", str(tmp_path / "none.md")).exception, BadRequest)
    assert isinstance(run("export", str(tmp_path / "none" / "x.md")).exception, BadRequest)
    del book


def test_figures_and_what_keeps_harming(book: Playbook) -> None:
    run("approve", "b-00001")
    book.change([Count(bullet_id="b-00001", harmful=4)], Author(role="system"), "học sinh báo sai")
    told = run("stats").output
    assert "bản 3" in told
    assert "! [b-00001] hại nhiều hơn giúp (4/0)" in told
