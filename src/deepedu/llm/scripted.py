"""A model that says what it was told to say: for tests, and for trying the product without a model."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from deepedu.llm.chat import Delta, Finished, Message

Reply = str | Exception


@dataclass
class ScriptedModel:
    """Gives ``replies`` in turn, or what ``answer`` makes of the messages; streams a word at a time.

    An exception among the replies is raised in its turn. ``requests`` and ``owners`` keep what was asked and for whom.
    Running out of replies is an error of the script, not an empty answer.
    """

    replies: list[Reply] = field(default_factory=list)
    answer: Callable[[Sequence[Message]], Reply] | None = None
    name: str = "scripted"
    requests: list[tuple[Message, ...]] = field(default_factory=list)
    owners: list[str | None] = field(default_factory=list)

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        self.requests.append(tuple(messages))
        self.owners.append(owner)
        if self.answer is not None:
            reply = self.answer(messages)
        elif self.replies:
            reply = self.replies.pop(0)
        else:
            raise AssertionError(f"the script has no reply left for request {len(self.requests)}")
        if isinstance(reply, Exception):
            raise reply
        pieces = reply.split(" ")[:max_tokens]
        for index, piece in enumerate(pieces):
            yield Delta(piece if index == 0 else f" {piece}")
        whole = len(pieces) == len(reply.split(" "))
        yield Finished("stop" if whole else "length", self.name, None, len(pieces), 0.0, None)
