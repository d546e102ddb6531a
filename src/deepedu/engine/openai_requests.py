"""Requests of the OpenAI interface: what is served, what is ignored and said so, what is refused.

Differences on purpose: ``temperature`` is 0 unless given (the same question gives the same answer), and a parameter
that is not known is an error, never swallowed.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepedu.base.errors import RequestRefused
from deepedu.base.openai_parameters import HARMLESS, IGNORED
from deepedu.engine.chat_prompt import ChatMessage, ChatPart

# Names a folder on disk.
_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Legacy default of /v1/completions.
COMPLETION_MAX_TOKENS = 16


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    type: Literal["text"]
    text: str
    cache_control: dict[str, Any] | None = None


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


_Stop = Annotated[str, Field(min_length=1)]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    model: str
    stream: bool = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: _Stop | Annotated[list[_Stop], Field(max_length=16)] = []
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    # Whose conversation it is: only his own later requests reuse what is computed of its private part.
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    # Ours: what the attention method did, in the response's usage.
    usage_details: bool = False

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatRequest(_Request):
    """Body of ``/v1/chat/completions``."""

    messages: Annotated[list[_Message], Field(min_length=1)]
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @property
    def completion_limit(self) -> int | None:
        """Tokens asked for at most, None if not said."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def chat_messages(self) -> list[ChatMessage]:
        """The messages in parts; a part with ``cache_control`` of type ``shared`` may serve everyone.

        Raises:
            RequestRefused: a tag that is no plain name.
        """
        return [
            ChatMessage(
                # OpenAI's newer name; templates know the older one.
                "system" if message.role == "developer" else message.role,
                (ChatPart(message.content),)
                if isinstance(message.content, str)
                else tuple(_chat_part(part) for part in message.content),
            )
            for message in self.messages
        ]


class CacheRequest(BaseModel):
    """Body of ``/v1/cache/lookup`` and ``/v1/cache/warm``: the beginning of a chat."""

    model_config = ConfigDict(strict=True, extra="forbid")
    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]

    def chat_messages(self) -> list[ChatMessage]:
        """As ``ChatRequest.chat_messages``."""
        return ChatRequest(model=self.model, messages=self.messages).chat_messages()


class ForgetRequest(BaseModel):
    """Body of ``/v1/cache/forget``."""

    model_config = ConfigDict(strict=True, extra="forbid")
    tag: Annotated[str, Field(pattern=f"^{_TAG.pattern}$")]


def _chat_part(part: _Part) -> ChatPart:
    control = part.cache_control or {}
    if control.get("type") != "shared":
        return ChatPart(part.text)
    tag = control.get("tag")
    if tag is not None and not (isinstance(tag, str) and _TAG.fullmatch(tag)):
        raise RequestRefused(
            f"cache_control.tag: expected up to 64 of a-z, 0-9, '.', '_' and '-', came {tag!r}",
            param="messages.content.cache_control",
            kind="invalid_value",
        )
    return ChatPart(part.text, shared=True, tag=tag)


class CompletionRequest(_Request):
    """Body of ``/v1/completions``."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)] | Annotated[list[int], Field(min_length=1)]

    @property
    def completion_limit(self) -> int | None:
        """Tokens asked for at most."""
        return COMPLETION_MAX_TOKENS if self.max_tokens is None else self.max_tokens


Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True)
class Parsed(Generic[Body]):
    """A request that can be served, and the parameters in it that have no effect here."""

    body: Body
    ignored: tuple[str, ...]


# Those of the older completions besides.
_HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    **HARMLESS,
    "best_of": HARMLESS["n"],
    "echo": lambda value: value is False,
    "suffix": lambda value: value == "",
}


def parse(kind: type[Body], raw: bytes) -> Parsed[Body]:
    """Reads a request body.

    Raises:
        RequestRefused: not JSON, a parameter that is unknown or not served, or a value of the wrong kind; ``param``
            names it.
    """
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not JSON ({error})", kind="invalid_json") from error
    if not isinstance(values, dict):
        raise RequestRefused(f"the body must be a JSON object, came {type(values).__name__}", kind="invalid_json")
    # Null means "not given" in this interface.
    given = {name: value for name, value in values.items() if value is not None}
    ignored = _screen(given, kind)
    known = {name: value for name, value in given.items() if name not in ignored}
    try:
        body = kind.model_validate(known)
    except ValidationError as error:
        raise _explained(error) from error
    if isinstance(body, _Request) and body.stream_options is not None and not body.stream:
        raise RequestRefused("stream_options needs stream to be true", param="stream_options")
    if isinstance(body, ChatRequest):
        ignored += _ignored_in_messages(body)
    return Parsed(body, tuple(ignored))


def _screen(given: Mapping[str, Any], kind: type[BaseModel]) -> list[str]:
    ignored: list[str] = []
    for name, value in given.items():
        if name in kind.model_fields:
            continue
        if name in IGNORED:
            ignored.append(name)
        elif name in _HARMLESS:
            if not _HARMLESS[name](value):
                raise RequestRefused(
                    f"{name}={_short(value)} is not supported by this server: leave {name} out",
                    param=name,
                    kind="unsupported_parameter",
                )
            ignored.append(name)
        else:
            close = difflib.get_close_matches(name, [*kind.model_fields, *IGNORED, *_HARMLESS], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ": leave it out"
            raise RequestRefused(f"unknown parameter {name!r}{hint}", param=name, kind="unknown_parameter")
    return ignored


def _ignored_in_messages(body: ChatRequest) -> list[str]:
    ignored = ["messages.name"] if any(message.name is not None for message in body.messages) else []
    parts = (part for message in body.messages if isinstance(message.content, list) for part in message.content)
    if any(part.cache_control is not None and part.cache_control.get("type") != "shared" for part in parts):
        ignored.append("messages.content.cache_control")
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
