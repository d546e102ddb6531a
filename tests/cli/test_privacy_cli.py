"""``deepedu privacy``: handing out, erasing, deleting what is old, verifying the log."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from deepedu.base.config import load_settings
from deepedu.base.errors import BadRequest, NotFound, StoreError
from deepedu.cli.main import cli
from deepedu.school.accounts import Account, account_of, create_person
from deepedu.school.audit import entries, log
from deepedu.school.directory import person_of
from deepedu.store import Database
from deepedu.store.conversations import start_turn
from deepedu.store.tables import AuditEntry


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["privacy", *arguments], input=typed, env={"COLUMNS": "200"})


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database(load_settings().settings.store)
    yield database
    database.close()


@pytest.fixture
def pupil(database: Database) -> Account:
    with database.write() as session:
        pupil = account_of(create_person(session, "student", "an", "Nguyễn Khuê An", code="HS01"))
    start_turn(database, "Nước sôi ở bao nhiêu độ?", {}, None, owner=pupil.owner)
    return pupil


def test_a_file_is_written_whole_and_for_its_owner_only(database: Database, pupil: Account, tmp_path: Path) -> None:
    target = tmp_path / "an.zip"
    result = run("export", "HS01", "--out", str(target))
    assert result.exit_code == 0, result.output
    assert "Nước sôi" in zipfile.ZipFile(target).read("conversations/00001.json").decode()
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.glob("an*")] == ["an.zip"]
    newest = entries(database, limit=1)[0]
    assert (newest.actor, newest.action, newest.subject) == ("cli", "person.export", pupil.public_id)
    assert isinstance(run("export", "an", "--out", str(target)).exception, BadRequest)
    assert isinstance(run("export", "an", "--out", str(tmp_path / "no" / "x.zip")).exception, StoreError)
    assert isinstance(run("export", "ai-do").exception, NotFound)


def test_erasing_asks_for_the_username(database: Database, pupil: Account, tmp_path: Path) -> None:
    refused = run("erase", "an", "--reason", "left", typed="binh\n")
    assert isinstance(refused.exception, BadRequest)
    assert not database.vault.is_destroyed(pupil.owner)
    certificate = tmp_path / "certificate.json"
    done = run("erase", "an", "--reason", "left", "--certificate", str(certificate), typed="an\n")
    assert done.exit_code == 0, done.output
    assert "turns: 1" in done.output
    told = json.loads(certificate.read_text(encoding="utf-8"))
    assert (told["person"], told["by"], told["reason"]) == (pupil.public_id, "cli", "left")
    assert told["digest"] in done.output
    with pytest.raises(NotFound), database.read() as session:
        person_of(session, pupil.public_id)


def test_erasing_again_by_public_id_finishes(pupil: Account) -> None:
    first = run("erase", pupil.public_id, "--reason", "request", "--yes")
    again = run("erase", pupil.public_id, "--reason", "request")
    assert (again.exit_code, again.output.splitlines()[-1]) == (0, first.output.splitlines()[-1])
    assert isinstance(run("erase", "ai-do", "--reason", "left").exception, NotFound)
    assert run("erase", "an", "--reason", "restored").exit_code == 2


def test_old_data_are_deleted(database: Database, pupil: Account) -> None:
    assert "Không có gì quá hạn." in run("retention").output
    database.vault.destroy(pupil.owner)
    assert "erasures_finished: 1" in run("retention").output
    assert entries(database, limit=1)[0].actor == "cli"


def test_the_log_is_verified(database: Database) -> None:
    for number in range(3):
        log(database, "system", "test", "school", str(number))
    assert "3 mục" in run("verify-audit").output
    with database.write() as session:
        session.execute(sa.update(AuditEntry).where(AuditEntry.number == 2).values(detail="x"))
    assert isinstance(run("verify-audit").exception, StoreError)
