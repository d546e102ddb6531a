"""What people said of answers, and the turns that there is something to learn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deepedu.base.errors import KeyDestroyed, NotFound
from deepedu.store.database import Database
from deepedu.store.tables import Conversation, Turn, TurnSignal, now

GOOD = ("thumbs_up",)
BAD = ("thumbs_down", "wrong", "correction")
KINDS = (*GOOD, *BAD)


@dataclass(frozen=True)
class FailedTurn:
    """A finished turn that somebody spoke against. ``signals``: ``(kind, detail)``, oldest first."""

    turn_id: int
    question: str
    scope: dict[str, Any]
    signals: tuple[tuple[str, str], ...]


def keep_signal(database: Database, turn_id: int, kind: str, *, detail: str = "", author: str = "") -> None:
    """Keeps what was said of a turn's answer, in place of what was said before: up takes back down, and the other way
    round.

    Raises:
        NotFound: no such turn with an answer.
    """
    assert kind in KINDS, kind
    with database.write() as session:
        turn = session.get(Turn, turn_id)
        if turn is None or turn.status != "done":
            raise NotFound(f"there is no answered turn {turn_id}")
        gone = {"thumbs_up": (kind, "thumbs_down", "wrong"), "thumbs_down": (kind, "thumbs_up")}.get(kind, (kind,))
        session.execute(sa.delete(TurnSignal).where(TurnSignal.turn_id == turn_id, TurnSignal.kind.in_(gone)))
        sealed = database.vault.seal(database.vault.owner_of(turn.question), detail)
        session.add(TurnSignal(turn_id=turn_id, kind=kind, detail=sealed, author=author, at=now()))


def failed_turns(database: Database) -> Sequence[FailedTurn]:
    """Turns that somebody spoke against, oldest first."""
    found: dict[int, FailedTurn] = {}
    with database.read() as session:
        rows = session.execute(
            sa.select(Turn, Conversation.scope, TurnSignal)
            .join(TurnSignal, TurnSignal.turn_id == Turn.id)
            .join(Conversation, Conversation.id == Turn.conversation_id)
            .where(TurnSignal.kind.in_(BAD))
            .order_by(Turn.id, TurnSignal.id)
        )
        for turn, scope, signal in rows:
            try:
                question, detail = database.vault.open(turn.question), database.vault.open(signal.detail)
            except KeyDestroyed:
                continue
            before = found.get(turn.id, FailedTurn(turn.id, question, scope, ()))
            found[turn.id] = FailedTurn(turn.id, question, scope, (*before.signals, (signal.kind, detail)))
    return tuple(found.values())
