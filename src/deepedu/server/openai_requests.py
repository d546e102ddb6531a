"""Requests of the OpenAI interface to the tutor: what is served, what is ignored and said so, what is refused.

As strict as our engine, which reads the same interface for models (``engine.openai_requests``): a parameter that is not
known is an error, never swallowed. What would steer a model's words (temperature, limits, system messages) is
checked and has no effect: the tutor answers by the school's rules.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepedu.base.errors import RequestRefused
from deepedu.base.openai_parameters import HARMLESS, IGNORED
from deepedu.tutor.turn import LONGEST_QUESTION

# Stands before the sources in an answer; what follows it is no part of what was said.
SOURCES = "\n\nNguồn:\n"
_MARKER = re.compile(r"\s*\[\d+\]")
SYSTEM_MESSAGES = "messages.system"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Part(_Strict):
    type: Literal["text"]
    text: str
    cache_control: dict[str, Any] | None = None


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None

    @property
    def text(self) -> str:
        parts = self.content
        return parts if isinstance(parts, str) else "\n".join(part.text for part in parts)


class _StreamOptions(_Strict):
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


_Stop = Annotated[str, Field(min_length=1)]


class _Steering(_Strict):
    """Checked as the engine does, and without effect."""

    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] = []
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)


class _Body(_Steering):
    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    stream: bool = False
    stream_options: _StreamOptions | None = None
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None


@dataclass(frozen=True)
class ChatRequest:
    """A question of one of a program's users.

    ``history``: questions and answers before it, oldest first, as the program tells them. ``user``: the program's name
    for who asks, empty where it told none. ``ignored``: parameters that have no effect here.
    """

    model: str
    question: str
    history: tuple[tuple[str, str], ...]
    user: str
    stream: bool
    include_usage: bool
    ignored: tuple[str, ...]


def read_chat(raw: bytes) -> ChatRequest:
    """Reads the body of ``/v1/chat/completions``.

    Raises:
        RequestRefused: not JSON, a parameter that is unknown or not served, a value of the wrong kind, or a chat that
            does not end with a question; ``param`` names it.
    """
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not JSON ({error})", kind="invalid_json") from error
    if not isinstance(values, dict):
        raise RequestRefused(f"the body must be a JSON object, came {type(values).__name__}", kind="invalid_json")
    # Null means "not given" in this interface; in messages too, which programs send back as they came.
    given = _without_null(values)
    if isinstance(given.get("messages"), list):
        given["messages"] = [_without_null(each) if isinstance(each, dict) else each for each in given["messages"]]
    ignored = _screen(given)
    try:
        body = _Body.model_validate({name: value for name, value in given.items() if name not in ignored})
    except ValidationError as error:
        raise _explained(error) from error
    if body.stream_options is not None and not body.stream:
        raise RequestRefused("stream_options needs stream to be true", param="stream_options")
    if body.messages[-1].role != "user":
        raise RequestRefused(
            f"messages: the last one must be the user's question, came role {body.messages[-1].role!r}",
            param="messages",
            kind="invalid_value",
        )
    return ChatRequest(
        model=body.model,
        question=body.messages[-1].text,
        history=_history(body.messages[:-1]),
        user=body.user or "",
        stream=body.stream,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
        ignored=(*ignored, *(name for name in _Steering.model_fields if name in given), *_ignored_in(body.messages)),
    )


def _without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _history(messages: Sequence[_Message]) -> tuple[tuple[str, str], ...]:
    """Pairs of question and answer. A question that was never answered is left out, as a broken turn is."""
    pairs: list[tuple[str, str]] = []
    question = ""
    for message in messages:
        if message.role == "user":
            question = " ".join(message.text.split())[:LONGEST_QUESTION]
        elif message.role == "assistant" and question:
            answer = _MARKER.sub("", message.text.partition(SOURCES)[0]).strip()[:LONGEST_QUESTION]
            pairs.append((question, answer))
            question = ""
    return tuple(pairs)


def _ignored_in(messages: Sequence[_Message]) -> list[str]:
    parts = [part for message in messages if isinstance(message.content, list) for part in message.content]
    found = {
        SYSTEM_MESSAGES: any(message.role in ("system", "developer") for message in messages),
        "messages.name": any(message.name is not None for message in messages),
        "messages.content.cache_control": any(part.cache_control is not None for part in parts),
    }
    return [name for name, is_there in found.items() if is_there]


def _screen(given: Mapping[str, Any]) -> list[str]:
    ignored: list[str] = []
    for name, value in given.items():
        if name in _Body.model_fields:
            continue
        if name in HARMLESS and not HARMLESS[name](value):
            raise RequestRefused(
                f"{name}={_short(value)} is not supported by this server: leave {name} out",
                param=name,
                kind="unsupported_parameter",
            )
        if name not in IGNORED and name not in HARMLESS:
            close = difflib.get_close_matches(name, [*_Body.model_fields, *IGNORED, *HARMLESS], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ": leave it out"
            raise RequestRefused(f"unknown parameter {name!r}{hint}", param=name, kind="unknown_parameter")
        ignored.append(name)
    return ignored


def _explained(error: ValidationError) -> RequestRefused:
    # A union reports one error per alternative; the deepest is about the alternative that was meant.
    detail = max(error.errors(), key=lambda each: len(each["loc"]))
    path = [
        str(part)
        for part in detail["loc"]
        if isinstance(part, int) or (part.isidentifier() and part not in ("str", "int"))
    ]
    param = ".".join(path)
    if detail["type"] == "missing":
        message = f"{param} is missing"
    elif detail["type"] == "extra_forbidden":
        message = f"{param} is not supported by this server: leave it out"
    else:
        message = f"{param}: {detail['msg'].lower()}, came {_short(detail['input'])}"
    return RequestRefused(message, param=param or None, kind="invalid_value")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
