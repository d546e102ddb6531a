"""Whether a bullet says the opposite of one that is verified."""

from collections.abc import Iterable

from deepedu.playbook.bullet import Bullet
from deepedu.playbook.duplicates import DuplicateIndex, telling

# Share of common shingles from which on two facts speak of the same thing. Below NEAR: a swapped number or name
# takes a few shingles away.
SAME_MATTER = 0.5


def contradicted(bullet: Bullet, verified: Iterable[Bullet]) -> list[Bullet]:
    """Verified bullets that say the same but for a number, a name or a negation, nearest first.

    Only facts and mistakes are held against others: two methods with other numbers are two examples.
    """
    if bullet.kind not in ("fact", "mistake"):
        return []
    others = {each.id: each for each in verified if each.status == "verified" and each.id != bullet.id}
    near = DuplicateIndex(_placed(each, bullet) for each in others.values()).alike(bullet, SAME_MATTER)
    return [others[other.id] for other, _ in near if telling(other) != telling(bullet)]


def _placed(other: Bullet, bullet: Bullet) -> Bullet:
    """The other one where this one stands: a contradiction is one in whatever scope it was learnt."""
    return other.model_copy(update={"scope": bullet.scope, "kind": bullet.kind, "language": bullet.language})
