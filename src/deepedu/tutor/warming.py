"""Warming a book: the model's server computes its lessons before anybody asks, one after the other.

What is done is kept, so warming that was stopped goes on where it stopped, within a lesson too.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from deepedu.base.config import TutorSettings
from deepedu.base.errors import LLMBusy, NotFound, Unsupported
from deepedu.llm.prefix_cache import PrefixCache, WarmProgress
from deepedu.store import Database
from deepedu.store.library import document_digests
from deepedu.tutor.lesson import LessonText, lesson_opening, load_lesson, load_lessons, misfit

log = logging.getLogger(__name__)

# A server whose queue is full of people's requests is asked again this often.
BUSY_TRIES = 20
BUSY_PAUSE_S = 3.0


@dataclass(frozen=True)
class PlannedLesson:
    """A lesson with its length in the server's own tokens, rules included, how much of that is computed already, and
    whether that is all."""

    lesson: LessonText
    tokens: int
    cached_tokens: int
    is_warm: bool


@dataclass(frozen=True)
class WarmingPlan:
    """A book's lessons in reading order; ``left_out`` are read as passages, each with the reason in Vietnamese."""

    book_id: int
    lessons: tuple[PlannedLesson, ...]
    left_out: tuple[tuple[LessonText, str], ...]

    @property
    def cold(self) -> tuple[PlannedLesson, ...]:
        """What is to be done."""
        return tuple(planned for planned in self.lessons if not planned.is_warm)

    @property
    def cold_tokens(self) -> int:
        """What is to be computed."""
        return sum(planned.tokens - planned.cached_tokens for planned in self.cold)


@dataclass(frozen=True)
class LessonProgress:
    """Lesson ``number`` of ``count`` cold ones is computed as far as ``done_tokens`` of ``total_tokens``."""

    lesson: LessonText
    number: int
    count: int
    done_tokens: int
    total_tokens: int


@dataclass(frozen=True)
class LessonWarm:
    """Lesson ``number`` of ``count`` cold ones is done; ``stored`` on ``"disk"`` or in ``"memory"`` only."""

    lesson: LessonText
    number: int
    count: int
    tokens: int
    stored: str
    stored_bytes: int


async def plan_warming(database: Database, book_id: int, cache: PrefixCache, settings: TutorSettings) -> WarmingPlan:
    """Looks every lesson of a book up.

    Raises:
        NotFound: no such book, or it is not ready.
        Unsupported: the server has no prefix cache.
        LLMError: it did not answer.
        StoreError: the database failed.
    """
    lessons = await asyncio.to_thread(load_lessons, database, book_id)
    if not lessons:
        raise NotFound(f"không có sách số {book_id}, hoặc sách chưa đọc xong; 'deepedu books' liệt kê các sách")
    planned: list[PlannedLesson] = []
    left_out: list[tuple[LessonText, str]] = []
    for lesson in lessons:
        reason = misfit(lesson, settings)
        if reason is not None:
            left_out.append((lesson, reason))
            continue
        state = await cache.lookup(lesson_opening(lesson))
        if state is None:
            raise Unsupported(
                "máy chủ mô hình đang dùng không có bộ nhớ đệm bài học; hãy dùng máy chủ của DeepEdu bản mới nhất "
                "(deepedu serve, hoặc bỏ --llm)"
            )
        planned.append(PlannedLesson(lesson, state.shared_tokens, state.cached_tokens, state.is_warm))
    return WarmingPlan(book_id, tuple(planned), tuple(left_out))


async def warm_lessons(
    database: Database, plan: WarmingPlan, cache: PrefixCache
) -> AsyncGenerator[LessonProgress | LessonWarm, None]:
    """Warms the cold lessons of a plan in reading order. Closing the iterator stops; what is done is kept.

    A book that is deleted meanwhile ends it, and leaves nothing of it in the cache.

    Raises:
        Unsupported: the server has no prefix cache.
        LLMError: it failed or its disk is full; what is done is kept.
        StoreError: the database failed.
    """
    count = len(plan.cold)
    for number, planned in enumerate(plan.cold, 1):
        lesson = await asyncio.to_thread(load_lesson, database, planned.lesson.section_id)
        if lesson is None:
            await cache.forget(planned.lesson.tag)
            return
        async with aclosing(_warm(cache, lesson)) as steps:
            async for step in steps:
                if await _is_gone(database, plan.book_id):
                    await cache.forget(lesson.tag)
                    return
                if step.stored is None:
                    yield LessonProgress(lesson, number, count, step.done_tokens, step.total_tokens)
                else:
                    size = step.stored_bytes or 0
                    yield LessonWarm(lesson, number, count, step.total_tokens, step.stored, size)


async def _warm(cache: PrefixCache, lesson: LessonText) -> AsyncGenerator[WarmProgress, None]:
    for tries_left in reversed(range(BUSY_TRIES)):
        try:
            async with aclosing(cache.warm(lesson_opening(lesson))) as steps:
                async for step in steps:
                    yield step
            return
        except LLMBusy as error:
            if not tries_left:
                raise
            await asyncio.sleep(BUSY_PAUSE_S if error.retry_after_s is None else error.retry_after_s)


async def _is_gone(database: Database, book_id: int) -> bool:
    return not await asyncio.to_thread(document_digests, database, [book_id])
