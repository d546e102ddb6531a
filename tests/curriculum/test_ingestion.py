"""Ingestion: each document once, bad ones told apart, a killed run goes on, only whole books are searchable."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
import sqlalchemy as sa
from made_documents import PROSE

from deepedu.base.config import IngestSettings, StoreSettings
from deepedu.base.errors import NotFound, StoreBusy
from deepedu.base.prefix_files import book_tag, prefix_folder
from deepedu.curriculum.events import Event, FileFinished, FileStarted, Indexing, Outcome, PageRead
from deepedu.curriculum.ingest import ingest, resume
from deepedu.curriculum.metadata import Metadata
from deepedu.curriculum.removal import delete_books
from deepedu.curriculum.sources import find_files
from deepedu.store import Database, Lease, text_index
from deepedu.store.library import book_detail, document_digests, list_books
from deepedu.store.tables import Book, Embedding, Page, Passage, Section

SETTINGS = IngestSettings()
TABLES = (Book, Page, Section, Passage, Embedding)


def rows(database: Database) -> list[int]:
    with database.read() as session:
        return [session.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in TABLES]


def stored(database: Database) -> list[str]:
    return sorted(file.name for file in database.documents_dir.iterdir())


def statuses(outcomes: list[Outcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


def words_in_index(database: Database) -> int:
    with database.read() as session:
        return text_index.document_frequencies(session, "nước").get("words", 0)


def lesson(number: int) -> str:
    return f"Bài {number}. Tên bài {number}\n\n{PROSE}\n\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_book_becomes_sections_passages_and_index_entries(database: Database, make_pdf) -> None:
    path = make_pdf("toan-7.pdf", [["# Bài 1. Số", PROSE], ["# Bài 2. Hình", PROSE, PROSE]])
    events: list[Event] = []
    (outcome,) = ingest(database, [path], SETTINGS, on_event=events.append)
    assert (outcome.status, outcome.pages, outcome.title) == ("added", 2, "Toán 7")
    detail = book_detail(database, outcome.book_id or 0)
    assert [(s.display, s.first_page) for s in detail.sections] == [("Bài 1. Số", 1), ("Bài 2. Hình", 2)]
    assert detail.book.guessed == ("title", "grade", "subject")
    assert (detail.book.status, detail.book.passages) == ("ready", outcome.passages)
    assert words_in_index(database) == outcome.passages
    kinds = [type(event) for event in events]
    assert kinds == [FileStarted, PageRead, PageRead, Indexing, FileFinished]
    (name,) = stored(database)
    copy = database.documents_dir / name
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_mode & 0o077 == 0


def test_decomposed_documents_are_stored_composed(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "nfd.txt", unicodedata.normalize("NFD", lesson(1) + lesson(2)))
    ingest(database, [path], SETTINGS)
    with database.read() as session:
        for text in session.scalars(sa.select(Passage.text)):
            assert unicodedata.is_normalized("NFC", text)
        assert session.scalar(sa.select(sa.func.count()).where(Passage.text.contains("bệnh viện")))


def test_the_same_content_is_there_already_under_any_name(database: Database, tmp_path: Path) -> None:
    first = write(tmp_path / "một.txt", lesson(1))
    again = write(tmp_path / "khác" / "hai.txt", lesson(1))
    assert statuses(ingest(database, [first], SETTINGS)) == ["added"]
    before = rows(database), stored(database)
    outcomes = ingest(database, [first, again], SETTINGS)
    assert statuses(outcomes) == ["already_there"] * 2
    assert "một.txt" in outcomes[1].message
    assert (rows(database), stored(database)) == before


def test_the_same_file_twice_in_one_batch(database: Database, tmp_path: Path) -> None:
    write(tmp_path / "lô" / "a.txt", lesson(1))
    write(tmp_path / "lô" / "b.txt", lesson(1))
    assert statuses(ingest(database, [tmp_path / "lô"], SETTINGS)) == ["added", "already_there"]


def test_a_changed_edition_is_kept_beside_the_old_one_and_may_replace_it(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "sách.txt", lesson(1))
    (old,) = ingest(database, [path], SETTINGS)
    write(path, lesson(1) + "Một trang đã đổi.")
    (new,) = ingest(database, [path], SETTINGS)
    assert new.status == "added"
    assert any(f"--replace {old.book_id}" in note for note in new.notes)
    assert len(list_books(database)) == 2

    write(path, lesson(1) + "Đổi lần nữa.")
    (newest,) = ingest(database, [path], SETTINGS, replace=new.book_id)
    assert {book.id for book in list_books(database)} == {old.book_id, newest.book_id}
    # The new one is there already: only the old one has to go.
    ingest(database, [path], SETTINGS, replace=old.book_id)
    assert [book.id for book in list_books(database)] == [newest.book_id]
    assert len(stored(database)) == 1
    with pytest.raises(NotFound):
        ingest(database, [path], SETTINGS, replace=999)


def test_given_metadata_is_kept_and_corrects_a_book_that_is_there(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", lesson(1))
    (outcome,) = ingest(database, [path], SETTINGS, Metadata(title="Tên đúng", grade=4))
    book = book_detail(database, outcome.book_id or 0).book
    assert (book.title, book.grade, book.guessed) == ("Tên đúng", 4, ())
    ingest(database, [path], SETTINGS, Metadata(subject="Toán"))
    assert book_detail(database, book.id).book.subject == "Toán"


def test_twenty_files_good_and_bad(database: Database, tmp_path: Path, make_pdf) -> None:
    folder = tmp_path / "lô"
    for number in range(1, 9):
        write(folder / f"bài {number} có dấu.txt", lesson(number))
    write(folder / ("dài " * 49 + "x.txt"), lesson(20))
    make_pdf("lô/sách.pdf", [["# Bài 1. Tên", PROSE]])
    document = docx.Document()
    document.add_paragraph(PROSE)
    document.save(str(folder / "sách.docx"))
    write(folder / "sách.md", f"# Bài 1\n\n{PROSE} md")
    write(folder / "sách.html", f"<html><body><p>{PROSE} html</p></body></html>")
    make_pdf("lô/z01 khóa.pdf", [[PROSE]], password="x")
    make_pdf("lô/z02 cụt.pdf", [[PROSE]] * 3)
    cut = folder / "z02 cụt.pdf"
    cut.write_bytes(cut.read_bytes()[:1500])
    write(folder / "z03 rỗng.txt", "")
    with (folder / "z04 to.pdf").open("wb") as big:
        big.truncate(250_000_000)
    (folder / "z05 không phải.docx").write_bytes(os.urandom(5000))
    write(folder / "z06 trắng.txt", " \n \n")
    make_pdf("lô/z07 quét.pdf", [[], []])
    assert len(list(folder.iterdir())) == 20

    outcomes = ingest(database, [folder], SETTINGS)
    good = [outcome for outcome in outcomes if outcome.status == "added"]
    bad = {outcome.path.name[:3]: outcome for outcome in outcomes if outcome.status == "failed"}
    assert (len(good), len(bad)) == (13, 7)
    codes = {key: outcome.error.code for key, outcome in bad.items() if outcome.error}
    assert codes == {
        "z01": "encrypted_document",
        "z02": "damaged_document",
        "z03": "empty_document",
        "z04": "document_too_large",
        "z05": "damaged_document",
        "z06": "empty_document",
        "z07": "empty_document",
    }
    assert len({outcome.message for outcome in bad.values()}) >= 6
    assert "OCR" in bad["z07"].message
    assert all(outcome.passages > 0 for outcome in good)
    # Nothing is left of the bad ones.
    assert len(stored(database)) == 13
    assert rows(database)[0] == 13
    assert {book.status for book in list_books(database)} == {"ready"}
    before = rows(database), stored(database)
    assert statuses(ingest(database, [folder], SETTINGS)).count("failed") == 7
    assert (rows(database), stored(database)) == before


def test_pages_without_text_are_told(database: Database, make_pdf) -> None:
    (some,) = ingest(database, [make_pdf("a.pdf", [[PROSE], [], [PROSE], [PROSE]])], SETTINGS)
    assert any("trang 2" in note for note in some.notes)
    (most,) = ingest(database, [make_pdf("b.pdf", [[PROSE + "b"], [], [], []])], SETTINGS)
    assert any("1/4 trang có chữ" in note for note in most.notes)


@pytest.mark.shared_data
def test_old_encodings_and_old_formats_are_refused_by_name(database: Database, shared_data: Path) -> None:
    folder = shared_data / "legacy_documents"
    if not folder.is_dir():
        pytest.skip(f"no legacy_documents in {shared_data}")
    outcomes = ingest(database, [folder / "tcvn3", folder / "vni", folder / "synthetic"], SETTINGS)
    assert len(outcomes) == 17
    assert set(statuses(outcomes)) == {"failed"}
    for outcome in outcomes:
        if outcome.path.suffix == ".pdf":
            assert "TCVN3" in outcome.message
        elif outcome.path.suffix == ".docx":
            assert "VNI" in outcome.message
        else:
            assert ".docx" in outcome.message
    assert rows(database) == [0] * len(TABLES)
    assert stored(database) == []


@pytest.mark.shared_data
def test_real_articles(database: Database, shared_data: Path) -> None:
    folder = shared_data / "viwiki_school"
    if not folder.is_dir():
        pytest.skip(f"no viwiki_school in {shared_data}")
    files = sorted(folder.glob("*/*.txt"))[5::27]
    outcomes = ingest(database, files, SETTINGS)
    assert len(outcomes) >= 9
    assert set(statuses(outcomes)) == {"added"}


def test_deleting_leaves_nothing(database: Database, tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / "lô" / f"{number}.txt", f"Chữ riêng zzz{number}. {lesson(number)}")
    first, second = ingest(database, [tmp_path / "lô"], SETTINGS)
    with database.write() as session:
        for passage_id in session.scalars(sa.select(Passage.id)).all():
            session.add(Embedding(passage_id=passage_id, model="m", vector=b"\0\0"))
    with pytest.raises(NotFound):
        delete_books(database, [first.book_id or 0, 999])
    assert len(list_books(database)) == 2
    delete_books(database, [first.book_id or 0])
    assert [book.id for book in list_books(database)] == [second.book_id]
    assert rows(database)[-1] == second.passages
    assert words_in_index(database) == second.passages
    assert len(stored(database)) == 1
    delete_books(database, [second.book_id or 0])
    assert rows(database) == [0] * len(TABLES)
    assert stored(database) == []
    # Ids are not used again.
    write(tmp_path / "lô" / "3.txt", lesson(3))
    assert (ingest(database, [tmp_path / "lô" / "3.txt"], SETTINGS)[0].book_id or 0) > (second.book_id or 0)


def test_deleting_or_replacing_takes_the_lessons_out_of_the_cache(database: Database, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for number in (1, 2, 3):
        write(tmp_path / f"{number}.txt", lesson(number))
    first, second = ingest(database, [tmp_path / "1.txt", tmp_path / "2.txt"], SETTINGS)
    digests = document_digests(database)
    folders = {book_id: prefix_folder(cache, book_tag(digest)) for book_id, digest in digests.items()}
    for folder in (*folders.values(), prefix_folder(cache, "untagged")):
        folder.mkdir(parents=True)
        (folder / "0123.safetensors").write_bytes(b"rows")
    (third,) = ingest(database, [tmp_path / "3.txt"], SETTINGS, replace=first.book_id, cache_dir=cache)
    assert third.status == "added"
    assert not folders[first.book_id or 0].exists()
    assert folders[second.book_id or 0].exists()
    delete_books(database, [second.book_id or 0], cache_dir=cache)
    assert [path.name for path in (cache / "prefix").iterdir()] == ["untagged"]
    # A book that was never warmed, and a cache that was never there.
    delete_books(database, [third.book_id or 0], cache_dir=tmp_path / "none")


def test_a_book_being_read_is_neither_read_twice_nor_deleted(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", lesson(1))
    seen: list[Outcome] = []

    def meanwhile(event: Event) -> None:
        if isinstance(event, PageRead) and not seen:
            seen.extend(ingest(database, [path], SETTINGS))
            with pytest.raises(StoreBusy, match=str(os.getpid())):
                delete_books(database, [seen[0].book_id or 0])

    (outcome,) = ingest(database, [path], SETTINGS, on_event=meanwhile)
    assert outcome.status == "added"
    assert statuses(seen) == ["busy"]
    assert str(os.getpid()) in seen[0].message


def _ingest_elsewhere(data_dir: Path, path: Path, barrier, results) -> None:
    database = Database(StoreSettings(data_dir=data_dir))
    barrier.wait(timeout=60)
    results.put([outcome.status for outcome in ingest(database, [path], SETTINGS)])
    database.close()


@pytest.mark.sqlite_file
def test_two_processes_at_once_store_one_copy(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "".join(lesson(n) for n in range(1, 60)))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=_ingest_elsewhere, args=(database.data_dir, path, barrier, results)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    found = sorted(results.get(timeout=120)[0] for _ in workers)
    for worker in workers:
        worker.join(timeout=60)
    assert found[0] == "added"
    assert found[1] in ("already_there", "busy")
    assert rows(database)[0] == 1
    assert len(stored(database)) == 1
    assert [book.status for book in list_books(database)] == ["ready"]


class _Stop(Exception):
    pass


@pytest.fixture
def long_book(tmp_path: Path) -> Path:
    """120 pages of text."""
    return write(tmp_path / "dài.txt", "\f".join(f"Trang thứ {n}. {lesson(n)}" for n in range(1, 121)))


def test_an_error_half_way_lets_go_and_the_next_run_goes_on(database: Database, long_book: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, PageRead) and event.number == 70:
            raise _Stop

    with pytest.raises(_Stop):
        ingest(database, [long_book], SETTINGS, Metadata(grade=8), stop)
    (book,) = list_books(database)
    assert book.status == "interrupted"
    assert 0 < book.pages_read < 70
    assert words_in_index(database) == 0
    events: list[Event] = []
    (outcome,) = resume(database, SETTINGS, events.append)
    started = events[0]
    assert isinstance(started, FileStarted)
    assert started.pages_read == book.pages_read
    assert [event.number for event in events if isinstance(event, PageRead)] == list(range(book.pages_read + 1, 121))
    assert outcome.status == "resumed"
    assert f"bị ngắt ở trang {book.pages_read}/120" in outcome.message
    assert book_detail(database, book.id).book.grade == 8
    check_same_as_uninterrupted(database, long_book, book.id)


def check_same_as_uninterrupted(database: Database, path: Path, book_id: int) -> None:
    """The book of an interrupted reading is, to the letter, that of an undisturbed one."""
    other = Database(StoreSettings(data_dir=database.data_dir.parent / "undisturbed"))
    (whole,) = ingest(other, [path], SETTINGS)

    def content(store: Database, identity: int) -> list[tuple[object, ...]]:
        with store.read() as session:
            passages = sa.select(Passage.ordinal, Passage.text, Passage.heading, Passage.spans)
            pages = sa.select(Page.number, Page.text, Page.label)
            return [
                *map(tuple, session.execute(passages.where(Passage.book_id == identity).order_by(Passage.ordinal))),
                *map(tuple, session.execute(pages.where(Page.book_id == identity).order_by(Page.number))),
            ]

    assert content(database, book_id) == content(other, whole.book_id or 0)
    other.close()


_CHILD = """
import sys
from pathlib import Path
from deepedu.base.config import IngestSettings, StoreSettings
from deepedu.curriculum.ingest import ingest
from deepedu.store import Database
ingest(Database(StoreSettings(data_dir=Path(sys.argv[1]))), [Path(sys.argv[2])], IngestSettings())
"""


def _pages_read(data_dir: Path) -> int:
    file = data_dir / "deepedu.sqlite3"
    if not file.exists():
        return 0
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT coalesce(max(pages_read), 0) FROM books").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


@pytest.mark.sqlite_file
def test_kill_minus_nine_half_way_loses_nothing(database: Database, new_pdf: Callable[..., object]) -> None:
    pdf = new_pdf()
    for number in range(1, 121):
        pdf.add_page()  # pyright: ignore[reportAttributeAccessIssue]
        pdf.multi_cell(0, 5, f"Bài {number}. Tên {number}\n\n" + PROSE * 4)  # pyright: ignore[reportAttributeAccessIssue]
    path = database.data_dir.parent / "to.pdf"
    pdf.output(str(path))  # pyright: ignore[reportAttributeAccessIssue]
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(database.data_dir), str(path)])
    try:
        give_up = time.monotonic() + 120
        while _pages_read(database.data_dir) < 40 and child.poll() is None and time.monotonic() < give_up:
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    (book,) = list_books(database)
    assert book.status == "interrupted", "the reading ended before it could be killed"
    assert 40 <= book.pages_read <= 120
    assert words_in_index(database) == 0

    (outcome,) = ingest(database, [path], SETTINGS)
    assert outcome.status == "resumed"
    assert f"bị ngắt ở trang {book.pages_read}/120" in outcome.message
    assert rows(database)[:2] == [1, 120]
    assert words_in_index(database) == outcome.passages
    check_same_as_uninterrupted(database, path, book.id)


def test_a_kill_before_the_copy_was_stored_is_cleared_away(database: Database) -> None:
    with database.write() as session:
        dead = Lease(Lease.mine().host, 2**22 - 1, "1")
        session.add(Book(sha256="0" * 64, source_name="mất.pdf", format="pdf", title="mất", lease=str(dead)))
    (database.documents_dir / f".{'0' * 64}.77.part").write_bytes(b"half")
    (outcome,) = resume(database, SETTINGS)
    assert outcome.status == "failed"
    assert "nạp lại" in outcome.message
    assert rows(database)[0] == 0
    assert stored(database) == []


def test_folders_are_walked_in_natural_order_and_only_documents_are_taken(tmp_path: Path) -> None:
    for name in ("Bài 10.txt", "Bài 2.md", "README.md", ".ẩn.txt", "~$x.docx", "ảnh.png", "cũ.doc", ".git/x.txt"):
        write(tmp_path / "f" / name, "x")
    assert [file.name for file in find_files([tmp_path / "f"])] == ["Bài 2.md", "Bài 10.txt", "cũ.doc"]
    named = tmp_path / "f" / "ảnh.png"
    assert find_files([named, named]) == [named]


def test_a_missing_file_is_told(database: Database, tmp_path: Path) -> None:
    (outcome,) = ingest(database, [tmp_path / "không có.pdf"], SETTINGS)
    assert outcome.status == "failed"
    assert "không tìm thấy" in outcome.message
