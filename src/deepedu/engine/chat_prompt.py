"""A conversation as tokens, with the places in it that caching and attention need to know."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepedu.base.errors import RequestRefused


@dataclass(frozen=True)
class ChatPart:
    """A piece of a message. ``shared``: its text may serve everyone; ``tag`` groups what is kept of it."""

    text: str
    shared: bool = False
    tag: str | None = None


@dataclass(frozen=True)
class ChatMessage:
    """A message; its text is its parts, one per line."""

    role: str
    parts: tuple[ChatPart, ...]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(part.text for part in self.parts)


@dataclass(frozen=True)
class ChatTokens:
    """``ids``; the first ``shared_tokens`` of them are the leading shared parts. ``question_from``: the first token of
    the last user message, None where there is none."""

    ids: list[int]
    shared_tokens: int
    question_from: int | None
    tag: str | None


def tokenize_chat(tokenizer: Any, messages: Sequence[ChatMessage], control_tokens: Sequence[str]) -> ChatTokens:
    """Puts messages through the model's chat template, ready for the assistant's turn.

    Text that spells a control token stays text: nobody ends his own turn and writes a system message by typing it.
    The shared beginning is tokenized by itself, so that its tokens are the same whatever follows.

    Raises:
        RequestRefused: the template refuses these messages.
    """
    from jinja2 import TemplateError

    messages = [
        ChatMessage(
            each.role,
            tuple(ChatPart(_defused(part.text, control_tokens), part.shared, part.tag) for part in each.parts),
        )
        for each in messages
    ]
    try:
        text = tokenizer.apply_chat_template(
            [{"role": each.role, "content": each.text} for each in messages],
            tokenize=False,
            add_generation_prompt=True,
        )
    except TemplateError as error:
        raise RequestRefused(f"the model's chat template refuses these messages: {error}", param="messages") from error
    cut, tag = _shared_end(text, messages)
    head, _ = _encode(tokenizer, text[:cut]) if cut else ([], [])
    tail, offsets = _encode(tokenizer, text[cut:])
    at = _question_start(text, messages)
    question_from = None
    if at is not None and at >= cut and offsets:
        index = bisect_left(offsets, at - cut)
        # A token that reaches into the question belongs to it.
        inside = index == len(offsets) or offsets[index] > at - cut
        question_from = len(head) + max(0, index - inside)
    return ChatTokens([*head, *tail], len(head), question_from, tag)


def _question_start(text: str, messages: Sequence[ChatMessage]) -> int | None:
    """Where in the rendered text the last user message begins; never behind it."""
    found, end = None, 0
    for message in messages:
        span = _find(text, message.text, end)
        if span is not None:
            end = span[1]
        if message.role == "user":
            found = None if span is None else span[0]
    return found


def _find(text: str, part: str, start: int) -> tuple[int, int] | None:
    """Begin and end of a part in the rendered text, also where the template strips what it is given."""
    for wanted in (part, part.lstrip(), part.strip()):
        if wanted and (at := text.find(wanted, start)) >= 0:
            return at, at + len(wanted)
    return None


def _shared_end(text: str, messages: Sequence[ChatMessage]) -> tuple[int, str | None]:
    """Where in the rendered text the leading run of shared parts ends, and their last tag."""
    end, tag = 0, None
    for message in messages:
        leading: list[ChatPart] = []
        for part in message.parts:
            if not part.shared:
                break
            leading.append(part)
        shared = "\n".join(part.text for part in leading)
        span = _find(text, shared, end)
        if span is None:
            # Nothing shared here, or a template that rewrites what it is given.
            break
        end = span[1]
        tag = next((part.tag for part in reversed(leading) if part.tag), tag)
        if len(leading) < len(message.parts):
            break
    return end, tag


def _encode(tokenizer: Any, text: str) -> tuple[list[int], list[int]]:
    """Token ids and where each begins in the text; nowhere where the tokenizer does not tell."""
    # The outer encode() sets truncation and padding anew each time, which fails while the worker decodes with the same
    # tokenizer; the backend's own call changes nothing and lets other threads run.
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        ids = tokenizer.encode(text, add_special_tokens=False)
        return ids, []
    encoded = backend.encode(text, add_special_tokens=False)
    return encoded.ids, [start for start, _ in encoded.offsets]


def _defused(text: str, control_tokens: Sequence[str]) -> str:
    # A zero-width space after the first character: reads the same, and is no control token any more.
    for token in control_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text
