"""A pupil's browser, as far as the application can tell: a cookie, an origin, one connection that is kept open.

Made on ``http.client``, which takes little time of its own; every answer is looked through for other pupils' markers.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

from deepedu.bench.load.markers import strangers

# Events that end a turn; what stands before them is not yet the end.
_ENDS = ("completed", "hint", "care", "closed")
# The first event that a pupil has something of.
_USEFUL = ("found", *_ENDS)
TIMEOUT_S = 120.0
# Opens the comment that tells the model's own time; see ``serve``.
MODEL_TIME = ": model "


class Broken(Exception):
    """An answer that should not have come; the message tells which."""


@dataclass(frozen=True)
class Reply:
    """A whole answer. ``ms``: from sending the request to the last byte."""

    status: int
    body: str
    ms: float

    def json(self) -> Any:
        """The body's values."""
        return json.loads(self.body)


@dataclass
class Asked:
    """What came of a question. Times are in milliseconds from sending it; ``model_ms`` is the model's own share."""

    name: str = ""
    conversation_id: int = 0
    turn_id: int = 0
    draft: str = ""
    first_ms: float = 0.0
    done_ms: float = 0.0
    model_ms: float = 0.0
    end: dict[str, Any] = field(default_factory=dict)

    @property
    def own_ms(self) -> float:
        """What the application took of the whole."""
        return self.done_ms - self.model_ms

    @property
    def own_first_ms(self) -> float:
        """What it took until the first useful event; the model has not spoken before it but in a hint."""
        return self.first_ms - (self.model_ms if self.name == "hint" else 0.0)


class Browser:
    """One pupil's browser. ``foreign`` collects markers that were not this pupil's."""

    def __init__(self, url: str, pupil: int) -> None:
        self._pupil = pupil
        self._host = urlsplit(url).netloc
        self._origin = url
        self._cookies: dict[str, str] = {}
        self._connection: HTTPConnection | None = None
        self.foreign: list[str] = []
        self.requests = 0

    def move_to(self, url: str) -> None:
        """The same browser, cookies and all, at the address of a server that was started anew."""
        self.close()
        self._host, self._origin = urlsplit(url).netloc, url

    def in_another_window(self) -> "Browser":
        """The same sign-in over a connection of its own."""
        other = Browser(self._origin, self._pupil)
        other._cookies = dict(self._cookies)
        return other

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, *, expect: int = 200) -> Reply:
        """Fetches a page or values. Raises: Broken."""
        return self._whole("GET", path, None, expect)

    def post_form(self, path: str, fields: Mapping[str, str], *, expect: int = 303) -> Reply:
        """Sends a form. Raises: Broken."""
        return self._whole("POST", path, (urlencode(fields), "application/x-www-form-urlencoded"), expect)

    def send_json(self, method: str, path: str, values: Any = None, *, expect: int = 200) -> Reply:
        """Sends values. Raises: Broken."""
        return self._whole(method, path, (json.dumps(values), "application/json"), expect)

    def sign_in(self, username: str, password: str) -> Reply:
        """Signs in by the form. Raises: Broken."""
        self._cookies.clear()
        reply = self.post_form("/login", {"username": username, "password": password})
        if not self._cookies:
            raise Broken("signed in, and no cookie came")
        return reply

    def ask(self, question: str, conversation_id: int | None = None, *, asked: Asked | None = None) -> Asked:
        """Asks, and reads the answer to its end.

        Args:
            asked: is filled in while the answer comes, for callers that may be cut off.

        Raises:
            Broken: an error came, or no end.
        """
        asked = asked if asked is not None else Asked()
        body = json.dumps({"question": question, "conversation_id": conversation_id})
        sent_at, response = self._send("POST", "/api/ask", (body, "application/json"))
        lines: list[str] = []
        try:
            name = ""
            while raw := response.readline():
                line = raw.decode()
                lines.append(line)
                if line.startswith("event: "):
                    name = line[7:].strip()
                elif line.startswith("data: "):
                    _take(asked, name, line[6:], (time.perf_counter() - sent_at) * 1000)
                elif line.startswith(MODEL_TIME):
                    asked.model_ms = float(line.removeprefix(MODEL_TIME))
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise Broken(f"the answer broke off: {error!r}") from error
        finally:
            self._look("".join(lines))
        if response.status != 200:
            raise Broken(f"/api/ask answered {response.status}: {''.join(lines)[:300]}")
        if asked.name not in _ENDS:
            raise Broken(f"the answer ended with {asked.name or 'nothing'!r}: {''.join(lines)[-300:]}")
        return asked

    def _whole(self, method: str, path: str, body: tuple[str, str] | None, expect: int) -> Reply:
        sent_at, response = self._send(method, path, body)
        try:
            text = response.read().decode()
        except (OSError, HTTPException) as error:
            self.close()
            raise Broken(f"{method} {path} broke off: {error!r}") from error
        reply = Reply(response.status, text, (time.perf_counter() - sent_at) * 1000)
        self._look(text)
        for header in response.headers.get_all("set-cookie", []):
            name, _, value = header.split(";")[0].partition("=")
            self._cookies[name] = value
        if reply.status != expect:
            raise Broken(f"{method} {path} answered {reply.status}, not {expect}: {text[:300]}")
        return reply

    def _send(self, method: str, path: str, body: tuple[str, str] | None) -> tuple[float, HTTPResponse]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        headers["Accept"] = "application/json" if path.startswith("/api/") else "text/html"
        if body is not None:
            headers |= {"Content-Type": body[1], "Origin": self._origin}
        self.requests += 1
        sent_at = time.perf_counter()
        try:
            if self._connection is None:
                self._connection = HTTPConnection(self._host, timeout=TIMEOUT_S)
            self._connection.request(method, path, None if body is None else body[0].encode(), headers)
            return sent_at, self._connection.getresponse()
        except (OSError, HTTPException) as error:
            self.close()
            raise Broken(f"{method} {path}: {error!r}") from error

    def _look(self, text: str) -> None:
        self.foreign += strangers(text, self._pupil)


def _take(asked: Asked, name: str, data: str, ms: float) -> None:
    asked.name = name
    if not asked.first_ms and name in _USEFUL:
        asked.first_ms = ms
    if name == "draft":
        asked.draft += json.loads(data)["text"]
    elif name == "started":
        values = json.loads(data)
        asked.conversation_id, asked.turn_id = values["conversation_id"], values["turn_id"]
    elif name in _ENDS:
        asked.done_ms, asked.end = ms, json.loads(data)
