"""Conversations and their turns: the question is kept before the model is asked, the draft while it streams.

All text is sealed with the owner's key (``store.vault``); what a destroyed key sealed is left out of every list.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import KeyDestroyed, NotFound
from deepedu.store.database import Database
from deepedu.store.lease import Lease
from deepedu.store.tables import Conversation, Turn, now
from deepedu.store.vault import LOCAL


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
    started_at: datetime


@dataclass(frozen=True)
class ConversationSummary:
    """A conversation in a list: its first question is its title."""

    id: int
    title: str
    scope: dict[str, Any]
    turns: int
    created_at: datetime
    last_at: datetime


def start_turn(
    database: Database,
    question: str,
    scope: dict[str, Any],
    conversation_id: int | None,
    *,
    owner: str | None = None,
) -> tuple[int, int]:
    """Keeps a question, in a new conversation when ``conversation_id`` is None.

    Returns:
        ``(conversation_id, turn_id)``

    Raises:
        NotFound: no such conversation of this owner.
    """
    with database.write() as session:
        if conversation_id is None:
            conversation = Conversation(scope=scope, owner=owner)
            session.add(conversation)
            session.flush()
        else:
            conversation = _conversation(session, conversation_id, owner)
        last = session.scalar(sa.select(sa.func.max(Turn.ordinal)).where(Turn.conversation_id == conversation.id))
        turn = Turn(
            conversation_id=conversation.id,
            ordinal=0 if last is None else last + 1,
            question=database.vault.seal(owner or LOCAL, question),
            draft=database.vault.seal(owner or LOCAL, ""),
            lease=str(Lease.mine()),
        )
        session.add(turn)
        session.flush()
        return conversation.id, turn.id


def save_draft(database: Database, turn_id: int, draft: str) -> None:
    """Keeps what has streamed so far."""
    with database.write() as session:
        turn = session.get(Turn, turn_id)
        # A turn that was deleted while it streams stays deleted.
        if turn is not None:
            turn.draft = database.vault.seal(database.vault.owner_of(turn.question), draft)


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
    """Closes a turn as ``done``, ``stopped`` or ``failed``. A turn that was deleted meanwhile stays deleted."""
    with database.write() as session:
        turn = session.get(Turn, turn_id)
        if turn is None:
            return
        owner = database.vault.owner_of(turn.question)
        turn.status, turn.model, turn.lease, turn.finished_at = status, model, None, now()
        turn.draft = database.vault.seal(owner, draft)
        turn.answer = None if answer is None else database.vault.seal(owner, json.dumps(answer, ensure_ascii=False))
        turn.error = None if error is None else database.vault.seal(owner, error)


def past_turns(
    database: Database, conversation_id: int, limit: int | None = None, *, owner: str | None = None
) -> list[PastTurn]:
    """The turns of a conversation, oldest first; with ``limit`` the latest ones.

    Raises:
        NotFound: no such conversation of this owner.
        KeyDestroyed: it was deleted together with its owner.
    """
    with database.read() as session:
        conversation = _conversation(session, conversation_id, owner)
        newest_first = (
            sa.select(Turn).where(Turn.conversation_id == conversation.id).order_by(Turn.ordinal.desc()).limit(limit)
        )
        return [_past(database, turn) for turn in reversed(session.scalars(newest_first).all())]


def conversations_of(database: Database, owner: str, limit: int = 100) -> list[ConversationSummary]:
    """Conversations of an owner, the one last spoken in first."""
    # Named inside as well: the whole school's turns would be counted otherwise, each time that anybody lists theirs.
    mine = sa.select(Conversation.id).where(Conversation.owner == owner)
    counts = (
        sa.select(
            Turn.conversation_id.label("id"), sa.func.count().label("turns"), sa.func.max(Turn.started_at).label("last")
        )
        .where(Turn.conversation_id.in_(mine))
        .group_by(Turn.conversation_id)
        .subquery()
    )
    with database.read() as session:
        rows = session.execute(
            sa.select(Conversation, counts.c.turns, counts.c.last, Turn.question)
            .join(counts, counts.c.id == Conversation.id)
            .join(Turn, sa.and_(Turn.conversation_id == Conversation.id, Turn.ordinal == 0))
            .where(Conversation.owner == owner)
            .order_by(counts.c.last.desc())
            .limit(limit)
        ).all()
        try:
            return [
                ConversationSummary(c.id, database.vault.open(question), c.scope, turns, c.created_at, last)
                for c, turns, last, question in rows
            ]
        except KeyDestroyed:
            return []


def turn_for(database: Database, turn_id: int, *, owner: str | None) -> PastTurn:
    """A turn of one of an owner's conversations.

    Raises:
        NotFound: no such turn of this owner.
    """
    with database.read() as session:
        turn = session.get(Turn, turn_id)
        conversation = None if turn is None else session.get(Conversation, turn.conversation_id)
        if turn is None or conversation is None or conversation.owner != owner:
            raise NotFound(f"Không có câu hỏi số {turn_id} trong các câu của bạn.")
        return _past(database, turn)


def owner_of_turn(database: Database, turn_id: int) -> str | None:
    """Whose conversation a turn belongs to; None where there is no such turn, or it is nobody's."""
    with database.read() as session:
        return session.scalar(
            sa.select(Conversation.owner).join(Turn, Turn.conversation_id == Conversation.id).where(Turn.id == turn_id)
        )


def delete_conversation(database: Database, conversation_id: int, *, owner: str | None) -> None:
    """Deletes a conversation with all its turns.

    Raises:
        NotFound: no such conversation of this owner.
    """
    with database.write() as session:
        conversation = _conversation(session, conversation_id, owner)
        session.execute(sa.delete(Conversation).where(Conversation.id == conversation.id))


def answered_turns(database: Database, *, since: datetime | None = None) -> Iterator[PastTurn]:
    """All turns with an answer, in no order that tells anything. ``since``: only those begun then or later."""
    wanted = sa.select(Turn).where(Turn.status == "done", Turn.answer.is_not(None))
    if since is not None:
        wanted = wanted.where(Turn.started_at >= since)
    with database.read() as session:
        for turn in session.scalars(wanted).yield_per(200):
            try:
                yield _past(database, turn)
            except KeyDestroyed:
                continue


def last_conversation(database: Database) -> int | None:
    """The conversation without an account that was spoken in most recently."""
    with database.read() as session:
        return session.scalar(
            sa.select(Turn.conversation_id)
            .join(Conversation, Conversation.id == Turn.conversation_id)
            .where(Conversation.owner.is_(None))
            .order_by(Turn.id.desc())
            .limit(1)
        )


def _conversation(session: Session, conversation_id: int, owner: str | None) -> Conversation:
    conversation = session.get(Conversation, conversation_id)
    # Somebody else's is answered like none at all: ids tell nothing.
    if conversation is None or conversation.owner != owner:
        raise NotFound(f"Không có cuộc trò chuyện {conversation_id!r} trong các cuộc của bạn.")
    return conversation


def _past(database: Database, turn: Turn) -> PastTurn:
    status = turn.status
    if status == "running" and turn.lease is not None and not Lease.parse(turn.lease).is_alive():
        status = "interrupted"
    opened = database.vault.open
    return PastTurn(
        turn.id,
        turn.conversation_id,
        opened(turn.question),
        status,
        opened(turn.draft),
        None if turn.answer is None else json.loads(opened(turn.answer)),
        None if turn.error is None else opened(turn.error),
        turn.started_at,
    )
