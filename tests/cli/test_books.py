"""``deepedu books``: the library at a glance, one book in full, and its end."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from deepedu.base.config import load_settings
from deepedu.base.errors import NotFound
from deepedu.cli.main import cli
from deepedu.store import Database
from deepedu.store.tables import Book

TEXT = "".join(f"Bài {n}. Tên bài {n}\n\nNước ta có nhiều sông ngòi, số {n}.\n\n" for n in (1, 2))


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=typed, env={"COLUMNS": "160"})


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "toan-7.txt"
    path.write_text(f"CHƯƠNG I. SỐ\n\n{TEXT}", encoding="utf-8")
    assert run("ingest", str(path), "--title", "Toán [bảy]").exit_code == 0
    return path


def test_an_empty_library_says_what_to_do() -> None:
    result = run("books")
    assert result.exit_code == 0
    assert "deepedu ingest" in result.output


def test_the_list(library: Path) -> None:
    output = run("books").output
    assert "Toán [bảy]" in output
    assert "sẵn sàng" in output
    database = Database(load_settings().settings.store)
    with database.write() as session:
        session.execute(sa.update(Book).values(status="reading", pages_read=3, page_count=9, lease=None))
    database.close()
    output = run("books").output
    assert "bị ngắt ở trang 3/9" in output
    assert "--resume" in output
    del library


def test_one_book_in_full(library: Path) -> None:
    output = run("books", "show", "1").output
    assert "Toán [bảy] \n" in output or "Toán [bảy]" in output.split("(đoán)")[0]
    assert "7 (đoán)" in output
    assert "chưa rõ" in output
    assert output.index("CHƯƠNG I. SỐ") < output.index("Bài 1. Tên bài 1") < output.index("Bài 2. Tên bài 2")
    assert isinstance(run("books", "show", "9").exception, NotFound)
    del library


def test_deleting_asks_first(library: Path) -> None:
    refused = run("books", "delete", "1", typed="n\n")
    assert refused.exit_code != 0
    assert "Toán [bảy]" in run("books").output
    done = run("books", "delete", "1", typed="y\n")
    assert done.exit_code == 0
    assert "Đã xóa: Toán [bảy]" in done.output
    assert "còn trống" in run("books").output
    assert isinstance(run("books", "delete", "1", "--yes").exception, NotFound)
    del library
