"""Sealed text opens with the school's key and the owner's, and never again once the owner's is destroyed."""

import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.config import StoreSettings
from deepedu.base.errors import KeyDestroyed, StoreError
from deepedu.store import Database
from deepedu.store.conversations import (
    conversations_of,
    delete_conversation,
    finish_turn,
    past_turns,
    start_turn,
    turn_for,
)
from deepedu.store.signals import failed_turns, keep_signal
from deepedu.store.vault import KEY_FILE_NAME, KEYS_NAME, Vault

SECRET = "Em tên là An, em ghét môn Toán"


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return Vault(tmp_path_factory.mktemp("vault"))


@given(st.text(), st.text(st.characters(exclude_characters=":", exclude_categories=("Cs",)), min_size=1, max_size=20))
def test_what_is_sealed_opens_again(vault: Vault, text: str, owner: str) -> None:
    text = text.encode(errors="ignore").decode()
    sealed = vault.seal(owner, text)
    assert vault.open(sealed) == text
    assert vault.owner_of(sealed) == owner
    assert vault.seal(owner, text) != sealed


def test_the_key_is_private_and_outlives_the_process(tmp_path: Path) -> None:
    sealed = Vault(tmp_path).seal("l1", SECRET)
    assert (tmp_path / KEY_FILE_NAME).stat().st_mode & 0o077 == 0
    assert Vault(tmp_path).open(sealed) == SECRET


def test_a_text_moved_to_another_owner_or_changed_does_not_open(vault: Vault) -> None:
    sealed = vault.seal("l1", SECRET)
    vault.seal("l2", "khác")
    for changed in (sealed.replace(":l1:", ":l2:"), sealed[:-6] + "AAAA==", "sealed1:l1:%%%", SECRET, ""):
        with pytest.raises(StoreError):
            vault.open(changed)


def test_destroyed_is_destroyed_for_every_copy_of_the_data(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    sealed, other = vault.seal("l1", SECRET), vault.seal("l2", SECRET)
    assert vault.destroy("l1")
    assert not vault.destroy("l1")
    for again in (vault, Vault(tmp_path)):
        with pytest.raises(KeyDestroyed):
            again.open(sealed)
        with pytest.raises(KeyDestroyed):
            again.seal("l1", "nữa")
        assert again.open(other) == SECRET
        assert again.is_destroyed("l1")
        assert not again.is_destroyed("l2")


def test_a_key_destroyed_by_another_process_is_gone_here_too(tmp_path: Path) -> None:
    here, there = Vault(tmp_path), Vault(tmp_path)
    sealed = here.seal("l1", SECRET)
    assert here.open(sealed) == SECRET
    there.destroy("l1")
    with pytest.raises(KeyDestroyed):
        here.open(sealed)
    with pytest.raises(KeyDestroyed):
        here.seal("l1", "nữa")


def test_the_wrapped_key_is_not_left_in_the_file(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    vault.seal("l1", SECRET)
    with vault._connected() as connection:
        (wrapped,) = connection.exec_driver_sql("SELECT wrapped FROM keys WHERE owner = 'l1'").one()
    assert wrapped in (tmp_path / KEYS_NAME).read_bytes()
    vault.destroy("l1")
    assert all(wrapped not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_without_its_key_file_nothing_is_made_anew(tmp_path: Path) -> None:
    Vault(tmp_path).seal("l1", SECRET)
    (tmp_path / KEY_FILE_NAME).rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="key is missing"):
        Vault(tmp_path)
    assert Vault(tmp_path, tmp_path / "elsewhere").seal("l1", "x")
    (tmp_path / "new").mkdir()
    Vault(tmp_path / "new")
    shutil.copy(tmp_path / "new" / KEY_FILE_NAME, tmp_path / KEY_FILE_NAME)
    with pytest.raises(StoreError, match="is not the key"):
        Vault(tmp_path)
    (tmp_path / KEY_FILE_NAME).write_text("không phải khóa")
    with pytest.raises(StoreError):
        Vault(tmp_path)


def test_two_at_once_use_one_key(tmp_path: Path) -> None:
    vaults = [Vault(tmp_path) for _ in range(4)]
    sealed: list[str] = []
    threads = [threading.Thread(target=lambda v=v: sealed.append(v.seal("l1", SECRET))) for v in vaults]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [Vault(tmp_path).open(each) for each in sealed] == [SECRET] * 4


@pytest.fixture
def database(tmp_path: Path):
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    yield database
    database.close()


def kept_bytes(database: Database) -> bytes:
    return b"".join(file.read_bytes() for file in database.data_dir.glob("deepedu.sqlite3*"))


def test_no_word_of_a_conversation_lies_open_in_the_file(database: Database) -> None:
    conversation, turn = start_turn(database, SECRET, {}, None, owner="l1")
    finish_turn(database, turn, "done", draft="Bản nháp bí mật", answer={"text": "Lời đáp bí mật"}, error="lỗi bí mật")
    keep_signal(database, turn, "wrong", detail="ý kiến bí mật")
    raw = kept_bytes(database)
    for word in (SECRET, "bí mật", "b\\u00ed m\\u1eadt"):
        assert word.encode() not in raw
    assert past_turns(database, conversation, owner="l1")[0].answer == {"text": "Lời đáp bí mật"}
    assert failed_turns(database)[0].signals == (("wrong", "ý kiến bí mật"),)


def test_conversations_belong_to_their_owner(database: Database) -> None:
    first, turn = start_turn(database, "một", {"grade": 6}, None, owner="l1")
    second, _ = start_turn(database, "hai", {}, None, owner="l1")
    start_turn(database, "của người khác", {}, None, owner="l2")
    start_turn(database, "ba", {}, first, owner="l1")
    assert [(c.id, c.title, c.turns) for c in conversations_of(database, "l1")] == [
        (first, "một", 2),
        (second, "hai", 1),
    ]
    for owner in ("l2", None):
        with pytest.raises(StoreError, match="Không có cuộc"):
            past_turns(database, first, owner=owner)
        with pytest.raises(StoreError, match="Không có cuộc"):
            start_turn(database, "chen vào", {}, first, owner=owner)
        with pytest.raises(StoreError, match="Không có cuộc"):
            delete_conversation(database, first, owner=owner)
        with pytest.raises(StoreError, match="Không có câu hỏi"):
            turn_for(database, turn, owner=owner)
    delete_conversation(database, first, owner="l1")
    assert [c.id for c in conversations_of(database, "l1")] == [second]
    assert "một".encode() not in kept_bytes(database)


def test_what_a_destroyed_key_sealed_is_in_no_list(database: Database) -> None:
    _, turn = start_turn(database, "một", {}, None, owner="l1")
    finish_turn(database, turn, "done", draft="", answer={"text": "x"})
    keep_signal(database, turn, "wrong", detail="sai")
    database.vault.destroy("l1")
    assert conversations_of(database, "l1") == []
    assert failed_turns(database) == ()


def test_old_plain_rows_are_sealed_at_the_next_start(database: Database) -> None:
    conversation, turn = start_turn(database, "câu hỏi cũ", {}, None)
    finish_turn(database, turn, "done", draft="nháp", answer={"text": "đáp"}, error="lỗi")
    keep_signal(database, turn, "wrong", detail="sai")
    with database.write() as session:
        connection = session.connection()
        connection.exec_driver_sql(
            "UPDATE turns SET question = 'câu hỏi cũ', draft = 'nháp', error = 'lỗi', answer = '{\"text\": \"đáp\"}'"
        )
        connection.exec_driver_sql("UPDATE turn_signals SET detail = 'sai'")
    again = Database(StoreSettings(data_dir=database.data_dir))
    past = past_turns(again, conversation)[0]
    assert (past.question, past.draft, past.answer, past.error) == ("câu hỏi cũ", "nháp", {"text": "đáp"}, "lỗi")
    assert failed_turns(again)[0].signals == (("wrong", "sai"),)
    again.close()
    assert "câu hỏi cũ".encode() not in kept_bytes(database)
