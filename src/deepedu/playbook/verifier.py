"""The gate: nothing that was learnt is shown to a pupil before it passed all of it, or before a teacher says so.

In order, cheapest first: safety, conflict, evidence, replay, policy. What fails is quarantined with all its reasons;
what passes but is of a kind that waits for a teacher stays proposed and says so.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from deepedu.playbook.bullet import Bullet, Kind, PassageEvidence, Status
from deepedu.playbook.conflict import contradicted
from deepedu.playbook.delta import Judge as JudgeOperation
from deepedu.playbook.delta import Operation, Update
from deepedu.playbook.problem import FactCheck, Judge, Solver
from deepedu.playbook.replay import Case, replay
from deepedu.playbook.safety import dangers
from deepedu.playbook.state import State

# Kinds that go live without a teacher when they pass: what the books bear word by word.
LIVE_KINDS: frozenset[Kind] = frozenset({"fact"})
WAITS = "chờ giáo viên duyệt"


@dataclass(frozen=True)
class Ruling:
    """What the gate says of a bullet. ``evidence`` is what it found in the books."""

    status: Status
    reasons: tuple[str, ...]
    evidence: tuple[PassageEvidence, ...] = ()


@dataclass
class Checked:
    """What asking again cost, summed up."""

    asked: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass
class Verifier:
    """Rules on bullets.

    Args:
        facts: holds facts against the books. Without it no fact can be verified, and each waits for a teacher.
        solver: asks questions again. Without it nothing can be replayed, and everything waits for a teacher.
        judge: a stronger model's opinion on top of ``facts``; it can refuse and never let in.
        live_kinds: the kinds that need no teacher.
        evidence_kinds: the kinds that the books must bear.
        pupils: names that no bullet may hold.
    """

    facts: FactCheck | None = None
    solver: Solver | None = None
    judge: Judge | None = None
    live_kinds: Collection[Kind] = LIVE_KINDS
    evidence_kinds: Collection[Kind] = frozenset({"fact"})
    pupils: Sequence[str] = ()
    spent: Checked = field(default_factory=Checked)

    async def rule(
        self, bullet: Bullet, state: State, failed: Case | None = None, neighbours: Sequence[Case] = ()
    ) -> Ruling:
        """The ruling on one bullet.

        Args:
            bullet: not retired.
            state: the book it would go live in.
            failed: the question it was learnt from; None where that cannot be asked again.
            neighbours: questions like it.

        Raises:
            LLMError: the model that answers did not.
        """
        against = [danger.reason for danger in dangers(bullet.text, self.pupils)]
        against += _conflicts(bullet, state.bullets.values())
        if against:
            # Not worth a model's time, and its text should not be put into a prompt.
            return Ruling("quarantined", tuple(against))
        waits: list[str] = []
        evidence: tuple[PassageEvidence, ...] = ()
        if bullet.kind in self.evidence_kinds:
            if self.facts is None:
                waits.append("chưa có sách để đối chiếu")
            else:
                verdict = await self.facts.check(bullet.text, bullet.scope)
                if verdict.reasons:
                    return Ruling("quarantined", verdict.reasons)
                evidence = verdict.evidence
                waits += verdict.doubts
                found = [danger.reason for each in evidence for danger in dangers(each.quote, self.pupils)]
                if found:
                    return Ruling("quarantined", tuple(found))
                if self.judge is not None:
                    bears = await self.judge.bears(bullet.text, [each.quote for each in evidence])
                    if bears is False:
                        return Ruling("quarantined", ("mô hình kiểm tra: chứng cứ không nói điều này",), evidence)
                    if bears is None:
                        waits.append("mô hình kiểm tra không trả lời được")
        if self.solver is None or failed is None:
            waits.append("chưa hỏi lại được")
        else:
            replayed = await replay(bullet, failed, neighbours, self.solver)
            self.spent.asked += replayed.asked
            self.spent.prompt_tokens += replayed.prompt_tokens
            self.spent.completion_tokens += replayed.completion_tokens
            if replayed.reasons:
                return Ruling("quarantined", replayed.reasons, evidence)
        if bullet.kind not in self.live_kinds:
            waits.append(WAITS)
        return Ruling("proposed", tuple(waits), evidence) if waits else Ruling("verified", (), evidence)


def beside(bullet: Bullet, ruling: Ruling, bullets: Iterable[Bullet]) -> Ruling:
    """The ruling once more, now that other bullets may have gone live."""
    against = _conflicts(bullet, bullets) if ruling.status == "verified" else []
    return Ruling("quarantined", tuple(against), ruling.evidence) if against else ruling


def _conflicts(bullet: Bullet, bullets: Iterable[Bullet]) -> list[str]:
    return [f"trái với điều đã duyệt {other.id}: “{other.text}”" for other in contradicted(bullet, bullets)]


def operations(bullet: Bullet, ruling: Ruling) -> tuple[Operation, ...]:
    """A ruling as operations on the book."""
    found: list[Operation] = []
    if ruling.evidence:
        found.append(Update(bullet_id=bullet.id, evidence=ruling.evidence))
    found.append(JudgeOperation(bullet_id=bullet.id, status=ruling.status, reasons=ruling.reasons))
    return tuple(found)
