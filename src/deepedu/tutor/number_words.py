"""How a number is written and said: in digits as Vietnamese schools write it, in words of Vietnamese and of English."""

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import product


def shown_number(value: Fraction) -> str:
    """A number as Vietnamese schools write it: 2 700; 0,002. At most four decimals."""
    rounded = round(value, 4)
    whole, _, tail = f"{float(abs(rounded)):.4f}".partition(".")
    tail = tail.rstrip("0")
    grouped = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", " ", whole) if len(whole) > 3 else whole
    return ("-" if rounded < 0 else "") + grouped + (f",{tail}" if tail else "")


def plain_digits(number: Fraction) -> str:
    """The digits of a number without marks: 2.54 -> "254"."""
    return re.sub(r"\D", "", shown_number(number)).lstrip("0") or "0"


_ONE_SPELLING = {"ngan": "nghin", "le": "linh", "tu": "bon", "lam": "nam", "nham": "nam", "ty": "ti", "and": ""}


def in_one_spelling(folded: Iterable[str]) -> str:
    """Words without accents, joined; those of numbers in the one spelling that ``in_words`` uses."""
    return " ".join(word for w in folded if (word := _ONE_SPELLING.get(w, w)))


_ONES = ["khong", "mot", "hai", "ba", "bon", "nam", "sau", "bay", "tam", "chin"]
_ENGLISH = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ((10**9, "ti", "billion"), (10**6, "trieu", "million"), (10**3, "nghin", "thousand"))


# Numbers come from what pupils ask, so not all are kept.
@lru_cache(maxsize=1024)
def in_words(number: Fraction) -> frozenset[str]:
    """How a number is said, without accents, in Vietnamese and in English; small ones apart (they are in any text)."""
    digits = plain_digits(number)
    by_digit = {" ".join(ones[int(d)] for d in digits) for ones in (_ONES, _ENGLISH) if len(digits) > 1}
    whole = int(number)
    said = in_vietnamese(whole) | {_english(whole)} if whole < 10**12 else set[str]()
    if number.denominator != 1:
        tail = shown_number(number).partition(",")[2]
        tails = {" ".join(_ONES[int(d)] for d in tail), *in_vietnamese(int(tail))}
        return frozenset(by_digit | {f"{head} phay {rest}" for head, rest in product(in_vietnamese(whole), tails)})
    if 1000 <= whole <= 2999 and whole % 100 >= 10:
        said.add(f"{_english(whole // 100)} {_english(whole % 100)}")
    return frozenset(by_digit | (said if whole >= 10 else set()))


def in_vietnamese(number: int) -> set[str]:
    """The ways to say a whole number, not negative, without accents."""
    for scale, word, _ in _SCALES:
        if number >= scale:
            head, rest = divmod(number, scale)
            tails = {""} if not rest else {f" {t}" for t in in_vietnamese(rest)}
            if rest and rest < scale // 10:
                gap = " khong tram" if rest >= 10 else " khong tram linh"
                tails |= {f"{filler}{tail}" for filler in (gap, " linh") for tail in tails}
            return {f"{h} {word}{t}" for h in in_vietnamese(head) for t in tails}
    if number >= 100:
        head, rest = divmod(number, 100)
        tails = {""} if not rest else {f" {t}" for t in in_vietnamese(rest)}
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
