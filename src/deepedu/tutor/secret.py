"""What no hint may say before the answer's turn, and whether a text says it, or says more than it was given.

A text is held against a secret in every disguise that we know of: numbers in words, words spelt or turned round. What
we do not know of is met from the other side: a wording may not hold a word that its material does not hold.
"""

import re
import unicodedata
from collections.abc import Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

from deepedu.tutor.calculator import calculations
from deepedu.tutor.hint_texts import hint_texts
from deepedu.tutor.number_words import in_one_spelling, in_vietnamese, in_words, plain_digits
from deepedu.tutor.quantities import quantities
from deepedu.tutor.terms import pairs, tokens


@dataclass(frozen=True)
class Secret:
    """What no hint may say before the answer's turn.

    ``numbers`` without sign; ``days`` as (day, month). ``names`` and ``phrases`` are words without accents in order;
    ``words`` tell alone. Two of ``pairs`` (neighbouring words of an answer that is a whole sentence) tell it.
    ``letters`` label options. Nothing of it stands in the question, unless the question asks whether it is so.
    """

    numbers: frozenset[Fraction] = frozenset()
    days: frozenset[tuple[int, int]] = frozenset()
    names: frozenset[tuple[str, ...]] = frozenset()
    phrases: frozenset[tuple[str, ...]] = frozenset()
    words: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    letters: frozenset[str] = frozenset()

    def __or__(self, other: "Secret") -> "Secret":
        return Secret(*(mine | its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


def leaks(text: str, secret: Secret) -> bool:
    """Whether ``text`` gives the secret away, or a part of it that is enough.

    Numbers count in digits (spaced, grouped, reversed), in words of either language, digit by digit, as a fraction, a
    percentage or a calculation with that value; words also spelt letter by letter or backwards.
    """
    folded = [token.folded for token in tokens(text)]
    squashed = "".join(folded)
    if secret.numbers and _tells_number(text, folded, secret.numbers):
        return True
    if secret.days and _tells_day(text, folded, secret.days):
        return True
    if any(_tells_words(folded, squashed, words) for words in (*secret.names, *secret.phrases)):
        return True
    if any(_tells_words(folded, squashed, (word,)) for word in secret.words):
        return True
    if len(secret.pairs & set(pairs(folded))) >= min(2, len(secret.pairs) or 1):
        return True
    return any(re.search(rf"(?<![\w°]){letter}(?![\w°])", text) for letter in secret.letters)


def _tells_words(folded: Sequence[str], squashed: str, words: tuple[str, ...]) -> bool:
    if not words:
        return False
    if f" {' '.join(words)} " in f" {' '.join(folded)} ":
        return True
    whole = "".join(words)
    # Run together, spelt or turned round; short words stand inside others by chance.
    if len(whole) >= 5 and (whole in squashed or whole[::-1] in squashed):
        return True
    return len(whole) >= 2 and f" {' '.join(whole)} " in f" {' '.join(folded)} "


def _tells_day(text: str, folded: Sequence[str], days: Set[tuple[int, int]]) -> bool:
    if any((q.date[0], q.date[1]) in days for q in quantities(text) if q.date):
        return True
    said = f" {in_one_spelling(folded)} "
    for day, month in days:
        for d, m in product(in_vietnamese(day) | {str(day)}, in_vietnamese(month) | {str(month)}):
            if f" {d} thang {m} " in said:
                return True
        if re.search(rf"(?<!\d)0?{day}\s?[/.-]\s?0?{month}(?!\d)", text):
            return True
    return False


_DIGITS = re.compile(r"\d(?:[  ., _·-]?\d)*")


def _tells_number(text: str, folded: Sequence[str], numbers: Set[Fraction]) -> bool:
    for quantity in quantities(text):
        values = {abs(v) for v in quantity.values} | {Fraction(part) for part in quantity.date or () if part}
        if values & numbers or (quantity.unit == "%" and {v / 100 for v in values} & numbers):
            return True
    runs = [re.sub(r"\D", "", run) for run in _DIGITS.findall(text)]
    said = f" {in_one_spelling(folded)} "
    turned = f" {' '.join(reversed(said.split()))} "
    for number in numbers:
        digits = plain_digits(number)
        if len(digits) < 2:
            continue
        for one in (digits, digits[::-1]):
            if any(run == one or (len(one) >= 3 and one in run) for run in runs):
                return True
        if any(f" {words} " in said or f" {words} " in turned for words in in_words(number)):
            return True
    worth = (abs(Fraction(one.value)) for d in ("comma", "point") for one in calculations(text, decimal=d))
    return any(value in numbers for value in worth)


def strays(text: str, material: str) -> bool:
    """Whether ``text`` says more than ``material`` in more than a tutor's words of encouragement.

    Any other word that is not in ``material`` strays, so that no disguise of an answer gets by, in whatever notation.
    """
    own = tokens(material)
    known = {t.word for t in own} | {t.folded for t in own} | _tutor_words()
    # What is no word in these letters (a symbol, another script's sign) has to be the material's own, too.
    signs = {c for c in text if not c.isascii() and not c.isspace()} - set(material)
    if any(unicodedata.category(c)[0] in "LNS" and not _VIETNAMESE.fullmatch(c) for c in signs):
        return True
    return any(token.word not in known and token.folded not in known for token in tokens(text))


# Letters of Vietnamese besides the common ones.
_VIETNAMESE = re.compile(r"[À-ỹĐđ]")


@cache
def _tutor_words() -> frozenset[str]:
    return frozenset(hint_texts()["tutor"]["words"].split()) - {"năm"}
