"""The book in the database: every version comes back, nothing is lost, nothing that was written changes."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from made_bullets import AT, MODEL, QUOTE, SYSTEM, TEACHER, VERIFIER, delta

from deepedu.base.config import StoreSettings
from deepedu.base.errors import InvalidDelta, NotFound, PlaybookError, PlaybookFull
from deepedu.playbook.book import Playbook
from deepedu.playbook.delta import Add, Count, Judge, Merge, Retire, Update
from deepedu.playbook.exchange import to_json, to_markdown
from deepedu.store import Database
from deepedu.store.tables import PlaybookDelta


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    yield database
    database.close()


@pytest.fixture
def book(database: Database) -> Playbook:
    """Version 1: three facts; 2: two verified; 3: one merged; 4: one with another text and one more."""
    book = Playbook(database)
    book.apply(delta(*(Add(text=text, kind="fact", evidence=(QUOTE,)) for text in ("Một", "Hai", "Ba")), minutes=1))
    judged = (Judge(bullet_id=each, status="verified") for each in ("b-00001", "b-00002"))
    book.apply(delta(*judged, author=VERIFIER, minutes=2))
    book.apply(delta(Merge(into="b-00001", sources=("b-00003",)), minutes=3))
    book.apply(delta(Update(bullet_id="b-00002", text="Hai là số chẵn."), Add(text="Bốn", kind="method"), minutes=4))
    return book


def test_an_empty_book(database: Database) -> None:
    book = Playbook(database)
    assert (book.version, book.state().bullets, book.history()) == (0, {}, [])
    assert book.at(0).bullets == {}
    assert book.rollback(0, TEACHER, "x").again


def test_any_version_is_read_back_to_the_byte(book: Playbook, database: Database) -> None:
    exports = [(to_json(book.at(version)), to_markdown(book.at(version))) for version in range(5)]
    assert len(set(exports)) == 5
    # Another process's view, after more changes.
    book.apply(delta(Retire(bullet_id="b-00001", reason="x"), author=SYSTEM, minutes=5))
    other = Playbook(database)
    assert [(to_json(other.at(version)), to_markdown(other.at(version))) for version in range(5)] == exports
    assert other.state() == book.state() == book.at(5)


def test_rolling_back_brings_a_version_back_and_keeps_what_was(book: Playbook) -> None:
    exports = [to_json(book.at(version)) for version in range(5)]
    for steps, version in enumerate((2, 4, 0, 3, 1), start=1):
        done = book.rollback(version, TEACHER, "thử lại")
        assert (done.version, done.again) == (4 + steps, False)
        assert to_json(book.state()) == exports[version]
        assert to_markdown(book.state()) == to_markdown(book.at(version))
    assert [to_json(book.at(version)) for version in range(5)] == exports
    assert book.history(limit=1)[0].delta.reason == "thử lại"
    # Numbers that were given once are not given again.
    assert book.apply(delta(Add(text="Năm", kind="fact"), minutes=9)).bullet_ids == ("b-00005",)
    with pytest.raises(NotFound, match="versions 0 to 10, came 11"):
        book.rollback(11, TEACHER, "x")


def test_only_a_teacher_rolls_back(book: Playbook) -> None:
    # To the empty book too, which takes away and puts nothing back.
    for version in (1, 0):
        with pytest.raises(InvalidDelta, match="a model cannot put bullets back"):
            book.rollback(version, MODEL, "x")
    assert book.version == 4


def test_a_delta_is_carried_out_once(book: Playbook, database: Database) -> None:
    change = delta(Count(bullet_id="b-00001", helpful=1), Add(text="Sáu", kind="fact"), minutes=7)
    first = book.apply(change)
    assert (first.version, first.bullet_ids, first.again) == (5, ("b-00001", "b-00005"), False)
    for each in (book, Playbook(database)):
        again = each.apply(change)
        assert (again.version, again.bullet_ids, again.again) == (5, ("b-00001", "b-00005"), True)
    assert book.version == 5
    assert book.state().bullets["b-00001"].helpful == 1


def test_what_is_refused_leaves_no_trace(book: Playbook) -> None:
    before = to_json(book.state())
    with pytest.raises(InvalidDelta):
        book.apply(delta(Count(bullet_id="b-00001", helpful=1), Retire(bullet_id="b-9", reason="x"), minutes=8))
    assert (book.version, to_json(book.state())) == (4, before)


def test_two_curators_at_once_lose_nothing(database: Database) -> None:
    books = [Playbook(database) for _ in range(4)]
    books[0].apply(delta(Add(text="chung", kind="fact"), minutes=100))
    failures: list[Exception] = []

    def curate(which: int) -> None:
        try:
            for number in range(10):
                books[which].change(
                    [Count(bullet_id="b-00001", helpful=1), Add(text=f"{which}/{number}", kind="fact")], MODEL, "học"
                )
        except Exception as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=curate, args=(which,)) for which in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    state = books[0].state()
    assert state.bullets["b-00001"].helpful == 40
    assert len(state.bullets) == 41
    assert {each.text for each in state.bullets.values()} == {"chung"} | {
        f"{w}/{n}" for w in range(4) for n in range(10)
    }
    assert [change.version for change in books[3].history()] == list(range(41, 0, -1))


@pytest.mark.sqlite_file
def test_processes_take_turns_too(database: Database) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom deepedu.base.config import StoreSettings\n"
        "from deepedu.playbook.bullet import Author\nfrom deepedu.playbook.book import Playbook\n"
        "from deepedu.playbook.delta import Add\nfrom deepedu.store import Database\n"
        "book = Playbook(Database(StoreSettings(data_dir=Path(sys.argv[1]))))\n"
        "for n in range(5):\n"
        "    book.change([Add(text=f'{sys.argv[2]} {n}', kind='fact')], Author(role='model'), 'x')\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(database.data_dir), name]) for name in ("lan", "minh")
    ]
    assert [each.wait(60) for each in running] == [0, 0]
    assert len(Playbook(database).state().bullets) == 10


def test_what_differs_between_versions(book: Playbook) -> None:
    found = book.diff(2, 4)
    assert [each.id for each in found.added] == ["b-00004"]
    assert found.removed == ()
    assert [(old.id, old.text, new.text, new.status) for old, new in found.changed] == [
        ("b-00001", "Một", "Một", "verified"),
        ("b-00002", "Hai", "Hai là số chẵn.", "proposed"),
        ("b-00003", "Ba", "Ba", "retired"),
    ]
    assert [each.id for each in book.diff(4, 2).removed] == ["b-00004"]
    with pytest.raises(NotFound):
        book.diff(0, 7)


def test_the_history_tells_who_and_why_and_of_which_bullet(book: Playbook) -> None:
    changes = book.history()
    assert [(each.version, each.delta.author.role) for each in changes] == [
        (4, "model"),
        (3, "model"),
        (2, "verifier"),
        (1, "model"),
    ]
    assert changes[-1].delta.at == AT + timedelta(minutes=1)
    assert [each.version for each in book.history(bullet_id="b-00003")] == [3, 1]
    assert [each.version for each in book.history(limit=2)] == [4, 3]


@pytest.mark.usefixtures("book")
def test_a_history_that_was_tampered_with_is_not_believed(database: Database) -> None:
    with database.write() as session:
        row = session.get_one(PlaybookDelta, 2)
        row.operations = row.operations.replace("b-00002", "b-00003")
    fresh = Playbook(database)
    with pytest.raises(PlaybookError, match="version 2 of the playbook in the database is not what was written"):
        fresh.state()
    # What comes before can still be read and exported.
    assert len(fresh.at(1).bullets) == 3


@pytest.mark.usefixtures("book")
def test_a_lost_row_is_noticed(database: Database) -> None:
    with database.write() as session:
        session.execute(sa.delete(PlaybookDelta).where(PlaybookDelta.version == 3))
    with pytest.raises(PlaybookError, match="version 4"):
        Playbook(database).state()


def test_a_full_book_says_so_and_may_shrink(database: Database) -> None:
    book = Playbook(database, limit_tokens=20)
    book.change([Add(text="a" * 40, kind="fact")], MODEL, "x")
    with pytest.raises(PlaybookFull, match="may have 20 tokens, this change would make it 30"):
        book.change([Add(text="b" * 40, kind="fact")], MODEL, "x")
    tight = Playbook(database, limit_tokens=5)
    tight.change([Update(bullet_id="b-00001", text="a" * 30)], MODEL, "ngắn hơn")
    tight.change([Retire(bullet_id="b-00001", reason="x")], SYSTEM, "x")
    assert tight.version == 3
