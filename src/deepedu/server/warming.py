"""Warming new books in the background, while the server runs and people ask: their requests go first.

It follows the library rather than a list of its own, so it finds books that another process ingested, and goes on
where a stopped server left off.
"""

import asyncio
import logging
from contextlib import aclosing

from deepedu.base.config import TutorSettings
from deepedu.base.errors import DeepEduError, Unsupported
from deepedu.llm.prefix_cache import PrefixCache
from deepedu.store import Database
from deepedu.store.library import list_books
from deepedu.tutor.warming import LessonWarm, plan_warming, warm_lessons

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0


async def warm_in_background(database: Database, cache: PrefixCache, settings: TutorSettings) -> None:
    """Warms every ready book once, and those that become ready later. Runs until it is cancelled, the server turns
    out to have no cache, or its disk takes no more."""
    done: set[int] = set()
    while True:
        try:
            books = [
                b for b in await asyncio.to_thread(list_books, database) if b.status == "ready" and b.id not in done
            ]
            # The newest first: it is the one that somebody waits for.
            for book in sorted(books, key=lambda book: -book.id):
                if not await _warm_book(database, book.id, cache, settings):
                    return
                done.add(book.id)
        except Unsupported as error:
            log.warning("lessons are not warmed: %s", error)
            return
        except DeepEduError as error:
            log.warning("warming lessons goes on in %g s: %s", LOOK_EVERY_S, error)
        await asyncio.sleep(LOOK_EVERY_S)


async def _warm_book(database: Database, book_id: int, cache: PrefixCache, settings: TutorSettings) -> bool:
    """Whether what was computed could be kept on disk."""
    plan = await plan_warming(database, book_id, cache, settings)
    if plan.cold:
        log.info("warming %d lessons of book %d, %d tokens", len(plan.cold), book_id, plan.cold_tokens)
    async with aclosing(warm_lessons(database, plan, cache)) as steps:
        async for step in steps:
            if isinstance(step, LessonWarm) and step.stored != "disk":
                log.warning("lessons are no longer warmed: the model server could not keep one on disk; is it full?")
                return False
    return True
