"""The playbook in the database: an append-only history of deltas, read back at any version.

This is the one place that changes it. Writers take turns in the database's own transactions: two at once lose nothing.
"""

import hashlib
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotFound, PlaybookError, PlaybookFull
from deepedu.playbook.bullet import Author, Bullet
from deepedu.playbook.delta import Delta, Operation, operations_from_json, operations_to_json
from deepedu.playbook.state import State, difference
from deepedu.store import Database
from deepedu.store.tables import PlaybookDelta, now

# Estimated tokens of all bullets that are not retired: some 10,000 bullets.
BOOK_TOKENS = 1_000_000


@dataclass(frozen=True)
class Applied:
    """What became of a delta. ``bullet_ids`` has one for each operation; ``again``: it was carried out before."""

    version: int
    bullet_ids: tuple[str, ...]
    again: bool = False


@dataclass(frozen=True)
class Change:
    """One entry of the history."""

    version: int
    delta: Delta
    bullet_ids: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """What differs between two versions: bullets added, taken away, and changed (before, after)."""

    added: tuple[Bullet, ...]
    removed: tuple[Bullet, ...]
    changed: tuple[tuple[Bullet, Bullet], ...]


class Playbook:
    """The book of one database. Safe to share between threads."""

    def __init__(
        self, database: Database, *, limit_tokens: int = BOOK_TOKENS, clock: Callable[[], datetime] = now
    ) -> None:
        self._database, self._limit_tokens, self._clock = database, limit_tokens, clock
        self._lock = threading.Lock()
        self._state, self._version, self._digest = State(), 0, ""

    @property
    def version(self) -> int:
        """The newest version; 0 is the empty book."""
        with self._database.read() as session:
            return session.scalar(sa.select(sa.func.max(PlaybookDelta.version))) or 0

    def state(self) -> State:
        """The newest version. It belongs to the caller.

        Raises:
            PlaybookError: the history in the database is damaged.
        """
        with self._database.read() as session, self._lock:
            self._catch_up(session)
            return self._state.copy()

    def at(self, version: int) -> State:
        """The book as it was at a version.

        Raises:
            NotFound: no such version.
            PlaybookError: the history in the database is damaged.
        """
        with self._database.read() as session:
            newest = session.scalar(sa.select(sa.func.max(PlaybookDelta.version))) or 0
            if not 0 <= version <= newest:
                raise NotFound(f"the playbook has versions 0 to {newest}, came {version}")
            state, digest = State(), ""
            for row in session.scalars(_rows(0, version)):
                digest = _read(row, state, digest)
            return state

    def change(self, operations: Sequence[Operation], author: Author, reason: str, *, delta_id: str = "") -> Applied:
        """Carries out operations as one delta. ``delta_id``: the same id a second time changes nothing.

        Raises:
            InvalidDelta, PlaybookFull: nothing of it was carried out.
        """
        delta = Delta(
            id=delta_id or uuid.uuid4().hex,
            author=author,
            reason=reason,
            at=self._clock(),
            operations=tuple(operations),
        )
        return self.apply(delta)

    def apply(self, delta: Delta) -> Applied:
        """Carries a delta out, once.

        Raises:
            InvalidDelta: with everything that is wrong with it.
            PlaybookFull: the bullets would exceed the size limit.
            PlaybookError: the history in the database is damaged.
        """
        return self.decide(lambda _: delta)

    def rollback(self, version: int, author: Author, reason: str) -> Applied:
        """Makes an earlier version the newest one. What lies between stays in the history.

        Raises:
            NotFound: no such version.
        """
        target = self.at(version)

        def make(state: State) -> Delta | None:
            operations = difference(state.bullets, target.bullets)
            if not operations:
                return None
            return Delta(id=uuid.uuid4().hex, author=author, reason=reason, at=self._clock(), operations=operations)

        return self.decide(make)

    def decide(self, make: Callable[[State], Delta | None]) -> Applied:
        """Carries out what ``make`` decides on the newest version, with no other writer in between.

        Args:
            make: given that version, which it must not change; None: nothing is to be done.

        Raises:
            InvalidDelta, PlaybookFull, PlaybookError: as ``apply``; and whatever ``make`` raises. Nothing is done then.
        """
        # In the database's order first, then in this process's: readers do the same.
        with self._database.write() as session, self._lock:
            self._catch_up(session)
            state = self._state.copy()
            delta = make(state)
            if delta is None:
                return Applied(self._version, (), again=True)
            known = session.scalar(sa.select(PlaybookDelta).where(PlaybookDelta.delta_id == delta.id))
            if known is not None:
                return Applied(known.version, tuple(known.touched), again=True)
            touched = state.apply(delta)
            self._check_size(state)
            operations = operations_to_json(delta.operations)
            row = PlaybookDelta(
                version=self._version + 1,
                delta_id=delta.id,
                author=delta.author.model_dump_json(),
                reason=delta.reason,
                at=delta.at,
                operations=operations,
                touched=list(touched),
            )
            row.digest = _chained(self._digest, row)
            session.add(row)
            session.flush()
        # The transaction is committed; whoever came meanwhile caught up from the database.
        return Applied(row.version, touched)

    def history(self, *, limit: int | None = None, bullet_id: str | None = None) -> list[Change]:
        """Changes, newest first; of one bullet where ``bullet_id`` is given.

        Raises:
            PlaybookError: the history in the database is damaged.
        """
        with self._database.read() as session:
            found: list[Change] = []
            for row in session.scalars(sa.select(PlaybookDelta).order_by(PlaybookDelta.version.desc())):
                if bullet_id is None or bullet_id in row.touched or f'"{bullet_id}"' in row.operations:
                    found.append(Change(row.version, _delta(row), tuple(row.touched)))
                if limit is not None and len(found) == limit:
                    break
            return found

    def diff(self, before: int, after: int) -> Difference:
        """What differs between two versions.

        Raises:
            NotFound: no such version.
        """
        old, new = self.at(before), self.at(after)
        return Difference(
            tuple(bullet for bullet in new.ordered() if bullet.id not in old.bullets),
            tuple(bullet for bullet in old.ordered() if bullet.id not in new.bullets),
            tuple(
                (old.bullets[bullet.id], bullet)
                for bullet in new.ordered()
                if bullet.id in old.bullets and old.bullets[bullet.id] != bullet
            ),
        )

    def _catch_up(self, session: Session) -> None:
        for row in session.scalars(_rows(self._version, None)):
            self._digest = _read(row, self._state, self._digest)
            self._version = row.version

    def _check_size(self, state: State) -> None:
        before = sum(bullet.tokens for bullet in self._state.bullets.values() if bullet.status != "retired")
        after = sum(bullet.tokens for bullet in state.bullets.values() if bullet.status != "retired")
        # A book that is too large already may be changed, if that does not make it larger.
        if after > max(self._limit_tokens, before):
            raise PlaybookFull(
                f"the playbook may have {self._limit_tokens} tokens, this change would make it {after}: retire or "
                "merge bullets first"
            )


def _rows(after: int, upto: int | None) -> sa.Select[Any]:
    found = sa.select(PlaybookDelta).where(PlaybookDelta.version > after).order_by(PlaybookDelta.version)
    return found if upto is None else found.where(PlaybookDelta.version <= upto)


def _read(row: PlaybookDelta, state: State, digest: str) -> str:
    """Applies a stored row to the state before it. Returns the digest after it."""
    if row.digest != _chained(digest, row):
        raise PlaybookError(
            f"version {row.version} of the playbook in the database is not what was written: restore the database from "
            "a copy, or go back to an earlier version from an export"
        )
    touched = state.apply(_delta(row))
    assert touched == tuple(row.touched), "the same operations touch the same bullets"
    return row.digest


def _delta(row: PlaybookDelta) -> Delta:
    # Built without checking the operations twice.
    return Delta.model_construct(
        id=row.delta_id,
        author=Author.model_validate_json(row.author),
        reason=row.reason,
        at=row.at,
        operations=operations_from_json(row.operations),
    )


def _chained(before: str, row: PlaybookDelta) -> str:
    parts = (before, str(row.version), row.delta_id, row.author, row.reason, row.at.isoformat(), row.operations)
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()
