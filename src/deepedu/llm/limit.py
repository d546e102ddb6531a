"""A model that is not asked too much at once: loops over many questions would fill a server's queue."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from deepedu.llm.chat import ChatModel, Delta, Finished, Message


class LimitedModel:
    """Asks ``model`` at most ``at_once`` times at the same time; the others wait their turn."""

    def __init__(self, model: ChatModel, at_once: int) -> None:
        self._model = model
        self._turns = asyncio.Semaphore(at_once)

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``."""
        async with self._turns, aclosing(self._model.stream(messages, max_tokens=max_tokens, owner=owner)) as reply:
            async for event in reply:
                yield event
