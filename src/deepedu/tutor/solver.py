"""Questions of the textbooks as problems of the loop: the tutor answers, labels or grounding tell how well."""

from collections.abc import Sequence
from contextlib import aclosing

from deepedu.base.config import TutorSettings
from deepedu.base.vietnamese import sentence_spans, words
from deepedu.llm.chat import ChatModel
from deepedu.llm.prefix_cache import PrefixCache
from deepedu.playbook.bullet import Bullet
from deepedu.playbook.duplicates import shingles
from deepedu.playbook.interaction import Signal
from deepedu.playbook.problem import Attempt, Problem, Solver
from deepedu.search.evidence import Scope
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.tutor.answer import Answer, Status
from deepedu.tutor.learnt import GivenBullets
from deepedu.tutor.marking import mark_text
from deepedu.tutor.turn import Completed, Draft, Tutor

# Passages in which the sentence is looked for that tells a known answer.
_LOOKED_THROUGH = 8


class TutorSolver:
    """A ``playbook.problem.Solver`` that runs turns of the tutor; none of them is kept."""

    def __init__(
        self,
        database: Database,
        search: Search,
        model: ChatModel,
        settings: TutorSettings,
        cache: PrefixCache | None = None,
    ) -> None:
        self._database, self._search, self._model = database, search, model
        self._settings, self._cache = settings, cache

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        """See ``Solver``. Without an expected answer, grounding is the signal; none where the book does not say."""
        source = GivenBullets(bullets, self._database)
        parts = (self._database, self._search, self._model, self._settings, self._cache, source)
        tutor = Tutor(*parts, keeps_turns=False)
        draft, completed = "", None
        scope = Scope(grade=problem.scope.grade, subject=problem.scope.subject)
        async with aclosing(tutor.ask(problem.question, scope=scope)) as events:
            async for event in events:
                if isinstance(event, Draft):
                    draft += event.text
                elif isinstance(event, Completed):
                    completed = event
        assert completed is not None, "a turn that does not fail is completed"
        finished = completed.finished
        return Attempt(
            text=draft,
            answer=completed.answer.text,
            signals=_signals(completed.answer, problem),
            used=completed.bullets_used,
            prompt_tokens=(finished.prompt_tokens if finished else None) or 0,
            completion_tokens=(finished.completion_tokens if finished else None) or 0,
        )

    async def work_out(self, problem: Problem) -> str | None:
        """See ``Solver``: the sentence of the book that tells the known answer to what was asked."""
        asked = shingles(problem.question)
        best: tuple[float, str] | None = None
        for item in self._search.search(problem.question, limit=_LOOKED_THROUGH):
            for start, end in sentence_spans(item.text):
                said = item.text[start:end]
                if item.is_exercise or not any(holds(said, answer) for answer in problem.answers):
                    continue
                alike = len(asked & shingles(said)) / max(1, len(asked))
                if best is None or alike > best[0]:
                    best = alike, said
        return best[1] if best else None


class EitherSolver:
    """Exercises with options to one solver, questions of the textbooks to another."""

    def __init__(self, exercises: Solver, questions: Solver) -> None:
        self._exercises, self._questions = exercises, questions

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:
        """See ``Solver``."""
        return await self._for(problem).attempt(problem, bullets)

    async def work_out(self, problem: Problem) -> str | None:
        """See ``Solver``."""
        return await self._for(problem).work_out(problem)

    def _for(self, problem: Problem) -> Solver:
        return self._exercises if problem.choices else self._questions


def holds(text: str, answer: str) -> bool:
    """Whether a text holds an answer, as whole words in their order, or is that answer."""
    return f" {' '.join(words(answer))} " in f" {' '.join(words(text))} " or mark_text(text, [answer])


def _signals(answer: Answer, problem: Problem) -> tuple[Signal, ...]:
    if problem.expected is not None:
        right = answer.found and any(holds(answer.text, each) for each in problem.answers)
        return (Signal(kind="quiz", good=right),)
    if not answer.found:
        return ()
    failed = [s for s in answer.sentences if s.status is Status.UNSUPPORTED or s.replaces]
    if failed:
        return tuple(Signal(kind="grounding", good=False, detail=s.reason or s.text) for s in failed)
    return (Signal(kind="grounding", good=True),)
