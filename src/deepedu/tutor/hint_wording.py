"""What is said on a rung of the ladder: made by code from the book, worded by a model if there is one, checked.

Before anything is said, code works out what must not be said: the ``Secret``. The hint's text is made of the question,
of titles and of sentences that hold nothing of the secret. A model only words this text anew. It reads neither the
pupil's message nor the answer, and what it writes is held against the secret and against the text it was given.
"""

import logging
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from fractions import Fraction
from functools import cache, cached_property
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

from deepedu.base.errors import LLMError
from deepedu.base.vietnamese import fold
from deepedu.llm.chat import ChatModel, Message, TextPart, whole_reply
from deepedu.search.evidence import Evidence
from deepedu.store.tables import TITLE_SEPARATOR
from deepedu.tutor.answer import Lesson
from deepedu.tutor.calculator import calculations
from deepedu.tutor.context import telling
from deepedu.tutor.expression import NotArithmetic, evaluate
from deepedu.tutor.hints import Decision, Ladder, Ladders, Policy, Rung, decide
from deepedu.tutor.names import Lexicon, Name
from deepedu.tutor.pupil_intent import (
    Kind,
    Subject,
    asks,
    content_words,
    lesson_words,
    numbers_of,
    plain_words,
    question_in,
    says,
)
from deepedu.tutor.quantities import Quantity, bears, quantities
from deepedu.tutor.question import Asked, Question
from deepedu.tutor.quoting import Choice, candidates
from deepedu.tutor.terms import is_content, pairs, tokens, weight
from deepedu.tutor.units import unit_after, units_in
from deepedu.tutor.windows import Passage, Sentence, Window, lesson_of

log = logging.getLogger(__name__)


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("deepedu.tutor").joinpath("hint_texts.toml").read_text(encoding="utf-8"))


# --- The secret ------------------------------------------------------------------------------------------------------


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
    if any(_tells_number(text, folded, number) for number in secret.numbers):
        return True
    if any((q.date[0], q.date[1]) in secret.days for q in quantities(text) if q.date) or _tells_day(text, secret):
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


def _tells_day(text: str, secret: Secret) -> bool:
    said = f" {_spelled_plain(token.folded for token in tokens(text))} "
    for day, month in secret.days:
        for d, m in product(_vietnamese(day) | {str(day)}, _vietnamese(month) | {str(month)}):
            if f" {d} thang {m} " in said:
                return True
        if re.search(rf"(?<!\d)0?{day}\s?[/.-]\s?0?{month}(?!\d)", text):
            return True
    return False


_DIGITS = re.compile(r"\d(?:[  ., _·-]?\d)*")


def _tells_number(text: str, folded: Sequence[str], number: Fraction) -> bool:
    for quantity in quantities(text):
        values = {abs(v) for v in quantity.values} | {Fraction(part) for part in quantity.date or () if part}
        if number in values or (quantity.unit == "%" and number in {v / 100 for v in values}):
            return True
    digits = _plain_digits(number)
    if len(digits) >= 2:
        for run in _DIGITS.findall(text):
            joined = re.sub(r"\D", "", run)
            for one in (digits, digits[::-1]):
                if joined == one or (len(one) >= 3 and one in joined):
                    return True
        said = f" {_spelled_plain(folded)} "
        turned = f" {' '.join(reversed(said.split()))} "
        if any(f" {words} " in said or f" {words} " in turned for words in _in_words(number)):
            return True
    return _calculates(text, number)


def _calculates(text: str, number: Fraction) -> bool:
    return any(abs(Fraction(one.value)) == number for d in ("comma", "point") for one in calculations(text, decimal=d))


def _plain_digits(number: Fraction) -> str:
    """The digits of a number without marks: 2.54 -> "254"."""
    return re.sub(r"\D", "", _shown(number)).lstrip("0") or "0"


_ONE_SPELLING = {"ngan": "nghin", "le": "linh", "tu": "bon", "lam": "nam", "nham": "nam", "ty": "ti", "and": ""}


def _spelled_plain(folded: Iterable[str]) -> str:
    return " ".join(word for w in folded if (word := _ONE_SPELLING.get(w, w)))


_ONES = ["khong", "mot", "hai", "ba", "bon", "nam", "sau", "bay", "tam", "chin"]
_ENGLISH = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ((10**9, "ti", "billion"), (10**6, "trieu", "million"), (10**3, "nghin", "thousand"))


@cache
def _in_words(number: Fraction) -> frozenset[str]:
    """How a number is said, without accents, in Vietnamese and in English; small ones apart (they are in any text)."""
    digits = _plain_digits(number)
    by_digit = {" ".join(ones[int(d)] for d in digits) for ones in (_ONES, _ENGLISH) if len(digits) > 1}
    whole = int(number)
    said = _vietnamese(whole) | {_english(whole)} if whole < 10**12 else set[str]()
    if number.denominator != 1:
        tail = _shown(number).partition(",")[2]
        tails = {" ".join(_ONES[int(d)] for d in tail), *_vietnamese(int(tail))}
        return frozenset(by_digit | {f"{head} phay {rest}" for head, rest in product(_vietnamese(whole), tails)})
    if 1000 <= whole <= 2999 and whole % 100 >= 10:
        said.add(f"{_english(whole // 100)} {_english(whole % 100)}")
    return frozenset(by_digit | (said if whole >= 10 else set()))


def _vietnamese(number: int) -> set[str]:
    for scale, word, _ in _SCALES:
        if number >= scale:
            head, rest = divmod(number, scale)
            tails = {""} if not rest else {f" {t}" for t in _vietnamese(rest)}
            if rest and rest < scale // 10:
                gap = " khong tram" if rest >= 10 else " khong tram linh"
                tails |= {f"{filler}{tail}" for filler in (gap, " linh") for tail in tails}
            return {f"{h} {word}{t}" for h in _vietnamese(head) for t in tails}
    if number >= 100:
        head, rest = divmod(number, 100)
        tails = {""} if not rest else {f" {t}" for t in _vietnamese(rest)}
        return {f"{_ONES[head]} tram{' linh' if 0 < rest < 10 else ''}{t}" for t in tails}
    if number < 10:
        return {_ONES[number]}
    ten, one = divmod(number, 10)
    lead = "muoi" if ten == 1 else f"{_ONES[ten]} muoi"
    return {f"{lead} {_ONES[one]}"} | ({f"{_ONES[ten]} {_ONES[one]}"} if ten > 1 else set()) if one else {lead}


def _english(number: int) -> str:
    for scale, _, word in _SCALES:
        if number >= scale:
            head, rest = divmod(number, scale)
            return f"{_english(head)} {word}" + (f" {_english(rest)}" if rest else "")
    if number >= 100:
        return f"{_ENGLISH[number // 100]} hundred" + (f" {_english(number % 100)}" if number % 100 else "")
    if number < 20:
        return _ENGLISH[number]
    return _ENGLISH_TENS[number // 10] + (f" {_ENGLISH[number % 10]}" if number % 10 else "")


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
    return frozenset(_texts()["tutor"]["words"].split()) - {"năm"}


# --- Exercises -------------------------------------------------------------------------------------------------------


def _shown(value: Fraction) -> str:
    """A number as Vietnamese schools write it: 2 700; 0,002. At most four decimals."""
    rounded = round(value, 4)
    whole, _, tail = f"{float(abs(rounded)):.4f}".partition(".")
    tail = tail.rstrip("0")
    grouped = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", " ", whole) if len(whole) > 3 else whole
    return ("-" if rounded < 0 else "") + grouped + (f",{tail}" if tail else "")


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
        written = self.template.format(*(_shown(n) for n in numbers or self.numbers))
        written = written.replace("*", "×").replace(".", ",")
        lead = f"{self.formula} = " if self.formula else ""
        return f"{lead}{written} = {_shown(self.value(numbers))}{f' {self.unit}' if self.unit else ''}"

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


_FORMULA = re.compile(r"(?<![\w])([A-Za-z]) = ((?:[A-Za-z](?!\w)|\d+(?:,\d+)?|[-+×/*() ])+)")
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
    for match in _FORMULA.finditer(text):
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


# --- A question with what the book has for it ------------------------------------------------------------------------

# A sentence whose score lies this close to the best may be the answer as well, so it is kept secret too.
_NEAR_BEST = 1.2
_NEAR_SENTENCES = 4
_FAR_BEST = 3.0
_FAR_SENTENCES = 10
_ANSWERED = 0.4
_SURE = 0.6
_OPTION = re.compile(r"(?<!\w)([A-D])\s*[.):]\s*(.+?)(?=\s+[B-D]\s*[.):]\s|$)", re.DOTALL)
_ENGLISH_ASKED = (
    (Asked.TIME, r"\b(?:when|(?:what|which) (?:year|date|day|month|century)|how long ago)\b"),
    (Asked.NUMBER, r"\bhow (?:many|much|high|tall|long|fast|hot|cold|big|far|often|heavy)\b|\b(?:temperature|speed)\b"),
    (Asked.PERSON, r"\b(?:who|whom|whose|which (?:scientist|doctor|person))\b"),
    (Asked.PLACE, r"\b(?:where|(?:what|which) (?:city|country|place|station))\b"),
    (Asked.REASON, r"\bwhy\b"),
    (Asked.DEFINITION, r"^(?:what is|what are|define|what does)\b"),
)
_OPEN = re.compile(
    r"\b(?:vi sao|tai sao|giai thich|neu|ke ten|so sanh|trinh bay|the nao|khac|vai tro|chuc nang|dac diem|lam gi|"
    r"hien tuong|dieu gi|thay gi|diem nao|why|explain|describe|compare|define|difference)\b"
)
# "Tên ... là gì", "đơn vị ... là gì" ask for a word, not for a meaning.
_NAMED = re.compile(r"^(?:ten|ki hieu|ky hieu|don vi|cong thuc|name|unit|formula|symbol)\b")
_TASK = re.compile(
    r"\b(?:tinh(?! (?:che|khiet|bot|the|chat|trung))|doi|giai(?! thich)|calculate|compute|convert|solve|work out)\b"
)


class _Text(NamedTuple):
    """A text of ``hint_texts.toml`` with what is filled in; only that can tell anything."""

    name: str
    fields: dict[str, str]

    @property
    def told(self) -> str:
        return " ; ".join(self.fields.values())


class Matter:
    """A question, the passages for it, its secret, and what may be said on each rung.

    Args:
        question: as the pupil asked it.
        evidence: passages that search found for it, best first.
        key: the right answer where a teacher gave one: a text, a number or an option's letter.
        guarded: secrets of other questions that the pupil is still working on.
    """

    def __init__(
        self, question: str, evidence: Sequence[Evidence], *, key: str | None = None, guarded: Sequence[Secret] = ()
    ) -> None:
        self.text, self.key, self.guarded = question, key, tuple(guarded)
        options = list(_OPTION.finditer(question))
        self.options = {m[1]: m[2].strip() for m in options} if len(options) >= 2 else {}
        self.stem = question[: options[0].start()] if self.options else question
        self.evidence = tuple(evidence)
        self._passages = [Passage(marker, item) for marker, item in enumerate(evidence, start=1)]
        book = [(s.text, s.tokens) for passage in self._passages for s in passage.sentences]
        self._known = Lexicon.of(book)
        self.question = Question.of(self.stem.strip() or question, self._known)
        self.choices = candidates(self.question, self._passages)
        self.best: Choice | None = self.choices[0] if self.choices else None
        self.solutions = solutions_of(self.stem, evidence)
        self.secret = self._secret()

    @cached_property
    def asked(self) -> Asked:
        """What kind of answer is wanted, asked in either language."""
        if self.question.asked is not Asked.OTHER:
            return self.question.asked
        said = plain_words(self.stem)
        return next((kind for kind, pattern in _ENGLISH_ASKED if re.search(pattern, said)), Asked.OTHER)

    @cached_property
    def kind(self) -> Kind:
        """What it takes to answer."""
        said = plain_words(self.stem)
        given = [q for q in self.question.quantities if not q.is_time and (q.unit or q.surface[-1:].isdigit())]
        if self.solutions or (given and _TASK.search(said)) or (len(given) >= 2 and self.asked is Asked.NUMBER):
            return Kind.EXERCISE
        if self.asked in (Asked.TIME, Asked.NUMBER, Asked.PERSON) or _NAMED.search(said):
            return Kind.SHORT
        is_open = self.asked in (Asked.REASON, Asked.DEFINITION) or _OPEN.search(said) is not None
        return Kind.OPEN if is_open else Kind.SHORT

    @cached_property
    def is_claim(self) -> bool:
        """Whether it asks if something is so: then what it names is no given, but a guess."""
        return self.question.wants_yes_or_no or says("verify", self.stem)

    @property
    def is_answerable(self) -> bool:
        """Whether code or book has an answer."""
        return bool(self.key or self.solutions) or (self.best is not None and self.best.probability >= _ANSWERED)

    def subject(self) -> Subject:
        """What the ladder keeps of it."""
        window = self.best.window if self.best else None
        said = {word: None for passage in self._passages for word in lesson_words(passage.text)}
        names = {w for p in self._passages[:4] for s in p.sentences for n in _names(s, p) for w in n.words}
        figures = {f for p in self._passages[:4] for f in numbers_of(p.text)}
        figures |= {str(number) for solution in self.solutions for number in solution.numbers}
        return Subject(
            kind=self.kind,
            terms=content_words(self.stem),
            numbers=tuple(sorted(numbers_of(self.stem))),
            vocabulary=tuple(said),
            names=tuple(sorted({fold(name) for name in names - self._known.small})),
            figures=tuple(sorted(figures)),
            expressions=tuple("".join(c.expression.split()) for c in calculations(self.stem, decimal="comma")),
            section=window.passage.evidence.section_id if window else 0,
            place=(window.passage.evidence.passage_id, window.start, window.end) if window else None,
            asked=str(self.asked),
            has_options=bool(self.options) or self.question.wants_yes_or_no,
        )

    # --- What must not be said ---

    def _secret(self) -> Secret:
        secret = Secret(letters=frozenset(self.options))
        for option in self.options.values():
            secret |= _secret_of_text(option)
        if self.key and self.key.strip(" .") not in self.options:
            secret |= _secret_of_text(self.key)
        for solution in self.solutions:
            secret |= Secret(numbers=frozenset({abs(solution.value())} - self._given_values()))
        for place, choice in enumerate(self._near()):
            secret |= self._secret_of_window(choice.window, is_best=place == 0)
        return secret

    def _near(self) -> list[Choice]:
        if self.best is None or self.kind is Kind.EXERCISE:
            return []
        return [c for c in self.choices[:12] if c.score >= self.best.score - _NEAR_BEST][:_NEAR_SENTENCES]

    def _given_values(self) -> set[Fraction]:
        return set() if self.is_claim else {abs(v) for q in self.question.quantities for v in q.values}

    def _fresh(self, found: Iterable[Quantity]) -> list[Quantity]:
        given = () if self.is_claim else self.question.quantities
        return [q for q in found if not bears(given, q, frozenset())]

    def _fresh_names(self, found: Iterable[Name]) -> list[Name]:
        asked = set() if self.is_claim else {token.folded for token in self.question.tokens}
        return [n for n in found if not {fold(w) for w in n.core} <= asked]

    def _secret_of_window(self, window: Window, *, is_best: bool) -> Secret:
        fresh = self._fresh(window.quantities)
        wants_value = self.asked in (Asked.TIME, Asked.NUMBER)
        numbers = {abs(v) for q in fresh for v in q.values}
        numbers |= {Fraction(q.date[2]) for q in fresh if q.date and q.date[2]}
        days = {(day, month) for q in fresh if q.date for day, month, _ in [q.date] if day and month}
        if wants_value:
            return Secret(numbers=frozenset(numbers - self._given_values()), days=frozenset(days))
        asked = set[str]() if self.is_claim else {token.folded for token in self.question.tokens}
        names = {tuple(w for w in map(fold, n.core) if w not in asked) for n in self._fresh_names(window.names)}
        names = {n for n in names if len(n) > 1 or (n and weight(n[0], is_folded=True) >= 1.0)}
        rare = {w for n in names for w in n if weight(w, is_folded=True) >= 1.0 and len(w) > 2}
        secret = Secret(names=frozenset(names), words=frozenset(rare))
        if self.asked in (Asked.PERSON, Asked.PLACE) or not is_best:
            return secret
        fresh_words = [w for w in content_words(window.text) if w not in asked]
        formulas = {tuple(t.folded for t in tokens(m.group())) for m in _FORMULA.finditer(window.text)}
        told = {p for s in window.sentences for p in pairs([t.folded for t in s.tokens]) if set(p) <= set(fresh_words)}
        strong = {w for w in fresh_words if weight(w, is_folded=True) >= 1.0} if self.kind is Kind.SHORT else set[str]()
        return secret | Secret(
            numbers=frozenset(numbers if self.kind is Kind.SHORT or self.is_claim else set()),
            phrases=frozenset(formulas),
            words=frozenset(strong),
            pairs=frozenset(told),
        )

    def hides(self, text: str) -> bool:
        """Whether ``text`` gives away this question's secret or a guarded one."""
        return any(leaks(text, secret) for secret in (self.secret, *self.guarded))

    # --- What a pupil's answer is worth ---

    def verdict(self, message: str) -> bool | None:
        """Whether the answer that a message names is right; None: it names none, or more than one, or code cannot tell.

        Only a number, a name or an option is judged, never a statement in own words.
        """
        if self.options and self.key:
            letters = set(re.findall(r"(?<!\w)([A-D])(?!\w)", message))
            return letters == {self.key.strip(" .")} if len(letters) == 1 else None
        if self.kind is Kind.EXERCISE:
            return self._number_verdict(message, [s.value() for s in self.solutions[:1]] or _values_of(self.key))
        if self.key is None and (self.best is None or self.best.probability < _SURE):
            return None
        if self.asked in (Asked.TIME, Asked.NUMBER):
            return self._number_verdict(message, _values_of(self.key) if self.key else self._expected_numbers())
        said = {token.folded for token in tokens(message)}
        if self.asked is Asked.PERSON and self.best is not None:
            right = [set(map(fold, n.core)) for n in self._fresh_names(self.best.window.names)]
            named = [n for n in self.subject().names if n in said and n not in self.subject().terms]
            if len(right) != 1 or not named:
                return None
            return set(named) <= right[0]
        # Of a sentence in own words code cannot tell whether it says the same or the contrary.
        return None

    def _expected_numbers(self) -> list[Fraction]:
        assert self.best is not None
        fresh = [q for q in self._fresh(self.best.window.quantities) if q.is_time == (self.asked is Asked.TIME)]
        values = [Fraction(q.date[2]) if q.date and q.date[2] else min(q.values, default=None) for q in fresh]
        return [value for value in values if value is not None]

    def _number_verdict(self, message: str, expected: Sequence[Fraction]) -> bool | None:
        if len(expected) != 1:
            return None
        given = numbers_of(self.text) if not self.is_claim else frozenset[str]()
        claims = [c for c in calculations(message, decimal="comma") if c.claimed]
        is_said = says("result", message) or says("verify", message)
        if claims:
            named = _values_of(claims[-1].claimed)
            # A step on the way is not the answer.
            is_step = named == [Fraction(claims[-1].value)] and not is_said
            return True if named == list(expected) else None if is_step or not named else False
        rest = re.sub(
            r"(?i)\b(?:trang|bảng|bang|câu|cau|hình|hinh|bài|bai|lớp|lop|page|table|grade)\s+\d+", " ", message
        )
        named = [q for q in quantities(rest) if q.values and not numbers_of(q.surface) & given]
        if len(named) != 1:
            return None
        return any(abs(v) == abs(expected[0]) for v in named[0].values)

    # --- Rung by rung ---

    def body(self, rung: Rung, variant: int = 0) -> str:
        """The text of a rung, made by code; ``variant`` counts tellings of it. Never gives the secret away."""
        makers: dict[Rung, Callable[[int], Iterator[_Text]]] = {
            Rung.ASKED: self._asked_texts,
            Rung.LESSON: self._lesson_texts,
            Rung.IDEA: self._idea_texts,
            Rung.FIRST_STEP: self._step_texts,
            Rung.EXAMPLE: self._example_texts,
        }
        # A place in the book is no answer, whatever number its page has; its titles are checked one by one.
        found = (t for t in makers[rung](variant) if rung is Rung.LESSON or not self.hides(t.told))
        name, fields = next(found, _Text("example_none" if rung is Rung.EXAMPLE else "step_none", {}))
        texts: list[str] = _texts()["rungs"][name]
        return texts[variant % len(texts)].format(**fields)

    def _asked_texts(self, variant: int) -> Iterator[_Text]:  # noqa: ARG002
        is_exercise = self.kind is Kind.EXERCISE
        sought = _texts()["asked_for"]["exercise" if is_exercise else str(self.asked)]
        given = [q.surface for q in self.question.quantities] if is_exercise else self._keywords()
        shown = ", ".join(dict.fromkeys(piece for piece in given if not self.hides(piece)))
        name = "asked_given" if is_exercise else "asked_about"
        yield _Text("asked", {"sought": sought, "given": _texts()["given"][name].format(given=shown) if shown else ""})
        yield _Text("asked", {"sought": sought, "given": ""})

    def _keywords(self) -> list[str]:
        """What the question names, as the lesson spells it."""
        if self.best is None:
            return []
        section = self.best.window.passage.evidence.section_id
        here = [s for p in self._passages if p.evidence.section_id == section for s in p.sentences]
        return self._shared_runs(here)[:4]

    def _shared_runs(self, sentences: Sequence[Sentence]) -> list[str]:
        """Runs of words that the question shares with sentences, as the book writes them, the longest first."""
        asked = [t.folded for i, t in enumerate(self.question.tokens) if i not in self.question.asked_words]
        found: dict[str, str] = {}
        for sentence in sentences:
            said = [t.folded for t in sentence.tokens]
            for block in SequenceMatcher(None, said, asked, autojunk=False).get_matching_blocks():
                run = list(sentence.tokens[block.a : block.a + block.size])
                while run and not is_content(run[0].word):
                    run = run[1:]
                if run and (len(run) > 1 or weight(run[0].word) >= 1.0):
                    found.setdefault(fold(text := sentence.text[run[0].start : run[-1].end]), text)
        runs = sorted(found, key=lambda run: -len(run))
        kept = [run for i, run in enumerate(runs) if not any(run in longer for longer in runs[:i])]
        return [" ".join(found[run].split()) for run in kept if not self.hides(found[run])]

    def _lesson_texts(self, variant: int) -> Iterator[_Text]:  # noqa: ARG002
        if self.best is None:
            yield _Text("no_lesson", {})
            return
        evidence = self.best.window.passage.evidence
        # Where code found no answer, a title may be it: "3. Antonie van Leeuwenhoek".
        shown = (evidence.lesson, self._section()) if self.is_answerable else ()
        titles = [evidence.book, *(title for title in shown if title and not self.hides(title))]
        page, _ = evidence.place_of(self.best.window.start)
        place = ", ".join(dict.fromkeys(titles))
        place += f", trang {evidence.page_labels.get(page, str(page))}" if evidence.has_pages else ""
        yield _Text("lesson" if self.is_answerable else "lesson_near", {"place": place})

    def _section(self) -> str:
        """The innermost title above the answer."""
        assert self.best is not None
        return self.best.window.passage.evidence.heading.split(TITLE_SEPARATOR)[-1]

    def _idea_texts(self, variant: int) -> Iterator[_Text]:
        shown = self.solutions[0] if self.solutions else None
        if shown and shown.formula:
            yield _Text("idea_formula", {"formula": shown.formula})
        elif shown:
            yield _Text("idea_conversion" if shown.unit else "idea_arithmetic", {})
        if self.best is not None:
            header = self.best.window.header
            if header is not None and header.is_row:
                yield _Text("idea_table", {"columns": _columns(header.text)})
            # Where code found no answer, any sentence may be it.
            ideas = [idea for idea in self._ideas() if not self.hides(idea)] if self.is_answerable else []
            if ideas:
                yield _Text("idea_sentence", {"idea": ideas[variant % len(ideas)]})
            if self.is_answerable:
                yield _Text("idea_title", {"title": self._section()})
        yield _Text("idea_none", {})

    def _ideas(self) -> list[str]:
        """Sentences around the answer that help, best first; what the question asks for is blanked in them."""
        assert self.best is not None
        answer = self.best.window
        near = self._answering()
        words = set(content_words(self.stem))
        ranked: list[tuple[float, str]] = []
        for passage in self._passages:
            if passage.evidence.section_id != answer.passage.evidence.section_id:
                continue
            for sentence in passage.sentences:
                if not _is_readable(sentence) or (sentence in near and not self._is_blanked):
                    continue
                shared = len(words & set(content_words(sentence.text)))
                is_near = 1.5 * (passage is answer.passage) - 2.0 * (sentence in near)
                ranked.append((shared + is_near, self._blanked(sentence, passage)))
        return [text for score, text in sorted(ranked, key=lambda pair: -pair[0]) if score > 0][:6]

    @property
    def _is_blanked(self) -> bool:
        """Whether an answer is a value that can be taken out of a sentence."""
        return self.kind is Kind.EXERCISE or self.asked in (Asked.TIME, Asked.NUMBER, Asked.PERSON, Asked.PLACE)

    def _answering(self) -> set[Sentence]:
        """Sentences that may be the answer. Where no value can be blanked in them, more of them are left out."""
        if self.best is None:
            return set()
        margin, most = (_NEAR_BEST, _NEAR_SENTENCES) if self._is_blanked else (_FAR_BEST, _FAR_SENTENCES)
        near = [c for c in self.choices[:most] if c.score >= self.best.score - margin]
        return {sentence for choice in near for sentence in choice.window.sentences}

    def _blanked(self, sentence: Sentence, passage: Passage) -> str:
        """The sentence with gaps for every value of the kind that is asked for."""
        spans: list[tuple[int, int]] = []
        if self.asked in (Asked.TIME, Asked.NUMBER) or self.kind is Kind.EXERCISE:
            for quantity in self._fresh(sentence.quantities):
                number = re.match(r"[-−–]?\d[\d  .,]*\d|\d", quantity.surface)
                end = quantity.start + number.end() if number and quantity.date is None else quantity.end
                spans.append((quantity.start, end))
        elif self.kind is Kind.SHORT:
            spans = [(n.start, n.end) for n in self._fresh_names(_names(sentence, passage))]
        text = sentence.text
        for start, end in sorted(spans, reverse=True):
            text = f"{text[:start]}…{text[end:]}"
        return " ".join(text.split())

    def _step_texts(self, variant: int) -> Iterator[_Text]:  # noqa: ARG002
        shown = self.solutions[0] if self.solutions else None
        if shown and shown.formula:
            yield _Text("step_formula", {"needed": ", ".join(shown.labels), "formula": shown.formula})
        elif shown and shown.unit:
            yield _Text("step_conversion", {"unit": shown.unit})
        elif shown:
            yield _Text("step_arithmetic", {})
        elif self.best is not None and self.kind is not Kind.EXERCISE:
            window, guide = self.best.window, _texts()["guides"][str(self.asked)]
            if window.sentences[0].is_row:
                yield _Text("step_table", {"row": _cells(window.sentences[0].text)[0]})
            anchors = self._shared_runs(window.sentences)
            for count in (3, 2, 1):
                if anchors[:count]:
                    quoted = ", ".join(f"«{anchor}»" for anchor in anchors[:count])
                    yield _Text("step_sentence", {"anchors": quoted, "guide": guide})
        yield _Text("step_none", {})

    def _example_texts(self, variant: int) -> Iterator[_Text]:
        for shown in self.solutions[:1]:
            numbers = shown.others(self.hides, variant)
            if numbers is not None and shown.labels:
                values = "; ".join(f"{name} = {_shown(n)}" for name, n in zip(shown.labels, numbers, strict=True))
                yield _Text("example_formula", {"values": values, "worked": shown.worked(numbers)})
            elif numbers is not None:
                yield _Text("example_arithmetic", {"worked": shown.worked(numbers)})
        if self.kind is not Kind.EXERCISE:
            if self.best is not None and self.is_answerable:
                found = [text for text in self._examples_in_book(self.best.window) if not self.hides(text.told)]
                yield from found[variant % len(found) :] if found else ()
            made_up: dict[str, str] | None = _texts()["made_up"].get(str(self.asked))
            if made_up:
                yield _Text("example_sentence", {**made_up, "what": _texts()["asked_for"][str(self.asked)]})
        yield _Text("example_none", {})

    def _examples_in_book(self, answer: Window) -> Iterator[_Text]:
        """How something alike is found elsewhere in the lesson, then elsewhere at all."""
        left_out = self._answering()
        is_row, section = answer.sentences[0].is_row, answer.passage.evidence.section_id
        for passage in sorted(self._passages, key=lambda p: p.evidence.section_id != section):
            for index, sentence in enumerate(passage.sentences):
                if sentence in left_out or is_row != sentence.is_row:
                    continue
                text = self._example_of(sentence, passage, index)
                if text is not None:
                    yield text

    def _example_of(self, sentence: Sentence, passage: Passage, index: int) -> _Text | None:
        header = passage.header_of(index)
        if header is not None:
            cells = _read_row(header.text, sentence.text)
            return _Text("example_table", {"row": _cells(sentence.text)[0], "cells": cells})
        if not _is_readable(sentence):
            return None
        said, what = " ".join(sentence.text.split()), _texts()["asked_for"][str(self.asked)]
        match self.asked:
            case Asked.TIME:
                found = [q.surface for q in sentence.quantities if q.is_time]
            case Asked.NUMBER:
                found = [q.surface for q in sentence.quantities if not q.is_time and q.unit]
            case Asked.PERSON:
                found = [_person(n) for n in _names(sentence, passage) if len(n.words) > 1 and _is_of_person(n, said)]
            case Asked.PLACE:
                found = [n.surface for n in _names(sentence, passage)]
            case _:
                return _Text("example_open", {"sentence": said})
        return _Text("example_sentence", {"sentence": said, "what": what, "found": found[0]}) if found else None

    def sources(self, rung: Rung) -> tuple[Lesson, ...]:
        """Where to read on: places only, never a quote, and no title that tells the answer."""
        if rung < Rung.LESSON or self.best is None:
            return ()
        lesson = lesson_of(self.best.window.passage.evidence)
        titles = " ".join(filter(None, (lesson.chapter, lesson.lesson)))
        is_safe = self.is_answerable and not self.hides(titles)
        return (lesson,) if is_safe or rung is Rung.ANSWER else (replace(lesson, chapter=None, lesson=None),)

    def answer_text(self) -> str:
        """What code itself can say of the answer: a calculation, or the teacher's key; empty where the book answers."""
        if self.solutions:
            return _texts()["given"]["solution"].format(worked="; ".join(s.worked() for s in self.solutions))
        return _texts()["given"]["key"].format(key=self.key) if self.key else ""


def _secret_of_text(text: str) -> Secret:
    found = quantities(text)
    words = tuple(t.folded for t in tokens(text))
    is_short = len(words) <= 4
    return Secret(
        numbers=frozenset(abs(v) for q in found for v in q.values)
        | frozenset(Fraction(q.date[2]) for q in found if q.date and q.date[2]),
        days=frozenset((q.date[0], q.date[1]) for q in found if q.date and q.date[0] and q.date[1]),
        phrases=frozenset({words}) if is_short and not found else frozenset(),
        pairs=frozenset() if is_short else frozenset(pairs(list(content_words(text)))),
    )


def _values_of(text: str | None) -> list[Fraction]:
    found = quantities(text or "")
    return [max(found[0].values)] if len(found) == 1 and found[0].values else []


def _names(sentence: Sentence, passage: Passage) -> Sequence[Name]:
    index = passage.sentences.index(sentence)
    return Window(passage, index, index + 1).names


_PERSON_BEFORE = re.compile(
    r"(?:nhà [^,.]{3,40}|bác sĩ|ông|bà|giáo sư|kĩ sư|vua|chủ tịch|tước|tướng)\s(?:[^,.]{0,20} )?$"
)
_NATIONS = frozenset({"duc", "anh", "phap", "y", "my"})


def _is_of_person(name: Name, said: str) -> bool:
    place = said.find(name.surface)
    return place > 0 and _PERSON_BEFORE.search(said[:place].lower()) is not None


def _person(name: Name) -> str:
    """A person's name without the nationality that stands before it ("người Đức Robert Koch")."""
    parts = name.surface.split()
    return " ".join(parts[1:]) if len(parts) > 2 and fold(parts[0]) in _NATIONS else name.surface


def _is_readable(sentence: Sentence) -> bool:
    is_odd = sentence.is_question or sentence.is_heading or sentence.is_row or sentence.is_open
    return not is_odd and 6 <= len(sentence.tokens) <= 45


def _cells(row: str) -> list[str]:
    return [" ".join(cell.split()) for cell in row.strip().strip("|").split("|")]


def _columns(row: str) -> str:
    return " | ".join(_cells(row))


def _read_row(header: str, row: str) -> str:
    return "; ".join(f"{head}: {cell}" for head, cell in zip(_cells(header)[1:], _cells(row)[1:], strict=False))


# --- Hints -----------------------------------------------------------------------------------------------------------

RULES = (
    "Bạn là gia sư. Viết lại lời gợi ý dưới đây cho học sinh bằng lời thân thiện, một đến ba câu, giữ nguyên ý và các "
    "từ trong ngoặc «». Không thêm thông tin, không thêm con số, không trả lời thay học sinh."
)
_WORDED = frozenset({Rung.IDEA, Rung.FIRST_STEP, Rung.EXAMPLE})
_WORDING_TOKENS = 200


@dataclass(frozen=True)
class Hint:
    """What the pupil is told. ``worded_by``: the model's name, or "code".

    ``sources`` are places in books without quotes. On the rung of the answer ``text`` is what code can say itself, and
    the caller adds the usual grounded answer.
    """

    text: str
    sources: tuple[Lesson, ...]
    rung: Rung | None
    worded_by: str


async def hint_for(
    decision: Decision,
    question: str,
    evidence: Sequence[Evidence],
    model: ChatModel | None = None,
    *,
    key: str | None = None,
    guarded: Sequence[Secret] = (),
) -> Hint:
    """The hint that a decision asks for.

    Args:
        question: the ladder's, not the pupil's last message.
        evidence: passages found for ``question``, best first.
        model: words the hint; None, failing, or saying too much: the code's own text is told.
        key: the right answer, where a teacher gave one.
        guarded: secrets of other questions that the pupil is still working on.
    """
    if decision.rung is None:
        text = _texts()["policies"]["exam_off"] if decision.policy is Policy.EXAM_OFF else ""
        return Hint(text, (), None, "code")
    return await _hint(decision, Matter(question, evidence, key=key, guarded=guarded), model)


async def _hint(decision: Decision, matter: Matter, model: ChatModel | None) -> Hint:
    rung = decision.rung
    assert rung is not None, "the caller asks only where the ladder applies"
    opening = _opening(decision)
    if rung is Rung.ANSWER:
        return Hint(" ".join(filter(None, (opening, matter.answer_text()))), matter.sources(rung), rung, "code")
    body, worded_by = matter.body(rung, decision.ladder.repeats), "code"
    if model is not None and rung in _WORDED:
        worded = await _worded(model, body)
        if worded is not None and not matter.hides(worded[0]) and _keeps_to(worded[0], body):
            body, worded_by = worded
    closing = _texts()["closings"][rung.name.lower()]
    return Hint(" ".join(filter(None, (opening, body, closing))), matter.sources(rung), rung, worded_by)


def _opening(decision: Decision) -> str:
    name = str(decision.move)
    if decision.verdict is not None:
        name = "try_right" if decision.verdict else "try_wrong"
    texts: list[str] = _texts()["openings"][name]
    return texts[decision.ladder.repeats % len(texts)]


async def _worded(model: ChatModel, body: str) -> tuple[str, str] | None:
    """The model's wording and its name. It is shown the code's text alone, so no pupil's words can sway it."""
    messages = [Message("system", (TextPart(RULES, shared=True),)), Message("user", f"Lời gợi ý: {body}")]
    try:
        text, finished = await whole_reply(model, messages, max_tokens=_WORDING_TOKENS)
    except LLMError as error:
        log.warning("telling a hint in the code's own words: %s", error)
        return None
    return " ".join(text.split()), finished.model


def _keeps_to(text: str, body: str) -> bool:
    """Whether a wording says what the hint says, and nothing else."""
    said, meant = set(content_words(text)), set(content_words(body))
    return len(said & meant) >= 0.5 * len(meant) and len(text) <= 2 * len(body) + 100 and not strays(text, body)


@dataclass(frozen=True)
class Step:
    """One message on the ladders: where the pupil stands then, why, and what is told."""

    ladders: Ladders
    decision: Decision
    hint: Hint


async def next_hint(
    ladders: Ladders,
    message: str,
    search: Callable[[str], Sequence[Evidence]],
    *,
    now: datetime,
    policy: Policy = Policy.TUTOR,
    model: ChatModel | None = None,
    key: str | None = None,
) -> Step:
    """One message of a pupil, from reading it to the hint.

    Args:
        search: the passages for a question, best first.
        key: the right answer to the question, where a teacher gave one.
    """
    if policy is not Policy.TUTOR:
        # Nothing is kept of it: a question asked now starts its ladder when the class is taught by hints again.
        ladder = ladders.present or Ladder(message, Subject(Kind.OPEN, ()), now, now)
        decision = decide(ladder, message, policy=policy, now=now)
        return Step(ladders, decision, await hint_for(decision, ladder.question, ()))

    def look_up(question: str) -> Matter:
        return Matter(question, telling(question, search(question)), key=key)

    asked, present = question_in(message), ladders.present
    matter = None if present is not None and not asks(asked) else look_up(asked)
    ladder = ladders.find(message, matter.subject(), now) if matter is not None else present
    assert ladder is not None, "a first message opens a ladder"
    if matter is None or ladder.question != asked:
        matter = look_up(ladder.question)
    verdict = matter.verdict(message)
    decision = decide(ladder, message, policy=policy, now=now, verdict=verdict)
    # What is still sought elsewhere in the same lesson must not be told by the way.
    open_ones = [one for one in ladders.kept if one.rung is not Rung.ANSWER and one.question != ladder.question]
    beside = [one for one in open_ones if one.subject.section == ladder.subject.section]
    matter.guarded = tuple(look_up(one.question).secret for one in beside[-4:])
    hint = await _hint(decision, matter, model)
    told = decision.ladder.after(hint.text)
    return Step(ladders.with_(told), replace(decision, ladder=told), hint)
