"""A small library to search in, and an embedder whose vectors need no model."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deepedu.base.config import StoreSettings
from deepedu.base.vietnamese import estimate_tokens, words
from deepedu.store import Database, text_index
from deepedu.store.tables import Book, Page, Passage, Section


class Library:
    """A database that books are put into by their texts."""

    def __init__(self, data_dir: Path, url: str | None = None) -> None:
        self.db = Database(StoreSettings(data_dir=data_dir, url=url))

    def add(
        self,
        title: str,
        texts: Sequence[str],
        *,
        lesson: tuple[str, str] = ("Bài 1", "Mở đầu"),
        chapter: tuple[str, str] | None = None,
        heading: str = "",
        status: str = "ready",
        grade: int | None = None,
        subject: str | None = None,
        label: str | None = None,
    ) -> tuple[int, list[int]]:
        """Adds a book, each text a passage on its own page. Returns the ids of the book and its passages."""
        with self.db.write() as session:
            book = Book(
                sha256=hashlib.sha256(title.encode()).hexdigest(),
                source_name=f"{title}.txt",
                format="text",
                title=title,
                grade=grade,
                subject=subject,
                status=status,
            )
            session.add(book)
            session.flush()
            last = max(len(texts), 1)
            above = None
            if chapter:
                above = self._section("chapter", book.id, None, chapter, last)
                session.add(above)
                session.flush()
            section = self._section("lesson", book.id, above.id if above else None, lesson, last)
            session.add(section)
            session.flush()
            passages = []
            for number, text in enumerate(texts, start=1):
                session.add(Page(book_id=book.id, number=number, label=label, text=text))
                passages.append(
                    Passage(
                        book_id=book.id,
                        section_id=section.id,
                        ordinal=number - 1,
                        text=text,
                        heading=heading,
                        tokens=estimate_tokens(text),
                        first_page=number,
                        last_page=number,
                        spans=[[0, len(text), number, 0]],
                    )
                )
            session.add_all(passages)
            session.flush()
            if status == "ready":
                text_index.index_book(session, book.id)
            return book.id, [passage.id for passage in passages]

    def delete(self, book_id: int) -> None:
        with self.db.write() as session:
            text_index.unindex_book(session, book_id)
            session.delete(session.get_one(Book, book_id))

    @staticmethod
    def _section(kind: str, book_id: int, parent_id: int | None, name: tuple[str, str], last: int) -> Section:
        return Section(
            book_id=book_id,
            parent_id=parent_id,
            ordinal=0 if kind == "chapter" else 1,
            kind=kind,
            label=name[0],
            title=name[1],
            first_page=1,
            last_page=last,
        )


class HashEmbedder:
    """A bag of hashed words: texts that share words are near each other, the same on every machine."""

    name = "test/hash"
    dim = 64

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed_query(self, text: str) -> np.ndarray:
        return self._vector(text)

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += texts
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> np.ndarray:
        vector = np.zeros(self.dim, dtype=np.float32)
        for word in words(text):
            digest = hashlib.sha256(word.encode()).digest()
            vector[digest[0] % self.dim] += 1.0 if digest[1] % 2 else -1.0
        return vector / max(float(np.linalg.norm(vector)), 1e-9)
