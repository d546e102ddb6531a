"""Where pupils stand with their questions, kept sealed and as plain values; ``tutor.hints`` gives them their sense."""

import json
from typing import Any

from deepedu.store.database import Database
from deepedu.store.tables import StoredLadders, now


def load_ladders(database: Database, learner_id: str) -> list[dict[str, Any]]:
    """What was kept last, empty where nothing was.

    Raises:
        KeyDestroyed: the pupil's data were deleted.
    """
    with database.read() as session:
        row = session.get(StoredLadders, learner_id)
        return [] if row is None else json.loads(database.vault.open(row.state))


def save_ladders(database: Database, learner_id: str, ladders: list[dict[str, Any]]) -> None:
    """Keeps them in place of what was kept before."""
    state = database.vault.seal(learner_id, json.dumps(ladders, ensure_ascii=False))
    with database.write() as session:
        session.merge(StoredLadders(learner_id=learner_id, state=state, changed_at=now()))
