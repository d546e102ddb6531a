"""Backups: whole or not at all, and without keys."""

import errno
import gzip
import hashlib
import io
import os
import resource
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from data_folders import forged, members, pairs, write_pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, DeepEduError, StoreError, Unsupported
from deepedu.store import Database, backup
from deepedu.store.backup import MIGRATION_COPIES, backup_before_migration, check_backup, write_backup
from deepedu.store.database import DATABASE_NAME
from deepedu.store.restore import restore_backup

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
    create = backup.create_file

    class SmallDisk(io.FileIO):
        def write(self, content: object) -> int:
            if self.tell() > 4096:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(content)  # pyright: ignore[reportArgumentType]

    def create_small(path: Path) -> object:
        create(path).close()
        return SmallDisk(path, "r+")

    monkeypatch.setattr(backup, "create_file", create_small)
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
    assert backup.DATABASE_MEMBER == DATABASE_NAME
