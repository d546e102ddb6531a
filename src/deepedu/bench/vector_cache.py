"""Vectors kept between bench runs: embedding a haystack takes an hour, reading it back a second."""

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs

from deepedu.base.errors import SearchError

if TYPE_CHECKING:
    from deepedu.search.embedder import Embedder


def default_path() -> Path:
    """The cache file in the user's cache folder."""
    return platformdirs.user_cache_path("deepedu", appauthor=False) / "bench" / "vectors.sqlite3"


class CachedEmbedder:
    """An embedder that looks passages up by model and text before it computes them; queries are always computed.

    ``from_cache`` and ``computed`` count the passages of this run.
    """

    def __init__(self, embedder: "Embedder", path: Path) -> None:
        """Raises: SearchError when the cache file cannot be used."""
        self.name = embedder.name
        self.from_cache = self.computed = 0
        self._embedder = embedder
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(model TEXT, sha256 TEXT, vector BLOB, PRIMARY KEY (model, sha256))"
                )
        except (OSError, sqlite3.Error) as error:
            raise SearchError(f"cannot use the vector cache {str(path)!r}: {error}; move it away") from error

    @property
    def dim(self) -> int:
        return self._embedder.dim

    def embed_query(self, text: str) -> np.ndarray:
        return self._embedder.embed_query(text)

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for text in texts]
        rows: list[np.ndarray | None] = []
        with closing(self._connect()) as connection:
            for key in keys:
                found = connection.execute(
                    "SELECT vector FROM vectors WHERE model = ? AND sha256 = ?", (self.name, key)
                ).fetchone()
                rows.append(None if found is None else np.frombuffer(found[0], dtype="<f2").astype(np.float32))
            missing = [index for index, row in enumerate(rows) if row is None]
            if missing:
                vectors = self._embedder.embed_passages([texts[index] for index in missing])
                for index, vector in zip(missing, vectors, strict=True):
                    rows[index] = vector
                    connection.execute(
                        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                        (self.name, keys[index], vector.astype("<f2").tobytes()),
                    )
                connection.commit()
        self.computed += len(missing)
        self.from_cache += len(texts) - len(missing)
        return np.stack([row for row in rows if row is not None]) if rows else np.empty((0, self.dim), np.float32)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60)
