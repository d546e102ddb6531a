"""What the tutor needs of a language model, whoever serves it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class TextPart:
    """A part of a message.

    ``shared`` marks text that is no one's own (rules, lessons): a server with a prefix cache may keep what it computed
    of it and serve everybody with it. ``tag`` names what it belongs to, so that it can be forgotten together.
    """

    text: str
    shared: bool = False
    tag: str | None = None


@dataclass(frozen=True)
class Message:
    """One message of a chat. Servers read the parts of ``content`` joined by line breaks."""

    role: Literal["system", "user", "assistant"]
    content: str | tuple[TextPart, ...]

    @property
    def text(self) -> str:
        """The content as one string."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)

    @property
    def is_shared(self) -> bool:
        """Whether a part of it is marked shared."""
        return not isinstance(self.content, str) and any(part.shared for part in self.content)


@dataclass(frozen=True)
class Delta:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True)
class Finished:
    """End of a reply. Token counts are the server's own; None where it did not tell.

    ``cached_tokens`` of the prompt were not computed again; ``cached_from`` is ``"memory"`` or ``"disk"``.
    """

    finish_reason: str | None
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    first_token_ms: float | None
    tokens_per_s: float | None
    cached_tokens: int | None = None
    cached_from: str | None = None


class ChatModel(Protocol):
    """Streams one reply."""

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """Yields deltas, then exactly one ``Finished``. Closing the iterator stops the model's work.

        Args:
            owner: whose turns these are, as an opaque word; what is computed of them is reused for no other owner, and
                for nobody without one.

        Raises:
            LLMError: and its kinds; after the first delta the reply is broken off and never started again.
        """
        ...


async def whole_reply(model: ChatModel, messages: Sequence[Message], *, max_tokens: int) -> tuple[str, Finished]:
    """One reply with its end, for callers that have no use for its pieces.

    Raises:
        LLMError: as ``ChatModel.stream``.
    """
    text, finished = "", None
    async with aclosing(model.stream(messages, max_tokens=max_tokens)) as reply:
        async for event in reply:
            if isinstance(event, Finished):
                finished = event
            else:
                text += event.text
    assert finished is not None, "a reply that does not fail has an end"
    return text, finished
