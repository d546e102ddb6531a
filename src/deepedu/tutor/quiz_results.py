"""What a class made of a quiz: pupils' points, how hard each item was, and what was answered instead of the key."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from deepedu.base.vietnamese import fold
from deepedu.tutor.classwork import MarkedItem, Result
from deepedu.tutor.quiz import LETTERS, Choice, Item, Quiz, Short, TrueFalse

Sign = Literal["right", "partly", "wrong", "open"]
_TEN = Decimal(10)
_WRONG_SHOWN = 5


@dataclass(frozen=True)
class ItemResult:
    """How an item went with those who handed in.

    ``mean`` is the mean score, 0 to 1; None: nobody handed in. ``answers`` counts answers, the key marked: options A to
    D, right truths of the statements a to d, or the most frequent short answers. ``unanswered``: gave none.
    """

    number: int
    item: Item
    mean: float | None
    answers: tuple[tuple[str, int, bool], ...]
    unanswered: int


@dataclass(frozen=True)
class ClassResult:
    """``by_learner`` holds who has begun; ``items`` in the order of the quiz. Points are means of who handed in."""

    quiz: Quiz
    by_learner: Mapping[str, Result]
    items: tuple[ItemResult, ...]
    handed_in: int
    mean_points: Decimal | None
    max_points: Decimal | None

    @property
    def mean_of_ten(self) -> Decimal | None:
        """The mean on the scale of ten."""
        return None if self.mean_points is None else of_ten(self.mean_points, self.max_points or Decimal(0))

    def hardest(self, count: int = 3) -> list[ItemResult]:
        """The items with the lowest mean scores, those that everybody got right left out."""
        known = [each for each in self.items if each.mean is not None and each.mean < 1]
        return sorted(known, key=lambda each: (each.mean, each.number))[:count]

    def histogram(self) -> list[int]:
        """How many pupils reached 0 to under 1, 1 to under 2, … and 9 to 10 on the scale of ten."""
        counts = [0] * 10
        for result in self.by_learner.values():
            if (mark := mark_of_ten(result)) is not None:
                counts[min(9, int(mark))] += 1
        return counts


def class_result(quiz: Quiz, results: Sequence[Result]) -> ClassResult:
    """What some pupils made of a quiz."""
    done = [result for result in results if result.marks]
    marks = [{mark.item_id: mark for mark in result.marks} for result in done]
    items = tuple(
        _item_result(number, item, [of_one[item.id] for of_one in marks if item.id in of_one])
        for number, item in enumerate(quiz.items, 1)
    )
    mean = sum((result.points for result in done), Decimal(0)) / len(done) if done else None
    most = done[0].max_points if done else None
    return ClassResult(quiz, {result.learner_id: result for result in results}, items, len(done), mean, most)


def mark_of_ten(result: Result) -> Decimal | None:
    """A pupil's mark on the scale of ten, to two places; None: no marks."""
    return of_ten(result.points, result.max_points) if result.marks else None


def of_ten(points: Decimal, most: Decimal) -> Decimal:
    """Points on the scale of ten, to two places, halves up."""
    return (points * _TEN / most).quantize(Decimal("0.01"), ROUND_HALF_UP) if most else Decimal(0)


def sign_of(mark: MarkedItem) -> Sign:
    """How one answer went, in a word."""
    if mark.given is None:
        return "open"
    return "right" if mark.score == 1 else "partly" if mark.score > 0 else "wrong"


def _item_result(number: int, item: Item, marks: Sequence[MarkedItem]) -> ItemResult:
    mean = sum(mark.score for mark in marks) / len(marks) if marks else None
    unanswered = sum(mark.given is None for mark in marks)
    given = [mark.given for mark in marks if mark.given is not None]
    answers: list[tuple[str, int, bool]] = []
    match item:
        case Choice(key=key):
            counted = Counter(given)
            answers = [(letter, counted[letter], place == key) for place, letter in enumerate(LETTERS)]
        case TrueFalse():
            answers = [
                (letter, sum(mark.right[place] for mark in marks), claim.truth)
                for place, (letter, claim) in enumerate(zip("abcd", item.statements, strict=True))
            ]
        case Short():
            answers = _short_answers(item, marks)
    return ItemResult(number, item, mean, tuple(answers), unanswered)


def _short_answers(item: Short, marks: Sequence[MarkedItem]) -> list[tuple[str, int, bool]]:
    """The right answers together under the key, then the most frequent wrong ones, spelt as the first who gave each."""
    spelt: dict[str, str] = {}
    wrong: Counter[str] = Counter()
    for mark in marks:
        if mark.given is not None and mark.score < 1:
            same = " ".join(fold(mark.given).split())
            wrong[spelt.setdefault(same, mark.given)] += 1
    right = sum(mark.score == 1 for mark in marks)
    return [(item.key, right, True), *((text, count, False) for text, count in wrong.most_common(_WRONG_SHOWN))]
