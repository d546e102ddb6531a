"""Deleting what is too old: exactly that, once, in small steps, and the audit log stays verifiable."""

import asyncio
import os
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from kept_people import AN, KeptPeople, bytes_of, rows_of

from deepedu.base.config import SchoolSettings
from deepedu.base.errors import StoreError
from deepedu.school import retention
from deepedu.school.audit import entries, log, verify
from deepedu.school.retention import is_due, keep_retention, last_run, run_retention
from deepedu.store.conversations import conversations_of, start_turn
from deepedu.store.tables import AuditEntry, Conversation, StoredAttempt, StoredLadders, Submission, Turn, now

SCHOOL = SchoolSettings(chat_days=100, attempt_days=200, audit_days=400)


def age(kept: KeptPeople, days: float) -> None:
    """Makes everything of An so many days older."""
    at, owner = now() - timedelta(days=days), kept["an"].owner
    with kept.database.write() as session:
        session.execute(sa.update(Conversation).where(Conversation.owner == owner).values(created_at=at))
        session.execute(sa.update(Turn).where(Turn.id == kept.turns["an"]).values(started_at=at))
        session.execute(sa.update(StoredLadders).where(StoredLadders.learner_id == owner).values(changed_at=at))
        session.execute(sa.update(StoredAttempt).where(StoredAttempt.learner_id == owner).values(at=at))
        session.execute(sa.update(Submission).where(Submission.learner_id == owner).values(started_at=at))


def test_young_data_stay(kept: KeptPeople) -> None:
    before = bytes_of(kept.database.documents_dir)
    assert run_retention(kept.database, SCHOOL).deleted == {}
    assert len(rows_of(kept.database, "turns")) == len(rows_of(kept.database, "attempts")) == 2
    assert bytes_of(kept.database.documents_dir) == before


def test_each_kind_has_its_period(kept: KeptPeople) -> None:
    age(kept, 100.5)
    assert run_retention(kept.database, SCHOOL).deleted == {"conversations": 1, "journal_lines": 1, "ladders": 1}
    assert [row.id for row in rows_of(kept.database, "turns")] == [kept.turns["binh"]]
    assert len(rows_of(kept.database, "flags")) == 1
    assert len(rows_of(kept.database, "attempts")) == 2
    age(kept, 200.5)
    assert run_retention(kept.database, SCHOOL).deleted == {"attempts": 1, "submissions": 1}
    assert [row.learner_id for row in rows_of(kept.database, "attempts")] == [kept["binh"].owner]


def test_a_conversation_is_as_old_as_its_last_question(kept: KeptPeople) -> None:
    age(kept, 150)
    (chat,) = conversations_of(kept.database, kept["an"].owner)
    start_turn(kept.database, "hỏi tiếp", {}, chat.id, owner=kept["an"].owner)
    with kept.database.write() as session:
        session.add(Conversation(owner=kept["an"].owner, scope={}, created_at=now() - timedelta(days=150)))
    assert run_retention(kept.database, SCHOOL).deleted["conversations"] == 1, "the empty one"
    assert [each.id for each in conversations_of(kept.database, kept["an"].owner)] == [chat.id]


def test_twice_is_once(kept: KeptPeople) -> None:
    age(kept, 300)
    first = run_retention(kept.database, SCHOOL)
    assert first.deleted["conversations"] == 1
    assert run_retention(kept.database, SCHOOL).deleted == {}


def test_what_went_is_told_in_the_audit_log(kept: KeptPeople) -> None:
    assert last_run(kept.database) is None
    age(kept, 300)
    run_retention(kept.database, SCHOOL, actor=kept["admin"].public_id)
    newest = entries(kept.database, limit=1)[0]
    assert (newest.action, newest.actor) == ("retention.run", kept["admin"].public_id)
    found = last_run(kept.database)
    assert found is not None
    assert found.deleted["conversations"] == 1
    assert found.at == newest.at


@pytest.mark.sqlite_file
def test_what_was_too_old_is_in_no_file(kept: KeptPeople) -> None:
    with kept.database.read() as session:
        sealed = session.scalar(sa.select(Turn.question).where(Turn.id == kept.turns["an"]))
    assert sealed is not None
    kept.database.scrub()
    assert sealed.encode() in bytes_of(kept.database.data_dir)
    age(kept, 300)
    run_retention(kept.database, SCHOOL)
    assert sealed.encode() not in bytes_of(kept.database.data_dir)
    assert AN not in (kept.database.data_dir / "learn" / "l-1.jsonl").read_text(encoding="utf-8")


def test_old_sign_ins_and_copies_go(kept: KeptPeople) -> None:
    copies = kept.database.data_dir / "before-migration"
    copies.mkdir()
    for name, days in (("old", 31), ("new", 29)):
        (copies / f"{name}.sqlite3").write_bytes(b"copy")
        at = time.time() - days * 86400
        os.utime(copies / f"{name}.sqlite3", (at, at))
    report = run_retention(kept.database, SCHOOL, now() + timedelta(hours=13))
    assert (report.deleted["sign_ins"], report.deleted["migration_copies"]) == (5, 1)
    assert [path.name for path in copies.iterdir()] == ["new.sqlite3"]


def entries_of_days(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch, *days: float) -> None:
    for day in days:
        at = now() - timedelta(days=day)
        with monkeypatch.context() as patched:
            patched.setattr("deepedu.school.audit.now", lambda at=at: at)
            log(kept.database, "system", "test", "school", f"{day:g} ngày")


def test_old_audit_entries_go_from_the_oldest_on(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept.database.write() as session:
        session.execute(sa.delete(AuditEntry))
    # One that is old by a clock that was wrong stands between young ones: it stays, or the chain would break.
    entries_of_days(kept, monkeypatch, *([500] * 450), 399, 500, 1)
    assert run_retention(kept.database, SCHOOL).deleted["audit_entries"] == 450
    assert [each.detail for each in entries(kept.database)][1:] == ["1 ngày", "500 ngày", "399 ngày"]
    assert verify(kept.database) == 4
    log(kept.database, "system", "test", "school")
    assert verify(kept.database) == 5
    with kept.database.write() as session:
        session.execute(sa.update(AuditEntry).where(AuditEntry.number == 452).values(detail="1 ngày"))
    with pytest.raises(StoreError, match="452"):
        verify(kept.database)


def test_the_newest_entry_is_never_deleted(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept.database.write() as session:
        session.execute(sa.delete(AuditEntry))
    entries_of_days(kept, monkeypatch, 500, 500)
    run_retention(kept.database, SCHOOL)
    assert [each.number for each in entries(kept.database)] == [3, 2]
    assert verify(kept.database) == 2


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_between_two_steps_is_made_good(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    age(kept, 300)

    def killed(*_: object, **__: object) -> int:
        raise Killed

    for name in ("prune_journals", "delete_copies", "record"):
        with monkeypatch.context() as patched:
            patched.setattr(retention, name, killed)
            with pytest.raises(Killed):
                run_retention(kept.database, SCHOOL)
    run_retention(kept.database, SCHOOL)
    assert AN not in (kept.database.data_dir / "learn" / "l-1.jsonl").read_text(encoding="utf-8")
    assert len(rows_of(kept.database, "turns")) == 1
    verify(kept.database)


def test_unfinished_erasures_are_finished(kept: KeptPeople) -> None:
    kept.database.vault.destroy(kept["an"].owner)
    assert run_retention(kept.database, SCHOOL).deleted["erasures_finished"] == 1
    assert not rows_of(kept.database, "people", lambda row: row.username == "an")


def test_writers_are_not_held_up(kept: KeptPeople) -> None:
    """Questions are kept while thousands of old conversations go."""
    old, owner = now() - timedelta(days=300), kept["an"].owner
    with kept.database.write() as session:
        session.add_all([Conversation(owner=owner, scope={}, created_at=old) for _ in range(3000)])
    waits: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            start_turn(kept.database, "hỏi", {}, None, owner=kept["binh"].owner)
            waits.append(time.perf_counter() - begin)

    asker = threading.Thread(target=ask)
    asker.start()
    report = run_retention(kept.database, SCHOOL)
    stop.set()
    asker.join()
    assert report.deleted["conversations"] == 3000
    assert len(waits) > 15, "one at least between two steps"
    assert len(conversations_of(kept.database, kept["binh"].owner, limit=10**6)) == len(waits) + 1


def local(day: int, hour: int) -> datetime:
    return datetime(2026, 11, day, hour).astimezone().astimezone(UTC)


@pytest.mark.parametrize(
    ("last", "at", "due"),
    [
        (None, local(10, 12), True),
        (local(10, 3), local(10, 23), False),
        (local(10, 3), local(11, 2), False),
        (local(10, 3), local(11, 3), True),
        (local(10, 9), local(11, 3), True),
        (local(10, 9), local(14, 8), True),
        (local(11, 2), local(11, 4), True),
    ],
)
def test_it_is_due_once_a_night(last: datetime | None, at: datetime, due: bool) -> None:
    assert is_due(last, at) is due


def test_it_runs_by_itself(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(retention, "START_S", 0)
    age(kept, 300)

    async def serve() -> None:
        task = asyncio.create_task(keep_retention(kept.database, SCHOOL))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if await asyncio.to_thread(last_run, kept.database):
                break
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(serve())
    assert len([each for each in entries(kept.database) if each.action == "retention.run"]) == 1
    kept.database.vault.destroy(kept["binh"].owner)
    asyncio.run(serve())
    assert not rows_of(kept.database, "people", lambda row: row.username == "binh"), "at start, though it is not due"


def test_a_failure_is_tried_again(kept: KeptPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(retention, "START_S", 0)
    tries: list[int] = []

    def failing(*_: object) -> None:
        tries.append(1)
        raise StoreError("đĩa đầy")

    monkeypatch.setattr(retention, "last_run", failing)

    async def serve() -> None:
        task = asyncio.create_task(keep_retention(kept.database, SCHOOL))
        await asyncio.sleep(0.2)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(serve())
    assert len(tries) > 1
