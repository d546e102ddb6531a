"""Warming a book on a loopback engine: planned, done in order, resumed, and undone when the book goes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from deepedu.base.config import LLMSettings, TutorSettings
from deepedu.base.errors import NotFound, Unsupported
from deepedu.curriculum.removal import delete_books
from deepedu.llm.client import ChatClient
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.store import Database
from deepedu.tutor.warming import LessonProgress, LessonWarm, plan_warming, warm_lessons
from loopback_model import Endpoint

SETTINGS = TutorSettings()


def on(endpoint: Endpoint, use: Callable[[PrefixCacheClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with ChatClient(LLMSettings(url=endpoint.url)) as chat:
            return await use(PrefixCacheClient(chat))

    return asyncio.run(run())


def test_a_book_is_planned_and_warmed_in_reading_order(sample_library: Database, endpoint: Endpoint) -> None:
    endpoint.is_ours = True

    async def use(cache: PrefixCacheClient) -> None:
        plan = await plan_warming(sample_library, 1, cache, SETTINGS)
        titles = [planned.lesson.title for planned in plan.cold]
        assert titles[0].startswith("Bài 1.")
        assert titles[-1].startswith("Bài 8.")
        assert {lesson.title for lesson, _ in plan.left_out} >= {"LỜI NÓI ĐẦU"}
        assert plan.cold_tokens == sum(planned.tokens for planned in plan.lessons)
        steps = [step async for step in warm_lessons(sample_library, plan, cache)]
        done = [step for step in steps if isinstance(step, LessonWarm)]
        assert [step.lesson.title for step in done] == titles
        assert [step.number for step in done] == list(range(1, 9))
        assert sum(step.tokens for step in done) == plan.cold_tokens
        assert any(isinstance(step, LessonProgress) for step in steps)
        again = await plan_warming(sample_library, 1, cache, SETTINGS)
        assert (len(again.lessons), again.cold, again.cold_tokens) == (8, (), 0)

    on(endpoint, use)


def test_what_was_begun_is_resumed_and_not_counted_again(sample_library: Database, endpoint: Endpoint) -> None:
    endpoint.is_ours = True

    async def use(cache: PrefixCacheClient) -> None:
        whole = await plan_warming(sample_library, 1, cache, SETTINGS)
        endpoint.pause_s = 0.05
        steps = warm_lessons(sample_library, whole, cache)
        async for step in steps:
            if isinstance(step, LessonProgress) and step.number == 2 and step.done_tokens:
                break
        await steps.aclose()
        rest = await plan_warming(sample_library, 1, cache, SETTINGS)
        assert len(rest.cold) == 7
        assert 0 < rest.cold[0].cached_tokens < rest.cold[0].tokens
        assert rest.cold_tokens == whole.cold_tokens - whole.lessons[0].tokens - rest.cold[0].cached_tokens

    on(endpoint, use)


def test_people_go_first_and_warming_waits(sample_library: Database, endpoint: Endpoint) -> None:
    endpoint.is_ours, endpoint.busy_times = True, 3

    async def use(cache: PrefixCacheClient) -> None:
        plan = await plan_warming(sample_library, 1, cache, SETTINGS)
        assert [s async for s in warm_lessons(sample_library, plan, cache)]

    on(endpoint, use)
    assert endpoint.busy_times == 0
    assert len(endpoint.cached) == 8


def test_a_book_deleted_meanwhile_leaves_nothing(sample_library: Database, endpoint: Endpoint) -> None:
    endpoint.is_ours = True

    async def use(cache: PrefixCacheClient) -> str:
        plan = await plan_warming(sample_library, 1, cache, SETTINGS)
        async for step in warm_lessons(sample_library, plan, cache):
            if isinstance(step, LessonProgress) and step.number == 2 and not step.done_tokens:
                delete_books(sample_library, [1])
        return plan.lessons[0].lesson.tag

    tag = on(endpoint, use)
    assert endpoint.forgotten == [tag]
    assert endpoint.cached == {}


def test_no_book_or_no_cache(sample_library: Database, endpoint: Endpoint) -> None:
    async def use(cache: PrefixCacheClient) -> None:
        with pytest.raises(NotFound, match="99"):
            await plan_warming(sample_library, 99, cache, SETTINGS)
        with pytest.raises(Unsupported, match="bộ nhớ đệm"):
            await plan_warming(sample_library, 1, cache, SETTINGS)

    on(endpoint, use)
