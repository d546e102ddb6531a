"""A question in, passages with their place in the book out."""

import logging
from dataclasses import dataclass, replace

import sqlalchemy as sa

from deepedu.base.config import SearchSettings
from deepedu.base.errors import SearchError
from deepedu.search.embedder import Embedder, open_embedder
from deepedu.search.evidence import Evidence, Scope
from deepedu.search.fuse import dense_weight, fuse
from deepedu.search.lexical import LexicalRetriever
from deepedu.search.library import books_in
from deepedu.search.passages import load_passages
from deepedu.search.vector import VectorRetriever
from deepedu.store import Database
from deepedu.store.tables import Passage
from deepedu.store.terms import terms

log = logging.getLogger(__name__)

EVERYWHERE = Scope()


@dataclass(frozen=True)
class Mode:
    """A retriever, whether it takes part, and a note for people when it does not or not fully."""

    name: str
    is_on: bool
    note: str = ""


class Search:
    """Searches the ready books by words and, with an embedder, by meaning. Safe to share between threads."""

    def __init__(self, db: Database, settings: SearchSettings, embedder: Embedder | None = None) -> None:
        """
        Args:
            embedder: None opens the one that the settings name, if any.

        Raises:
            ConfigError, MissingExtra, SearchError: the settings name an embedder that cannot be used.
            Unsupported: the database has no text index.
        """
        self._db = db
        self._settings = settings
        self._off_reason: str | None = None
        if embedder is None:
            embedder, self._off_reason = open_embedder(settings)
        self._lexical = LexicalRetriever(db)
        self._vector = None if embedder is None else VectorRetriever(db, embedder)
        self._failure = ""

    def search(self, question: str, *, scope: Scope = EVERYWHERE, limit: int = 8) -> list[Evidence]:
        """The passages that answer a question best.

        An embedder that fails is left out, with a warning and a note in ``modes``.

        Returns:
            At most ``limit`` passages, best first; none for a question without a letter or digit.

        Raises:
            StoreError: the database failed.
        """
        if not terms(question):
            return []
        candidates = max(self._settings.candidates, limit)
        lesson = self._passages_of(scope) if scope.section_id is not None else None
        if lesson is None:
            lexical = dict(self._lexical.retrieve(question, scope, candidates))
        else:
            lexical = {each: score for each, score in self._lexical.score(question, lesson).items() if score > 0}
        dense: dict[int, float] = {}
        if self._vector is not None:
            try:
                if lesson is None:
                    dense = self._by_meaning(self._vector, question, scope, candidates, lexical)
                else:
                    dense = self._vector.score(question, lesson)
                self._failure = ""
            except SearchError as error:
                if not self._failure:
                    log.warning("searching by words only: %s", error)
                self._failure = str(error)
        ranked = fuse(lexical, dense, dense_weight(question, self._settings.dense_weight))[:limit]
        parts = {"lexical": lexical, "dense": dense}
        with self._db.read() as session:
            evidence = load_passages(session, [passage_id for passage_id, _ in ranked])
        return [
            replace(
                evidence[passage_id],
                score=score,
                scores={name: scores[passage_id] for name, scores in parts.items() if passage_id in scores},
            )
            for passage_id, score in ranked
            if passage_id in evidence
        ]

    def modes(self) -> list[Mode]:
        """Which retrievers take part now, and why not. Raises: StoreError."""
        if self._vector is None:
            return [Mode("lexical", True), Mode("dense", False, self._off_reason or "")]
        done, total = self._vector.coverage()
        note = self._failure or ("" if done == total else f"{done} of {total} passages have their vector")
        return [Mode("lexical", True), Mode("dense", done > 0 and not self._failure, note)]

    def _passages_of(self, scope: Scope) -> list[int]:
        """The passages of the lesson in ``scope``, if its book is within."""
        with self._db.read() as session:
            books = books_in(session, scope)
            wanted = sa.select(Passage.id).where(Passage.section_id == scope.section_id).order_by(Passage.id)
            return list(session.scalars(wanted if books is None else wanted.where(Passage.book_id.in_(books))))

    def _by_meaning(
        self, vector: VectorRetriever, question: str, scope: Scope, limit: int, lexical: dict[int, float]
    ) -> dict[int, float]:
        """Scores of both retrievers' candidates; those found by meaning alone are added to ``lexical``."""
        dense = dict(vector.retrieve(question, scope, limit))
        if not dense:
            return dense
        by_meaning_alone = [passage_id for passage_id in dense if passage_id not in lexical]
        dense |= vector.score(question, [passage_id for passage_id in lexical if passage_id not in dense])
        lexical |= self._lexical.score(question, by_meaning_alone)
        return dense
