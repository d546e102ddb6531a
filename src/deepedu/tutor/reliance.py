"""What answers stand on, over time: the books, the playbook, or nothing that could be checked."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from deepedu.store import Database
from deepedu.store.conversations import answered_turns
from deepedu.store.tables import now
from deepedu.tutor.answer import Status


@dataclass(frozen=True)
class Reliance:
    """One week, from its Monday. Sentences by what carries them:

    ``book``: borne by the book or quoted from it. ``playbook``: those among the answers that rest on a bullet.
    ``own``: the model's own, not borne, struck out before a pupil's eyes. ``not_found``: answers that the book does
    not give.
    """

    week: date
    answers: int
    not_found: int
    book: int
    playbook: int
    own: int

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of all sentences: book, playbook, own; 0 where there are none."""
        whole = self.book + self.playbook + self.own
        return (self.book / whole, self.playbook / whole, self.own / whole) if whole else (0.0, 0.0, 0.0)


def reliance(database: Database, *, weeks: int | None = None) -> list[Reliance]:
    """The weeks with finished turns, oldest first.

    Args:
        weeks: only the newest, this one among them: every answer in them is opened and read.

    Raises:
        StoreError: the database failed.
    """
    since = None
    if weeks is not None:
        today = now().replace(hour=0, minute=0, second=0, microsecond=0)
        since = today - timedelta(days=today.weekday(), weeks=weeks - 1)
    found_in: dict[date, Counter[str]] = {}
    for turn in answered_turns(database, since=since):
        week = turn.started_at.date() - timedelta(days=turn.started_at.weekday())
        found_in.setdefault(week, Counter()).update(_counted(turn.answer or {}))
    return [
        Reliance(week, found["answers"], found["not_found"], found["book"], found["playbook"], found["own"])
        for week, found in sorted(found_in.items())
    ]


def _counted(answer: dict[str, Any]) -> Iterator[str]:
    if "kind" in answer:
        return  # A hint, or a word of care.
    yield "answers"
    if not answer.get("found"):
        yield "not_found"
        return
    carried = "playbook" if answer.get("bullets", {}).get("used") else "book"
    for sentence in answer["sentences"]:
        yield "own" if sentence["status"] == Status.UNSUPPORTED else carried
