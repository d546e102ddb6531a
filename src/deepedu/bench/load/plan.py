"""What the load generator is told, and what it gives back, as files: it runs in a process of its own."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Learner:
    """A pupil of the bench. ``number`` is the one that markers tell."""

    number: int
    username: str
    password: str
    policy: str
    # The class's quiz.
    assignment_id: int


@dataclass(frozen=True)
class Roster:
    """Who asks, what, and the quiz's items to fill in: ``(item id, kind)``."""

    pupils: tuple[Learner, ...]
    questions: tuple[str, ...]
    items: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Roster":
        """Reads what ``to_json`` gave."""
        return cls(
            tuple(Learner(**pupil) for pupil in data["pupils"]),
            tuple(data["questions"]),
            tuple((item, kind) for item, kind in data["items"]),
        )


@dataclass(frozen=True)
class Plan:
    """``users`` of the roster sign in, so many each second, and ask every ``pace_s``; the run lasts ``seconds`` from
    the moment at which all of them are there."""

    url: str
    roster: Roster
    users: int
    seconds: float
    pace_s: float = 30.0
    spawn_rate: float = 10.0
    seed: int = 0

    def write(self, path: Path) -> None:
        """Writes it for ``read``."""
        values = {**vars(self), "roster": self.roster.to_json()}
        path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Reads what ``write`` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "roster": Roster.from_json(values["roster"])})


@dataclass(frozen=True)
class Done:
    """One request. ``at_s``: when it began, counted from the moment at which all users were there (before it: less
    than 0). ``own_ms``: the whole time less the model's; ``first_ms``: until the first useful event, questions only.
    ``error``: what went wrong."""

    kind: str
    at_s: float
    own_ms: float = 0.0
    first_ms: float | None = None
    model_ms: float = 0.0
    error: str | None = None


@dataclass
class Findings:
    """All that a run gave: its requests, markers that came to the wrong pupil, what the generator itself took.

    ``cpu``: ``[at_s, seconds of processor time]`` of the generator, now and then. ``began_at``: the wall clock's time
    at ``at_s`` 0.
    """

    done: list[Done] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)
    began_at: float = 0.0

    def write(self, path: Path) -> None:
        """Writes them for ``read``."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Findings":
        """Reads what ``write`` wrote."""
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "done": [Done(**each) for each in values["done"]]})


def own_times(done: Sequence[Done], kinds: Sequence[str]) -> list[float]:
    """The application's own time of the requests of some kinds that went well, in milliseconds."""
    return [each.own_ms for each in done if each.kind in kinds and each.error is None]
