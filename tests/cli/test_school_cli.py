"""``deepedu school``: the first account, passwords, lists and rosters without a browser."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deepedu.base.config import load_settings
from deepedu.base.errors import BadRequest, NotFound
from deepedu.cli.main import cli
from deepedu.school import audit
from deepedu.school.accounts import check_password
from deepedu.store import Database

ROSTER = "Mã học sinh,Họ và tên,Lớp,Ngày sinh\nHS001,Nguyễn Văn An,6A,01/02/2015\nHS002,Trần Thị Bình,6B,31/02/2015\n"


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=typed, env={"COLUMNS": "160"})


def password_in(output: str) -> str:
    found = re.findall(r"\b[a-z2-9]{5}-[a-z2-9]{5}\b", output)
    assert len(found) == 1, "shown once"
    return found[0]


@pytest.fixture
def database(tmp_path: Path):
    del tmp_path
    database = Database(load_settings().settings.store)
    yield database
    database.close()


@pytest.fixture
def roster(tmp_path: Path) -> Path:
    path = tmp_path / "lop.csv"
    path.write_text(ROSTER, encoding="utf-8")
    return path


def test_the_first_admin_and_what_comes_next(database: Database) -> None:
    result = run("school", "init", "--username", "Hieu.Truong", "--name", "Vũ Hiệu Trưởng")
    assert result.exit_code == 0, result.output
    account = check_password(database, "hieu.truong", password_in(result.output))
    assert (account.role, account.must_change_password, account.full_name) == ("admin", True, "Vũ Hiệu Trưởng")
    for step in ("deepedu serve", "deepedu ingest", "deepedu school import"):
        assert step in result.output
    again = run("school", "init")
    assert isinstance(again.exception, BadRequest)
    assert "deepedu school password" in str(again.exception)


def test_a_username_that_cannot_be_one(database: Database) -> None:
    assert isinstance(run("school", "init", "--username", "có dấu").exception, BadRequest)
    assert audit.entries(database) == []


def test_a_forgotten_password(database: Database) -> None:
    first = password_in(run("school", "init").output)
    second = password_in(run("school", "password", "ADMIN").output)
    assert second != first
    assert check_password(database, "admin", second)
    assert [entry.action for entry in audit.entries(database)] == ["person.password", "person.create"]
    assert isinstance(run("school", "password", "ai-do").exception, NotFound)


def test_a_roster_is_shown_asked_for_and_written(database: Database, roster: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    command = ("school", "import", str(roster), "--year", "2026-2027", "--report", str(report))
    refused = run(*command, typed="n\n")
    assert "tạo" in refused.output
    assert "Dòng 3" in refused.output
    assert run("school", "people").output.strip() == "Không có ai như vậy."
    done = run(*command, "--yes")
    assert done.exit_code == 0, done.output
    passwords = tmp_path / "lop-mat-khau.csv"
    assert passwords.stat().st_mode & 0o777 == 0o600
    username, password = passwords.read_text(encoding="utf-8-sig").splitlines()[1].split(",")[2:]
    assert check_password(database, username, password)
    assert "HS001" in report.read_text(encoding="utf-8-sig")
    again = run(*command, "--yes")
    assert "Không có gì để ghi" in again.output


def test_passwords_never_go_over_a_file(database: Database, roster: Path, tmp_path: Path) -> None:
    target = tmp_path / "co-san.csv"
    target.write_text("của tôi", encoding="utf-8")
    result = run("school", "import", str(roster), "--passwords", str(target), "--yes")
    assert isinstance(result.exception, BadRequest)
    assert target.read_text(encoding="utf-8") == "của tôi"
    assert audit.entries(database) == []


@pytest.mark.parametrize("arguments", [("khong-co.csv",), ("lop.csv", "--year", "2026")])
def test_rosters_that_cannot_be_taken(roster: Path, arguments: tuple[str, ...]) -> None:
    file, *rest = arguments
    assert isinstance(run("school", "import", str(roster.with_name(file)), *rest).exception, BadRequest)


def test_lists(roster: Path) -> None:
    assert "Chưa có lớp nào" in run("school", "class").output
    run("school", "import", str(roster), "--year", "2026-2027", "--yes")
    assert "Nguyễn Văn An" in run("school", "people", "nguyen", "an").output
    assert "Không có ai" in run("school", "people", "--role", "teacher").output
    assert "6A" in run("school", "class", "--year", "2026-2027").output
    assert "Chưa có lớp" in run("school", "class", "--year", "2030-2031").output


def test_locking_and_unlocking(database: Database) -> None:
    run("school", "init")
    assert isinstance(run("school", "lock", "admin").exception, BadRequest)
    assert "Đã mở khóa" in run("school", "unlock", "admin").output
    assert audit.entries(database)[0].action == "person.unlock"
