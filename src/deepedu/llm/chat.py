"""What the tutor needs of a language model, whoever serves it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Delta:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True)
class Finished:
    """End of a reply. Token counts are the server's own; None where it did not tell."""

    finish_reason: str | None
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    first_token_ms: float | None
    tokens_per_s: float | None


class ChatModel(Protocol):
    """Streams one reply."""

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncGenerator[Delta | Finished, None]:
        """Yields deltas, then exactly one ``Finished``. Closing the iterator stops the model's work.

        Raises:
            LLMError: and its kinds; after the first delta the reply is broken off and never started again.
        """
        ...
