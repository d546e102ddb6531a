"""What every task of the long-context bench hands over: one context and the questions asked over it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Language = Literal["en", "vi"]
LANGUAGES: tuple[Language, ...] = ("en", "vi")
Count = Callable[[str], int]


@dataclass(frozen=True)
class Question:
    """One question over a context.

    ``answers`` are matched as ``match`` says: ``all`` of them are wanted and the score is the share found, where there
    are ``options`` only among as many as are wanted that the reply names first; one of ``any`` suffices; ``choice`` has
    one answer, the first of ``options`` that the reply names has to be it.
    ``prefix`` is what the reply is made to begin with. ``depths`` tells where in the context each answer stands, 0 its
    beginning and 1 its end; it is empty where an answer stands in many places. ``reply_tokens`` bounds the reply.
    """

    text: str
    answers: tuple[str, ...]
    prefix: str = ""
    match: Literal["all", "any", "choice"] = "all"
    options: tuple[str, ...] = ()
    depths: tuple[float, ...] = ()
    reply_tokens: int = 24


@dataclass(frozen=True)
class Case:
    """A context and what is asked over it. Cases with an equal context are read once."""

    task: str
    language: Language
    context: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Order:
    """What a generator is to make.

    Attributes:
        length_tokens: the context reaches this by ``count`` as nearly as its pieces allow and never goes above it.
        questions: at most so many questions for each case.
        documents: at most so many cases of a task whose contexts serve one question each.
        seed: the same order gives the same cases.
        data_dir: the shared data sets; None where they are absent.
    """

    language: Language
    length_tokens: int
    count: Count
    questions: int = 10
    documents: int = 4
    seed: str = "0"
    data_dir: Path | None = None

    def draw(self, group: str) -> random.Random:
        """Chance for one group of tasks, independent of what other groups draw."""
        return random.Random(f"{self.seed}/{group}/{self.language}/{self.length_tokens}")


class Generator(Protocol):
    """Makes the cases of one group of tasks.

    Raises:
        Unsupported: this order cannot be met; the message is the reason shown for the skipped tasks.
    """

    def __call__(self, order: Order, /) -> list[Case]: ...


@dataclass(frozen=True)
class Group:
    """Tasks that one generator makes together. ``languages`` are those it exists in."""

    tasks: tuple[str, ...]
    generate: Generator
    languages: tuple[Language, ...] = LANGUAGES


Wordings = Mapping[Language, Mapping[str, str]]
