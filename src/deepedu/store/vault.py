"""Sealed text: unreadable without the school's key, and for good once its owner's own key is destroyed.

Every owner (a pupil's ``learner_id``) has a key of its own, wrapped by the school's key. The wrapped keys lie in a file
of their own, ``keys.sqlite3``, which no backup of the data holds: destroying one row there makes that pupil's text
unreadable in the database and in every backup, however old.

AES-256-GCM (NIST SP 800-38D) with random 96-bit nonces; the owner's name is authenticated with the text, so a text
moved to another owner does not open.
"""

import base64
import binascii
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
import sqlalchemy.exc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from deepedu.base.errors import KeyDestroyed, StoreError

KEYS_NAME = "keys.sqlite3"
KEY_FILE_NAME = "school.key"
# Whoever asks without an account: the terminal, the open page.
LOCAL = "local"
MARK = "sealed1"
_CHECK = "the school's key"
_NONCE_BYTES = 12
_INSERT_NEW = "INSERT OR IGNORE INTO keys VALUES (?, ?)"


class Vault:
    """Seals and opens texts. Safe to share between threads, and between processes on one data folder."""

    def __init__(self, data_dir: Path, key_file: Path | None = None) -> None:
        """Makes the school's key and the file of wrapped keys where neither is there.

        Raises:
            StoreError: the key file is missing, damaged, or not the one that the wrapped keys were made with.
        """
        self.path = data_dir / KEYS_NAME
        self._engine = sa.create_engine(f"sqlite:///{self.path}", poolclass=sa.NullPool, connect_args={"timeout": 30})
        self.key_file = (key_file or data_dir / KEY_FILE_NAME).expanduser()
        self._keys: dict[str, AESGCM] = {}
        self._read_at = 0
        self._lock = threading.Lock()
        self._master = AESGCM(_school_key(self.key_file, may_make=not self.path.exists()))
        with self._connected() as connection:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS keys (owner TEXT PRIMARY KEY, wrapped BLOB)")
            connection.exec_driver_sql(_INSERT_NEW, (_CHECK, self._wrap(_CHECK, bytes(32))))
        self._unwrapped(_CHECK)

    def seal(self, owner: str, text: str) -> str:
        """``text`` as only ``open`` can read it: ``sealed1:<owner>:<base64 of nonce and ciphertext>``.

        Raises:
            KeyDestroyed: the owner's key was destroyed.
        """
        nonce = os.urandom(_NONCE_BYTES)
        key = self._key(owner, may_make=True)
        sealed = nonce + key.encrypt(nonce, text.encode(), owner.encode())
        return f"{MARK}:{owner}:{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str) -> str:
        """The text that was sealed.

        Raises:
            KeyDestroyed: the owner's key was destroyed.
            StoreError: not a sealed text, or changed since.
        """
        mark, _, rest = sealed.partition(":")
        owner, _, body = rest.partition(":")
        if mark != MARK or not owner:
            raise StoreError(
                f"expected a sealed text, came {sealed[:20]!r}…: the database was changed by another program"
            )
        try:
            raw = base64.b64decode(body, validate=True)
            return (
                self._key(owner, may_make=False)
                .decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode())
                .decode()
            )
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise StoreError(
                f"a sealed text of {owner!r} was changed or damaged: restore the database from a backup"
            ) from error

    @staticmethod
    def owner_of(sealed: str) -> str:
        """Whose key a text was sealed with."""
        return sealed.split(":", 2)[1]

    def destroy(self, owner: str) -> bool:
        """Destroys an owner's key for good; nothing can be sealed for that owner again. False: there was none."""
        with self._lock, self._connected() as connection:
            self._keys.pop(owner, None)
            had = connection.exec_driver_sql(
                "SELECT 1 FROM keys WHERE owner = ? AND wrapped IS NOT NULL", (owner,)
            ).fetchone()
            connection.exec_driver_sql("INSERT OR REPLACE INTO keys VALUES (?, NULL)", (owner,))
        return had is not None

    def is_destroyed(self, owner: str) -> bool:
        """Whether the owner's key was destroyed."""
        with self._connected() as connection:
            row = connection.exec_driver_sql("SELECT wrapped FROM keys WHERE owner = ?", (owner,)).fetchone()
        return row is not None and row[0] is None

    def _key(self, owner: str, *, may_make: bool) -> AESGCM:
        with self._lock:
            # Another process may have destroyed a key since.
            changed = self.path.stat().st_mtime_ns
            if changed != self._read_at:
                self._keys.clear()
                self._read_at = changed
            key = self._keys.get(owner)
            if key is None:
                if may_make:
                    self._make(owner)
                key = self._keys[owner] = AESGCM(self._unwrapped(owner))
            return key

    def _make(self, owner: str) -> None:
        if ":" in owner or not owner:
            raise ValueError(f"expected an owner without colons, came {owner!r}")
        with self._connected() as connection:
            # Of two processes at once, one makes the key and both read it back.
            made = self._wrap(owner, secrets.token_bytes(32))
            connection.exec_driver_sql(_INSERT_NEW, (owner, made))

    def _wrap(self, owner: str, key: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._master.encrypt(nonce, key, owner.encode())

    def _unwrapped(self, owner: str) -> bytes:
        with self._connected() as connection:
            row = connection.exec_driver_sql("SELECT wrapped FROM keys WHERE owner = ?", (owner,)).fetchone()
        if row is None:
            raise StoreError(
                f"the key of {owner!r} is not in {self.path}: put the latest copy of {KEYS_NAME} back "
                "(see 'deepedu backup')"
            )
        if row[0] is None:
            raise KeyDestroyed(f"the data of {owner!r} were deleted and their key destroyed")
        try:
            return self._master.decrypt(row[0][:_NONCE_BYTES], row[0][_NONCE_BYTES:], owner.encode())
        except InvalidTag as error:
            raise StoreError(
                f"{self.key_file} is not the key that {self.path} was made with: put the school's own key file back, "
                "or name it with store.key_file"
            ) from error

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                # What is destroyed must not be left in the file.
                connection.exec_driver_sql("PRAGMA secure_delete = ON")
                yield connection
        except sqlalchemy.exc.DBAPIError as error:
            raise StoreError(f"cannot use {self.path}: {error.orig}; is it whole, and the disk not full?") from error


def _school_key(path: Path, *, may_make: bool) -> bytes:
    try:
        if may_make:
            _make_key_file(path)
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise StoreError(
            f"the school's key is missing: expected it in {path}. Put the copy that was kept apart back, or name it "
            "with store.key_file; without it what pupils asked cannot be read"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read the school's key in {path}: {error}") from error
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise StoreError(f"{path}: expected a key of 64 hex digits, came {len(text)} characters: is it the right file?")
    return key


def _make_key_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Linked into place whole: of two processes at once, one makes it and both read it.
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        finally:
            temporary.unlink()
    except FileExistsError:
        pass
