"""Marks pupils' and models' answers in code, never by a model: numbers, choices and short texts."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Literal

from deepedu.base.vietnamese import canonical_tone, fold
from deepedu.tutor.expression import Decimal, NotArithmetic, Value, evaluate_tokens, round_half_up
from deepedu.tutor.notation import Token, tokenize
from deepedu.tutor.quantities import quantities
from deepedu.tutor.units import unit_after

# --- Numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Number:
    values: frozenset[Value]
    unit: str | None
    is_percent: bool


_LEAD = re.compile(r"(?:[^\W\d_][^\d=:]{0,40})?[=:]\s*")
_NEGATIVE = re.compile(r"(?:âm|trừ) (?=\d)", re.IGNORECASE)
# A number a pupil may hand in as an answer: 5, -5, 3/4, 1 1/2, 2,5 triệu, 3·10⁸, √2, 2\frac{1}{2}. Not 3 + 4.
_ANSWER = re.compile(
    r"[-+]?(?:n[kp]*|n/-?n|nn/n|n?f\(-?n\)\(-?n\)|n?\*?r(?:n|\(n\))|(?:n\*)?n(?:p|\^-?n|\^\(-?n\)))%?k*"
)
_SHAPES = {"number": "n", "constant": "n", "scale": "k", "power": "p", "frac": "f", "root": "r", "percent": "%"}
_CURRENCY = {"$": "USD", "\\$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "us dollar": "USD", "₫": "đồng",
             "vnđ": "đồng", "vnd": "đồng", "đồng": "đồng", "€": "€", "euro": "€", "eur": "€", "£": "£"}  # fmt: skip


def mark_number(
    given: str,
    expected: str,
    *,
    decimals: int | None = None,
    relative: float = 0.0,
    decimal: Literal["point", "comma", "either"] = "either",
    percent_as_fraction: bool = False,
) -> bool:
    """Whether ``given`` is the number ``expected``: "0,5" is "0.5" and "1/2", "12 triệu" is "12.000.000".

    A label before it ("x =", "Đáp số:"), spaces, a currency sign and a full stop do not matter. Units count when both
    have one and are not converted: 1 km is not 1000 m. An expression still to be calculated is no number.

    Args:
        decimals: numbers that are equal after rounding half up to so many places count as equal, too.
        relative: largest distance that counts as equal, as a part of ``expected``.
        decimal: what a single mark before three digits is; "either" takes whichever reading fits.
        percent_as_fraction: whether 50% is 0.5; otherwise a percentage equals only a percentage.

    Raises:
        ValueError: ``expected`` is no number.
    """
    theirs, ours = _number(given, decimal), _number(expected, decimal)
    if ours is None:
        raise ValueError(f"expected a number to mark against, got {expected!r}")
    if theirs is None or not _same_unit(theirs.unit, ours.unit):
        return False
    if theirs.is_percent != ours.is_percent and not percent_as_fraction:
        return False
    factor = 100 if ours.is_percent else 1
    return any(_equals(a * factor, b * factor, decimals, relative) for a in theirs.values for b in ours.values)


def _equals(given: Value, expected: Value, decimals: int | None, relative: float) -> bool:
    if given == expected:
        return True
    if decimals is not None and round_half_up(given, decimals) == round_half_up(expected, decimals):
        return True
    # Only a root or π makes a float; its last bits say nothing.
    is_exact = isinstance(given, Fraction) and isinstance(expected, Fraction)
    slack = max(relative, 0.0 if is_exact else 1e-9)
    return abs(Fraction(given) - Fraction(expected)) <= Fraction(slack) * abs(Fraction(expected))


def _same_unit(given: str | None, expected: str | None) -> bool:
    if given is None or expected is None or given == expected:
        return True
    # "12 quả" is short for "12 quả cam".
    return given.startswith(expected + " ") or expected.startswith(given + " ")


def _number(text: str, decimal: Literal["point", "comma", "either"]) -> _Number | None:
    plain = unicodedata.normalize("NFC", text).strip().strip("\"'“”*").rstrip(" .,;!").strip()
    lead = _LEAD.match(plain)
    plain = _NEGATIVE.sub("-", plain[lead.end() :] if lead else plain)
    modes: tuple[Decimal, ...] = ("point", "comma") if decimal == "either" else (decimal,)
    read = [one for mode in modes if (one := _digits(plain, mode)) is not None]
    if read:
        return _Number(frozenset[Value]().union(*(one.values for one in read)), read[0].unit, read[0].is_percent)
    spelled = [] if any(c.isdigit() for c in plain) else quantities(plain)
    if len(spelled) == 1 and spelled[0].start == 0 and spelled[0].values:
        one = spelled[0]
        unit = one.unit or _free_unit(plain[one.end :])
        is_percent = unit == "%"
        values = frozenset(v / 100 if is_percent else v for v in one.values)
        return _Number(frozenset[Value](values), None if is_percent else unit, is_percent)
    return None


def _digits(text: str, decimal: Decimal) -> _Number | None:
    tokens = tokenize(text, decimal)
    end = next((i for i, t in enumerate(tokens) if t.kind in ("unit", "text", "word", "break")), len(tokens))
    money = [
        name for t in tokens[:end] if t.kind == "money" and (name := t.symbol.lower().removesuffix("s")) in _CURRENCY
    ]
    own = _unbracketed([t for t in tokens[:end] if t.kind not in ("money", "newline")])
    if not own or _ANSWER.fullmatch("".join(_shape(t) for t in own)) is None:
        return None
    value: Value = Fraction(0)
    if [_shape(t) for t in own[-4:]] == ["n", "n", "/", "n"]:
        # 1 1/2 is a mixed number; -1 1/2 lies below -1.
        sign = -1 if own[0].symbol == "-" else 1
        value, own = sign * own[-4].value, own[:-4] + own[-3:]
    try:
        value += evaluate_tokens(own)
    except NotArithmetic:
        return None
    # "$0,5$" is LaTeX, "$0.5" is money.
    is_latex = len(money) == 2 and set(money) == {"$"}
    unit = _CURRENCY[money[0]] if money and not is_latex else None
    if end < len(tokens):
        unit = unit or _unit(text, tokens[end])
    return _Number(frozenset({value}), unit, any(t.kind == "percent" for t in own))


def _unit(text: str, token: Token) -> str | None:
    if token.kind == "unit" and not text[token.end :].strip():
        return token.symbol
    return token.symbol if token.kind == "text" else _free_unit(text[token.start :])


def _free_unit(rest: str) -> str | None:
    found, end = unit_after(rest.strip(), 0)
    if found is not None and end == len(rest.strip()):
        return found
    return " ".join(re.findall(r"[^\W_]+", fold(rest))) or None


def _shape(token: Token) -> str:
    return (
        token.symbol.translate(str.maketrans("[]{}", "()()"))
        if token.kind in ("op", "open", "close")
        else (_SHAPES.get(token.kind, "?"))
    )


def _unbracketed(tokens: list[Token]) -> list[Token]:
    while len(tokens) > 2 and tokens[0].kind == "open" and tokens[-1].kind == "close":
        tokens = tokens[1:-1]
    return tokens


# --- Choices ---------------------------------------------------------------------------------------------------------

_LABELLED = re.compile(r"\s*\(?\s*([^\W\d_])\s*[.):]\s*(.*)", re.DOTALL)
_BARE_LABEL = re.compile(r"[\s(\[\"'“]*([^\W\d_])[\s)\].:,;!\"'”]*")
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_TEXTUAL = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
# Matched in folded text. The stronger sort says that the answer follows; the weaker one only names an option.
_DECISIVE = re.compile(
    r"(?<!\w)(?:(?:dap an|dap so|phuong an|lua chon|cau tra loi|tra loi|ket qua|answer|option|choice)"
    r"(?: (?:dung|cuoi cung|chinh xac|dung nhat|can chon|can tim|cua em|cua minh|here))*\s*(?:(?:la|is|=>|[:=→])\s*)+"
    r"|(?<!khong )(?<!not )(?:chon|choose|pick|select)(?: (?:dap an|phuong an|cau|y|option|answer))?\s*:?\s+)"
    r"(?:(?:dap an|phuong an|cau|option|answer|choice)\s+)?"
)
_NAMING = re.compile(r"(?<!\w)(?:dap an|phuong an|lua chon|answer|option|choice)\s+")
_BECAUSE = r"(?:vi|do|boi|because|since|as|la dung|dung|is correct|is right)(?!\w)"
# A letter with something after it that no word of prose would have: "A cell is ..." and "a) ..." differ here.
_AFTER_MARK = re.compile(rf"[\s:*\"'“(\[]*([^\W\d_])(?=\s*(?:$|[\n.,;:)\]!?*\"'”–—]|{_BECAUSE}))")
_STANDING = re.compile(
    rf"(?:^|\n)[\s*>•-]*(?:\(?([^\W\d_])\s*(?:[.)\]:](?=\s|$)|\s{_BECAUSE}|(?=\s*(?:\n|$))))|(?<!\w)\(([^\W\d_])\)(?!\w)"
)
_DENIED = re.compile(r"\W{0,3}(?:(?:la|is|thi) )?(?:sai|khong dung|chua dung|khong phai|wrong|incorrect|not)(?!\w)")
_NEAREST = 0.6


@dataclass(frozen=True)
class _Options:
    labels: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, choices: Sequence[str]) -> "_Options":
        matches = [_LABELLED.fullmatch(unicodedata.normalize("NFC", choice)) for choice in choices]
        labels = tuple(m[1].lower() for m in matches if m is not None)
        if len(labels) == len(choices) == len(set(labels)):
            return cls(labels, tuple(_plain(m[2]) for m in matches if m is not None))
        return cls(tuple("abcdefghijklmnopqrstuvwxyz"[: len(choices)]), tuple(_plain(choice) for choice in choices))

    def label(self, letter: str | None) -> int | None:
        return self.labels.index(letter.lower()) if letter and letter.lower() in self.labels else None

    def whole(self, reply: str) -> int | None:
        """The option that ``reply`` is as a whole: its label, label and text, text, number or place."""
        plain = _plain(reply)
        bare = _BARE_LABEL.fullmatch(reply.strip())
        if bare is not None and (index := self.label(bare[1])) is not None:
            return index
        labelled = _LABELLED.fullmatch(reply)
        if labelled is not None and (index := self.label(labelled[1])) is not None:
            return index if self.text(_plain(labelled[2])) == index else None
        if (index := self.text(plain)) is not None:
            return index
        is_place = re.fullmatch(r"\d", plain) is not None and 0 < int(plain) <= len(self.texts)
        return int(plain) - 1 if is_place and not any(_is_number(plain, text) for text in self.texts) else None

    def text(self, plain: str) -> int | None:
        """The only option whose text is ``plain``, as letters, without accents, or as a number."""
        for same in (str.__eq__, _is_unaccented, _is_number):
            found = [i for i, text in enumerate(self.texts) if plain and same(plain, text)]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def mentioned(self, reply: str) -> set[int]:
        """Options whose text stands somewhere in ``reply``; a text within another's does not count twice."""
        prose = " ".join(unicodedata.normalize("NFC", reply).lower().split())
        is_accented = fold(prose) != prose
        found: set[int] = set()
        for index in sorted(range(len(self.texts)), key=lambda i: -len(self.texts[i])):
            text = self.texts[index] if is_accented else fold(self.texts[index])
            # A single digit or letter stands in any prose.
            if len(text) > 1:
                prose, count = re.subn(rf"(?<![\w])(?<!\d[.,]){re.escape(text)}(?!\w|[.,]\d)", "\0", prose)
                if count:
                    found.add(index)
        return found


def choice_of(reply: str, choices: Sequence[str]) -> int | None:
    """The index of the option that ``reply`` means, or None when it means none or more than one.

    A label ("B", "b.", "(B)"), label and text, the text alone, its number in another spelling, and the place of the
    option (1 is the first, unless an option's text is that number) all name it. Of several options that are named, the
    one after the last "đáp án là", "chọn", "answer is" or ``\\boxed`` counts. A letter counts only where it stands as a
    label, so the article of "A cell is ..." does not.

    Args:
        choices: the options, with labels of their own ("A. 824") or without (then A, B, C ... by place).
    """
    options = _Options.of(choices)
    text = unicodedata.normalize("NFC", reply).replace("**", "").replace("__", "")
    text = _BOXED.sub(lambda m: f"\nđáp án: {m[1]}\n", _TEXTUAL.sub(r"\1", text)).strip()
    if (index := options.whole(text)) is not None:
        return index
    folded = fold(text)
    if len(folded) != len(text):
        text = folded  # Signs that fold to more or fewer characters: give up accents rather than places.
    for pattern in (_DECISIVE, _NAMING):
        for mark in reversed(list(pattern.finditer(folded))):
            if (index := _after_mark(options, text[mark.end() :], folded[mark.end() :])) is not None:
                return index
    named = options.mentioned(text)
    for match in _STANDING.finditer(folded):
        index = options.label(match[1] or match[2])
        if index is not None and not _DENIED.match(folded, match.end()):
            named.add(index)
    return named.pop() if len(named) == 1 else None


def _after_mark(options: _Options, rest: str, folded: str) -> int | None:
    label = _AFTER_MARK.match(folded)
    if label is not None and (index := options.label(label[1])) is not None:
        return None if _DENIED.match(folded, label.end()) else index
    sentence = re.split(r"\n|[.;!?](?=\s|$)", rest.lstrip(), maxsplit=1)[0]
    if (index := options.whole(sentence)) is not None:
        return index
    named = options.mentioned(sentence)
    return named.pop() if len(named) == 1 else None


def mark_choice(reply: str, choices: Sequence[str], answer: str) -> bool:
    """Whether ``reply`` means the option that is the answer.

    Args:
        answer: the right option's label, its label and text, or its text, perhaps spelt a little differently: the
            label counts first, then the nearest text.

    Raises:
        ValueError: ``answer`` is like none of the choices.
    """
    options = _Options.of(choices)
    return choice_of(reply, choices) == _answer_index(options, unicodedata.normalize("NFC", answer))


def _answer_index(options: _Options, answer: str) -> int:
    for pattern in (_BARE_LABEL, _LABELLED):
        match = pattern.fullmatch(answer.strip())
        if match is not None and (index := options.label(match[1])) is not None:
            return index
    plain = _plain(answer)
    if (index := options.text(plain)) is not None:
        return index
    likeness = [SequenceMatcher(None, fold(plain), fold(text)).ratio() for text in options.texts]
    if not likeness or max(likeness) < _NEAREST:
        raise ValueError(f"expected one of the options {options.texts!r} as the answer, got {answer!r}")
    return likeness.index(max(likeness))


# --- Texts -----------------------------------------------------------------------------------------------------------


def mark_text(given: str, accepted: Sequence[str]) -> bool:
    """Whether ``given`` is one of the ``accepted`` answers, as a whole.

    Case, spaces and punctuation at the ends do not matter, nor where the tone mark of hòa stands. An answer typed
    wholly without accents matches; one with other accents does not ("má" is not "mà"). Numbers match as numbers.
    """
    plain = _plain(given)
    return any(
        plain == text or _is_unaccented(plain, text) or _is_number(plain, text)
        for text in _plains(accepted)
        if plain and text
    )


def _plains(texts: Sequence[str]) -> Iterator[str]:
    return (_plain(text) for text in texts)


def _plain(text: str) -> str:
    lowered = unicodedata.normalize("NFC", text).lower().replace("\\(", "").replace("\\)", "")
    spelled = re.sub(r"[^\W\d_]+", lambda word: canonical_tone(word.group()), lowered)
    ends = " ,;:!?\"'“”‘’«»*`…"
    # The point of .5 is part of the number.
    return re.sub(r"^\.+(?!\d)\s*", "", " ".join(spelled.split()).strip(ends)).rstrip(ends + ".")


def _is_unaccented(given: str, text: str) -> bool:
    return fold(given) == given == fold(text)


def _is_number(given: str, text: str) -> bool:
    try:
        return mark_number(given, text)
    except ValueError:
        return False
