"""The copy of the keys, kept apart from the backups: without it a lost disk means lost conversations.

There is only ever the newest copy, because every older one could still read what was deleted since.
"""

import os
import secrets
import sqlite3
import tarfile
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path

from deepedu.base.errors import BadRequest, StoreError
from deepedu.store.vault import KEY_FILE_NAME, KEYS_NAME, Vault

_MOST_BYTES = 1 << 30


def write_keys(vault: Vault, target: Path) -> None:
    """Copies the school's key and the wrapped keys into one file for its owner alone, in place of the last copy.

    Raises:
        BadRequest: ``target`` is a folder, or lies in the data folder, where it would be lost together with the keys.
        StoreError: it cannot be written.
    """
    target = target.expanduser().absolute()
    if target.is_dir() or target.is_relative_to(vault.path.parent.absolute()):
        raise BadRequest(f"{target}: hãy ghi tên một tệp ngoài thư mục dữ liệu, tốt nhất là trên một USB cất riêng")
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with closing(sqlite3.connect(vault.path, timeout=30)) as source, closing(sqlite3.connect(":memory:")) as copy:
            source.backup(copy)
            members = {KEYS_NAME: copy.serialize(), KEY_FILE_NAME: vault.key_file.read_bytes()}
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                for name, content in members.items():
                    member = tarfile.TarInfo(name)
                    member.size, member.mode = len(content), 0o600
                    archive.addfile(member, BytesIO(content))
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"không chép được khóa vào {target}: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def refuse_keys(data_dir: Path) -> None:
    """Raises: BadRequest: the folder has keys."""
    present = [name for name in (KEYS_NAME, KEY_FILE_NAME) if (data_dir / name).exists()]
    if present:
        raise BadRequest(f"{data_dir} đã có khóa ({', '.join(present)}): hãy bỏ --keys, khóa đang có vẫn được dùng")


def restore_keys(file: Path, data_dir: Path) -> None:
    """Puts the keys of a copy into a data folder that has none.

    Raises:
        BadRequest: the folder has keys already: they may be newer, and are never overwritten.
        StoreError: the file cannot be read, or is no copy of keys.
    """
    data_dir = data_dir.expanduser()
    refuse_keys(data_dir)
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                reader = archive.extractfile(member) if member.isreg() and member.size <= _MOST_BYTES else None
                if member.name in (KEYS_NAME, KEY_FILE_NAME) and reader is not None:
                    contents[member.name] = reader.read()
    except (OSError, tarfile.TarError) as error:
        raise StoreError(f"không đọc được bản chép khóa {file}: {error}") from error
    if set(contents) != {KEYS_NAME, KEY_FILE_NAME}:
        raise StoreError(f"{file} không phải bản chép khóa: cần tệp do 'deepedu backup … --keys TỆP' ghi ra")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in contents.items():
        with os.fdopen(os.open(data_dir / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            written.write(content)
