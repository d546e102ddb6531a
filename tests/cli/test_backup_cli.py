"""`deepedu backup` and `deepedu restore`: one command each, keys apart, and deleted people stay deleted."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, DeepEduError
from deepedu.cli.main import cli
from deepedu.school.accounts import account_of, create_person
from deepedu.school.erasure import erase
from deepedu.store import Database
from deepedu.store.conversations import conversations_of, start_turn
from deepedu.store.tables import Person
from deepedu.store.vault import KEYS_NAME


def run(data: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--data", str(data), *arguments])
    if isinstance(result.exception, DeepEduError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    with database.write() as session:
        for name in ("an", "binh"):
            person = create_person(session, "student", name, f"Em {name}")
            assert person.learner_id
    with database.read() as session:
        for person in session.scalars(sa.select(Person)).all():
            start_turn(database, f"câu hỏi của {person.username}", {}, None, owner=person.learner_id)
    database.close()
    return tmp_path / "data"


def titles(data: Path) -> dict[str, list[str]]:
    database = Database(StoreSettings(data_dir=data))
    with database.read() as session:
        people = [account_of(person) for person in session.scalars(sa.select(Person))]
    found = {each.username: [c.title for c in conversations_of(database, each.owner)] for each in people}
    database.close()
    return found


EVERYTHING = {"an": ["câu hỏi của an"], "binh": ["câu hỏi của binh"]}


def test_a_lost_disk_comes_back_with_backup_and_keys(data: Path, tmp_path: Path) -> None:
    told = run(data, "backup", str(tmp_path / "b.tar.gz"), "--keys", str(tmp_path / "usb.keys")).output
    assert "cất riêng" in told
    assert "at" in json.loads((data / "last-backup.json").read_text())
    assert "lành" in run(data, "restore", str(tmp_path / "b.tar.gz"), "--check").output
    run(tmp_path / "new", "restore", str(tmp_path / "b.tar.gz"), "--keys", str(tmp_path / "usb.keys"))
    assert titles(tmp_path / "new") == EVERYTHING


def test_who_was_deleted_after_the_backup_stays_deleted(data: Path, tmp_path: Path) -> None:
    run(data, "backup", str(tmp_path / "b.tar.gz"))
    database = Database(StoreSettings(data_dir=data))
    with database.read() as session:
        public_id = session.scalar(sa.select(Person.public_id).where(Person.username == "an"))
    assert public_id
    erase(database, public_id, reason="withdrawn", by="cli")
    database.close()
    assert titles(data) == {"binh": EVERYTHING["binh"]}
    told = run(data, "restore", str(tmp_path / "b.tar.gz"), "--replace").output
    assert "xóa lại dữ liệu của 1 người" in told
    assert titles(data) == {"binh": EVERYTHING["binh"]}


def test_the_keys_are_in_no_backup_and_are_not_overwritten(data: Path, tmp_path: Path) -> None:
    run(data, "backup", str(tmp_path / "b.tar.gz"), "--keys", str(tmp_path / "usb.keys"))
    before = (data / KEYS_NAME).read_bytes()
    with pytest.raises(BadRequest, match="đã có dữ liệu"):
        run(data, "restore", str(tmp_path / "b.tar.gz"))
    with pytest.raises(BadRequest, match="đã có khóa"):
        run(data, "restore", str(tmp_path / "b.tar.gz"), "--replace", "--keys", str(tmp_path / "usb.keys"))
    assert (data / KEYS_NAME).read_bytes() == before
    # Refused before anything was set aside.
    assert not list(tmp_path.glob("data.*"))
