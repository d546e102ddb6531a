"""Calculations in free text, checked and put right by code.

A small model puts the right numbers into a formula and then calculates wrongly: "(120,000 / 1.25 million) x 100 =
90 %". Here the expressions of a text are found, evaluated (``expression.py``) and wrong results replaced.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from deepedu.tutor.chain import Link, chains
from deepedu.tutor.expression import Decimal, NotArithmetic, Value, evaluate, round_half_up
from deepedu.tutor.notation import Token, read_number

__all__ = ["Calculation", "NotArithmetic", "calculations", "corrected", "evaluate"]


@dataclass(frozen=True)
class Calculation:
    """An expression as it stands in ``text[start:end]``, its true value, and what the text claims it to be.

    ``claimed`` is what stands after the next equals sign, without currency or unit: a number, with its magnitude word
    and percent sign, or the next expression of a chain. None when there is none that can be read.
    """

    expression: str
    claimed: str | None
    value: Value
    start: int
    end: int


def calculations(text: str, *, decimal: Decimal = "point") -> list[Calculation]:
    """Every expression with at least one operator in NFC ``text``, in order; see ``chain.py`` for what counts.

    Args:
        decimal: which single mark before three digits is a decimal one, see ``notation.read_number``.
    """
    found: list[Calculation] = []
    for chain in chains(text, decimal):
        for link, following in zip(chain, [*chain[1:], None], strict=True):
            if link.number is None and link.operators and (following is not None or link.counts_alone):
                found.append(_calculation(link, following))
    return found


def corrected(text: str, *, decimal: Decimal = "point") -> tuple[str, list[Calculation]]:
    """``text`` with wrong results replaced by right ones, and the calculations that were wrong.

    A claim that is right to its own precision stays, under either reading of its decimal mark; "15%" is right for 15
    and for 0.15. A new result keeps the claim's sign for percent, magnitude word, unit and number format; it has the
    claim's decimals, at least two when the claim has some or the value is not whole, and no zeros beyond an exact
    value. In a chain every link is held against the first expression; a step with rounded numbers in it counts too.
    """
    wrong: list[Calculation] = []
    changes: list[tuple[int, int, str]] = []
    for chain in chains(text, decimal):
        anchors = [chain[0]]
        for link in chain[1:]:
            if link.number is None and (_is_near(link, anchors[0]) or _continues(link, anchors[0])):
                # "3 + 4 = 7 × 2 = 14": the equals sign of a pupil who calculates on.
                anchors = [*anchors, link] if _is_near(link, anchors[0]) else [link]
            elif link.number is None or not any(_is_right(link, anchor) for anchor in anchors):
                wrong.append(_calculation(anchors[0], link))
                changes.append(_change(text, link, anchors[0], decimal))
    for start, end, replacement in sorted(changes, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text, wrong


def _calculation(link: Link, claim: Link | None) -> Calculation:
    return Calculation(link.text, claim.text if claim else None, link.value, link.start, link.end)


def _exact(value: Value) -> Fraction:
    return Fraction(value)


def _is_near(link: Link, anchor: Link) -> bool:
    """Whether a step with rounded numbers may stand for ``anchor``: within one percent."""
    values = [_exact(anchor.value), _exact(anchor.value) * 100, _exact(anchor.value) / 100]
    near = [v for v in values if abs(_exact(link.value) - v) <= abs(v) / 100]
    has_percent = any(t.kind == "percent" for t in (*link.tokens, *anchor.tokens))
    return bool(near) and (has_percent or near[0] == values[0])


def _continues(link: Link, anchor: Link) -> bool:
    """Whether a step starts from the result before it and goes on."""
    first = next((t for t in link.tokens if t.kind == "number"), None)
    return first is not None and _exact(first.value) == _exact(anchor.value) and link.operators > 0


def _spelled(token: Token, text: str) -> tuple[str, str, int]:
    """Thousands mark, decimal mark and number of decimals that a number is written with; "" for a mark not seen."""
    digits = text.replace("{,}", ",").replace("\\,", " ").lower().partition("e")[0]
    gap = next((c for c in digits if c.isspace()), "")
    marks = re.findall("[.,]", digits)
    joined = re.sub(r"[\s.,]", "", digits)
    if not marks:
        return gap, "", 0
    if len(set(marks)) == 1 and (len(marks) > 1 or (_exact(token.value) == int(joined) and digits[0] != "0")):
        return marks[0], "", 0
    return marks[0] if len(set(marks)) == 2 else gap, marks[-1], len(digits.rpartition(marks[-1])[2])


def _is_right(claim: Link, anchor: Link) -> bool:
    """Whether a plain claim is the anchor's value to the claim's own precision."""
    number = claim.number
    assert number is not None, "only plain numbers are judged by their digits"
    spelling = claim.text[number.start - claim.start : number.end - claim.start]
    sign = -1 if claim.tokens and any(t.symbol == "-" for t in claim.tokens) else 1
    # A right text is never harmed because its decimal mark was read the wrong way.
    values = [_exact(value) for value in anchor.readings]
    if claim.is_percent:
        values += [value * 100 for value in values]
    elif any(t.kind == "percent" for t in anchor.tokens) and anchor.percents_out:
        values += [value / 100 for value in values]
    for decimal in ("point", "comma"):
        try:
            stated = read_number(spelling, decimal)
        except NotArithmetic:
            continue
        places = _spelled(Token("number", 0, 0, "", stated), spelling)[2]
        if any(_rounds_to(value / claim.scale * sign, stated, places, claim.is_rounded) for value in values):
            return True
    return False


def _rounds_to(value: Fraction, stated: Fraction, places: int, is_rounded: bool) -> bool:
    unit = Fraction(1, 10**places)
    if is_rounded and stated.denominator == 1 and stated:
        # "≈ 1,230,000" is rounded to thousands.
        while stated % (unit * 10) == 0 and unit < stated:
            unit *= 10
    slack = abs(value) / 10**12
    if places or is_rounded:
        return abs(value - stated) <= unit / 2 + slack
    return abs(round_half_up(value, 0) - stated) <= slack or abs(value - stated) < Fraction(1, 2)


def _change(text: str, claim: Link, anchor: Link, decimal: Decimal) -> tuple[int, int, str]:
    """Where to write what instead of a wrong claim."""
    number = claim.number
    start, end = claim.start, claim.end
    lead, value, style = "", _exact(anchor.value), [t for t in anchor.tokens if t.kind == "number"]
    places = 0
    if number is not None:
        sign = next((t for t in claim.tokens if t.kind == "op"), None)
        start, end = (sign or number).start, number.end
        lead = text[sign.end : number.start].strip() if sign else ""
        value = _percents(value, claim, anchor) / claim.scale
        style = [number, *style]
        places = _spelled(number, text[number.start : number.end])[2]
    spelled = [_spelled(t, text[t.start : t.end]) for t in style]
    mark = next((m for _, m, _ in spelled if m), "," if decimal == "comma" else ".")
    group = next((g for g, _, _ in spelled if g and g != mark), "")
    return start, end, ("-" if value < 0 else "") + lead + _formatted(abs(value), places, group, mark)


def _percents(value: Fraction, claim: Link, anchor: Link) -> Fraction:
    """The value as the claim counts: "0.096 = 90%" wants 9.6."""
    if not claim.is_percent or anchor.percents_out or not value:
        return value
    stated = abs(_exact(claim.value)) * 100
    if not stated or abs(math.log(abs(value) * 100 / stated)) <= abs(math.log(abs(value) / stated)):
        return value * 100
    return value


def _formatted(value: Fraction, places: int, group: str, mark: str) -> str:
    wanted = places if places == 0 and value.denominator == 1 else max(2, places)
    if value and value < Fraction(1, 100):
        # Three digits that say something: 0.00123
        wanted = max(wanted, 2 - math.floor(math.log10(value)))
    rounded = round_half_up(value, wanted)
    digits = f"{int(rounded * 10**wanted):0{wanted + 1}d}"
    whole, tail = digits[: len(digits) - wanted], digits[len(digits) - wanted :]
    if rounded == value:
        tail = tail[:places] + tail[places:].rstrip("0")
    if len(whole) > 4 or group not in ("", " "):
        whole = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", group, whole)
    return whole + (mark + tail if tail else "")
