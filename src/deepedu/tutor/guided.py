"""A pupil's turn at school: personal data struck out, danger met with care, hints before answers, nothing in exams.

Around ``turn.Tutor``, in this order: what is typed is masked before anything keeps or reads it; a pupil who may be in
danger gets care instead of a lesson, and an adult is told; the class's policy decides whether there is an answer, a
hint, or neither. What is told is decided by code; a model words it at most.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from deepedu.base.personal_data import mask
from deepedu.search.evidence import Evidence, Scope
from deepedu.store.conversations import finish_turn, start_turn
from deepedu.store.flags import raise_flag
from deepedu.store.ladders import load_ladders, save_ladders
from deepedu.store.tables import now
from deepedu.tutor.answer import Lesson, Status
from deepedu.tutor.hint_texts import hint_texts
from deepedu.tutor.hint_wording import Step, next_hint, opening
from deepedu.tutor.hints import Ladders, Policy, Rung
from deepedu.tutor.safety import HelpLine, assess, care_answer
from deepedu.tutor.safety_rules import Kind, SafetyRules
from deepedu.tutor.turn import Completed, Event, Started, Tutor, clean_question


@dataclass(frozen=True)
class Pupil:
    """Who asks: ``learner_id`` owns the conversation; ``class_names`` are full names to strike out of what is typed."""

    learner_id: str
    policy: Policy
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Masked:
    """Personal data were struck out of the question: their kinds, as ``base.personal_data`` names them."""

    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Hinted:
    """A hint in place of an answer: ``rung`` of ``rungs``, and places to read on. The turn is at its end."""

    rung: int
    rungs: int
    name: str
    text: str
    sources: tuple[Lesson, ...]


@dataclass(frozen=True)
class Cared:
    """The lesson stops: somebody may be in danger, and an adult of the school was told. The turn is at its end."""

    text: str


@dataclass(frozen=True)
class Closed:
    """No help during an exam. The turn is at its end."""

    text: str


GuidedEvent = Event | Masked | Hinted | Cared | Closed


class GuidedTutor:
    """The tutor as a school's pupils meet it."""

    def __init__(self, tutor: Tutor, rules: SafetyRules, help_lines: Sequence[HelpLine]) -> None:
        self.tutor = tutor
        self._rules = rules
        self._help_lines = tuple(help_lines)
        self._database = tutor.database

    async def ask(
        self,
        question: str,
        pupil: Pupil,
        *,
        scope: Scope | None = None,
        conversation_id: int | None = None,
        history: Sequence[tuple[str, str]] | None = None,
    ) -> AsyncGenerator[GuidedEvent, None]:
        """Runs a turn; see ``Tutor.ask``. After ``Hinted``, ``Cared`` and ``Closed`` nothing follows.

        Args:
            history: what was said before, where it is not kept here; masked by the caller.

        Raises:
            BadRequest, NotFound, StoreError, SearchError: as ``Tutor.ask``.
        """
        question = clean_question(question)
        masked = mask(question, class_names=pupil.class_names)
        scope = scope or Scope()
        kinds = tuple(dict.fromkeys(str(finding.kind) for finding in masked.findings))
        if kinds:
            yield Masked(kinds)
        # What was struck out may be the name of who is feared, so danger is looked for in all that was typed.
        concern = assess(question, self._rules)
        turn = _Turn(self, pupil, masked.text, scope, conversation_id, history, kinds)
        if concern is not None:
            text = care_answer(concern, self._help_lines)
            yield await turn.start()
            # Who hurts a pupil may be who teaches the pupil: such a flag goes past the teachers of the class.
            flag = "protection" if concern.kind is Kind.ABUSE else "safety"
            await turn.flag(flag, concern.severity.name.lower(), f"{concern.kind}: {'; '.join(concern.matched)}")
            await turn.end("care", text)
            yield Cared(text)
        elif pupil.policy is Policy.EXAM_OFF:
            yield await turn.start()
            text = hint_texts()["policies"]["exam_off"]
            await turn.end("closed", text)
            yield Closed(text)
        elif pupil.policy is Policy.EXPLAIN:
            async with aclosing(self._answered(turn, None)) as events:
                async for event in events:
                    yield event
        else:
            async with aclosing(self._guided(turn)) as events:
                async for event in events:
                    yield event

    async def _guided(self, turn: "_Turn") -> AsyncGenerator[GuidedEvent, None]:
        step = await self._step(turn)
        learner = turn.pupil.learner_id
        if step.decision.rung is Rung.ANSWER:
            if step.decision.verdict:
                turn.beside["lead"] = opening(step.decision)
            async with aclosing(self._answered(turn, step.decision.ladder.question)) as events:
                async for event in events:
                    yield event
            await asyncio.to_thread(save_ladders, self._database, learner, step.ladders.to_json())
            return
        assert step.decision.rung is not None, "only a policy without a ladder has no rung"
        yield await turn.start()
        # Kept before it is shown: whoever leaves in between has had the hint.
        await asyncio.to_thread(save_ladders, self._database, learner, step.ladders.to_json())
        rung = step.decision.rung
        hinted = Hinted(int(rung), int(Rung.ANSWER), rung.name.lower(), step.hint.text, step.hint.sources)
        await turn.end("hint", hinted.text, hint={**asdict(hinted), "reason": step.decision.reason})
        yield hinted

    async def _step(self, turn: "_Turn") -> Step:
        kept = await asyncio.to_thread(load_ladders, self._database, turn.pupil.learner_id)

        def search(question: str) -> Sequence[Evidence]:
            return self.tutor.find(question, turn.scope)

        return await next_hint(Ladders.from_json(kept), turn.question, search, now=now(), model=self.tutor.model)

    async def _answered(self, turn: "_Turn", asks: str | None) -> AsyncGenerator[Event, None]:
        """The usual turn; ``asks`` is the ladder's question where the message is only the last step to it."""
        events = self.tutor.ask(
            turn.question,
            scope=turn.scope,
            conversation_id=turn.conversation_id,
            owner=turn.pupil.learner_id,
            asks=asks,
            history=turn.history,
            beside=turn.beside,
        )
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Started):
                    turn.conversation_id, turn.id = event.conversation_id, event.turn_id
                if isinstance(event, Completed):
                    failed = [s.text for s in event.answer.sentences if s.status is Status.UNSUPPORTED]
                    if failed:
                        await turn.flag("grounding", "", " ".join(failed))
                yield event


class _Turn:
    """A turn that is kept without a model's answer.

    ``beside`` is kept with whatever is told: ``masked``, the kinds of personal data that were struck out, and ``lead``,
    what is said of the pupil's own right result before the answer.
    """

    def __init__(
        self,
        guided: GuidedTutor,
        pupil: Pupil,
        question: str,
        scope: Scope,
        conversation_id: int | None,
        history: Sequence[tuple[str, str]] | None,
        masked: tuple[str, ...],
    ) -> None:
        self.history = history
        self.beside: dict[str, Any] = {"masked": list(masked)} if masked else {}
        self._database = guided.tutor.database
        self.pupil, self.question, self.scope, self.conversation_id = pupil, question, scope, conversation_id
        self.id = 0

    async def start(self) -> Started:
        self.conversation_id, self.id = await asyncio.to_thread(
            start_turn,
            self._database,
            self.question,
            asdict(self.scope),
            self.conversation_id,
            owner=self.pupil.learner_id,
        )
        return Started(self.conversation_id, self.id)

    async def end(self, kind: str, text: str, **more: Any) -> None:
        """Keeps what was told. ``kind`` sets it apart from answers, which have none."""
        answer = {
            "kind": kind,
            "question": self.question,
            "found": True,
            "sentences": [],
            "text": text,
            **self.beside,
            **more,
        }
        await asyncio.to_thread(finish_turn, self._database, self.id, "done", draft="", answer=answer)

    async def flag(self, kind: str, severity: str, detail: str) -> None:
        assert self.conversation_id is not None, "flags belong to a turn that was started"
        await asyncio.to_thread(
            raise_flag,
            self._database,
            self.pupil.learner_id,
            self.conversation_id,
            self.id,
            kind,
            severity=severity,
            detail=detail,
        )
