"""Computing a lesson ahead of time."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.engine.events import Warmed, WarmProgress  # noqa: E402
from deepedu.engine.prompt import Prompt  # noqa: E402
from deepedu.engine.runner import Runner  # noqa: E402
from deepedu.engine.warming import Warming  # noqa: E402

LESSON = torch.randint(5, 390, (200,), generator=torch.Generator().manual_seed(0)).tolist()
PROMPT = Prompt([*LESSON, 7, 8, 9], 200, tag="book-1")


def warmed(runner: Runner, steps: int = 99) -> list[Any]:
    warming = Warming(runner, PROMPT)
    assert warming.begin()
    events: list[Any] = []
    while warming.prefilling and steps:
        events += warming.prefill(64)
        steps -= 1
    if warming.prefilling:
        events += warming.cancel()
    warming.end()
    return events


def test_only_the_shared_tokens_are_computed_and_told(make_runner: Callable[..., Runner]) -> None:
    runner = make_runner()
    events = warmed(runner)
    assert [event for event in events if isinstance(event, WarmProgress)] == [
        WarmProgress(done, 200) for done in (64, 128, 192, 200)
    ]
    assert isinstance(events[-1], Warmed)
    assert (events[-1].segment.rows, events[-1].segment.tag) == (200, "book-1")
    assert runner.cache.look(PROMPT) == (200, "memory")
    assert runner.cache.reserved_bytes == 0


def test_what_is_warm_already_is_told_at_once(make_runner: Callable[..., Runner]) -> None:
    runner = make_runner()
    first = warmed(runner)[-1]
    events = warmed(runner)
    assert events == [WarmProgress(200, 200), Warmed(first.segment)]


def test_interrupted_it_leaves_whole_blocks_to_the_next(make_runner: Callable[..., Runner]) -> None:
    runner = make_runner()
    assert warmed(runner, steps=2) == [WarmProgress(64, 200), WarmProgress(128, 200)]
    assert runner.cache.reserved_bytes == 0
    assert runner.cache.look(PROMPT) == (128, "memory")
    assert [event.done_tokens for event in warmed(runner) if isinstance(event, WarmProgress)] == [192, 200]


def test_it_waits_for_memory(make_runner: Callable[..., Runner]) -> None:
    runner = make_runner(disk_gb=0)
    runner.cache.limit_bytes = 210 * runner.row_bytes
    other = runner.begin(Prompt([5] * 50), 0)
    assert other is not None
    assert not Warming(runner, PROMPT).begin()
    runner.end(other)
    assert isinstance(warmed(runner)[-1], Warmed)
