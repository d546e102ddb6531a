"""What the model reads: passages, or the whole lesson where that is wished for, fits and is warm."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from deepedu.base.config import SearchSettings, TutorSettings
from deepedu.base.errors import ContextLengthExceeded, LLMError, LLMTimeout
from deepedu.llm.chat import Finished, Message
from deepedu.llm.prefix_cache import Forgotten, PrefixState, WarmProgress
from deepedu.llm.scripted import ScriptedModel
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import past_turns
from deepedu.tutor.answer import Status
from deepedu.tutor.context import (
    ASKS_FOR_EXERCISES,
    NOT_WARM,
    TOO_LONG_FOR_MODEL,
    UNKNOWN_WARM,
    Context,
    use_of,
)
from deepedu.tutor.lesson import lesson_opening, lesson_system, load_lesson, load_lessons, misfit
from deepedu.tutor.turn import Completed, Event, Found, Started, Tutor

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
LESSON = "Bài 2. Đo nhiệt độ"
TRUE = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [3]."


@dataclass
class Cache:
    """Answers every lookup alike, or fails."""

    is_warm: bool = True
    is_there: bool = True
    failure: LLMError | None = None
    asked: list[tuple[Message, ...]] = field(default_factory=list)

    async def lookup(self, messages: Sequence[Message], *, timeout_s: float = 10.0) -> PrefixState | None:
        assert timeout_s <= 1.0, "a pupil waits"
        self.asked.append(tuple(messages))
        if self.failure is not None:
            raise self.failure
        return PrefixState(2000, 2000 * self.is_warm, "disk", self.is_warm) if self.is_there else None

    async def warm(self, messages: Sequence[Message]) -> AsyncGenerator[WarmProgress, None]:
        raise AssertionError(f"a turn warms nothing: {messages}")
        yield

    async def forget(self, tag: str) -> Forgotten | None:
        raise AssertionError(f"a turn forgets nothing: {tag}")


def tutor(library: Database, model: ScriptedModel, cache: Cache | None = None, **settings: str | int) -> Tutor:
    chosen = TutorSettings.model_validate(settings)
    return Tutor(library, Search(library, SearchSettings(dense="off")), model, chosen, cache)


def ask(asker: Tutor, question: str = QUESTION, conversation: int | None = None) -> list[Event]:
    async def run() -> list[Event]:
        async with aclosing(asker.ask(question, conversation_id=conversation)) as events:
            return [event async for event in events]

    return asyncio.run(run())


def context_of(events: Sequence[Event]) -> tuple[str, str | None]:
    end = events[-1]
    assert isinstance(end, Completed)
    assert end.context is not None
    return end.context.policy, end.context.reason


def found(events: Sequence[Event]) -> Found:
    return [event for event in events if isinstance(event, Found)][-1]


def test_the_lesson_is_shown_whole_and_cited_by_its_own_markers(sample_library: Database) -> None:
    model = ScriptedModel([TRUE])
    events = ask(tutor(sample_library, model, context="lesson"))
    assert context_of(events) == ("lesson", None)
    shown = found(events).evidence[: found(events).shown]
    assert {item.lesson for item in shown} == {LESSON}
    ordinals = [item.passage_id for item in shown]
    assert ordinals == sorted(ordinals)
    system, question = model.requests[0]
    for marker, item in enumerate(shown, 1):
        assert f"[{marker}] {item.text}" in system.text
    assert question.text == f"Câu hỏi: {QUESTION}"
    end = events[-1]
    assert isinstance(end, Completed)
    (sentence,) = end.answer.sentences
    assert sentence.status is Status.SUPPORTED
    assert sentence.citation is not None
    assert (sentence.citation.page, sentence.citation.passage_id) == (6, shown[sentence.citation.marker - 1].passage_id)


def test_the_lesson_is_the_same_to_the_letter_whatever_is_asked(sample_library: Database) -> None:
    model = ScriptedModel(answer=lambda _: TRUE)
    asker = tutor(sample_library, model, context="lesson")
    first = ask(asker)
    start = first[0]
    assert isinstance(start, Started)
    ask(asker, "Nhiệt kế y tế thường có thang đo thế nào?", start.conversation_id)
    one, two = (request[0] for request in model.requests)
    assert one == two
    assert one.is_shared
    with sample_library.read():
        lesson = next(item for item in load_lessons(sample_library, 1) if item.title == LESSON)
    # What is warmed ahead is what is asked later.
    assert lesson_opening(lesson)[0] == lesson_system(lesson) == one
    assert model.owners[0] == model.owners[1] is not None


def test_owners_differ_between_conversations_and_tell_nothing(sample_library: Database) -> None:
    model = ScriptedModel(answer=lambda _: TRUE)
    asker = tutor(sample_library, model)
    ask(asker)
    ask(asker)
    ask(tutor(sample_library, model))
    assert len(set(model.owners)) == 3


def test_exercises_are_no_part_of_a_lesson(sample_library: Database) -> None:
    lessons = load_lessons(sample_library, 1)
    assert len(lessons) >= 8
    assert not any(item.is_exercise for lesson in lessons for item in lesson.passages)
    assert {lesson.tag for lesson in lessons} == {lessons[0].tag}
    assert load_lesson(sample_library, 9999) is None


def test_a_false_number_is_replaced_by_the_books_own_sentence(sample_library: Database) -> None:
    events = ask(
        tutor(sample_library, ScriptedModel(["Celsius đề xuất thang nhiệt độ năm 1752 [1]."]), context="lesson")
    )
    end = events[-1]
    assert isinstance(end, Completed)
    assert "1752" not in end.answer.text
    assert "1742" in end.answer.text


@pytest.mark.parametrize(
    ("cache", "settings", "expected"),
    [
        (None, {}, ("passages", None)),
        (Cache(), {"context": "passages"}, ("passages", None)),
        (Cache(), {}, ("lesson", None)),
        (Cache(is_warm=False), {}, ("passages", NOT_WARM)),
        (Cache(is_warm=False), {"context": "lesson"}, ("lesson", None)),
        (Cache(is_there=False), {}, ("passages", None)),
        (Cache(failure=LLMTimeout("slow")), {}, ("passages", UNKNOWN_WARM)),
        (Cache(), {"lesson_tokens": 200}, ("passages", "giới hạn là 200")),
        (Cache(), {"context": "lesson", "passages": 12}, ("passages", "bài ngắn")),
    ],
)
def test_which_policy_serves(
    sample_library: Database, cache: Cache | None, settings: dict[str, str | int], expected: tuple[str, str | None]
) -> None:
    policy, reason = context_of(ask(tutor(sample_library, ScriptedModel([TRUE]), cache, **settings)))
    assert policy == expected[0]
    assert (reason is None) == (expected[1] is None)
    assert (expected[1] or "") in (reason or "")


def test_a_question_for_exercises_gets_them(sample_library: Database) -> None:
    model = ScriptedModel(["1742 [1]."])
    events = ask(
        tutor(sample_library, model, Cache(), context="lesson"), "Câu hỏi và bài tập của bài Đo nhiệt độ là gì?"
    )
    assert context_of(events) == ("passages", ASKS_FOR_EXERCISES)
    assert any(item.is_exercise for item in found(events).evidence)


def test_warmth_is_not_asked_for_at_every_turn(sample_library: Database) -> None:
    cache = Cache()
    asker = tutor(sample_library, ScriptedModel(answer=lambda _: TRUE), cache)
    ask(asker)
    ask(asker)
    assert len(cache.asked) == 1


def test_a_lesson_too_long_for_the_model_gives_way_to_passages(sample_library: Database) -> None:
    too_long = ContextLengthExceeded("3000 tokens, the window is 2048", prompt_tokens=3000, window_tokens=2048)
    model = ScriptedModel([too_long, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."])
    events = ask(tutor(sample_library, model, context="lesson"))
    assert context_of(events) == ("passages", TOO_LONG_FOR_MODEL)
    assert found(events).shown == 2
    end = events[-1]
    assert isinstance(end, Completed)
    assert end.notice is None
    assert end.answer.sentences[0].status is Status.SUPPORTED


def test_what_served_is_kept_with_the_turn(sample_library: Database) -> None:
    events = ask(tutor(sample_library, ScriptedModel([TRUE]), Cache()))
    start = events[0]
    assert isinstance(start, Started)
    (turn,) = past_turns(sample_library, start.conversation_id)
    assert turn.answer is not None
    assert turn.answer["context"]["policy"] == "lesson"
    assert turn.answer["context"]["lesson"] == LESSON


@pytest.mark.parametrize(
    ("prompt", "cached", "place", "line"),
    [
        (2310, 2304, "memory", "Ngữ cảnh: cả bài học (2.310 token, 2.304 lấy từ bộ nhớ đệm)"),
        (2310, 2304, "disk", "Ngữ cảnh: cả bài học (2.310 token, 2.304 lấy từ bộ nhớ đệm trên đĩa)"),
        (2310, 0, None, "Ngữ cảnh: cả bài học (2.310 token)"),
        (None, None, None, "Ngữ cảnh: cả bài học"),
    ],
)
def test_the_line_for_people(
    sample_library: Database, prompt: int | None, cached: int | None, place: str | None, line: str
) -> None:
    lesson = load_lessons(sample_library, 1)[3]
    end = Finished("stop", "m", prompt, 9, 100.0, 5.0, cached, place)
    assert use_of(Context(lesson.passages, (0,), lesson), 6, end).line == line


def test_the_line_says_why_no_lesson_serves() -> None:
    assert use_of(Context((), (), None, NOT_WARM), 2, None).line == (
        "Ngữ cảnh: 2 đoạn sách; không dùng cả bài: bài chưa được nạp sẵn"
    )


def test_short_and_long_lessons_do_not_fit(sample_library: Database) -> None:
    lessons = load_lessons(sample_library, 1)
    reasons = {lesson.title: misfit(lesson, TutorSettings()) for lesson in lessons}
    assert reasons[LESSON] is None
    assert "ngắn" in (reasons["LỜI NÓI ĐẦU"] or "")
    assert "900" in (misfit(lessons[4], TutorSettings(lesson_tokens=900)) or "")
