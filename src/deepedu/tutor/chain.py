"""Chains of equal expressions in free text: "Margin = (45,000 / 300,000) × 100 = 15%".

What counts as a calculation, with an eye on never harming a right text:

* An expression with an operator whose operands are all numbers. One that a word, a variable or a bracketed word has a
  part in ("Revenue / 3 + 4", "3 + 4y", "2 × [x]") is none, also not in part.
* Without a claim after it, it also needs a sign that says so: "+", "×", "^", a root, or "-", "/" and ":" between
  spaces. "1/2", "1954-1975", "10 - 15", "10:30" and phone numbers are none; dates never are.
* Units: one and the same unit all along ("3 cm + 4 cm = 7 cm") is left out of the value; mixed units are not
  calculated, and a chain ends where the unit changes ("= 1500 m = 1,5 km").
* A claim with a remainder ("7 : 2 = 3 dư 1") or called wrong ("3 + 4 = 8 là sai") is not checked.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from deepedu.tutor.expression import MAX_CHARACTERS, Decimal, NotArithmetic, Value, evaluate_tokens
from deepedu.tutor.notation import Token, read_number, tokenize


@dataclass(frozen=True)
class Link:
    """What stands between two equals signs.

    ``number`` is its only number when it is a plain one; ``readings`` are its values under either decimal mark;
    ``counts_alone``: it is a calculation also without a claim; ``is_rounded``: "≈" stands before it.
    """

    text: str
    start: int
    end: int
    value: Value
    readings: frozenset[Value]
    tokens: tuple[Token, ...]
    units: frozenset[str]
    number: Token | None
    operators: int
    counts_alone: bool
    is_rounded: bool = False

    @property
    def is_percent(self) -> bool:
        return self.number is not None and any(t.kind == "percent" for t in self.tokens)

    @property
    def percents_out(self) -> bool:
        """Whether it multiplies by 100, so that its value already counts percents."""
        pairs = list(pairwise(self.tokens))
        return any(
            (a.symbol == "*" and b.kind == "number" and b.value == 100)
            or (a.kind == "number" and a.value == 100 and b.symbol == "*")
            for a, b in [*pairs, *zip(self.tokens, self.tokens[2:], strict=False)]
        )

    @property
    def scale(self) -> Fraction:
        return Fraction(math.prod(Fraction(t.value) for t in self.tokens if t.kind == "scale"))


# A single letter beside a number is a variable.
_LETTER = re.compile(r"[A-Za-z]")
_REMAINDER = re.compile(r"\W{0,3}(?:dư|remainder)(?!\w)", re.IGNORECASE)
_CALLED_WRONG = re.compile(
    r"\W{0,3}(?:(?:là|is|thì) )?(?:sai|không đúng|chưa đúng|wrong|incorrect|not correct|false)(?!\w)", re.IGNORECASE
)
_DATE = re.compile(
    r"(?<![\w/-])(?:(?:0?[1-9]|[12]\d|3[01])([/.-])(?:0?[1-9]|[12]\d|3[01])\1\d{4}|\d{4}([/-])\d{2}\2\d{2})(?![\w/])"
)
_CURRENCIES = {"€": "€", "£": "£", "¥": "¥", "₫": "đồng", "đồng": "đồng", "vnđ": "đồng", "vnd": "đồng", "usd": "USD",
               "us dollar": "USD", "dollar": "USD", "us$": "USD", "euro": "€", "eur": "€"}  # fmt: skip


def chains(text: str, decimal: Decimal = "point") -> Iterator[list[Link]]:
    """Runs of links that NFC ``text`` says are equal, each starting with an expression."""
    dates = [match.span() for match in _DATE.finditer(text)]
    for tokens, left, right in _segments(text, decimal):
        parts: list[list[Token]] = [[]]
        signs: list[str] = [""]
        for token in tokens:
            if token.kind == "equals":
                parts.append([])
                signs.append(token.symbol)
            else:
                parts[-1].append(token)
        chain: list[Link] = []
        for index, (part, sign) in enumerate(zip(parts, signs, strict=True)):
            is_last = index == len(parts) - 1
            link = _link(text, part, left if index == 0 else None, right if is_last else [], sign not in ("", "="))
            if link is not None and any(a < link.end and link.start < b for a, b in dates):
                link = None
            units = frozenset[str]().union(*(one.units for one in chain))
            if chain and (link is None or len(units | link.units) > 1):
                yield chain
                chain = []
            if link is not None and (chain or (link.number is None and link.operators)) and len(link.units) < 2:
                chain.append(link)
        if chain:
            yield chain


def _segments(text: str, decimal: Decimal) -> Iterator[tuple[list[Token], Token | None, list[Token]]]:
    """Stretches of arithmetic tokens, with the token before and the two after."""
    raw = tokenize(text, decimal)
    # A line that begins or ends with an equals sign goes on.
    tokens = [
        token
        for index, token in enumerate(raw)
        if token.kind != "newline"
        or not any(t.kind == "equals" for t in (*raw[max(0, index - 1) : index], *raw[index + 1 : index + 2]))
    ]
    start = 0
    for index in range(len(tokens) + 1):
        if index < len(tokens) and not _parts(tokens, index):
            continue
        if index > start:
            yield tokens[start:index], tokens[start - 1] if start else None, tokens[index : index + 2]
        start = index + 1


def _parts(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index]
    if token.kind == "text":
        return index == 0 or tokens[index - 1].kind not in ("number", "close", "scale", "percent", "power", "constant")
    return token.kind in ("word", "break", "newline")


def _link(text: str, part: list[Token], left: Token | None, right: list[Token], is_rounded: bool) -> Link | None:
    """The link that ``part`` spells; None when something else than numbers has a part in it."""
    tokens = _between_brackets(text, _without_bullet(text, part, left), right)
    if not tokens or _is_entangled(text, tokens, left, right):
        return None
    units = {t.symbol for t in tokens if t.kind in ("unit", "text")}
    units |= {_CURRENCIES[name] for t in tokens if (name := t.symbol.lower().removesuffix("s")) in _CURRENCIES}
    tokens = [t for t in tokens if t.kind not in ("unit", "text", "money")]
    if not tokens or tokens[-1].end - tokens[0].start > MAX_CHARACTERS:
        return None
    try:
        value = evaluate_tokens(tokens)
    except NotArithmetic:
        return None
    readings = frozenset({value, *_readings(text, tokens)})
    start, end = tokens[0].start, tokens[-1].end
    bare = [t for t in tokens if t.kind not in ("open", "close")]
    shape = " ".join(t.kind for t in bare)
    is_plain = re.fullmatch(r"(?:op )?number(?: scale)*(?: percent)?", shape) is not None
    number = next(t for t in bare if t.kind == "number") if is_plain else None
    binary = [t for before, t in pairwise(tokens) if t.kind == "op" and _is_operand_end(before)]
    others = [t for t in tokens if t.kind in ("function", "root", "power")]
    fractions = sum(t.kind == "frac" for t in tokens)
    return Link(
        text[start:end],
        start,
        end,
        value,
        readings,
        tuple(tokens),
        frozenset(units),
        number,
        len(binary) + len(others) + fractions,
        bool(others) or _says_calculation(text, binary, tokens, value),
        is_rounded,
    )


def _readings(text: str, tokens: list[Token]) -> Iterator[Value]:
    for decimal in ("point", "comma"):
        try:
            yield evaluate_tokens(
                [
                    replace(t, value=read_number(text[t.start : t.end], decimal)) if t.kind == "number" else t
                    for t in tokens
                ]
            )
        except NotArithmetic:
            continue


def _is_operand_end(token: Token) -> bool:
    return token.kind in ("number", "constant", "close", "scale", "percent", "power")


def _says_calculation(text: str, binary: list[Token], tokens: list[Token], value: Value) -> bool:
    """Whether operators alone make it a calculation, rather than a range, a ratio, a time or a date."""
    if any(t.symbol in "+*^" for t in binary):
        return True
    if not binary or not all(text[t.start - 1].isspace() and text[t.end : t.end + 1].isspace() for t in binary):
        return False
    is_range = len(binary) == 1 and binary[0].symbol == "-"
    years = all(1000 <= t.value <= 2100 for t in tokens if t.kind == "number")
    return not is_range or (value > 0 and not years)


def _without_bullet(text: str, part: list[Token], left: Token | None) -> list[Token]:
    """``part`` without a dash that begins its line as a list item."""
    starts_line = left is None or left.kind == "newline"
    if part and starts_line and part[0].symbol == "-" and text[part[0].end : part[0].end + 1].isspace():
        before = text[: part[0].start].rstrip(" ")
        return part[1:] if not before or before[-1] in "\n\t" else part
    return part


def _is_entangled(text: str, tokens: list[Token], left: Token | None, right: list[Token]) -> bool:
    """Whether words around the tokens, or letters among them, belong to the expression."""
    first = next((t for t in tokens if t.kind != "money"), tokens[0])
    if first.kind == "op":
        is_sign = first.symbol == "-" and not text[first.end : first.end + 1].isspace()
        if not is_sign or (left is not None and left.kind == "word"):
            return True
    if left is not None and left.kind == "word":
        gap = text[left.end : tokens[0].start]
        if not gap or (gap.isspace() and len(left.symbol) == 1 and _LETTER.match(left.symbol)):
            return True
    is_sum = sum(t.kind not in ("open", "close", "unit", "money", "text") for t in tokens) > 1
    glued = [t for t in tokens if t.kind == "unit" and t.end - t.start == 1 and not text[t.start - 1].isspace()]
    if glued and is_sum:
        return True
    if not right:
        return False
    end = tokens[-1].end
    if _REMAINDER.match(text, end) or _CALLED_WRONG.match(text, end):
        return True
    if right[0].kind != "word":
        return False
    gap = text[end : right[0].start]
    if not gap or (gap.isspace() and len(right[0].symbol) == 1 and _LETTER.match(right[0].symbol)):
        return True
    return len(right) > 1 and right[1].kind == "op" and right[1].start - right[0].end < 2


def _between_brackets(text: str, part: list[Token], right: list[Token]) -> list[Token]:
    """``part`` without brackets at its ends that open or close outside; empty when one parts it in the middle."""
    while True:
        opens: list[int] = []
        stray: int | None = None
        for index, token in enumerate(part):
            if token.kind == "open":
                opens.append(index)
            elif token.kind == "close" and opens:
                opens.pop()
            elif token.kind == "close":
                stray = index
                break
        if stray is None and not opens:
            return part
        place = stray if stray is not None else opens[0]
        before, after = part[:place], part[place + 1 :]
        is_spaced = text[part[place].end : part[place].end + 1].isspace() or not after
        if stray is not None:
            if all(t.kind in ("close", "money") for t in after):
                part = before  # "(tổng là 3 + 4 = 7)"
            elif [t.kind for t in before] in ([], ["number"]) and after[0].kind != "op" and is_spaced:
                part = after  # "1) 3 + 4 = 7"
            else:
                return []
        elif all(t.kind in ("open", "money") for t in after):
            # "6 (quả)" and "6(quả)", but not "6(x + 2)".
            is_glued = bool(before) and before[-1].end == part[place].start
            if is_glued and not (right and right[0].kind == "word" and len(right[0].symbol) > 1):
                return []
            part = before
        elif all(t.kind in ("open", "money") for t in before):
            part = after  # "(3 + 4 = 7)"
        elif [t.kind for t in before] == ["number"] and text[part[place].start - 1].isspace():
            part = after  # "Bài 5 (3 + 4 = 7)"
        else:
            return []
