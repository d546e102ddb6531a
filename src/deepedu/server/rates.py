"""How often somebody may do something: a sliding window in memory, forgotten at a restart."""

import math
import time
from collections import deque
from collections.abc import Hashable

from deepedu.base.errors import AccountLocked


class Rate:
    """At most ``times`` in ``seconds`` for each key. Used from one event loop."""

    def __init__(self, times: int, seconds: float) -> None:
        self._times, self._seconds = times, seconds
        self._seen: dict[Hashable, deque[float]] = {}

    def take(self, key: Hashable) -> None:
        """Counts one.

        Raises:
            AccountLocked: it was one too many; ``retry_after_s`` tells when the next is free.
        """
        present = time.monotonic()
        if len(self._seen) > 10_000:
            self._seen = {k: seen for k, seen in self._seen.items() if present - seen[-1] < self._seconds}
        seen = self._seen.setdefault(key, deque(maxlen=self._times))
        if len(seen) == self._times and present - seen[0] < self._seconds:
            wait = self._seconds - (present - seen[0])
            raise AccountLocked(f"Nhanh quá: hãy thử lại sau {math.ceil(wait)} giây.", wait)
        seen.append(present)
