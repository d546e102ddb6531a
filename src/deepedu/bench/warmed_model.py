"""A model whose lessons are computed before it is asked, so that only what a warm prompt costs is measured."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from deepedu.base.errors import Unsupported
from deepedu.llm.chat import ChatModel, Delta, Finished, Message
from deepedu.llm.prefix_cache import PrefixCache


class WarmedModel:
    """Asks ``model``, after warming the lesson that the messages begin with; without a cache there it just asks."""

    def __init__(self, model: ChatModel, cache: PrefixCache) -> None:
        self._model = model
        self._cache = cache

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``."""
        # Rules alone carry no tag, and are soon computed.
        if any(part.tag for message in messages if not isinstance(message.content, str) for part in message.content):
            await self._warm(messages)
        async with aclosing(self._model.stream(messages, max_tokens=max_tokens, owner=owner)) as reply:
            async for event in reply:
                yield event

    async def _warm(self, messages: Sequence[Message]) -> None:
        try:
            async with aclosing(self._cache.warm(messages)) as steps:
                async for _ in steps:
                    pass
        except Unsupported:
            return
