"""From what was learnt to operations on the book: pure values, which the book carries out or refuses.

Source: Zhang et al. 2025, Agentic Context Engineering (arXiv 2510.04618), the curator and grow-and-refine.
Differs: no model writes the operations. What an insight adds, and which bullets say nearly the same, is found in code.
"""

from collections.abc import Iterable

from deepedu.playbook.bullet import Bullet, InteractionEvidence
from deepedu.playbook.delta import Add, Count, Merge, Operation, Retire, Update
from deepedu.playbook.duplicates import DuplicateIndex
from deepedu.playbook.interaction import Interaction
from deepedu.playbook.reflector import Reflection
from deepedu.playbook.state import State
from deepedu.playbook.trust import harmful, trust


def curate(interaction: Interaction, reflection: Reflection | None, state: State) -> tuple[Operation, ...]:
    """Operations that an interaction leads to.

    A success counts for the bullets that its answer used, a failure against them where there is no reflection to give
    verdicts. A reflection's insight becomes a bullet, or further evidence of one that says nearly the same.
    """
    operations: list[Operation] = []
    known = set(state.bullets)
    if interaction.succeeded:
        operations += [Count(bullet_id=each, helpful=1) for each in dict.fromkeys(interaction.used) if each in known]
    if interaction.failed and reflection is None:
        # What a wrong answer rests on did harm, where nobody knows better.
        operations += [Count(bullet_id=each, harmful=1) for each in dict.fromkeys(interaction.used) if each in known]
    if reflection is None:
        return tuple(operations)
    for each in reflection.verdicts:
        if each.bullet_id in known and each.verdict != "neutral":
            helped = each.verdict == "helpful"
            operations.append(Count(bullet_id=each.bullet_id, helpful=int(helped), harmful=int(not helped)))
    if reflection.insight is None:
        return tuple(operations)
    signal = next(each.kind for each in interaction.signals if not each.good)
    evidence = InteractionEvidence(reference=interaction.reference, signal=signal)
    insight = reflection.insight
    # A fact holds wherever it is asked for; the book that bears it is for the verifier to find.
    scope = interaction.scope.model_copy(update={"book": None, "lesson": None})
    add = Add(text=insight.text, kind=insight.kind, language=interaction.language, scope=scope, evidence=(evidence,))
    near = DuplicateIndex(state.bullets.values()).near(add)
    operations.append(Update(bullet_id=near[0][0].id, evidence=(evidence,)) if near else add)
    return tuple(operations)


def tidy(state: State) -> tuple[Operation, ...]:
    """Merges for bullets that say nearly the same, into the one that is most trusted, and retirement of those that keep
    harming."""
    operations: list[Operation] = []
    merged: set[str] = set()
    settled: set[str] = set()
    index = DuplicateIndex(state.bullets.values())
    live = [bullet for bullet in state.ordered() if bullet.status != "retired"]
    for bullet in sorted(live, key=_standing, reverse=True):
        if bullet.id in settled:
            continue
        near = (other for other, _ in index.near(bullet) if other.id not in settled)
        # A rule that was refused takes nobody's place, and no refusal is undone by merging.
        sources = tuple(other.id for other in near if "quarantined" not in (other.status, bullet.status))
        if sources:
            operations.append(Merge(into=bullet.id, sources=sources))
            merged.update(sources)
            settled.update(sources, (bullet.id,))
    operations += retirements(bullet for bullet in live if bullet.id not in merged)
    return tuple(operations)


def retirements(bullets: Iterable[Bullet]) -> list[Retire]:
    """Retirement of the verified bullets among these that keep harming."""
    return [
        Retire(bullet_id=bullet.id, reason=f"hại {bullet.harmful} lần, giúp {bullet.helpful} lần")
        for bullet in harmful(bullets)
    ]


def _standing(bullet: Bullet) -> tuple[bool, float, int]:
    return bullet.status == "verified", trust(bullet), -bullet.order
