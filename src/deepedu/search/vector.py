"""Search by meaning: the passages' vectors in one matrix, compared with the question's by one product.

Brute force on purpose: 13,000 vectors of 384 numbers take a few milliseconds, and nothing has to be kept in step.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.search.embedder import Embedder
from deepedu.search.evidence import Scope
from deepedu.search.library import books_in
from deepedu.store import Database
from deepedu.store.tables import Book, Embedding, Passage

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

VECTOR_DTYPE = "<f2"
# Questions whose vectors are kept: as many as may be searched for at once.
_QUERIES = 64


@dataclass(frozen=True)
class _Matrix:
    stamp: tuple[int, ...]
    passage_ids: "np.ndarray"
    book_ids: "np.ndarray"
    vectors: "np.ndarray"


class VectorRetriever:
    """Finds passages by meaning, among those that have a vector of this embedder. Safe to share between threads."""

    name = "dense"

    def __init__(self, db: Database, embedder: Embedder) -> None:
        self._db = db
        self._embedder = embedder
        self._lock = threading.Lock()
        self._matrix: _Matrix | None = None
        self._queries: OrderedDict[str, np.ndarray] = OrderedDict()

    def retrieve(self, question: str, scope: Scope, limit: int) -> list[tuple[int, float]]:
        """See ``Retriever``; scores are cosines.

        Raises:
            SearchError: the embedder failed.
        """
        import numpy as np

        with self._db.read() as session:
            matrix = self._current(session)
            books = books_in(session, scope)
        rows = np.arange(len(matrix.passage_ids))
        if books is not None:
            rows = rows[np.isin(matrix.book_ids, books)]
        if not question.strip() or not len(rows):
            return []
        cosines = (
            matrix.vectors[rows] @ self._query(question)
            if books is not None
            else matrix.vectors @ self._query(question)
        )
        best = np.argpartition(-cosines, limit - 1)[:limit] if limit < len(rows) else np.arange(len(rows))
        order = best[np.lexsort((matrix.passage_ids[rows[best]], -cosines[best]))]
        return [(int(matrix.passage_ids[rows[row]]), float(cosines[row])) for row in order]

    def score(self, question: str, passage_ids: Sequence[int]) -> dict[int, float]:
        """Cosines of given passages; those without a vector are left out. Raises: SearchError."""
        import numpy as np

        with self._db.read() as session:
            matrix = self._current(session)
        if not passage_ids or not len(matrix.passage_ids):
            return {}
        wanted = np.asarray(passage_ids)
        rows = np.minimum(np.searchsorted(matrix.passage_ids, wanted), len(matrix.passage_ids) - 1)
        known = matrix.passage_ids[rows] == wanted
        cosines = matrix.vectors[rows[known]] @ self._query(question)
        return dict(zip(wanted[known].tolist(), cosines.tolist(), strict=True))

    def coverage(self) -> tuple[int, int]:
        """``(passages with a vector, passages)`` of all ready books."""
        with self._db.read() as session:
            total = session.scalar(sa.select(sa.func.count(Passage.id)).join(Book).where(Book.status == "ready"))
            return len(self._current(session).passage_ids), int(total or 0)

    def _query(self, question: str) -> "np.ndarray":
        # One turn asks for the same question twice, to propose and to score what others found; others ask in between.
        with self._lock:
            known = self._queries.get(question)
        if known is not None:
            return known
        vector = self._embedder.embed_query(question)
        with self._lock:
            self._queries[question] = vector
            if len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return vector

    def _current(self, session: Session) -> _Matrix:
        stamp = self._stamp(session)
        with self._lock:
            if self._matrix is None or self._matrix.stamp != stamp:
                self._matrix = self._load(session, stamp)
            return self._matrix

    def _stamp(self, session: Session) -> tuple[int, ...]:
        """Changes whenever a vector comes or goes: vectors are never changed in place, ids never used twice."""
        ready = sa.select(sa.func.count(), sa.func.sum(Book.id)).where(Book.status == "ready")
        vectors = sa.select(
            sa.func.count(), sa.func.sum(Embedding.passage_id), sa.func.max(Embedding.passage_id)
        ).where(Embedding.model == self._embedder.name)
        return tuple(int(value or 0) for value in (*session.execute(ready).one(), *session.execute(vectors).one()))

    def _load(self, session: Session, stamp: tuple[int, ...]) -> _Matrix:
        import numpy as np

        rows = session.execute(
            sa.select(Embedding.passage_id, Passage.book_id, Embedding.vector)
            .join(Passage, Passage.id == Embedding.passage_id)
            .join(Book, Book.id == Passage.book_id)
            .where(Embedding.model == self._embedder.name, Book.status == "ready")
            .order_by(Embedding.passage_id)
        ).all()
        size = len(rows[0][2]) if rows else 0
        usable = [row for row in rows if len(row[2]) == size]
        if len(usable) < len(rows):
            log.warning("%d vectors of another length left out: %s", len(rows) - len(usable), self._embedder.name)
        vectors = np.frombuffer(b"".join(row[2] for row in usable), dtype=VECTOR_DTYPE)
        return _Matrix(
            stamp,
            np.asarray([row[0] for row in usable], dtype=np.int64),
            np.asarray([row[1] for row in usable], dtype=np.int64),
            vectors.astype(np.float32).reshape(len(usable), size // np.dtype(VECTOR_DTYPE).itemsize),
        )
