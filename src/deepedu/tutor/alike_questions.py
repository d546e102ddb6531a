"""Questions of a class that ask nearly the same: by their content words, however they were typed."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from deepedu.tutor.pupil_intent import alikeness, cleaned, content_words
from deepedu.tutor.terms import weight

# The share of what both questions tell that both have. Two phrasings of one question keep about two thirds.
ALIKE = 0.6
# "Em chưa hiểu", "Cho em đáp án" and the like ask nothing of a lesson.
LEAST_WORDS = 2
# Groups that share most of the rarest words.
_CANDIDATES = 8
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class AskedQuestion:
    """A question as it was kept, and whose it is."""

    owner: str
    text: str


@dataclass(frozen=True)
class QuestionGroup:
    """Questions that are alike: how often they were asked, by how many learners, and one of them."""

    times: int
    pupils: int
    example: str


@dataclass
class _Group:
    words: tuple[str, ...]
    asked: list[AskedQuestion] = field(default_factory=list)


def group_alike(questions: Iterable[AskedQuestion], *, least_pupils: int = 2, limit: int = 20) -> list[QuestionGroup]:
    """Groups of near-same questions, asked by most learners first. What fewer than ``least_pupils`` asked is left out:
    one pupil's question is that pupil's own."""
    groups: list[_Group] = []
    exact: dict[tuple[frozenset[str], frozenset[str]], _Group] = {}
    holders: defaultdict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for question in questions:
        words = content_words(cleaned(question.text))
        if len(words) < LEAST_WORDS:
            continue
        # Two exercises of one wording differ in their numbers.
        numbers = frozenset(_NUMBER.findall(question.text))
        key = (frozenset(words), numbers)
        group = exact.get(key)
        if group is None:
            group = _nearest(words, numbers, groups, holders)
            if group is None:
                group = _Group(words)
                for word in words:
                    holders[word, numbers].append(len(groups))
                groups.append(group)
            exact[key] = group
        group.asked.append(question)
    told = [_told(group) for group in groups]
    told = [each for each in told if each.pupils >= least_pupils]
    return sorted(told, key=lambda each: (-each.pupils, -each.times, each.example))[:limit]


def _nearest(
    words: tuple[str, ...],
    numbers: frozenset[str],
    groups: list[_Group],
    holders: defaultdict[tuple[str, frozenset[str]], list[int]],
) -> _Group | None:
    shared = Counter(place for word in _rarest(words, numbers, holders) for place in holders.get((word, numbers), ()))
    best, nearest = ALIKE, None
    for place, _ in shared.most_common(_CANDIDATES):
        alike = alikeness(words, groups[place].words)[1]
        if alike >= best:
            best, nearest = alike, groups[place]
    return nearest


def _rarest(
    words: tuple[str, ...], numbers: frozenset[str], holders: defaultdict[tuple[str, frozenset[str]], list[int]]
) -> list[str]:
    """The rarest words, so many that what is left could not make another question alike: any that is has one of them.

    Source: S. Chaudhuri, V. Ganti and R. Kaushik, "A primitive operator for similarity joins in data cleaning", 2006.
    """
    ranked = sorted(words, key=lambda word: len(holders.get((word, numbers), ())))
    left = sum(weight(word, is_folded=True) for word in words)
    least = ALIKE * left
    taken: list[str] = []
    for word in ranked:
        if left < least:
            break
        taken.append(word)
        left -= weight(word, is_folded=True)
    return taken


def _told(group: _Group) -> QuestionGroup:
    # With accents it reads best; of those the shortest says least beside the question.
    example = min((q.text for q in group.asked), key=lambda text: (text.isascii(), len(text), text))
    return QuestionGroup(len(group.asked), len({question.owner for question in group.asked}), example)
