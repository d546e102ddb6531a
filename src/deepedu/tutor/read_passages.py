"""Passages cut into sentences, words and numbers once, not anew for every message about the same lesson.

A class asks about one lesson for an hour, and each question is met again on every rung of its ladder.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from deepedu.search.evidence import Evidence
from deepedu.tutor.windows import Passage


class ReadPassages:
    """The passages that were read last. Holds text of books alone, and nothing of those who ask. Safe between threads.

    Args:
        most: how many passages are kept, 130 kB each or so.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[int, Passage] = OrderedDict()
        self._lock = Lock()

    def read(self, evidence: Sequence[Evidence]) -> list[Passage]:
        """The passages of ``evidence``. Their evidence tells no scores, which differ each time."""
        return [self._passage(replace(one, score=0.0, scores={})) for one in evidence]

    def _passage(self, evidence: Evidence) -> Passage:
        key = evidence.passage_id
        with self._lock:
            kept = self._kept.get(key)
            # Another library, or the book was read anew: the same number, another text.
            if kept is not None and kept.evidence == evidence:
                self._kept.move_to_end(key)
                return kept
        passage = Passage(evidence)
        with self._lock:
            self._kept[key] = passage
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return passage


# Enough for the lessons of a dozen classes, some 30 MB.
READ = ReadPassages(256)
