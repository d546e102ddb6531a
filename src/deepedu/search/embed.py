"""Giving passages their vectors: in small steps, at any time, by one worker at a time.

A book can be searched by words at once; its vectors follow. Every step is committed, so a worker that is killed
loses at most one step, and the next one goes on with what is missing.
"""

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import sqlalchemy as sa

from deepedu.base.config import Settings
from deepedu.base.errors import DeepEduError, SearchError, StoreError
from deepedu.search.embedder import Embedder, open_embedder
from deepedu.search.vector import VECTOR_DTYPE
from deepedu.store import Database
from deepedu.store.tables import TITLE_SEPARATOR, Book, Embedding, Passage

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

BATCH = 8
LOCK_NAME = "embed.lock"
LOG_NAME = "embed.log"


@dataclass(frozen=True)
class EmbedProgress:
    """``done`` of ``total`` passages have their vector, ``new`` of them from this worker."""

    done: int
    total: int
    new: int


@dataclass(frozen=True)
class EmbedOutcome:
    """How a worker ended: ``done``, ``stopped``, or ``busy`` when another one is at work."""

    status: str
    new: int = 0


def embed_missing(
    db: Database,
    embedder: Embedder,
    on_event: Callable[[EmbedProgress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> EmbedOutcome:
    """Embeds the passages of ready books that have no vector of this model, oldest first, until none is left.

    Books that become ready or are deleted meanwhile are taken into account.

    Args:
        on_event: told after every step.
        stop: asked before every step.

    Raises:
        SearchError: the embedder failed; what was done is kept.
        StoreError: the database failed.
    """
    with _lock(db.data_dir / LOCK_NAME) as mine:
        if not mine:
            return EmbedOutcome("busy")
        new = 0
        while not stop():
            batch = _next_batch(db, embedder.name)
            if not batch:
                return EmbedOutcome("done", new)
            vectors = embedder.embed_passages([text for _, text in batch])
            if len(vectors) != len(batch):
                raise SearchError(f"{embedder.name}: expected {len(batch)} vectors, came {len(vectors)}")
            new += _store(db, embedder.name, [passage_id for passage_id, _ in batch], vectors)
            done, total = progress(db, embedder.name)
            on_event(EmbedProgress(done, total, new))
        return EmbedOutcome("stopped", new)


def passage_text(text: str, title: str, heading: str) -> str:
    """What is embedded of a passage: its titles say what "it" and "he" in the text refer to."""
    titles = [part for part in dict.fromkeys([title, *heading.split(TITLE_SEPARATOR)]) if part]
    return "\n".join([TITLE_SEPARATOR.join(titles), text]) if titles else text


def progress(db: Database, model: str) -> tuple[int, int]:
    """``(passages with a vector of this model, passages)`` of all ready books."""
    ready = sa.select(sa.func.count(Passage.id)).join(Book).where(Book.status == "ready")
    with db.read() as session:
        total = session.scalar(ready) or 0
        done = session.scalar(ready.join(Embedding, Embedding.passage_id == Passage.id).where(Embedding.model == model))
    return int(done or 0), int(total)


def start_after_ingest(settings: Settings) -> bool:
    """Starts ``deepedu embed`` in the background for what has no vector yet, if the settings want that.

    Returns:
        Whether a worker was started; it outlives this process and logs into the data folder.

    Raises:
        StoreError: the database failed, or the log cannot be written.
    """
    if settings.search.embed_after_ingest != "background":
        return False
    try:
        embedder, reason = open_embedder(settings.search)
    except DeepEduError as error:
        log.warning("new passages are not embedded: %s", error)
        return False
    if embedder is None:
        log.info("new passages are not embedded: %s", reason)
        return False
    db = Database(settings.store)
    try:
        done, total = progress(db, embedder.name)
    finally:
        db.close()
    if done >= total:
        return False
    _start_worker(settings)
    return True


def _start_worker(settings: Settings) -> None:
    command = [sys.executable, "-m", "deepedu", "embed", "--background"]
    # The worker reads the same settings as this process, flags included.
    environment = dict(os.environ)
    environment["DEEPEDU_STORE_DATA_DIR"] = str(settings.store.data_dir)
    if settings.store.url:
        environment["DEEPEDU_STORE_URL"] = settings.store.url
    for key, value in settings.search.model_dump(exclude_none=True).items():
        environment[f"DEEPEDU_SEARCH_{key.upper()}"] = str(value)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))
    try:
        with (settings.store.data_dir.expanduser() / LOG_NAME).open("ab") as output:
            worker = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
    except OSError as error:
        raise StoreError(f"cannot start embedding in the background: {error}; run 'deepedu embed'") from error

    # Kept, so that Python neither warns of a running child nor leaves a finished one unburied.
    _workers[:] = [earlier for earlier in _workers if earlier.poll() is None] + [worker]


_workers: list[subprocess.Popen[bytes]] = []


def _next_batch(db: Database, model: str) -> list[tuple[int, str]]:
    """``(passage_id, text to embed)``"""
    has_vector = sa.exists().where(Embedding.passage_id == Passage.id, Embedding.model == model)
    with db.read() as session:
        rows = session.execute(
            sa.select(Passage.id, Passage.text, Book.title, Passage.heading)
            .join(Book)
            .where(Book.status == "ready", ~has_vector)
            .order_by(Passage.id)
            .limit(BATCH)
        )
        return [(passage_id, passage_text(text, title, heading)) for passage_id, text, title, heading in rows]


def _store(db: Database, model: str, passage_ids: list[int], vectors: "np.ndarray") -> int:
    with db.write() as session:
        # Their book may have been deleted while they were embedded.
        alive = set(session.scalars(sa.select(Passage.id).where(Passage.id.in_(passage_ids))))
        for passage_id, vector in zip(passage_ids, vectors, strict=True):
            if passage_id in alive:
                session.merge(
                    Embedding(passage_id=passage_id, model=model, vector=vector.astype(VECTOR_DTYPE).tobytes())
                )
    return len(alive)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Whether this process got the lock; the system takes it back from a process that dies."""
    try:
        file = path.open("a+b")
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from error
    with file:
        yield _try_lock(file)


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
