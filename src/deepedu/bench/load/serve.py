"""The school's application with a scripted model, in a process of its own: ``python -m deepedu.bench.load.serve FILE``.

``FILE`` holds the settings as JSON and the model's pace. The first line of the output tells the address.

The model speaks by a timetable that is fixed when it is asked: the first word after ``first_token_ms``, one more every
``token_ms``. Where the application is late to listen, the words lie ready for it, as they would on a wire. So the time
that the model itself takes is known exactly, and everything above it is the application's. Because a pupil's browser is
not told of every call (a hint may be worded by the model), the last line of every answer of ``/api/ask`` is a comment
of the event stream, ``: model <milliseconds>``: the sum over the turn's calls.
"""

import asyncio
import functools
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepedu.base.config import Settings
from deepedu.base.egress import guard
from deepedu.base.vietnamese import sentence_spans
from deepedu.bench.load.browser import MODEL_TIME
from deepedu.bench.load.markers import last_marker
from deepedu.llm import chat
from deepedu.llm.chat import Delta, Finished
from deepedu.llm.scripted import ScriptedModel
from deepedu.server.app import create_app

_BETWEEN = re.compile(r"\n\n(?=\[\d+\] )")
_PASSAGE = re.compile(r"\[(\d+)\] [^:]*: (.+)", re.DOTALL)
# Words of a sentence that is one, not a heading; sentences that a reply takes from a passage.
_SHORTEST, _FROM_EACH = 8, 2
_WORDING = "Lời gợi ý: "
# What each call of this turn's model took, in milliseconds.
_calls: ContextVar[list[float] | None] = ContextVar("calls", default=None)


@dataclass(frozen=True)
class Pace:
    """How fast the scripted model speaks, and about how many words it says."""

    first_token_ms: float = 400.0
    token_ms: float = 40.0
    words: int = 60


def script(words: int, messages: Sequence[chat.Message]) -> str:
    """A reply as a model gives one: the book's own sentences with their markers, after a remark that holds the
    question's marker. A hint to word is said again as it is."""
    asked = messages[-1].text
    if asked.startswith(_WORDING):
        return asked.removeprefix(_WORDING)
    said, count = [f"Câu hỏi này của em {last_marker(asked)} rất hay."], 0
    for piece in _BETWEEN.split(asked.rpartition("\n\nCâu hỏi: ")[0]):
        if (passage := _PASSAGE.match(piece)) is None:
            continue
        for sentence in _whole_sentences(passage[2]):
            if count < words:
                said.append(f"{sentence} [{passage[1]}].")
                count += len(sentence.split())
    return " ".join(said)


# There are few passages and many questions: what it takes to reply must not be taken for the application's time.
@functools.cache
def _whole_sentences(text: str) -> tuple[str, ...]:
    sentences = [text[start:end].rstrip(". ") for start, end in sentence_spans(text)]
    return tuple(sentence for sentence in sentences if len(sentence.split()) >= _SHORTEST)[:_FROM_EACH]


class PacedModel:
    """A scripted model that takes its time and no noticeable work."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    async def stream(
        self, messages: Sequence[chat.Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``."""
        asked_at, due_ms = time.perf_counter(), self._pace.first_token_ms
        model = ScriptedModel(answer=lambda asked: script(self._pace.words, asked), name="paced")
        calls = _calls.get()
        if calls is not None:
            calls.append(0.0)
        async with aclosing(model.stream(messages, max_tokens=max_tokens, owner=owner)) as reply:
            async for event in reply:
                if isinstance(event, Delta):
                    await asyncio.sleep(max(0.0, asked_at + due_ms / 1000 - time.perf_counter()))
                    if calls is not None:
                        calls[-1] = due_ms
                    due_ms += self._pace.token_ms
                yield event


class TellingModelTime:
    """The application, the model's time told at the end of every turn."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/api/ask":
            await self._app(scope, receive, send)
            return
        calls: list[float] = []
        _calls.set(calls)

        streams = False

        async def tell(message: Message) -> None:
            nonlocal streams
            if message["type"] == "http.response.start":
                # An answer that is no stream (a refusal) says how long it is, and is left as it is.
                streams = not any(name.lower() == b"content-length" for name, _ in message["headers"])
            elif streams and not message.get("more_body", False):
                told = f"{MODEL_TIME}{sum(calls):.3f}\n\n".encode()
                message = {**message, "body": message.get("body", b"") + told}
            await send(message)

        await self._app(scope, receive, tell)


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            sys.stdout.write(f"http://127.0.0.1:{port}\n")
            sys.stdout.flush()


def write_orders(path: Path, settings: Settings, pace: Pace) -> None:
    """Writes the file that ``main`` reads."""
    path.write_text(json.dumps({"settings": settings.model_dump(mode="json"), "pace": asdict(pace)}), encoding="utf-8")


def main(path: str) -> None:
    """Serves until the process is ended."""
    orders = json.loads(Path(path).read_text(encoding="utf-8"))
    settings = Settings.model_validate(orders["settings"])
    if settings.server.offline:
        guard(())
    app = TellingModelTime(create_app(settings, model=PacedModel(Pace(**orders["pace"]))))
    _Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none")).run()


if __name__ == "__main__":
    main(sys.argv[1])
