"""Which bullets a question is given: verified ones of its scope, by relevance, trust and novelty, within a budget.

They come in the order of the book, whatever their scores: questions that are given the same bullets share the
beginning of their prompt to the letter, and a model's server computes it once.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import fold
from deepedu.playbook.bullet import Bullet, BulletScope
from deepedu.playbook.state import State
from deepedu.playbook.trust import trust
from deepedu.store.terms import pairs, terms

# BM25's saturation and length normalisation: as for passages, bullets being as short.
K1, B = 0.6, 0.4
# A pair of neighbouring syllables weighs less than the two it is made of together.
PAIR_WEIGHT = 0.4
# Bullets that are imagined beside those there are: in a small book every word would be a common one.
UNSEEN = 100
# Least share of the best possible score: below it a bullet has only common words with the question. Of 200 worked
# examples a third of those chosen below 0.25 were of the question's own kind, of those above nine tenths.
LEAST_RELEVANCE = 0.15
METHOD_RELEVANCE = 0.25
# Least share of the best bullet's score that a method needs: a fact beside the point costs tokens, a method misleads.
METHOD_OF_BEST = 0.6
# What a score loses by being wholly contained in bullets that are chosen already.
NOVELTY = 0.7
# Best candidates by relevance and trust that novelty is looked at for.
CANDIDATES = 64


@dataclass(frozen=True)
class Chosen:
    """A bullet for a question: ``relevance`` and ``trust`` are of 0 to 1."""

    bullet: Bullet
    relevance: float
    trust: float
    score: float


class BulletIndex:
    """The verified bullets of one version, ready to be chosen from. Never changes."""

    def __init__(self, bullets: Iterable[Bullet]) -> None:
        self._bullets = sorted((b for b in bullets if b.status == "verified"), key=lambda bullet: bullet.order)
        self._trust = [trust(bullet) for bullet in self._bullets]
        self._terms = [_weighted(bullet.text) for bullet in self._bullets]
        mean = sum(sum(each.values()) for each in self._terms) / max(1, len(self._terms))
        # Accents typed and left out: two spellings of one vocabulary.
        self._postings: dict[str, list[tuple[int, float]]] = {}
        self._folded: dict[str, list[tuple[int, float]]] = {}
        for number, counts in enumerate(self._terms):
            norm = K1 * (1 - B + B * sum(counts.values()) / mean) if mean else K1
            for term, count in counts.items():
                self._postings.setdefault(term, []).append((number, count * (K1 + 1) / (count + norm)))
            for term, count in _folded(counts).items():
                self._folded.setdefault(term, []).append((number, count * (K1 + 1) / (count + norm)))

    @classmethod
    def of(cls, state: State) -> "BulletIndex":
        """The index of a version."""
        return cls(state.bullets.values())

    def __len__(self) -> int:
        return len(self._bullets)

    def select(
        self,
        question: str,
        scope: BulletScope | None = None,
        *,
        budget_tokens: int,
        limit: int = 12,
        one_kind: bool = False,
    ) -> tuple[Chosen, ...]:
        """At most ``limit`` bullets of at most ``budget_tokens`` in all, in the order of the book.

        Args:
            question: as the pupil typed it, with accents or without.
            scope: where the question stands; a bullet that holds somewhere else is not chosen.
            budget_tokens: estimated tokens of the texts.
            limit: bullets.
            one_kind: all questions are of one kind and answered from one fixed set, as labels are: the nearest bullets
                are chosen however little they share with the question, since no method can be that of another kind.
        """
        candidates = self._candidates(question, scope or BulletScope(), one_kind)
        if candidates and not one_kind:
            least = METHOD_OF_BEST * candidates[0][1].score
            candidates = [(n, each) for n, each in candidates if each.bullet.kind != "method" or each.score >= least]
        chosen: list[tuple[int, Chosen]] = []
        seen: set[str] = set()
        left = budget_tokens
        while candidates and len(chosen) < limit:
            best = max(candidates, key=lambda each: (self._novel(each[0], seen) * each[1].score, -each[0]))
            candidates.remove(best)
            # What the chosen ones say already is no use a second time.
            if self._novel(best[0], seen) <= 1 - NOVELTY or best[1].bullet.tokens > left:
                continue
            chosen.append(best)
            seen.update(self._terms[best[0]])
            left -= best[1].bullet.tokens
        return tuple(each for _, each in sorted(chosen))

    def _candidates(self, question: str, scope: BulletScope, one_kind: bool) -> list[tuple[int, Chosen]]:
        asked = _weighted(question)
        # A question without any accent is one whose accents were not typed.
        plain = all(term == fold(term) for term in asked)
        postings, wanted = (self._folded, _folded(asked)) if plain else (self._postings, asked)
        scores: dict[int, float] = {}
        best = 0.0
        for term in wanted:
            found = postings.get(term, ())
            weight = math.log(1 + (len(self._bullets) + UNSEEN - len(found)) / (len(found) + 1))
            weight *= PAIR_WEIGHT if "_" in term else 1.0
            best += weight
            for number, part in found:
                scores[number] = scores.get(number, 0.0) + weight * part
        rated: list[tuple[int, Chosen]] = []
        for number, score in scores.items():
            relevance = min(1.0, score / best)
            bullet = self._bullets[number]
            least = METHOD_RELEVANCE if bullet.kind == "method" else LEAST_RELEVANCE
            if (one_kind or relevance >= least) and holds_in(bullet.scope, scope):
                believed = self._trust[number]
                rated.append((number, Chosen(bullet, relevance, believed, relevance * (0.5 + 0.5 * believed))))
        rated.sort(key=lambda each: (-each[1].score, each[0]))
        return rated[:CANDIDATES]

    def _novel(self, number: int, seen: set[str]) -> float:
        """1 for a bullet none of whose terms was seen, less by ``NOVELTY`` for one all of whose were."""
        mine = self._terms[number]
        return 1 - NOVELTY * sum(term in seen for term in mine) / len(mine) if seen and mine else 1.0


def holds_in(scope: BulletScope, asked: BulletScope) -> bool:
    """Whether a bullet of a scope may be shown for a question: where both name a grade, subject, book or lesson, the
    same one. A bullet for some lesson only is not shown where the question's is not known."""
    for name in ("grade", "subject", "book"):
        mine, its = getattr(scope, name), getattr(asked, name)
        if mine is not None and its is not None and mine != its:
            return False
    return scope.lesson is None or (scope.lesson == asked.lesson and scope.book in (None, asked.book))


def render(chosen: Sequence[Chosen]) -> str:
    """The bullets as the model reads them, with their ids, so that it can name the ones it used."""
    return "\n".join(f"- [{each.bullet.id}] {' '.join(each.bullet.text.split())}" for each in chosen)


def _weighted(text: str) -> dict[str, int]:
    found = terms(text)
    return Counter([*found, *pairs(found)])


def _folded(counts: dict[str, int]) -> dict[str, int]:
    folded: dict[str, int] = {}
    for term, count in counts.items():
        plain = fold(term)
        folded[plain] = folded.get(plain, 0) + count
    return folded
