"""Questions that are alike: past failures for the reflector, neighbours for the verifier."""

import math
from typing import Generic, TypeVar

from deepedu.playbook.duplicates import shingles

Item = TypeVar("Item")


class Nearest(Generic[Item]):
    """Things kept by their text, found again by the text of another: rare syllables and pairs weigh most.

    By words rather than by meaning: exercises of one kind differ in their numbers, and share their words.
    """

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._shingles: dict[str, frozenset[str]] = {}
        self._holders: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def put(self, key: str, text: str, item: Item) -> None:
        """Keeps a thing, in place of the one that had this key."""
        for shingle in self._shingles.get(key, ()):
            self._holders[shingle].discard(key)
        self._items[key] = item
        self._shingles[key] = shingles(text)
        for shingle in self._shingles[key]:
            self._holders.setdefault(shingle, set()).add(key)

    def near(self, text: str, limit: int, *, without: str = "") -> list[Item]:
        """The nearest things, best first; never the one of the key ``without``."""
        scores: dict[str, float] = {}
        for shingle in shingles(text):
            holders = self._holders.get(shingle, ())
            for key in holders:
                scores[key] = scores.get(key, 0.0) + math.log(1 + len(self._items) / len(holders))
        scores.pop(without, None)
        # A long text shares much with everything.
        rated = {key: score / math.sqrt(1 + len(self._shingles[key])) for key, score in scores.items()}
        best = sorted(rated, key=lambda key: (-rated[key], key))[:limit]
        return [self._items[key] for key in best]
