"""The copy of the keys: private, only ever the newest, and never over keys that are in use."""

from pathlib import Path

import pytest

from deepedu.base.errors import BadRequest, KeyDestroyed, StoreError
from deepedu.store.keys_copy import restore_keys, write_keys
from deepedu.store.vault import KEY_FILE_NAME, KEYS_NAME, Vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    (tmp_path / "data").mkdir()
    return Vault(tmp_path / "data")


def test_a_lost_disk_is_no_lost_conversation(vault: Vault, tmp_path: Path) -> None:
    sealed, other = vault.seal("l1", "câu hỏi"), vault.seal("l2", "khác")
    vault.destroy("l2")
    write_keys(vault, tmp_path / "keys.tar")
    assert (tmp_path / "keys.tar").stat().st_mode & 0o077 == 0
    restore_keys(tmp_path / "keys.tar", tmp_path / "new")
    again = Vault(tmp_path / "new")
    assert again.open(sealed) == "câu hỏi"
    with pytest.raises(KeyDestroyed):
        again.open(other)


def test_the_newest_copy_takes_the_place_of_the_last(vault: Vault, tmp_path: Path) -> None:
    sealed = vault.seal("l1", "câu hỏi")
    write_keys(vault, tmp_path / "keys.tar")
    vault.destroy("l1")
    write_keys(vault, tmp_path / "keys.tar")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data", "keys.tar"]
    restore_keys(tmp_path / "keys.tar", tmp_path / "new")
    with pytest.raises(KeyDestroyed):
        Vault(tmp_path / "new").open(sealed)


def test_keys_in_use_are_never_overwritten(vault: Vault, tmp_path: Path) -> None:
    write_keys(vault, tmp_path / "keys.tar")
    before = (tmp_path / "data" / KEY_FILE_NAME).read_bytes()
    with pytest.raises(BadRequest, match="đã có khóa"):
        restore_keys(tmp_path / "keys.tar", tmp_path / "data")
    assert (tmp_path / "data" / KEY_FILE_NAME).read_bytes() == before


def test_not_into_the_folder_that_it_saves(vault: Vault, tmp_path: Path) -> None:
    for target in (tmp_path / "data" / "keys.tar", tmp_path):
        with pytest.raises(BadRequest, match="ngoài thư mục"):
            write_keys(vault, target)
    with pytest.raises(StoreError, match="không chép được"):
        write_keys(vault, tmp_path / "không-có" / "keys.tar")


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"\0" * 20_000])
def test_what_is_no_copy_of_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StoreError, match="x"):
        restore_keys(tmp_path / "x", tmp_path / "new")
    assert not (tmp_path / "new" / KEYS_NAME).exists()
