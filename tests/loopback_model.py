"""An OpenAI-compatible model server on loopback that says what it is told to."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

TRUE_DRAFT = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."


@dataclass
class Endpoint:
    """A model server that streams ``reply`` word by word, with a pause after each."""

    url: str
    reply: str = TRUE_DRAFT
    pause_s: float = 0.0
    requests: int = 0


@contextmanager
def serve_model() -> Iterator[Endpoint]:
    """Serves until the block ends."""
    state = Endpoint("")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "loopback-model"}]}')

        def do_POST(self) -> None:
            state.requests += 1
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for word in state.reply.split(" "):
                    self._send({"choices": [{"delta": {"content": word + " "}}]})
                    time.sleep(state.pause_s)
                self._send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            except OSError:
                pass  # The client was killed, which is the point of one test.

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
