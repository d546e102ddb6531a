"""The file of everything that is kept about a person: complete, readable, and without other people's data."""

import io
import json
import re
import zipfile
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
import sqlalchemy as sa
from kept_people import AN, BINH, KeptPeople

from deepedu.base.errors import NotFound
from deepedu.school.audit import log
from deepedu.school.classes import revoke
from deepedu.school.consent import withdraw_consent
from deepedu.school.erasure import erase
from deepedu.school.personal_file import file_name, personal_file, write_personal_file
from deepedu.school.personal_records import FILES
from deepedu.store.conversations import start_turn
from deepedu.store.tables import Conversation


def file_of(kept: KeptPeople, username: str, **choices: Any) -> zipfile.ZipFile:
    target = io.BytesIO()
    write_personal_file(kept.database, kept[username], target, **choices)
    archive = zipfile.ZipFile(target)
    assert archive.testzip() is None
    return archive


def text_of(archive: zipfile.ZipFile) -> str:
    return "\n".join(archive.read(name).decode() for name in archive.namelist())


def read(archive: zipfile.ZipFile, name: str) -> Any:
    return json.loads(archive.read(name))


def test_a_pupil_gets_everything(kept: KeptPeople) -> None:
    archive = file_of(kept, "an")
    for kind in ("hỏi gì", "nháp", "trả lời", "sửa", "gợi ý", "cờ", "bài làm", "chọn"):
        assert f"{AN} {kind}" in text_of(archive), kind
    account = read(archive, "account.json")
    assert account["full_name"] == kept["an"].full_name
    assert account["birth_date"] == "2014-05-01"
    assert "password_hash" not in account
    assert read(archive, "classes.json")[0]["teachers"] == [kept["lan"].full_name]
    assert read(archive, "guardians.json")[0]["full_name"] == kept["me.an"].full_name
    assert read(archive, "consents.json")[0]["guardian_name"] == f"Người giám hộ {AN}"
    assert len(read(archive, "sign_ins.json")["browsers"]) == len(read(archive, "sign_ins.json")["api_keys"]) == 1
    (turn,) = read(archive, "conversations/00001.json")["turns"]
    assert turn["question"] == f"{AN} hỏi gì"
    assert turn["feedback"][0]["by"] == kept["lan"].full_name
    assert read(archive, "audit.json")[0]["by"] == "quản trị"


def test_names_in_the_file_are_fixed(kept: KeptPeople) -> None:
    names = ["README.txt", *FILES, "conversations/00001.json", "conversations/00001.html", "index.html"]
    archive = file_of(kept, "an", at=datetime(2026, 11, 30, tzinfo=UTC))
    assert archive.namelist() == names
    again = file_of(kept, "an", at=datetime(2026, 11, 30, tzinfo=UTC))
    assert {each.filename: each.CRC for each in archive.infolist()} == {
        each.filename: each.CRC for each in again.infolist()
    }
    called = file_name(kept["an"], datetime(2026, 11, 30, 12, tzinfo=UTC))
    assert called == f"deepedu-{kept['an'].public_id}-20261130.zip"


@pytest.mark.parametrize("username", ["an", "lan", "me.an", "admin"])
def test_nobody_elses_data_are_in_it(kept: KeptPeople, username: str) -> None:
    for other in kept.people.values():
        log(kept.database, kept[username].public_id, "person.view", other.public_id, f"with {kept['binh'].public_id}")
    text = text_of(file_of(kept, username))
    assert BINH not in text
    assert kept["binh"].full_name not in text
    for other in kept.people.values():
        if other.username != username:
            assert other.public_id not in text, other.username
    if username != "an":
        assert AN not in text.replace(f"Người giám hộ {AN}", "")


def test_a_guardian_gets_no_conversations_unless_the_school_opens_them(kept: KeptPeople) -> None:
    log(kept.database, kept["lan"].public_id, "flag.seen", kept["an"].public_id, "nội dung cờ")
    closed = file_of(kept, "an", for_guardian=True, transcripts=False)
    told = text_of(closed)
    for kind in ("hỏi gì", "trả lời", "gợi ý", "cờ", "sửa"):
        assert f"{AN} {kind}" not in told, kind
    assert f"{AN} bài làm" in told
    assert not [name for name in closed.namelist() if name.startswith(("conversations", "ladders", "flags"))]
    assert "không mở cuộc trò chuyện" in closed.read("README.txt").decode()
    opened = file_of(kept, "an", for_guardian=True)
    assert f"{AN} hỏi gì" in text_of(opened)
    for archive in (closed, opened):
        assert f"{AN} cờ" not in text_of(archive)
        assert "flag.seen" not in text_of(archive)
    assert "flag.seen" in text_of(file_of(kept, "an"))


def test_a_revoked_guardian_is_not_named(kept: KeptPeople) -> None:
    with kept.database.write() as session:
        revoke(session, kept["me.an"].id, kept["an"].id)
    (past,) = read(file_of(kept, "an"), "guardians.json")
    assert past["full_name"] is None
    assert past["revoked_at"] is not None
    (child,) = read(file_of(kept, "me.an"), "guardians.json")
    assert child["full_name"] is None


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_pages_are_readable_and_harmless(kept: KeptPeople) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    start_turn(kept.database, attack, {}, None, owner=kept["an"].owner)
    archive = file_of(kept, "an")
    pages = [name for name in archive.namelist() if name.endswith(".html")]
    assert len(pages) == 3
    for name in pages:
        page = archive.read(name).decode()
        found = _Tags()
        found.feed(page)
        assert not {"script", "img", "iframe", "link"} & set(found.tags), name
        assert not [link for link in found.links if re.match(r"\w+:|//", link)], name
    assert "&lt;script&gt;" in archive.read("conversations/00002.html").decode()
    assert kept["an"].full_name in archive.read("index.html").decode()
    assert "hãy cất" in archive.read("README.txt").decode()


def test_it_comes_in_pieces(kept: KeptPeople) -> None:
    with kept.database.write() as session:
        for _ in range(30):
            session.add(Conversation(owner=kept["an"].owner, scope={}))
    pieces = list(personal_file(kept.database, kept["an"]))
    assert len(pieces) > 30
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 2


def test_a_conversation_that_goes_meanwhile_is_left_out(kept: KeptPeople) -> None:
    pieces = personal_file(kept.database, kept["an"])
    with kept.database.write() as session:
        session.execute(sa.delete(Conversation))
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert not [name for name in archive.namelist() if name.startswith("conversations/")]


def test_what_a_destroyed_key_sealed_is_empty(kept: KeptPeople) -> None:
    kept.database.vault.destroy(kept["an"].owner)
    archive = file_of(kept, "an")
    assert read(archive, "conversations/00001.json")["turns"][0]["question"] is None
    assert AN not in text_of(archive).replace(f"Người giám hộ {AN}", "").replace(f"khóa {AN}", "")


def test_who_was_erased_has_no_file(kept: KeptPeople) -> None:
    withdraw_consent(kept.database, kept["an"], by=kept["me.an"])
    erase(kept.database, kept["an"].public_id, reason="withdrawn", by=kept["admin"])
    with pytest.raises(NotFound):
        personal_file(kept.database, kept["an"])
