"""A model that is not asked too much at once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from deepedu.base.errors import LLMUnreachable
from deepedu.llm.chat import Delta, Finished, Message
from deepedu.llm.limit import LimitedModel
from deepedu.llm.scripted import ScriptedModel


class Counted:
    """Talks until it is let go; counts how many talk at the same time."""

    def __init__(self) -> None:
        self.now = self.most = self.closed = 0

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del max_tokens, owner
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(3):
                await asyncio.sleep(0.001)
                yield Delta(messages[0].text)
            yield Finished("stop", "counted", None, None, None, None)
        finally:
            self.now -= 1
            self.closed += 1


async def reply(model: LimitedModel, text: str = "a", pieces: int = 9) -> str:
    said = ""
    async with aclosing(model.stream([Message("user", text)], max_tokens=9)) as events:
        async for event in events:
            if isinstance(event, Delta):
                said += event.text
                pieces -= 1
            if not pieces:
                break
    return said


@pytest.mark.parametrize("at_once", [1, 3])
def test_only_so_many_at_the_same_time_and_each_gets_its_own(at_once: int) -> None:
    model = Counted()

    async def ask() -> list[str]:
        limited = LimitedModel(model, at_once)
        return await asyncio.gather(*(reply(limited, letter) for letter in "abcdefg"))

    assert asyncio.run(ask()) == [letter * 3 for letter in "abcdefg"]
    assert (model.most, model.now) == (at_once, 0)


def test_what_is_broken_off_or_fails_gives_its_turn_back() -> None:
    model = Counted()

    async def ask() -> str:
        limited = LimitedModel(model, 1)
        await reply(limited, "x", pieces=1)
        # The model's own work ends with it.
        assert (model.now, model.closed) == (0, 1)
        return await asyncio.wait_for(reply(limited, "b"), 5)

    assert asyncio.run(ask()) == "bbb"

    async def fail() -> str:
        limited = LimitedModel(ScriptedModel([LLMUnreachable("gone"), "xong"]), 1)
        with pytest.raises(LLMUnreachable):
            await reply(limited)
        return await asyncio.wait_for(reply(limited), 5)

    assert asyncio.run(fail()) == "xong"


def test_everything_is_handed_on() -> None:
    scripted = ScriptedModel(["một hai ba"])

    async def ask() -> list[Delta | Finished]:
        model = LimitedModel(scripted, 2)
        stream = model.stream([Message("user", "x")], max_tokens=2, owner="lan")
        return [event async for event in stream]

    events = asyncio.run(ask())
    assert [event.text for event in events if isinstance(event, Delta)] == ["một", " hai"]
    assert isinstance(events[-1], Finished)
    assert events[-1].finish_reason == "length"
    assert (scripted.owners, scripted.requests[0][0].text) == (["lan"], "x")
