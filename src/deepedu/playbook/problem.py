"""Questions that the loop asks, and what whoever answers them has to give back.

The playbook knows neither tutor nor search: those come in as the protocols of this module.
"""

from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from deepedu.playbook.bullet import Bullet, BulletId, BulletScope, Kind, Language, PassageEvidence, Value
from deepedu.playbook.interaction import Interaction, Signal

# Stands between several right answers.
OR = "|"


class Problem(Value):
    """A question that can be asked again.

    ``expected`` is the right answer where it is known, or several with ``OR`` between them.
    ``about`` is what bullets are looked up by and neighbours are found by, where that is not the whole question.
    ``solution`` is a worked one, known from the start.
    ``choices`` are the options of a multiple-choice question, with their labels if it has some. ``example_kind`` is the
    kind of bullet that a solution of it makes. ``signals`` are what people said of its answer before.
    """

    id: str = Field(min_length=1, max_length=40)
    question: str = Field(min_length=1)
    about: str = ""
    expected: str | None = None
    solution: str | None = None
    choices: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    example_kind: Kind = "method"
    language: Language = "vi"
    scope: BulletScope = BulletScope()

    @property
    def answers(self) -> tuple[str, ...]:
        """The accepted answers."""
        return tuple(answer for answer in (self.expected or "").split(OR) if answer)

    @property
    def topic(self) -> str:
        """What it is about, in words."""
        return self.about or self.question


class Attempt(Value):
    """An answer and what told how good it was. ``used``: the shown bullets that the answer rests on.

    ``text`` is what the model wrote, ``answer`` what came of it; ``solution``, of a right answer, is what can be shown
    as an example of how it is found, empty where there is nothing to show. Tokens are the server's counts, 0 where it
    tells none.
    """

    text: str
    answer: str
    signals: tuple[Signal, ...] = ()
    used: tuple[BulletId, ...] = ()
    solution: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def is_right(self) -> bool | None:
        """What the signals say; None without one."""
        return all(signal.good for signal in self.signals) if self.signals else None


class Solver(Protocol):
    """Answers questions with the bullets it is given. The same question with the same bullets has one answer."""

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        """Answers, with the signals there are.

        Raises:
            LLMError: the model did not answer.
        """
        ...

    async def work_out(self, problem: Problem) -> str | None:
        """A worked solution of a problem whose answer is known, checked in code; None where there is none.

        Raises:
            LLMError: the model did not answer.
        """
        ...


class FactVerdict(Value):
    """Whether the books bear a text: the quotes that do, or the reasons why not.

    ``doubts``: what no code can tell; a person has to look.
    """

    evidence: tuple[PassageEvidence, ...] = ()
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class FactCheck(Protocol):
    """Holds a text against the ingested books."""

    async def check(self, text: str, scope: BulletScope) -> FactVerdict:
        """The verdict; without a reason or a doubt the evidence bears all of the text."""
        ...


class Judge(Protocol):
    """A second opinion on whether quotes bear a text: a stronger model's."""

    async def bears(self, text: str, quotes: Sequence[str]) -> bool | None:
        """None: it could not say."""
        ...


def interaction_of(problem: Problem, attempt: Attempt, shown: Sequence[Bullet], reference: str) -> Interaction:
    """What the reflector and the curator are given of an attempt."""
    return Interaction(
        reference=reference,
        question=problem.question,
        answer=attempt.text,
        expected=problem.expected,
        language=problem.language,
        scope=problem.scope,
        shown=tuple(bullet.id for bullet in shown),
        used=attempt.used,
        signals=(*attempt.signals, *problem.signals),
    )
