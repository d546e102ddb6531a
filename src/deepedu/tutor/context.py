"""What the model reads of the books: the whole lesson that search points to, or the best passages alone.

``passages`` is cheap to read, so it suits a machine that must read everything anew. ``lesson`` is the same text for
every question about it, so a warmed one costs nearly nothing, and the answer's sentence is always within. ``auto``
takes the lesson exactly where it is warmed. Whenever a wished lesson is not read, the reason is kept.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deepedu.base.config import TutorSettings
from deepedu.base.errors import LLMError
from deepedu.llm.chat import Finished
from deepedu.llm.prefix_cache import PrefixCache
from deepedu.search.evidence import Evidence
from deepedu.store import Database
from deepedu.tutor.lesson import LessonText, lesson_opening, lesson_system, load_lesson, misfit
from deepedu.tutor.prompt import Prompt, build_lesson_prompt, build_prompt

log = logging.getLogger(__name__)

# How long a pupil may be kept waiting to learn whether a lesson is warm, and how long the answer holds.
LOOKUP_WITHIN_S = 1.0
KNOWN_FOR_S = 5.0
_KNOWN_LESSONS = 256

TOO_LONG_FOR_MODEL = "bài dài hơn cửa sổ của mô hình"
ASKS_FOR_EXERCISES = "câu hỏi về phần bài tập"
NOT_WARM = "bài chưa được nạp sẵn"
UNKNOWN_WARM = "không hỏi được bộ nhớ đệm"

_ASKS_FOR_EXERCISE = re.compile(
    r"\b(bài tập|câu hỏi|luyện tập|ôn tập|bai tap|cau hoi|luyen tap|on tap)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Context:
    """What one turn stands on.

    ``evidence`` is in marker order: what the model may be shown comes first. ``ranks[i]`` is the place of
    ``evidence[i]`` in search's order, from 0. ``lesson`` is None when passages serve; ``reason`` then says in
    Vietnamese why no lesson does, if one was wished for.
    """

    evidence: tuple[Evidence, ...]
    ranks: tuple[int, ...]
    lesson: LessonText | None = None
    reason: str | None = None

    def prompt(
        self,
        question: str,
        history: Sequence[tuple[str, str]],
        *,
        passages: int,
        budget_tokens: int,
        learnt: str = "",
    ) -> Prompt:
        """The messages; see ``build_prompt``. A lesson is shown whole, and the budget is for what follows it."""
        if self.lesson is not None:
            system, shown = lesson_system(self.lesson), self.lesson.passages
            return build_lesson_prompt(question, system, shown, history, budget_tokens=budget_tokens, learnt=learnt)
        return build_prompt(
            question, self.evidence, history, passages=passages, budget_tokens=budget_tokens, learnt=learnt
        )


@dataclass(frozen=True)
class ContextUse:
    """How a turn was served, for people and for the record. Token counts are the server's own, None where unknown."""

    policy: str
    passages: int
    lesson: str | None
    reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    cached_from: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain values for storing and for the wire; ``line`` is for people."""
        return {**asdict(self), "line": self.line}

    @property
    def line(self) -> str:
        """In one line of Vietnamese: "Ngữ cảnh: cả bài học (2.310 token, 2.304 lấy từ bộ nhớ đệm)"."""
        what = "cả bài học" if self.policy == "lesson" else f"{self.passages} đoạn sách"
        counts: list[str] = []
        if self.prompt_tokens is not None:
            counts.append(f"{_grouped(self.prompt_tokens)} token")
        if self.cached_tokens:
            place = " trên đĩa" if self.cached_from == "disk" else ""
            counts.append(f"{_grouped(self.cached_tokens)} lấy từ bộ nhớ đệm{place}")
        told = f" ({', '.join(counts)})" if counts else ""
        return f"Ngữ cảnh: {what}{told}" + (f"; không dùng cả bài: {self.reason}" if self.reason else "")


def use_of(context: Context, shown: int, finished: Finished | None) -> ContextUse:
    """How a turn was served, once its model has finished or failed (None)."""
    return ContextUse(
        "passages" if context.lesson is None else "lesson",
        shown,
        None if context.lesson is None else context.lesson.title,
        context.reason,
        finished.prompt_tokens if finished else None,
        finished.cached_tokens if finished else None,
        finished.cached_from if finished else None,
    )


def passages_context(found: Sequence[Evidence], reason: str | None = None) -> Context:
    """Passages alone, in search's order."""
    return Context(tuple(found), tuple(range(len(found))), None, reason)


def lesson_context(found: Sequence[Evidence], lesson: LessonText) -> Context:
    """The whole lesson, then what search found elsewhere: not shown, but answers may be held against it."""
    places = {item.passage_id: rank for rank, item in enumerate(found)}
    inside = {item.passage_id for item in lesson.passages}
    evidence = (*lesson.passages, *(item for item in found if item.passage_id not in inside))
    return Context(evidence, tuple(places.get(item.passage_id, len(found)) for item in evidence), lesson)


def telling(question: str, found: Sequence[Evidence]) -> list[Evidence]:
    """The passages without a lesson's exercises: those ask the pupil's question again and answer nothing. They stay
    when they are asked for, or when there is nothing else."""
    rest = [item for item in found if not item.is_exercise]
    return list(found) if not rest or _ASKS_FOR_EXERCISE.search(question) else rest


class ContextPolicy:
    """Chooses the context of each turn."""

    def __init__(self, database: Database, settings: TutorSettings, cache: PrefixCache | None = None) -> None:
        self._database = database
        self._settings = settings
        self._cache = cache
        # Section -> (when it was asked, reason against reading it whole, or None).
        self._known: dict[int, tuple[float, str | None]] = {}

    async def choose(self, question: str, found: Sequence[Evidence]) -> Context:
        """The context for a question with the passages found for it, best first.

        Raises:
            StoreError: the database failed.
        """
        if not found or self._settings.context == "passages" or (self._settings.context == "auto" and not self._cache):
            return passages_context(found)
        if found[0].is_exercise or _ASKS_FOR_EXERCISE.search(question):
            return passages_context(found, ASKS_FOR_EXERCISES)
        lesson = await asyncio.to_thread(load_lesson, self._database, found[0].section_id)
        if lesson is None:
            return passages_context(found)
        reason = misfit(lesson, self._settings)
        if reason is None and self._settings.context == "auto":
            is_warm, reason = await self._look_up(lesson)
            if not is_warm:
                return passages_context(found, reason)
        return passages_context(found, reason) if reason else lesson_context(found, lesson)

    async def _look_up(self, lesson: LessonText) -> tuple[bool, str | None]:
        """Whether a lesson is warm, and if not, what to tell; nothing where no cache is."""
        asked_at, reason = self._known.get(lesson.section_id, (float("-inf"), None))
        if time.monotonic() - asked_at < KNOWN_FOR_S:
            return reason is None, reason
        assert self._cache is not None
        try:
            state = await self._cache.lookup(lesson_opening(lesson), timeout_s=LOOKUP_WITHIN_S)
        except LLMError as error:
            log.info("cannot tell whether a lesson is warm: %s", error)
            return False, UNKNOWN_WARM
        if state is None:
            return False, None
        reason = None if state.is_warm else NOT_WARM
        if len(self._known) >= _KNOWN_LESSONS:
            self._known.clear()
        self._known[lesson.section_id] = (time.monotonic(), reason)
        return reason is None, reason


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", ".")
