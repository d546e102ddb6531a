"""A turn from question to kept answer, with a scripted model and the sample textbook."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from deepedu.base.config import SearchSettings, TutorSettings
from deepedu.base.errors import BadRequest, ContextLengthExceeded, LLMUnreachable, NotFound
from deepedu.base.vietnamese import sentence_spans
from deepedu.llm.chat import ChatModel, Delta, Finished, Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import past_turns
from deepedu.tutor.answer import NOT_IN_BOOK, Status
from deepedu.tutor.grounding import Grounder
from deepedu.tutor.turn import Checked, Completed, Draft, Event, Found, Started, Tutor

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"


def tutor(library: Database, model: ChatModel, **settings: int) -> Tutor:
    return Tutor(library, Search(library, SearchSettings(dense="off")), model, TutorSettings.model_validate(settings))


async def turn(tutor: Tutor, question: str = QUESTION, conversation_id: int | None = None) -> list[Event]:
    async with aclosing(tutor.ask(question, conversation_id=conversation_id)) as events:
        return [event async for event in events]


def completed(events: Sequence[Event]) -> Completed:
    (end,) = [event for event in events if isinstance(event, Completed)]
    return end


def conversation_of(events: Sequence[Event]) -> int:
    (start,) = [event for event in events if isinstance(event, Started)]
    return start.conversation_id


def test_a_true_draft_is_supported_cited_and_kept(sample_library: Database) -> None:
    model = ScriptedModel(["Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."])
    events = asyncio.run(turn(tutor(sample_library, model)))
    kinds = [type(event) for event in events]
    assert kinds[:2] == [Started, Found]
    assert kinds[-1] is Completed
    assert Draft in kinds
    end = completed(events)
    sentence = end.answer.sentences[0]
    assert (end.answer.found, sentence.status) == (True, Status.SUPPORTED)
    citation = sentence.citation
    assert citation is not None
    assert (citation.page, citation.lesson) == (6, "Bài 2. Đo nhiệt độ")
    assert "1742" in citation.quote
    (kept,) = past_turns(sample_library, conversation_of(events))
    assert kept.status == "done"
    assert kept.answer is not None
    assert kept.answer["text"] == end.answer.text


def test_a_false_number_never_reaches_the_pupil_as_true(sample_library: Database) -> None:
    model = ScriptedModel(["Anders Celsius đề xuất thang nhiệt độ vào năm 1752 [1]."])
    answer = completed(asyncio.run(turn(tutor(sample_library, model)))).answer
    assert "1752" not in answer.text
    assert "1742" in answer.text
    assert Status.SUPPORTED not in {sentence.status for sentence in answer.sentences}


def test_a_question_outside_the_book_is_refused_with_near_lessons(sample_library: Database) -> None:
    model = ScriptedModel(["Thủ đô của nước Pháp là Paris [1]."])
    answer = completed(asyncio.run(turn(tutor(sample_library, model), "Thủ đô của nước Úc tên là gì?"))).answer
    assert not answer.found
    assert answer.text == NOT_IN_BOOK


def test_sentences_are_checked_while_the_draft_still_streams(sample_library: Database) -> None:
    model = ScriptedModel(["Anders Celsius đề xuất thang nhiệt độ năm 1742 [1]. Đó là câu hai. Đó là câu ba."])
    events = asyncio.run(turn(tutor(sample_library, model)))
    first_check = next(index for index, event in enumerate(events) if isinstance(event, Checked))
    assert any(isinstance(event, Draft) for event in events[first_check:])


class _ByLetters(ScriptedModel):
    """Streams its reply letter by letter, as the worst of tokenizers would."""

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        async with aclosing(super().stream(messages, max_tokens=max_tokens, owner=owner)) as reply:
            async for event in reply:
                for letter in event.text if isinstance(event, Delta) else ():
                    yield Delta(letter)
                if isinstance(event, Finished):
                    yield event


@pytest.mark.parametrize(
    "reply",
    [
        "Anders Celsius đề xuất thang nhiệt độ năm 1742 [1]. TS. Nguyễn Văn A. nói thế? Nước sôi ở 100 °C! Hết…",
        "Nhiệt độ\n\n1. Nước sôi ở 100 °C\n2. Nước đá tan ở 0 °C. Đó là hai mốc.\n• Một mốc nữa",
        "\n \n Celsius đề xuất thang nhiệt độ năm 1742",
    ],
)
def test_a_sentence_is_checked_as_soon_as_another_begins(
    sample_library: Database, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    checked: list[tuple[str, str]] = []
    draft = ""
    monkeypatch.setattr(Grounder, "check_sentence", lambda _, sentence: checked.append((draft, sentence)))

    async def read() -> None:
        nonlocal draft
        async with aclosing(tutor(sample_library, _ByLetters([reply])).ask(QUESTION)) as events:
            async for event in events:
                draft += event.text if isinstance(event, Draft) else ""

    asyncio.run(read())
    expected: list[tuple[str, str]] = []
    for end in range(1, len(reply) + 1):
        begun = [reply[start:stop] for start, stop in sentence_spans(reply[:end])]
        expected += [(reply[:end], sentence) for sentence in begun[len(expected) : -1]]
    assert checked == expected


def test_when_the_model_fails_the_book_answers_and_says_so(sample_library: Database) -> None:
    model = ScriptedModel([LLMUnreachable("gone")])
    end = completed(asyncio.run(turn(tutor(sample_library, model))))
    assert end.notice is not None
    assert "llm_unreachable" in end.notice
    assert {sentence.status for sentence in end.answer.sentences} == {Status.QUOTED}
    assert "1742" in end.answer.text


def test_a_prompt_too_long_for_the_model_is_shortened(sample_library: Database) -> None:
    too_long = ContextLengthExceeded("40 tokens, the window is 20", prompt_tokens=40, window_tokens=20)
    model = ScriptedModel([too_long, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."])
    end = completed(asyncio.run(turn(tutor(sample_library, model))))
    assert end.notice is None
    assert end.answer.sentences[0].status is Status.SUPPORTED
    assert len(model.requests[1][-1].text) < len(model.requests[0][-1].text)


def test_a_prompt_that_can_not_be_shortened_leaves_the_book(sample_library: Database) -> None:
    too_long = ContextLengthExceeded("40 tokens, the window is 20")
    model = ScriptedModel(answer=lambda _: too_long)
    end = completed(asyncio.run(turn(tutor(sample_library, model))))
    assert end.notice is not None
    assert "1742" in end.answer.text
    assert len(model.requests) < 5


def test_a_following_question_is_understood_from_the_one_before(sample_library: Database) -> None:
    model = ScriptedModel(answer=lambda _: "1742 [1].")
    asker = tutor(sample_library, model)

    async def talk() -> tuple[list[Event], list[Event]]:
        first = await turn(asker, "Anders Celsius là ai?")
        return first, await turn(asker, "Thế ông ấy đề xuất điều đó năm nào?", conversation_of(first))

    _, second = asyncio.run(talk())
    found = next(event for event in second if isinstance(event, Found))
    assert "Celsius" in found.evidence[0].text
    roles = [message.role for message in model.requests[1]]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("question", ["", " \n ", "a" * 3000])
def test_questions_that_are_none(sample_library: Database, question: str) -> None:
    with pytest.raises(BadRequest):
        asyncio.run(turn(tutor(sample_library, ScriptedModel([])), question))


def test_unknown_conversation(sample_library: Database) -> None:
    with pytest.raises(NotFound):
        asyncio.run(turn(tutor(sample_library, ScriptedModel([])), QUESTION, 99))


class EndlessModel:
    """Talks until it is closed."""

    def __init__(self) -> None:
        self.talks = self.closed = False

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        del messages, max_tokens, owner
        try:
            while True:
                self.talks = True
                yield Delta("Celsius ")
                await asyncio.sleep(0)
        finally:
            self.closed = True


def test_going_away_stops_the_model_and_keeps_the_draft(sample_library: Database) -> None:
    model = EndlessModel()

    async def leave() -> int:
        conversation = 0
        async with aclosing(tutor(sample_library, model).ask(QUESTION)) as events:
            async for event in events:
                if isinstance(event, Started):
                    conversation = event.conversation_id
                if isinstance(event, Draft):
                    break
        return conversation

    (kept,) = past_turns(sample_library, asyncio.run(leave()))
    assert model.closed
    assert kept.status == "stopped"
    assert kept.draft.startswith("Celsius")


def test_cancelling_the_task_stops_the_model_and_keeps_the_draft(sample_library: Database) -> None:
    model = EndlessModel()

    async def cancel() -> None:
        task = asyncio.create_task(turn(tutor(sample_library, model)))
        async with asyncio.timeout(60):
            while not model.talks:
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert model.closed
    assert past_turns(sample_library, 1)[0].status == "stopped"
