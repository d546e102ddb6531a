"""Bullets that say nearly the same: found by the pairs of syllables that they share.

Source: Broder 1997, "On the resemblance and containment of documents", with shingles of one and two syllables.
"""

from collections import Counter
from collections.abc import Iterable

from deepedu.playbook.bullet import Bullet
from deepedu.playbook.delta import Add
from deepedu.store.terms import pairs, terms

# Share of the shingles of both that both have. Rules that differ in one number share as much as rules that differ in
# their wording only, so what tells them apart must be equal besides.
NEAR = 0.7


def shingles(text: str) -> frozenset[str]:
    """Syllables and pairs of neighbouring ones, in one spelling."""
    found = terms(text)
    return frozenset([*found, *pairs(found)])


class DuplicateIndex:
    """Bullets that are not retired, ready to be asked for near-duplicates."""

    def __init__(self, bullets: Iterable[Bullet]) -> None:
        self._bullets = {bullet.id: bullet for bullet in bullets if bullet.status != "retired"}
        self._shingles = {each: shingles(bullet.text) for each, bullet in self._bullets.items()}
        self._holders: dict[str, list[str]] = {}
        for each, found in self._shingles.items():
            for shingle in found:
                self._holders.setdefault(shingle, []).append(each)

    def near(self, bullet: Bullet | Add, least: float = NEAR) -> list[tuple[Bullet, float]]:
        """Other bullets of the same kind, language and scope that say nearly the same, nearest first.

        Two texts with different numbers or different capitals inside a sentence say different things.
        """
        return [found for found in self.alike(bullet, least) if telling(bullet) == telling(found[0])]

    def alike(self, bullet: Bullet | Add, least: float) -> list[tuple[Bullet, float]]:
        """Other bullets of the same kind, language and scope by the share of shingles they share, nearest first,
        whatever numbers and names they hold."""
        mine = shingles(bullet.text)
        shared: Counter[str] = Counter()
        for shingle in mine:
            shared.update(self._holders.get(shingle, ()))
        found: list[tuple[Bullet, float]] = []
        for each, common in shared.items():
            other = self._bullets[each]
            share = common / (len(mine) + len(self._shingles[each]) - common)
            itself = isinstance(bullet, Bullet) and each == bullet.id
            if not itself and share >= least and _same_place(bullet, other):
                found.append((other, share))
        return sorted(found, key=lambda pair: (-pair[1], pair[0].order))


def telling(bullet: Bullet | Add) -> Counter[str]:
    """What makes two rules of one wording different: numbers, names, and negations."""
    found = Counter(term for term in terms(bullet.text) if any(c.isdigit() for c in term) or term in _NEGATIONS)
    found.update(word.strip(".,;:!?()\"'“”") for word in bullet.text.split()[1:] if word[:1].isupper())
    return found


_NEGATIONS = frozenset({"không", "chưa", "chẳng", "đừng", "khong", "not", "no", "never"})


def _same_place(first: Bullet | Add, second: Bullet) -> bool:
    return (first.kind, first.language, first.scope) == (second.kind, second.language, second.scope)
