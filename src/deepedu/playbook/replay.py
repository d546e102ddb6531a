"""Asking again: whether a bullet helps where an answer failed, and what it breaks next to it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.playbook.bullet import Bullet, Value
from deepedu.playbook.problem import Attempt, Problem, Solver


@dataclass(frozen=True)
class Case:
    """A question that was asked before, with the bullets that were shown then and what came of it."""

    problem: Problem
    shown: tuple[Bullet, ...]
    attempt: Attempt


class Replayed(Value):
    """Questions asked again with a bullet: what it mended and what it broke."""

    helped: tuple[str, ...] = ()
    broke: tuple[str, ...] = ()
    asked: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it may not be shown; none: it may."""
        reasons: list[str] = []
        if not self.helped:
            reasons.append("hỏi lại: không giúp được câu đã trả lời sai")
        if self.broke:
            reasons.append(f"hỏi lại: làm sai {len(self.broke)} câu vốn đúng")
        return tuple(reasons)


async def replay(bullet: Bullet, failed: Case, neighbours: Sequence[Case], solver: Solver) -> Replayed:
    """Asks a failed question and its neighbours once more, with the bullet in front of those that were shown.

    What came of them without it is known: the same question with the same bullets has one answer. A neighbour without
    a signal tells nothing and is not asked.

    Raises:
        LLMError: the model did not answer.
    """
    cases = [failed, *(case for case in neighbours if case.attempt.is_right is not None)]
    attempts = await asyncio.gather(*(solver.attempt(case.problem, (bullet, *_others(case, bullet))) for case in cases))
    helped: list[str] = []
    broke: list[str] = []
    for case, attempt in zip(cases, attempts, strict=True):
        if attempt.is_right and not case.attempt.is_right:
            helped.append(case.problem.id)
        if case.attempt.is_right and not attempt.is_right:
            broke.append(case.problem.id)
    return Replayed(
        # A neighbour that comes right does not make up for the question it was learnt from.
        helped=tuple(helped) if failed.problem.id in helped else (),
        broke=tuple(broke),
        asked=len(cases),
        prompt_tokens=sum(attempt.prompt_tokens for attempt in attempts),
        completion_tokens=sum(attempt.completion_tokens for attempt in attempts),
    )


def _others(case: Case, bullet: Bullet) -> list[Bullet]:
    return [other for other in case.shown if other.id != bullet.id]
