"""The loop: ask, look at the signals, reflect, curate, verify; again for the next questions.

Source: Zhang et al. 2025, Agentic Context Engineering (arXiv 2510.04618). Differs: what is learnt passes the verifier
before it is shown, bullets are chosen for each question, solutions that code has checked become worked examples, and
every step is kept, so that a run that was stopped goes on where it was.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, Bullet, InteractionEvidence
from deepedu.playbook.curator import curate, retirements, tidy
from deepedu.playbook.delta import Add, Operation
from deepedu.playbook.examples import trial, worked_example
from deepedu.playbook.interaction import Interaction
from deepedu.playbook.journal import Journal, Step
from deepedu.playbook.nearest import Nearest
from deepedu.playbook.problem import Problem, Solver, interaction_of
from deepedu.playbook.reflector import Reflection, Reflector
from deepedu.playbook.replay import Case
from deepedu.playbook.select import BulletIndex
from deepedu.playbook.state import State
from deepedu.playbook.verifier import Ruling, Verifier, beside, operations

# Questions like a failed one that are looked at: for an example, and for neighbours that a bullet would be shown with.
_LIKE = 5

# Chooses the bullets for a problem from one version of the book.
Choice = Callable[[Problem], Sequence[Bullet]]
Chooser = Callable[[State], Choice]
OnStep = Callable[[Step], None]

MODEL, VERIFIER, SYSTEM = Author(role="model"), Author(role="verifier"), Author(role="system")


def by_relevance(budget_tokens: int, limit: int, *, one_kind: bool = False) -> Chooser:
    """Verified bullets chosen for the question: what pupils are served with. ``one_kind``: see ``BulletIndex``."""

    def chooser(state: State) -> Choice:
        index = BulletIndex.of(state)

        def choose(problem: Problem) -> Sequence[Bullet]:
            chosen = index.select(
                problem.topic, problem.scope, budget_tokens=budget_tokens, limit=limit, one_kind=one_kind
            )
            return [each.bullet for each in chosen]

        return choose

    return chooser


@dataclass(frozen=True)
class Teaching:
    """How a run learns.

    ``wave``: questions that are asked at once; what they teach is known to the next wave. ``neighbours``: questions
    that a new bullet must not break. ``reflections``: at most so many of a model's; None: for every failure.
    ``examples``: whether solutions that code has checked become bullets.
    """

    wave: int = 4
    neighbours: int = 2
    reflections: int | None = None
    examples: bool = True


@dataclass
class Learner:
    """Runs the loop over problems, on one book.

    Args:
        verifier: None leaves what is learnt proposed: the loop as published, for comparison.
        reflector: None learns from worked examples alone.
    """

    book: Playbook
    solver: Solver
    chooser: Chooser
    verifier: Verifier | None = None
    reflector: Reflector | None = None
    teaching: Teaching = Teaching()
    author: Author = MODEL
    _failures: Nearest[Interaction] = field(default_factory=Nearest[Interaction])
    _cases: Nearest[Case] = field(default_factory=Nearest[Case])
    _solved: Nearest[Case] = field(default_factory=Nearest[Case])
    # Ids of the problems that a reflection was asked for.
    _reflected: set[str] = field(default_factory=set[str])

    async def ask(self, problems: Sequence[Problem], on_step: OnStep | None = None) -> list[Step]:
        """Asks without learning: a test.

        Raises:
            LLMError: the model did not answer.
        """
        choose = self.chooser(self.book.state())
        steps: list[Step] = []
        for wave in _waves(problems, self.teaching.wave):
            for case, seconds in await self._asked(wave, choose):
                steps.append(_step(case, seconds))
                if on_step is not None:
                    on_step(steps[-1])
        return steps

    async def learn(self, problems: Sequence[Problem], journal: Journal, on_step: OnStep | None = None) -> list[Step]:
        """Asks each problem, then learns from it: the steps tell how good the book was before.

        Args:
            problems: in their order; each id once.
            journal: of this run. What it holds already is neither asked nor learnt from again.

        Raises:
            LLMError: the model did not answer; everything up to the last wave is kept.
        """
        state = self.book.state()
        done = {step.problem: step for step in journal.steps()}
        self._reflected = {step.problem for step in done.values() if step.reflected}
        for problem in problems:
            if problem.id in done:
                self._remember(problem, done[problem.id].case(problem, state), journal.run)
        for wave in _waves([problem for problem in problems if problem.id not in done], self.teaching.wave):
            steps = await self._wave(wave, journal.run)
            journal.append(*steps)
            for step in steps:
                done[step.problem] = step
                if on_step is not None:
                    on_step(step)
        if merges := tidy(self.book.state()):
            self.book.change(merges, SYSTEM, "dọn sổ tay")
        return [done[problem.id] for problem in problems]

    async def _wave(self, problems: Sequence[Problem], run: str) -> list[Step]:
        state = self.book.state()
        asked = await self._asked(problems, self.chooser(state))
        begin = time.perf_counter()
        learnt = await asyncio.gather(*(self._lessons(case, state, run) for case, _ in asked))
        new: list[tuple[str, Case]] = []
        for (case, _), lessons in zip(asked, learnt, strict=True):
            if lessons:
                reason = f"học từ câu {case.problem.id}"
                done = self.book.change(lessons, self.author, reason, delta_id=f"{run}:{case.problem.id}")
                new += [(each, case) for each in dict.fromkeys(done.bullet_ids)]
        await self._verify(new, run)
        after = self.book.state()
        touched = [after.bullets[each] for each, _ in new if each in after.bullets]
        if gone := retirements(touched):
            self.book.change(gone, SYSTEM, "hại nhiều hơn giúp")
        for case, _ in asked:
            self._remember(case.problem, case, run)
        learning = (time.perf_counter() - begin) / len(asked)
        return [_step(case, seconds + learning, case.problem.id in self._reflected) for case, seconds in asked]

    async def _asked(self, problems: Sequence[Problem], choose: Choice) -> list[tuple[Case, float]]:
        begin = time.perf_counter()
        shown = [tuple(choose(problem)) for problem in problems]
        attempts = await asyncio.gather(
            *(self.solver.attempt(problem, bullets) for problem, bullets in zip(problems, shown, strict=True))
        )
        seconds = (time.perf_counter() - begin) / len(problems)
        return [(Case(*each), seconds) for each in zip(problems, shown, attempts, strict=True)]

    async def _lessons(self, case: Case, state: State, run: str) -> tuple[Operation, ...]:
        interaction = _interaction(case, run)
        reflection = await self._reflection(interaction, case, state) if interaction.failed else None
        found = list(curate(interaction, reflection, state))
        if interaction.failed and self.teaching.examples:
            signal = next(each.kind for each in interaction.signals if not each.good)
            evidence = InteractionEvidence(reference=interaction.reference, signal=signal)
            example = await self._example(case, state, evidence)
            found += [example] if example else []
        return tuple(found)

    async def _example(self, case: Case, state: State, evidence: InteractionEvidence) -> Add | None:
        """What shows how the failed question is done: its own known solution, else that of a question like it which was
        answered right, else one that is worked out with the answer known."""
        problem = case.problem
        if problem.solution:
            return worked_example(problem, problem.solution, evidence)
        known = {bullet.text for bullet in state.bullets.values()}
        for solved in self._solved.near(problem.topic, _LIKE, without=problem.id):
            example = worked_example(solved.problem, solved.attempt.solution, evidence)
            # One that is in the book was shown, or was refused.
            if example is not None and example.text not in known and self._would_show(example, problem):
                return example
        worked_out = await self.solver.work_out(problem) if problem.expected else None
        return worked_example(problem, worked_out, evidence) if worked_out else None

    def _would_show(self, example: Add, problem: Problem) -> bool:
        made = trial(example)
        return made in self.chooser(State({made.id: made}))(problem)

    async def _reflection(self, interaction: Interaction, case: Case, state: State) -> Reflection | None:
        reflector, most = self.reflector, self.teaching.reflections
        if reflector is None:
            return None
        if most is not None and len(self._reflected) >= most:
            return None
        self._reflected.add(case.problem.id)
        similar = self._failures.near(case.problem.topic, 2, without=case.problem.id)
        return await reflector.reflect(interaction, similar=similar, bullets=state.bullets)

    async def _verify(self, new: Sequence[tuple[str, Case]], run: str) -> None:
        if self.verifier is None:
            return
        state = self.book.state()
        # Counting touches bullets too; only those that wait are ruled on.
        known = ((state.bullets.get(bullet_id), case) for bullet_id, case in new)
        waiting = [(bullet, case) for bullet, case in known if bullet is not None and bullet.status == "proposed"]
        if not waiting:
            return
        ruled = await asyncio.gather(*(self._ruling(bullet, case, state) for bullet, case in waiting))
        rulings: dict[str, Ruling] = {}
        for (bullet, _), ruling in zip(waiting, ruled, strict=True):
            # Learnt from several questions of the wave, it has to do no harm at any of them.
            if bullet.id not in rulings or ruling.status == "quarantined":
                rulings[bullet.id] = ruling
        judged: list[Operation] = []
        live = dict(state.bullets)
        for bullet_id, ruling in rulings.items():
            # Two of one wave may contradict each other: the first one stays.
            bullet, ruling = live[bullet_id], beside(live[bullet_id], ruling, live.values())
            judged += operations(bullet, ruling)
            live[bullet_id] = bullet.model_copy(update={"status": ruling.status})
        # One change for the wave: a run that is killed has judged all of it or nothing.
        named = waiting[0][1].problem.id
        self.book.change(judged, VERIFIER, "kiểm chứng điều vừa học", delta_id=f"{run}:{named}:v")

    async def _ruling(self, bullet: Bullet, case: Case, state: State) -> Ruling:
        assert self.verifier is not None
        near = self._cases.near(case.problem.topic, _LIKE, without=case.problem.id)
        # A neighbour that the bullet would not be shown with cannot be broken by it.
        live = bullet.model_copy(update={"status": "verified"})
        choose = self.chooser(State({live.id: live}))
        near = [each for each in near if live in choose(each.problem)][: self.teaching.neighbours]
        # Where only people said that it was wrong, asking again tells nothing: their word is for a teacher to weigh.
        failed = case if case.attempt.is_right is False else None
        return await self.verifier.rule(bullet, state, failed, near)

    def _remember(self, problem: Problem, case: Case, run: str) -> None:
        self._cases.put(problem.id, problem.topic, case)
        if case.attempt.solution:
            self._solved.put(problem.id, problem.topic, case)
        interaction = _interaction(case, run)
        if interaction.failed:
            self._failures.put(problem.id, problem.topic, interaction)


def _interaction(case: Case, run: str) -> Interaction:
    return interaction_of(case.problem, case.attempt, case.shown, f"{run}:{case.problem.id}")


def _step(case: Case, seconds: float, reflected: bool = False) -> Step:
    shown = tuple(each.id for each in case.shown)
    return Step(problem=case.problem.id, shown=shown, attempt=case.attempt, seconds=seconds, reflected=reflected)


def _waves(problems: Sequence[Problem], size: int) -> list[Sequence[Problem]]:
    return [problems[first : first + size] for first in range(0, len(problems), size)]
