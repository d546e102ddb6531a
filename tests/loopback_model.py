"""An OpenAI-compatible model server on loopback that says what it is told to; with a prefix cache when it is ours."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

TRUE_DRAFT = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."
STEP_TOKENS = 100


@dataclass
class Endpoint:
    """A model server that streams ``reply`` word by word, with a pause after each.

    With ``is_ours`` it has a prefix cache that counts words as tokens: ``cached`` maps shared texts to their tags,
    ``begun`` to how many of their tokens a broken warming computed.
    """

    url: str
    reply: str = TRUE_DRAFT
    pause_s: float = 0.0
    requests: int = 0
    is_ours: bool = False
    has_cache: bool = True
    stored: str = "disk"
    busy_times: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    cached: dict[str, str] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)


def shared_text(body: dict[str, Any]) -> tuple[str, str]:
    """The shared beginning of a request and its tag."""
    text, tag = "", ""
    for message in body["messages"]:
        if isinstance(message["content"], str):
            break
        for part in message["content"]:
            text, tag = text + part["text"], part["cache_control"].get("tag", "untagged")
            assert part["cache_control"]["type"] == "shared"
    return text, tag


@contextmanager
def serve_model() -> Iterator[Endpoint]:
    """Serves until the block ends."""
    state = Endpoint("")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            model = {"id": "loopback-model"} | ({"owned_by": "deepedu"} if state.is_ours else {})
            self._answer({"data": [model]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "/cache/" in self.path:
                self._cache(self.path.rpartition("/")[2], body)
                return
            state.requests += 1
            state.bodies.append(body)
            try:
                self._begin_stream()
                for word in state.reply.split(" "):
                    self._send({"choices": [{"delta": {"content": word + " "}}]})
                    time.sleep(state.pause_s)
                self._send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
                if state.is_ours:
                    self._send(self._usage(body))
            except OSError:
                pass  # The client was killed, which is the point of one test.

        def _usage(self, body: dict[str, Any]) -> dict[str, Any]:
            text, _ = shared_text(body)
            cached = len(text.split()) if text in state.cached else 0
            engine = {"method": "dense", "cached_from": "disk" if cached else None}
            details = {"prompt_tokens_details": {"cached_tokens": cached}} | (
                {"engine": engine} if body.get("usage_details") else {}
            )
            return {"choices": [], "usage": {"prompt_tokens": 2310, "completion_tokens": 9, **details}}

        def _cache(self, verb: str, body: dict[str, Any]) -> None:
            if not (state.is_ours and state.has_cache):
                self._answer({"error": {"message": "not found"}}, 404)
            elif verb == "forget":
                state.forgotten.append(body["tag"])
                gone = [text for text, tag in state.cached.items() if tag == body["tag"]]
                for text in gone:
                    del state.cached[text]
                    state.begun.pop(text, None)
                self._answer({"files": len(gone), "bytes": 1000 * len(gone)})
            elif verb == "lookup":
                text, _ = shared_text(body)
                total = len(text.split())
                done = total if text in state.cached else state.begun.get(text, 0)
                where = "disk" if done == total else None
                self._answer(
                    {"shared_tokens": total, "cached_tokens": done, "cached_from": where, "warm": done == total}
                )
            elif state.busy_times:
                state.busy_times -= 1
                self._answer({"error": {"message": "queue full"}}, 429)
            else:
                self._warm(*shared_text(body))

        def _warm(self, text: str, tag: str) -> None:
            total = len(text.split())
            try:
                self._begin_stream()
                for done in range(state.begun.get(text, 0), total, STEP_TOKENS):
                    state.begun[text] = done
                    self._send({"done_tokens": done, "total_tokens": total})
                    time.sleep(state.pause_s)
                state.cached[text] = tag
                self._send({"done_tokens": total, "total_tokens": total, "stored": state.stored, "bytes": 1000 * total})
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                pass  # The client left, as Ctrl-C does.

        def _begin_stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()

        def _answer(self, body: dict[str, Any], status: int = 200) -> None:
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def _send(self, chunk: dict[str, object]) -> None:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()
