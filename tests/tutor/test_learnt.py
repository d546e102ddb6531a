"""Bullets in a turn: chosen, shown behind the rules, held against their own passages, and known as used."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta

import sqlalchemy as sa

from deepedu.base.config import PlaybookSettings, SearchSettings, TutorSettings
from deepedu.llm.chat import Message
from deepedu.llm.scripted import ScriptedModel
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, BulletScope
from deepedu.playbook.delta import Add, Judge
from deepedu.search.evidence import Scope
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import past_turns
from deepedu.store.tables import Turn
from deepedu.tutor.fact_check import BookFactCheck
from deepedu.tutor.learnt import BulletSource
from deepedu.tutor.prompt import RULES
from deepedu.tutor.reliance import reliance
from deepedu.tutor.turn import Completed, Started, Tutor

QUESTION = "Anders Celsius đề xuất thang nhiệt độ của mình vào năm nào?"
FACT = "Năm 1742, nhà thiên văn học người Thụy Điển Anders Celsius đề xuất thang nhiệt độ."
TEACHER = Author(role="teacher", name="cô Lan")


def search_in(library: Database) -> Search:
    return Search(library, SearchSettings(dense="off"))


def taught(library: Database, *texts: str, verified: bool = True) -> Playbook:
    book = Playbook(library)
    for text in texts:
        verdict = asyncio.run(BookFactCheck(library, search_in(library)).check(text, BulletScope()))
        add = Add(text=text, kind="fact", evidence=verdict.evidence)
        bullet_id = book.change([add], Author(role="model"), "thử").bullet_ids[0]
        if verified:
            book.change([Judge(bullet_id=bullet_id, status="verified")], TEACHER, "đúng sách")
    return book


def ask(library: Database, book: Playbook, draft: str, **settings: int) -> tuple[Completed, list[Message], int]:
    model = ScriptedModel([draft])
    source = BulletSource(book, library, PlaybookSettings.model_validate(settings))
    tutor = Tutor(library, search_in(library), model, TutorSettings(), bullets=source)

    async def run() -> tuple[Completed, int]:
        completed, conversation = None, 0
        async with aclosing(tutor.ask(QUESTION)) as events:
            async for event in events:
                if isinstance(event, Started):
                    conversation = event.conversation_id
                if isinstance(event, Completed):
                    completed = event
        assert completed is not None
        return completed, conversation

    completed, conversation = asyncio.run(run())
    return completed, list(model.requests[0]), conversation


def system(messages: Sequence[Message]) -> Message:
    return messages[0]


def test_a_verified_bullet_is_shown_behind_the_shared_rules(sample_library: Database) -> None:
    book = taught(sample_library, FACT)
    completed, messages, conversation = ask(sample_library, book, "Năm 1742 [b-00001].")
    rules = system(messages)
    assert not isinstance(rules.content, str)
    assert [part.shared for part in rules.content] == [True, False]
    assert rules.content[0].text == RULES
    assert f"[b-00001] {FACT}" in rules.text
    assert completed.bullets_shown == ("b-00001",)
    assert completed.bullets_used == ("b-00001",)
    # The marker is for us, not for pupils.
    assert "b-00001" not in completed.answer.text
    (turn,) = past_turns(sample_library, conversation)
    assert turn.answer is not None
    assert turn.answer["bullets"] == {"shown": ["b-00001"], "used": ["b-00001"]}


def test_what_nobody_verified_is_never_shown(sample_library: Database) -> None:
    book = taught(sample_library, FACT, verified=False)
    completed, messages, _ = ask(sample_library, book, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [1].")
    assert system(messages).text == RULES
    assert (completed.bullets_shown, completed.bullets_used) == ((), ())


def test_no_budget_no_bullets(sample_library: Database) -> None:
    book = taught(sample_library, FACT)
    for settings in ({"bullet_tokens": 0}, {"bullets": 0}):
        assert ask(sample_library, book, "Năm 1742.", **settings)[0].bullets_shown == ()


def test_a_new_version_is_seen_by_the_next_question(sample_library: Database) -> None:
    book = taught(sample_library, FACT)
    source = BulletSource(book, sample_library, PlaybookSettings())
    found = search_in(sample_library).search(QUESTION)
    assert source.learnt_for(QUESTION, Scope(), found).ids == ("b-00001",)
    book.change([Judge(bullet_id="b-00001", status="quarantined", reasons=("sai",))], TEACHER, "sai")
    assert source.learnt_for(QUESTION, Scope(), found).ids == ()


def test_answers_may_be_held_against_what_a_bullet_stands_on(sample_library: Database) -> None:
    book = taught(sample_library, FACT)
    learnt = BulletSource(book, sample_library, PlaybookSettings()).learnt_for(QUESTION, Scope(), ())
    assert any("1742" in passage.text for passage in learnt.evidence)
    found = search_in(sample_library).search(QUESTION)
    again = BulletSource(book, sample_library, PlaybookSettings()).learnt_for(QUESTION, Scope(), found)
    assert not {p.passage_id for p in again.evidence} & {p.passage_id for p in found}


def test_reliance_tells_books_from_playbook_from_the_models_own(sample_library: Database) -> None:
    assert reliance(sample_library) == []
    book = taught(sample_library, FACT)
    ask(sample_library, book, "Anders Celsius đề xuất thang nhiệt độ vào năm 1742 [b-00001].")
    ask(sample_library, Playbook(sample_library), "Câu này không có trong sách nào cả.", bullets=0)
    (week,) = reliance(sample_library)
    assert week.answers == 2
    assert week.playbook >= 1
    assert week.book >= 1
    assert sum(week.shares) == 1.0
    assert week.week.weekday() == 0


def test_reliance_reads_only_the_weeks_asked_for(sample_library: Database) -> None:
    for _ in range(2):
        ask(sample_library, Playbook(sample_library), "Câu này không có trong sách nào cả.", bullets=0)
    with sample_library.write() as session:
        first = session.scalars(sa.select(Turn).order_by(Turn.id)).first()
        assert first is not None
        first.started_at -= timedelta(weeks=3)
    assert [week.answers for week in reliance(sample_library)] == [1, 1]
    assert [week.answers for week in reliance(sample_library, weeks=4)] == [1, 1]
    for weeks in (1, 3):
        (newest,) = reliance(sample_library, weeks=weeks)
        assert newest == reliance(sample_library)[-1]
