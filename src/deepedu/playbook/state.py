"""One version of the book, and the one function that changes it.

A delta is carried out as a whole or not at all. Its id makes it idempotent: the book remembers which ones it has seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from deepedu.base.errors import InvalidDelta
from deepedu.playbook.bullet import SECTIONS, Bullet, Evidence, changed
from deepedu.playbook.delta import (
    Add,
    Count,
    Delta,
    Judge,
    Merge,
    Operation,
    Put,
    Remove,
    Retire,
    Update,
    told,
)

_JUDGES = frozenset({"teacher", "verifier"})


@dataclass
class State:
    """All bullets of one version, by id. ``last_number`` and ``last_order`` are the highest that there ever were."""

    bullets: dict[str, Bullet] = field(default_factory=dict[str, Bullet])
    last_number: int = 0
    last_order: int = -1
    _same: dict[tuple[Any, ...], str] = field(default_factory=dict[tuple[Any, ...], str], repr=False, compare=False)

    def copy(self) -> "State":
        """A state that can be changed apart from this one."""
        return State(dict(self.bullets), self.last_number, self.last_order, dict(self._same))

    def ordered(self) -> list[Bullet]:
        """The bullets in the order in which they were added."""
        return sorted(self.bullets.values(), key=lambda bullet: bullet.order)

    def apply(self, delta: Delta) -> tuple[str, ...]:
        """Carries a delta out.

        Returns:
            For each operation the id of the bullet that it made or changed.

        Raises:
            InvalidDelta: with everything that is wrong with it; the state is as it was.
        """
        work = _Work(self, delta)
        problems: list[str] = []
        touched: list[str] = []
        for number, operation in enumerate(delta.operations, start=1):
            try:
                touched.append(work.carry_out(operation))
            except ValueError as error:
                text = told(error) if isinstance(error, ValidationError) else str(error)
                problems.append(f"operation {number} ({operation.op}): {text}")
        if problems:
            raise InvalidDelta(f"nothing of the change was carried out: {'; '.join(problems)}")
        work.commit()
        return tuple(touched)


class _Work:
    """A delta on its way: what it changes lies over the state until all of it is known to be right."""

    def __init__(self, state: State, delta: Delta) -> None:
        self._state, self._delta = state, delta
        self._changes: dict[str, Bullet | None] = {}
        self._same: dict[tuple[Any, ...], str] = {}
        self._last_number, self._last_order = state.last_number, state.last_order

    def carry_out(self, operation: Operation) -> str:
        match operation:
            case Add():
                return self._add(operation)
            case Update():
                return self._update(operation)
            case Merge():
                return self._merge(operation)
            case Retire():
                return self._retire(operation.bullet_id, operation.reason)
            case Count():
                return self._count(operation.bullet_id, operation.helpful, operation.harmful)
            case Judge():
                return self._judge(operation)
            case Put():
                return self._put(operation.bullet)
            case Remove():
                return self._remove(operation.bullet_id)

    def commit(self) -> None:
        state = self._state
        for bullet_id in self._changes:
            before = state.bullets.pop(bullet_id, None)
            if before is not None and state._same.get(before.sameness) == bullet_id:
                del state._same[before.sameness]
        for bullet_id, bullet in self._changes.items():
            if bullet is not None:
                state.bullets[bullet_id] = bullet
                state._same.setdefault(bullet.sameness, bullet_id)
        state.last_number, state.last_order = self._last_number, self._last_order

    # --- Operations --------------------------------------------------------------------------------------------------

    def _add(self, add: Add) -> str:
        at = self._delta.at
        bullet = Bullet(
            id=add.bullet_id or f"b-{self._last_number + 1:05d}",
            order=self._last_order + 1,
            section=SECTIONS[add.kind] if add.section is None else add.section,
            text=add.text,
            kind=add.kind,
            language=add.language,
            scope=add.scope,
            evidence=add.evidence,
            helpful=add.helpful,
            harmful=add.harmful,
            author=self._delta.author,
            created_at=at,
            changed_at=at,
        )
        if (same := self._same_as(bullet)) is not None:
            self._save(
                changed(
                    same,
                    at,
                    evidence=_joined(same.evidence, add.evidence),
                    helpful=same.helpful + add.helpful,
                    harmful=same.harmful + add.harmful,
                )
            )
            return same.id
        if self._known(bullet.id) is not None:
            raise ValueError(f"there is another bullet {bullet.id!r} already: leave the id out, or update that one")
        self._save(bullet)
        return bullet.id

    def _update(self, update: Update) -> str:
        bullet = self._live(update.bullet_id)
        fields = ("text", "kind", "section", "language", "scope")
        values = {name: value for name in fields if (value := getattr(update, name)) is not None}
        values = {name: value for name, value in values.items() if value != getattr(bullet, name)}
        # Another heading or more evidence says nothing new; everything else does.
        if set(values) - {"section"}:
            values |= {"status": "proposed", "reasons": ()}
        evidence = _joined(bullet.evidence, update.evidence)
        if values or evidence != bullet.evidence:
            self._save(changed(bullet, self._delta.at, evidence=evidence, **values))
        return bullet.id

    def _merge(self, merge: Merge) -> str:
        target = self._live(merge.into)
        if merge.into in merge.sources:
            raise ValueError(f"{merge.into!r} cannot be merged into itself")
        for source_id in dict.fromkeys(merge.sources):
            if self._get(source_id).merged_into == target.id:
                continue
            source = self._live(source_id)
            target = changed(
                target,
                self._delta.at,
                evidence=_joined(target.evidence, source.evidence),
                helpful=target.helpful + source.helpful,
                harmful=target.harmful + source.harmful,
            )
            gone: dict[str, Any] = {"status": "retired", "merged_into": target.id, "helpful": 0, "harmful": 0}
            self._save(changed(source, self._delta.at, reasons=(f"gộp vào {target.id}",), **gone))
        if merge.text is not None and merge.text != target.text:
            target = changed(target, self._delta.at, text=merge.text, status="proposed", reasons=())
        self._save(target)
        return target.id

    def _retire(self, bullet_id: str, reason: str) -> str:
        bullet = self._get(bullet_id)
        if bullet.status != "retired":
            self._save(changed(bullet, self._delta.at, status="retired", reasons=(reason,)))
        return bullet_id

    def _count(self, bullet_id: str, helpful: int, harmful: int) -> str:
        bullet = self._heir(self._get(bullet_id))
        if helpful or harmful:
            counts = {"helpful": bullet.helpful + helpful, "harmful": bullet.harmful + harmful}
            self._save(changed(bullet, self._delta.at, **counts))
        return bullet.id

    def _judge(self, judge: Judge) -> str:
        role = self._delta.author.role
        if role not in _JUDGES:
            raise ValueError(f"a {role} cannot judge bullets: only a teacher or the verifier can")
        bullet = self._get(judge.bullet_id)
        if role == "verifier" and bullet.status == "retired":
            raise ValueError(f"{bullet.id!r} is retired: only a teacher can bring it back")
        if (bullet.status, bullet.reasons) != (judge.status, judge.reasons):
            heir = bullet.merged_into if judge.status == "retired" else None
            values: dict[str, Any] = {"status": judge.status, "reasons": judge.reasons, "merged_into": heir}
            self._save(changed(bullet, self._delta.at, **values))
        return bullet.id

    def _put(self, bullet: Bullet) -> str:
        self._by_teacher()
        self._save(bullet)
        return bullet.id

    def _remove(self, bullet_id: str) -> str:
        self._get(bullet_id)
        self._by_teacher()
        self._changes[bullet_id] = None
        return bullet_id

    def _by_teacher(self) -> None:
        if (role := self._delta.author.role) != "teacher":
            raise ValueError(f"a {role} cannot put bullets back as they were: only a teacher can")

    # --- What is there -----------------------------------------------------------------------------------------------

    def _known(self, bullet_id: str) -> Bullet | None:
        return self._changes[bullet_id] if bullet_id in self._changes else self._state.bullets.get(bullet_id)

    def _get(self, bullet_id: str) -> Bullet:
        bullet = self._known(bullet_id)
        if bullet is None:
            raise ValueError(f"there is no bullet {bullet_id!r}")
        return bullet

    def _live(self, bullet_id: str) -> Bullet:
        bullet = self._get(bullet_id)
        if bullet.status == "retired":
            raise ValueError(f"{bullet_id!r} is retired: a teacher can bring it back")
        return bullet

    def _heir(self, bullet: Bullet) -> Bullet:
        """The bullet that stands for this one now: itself, or the one at the end of its merges."""
        seen = {bullet.id}
        while bullet.merged_into is not None and (heir := self._known(bullet.merged_into)) is not None:
            # Versions that come back may hold what no merge makes.
            if heir.id in seen:
                break
            seen.add(heir.id)
            bullet = heir
        return bullet

    def _same_as(self, bullet: Bullet) -> Bullet | None:
        for found in (self._same.get(bullet.sameness), self._state._same.get(bullet.sameness)):
            known = None if found is None else self._known(found)
            if known is not None and known.sameness == bullet.sameness:
                return self._heir(known)
        return None

    def _save(self, bullet: Bullet) -> None:
        self._changes[bullet.id] = bullet
        self._same.setdefault(bullet.sameness, bullet.id)
        self._last_order = max(self._last_order, bullet.order)
        prefix, _, digits = bullet.id.rpartition("-")
        if prefix == "b" and digits.isascii() and digits.isdigit():
            self._last_number = max(self._last_number, int(digits))


def difference(before: Mapping[str, Bullet], after: Mapping[str, Bullet]) -> tuple[Put | Remove, ...]:
    """Operations that turn one version's bullets into another's."""
    puts = sorted((after[each] for each in after if before.get(each) != after[each]), key=lambda bullet: bullet.order)
    removals = (Remove(bullet_id=each) for each in before if each not in after)
    return (*removals, *(Put(bullet=bullet) for bullet in puts))


def _joined(first: tuple[Evidence, ...], second: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys((*first, *second)))
