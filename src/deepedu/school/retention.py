"""How long data are kept, and deleting what is older: once a day while the server runs, or by hand.

In small transactions, so that pupils who ask meanwhile wait for milliseconds. Done twice, or begun anew after a kill,
it deletes what is left to delete. The entry that it writes into the audit log says when it ran and what went.

The audit log loses its oldest entries only, in their order, and never the newest: the chain stays verifiable from the
oldest entry that is there.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from deepedu.base.config import SchoolSettings
from deepedu.base.errors import DeepEduError
from deepedu.school.audit import SYSTEM, record
from deepedu.school.erasure import resume_erasures
from deepedu.school.kept_files import delete_copies, prune_journals
from deepedu.store import Database
from deepedu.store.tables import (
    AuditEntry,
    Conversation,
    LoginSession,
    StoredAttempt,
    StoredLadders,
    Submission,
    Turn,
    now,
)

log = logging.getLogger(__name__)

RAN, SUBJECT = "retention.run", "school"
# Copies made before a migration serve the days after it.
COPY_DAYS = 30
# Rows of one transaction, and how long others have the database to themselves between two, at least: whoever waits
# for it looks again only now and then.
BATCH = 50
PAUSE_S = 0.1
# Nobody learns at this hour, local time; a server that is off then runs when it is on again.
NIGHT_HOUR = 3
LOOK_EVERY_S = 600.0
# The first minute of a server belongs to those who wait for its pages.
START_S = 60.0


@dataclass(frozen=True)
class RetentionReport:
    """A run: when, and what it deleted, by kind."""

    at: datetime
    deleted: Mapping[str, int]


def run_retention(
    database: Database, school: SchoolSettings, at: datetime | None = None, *, actor: str = SYSTEM
) -> RetentionReport:
    """Deletes everything that is older than the school keeps it, and finishes erasures that were killed.

    Args:
        at: the present moment.
        actor: who asked for it; stands in the audit log.

    Raises:
        StoreError: the database or a file could not be changed; what was deleted until then stays deleted.
    """
    at = at or now()
    deleted = Counter[str]()
    deleted["erasures_finished"] = len(resume_erasures(database))
    chats, attempts = at - timedelta(days=school.chat_days), at - timedelta(days=school.attempt_days)
    last = sa.select(sa.func.max(Turn.started_at)).where(Turn.conversation_id == Conversation.id).scalar_subquery()
    old_chats = sa.select(Conversation.id).where(
        Conversation.created_at < chats, sa.func.coalesce(last, Conversation.created_at) < chats
    )
    done = sa.func.coalesce(Submission.finished_at, Submission.started_at)
    for kind, column, old in (
        ("conversations", Conversation.id, old_chats),
        ("ladders", StoredLadders.learner_id, _older(StoredLadders.learner_id, StoredLadders.changed_at, chats)),
        ("attempts", StoredAttempt.id, _older(StoredAttempt.id, StoredAttempt.at, attempts)),
        ("submissions", Submission.id, sa.select(Submission.id).where(done < attempts)),
        ("sign_ins", LoginSession.token_digest, _older(LoginSession.token_digest, LoginSession.expires_at, at)),
        ("audit_entries", AuditEntry.number, _old_entries(at - timedelta(days=school.audit_days))),
    ):
        deleted[kind] = _delete(database, column, old)
    deleted["journal_lines"] = prune_journals(database)
    deleted["migration_copies"] = delete_copies(database, before=at - timedelta(days=COPY_DAYS))
    report = RetentionReport(at, {kind: count for kind, count in sorted(deleted.items()) if count})
    with database.write() as session:
        record(session, actor, RAN, SUBJECT, json.dumps(report.deleted))
    database.scrub()
    return report


def last_run(database: Database) -> RetentionReport | None:
    """The newest run that the audit log knows; None: there was none."""
    newest = sa.select(AuditEntry).where(AuditEntry.action == RAN).order_by(AuditEntry.number.desc()).limit(1)
    with database.read() as session:
        entry = session.scalar(newest)
        return None if entry is None else RetentionReport(entry.at, json.loads(entry.detail))


def is_due(last: datetime | None, at: datetime) -> bool:
    """Whether a night has begun since the last run."""
    return last is None or _night(at) > _night(last)


async def keep_retention(database: Database, school: SchoolSettings) -> None:
    """Runs once a day, until it is cancelled; soon after the start, whatever the hour, if a night was missed. Who was
    erased and came back with a backup is erased again at once."""
    await _tried(resume_erasures, database)
    await asyncio.sleep(START_S)
    while True:
        await _tried(_run_if_due, database, school)
        await asyncio.sleep(LOOK_EVERY_S)


async def _tried(step: Callable[..., Any], *args: Any) -> None:
    try:
        await asyncio.to_thread(step, *args)
    except DeepEduError as error:
        log.warning("deleting data goes on in %g s: %s", LOOK_EVERY_S, error)


def _run_if_due(database: Database, school: SchoolSettings) -> None:
    last = last_run(database)
    if is_due(last.at if last else None, now()):
        report = run_retention(database, school)
        log.info("retention: %s", report.deleted or "nothing was old enough")


def _older(key: Any, moment: Any, before: datetime) -> sa.Select[Any]:
    return sa.select(key).where(moment < before)


def _old_entries(before: datetime) -> sa.Select[Any]:
    """Entries before the first one that is young enough, in their order; never the newest, which the next one is
    chained to."""
    newest = sa.select(sa.func.max(AuditEntry.number)).scalar_subquery()
    young = sa.select(sa.func.min(AuditEntry.number)).where(AuditEntry.at >= before).scalar_subquery()
    return sa.select(AuditEntry.number).where(AuditEntry.number < sa.func.coalesce(young, newest))


def _delete(database: Database, column: Any, old: sa.Select[Any]) -> int:
    """Deletes rows by their key, the lowest first, a few at a time."""
    count = 0
    while True:
        with database.read() as session:
            keys = session.scalars(old.order_by(column).limit(BATCH)).all()
        begin = time.perf_counter()
        with database.write() as session:
            # Asked again: a pupil may have gone on with a conversation meanwhile.
            gone = sa.delete(column.class_).where(column.in_(old.where(column.in_(keys)))).returning(column)
            count += len(session.execute(gone).all())
        if len(keys) < BATCH:
            return count
        time.sleep(max(PAUSE_S, time.perf_counter() - begin))


def _night(at: datetime) -> Any:
    return (at.astimezone() - timedelta(hours=NIGHT_HOUR)).date()
