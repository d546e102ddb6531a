"""The worker that gives passages their vectors: resumable, alone, and undisturbed by what happens around it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from small_library import HashEmbedder

from deepedu.base.config import SearchSettings, Settings, StoreSettings
from deepedu.base.errors import SearchError
from deepedu.search import embed
from deepedu.search.embed import BATCH, EmbedOutcome, EmbedProgress, embed_missing, progress, start_after_ingest
from deepedu.store.tables import Embedding

TEXTS = [f"Đoạn văn số {n}." for n in range(2 * BATCH + 3)]


def stored(library) -> list[int]:
    with library.db.read() as session:
        return sorted(session.scalars(sa.select(Embedding.passage_id)))


def test_every_passage_of_ready_books_once(library, embedder) -> None:
    _, ids = library.add("A", TEXTS)
    library.add("B", ["Đang đọc."], status="reading")
    events: list[EmbedProgress] = []
    assert embed_missing(library.db, embedder, events.append) == EmbedOutcome("done", len(TEXTS))
    assert stored(library) == ids
    assert events[0] == EmbedProgress(BATCH, len(TEXTS), BATCH)
    assert events[-1] == EmbedProgress(len(TEXTS), len(TEXTS), len(TEXTS))
    assert embed_missing(library.db, embedder) == EmbedOutcome("done", 0)
    assert len(embedder.embedded) == len(TEXTS)


def test_titles_are_embedded_with_the_text(library, embedder) -> None:
    library.add("A", ["Ông sinh năm 1380."], heading="Bài 5. Nguyễn Trãi")
    embed_missing(library.db, embedder)
    assert embedder.embedded == ["A > Bài 5. Nguyễn Trãi\nÔng sinh năm 1380."]


def test_another_model_starts_afresh(library, embedder) -> None:
    _, ids = library.add("A", TEXTS[:2])
    embed_missing(library.db, embedder)
    other = HashEmbedder()
    other.name = "test/other"
    assert progress(library.db, other.name) == (0, 2)
    assert embed_missing(library.db, other).new == 2
    assert stored(library) == sorted(ids * 2)


def test_stop_is_asked_between_steps_and_the_rest_comes_later(library, embedder) -> None:
    library.add("A", TEXTS)
    assert embed_missing(library.db, embedder, stop=lambda: bool(embedder.embedded)) == EmbedOutcome("stopped", BATCH)
    assert embed_missing(library.db, embedder) == EmbedOutcome("done", len(TEXTS) - BATCH)


def test_a_book_deleted_in_the_middle(library) -> None:
    gone, _ = library.add("A", TEXTS)
    _, kept = library.add("B", ["Còn lại."])

    class Deleting(HashEmbedder):
        def embed_passages(self, texts):
            if not self.embedded:
                library.delete(gone)
            return super().embed_passages(texts)

    assert embed_missing(library.db, Deleting()).status == "done"
    assert stored(library) == kept


def test_a_failing_embedder_keeps_what_was_done(library) -> None:
    library.add("A", TEXTS)

    class Failing(HashEmbedder):
        def embed_passages(self, texts):
            if self.embedded:
                raise SearchError("gone")
            return super().embed_passages(texts)

    with pytest.raises(SearchError, match="gone"):
        embed_missing(library.db, Failing())
    assert len(stored(library)) == BATCH


def test_too_few_vectors_are_refused(library) -> None:
    library.add("A", TEXTS)

    class Short(HashEmbedder):
        def embed_passages(self, texts):
            return np.zeros((len(texts) - 1, 4), np.float32)

    with pytest.raises(SearchError, match="expected 8 vectors, came 7"):
        embed_missing(library.db, Short())
    assert stored(library) == []


def start_slow(data_dir: Path) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "slow_embed.py"
    return subprocess.Popen([sys.executable, script, data_dir, "0.3"], stdout=subprocess.PIPE, text=True)


@pytest.mark.sqlite_file
def test_killed_half_way_and_taken_up_again(library, embedder) -> None:
    _, ids = library.add("A", TEXTS)
    with start_slow(library.db.data_dir) as worker:
        assert worker.stdout
        assert worker.stdout.readline() == f"{BATCH}\n"
        # While it lives nobody else works; the second is told so at once.
        assert embed_missing(library.db, embedder) == EmbedOutcome("busy")
        worker.kill()
    done = len(stored(library))
    assert BATCH <= done < len(TEXTS)
    assert embed_missing(library.db, embedder) == EmbedOutcome("done", len(TEXTS) - done)
    assert stored(library) == ids


@pytest.fixture
def started(monkeypatch) -> list:
    """What would have been started in the background."""
    calls: list = []

    class Popen:
        def __init__(self, command, **options) -> None:
            calls.append((command, options))

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(embed.subprocess, "Popen", Popen)
    return calls


def test_after_ingest_a_worker_starts_only_where_there_is_work(library, embedder, started, monkeypatch) -> None:
    monkeypatch.setattr(embed, "open_embedder", lambda _: (embedder, None))
    store = StoreSettings(data_dir=library.db.data_dir)
    settings = Settings(store=store)
    assert start_after_ingest(settings) is False
    library.add("A", TEXTS)
    assert start_after_ingest(Settings(store=store, search=SearchSettings(embed_after_ingest="off"))) is False
    assert start_after_ingest(settings) is True
    [(command, options)] = started
    assert command[1:] == ["-m", "deepedu", "embed", "--background"]
    assert options["env"]["DEEPEDU_STORE_DATA_DIR"] == str(library.db.data_dir)
    assert options["start_new_session"] is True


def test_after_ingest_nothing_starts_without_an_embedder(library, started) -> None:
    library.add("A", TEXTS)
    settings = Settings(store=StoreSettings(data_dir=library.db.data_dir), search=SearchSettings(dense="off"))
    assert start_after_ingest(settings) is False
    broken = Settings(store=settings.store, search=SearchSettings(dense="http"))
    assert start_after_ingest(broken) is False
    assert started == []
