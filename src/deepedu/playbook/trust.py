"""How far a bullet can be trusted, from how often it helped and harmed."""

import math
from collections.abc import Iterable

from deepedu.playbook.bullet import Bullet

# 90 % on each side: a bullet that helped ten times of ten stands at 0.86.
Z = 1.2815515655446004
# What is said of a bullet that nobody has used yet.
UNUSED = 0.5
# Fewer harms than this are no habit.
HARMS = 3


def wilson_bounds(successes: int, trials: int, z: float = Z) -> tuple[float, float]:
    """Lower and upper bound of a share, of 0 to 1; without trials (0, 1).

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    if trials == 0:
        return 0.0, 1.0
    share, square = successes / trials, z * z
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    spread = z / (1 + square / trials) * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    return max(0.0, centre - spread), min(1.0, centre + spread)


def trust(bullet: Bullet) -> float:
    """Lower Wilson bound of the share of uses in which it helped, 0 to 1; ``UNUSED`` before the first."""
    uses = bullet.helpful + bullet.harmful
    return wilson_bounds(bullet.helpful, uses)[0] if uses else UNUSED


def keeps_harming(bullet: Bullet) -> bool:
    """Whether it harmed repeatedly and in all likelihood helps less than half of the time."""
    uses = bullet.helpful + bullet.harmful
    return bullet.harmful >= HARMS and wilson_bounds(bullet.helpful, uses)[1] < 0.5


def harmful(bullets: Iterable[Bullet]) -> list[Bullet]:
    """Those among the bullets in use that keep harming."""
    return [bullet for bullet in bullets if bullet.status == "verified" and keeps_harming(bullet)]
