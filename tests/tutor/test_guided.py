"""A pupil's turn at school: what is typed is masked, danger is met with care, and the policy decides what is told."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deepedu.base.config import SearchSettings, TutorSettings
from deepedu.base.errors import BadRequest, NotFound
from deepedu.llm.scripted import ScriptedModel
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import past_turns
from deepedu.store.flags import count_unseen, flags_of, mark_seen
from deepedu.tutor.guided import Cared, Closed, GuidedEvent, GuidedTutor, Hinted, Masked, Pupil
from deepedu.tutor.hint_texts import hint_texts
from deepedu.tutor.hints import Policy, Rung
from deepedu.tutor.safety import DEFAULT_HELP_LINES
from deepedu.tutor.safety_rules import load_rules
from deepedu.tutor.turn import Completed, Started, Tutor

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
ANSWER = "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1]."
AN = Pupil("l-an", Policy.TUTOR, ("Nguyễn Văn An",))


@pytest.fixture
def guided(sample_library: Database) -> GuidedTutor:
    search = Search(sample_library, SearchSettings(dense="off"))
    tutor = Tutor(sample_library, search, ScriptedModel(answer=lambda _: ANSWER), TutorSettings())
    return GuidedTutor(tutor, load_rules(), DEFAULT_HELP_LINES)


def ask(guided: GuidedTutor, question: str, pupil: Pupil = AN, conversation: int | None = None) -> list[GuidedEvent]:
    async def run() -> list[GuidedEvent]:
        return [event async for event in guided.ask(question, pupil, conversation_id=conversation)]

    return asyncio.run(run())


def of(events: Sequence[GuidedEvent], kind: type) -> Any:
    return next(event for event in events if isinstance(event, kind))


def kept(database: Database, events: Sequence[GuidedEvent], owner: str = "l-an") -> Any:
    return past_turns(database, of(events, Started).conversation_id, owner=owner)[-1]


def test_hints_come_before_the_answer(guided: GuidedTutor, sample_library: Database) -> None:
    events = ask(guided, QUESTION)
    hint = of(events, Hinted)
    assert (hint.rung, hint.rungs) == (Rung.ASKED, 6)
    assert not any(isinstance(event, Completed) for event in events)
    assert "1742" not in json.dumps(kept(sample_library, events).answer)
    conversation = of(events, Started).conversation_id
    rungs = [of(ask(guided, said, conversation=conversation), Hinted).rung for said in ("còn gì nữa ạ?", "rồi sao ạ?")]
    assert rungs == [2, 3]


def test_a_new_conversation_is_no_new_start(guided: GuidedTutor) -> None:
    assert [of(ask(guided, QUESTION), Hinted).rung for _ in range(3)] == [1, 2, 3]


def test_the_ladder_ends_with_the_grounded_answer(guided: GuidedTutor, sample_library: Database) -> None:
    conversation, events, said = None, list[GuidedEvent](), ""
    tries = (
        "em nghĩ ông Celsius làm ở Thụy Điển, đề xuất thang nhiệt độ sau khi quan sát nước sôi",
        "theo em đó là lúc ông ấy lấy hai mốc nước đá tan và nước sôi chia ra 100 phần",
        "em nghĩ là năm 1742 vì sách viết nhà thiên văn đề xuất thang nhiệt độ năm đó",
    )
    for said in (QUESTION, "còn gì nữa ạ?", "tiếp ạ", *tries):
        events = ask(guided, said, conversation=conversation)
        conversation = of(events, Started).conversation_id
        if any(isinstance(event, Completed) for event in events):
            break
    answer = of(events, Completed).answer
    assert "1742" in answer.text
    turn = kept(sample_library, events)
    assert turn.question == said
    assert turn.answer["question"] == QUESTION
    # The last of the tries names the year: that is said before the answer.
    assert turn.answer["lead"] in hint_texts()["openings"]["try_right"]


def test_an_answer_without_own_work_is_not_praised(guided: GuidedTutor, sample_library: Database) -> None:
    events = ask(guided, QUESTION, replace(AN, policy=Policy.EXPLAIN))
    assert "lead" not in kept(sample_library, events).answer


def test_in_an_exam_nothing_is_told(guided: GuidedTutor, sample_library: Database) -> None:
    events = ask(guided, QUESTION, replace(AN, policy=Policy.EXAM_OFF))
    assert "kiểm tra" in of(events, Closed).text
    assert kept(sample_library, events).answer["kind"] == "closed"


def test_where_the_teacher_wants_explanations_the_answer_comes_at_once(guided: GuidedTutor) -> None:
    events = ask(guided, QUESTION, replace(AN, policy=Policy.EXPLAIN))
    assert "1742" in of(events, Completed).answer.text


def test_personal_data_reach_neither_the_store_nor_the_model(
    sample_library: Database, guided: GuidedTutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    model = ScriptedModel(answer=lambda messages: seen.append(str(messages)) or ANSWER)
    monkeypatch.setattr(guided.tutor, "model", model)
    typed = f"Em là Nguyễn Văn An, số 0912 345 678. {QUESTION}"
    events = ask(guided, typed, replace(AN, policy=Policy.EXPLAIN))
    assert set(of(events, Masked).kinds) == {"name", "phone"}
    assert kept(sample_library, events).answer["masked"] == list(of(events, Masked).kinds)
    assert seen
    for told in (*seen, kept(sample_library, events).question):
        assert "0912" not in told
        assert "Nguyễn Văn An" not in told
    assert "1742" in of(events, Completed).answer.text


@pytest.mark.parametrize("policy", list(Policy))
def test_danger_stops_the_lesson_under_every_policy(
    guided: GuidedTutor, sample_library: Database, policy: Policy
) -> None:
    events = ask(guided, "em không muốn sống nữa, em muốn chết", replace(AN, policy=policy))
    assert "111" in of(events, Cared).text
    assert not any(isinstance(event, Hinted | Completed) for event in events)
    assert kept(sample_library, events).answer["kind"] == "care"
    (flag,) = flags_of(sample_library, ["l-an"], kinds=["safety"])
    assert flag.severity
    assert "chết" in flag.detail
    assert count_unseen(sample_library, kinds=["safety"]) == 1
    with pytest.raises(NotFound):
        mark_seen(sample_library, flag.id, 1, ["l-khac"])
    assert count_unseen(sample_library, kinds=["safety"], learner_ids=["l-khac"]) == 0


def test_what_the_book_does_not_bear_is_flagged(
    guided: GuidedTutor, sample_library: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ScriptedModel(answer=lambda _: f"{ANSWER} Ông sinh ở thành phố Paris năm 1650 [1].")
    monkeypatch.setattr(guided.tutor, "model", wrong)
    ask(guided, QUESTION, replace(AN, policy=Policy.EXPLAIN))
    (flag,) = flags_of(sample_library, None, kinds=["grounding"])
    assert "Paris" in flag.detail


def test_another_pupils_conversation_is_none(guided: GuidedTutor) -> None:
    conversation = of(ask(guided, QUESTION), Started).conversation_id
    for policy in Policy:
        with pytest.raises(NotFound):
            ask(guided, QUESTION, Pupil("l-binh", policy), conversation)
    with pytest.raises(BadRequest):
        ask(guided, "   ")
