"""What an adult of the school should look at: a pupil who may be in danger, an answer that the book does not bear."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from deepedu.base.errors import KeyDestroyed, NotFound
from deepedu.store.database import Database
from deepedu.store.tables import Flag, now


@dataclass(frozen=True)
class RaisedFlag:
    """``kind`` is ``safety``, ``protection`` (abuse: only for the named adult), ``grounding`` or ``wrong``; ``detail``
    what gave rise to it, in the pupil's words."""

    id: int
    learner_id: str
    conversation_id: int
    turn_id: int | None
    kind: str
    severity: str
    detail: str
    at: datetime
    seen_at: datetime | None


def raise_flag(
    database: Database,
    learner_id: str,
    conversation_id: int,
    turn_id: int | None,
    kind: str,
    *,
    severity: str = "",
    detail: str = "",
) -> None:
    """Keeps a flag for the adults who may see this pupil."""
    sealed = database.vault.seal(learner_id, detail)
    with database.write() as session:
        session.add(
            Flag(
                learner_id=learner_id,
                conversation_id=conversation_id,
                turn_id=turn_id,
                kind=kind,
                severity=severity,
                detail=sealed,
            )
        )


def flags_of(
    database: Database, learner_ids: Sequence[str] | None, *, kinds: Sequence[str], unseen: bool = False
) -> list[RaisedFlag]:
    """Flags of some pupils (None: of all), newest first."""
    wanted = sa.select(Flag).where(Flag.kind.in_(kinds)).order_by(Flag.id.desc())
    if learner_ids is not None:
        wanted = wanted.where(Flag.learner_id.in_(learner_ids))
    if unseen:
        wanted = wanted.where(Flag.seen_at.is_(None))
    found: list[RaisedFlag] = []
    with database.read() as session:
        for row in session.scalars(wanted):
            try:
                detail = database.vault.open(row.detail)
            except KeyDestroyed:
                continue
            found.append(
                RaisedFlag(
                    row.id,
                    row.learner_id,
                    row.conversation_id,
                    row.turn_id,
                    row.kind,
                    row.severity,
                    detail,
                    row.at,
                    row.seen_at,
                )
            )
    return found


def count_unseen(database: Database, *, kinds: Sequence[str], learner_ids: Sequence[str] | None = None) -> int:
    """How many flags nobody has looked at yet."""
    wanted = sa.select(sa.func.count()).select_from(Flag).where(Flag.kind.in_(kinds), Flag.seen_at.is_(None))
    if learner_ids is not None:
        wanted = wanted.where(Flag.learner_id.in_(learner_ids))
    with database.read() as session:
        return session.scalar(wanted) or 0


def mark_seen(database: Database, flag_id: int, person_id: int, learner_ids: Sequence[str] | None) -> None:
    """Notes that a flag was looked at, by whom.

    Raises:
        NotFound: no such flag among these pupils' (None: all).
    """
    with database.write() as session:
        row = session.get(Flag, flag_id)
        if row is None or (learner_ids is not None and row.learner_id not in learner_ids):
            raise NotFound(f"there is no flag {flag_id}")
        if row.seen_at is None:
            row.seen_at, row.seen_by = now(), person_id
