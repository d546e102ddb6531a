"""Conversations and their turns: the question is kept before the model is asked, the draft while it streams."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deepedu.base.errors import NotFound
from deepedu.store.database import Database
from deepedu.store.lease import Lease
from deepedu.store.tables import Conversation, Turn, now


@dataclass(frozen=True)
class PastTurn:
    """A turn as kept. ``status`` is ``running``, ``done``, ``stopped``, ``failed``, or ``interrupted`` when the
    process that ran it is gone."""

    id: int
    conversation_id: int
    question: str
    status: str
    draft: str
    answer: dict[str, Any] | None
    error: str | None


def start_turn(
    database: Database, question: str, scope: dict[str, Any], conversation_id: int | None
) -> tuple[int, int]:
    """Keeps a question, in a new conversation when ``conversation_id`` is None.

    Returns:
        ``(conversation_id, turn_id)``

    Raises:
        NotFound: no such conversation.
    """
    with database.write() as session:
        if conversation_id is None:
            conversation = Conversation(scope=scope)
            session.add(conversation)
            session.flush()
        else:
            conversation = session.get(Conversation, conversation_id)
            if conversation is None:
                raise NotFound(f"there is no conversation {conversation_id!r}")
        last = session.scalar(sa.select(sa.func.max(Turn.ordinal)).where(Turn.conversation_id == conversation.id))
        turn = Turn(
            conversation_id=conversation.id,
            ordinal=0 if last is None else last + 1,
            question=question,
            lease=str(Lease.mine()),
        )
        session.add(turn)
        session.flush()
        return conversation.id, turn.id


def save_draft(database: Database, turn_id: int, draft: str) -> None:
    """Keeps what has streamed so far."""
    with database.write() as session:
        session.execute(sa.update(Turn).where(Turn.id == turn_id).values(draft=draft))


def finish_turn(
    database: Database,
    turn_id: int,
    status: str,
    *,
    draft: str,
    answer: dict[str, Any] | None = None,
    error: str | None = None,
    model: str | None = None,
) -> None:
    """Closes a turn as ``done``, ``stopped`` or ``failed``."""
    with database.write() as session:
        session.execute(
            sa.update(Turn)
            .where(Turn.id == turn_id)
            .values(status=status, draft=draft, answer=answer, error=error, model=model, lease=None, finished_at=now())
        )


def past_turns(database: Database, conversation_id: int, limit: int | None = None) -> list[PastTurn]:
    """The turns of a conversation, oldest first; with ``limit`` the latest ones.

    Raises:
        NotFound: no such conversation.
    """
    with database.read() as session:
        if session.get(Conversation, conversation_id) is None:
            raise NotFound(f"there is no conversation {conversation_id!r}")
        newest_first = (
            sa.select(Turn).where(Turn.conversation_id == conversation_id).order_by(Turn.ordinal.desc()).limit(limit)
        )
        return [_past(turn) for turn in reversed(session.scalars(newest_first).all())]


def last_conversation(database: Database) -> int | None:
    """The conversation that was spoken in most recently."""
    with database.read() as session:
        return session.scalar(sa.select(Turn.conversation_id).order_by(Turn.id.desc()).limit(1))


def _past(turn: Turn) -> PastTurn:
    status = turn.status
    if status == "running" and turn.lease is not None and not Lease.parse(turn.lease).is_alive():
        status = "interrupted"
    return PastTurn(turn.id, turn.conversation_id, turn.question, status, turn.draft, turn.answer, turn.error)
