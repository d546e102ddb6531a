"""Exercises that code can solve: the calculation, its result, and the same calculation with other numbers.

Plain arithmetic, conversions of units, and formulas that the book introduces, with values from the exercise or from a
table of the book.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Evidence
from deepedu.tutor.calculator import calculations
from deepedu.tutor.expression import NotArithmetic, evaluate
from deepedu.tutor.number_words import shown_number
from deepedu.tutor.pupil_intent import plain_words
from deepedu.tutor.quantities import Quantity, quantities
from deepedu.tutor.units import unit_after, units_in


@dataclass(frozen=True)
class Solution:
    """A calculation that solves an exercise: ``template`` with a place for each of ``numbers``, in order.

    ``labels`` name the numbers ("m", "V"), empty for plain arithmetic; ``formula`` is the book's, with its left side.
    """

    template: str
    numbers: tuple[Fraction, ...]
    labels: tuple[str, ...] = ()
    formula: str = ""
    unit: str = ""

    def value(self, numbers: Sequence[Fraction] | None = None) -> Fraction:
        """The exact value, with ``numbers`` in place of the exercise's own.

        Raises:
            NotArithmetic: not to be calculated.
        """
        plain = [f"({n.numerator}/{n.denominator})" for n in numbers or self.numbers]
        return Fraction(evaluate(self.template.format(*plain)))

    def worked(self, numbers: Sequence[Fraction] | None = None) -> str:
        """The calculation with its result, as it stands in an exercise book."""
        written = self.template.format(*(shown_number(n) for n in numbers or self.numbers))
        written = written.replace("*", "×").replace(".", ",")
        lead = f"{self.formula} = " if self.formula else ""
        return f"{lead}{written} = {shown_number(self.value(numbers))}{f' {self.unit}' if self.unit else ''}"

    def others(self, hidden: Callable[[str], bool], variant: int) -> tuple[Fraction, ...] | None:
        """Other numbers of the same kind with a tidy result, none of which gives anything away; None: none found."""
        fitting: list[tuple[Fraction, ...]] = []
        for step in range(1, 400):
            new = tuple(_changed(n, step + 3 * place) for place, n in enumerate(self.numbers))
            if any(a == b for a in new for b in self.numbers):
                continue
            try:
                value = self.value(new)
            except NotArithmetic:
                continue
            is_tidy = (value * 1000).denominator == 1 and value != 0 and (value > 0) == (self.value() > 0)
            if is_tidy and not hidden(self.worked(new)):
                fitting.append(new)
                if len(fitting) > variant:
                    return fitting[variant]
        return fitting[0] if fitting else None


def _changed(number: Fraction, step: int) -> Fraction:
    """Another number with as many decimals and about as large."""
    unit = Fraction(1)
    while (number / unit).denominator != 1 and unit > Fraction(1, 10**6):
        unit /= 10
    while number and (number / (unit * 10)).denominator == 1:
        unit *= 10
    count = abs(int(number / unit))
    span = max(8, 10 ** len(str(count)) - 1)
    return unit * ((count + 7 * step) % span + 1) * (1 if number >= 0 else -1)


FORMULA = re.compile(r"(?<![\w])([A-Za-z]) = ((?:[A-Za-z](?!\w)|\d+(?:,\d+)?|[-+×/*() ])+)")
_ASKS_VALUE = re.compile(r"\b(?:tinh|doi|tim|hoi|bao nhieu|calculate|compute|convert|find|work out|how many|what)\b")
_CONVERTED = re.compile(r"\b(?:doi|ra|sang|thanh|bang bao nhieu|convert|into|to|in)\b")
_IN_BASE = {
    "km": ("m", 1000), "m": ("m", 1), "dm": ("m", Fraction(1, 10)), "cm": ("m", Fraction(1, 100)),
    "mm": ("m", Fraction(1, 1000)), "tấn": ("g", 10**6), "tạ": ("g", 10**5), "yến": ("g", 10**4), "kg": ("g", 1000),
    "g": ("g", 1), "mg": ("g", Fraction(1, 1000)), "giờ": ("s", 3600), "phút": ("s", 60), "giây": ("s", 1),
    "l": ("l", 1), "ml": ("l", Fraction(1, 1000)), "m3": ("l", 1000), "cm3": ("l", Fraction(1, 1000)),
}  # fmt: skip


def solutions_of(stem: str, evidence: Sequence[Evidence]) -> list[Solution]:
    """Calculations that solve an exercise, as far as code can tell; the first is the one to show. Empty: none."""
    if not _ASKS_VALUE.search(plain_words(stem)):
        return []
    given = [q for q in quantities(stem) if len(q.values) >= 1 and not q.says_year]
    return _arithmetic(stem) or _conversions(stem, given) or _by_formula(stem, given, evidence)


def _arithmetic(stem: str) -> list[Solution]:
    found = [c for c in calculations(stem, decimal="comma") if c.claimed is None]
    if not found:
        return []
    longest = max(found, key=lambda c: len(c.expression))
    numbers: list[Fraction] = []

    def slot(match: re.Match[str]) -> str:
        numbers.append(Fraction(evaluate(match.group(), decimal="comma")))
        return f"{{{len(numbers) - 1}}}"

    template = re.sub(r"\d+(?:[.,]\d+)*", slot, re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", longest.expression))
    return _checked([Solution(template, tuple(numbers))])


def _conversions(stem: str, given: Sequence[Quantity]) -> list[Solution]:
    if len(given) != 1 or given[0].unit not in _IN_BASE or not _CONVERTED.search(plain_words(stem)):
        return []
    base, size = _IN_BASE[given[0].unit or ""]
    rest = stem[: given[0].start] + " " + stem[given[0].end :]
    targets = [u for u in sorted(units_in(rest)) if u in _IN_BASE and _IN_BASE[u][0] == base and u != given[0].unit]
    found: list[Solution] = []
    for target in targets:
        factor = Fraction(size) / Fraction(_IN_BASE[target][1])
        step = f"* {factor}" if factor >= 1 else f"/ {1 / factor}"
        found.append(Solution(f"{{0}} {step}", (_first(given[0]),), unit=target))
    return _checked(found)


def _by_formula(stem: str, given: Sequence[Quantity], evidence: Sequence[Evidence]) -> list[Solution]:
    """By a formula that the book introduces ("khối lượng m", "thể tích V"), with what the exercise and a table give."""
    if not given:
        return []  # What a table tells is read, not calculated.
    text = "\n".join(item.text for item in evidence)
    found: list[tuple[int, Solution]] = []
    for match in FORMULA.finditer(text):
        left, right = match[1], match[2].strip()
        letters = list(dict.fromkeys(re.findall(r"[A-Za-z]", right)))
        sought = _sought_by(left, text, stem)
        if not letters or not sought:
            continue
        values = [_value_of(letter, text, stem, given, evidence) for letter in letters]
        numbers = [value for value in values if value is not None]
        if len(numbers) != len(letters):
            continue
        template = right.replace(",", ".").replace("×", "*")
        for place, letter in enumerate(letters):
            template = re.sub(rf"(?<!\w){letter}(?!\w)", f"{{{place}}}", template)
        found.append((sought, Solution(template, tuple(numbers), tuple(letters), f"{left} = {right}")))
    # "Khối lượng riêng" says more than "khối lượng".
    best = max((sought for sought, _ in found), default=0)
    return _checked(list(dict.fromkeys(solution for sought, solution in found if sought == best)))


def _checked(found: Sequence[Solution]) -> list[Solution]:
    kept: list[Solution] = []
    for solution in found:
        try:
            solution.value()
        except NotArithmetic:
            continue
        kept.append(solution)
    return kept


def _nouns(letter: str, text: str) -> list[str]:
    """What a formula's letter stands for, without accents, the longest first: "khoi luong rieng", "luong rieng"."""
    found: list[str] = []
    for match in re.finditer(rf"((?:[^\W\d_]+ ){{1,3}}){letter}(?=[ ,.)])(?! =)", text):
        words = fold(match[1]).split()
        found += [" ".join(words[start:]) for start in range(len(words) - 1)]
    return sorted(dict.fromkeys(found), key=len, reverse=True)


def _letter_units(letter: str, text: str) -> set[str]:
    """Units that the book gives for a letter: "thể tích V tính bằng mét khối"."""
    found: set[str] = set()
    for match in re.finditer(rf"(?<!\w){letter} (?:tính (?:bằng|theo)|có đơn vị là|theo) (.{{1,18}})", text):
        unit, _ = unit_after(match[1], 0)
        found |= {unit} if unit else units_in(match[1])
    return found


def _sought_by(left: str, text: str, stem: str) -> int:
    """How much of what a letter stands for the exercise asks for, in characters; 0: it asks for something else."""
    said = plain_words(stem)
    task = max((m.end() for m in _ASKS_VALUE.finditer(said)), default=0)
    asked = said[max(0, task - 40) :] if said[task:].strip() == "" else said[task:]
    unit_asked = _letter_units(left, text) & units_in(stem) - {q.unit for q in quantities(stem)}
    return max((len(noun) for noun in _nouns(left, text) if f" {noun} " in f" {asked} "), default=2 * bool(unit_asked))


def _value_of(
    letter: str, text: str, stem: str, given: Sequence[Quantity], evidence: Sequence[Evidence]
) -> Fraction | None:
    nouns, units = _nouns(letter, text), _letter_units(letter, text)
    for quantity in given:
        before = fold(stem[max(0, quantity.start - 24) : quantity.start])
        if any(re.search(rf"\b{noun}(?: \w+){{0,2}} ?$", before) for noun in nouns):
            return _first(quantity)
    for quantity in given:
        if quantity.unit in units or (quantity.unit == "°C" and "°" in units):
            return _first(quantity)
    return _from_table(nouns, stem, evidence)


def _from_table(nouns: Sequence[str], stem: str, evidence: Sequence[Evidence]) -> Fraction | None:
    said = f" {plain_words(stem)} "
    for item in evidence:
        rows = [[cell.strip() for cell in line.split("|")] for line in item.text.splitlines() if " | " in line]
        heads = [fold(cell) for cell in rows[0]] if rows else []
        column = next((i for noun in nouns for i, head in enumerate(heads) if i and noun in head), None)
        for row in sorted(rows[1:], key=lambda r: -len(r[0])):
            if column is not None and column < len(row) and f" {fold(row[0])} " in said:
                read = quantities(row[column])
                return _first(read[0]) if read and read[0].values else None
    return None


def _first(quantity: Quantity) -> Fraction:
    # "0,002" has one reading; of "1.954" the larger is the Vietnamese one.
    return max(quantity.values)
