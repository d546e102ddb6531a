"""Backup and restore: whole or not at all, without keys, and never a folder that is half one and half the other."""

import contextlib
import errno
import gzip
import hashlib
import io
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, DeepEduError, StoreBusy, StoreError, Unsupported
from deepedu.store import Database, backup
from deepedu.store.backup import (
    MIGRATION_COPIES,
    backup_before_migration,
    check_backup,
    restore_backup,
    write_backup,
)
from deepedu.store.database import DATABASE_NAME


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A data folder with a document, a note, and what must never be in a backup."""
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    (database.documents_dir / "ab.pdf").write_bytes(b"%PDF-1.7 " + bytes(range(256)) * 40)
    (database.documents_dir / ".ab.1.part").write_bytes(b"half")
    (database.data_dir / "learn").mkdir()
    (database.data_dir / "learn" / "Bài 1.jsonl").write_text("{}\n", encoding="utf-8")
    for name in ("keys.sqlite3", "keys.sqlite3-journal", "school.key", "school.key.0011aabb"):
        with (database.data_dir / name).open("ab") as file:
            file.write(b"" if name in ("keys.sqlite3", "school.key") else b"secret")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE pairs (number INTEGER, side TEXT)")
    write_pair(database, 0)
    yield database
    database.close()


def write_pair(database: Database, number: int) -> None:
    with database.write() as session:
        for side in "ab":
            session.execute(sa.text("INSERT INTO pairs VALUES (:number, :side)"), {"number": number, "side": side})


def pairs(file: Path) -> dict[int, str]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT number, group_concat(side, '') FROM pairs GROUP BY number").fetchall()
    return dict(rows)


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {m.name: source.read() for m in archive if (source := archive.extractfile(m))}


def tree(folder: Path) -> dict[str, str]:
    """Digests of all files of a folder, without those that SQLite makes and removes as it likes."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def close(database: Database) -> None:
    """Closes it for good: all of it in the one file, as a restore leaves what it sets aside."""
    database.close()
    with contextlib.closing(sqlite3.connect(database.data_dir / DATABASE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def forged(target: Path, entries: list[tuple[tarfile.TarInfo, bytes]], *, manifest: bytes | None) -> Path:
    """A backup that was not made by us."""
    with tarfile.open(target, "w:gz") as archive:
        for member, content in entries:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if manifest is not None:
            member = tarfile.TarInfo("manifest.json")
            member.size = len(manifest)
            archive.addfile(member, io.BytesIO(manifest))
    return target


# --- Writing ---------------------------------------------------------------------------------------------------------


def test_a_backup_holds_everything_but_keys(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz", exclude=["*.log"])
    held = members(report.path)
    assert sorted(held) == [DATABASE_NAME, "documents/ab.pdf", "learn/Bài 1.jsonl", "manifest.json"]
    assert held["documents/ab.pdf"] == (database.documents_dir / "ab.pdf").read_bytes()
    keys = {"keys.sqlite3", "keys.sqlite3-journal", "school.key", "school.key.0011aabb"}
    assert keys <= set(report.left_out)
    assert check_backup(report.path) == report.manifest
    assert report.bytes == report.path.stat().st_size
    assert report.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_key_file_is_left_out_under_any_name(tmp_path: Path) -> None:
    database = Database(StoreSettings(data_dir=tmp_path / "data", key_file=tmp_path / "data" / "truong.txt"))
    (database.documents_dir / "TRUONG.TXT").write_bytes(b"copied by hand")
    (database.documents_dir / "Keys.sqlite3.bak").write_bytes(b"copied by hand")
    report = write_backup(database, tmp_path / "b.tar.gz")
    database.close()
    assert sorted(members(report.path)) == [DATABASE_NAME, "manifest.json"]
    secret = (tmp_path / "data" / "truong.txt").read_bytes().strip()
    assert secret not in gzip.decompress(report.path.read_bytes())


def test_a_backup_among_writers_is_of_one_moment(database: Database, tmp_path: Path) -> None:
    stop = threading.Event()
    written = [0]
    failures: list[BaseException] = []

    def keep_writing() -> None:
        try:
            while not stop.is_set():
                written[0] += 1
                write_pair(database, written[0])
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        seen: list[dict[int, str]] = []
        while written[0] < 3:
            time.sleep(0.001)
        for turn in range(4):
            before = written[0]
            report = write_backup(database, tmp_path / f"{turn}.tar.gz")
            restore_backup(report.path, tmp_path / f"copy{turn}")
            seen.append(pairs(tmp_path / f"copy{turn}" / DATABASE_NAME))
            assert max(seen[-1]) >= before - 1
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert all(sides in ("ab", "ba") for state in seen for sides in state.values())
    assert len(seen[-1]) > len(seen[0]) > 1


def test_deleted_text_is_not_in_the_backup(database: Database, tmp_path: Path) -> None:
    with database.write() as session:
        session.execute(sa.text("INSERT INTO pairs VALUES (7, 'Nguyễn Văn Bí Mật')"))
    with database.write() as session:
        session.execute(sa.text("DELETE FROM pairs WHERE number = 7"))
    write_backup(database, tmp_path / "b.tar.gz")
    assert "Bí Mật".encode() not in members(tmp_path / "b.tar.gz")[DATABASE_NAME]


def test_links_and_special_files_are_told_not_followed(database: Database, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (database.data_dir / "file-link").symlink_to(tmp_path / "outside" / "secret")
    (database.data_dir / "folder-link").symlink_to(tmp_path / "outside")
    (database.data_dir / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(database.data_dir / "pipe")
    report = write_backup(database, tmp_path / "b.tar.gz")
    assert {"file-link", "folder-link", "dangling", "pipe"} <= set(report.left_out)
    assert {file.path for file in report.manifest.files} == {DATABASE_NAME, "documents/ab.pdf", "learn/Bài 1.jsonl"}


def test_documents_on_another_disk_are_held(database: Database, tmp_path: Path) -> None:
    database.documents_dir.rename(tmp_path / "disk")
    database.documents_dir.symlink_to(tmp_path / "disk")
    report = write_backup(database, tmp_path / "b.tar.gz")
    assert "documents/ab.pdf" in {file.path for file in report.manifest.files}


def test_a_database_at_another_place_is_held_under_the_usual_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data' / 'other.db'}"
    database = Database(StoreSettings(data_dir=tmp_path / "data", url=url))
    (tmp_path / "data" / DATABASE_NAME).write_bytes(b"stale")
    report = write_backup(database, tmp_path / "b.tar.gz")
    database.close()
    assert [file.path for file in report.manifest.files] == [DATABASE_NAME]
    assert report.left_out.count(DATABASE_NAME) == 1
    assert members(report.path)[DATABASE_NAME].startswith(b"SQLite format 3")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("data/b.tar.gz", "nằm trong thư mục dữ liệu"),
        ("data/documents/b.tar.gz", "nằm trong thư mục dữ liệu"),
        ("data", "là thư mục"),
        ("nowhere/b.tar.gz", "không có thư mục"),
        ("taken.tar.gz", "đã có"),
    ],
)
def test_targets_that_cannot_be(database: Database, tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "taken.tar.gz").write_bytes(b"of somebody")
    with pytest.raises(BadRequest, match=message):
        write_backup(database, tmp_path / target)
    assert (tmp_path / "taken.tar.gz").read_bytes() == b"of somebody"
    write_backup(database, tmp_path / "taken.tar.gz", replace=True)
    check_backup(tmp_path / "taken.tar.gz")


def test_a_read_only_target_is_told(database: Database) -> None:
    with pytest.raises(StoreError, match="không sao lưu được vào /proc/self/"):
        write_backup(database, Path("/proc/self/b.tar.gz"))


def test_a_full_disk_leaves_the_earlier_backup(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "b.tar.gz"
    write_backup(database, target)
    earlier = target.read_bytes()
    create = backup._create_file

    class SmallDisk(io.FileIO):
        def write(self, content: object) -> int:
            if self.tell() > 4096:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(content)  # pyright: ignore[reportArgumentType]

    def create_small(path: Path) -> object:
        create(path).close()
        return SmallDisk(path, "r+")

    monkeypatch.setattr(backup, "_create_file", create_small)
    (database.documents_dir / "big.pdf").write_bytes(os.urandom(1 << 20))
    with pytest.raises(StoreError, match="đã đầy"):
        write_backup(database, target, replace=True)
    assert target.read_bytes() == earlier
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "data"]


def test_a_full_disk_while_the_database_is_copied(tmp_path: Path) -> None:
    program = f"""
        import resource
        from pathlib import Path
        from deepedu.base.config import StoreSettings
        from deepedu.base.errors import StoreError
        from deepedu.store import Database
        from deepedu.store.backup import write_backup
        database = Database(StoreSettings(data_dir=Path({str(tmp_path / "data")!r})))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            write_backup(database, Path({str(tmp_path / "b.tar.gz")!r}))
        except StoreError as error:
            assert "không sao lưu được" in str(error), error
        else:
            raise AssertionError
    """
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] in (resource.RLIM_INFINITY, -1)
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_killed_backup_left_is_deleted_by_the_next(database: Database, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f".deepedu-backup.{dead.pid}.sqlite3"
    left.write_bytes(b"pupils' data")
    living = tmp_path / f".deepedu-backup.{os.getppid()}.sqlite3"
    living.write_bytes(b"of a backup at work")
    write_backup(database, tmp_path / "b.tar.gz")
    assert not left.exists()
    assert living.exists()


def test_a_file_that_changes_meanwhile(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = database.data_dir / "embed.log"
    log.write_bytes(b"x" * 100_000)
    member = backup._member

    def change(name: str, size_bytes: int, changed: float) -> tarfile.TarInfo:
        if name == "embed.log":
            os.truncate(log, new_size)
        return member(name, size_bytes, changed)

    monkeypatch.setattr(backup, "_member", change)
    new_size = 200_000
    report = write_backup(database, tmp_path / "grown.tar.gz")
    assert {file.path: file.bytes for file in report.manifest.files}["embed.log"] == 100_000
    check_backup(report.path)
    new_size = 10
    with pytest.raises(StoreError, match=r"embed\.log bị cắt ngắn"):
        write_backup(database, tmp_path / "shrunk.tar.gz")
    assert not (tmp_path / "shrunk.tar.gz").exists()


def test_postgresql_is_refused_with_the_way_to_do_it(database: Database, tmp_path: Path) -> None:
    class Elsewhere:
        engine = sa.create_mock_engine("postgresql://", lambda *_: None)
        documents_dir = database.documents_dir

    with pytest.raises(Unsupported, match="pg_dump"):
        write_backup(Elsewhere(), tmp_path / "b.tar.gz")  # pyright: ignore[reportArgumentType]


def test_fifty_megabytes_take_seconds(database: Database, tmp_path: Path) -> None:
    with database.write() as session:
        session.execute(sa.text("CREATE TABLE filler (content BLOB)"))
        for _ in range(25):
            session.execute(sa.text("INSERT INTO filler VALUES (:content)"), {"content": os.urandom(1 << 20)})
    for index in range(25):
        (database.documents_dir / f"{index}.pdf").write_bytes(os.urandom(1 << 20))
    started = time.monotonic()
    report = write_backup(database, tmp_path / "b.tar.gz")
    assert report.manifest.content_bytes > 50e6
    restore_backup(report.path, tmp_path / "restored")
    # Seconds on a laptop; the limit is for a busy machine.
    assert time.monotonic() - started < 60


# --- Restoring -------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(backup, "_exchange", lambda *_: False)
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

    monkeypatch.setattr(backup, "_exchange", refuse)
    with pytest.raises(StoreError, match="không khôi phục được"):
        restore_backup(report.path, database.data_dir, replace=True)
    assert tree(database.data_dir) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "data"]


# Reads "folder limit" lines; restores into each folder in a process that kills itself before its limit-th change.
KILLED = """
    import os, signal, sys
    from pathlib import Path
    from deepedu.store import backup
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
        backup._exchange = lambda *_: False
    for line in sys.stdin:
        folder, number = line.split()
        child = os.fork()
        if child == 0:
            limit = int(number)
            sys.addaudithook(hook)
            backup.restore_backup(Path(sys.argv[1]), Path(folder), replace=True)
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


# --- Backups that are not as they should be --------------------------------------------------------------------------


def test_a_backup_of_a_newer_program_is_refused(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    write_backup(database, tmp_path / "schema.tar.gz")
    with pytest.raises(StoreError, match="mới hơn"):
        restore_backup(tmp_path / "schema.tar.gz", tmp_path / "new")
    monkeypatch.setattr(backup, "FORMAT", 2)
    write_backup(database, tmp_path / "format.tar.gz")
    monkeypatch.undo()
    with pytest.raises(StoreError, match="cập nhật DeepEdu"):
        check_backup(tmp_path / "format.tar.gz")
    assert not (tmp_path / "new").exists()


def test_a_cut_backup_is_refused_wherever_it_was_cut(database: Database, tmp_path: Path) -> None:
    whole = write_backup(database, tmp_path / "b.tar.gz").path.read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for end in [0, 1, 10, *range(1000, len(whole), len(whole) // 12), len(whole) - 1]:
        cut.write_bytes(whole[:end])
        with pytest.raises(StoreError, match=r"hỏng hoặc bị cắt cụt|cut\.tar\.gz"):
            check_backup(cut)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_flipped_bit_passes(database: Database, tmp_path: Path, data: st.DataObject) -> None:
    source = tmp_path / "b.tar.gz"
    if not source.exists():
        write_backup(database, source)
    compressed = data.draw(st.booleans())
    content = bytearray(source.read_bytes() if compressed else gzip.decompress(source.read_bytes()))
    # Compressed: behind the gzip header, whose time nobody checks. Plain: a repacked tar, so only digests are left.
    place = data.draw(st.integers(10, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged = tmp_path / "flipped.tar.gz"
    damaged.write_bytes(bytes(content) if compressed else gzip.compress(bytes(content), 1))
    try:
        manifest = check_backup(damaged)
    except StoreError:
        return
    # A bit may be flipped where it means nothing: in a member's time, in padding, in a code that is never used.
    if compressed:
        assert gzip.decompress(damaged.read_bytes()) == gzip.decompress(source.read_bytes())
    assert {file.path: file.sha256 for file in manifest.files} == {
        name: hashlib.sha256(held).hexdigest() for name, held in members(damaged).items() if name != "manifest.json"
    }


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "documents/../../evil",
        "./evil",
        "a//b",
        "..",
        "keys.sqlite3",
        "documents/school.key",
        "SCHOOL.KEY",
        "a\\b",
        "a\nb",
        ".restoring",
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    file = forged(tmp_path / "f.tar.gz", [(tarfile.TarInfo(name), b"x")], manifest=b"{}")
    with pytest.raises(StoreError, match="mục lạ"):
        restore_backup(file, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.tar.gz"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_links_devices_and_folders_are_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("documents/x")
    member.type, member.linkname = kind, "/etc/passwd"
    file = forged(tmp_path / "f.tar.gz", [(member, b"")], manifest=b"{}")
    with pytest.raises(StoreError, match="mục lạ"):
        restore_backup(file, tmp_path / "new")


def test_members_that_the_manifest_does_not_name_are_refused(database: Database, tmp_path: Path) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    held = members(report.path)
    text = held.pop("manifest.json")
    entries = [(tarfile.TarInfo(name), content) for name, content in held.items()]
    check_backup(forged(tmp_path / "same.tar.gz", entries, manifest=text))
    extra = [*entries, (tarfile.TarInfo("more"), b"x")]
    twice = [*entries, (tarfile.TarInfo("documents/ab.pdf"), b"x")]
    for case, manifest in [(extra, text), (twice, text), (entries[1:], text), (entries, None), (entries, b"[]")]:
        with pytest.raises(StoreError, match=r"hỏng|mục lạ"):
            check_backup(forged(tmp_path / "case.tar.gz", case, manifest=manifest))


def test_other_files_are_no_backups(tmp_path: Path) -> None:
    for name, content in {"a.pdf": b"%PDF-1.7", "a.gz": gzip.compress(b"text"), "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match=name):
            check_backup(tmp_path / name)
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(StoreError, match="không đọc được"):
            check_backup(path)


def test_a_disk_without_room_is_told_before_anything_is_written(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = write_backup(database, tmp_path / "b.tar.gz")
    monkeypatch.setattr(backup.shutil, "disk_usage", lambda _: backup.shutil._ntuple_diskusage(10, 10, 1000))
    with pytest.raises(StoreError, match="giải phóng"):
        restore_backup(report.path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- Before migrations -----------------------------------------------------------------------------------------------


def older(database: Database, revision: str = "0001") -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})


def test_an_older_database_is_copied_before_it_is_migrated(database: Database, tmp_path: Path) -> None:
    known = sorted(backup._known_revisions(backup._scripts()))[0]
    with database.write() as session:
        assert backup_before_migration(session.connection(), database.data_dir) is None
    older(database, known)
    with database.write() as session:
        # With the write lock held, as the migration holds it.
        session.execute(sa.text("INSERT INTO pairs VALUES (9, 'half')"))
        copy = backup_before_migration(session.connection(), database.data_dir)
    assert copy is not None
    assert pairs(copy) == {0: "ab"}
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    report = write_backup(database, tmp_path / "b.tar.gz")
    assert not any(MIGRATION_COPIES in file.path for file in report.manifest.files)


def test_the_newest_copies_are_kept(database: Database) -> None:
    older(database, sorted(backup._known_revisions(backup._scripts()))[0])
    made: list[Path | None] = []
    for _ in range(5):
        with database.write() as session:
            made.append(backup_before_migration(session.connection(), database.data_dir))
    assert sorted((database.data_dir / MIGRATION_COPIES).iterdir()) == made[-3:]


def test_databases_without_anything_to_migrate_are_not_copied(tmp_path: Path, database: Database) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'fresh.db'}")
    with engine.begin() as connection:
        assert backup_before_migration(connection, tmp_path) is None
    engine.dispose()
    older(database, "9999")
    with database.write() as session:
        assert backup_before_migration(session.connection(), database.data_dir) is None
    assert not (database.data_dir / MIGRATION_COPIES).exists()


def test_a_copy_that_cannot_be_written_stops_the_migration(database: Database) -> None:
    older(database, sorted(backup._known_revisions(backup._scripts()))[0])
    (database.data_dir / MIGRATION_COPIES).write_text("in the way")
    with database.write() as session, pytest.raises(DeepEduError, match="trước khi nâng cấp"):
        backup_before_migration(session.connection(), database.data_dir)


def test_the_name_in_a_backup_is_the_database_s_own() -> None:
    assert backup._DATABASE_MEMBER == DATABASE_NAME
