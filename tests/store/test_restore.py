"""Restoring: never a folder that is half one and half the other, and no key in two places or in none."""

import contextlib
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from data_folders import close, pairs, tree, write_pair

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, StoreBusy, StoreError
from deepedu.store import Database, restore
from deepedu.store.backup import write_backup
from deepedu.store.database import DATABASE_NAME
from deepedu.store.restore import restore_backup


def test_a_restored_folder_is_the_same_and_opens(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    done = restore_backup(report.path, tmp_path / "new" / "place")
    assert done.aside is None
    assert done.manifest == report.manifest
    for file in report.manifest.files:
        path = done.data_dir / file.path
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
        assert path.stat().st_mode & 0o777 == 0o600
    assert done.data_dir.stat().st_mode & 0o777 == 0o700
    reopened = Database(StoreSettings(data_dir=done.data_dir))
    reopened.close()
    assert pairs(done.data_dir / DATABASE_NAME) == {0: "ab"}


def test_replacing_sets_the_old_folder_aside_and_leaves_keys_in_use(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    write_pair(database, 1)
    (database.data_dir / "later.txt").write_text("new")
    key = (database.data_dir / "school.key").read_bytes()
    database.close()
    with pytest.raises(BadRequest, match="đã có dữ liệu"):
        restore_backup(report.path, database.data_dir)
    done = restore_backup(report.path, database.data_dir, replace=True)
    assert done.aside is not None
    assert pairs(done.aside / DATABASE_NAME) == {0: "ab", 1: "ab"}
    assert (done.aside / "later.txt").read_text() == "new"
    assert pairs(database.data_dir / DATABASE_NAME) == {0: "ab"}
    assert not (database.data_dir / "later.txt").exists()
    # Keys are where the server looks for them, and nowhere else.
    assert (database.data_dir / "school.key").read_bytes() == key
    assert {"keys.sqlite3", "school.key"} <= set(done.kept)
    assert [path.name for path in done.aside.rglob("*") if "key" in path.name] == []
    Database(StoreSettings(data_dir=database.data_dir)).close()


def test_keys_alone_are_no_data(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    (tmp_path / "machine").mkdir()
    for name in ("keys.sqlite3", "school.key", "own.txt"):
        (tmp_path / "machine" / name).write_bytes(name.encode())
    done = restore_backup(report.path, tmp_path / "machine", keep=["own.txt"])
    assert done.aside is None
    assert (tmp_path / "machine" / "own.txt").read_bytes() == b"own.txt"
    assert (tmp_path / "machine" / "school.key").read_bytes() == b"school.key"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "data", "machine"]


def test_a_folder_in_use_is_refused(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    before = tree(database.data_dir)
    with pytest.raises(StoreBusy, match="dừng máy chủ"):
        restore_backup(report.path, database.data_dir, replace=True)
    assert tree(database.data_dir) == before


def test_a_damaged_database_can_be_replaced(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    database.close()
    (database.data_dir / DATABASE_NAME).write_bytes(b"no database" * 1000)
    done = restore_backup(report.path, database.data_dir, replace=True)
    assert done.aside is not None
    assert (done.aside / DATABASE_NAME).read_bytes().startswith(b"no database")
    assert pairs(database.data_dir / DATABASE_NAME) == {0: "ab"}


def test_without_an_exchange_in_one_step_it_works_too(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    database.close()
    monkeypatch.setattr(restore, "_exchange", lambda *_: False)
    done = restore_backup(report.path, database.data_dir, replace=True)
    assert done.aside is not None
    assert (done.aside / DATABASE_NAME).exists()
    assert not (done.aside / "school.key").exists()
    assert (database.data_dir / "school.key").exists()


def test_a_swap_that_fails_leaves_the_old_folder(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    close(database)
    before = tree(database.data_dir)

    def refuse(*_: object) -> bool:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(restore, "_exchange", refuse)
    with pytest.raises(StoreError, match="không khôi phục được"):
        restore_backup(report.path, database.data_dir, replace=True)
    assert tree(database.data_dir) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "data"]


# Reads "folder limit" lines; restores into each folder in a process that kills itself before its limit-th change.
KILLED = """
    import os, signal, sys
    from pathlib import Path
    from deepedu.store import restore
    changing = {"os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "os.chown", "ctypes.call_function"}
    limit = count = 0
    def hook(event, args):
        global count
        is_write = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if event in changing or is_write:
            count += 1
            if count == limit:
                os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "0":
        restore._exchange = lambda *_: False
    for line in sys.stdin:
        folder, number = line.split()
        child = os.fork()
        if child == 0:
            limit = int(number)
            sys.addaudithook(hook)
            restore.restore_backup(Path(sys.argv[1]), Path(folder), replace=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextlib.contextmanager
def restorer(file: Path, *, exchanges: bool) -> Iterator[Callable[[Path, int], int]]:
    """Restores in processes that are killed; gives their exit status."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(file), str(int(exchanges))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        source, sink = process.stdout, process.stdin

        def restore(folder: Path, limit: int) -> int:
            sink.write(f"{folder} {limit}\n")
            sink.flush()
            return int(source.readline())

        yield restore


@pytest.mark.parametrize("exchanges", [True, False])
def test_killed_at_any_point_it_leaves_the_old_folder_or_the_new(
    database: Database, tmp_path: Path, exchanges: bool
) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    (database.data_dir / "later.txt").write_text("new")
    close(database)
    old = tree(database.data_dir)
    keys = {name: digest for name, digest in old.items() if "key" in name}
    new = {file.path: file.sha256 for file in report.manifest.files} | keys
    outcomes: list[str] = []
    with restorer(report.path, exchanges=exchanges) as restore:
        for limit in range(1, 200):
            folder = tmp_path / f"case{limit}" / "data"
            shutil.copytree(database.data_dir, folder)
            code = restore(folder, limit)
            if code == 0:
                assert tree(folder) == new
                outcomes.append("done")
                break
            assert code == -signal.SIGKILL
            found = tree(folder) if folder.exists() else None
            assert found in ((old, new) if exchanges else (old, new, None))
            outcomes.append("none" if found is None else "old" if found == old else "new")
            restore_backup(report.path, folder, replace=True)
            assert tree(folder) == new
            # Nothing that was there before is lost, no key is in two places, and no rubbish is left.
            beside = [path for path in folder.parent.iterdir() if path != folder]
            assert all(path.name.startswith("data.before-restore-") for path in beside)
            assert any((path / "later.txt").exists() for path in beside)
            assert [path for aside in beside for path in aside.rglob("*key*")] == []
    assert outcomes[0] == "old"
    assert outcomes[-1] == "done"
    assert "new" in outcomes
    # Where a file system cannot exchange folders there is one moment without any.
    assert outcomes.count("none") == (0 if exchanges else 1)


def test_a_key_that_is_not_in_use_is_never_deleted(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    database.close()
    # A restore was killed where folders cannot be exchanged, and a server then made a new folder with a new key.
    database.data_dir.rename(tmp_path / "data.before-restore-1")
    key = (tmp_path / "data.before-restore-1" / "school.key").read_bytes()
    Database(StoreSettings(data_dir=database.data_dir)).close()
    restore_backup(report.path, database.data_dir, replace=True)
    assert (tmp_path / "data.before-restore-1" / "school.key").read_bytes() == key


def test_a_disk_without_room_is_told_before_anything_is_written(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    monkeypatch.setattr(restore.shutil, "disk_usage", lambda _: restore.shutil._ntuple_diskusage(10, 10, 1000))
    with pytest.raises(StoreError, match="giải phóng"):
        restore_backup(report.path, tmp_path / "new")
    assert not (tmp_path / "new").exists()
