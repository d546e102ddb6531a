"""Arithmetic as people and small models write it, cut into tokens.

Plain text, Vietnamese school notation (``80 000 : 6``, ``2,5``), LaTeX and one-line Python become the same tokens;
``expression.py`` calculates them and ``calculator.py`` finds them in prose.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from deepedu.tutor.units import MULTIPLIERS, unit_after

Decimal = Literal["point", "comma"]
Value = Fraction | float

_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "mn": 10**6, "bn": 10**9,
           "mil": 10**6, **MULTIPLIERS}  # fmt: skip
_GLUED_SCALES = {"K": 10**3, "k": 10**3, "M": 10**6, "B": 10**9, "tr": 10**6}
_SCALE = re.compile(rf"(?:(?:{'|'.join(sorted(_SCALES, key=len, reverse=True))})(?:(?<=ion)s)?)(?!\w)", re.IGNORECASE)
_GLUED_SCALE = re.compile(r"(?:[KkMB]|tr)(?!\w)")

_GAP = "[ \u00a0\u202f\u2009]"
_LEXEMES = re.compile(
    rf"""
      (?P<newline>[\t\r\n]+|\\\\)
    | (?P<space>[^\S\t\r\n]+|\\[,;:!\ ]|\\[()\[\]]|[`&~]
        |\\(?:left|right|quad|qquad|displaystyle|boxed|mathbf|big|Big|bigg|Bigg)(?![A-Za-z]))
    | (?P<text>\\(?:text|textbf|textit|mathrm|operatorname)\s*\{{(?P<inner>[^{{}}]*)\}})
    | (?P<frac>\\[dtc]?frac(?![A-Za-z]))
    | (?P<root>\\sqrt(?:\[(?P<degree>\d{{1,2}})\])?|√)
    | (?P<constant>(?:\\|(?:math|np|numpy)\.)pi(?!\w)|π)
    | (?P<compare>[=!<>]=+>?|=>)
    | (?P<equals>=|≈|≃|\\(?:approx|simeq)(?![A-Za-z]))
    | (?P<percent>\\?%|(?:percent|phần\ trăm)(?!\w))
    | (?P<money>\^\{{?\\circ\}}?|US\$|\\?\$|[€£¥₫°](?![CF])
        |(?i:đồng|vnđ|vnd|us\ dollars?|usd|dollars?|euros?|eur)(?!\w))
    | (?P<times>\\(?:times|cdot|ast)(?![A-Za-z])|[×✕✖·⋅∙])
    | (?P<divide>\\div(?![A-Za-z])|[÷∕⁄])
    | (?P<slashes>//+)
    | (?P<star>\*\*?)
    | (?P<sign>[-+^/−–])
    | (?P<colon>:)
    | (?P<power>⁻?[⁰¹²³⁴-⁹]{{1,4}})
    | (?P<open>\\\{{|[(\[{{])
    | (?P<close>\\\}}|[)\]}}])
    | (?P<function>(?:(?:math|np|numpy)\.)?(?i:sqrt|ln|log10|log2|log|exp|abs|min|max|round|sum|pow)(?=\()
        |\\(?:ln|log|exp|min|max)(?=\s*[({{\[\\]))
    | (?P<number>(?:[1-9]\d{{0,2}}(?:(?:{_GAP}|\\,)\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:(?:[.,]|\{{,\}})\d+)*|\.\d+)
        (?:[eE][+-]?\d{{1,4}}(?![\w.]))?)
    | (?P<word>[^\W\d]\w*)
    | (?P<break>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Inside max(1,5) the comma parts arguments, so it is no part of a number.
_ARGUMENT = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d{1,4}(?![\w.]))?|\.\d+")
_ARGUMENT_COMMA = re.compile(r"\d+(?:[.,]\d+)*")
_LISTING = frozenset({"min", "max", "round", "sum", "pow", "log", "math.log", "np.log", "numpy.log"})
_TIMES_X = re.compile(r"[xX](?=\s*(?:[\d(\[{√$€£]|\\(?:[dtc]?frac|sqrt|left|\$)|(?:math\.|np\.)?sqrt\()|\s[-−]\d)")
_UNIT_NOTE = re.compile(r"\(\s*(?P<unit>[^\W\d_][^()=+*×÷:\d\n]{0,30}[23]?)\s*\)")
_PERCENT_NOTE = re.compile(r"\(\s*\\?%\s*\)")
_STEP = re.compile(
    r"(?<!\w)(?:bước|câu|bài|ví dụ|phần|cách|ý|step|question|example|case|part|problem) ?$", re.IGNORECASE
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_OPERAND_ENDS = frozenset({"number", "constant", "close", "scale", "percent", "power", "unit"})


class NotArithmetic(ValueError):
    """The text is no arithmetic expression, or one that has no (bounded, real) value."""


@dataclass(frozen=True)
class Token:
    """A piece of an expression in ``text[start:end]``; ``symbol`` is its one spelling (``÷`` and ``:`` are ``/``).

    Kinds that calculate: number, constant, scale, percent, power, op, open, close, comma, function, root, frac.
    Kinds without a value: money (currency and degree signs), unit (a bare unit after a number), text (LaTeX
    ``\\text{..}`` or a unit in brackets), equals, newline, break (punctuation), word (anything else).
    """

    kind: str
    start: int
    end: int
    symbol: str = ""
    value: Value = Fraction(0)


def read_number(digits: str, decimal: Decimal = "point") -> Fraction:
    """The number that ``digits`` with separators spells.

    Two different marks: the last is the decimal one. The same mark twice groups thousands. A single mark is the
    decimal one, except that the mark other than ``decimal`` before exactly three digits groups thousands:
    "1,250" is 1250 under "point" and 1.25 under "comma"; "0,5", "2,54" and "0,125" are decimals under both.

    Raises:
        NotArithmetic: the separators make no number ("3.2.1").
    """
    if len(digits) > 300:
        raise NotArithmetic(f"expected at most 300 digits, got {len(digits)}")
    plain, _, exponent = re.sub(rf"{_GAP}|\\,", "", digits.replace("{,}", ",")).lower().partition("e")
    marks = re.findall("[.,]", plain)
    head, tail = plain, ""
    if len(set(marks)) == 2 or len(marks) == 1:
        head, _, tail = plain.rpartition(marks[-1])
        other = "," if decimal == "point" else "."
        if len(marks) == 1 and marks[0] == other and len(tail) == 3 and re.fullmatch(r"[1-9]\d{0,2}", head):
            head, tail = head + tail, ""
    if not re.fullmatch(r"\d*|[1-9]\d{0,2}(?:([.,])\d{3}(?:\1\d{3})*)?", head) or abs(int(exponent or 0)) > 300:
        raise NotArithmetic(f"expected a number, got {digits!r}")
    return Fraction(f"{re.sub('[.,]', '', head) or '0'}.{tail or '0'}") * Fraction(10) ** int(exponent or 0)


def tokenize(text: str, decimal: Decimal = "point") -> list[Token]:
    """The pieces of ``text``, in order; spaces, LaTeX delimiters and Markdown emphasis are left out."""
    return _Scanner(text, decimal).scan()


class _Scanner:
    def __init__(self, text: str, decimal: Decimal) -> None:
        self.text = text
        self.decimal: Decimal = decimal
        self.tokens: list[Token] = []
        self.listing: list[bool] = []  # For each open bracket: whether commas in it part arguments.
        self.emphasis = ""

    def scan(self) -> list[Token]:
        position = 0
        while position < len(self.text):
            match = _LEXEMES.match(self.text, position)
            assert match is not None, "the last alternative takes any character"
            kind = match.lastgroup or ""
            if kind == "number":
                position = self._number(match)
            elif kind == "word":
                position = self._word(match)
            elif kind == "open":
                position = self._open(match)
            else:
                position = match.end()
                if kind != "space":
                    self._other(kind, match)
        return self.tokens

    def _last(self) -> Token | None:
        return next((t for t in reversed(self.tokens) if t.kind not in ("money", "text")), None)

    def _after_operand(self) -> bool:
        last = self._last()
        return last is not None and last.kind in _OPERAND_ENDS

    def _add(self, kind: str, start: int, end: int, symbol: str = "", value: Value = Fraction(0)) -> int:
        self.tokens.append(Token(kind, start, end, symbol, value))
        return end

    def _number(self, match: re.Match[str]) -> int:
        if self.listing and self.listing[-1]:
            narrow = _ARGUMENT if self.decimal == "point" else _ARGUMENT_COMMA
            match = narrow.match(self.text, match.start()) or match
        try:
            return self._add("number", match.start(), match.end(), "", read_number(match.group(), self.decimal))
        except NotArithmetic:
            return self._add("word", match.start(), match.end(), match.group())

    def _word(self, match: re.Match[str]) -> int:
        start, last = match.start(), self._last()
        if self._after_operand() and last is not None:
            times = _TIMES_X.match(self.text, start)
            # "2 x1" multiplies by a variable x1; "2 x 1" and "2x1" are products.
            if times and not (self.text[start - 1].isspace() and not self.text[start + 1].isspace()):
                return self._add("op", start, start + 1, "*")
            scale = _SCALE.match(self.text, start)
            glued = _GLUED_SCALE.match(self.text, start) if last.kind == "number" and last.end == start else None
            if scale or glued:
                end = (scale or glued or match).end()
                name = self.text[start:end]
                factor = _GLUED_SCALES[name] if glued else _SCALES[name.lower().removesuffix("s")]
                return self._add("scale", start, end, name, Fraction(factor))
            if match.group() == "đ":
                return self._add("money", start, match.end(), "đồng")
            unit, end = unit_after(self.text, start)
            if unit is not None:
                return self._add("unit", start, end, unit)
        return self._add("word", start, match.end(), match.group())

    def _open(self, match: re.Match[str]) -> int:
        if self._after_operand() and (percent := _PERCENT_NOTE.match(self.text, match.start())):
            return self._add("percent", match.start(), percent.end(), "%")
        note = _UNIT_NOTE.match(self.text, match.start()) if self._after_operand() else None
        if note is not None:
            unit, end = unit_after(note["unit"].strip(), 0)
            known = unit if unit is not None and end == len(note["unit"].strip()) else None
            if known or len(note["unit"].strip()) > 1:
                return self._add("text", match.start(), note.end(), known or note["unit"].strip().lower())
        last = self.tokens[-1] if self.tokens else None
        is_call = last is not None and last.kind == "function" and last.symbol in _LISTING
        is_inner = last is not None and last.kind == "open" and self.listing[-1:] == [True]
        self.listing.append(is_call or is_inner)
        return self._add("open", match.start(), match.end(), match.group()[-1])

    def _other(self, kind: str, match: re.Match[str]) -> None:
        start, end, source = match.start(), match.end(), match.group()
        if kind == "star":
            self._star(start, end, source)
        elif kind == "sign":
            self._add("op", start, end, "-" if source in "-−–" else source)
        elif kind in ("times", "divide"):
            self._add("op", start, end, "*" if kind == "times" else "/")
        elif kind == "colon":
            self._add("op" if self._divides(start) else "break", start, end, "/" if self._divides(start) else ":")
        elif kind == "text":
            self._latex_text(match)
        elif kind == "function":
            self._add(kind, start, end, source.lower().lstrip("\\"))
        elif kind == "root":
            self._add(kind, start, end, match["degree"] or "2")
        elif kind == "constant":
            self._add(kind, start, end, "π", math.pi)
        elif kind == "power" and self._after_operand():
            self._add(kind, start, end, "", Fraction(int(source.translate(_SUPERSCRIPTS))))
        elif kind == "percent" and not self._after_operand():
            self._add("break", start, end, source)
        elif kind in ("percent", "equals", "money", "frac"):
            self._add(kind, start, end, source)
        elif kind == "newline":
            self.emphasis = ""
            self._add(kind, start, end)
        elif kind == "close":
            if self.listing:
                self.listing.pop()
            self._add(kind, start, end, source[-1])
        elif source in ",;" and self.listing[-1:] == [True]:
            self._add("comma", start, end)
        else:
            self._add("word" if kind in ("slashes", "power") or source in "\\@#±" else "break", start, end, source)

    def _star(self, start: int, end: int, source: str) -> None:
        if self.emphasis == source and not self.text[start - 1].isspace():
            self.emphasis = ""
        elif self._after_operand():
            self._add("op", start, end, "^" if source == "**" else "*")
        elif self.text[end : end + 1].strip():
            self.emphasis = source
        elif self.tokens and self.tokens[-1].kind in ("word", "op"):
            self._add("op", start, end, "*")

    def _divides(self, start: int) -> bool:
        """Whether a colon stands between two operands, evenly: "15 : 3" and "15:3", not "Bước 2: 3"."""
        last, rest = self._last(), self.text[start + 1 : start + 4]
        if last is None or not self._after_operand() or not re.match(r"\s?[\d(\[{√$\\.−-]", rest):
            return False
        if self.text[start - 1].isspace() != rest[:1].isspace():
            return False
        return not (
            last.kind == "number"
            and rest[:1].isspace()
            and _STEP.search(self.text[max(0, last.start - 12) : last.start])
        )

    def _latex_text(self, match: re.Match[str]) -> None:
        inner = match["inner"].strip()
        start, end = match.start(), match.end()
        if (scale := _SCALE.fullmatch(inner)) and self._after_operand():
            self._add("scale", start, end, match.group(), Fraction(_SCALES[scale.group().lower().removesuffix("s")]))
        elif inner in ("%", "\\%", "percent") and self._after_operand():
            self._add("percent", start, end, "%")
        elif re.match(r"[\d$-]", inner):
            # \textbf{15} is a number in bold.
            offset = start + match.group().index(inner, match.group().index("{"))
            for token in tokenize(inner, self.decimal):
                self._add(token.kind, token.start + offset, token.end + offset, token.symbol, token.value)
        else:
            self._add("text", start, end, unit_after(inner, 0)[0] or inner.lower())
