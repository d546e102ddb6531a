"""Intervals of shares and of gains, in points of 0 to 100."""

import random
import statistics
from collections.abc import Sequence

from deepedu.playbook.trust import wilson_bounds

_Z95 = 1.959963984540054
_RESAMPLES = 2000


def share_interval(right: Sequence[bool]) -> tuple[float, float]:
    """95 % Wilson interval of a share."""
    low, high = wilson_bounds(sum(right), len(right), _Z95)
    return 100 * low, 100 * high


def gain_interval(before: Sequence[bool], after: Sequence[bool], seed: int) -> tuple[float, float, float]:
    """Gain of the same questions, and its 95 % interval by a bootstrap over questions (2,000 resamples)."""
    differences = [100 * (int(b) - int(a)) for a, b in zip(before, after, strict=True)]
    draw = random.Random(seed)
    means = sorted(statistics.fmean(draw.choices(differences, k=len(differences))) for _ in range(_RESAMPLES))
    return statistics.fmean(differences), means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
