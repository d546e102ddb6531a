"""Arithmetic evaluated exactly: ``(120,000 / 1.25 million) x 100`` is 9.6.

Never ``eval``: a precedence parser that knows nothing but numbers, over the tokens of ``notation.py``.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from deepedu.tutor.notation import Decimal, NotArithmetic, Token, Value, tokenize

__all__ = ["MAX_CHARACTERS", "Decimal", "NotArithmetic", "Value", "evaluate", "evaluate_tokens", "round_half_up"]

MAX_CHARACTERS = 2000
_MAX_DEPTH = 50
_MAX_EXPONENT = 10_000
# Exact numbers beyond this many bits go on as floats: more digits than any lesson asks for.
_MAX_BITS = 2048

_CLOSING = {"(": ")", "[": "]", "{": "}"}
# What multiplies when it follows an operand without a sign.
_FACTORS = frozenset({"open", "function", "root", "frac", "constant"})


def round_half_up(value: Value, decimals: int) -> Fraction:
    """``value`` rounded to ``decimals`` places, halves away from zero, as schools teach it."""
    factor = Fraction(10) ** decimals
    # A float such as 2.675 stands for the decimal it prints, not for the binary fraction just below it.
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    whole = math.floor(abs(exact) * factor + Fraction(1, 2))
    return Fraction(whole if exact >= 0 else -whole) / factor


def evaluate(expression: str, *, decimal: Decimal = "point") -> Value:
    """The value of an arithmetic expression.

    Knows + - × x * · ÷ : / ^ **, all brackets, implicit multiplication (as strong as ×, so 6/2(1+2) is 9), thousands
    and decimal marks (see ``read_number``), magnitude words, LaTeX, and sqrt √ ln log (base 10; ``math.log`` and
    ``np.log`` are natural) exp abs min max round (half away from zero) sum pow π. Currency, degree signs, ``\\text{}``
    and units in brackets are dropped. 3% is 0.03, but "× 100%" (and "100% ×") is "× 100": who writes
    (a / b) × 100% wants the percentage. A whole number before a proper ``\\frac`` is a mixed number.

    Args:
        expression: at most 2,000 characters of NFC text.
        decimal: which single mark before three digits is a decimal one.

    Returns:
        A Fraction as long as the value is exact, else a float.

    Raises:
        NotArithmetic: not an expression, a division by zero, no real value, or too large to calculate.
    """
    if len(expression) > MAX_CHARACTERS:
        raise NotArithmetic(f"expected at most {MAX_CHARACTERS} characters, got {len(expression)}: shorten it")
    return evaluate_tokens([t for t in tokenize(expression, decimal) if t.kind not in ("text", "newline")])


def evaluate_tokens(tokens: Sequence[Token]) -> Value:
    """The value of an expression given as tokens; see ``evaluate``.

    Raises:
        NotArithmetic: see ``evaluate``.
    """
    parser = _Parser([t for t in tokens if t.kind != "money"])
    try:
        value = parser.whole()
    except ZeroDivisionError:
        raise NotArithmetic("expected a divisor other than zero") from None
    except (OverflowError, ValueError) as error:
        if isinstance(error, NotArithmetic):
            raise
        raise NotArithmetic(f"expected a value that can be calculated: {error}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise NotArithmetic("expected a finite value: the numbers are too large")
    return value


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.position, self.depth = tokens, 0, 0

    def whole(self) -> Value:
        value = self._sum()
        if self.position < len(self.tokens):
            raise self._unexpected()
        return value

    def _unexpected(self) -> NotArithmetic:
        if self.position >= len(self.tokens):
            return NotArithmetic("expected a number, the expression ends")
        token = self.tokens[self.position]
        return NotArithmetic(f"unexpected {token.symbol or token.kind!r} at character {token.start}")

    def _kind(self, ahead: int = 0) -> str:
        index = self.position + ahead
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def _is_op(self, symbols: str, ahead: int = 0) -> bool:
        return self._kind(ahead) == "op" and self.tokens[self.position + ahead].symbol in symbols

    def _take(self, kind: str) -> Token:
        if self._kind() != kind:
            raise self._unexpected()
        self.position += 1
        return self.tokens[self.position - 1]

    def _sum(self) -> Value:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotArithmetic(f"expected at most {_MAX_DEPTH} levels of brackets")
        value = self._product()
        while self._is_op("+-"):
            sign = 1 if self._take("op").symbol == "+" else -1
            value = _bounded(value + sign * self._product())
        self.depth -= 1
        return value

    def _product(self) -> Value:
        value = self._signed()
        while True:
            if self._is_op("*/"):
                symbol = self._take("op").symbol
                factor = self._signed()
                value = _bounded(value * factor if symbol == "*" else value / factor)
            elif self._kind() in _FACTORS or (self._kind() == "number" and self._kind(-1) == "close"):
                value = _bounded(value * self._power())
            else:
                return value

    def _signed(self) -> Value:
        sign = 1
        while self._is_op("+-"):
            sign *= 1 if self._take("op").symbol == "+" else -1
        return sign * self._power()

    def _power(self) -> Value:
        value = self._postfix()
        if not self._is_op("^"):
            return value
        self._take("op")
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotArithmetic(f"expected at most {_MAX_DEPTH} levels of powers")
        exponent = self._signed()
        self.depth -= 1
        return raised(value, exponent)

    def _postfix(self) -> Value:
        is_hundred = self._kind() == "number" and self.tokens[self.position].value == 100
        if is_hundred and self._kind(1) == "percent" and (self._is_op("*", -1) or self._is_op("*", 2)):
            self.position += 2
            return Fraction(100)
        value = self._primary()
        while self._kind() in ("scale", "percent", "power"):
            token = self._take(self._kind())
            if token.kind == "power":
                value = raised(value, token.value)
            else:
                value = value / 100 if token.kind == "percent" else value * token.value
        return value

    def _primary(self) -> Value:
        kind = self._kind()
        if kind == "number":
            value = self._take("number").value
            return value + self._proper_fraction()
        if kind == "constant":
            return self._take("constant").value
        if kind == "open":
            return self._group(1)[0]
        if kind == "frac":
            self._take("frac")
            above, below = self._group(1)[0], self._group(1)[0]
            return _bounded(above / below)
        if kind == "root":
            degree = int(self._take("root").symbol)
            return _root(self._postfix(), degree)
        if kind == "function":
            name = self._take("function").symbol
            return _call(name, self._arguments())
        raise self._unexpected()

    def _arguments(self) -> list[Value]:
        """What a function is called with; ``sum([1, 2])`` is ``sum(1, 2)``."""
        is_list = self._kind(1) == "open" and self.tokens[self.position + 1].symbol == "["
        if not is_list:
            return self._group(MAX_CHARACTERS)
        self._take("open")
        values = self._group(MAX_CHARACTERS)
        self._take("close")
        return values

    def _proper_fraction(self) -> Value:
        """What the fraction of a mixed number adds: 1/2 in ``2\\frac{1}{2}``."""
        kinds = [self._kind(ahead) for ahead in range(7)]
        before = self.tokens[self.position - 1].value
        if kinds != ["frac", "open", "number", "close", "open", "number", "close"]:
            return Fraction(0)
        above, below = self.tokens[self.position + 2].value, self.tokens[self.position + 5].value
        if not above < below or any(Fraction(v).denominator != 1 for v in (before, above, below)):
            return Fraction(0)
        self.position += 7
        return above / below

    def _group(self, most: int) -> list[Value]:
        """The values in a bracket; at most ``most``, parted by commas."""
        opening = self._take("open")
        values = [self._sum()]
        while self._kind() == "comma" and len(values) < most:
            self._take("comma")
            values.append(self._sum())
        if self._kind() == "close" and self.tokens[self.position].symbol != _CLOSING[opening.symbol]:
            raise self._unexpected()
        self._take("close")
        return values


def raised(base: Value, exponent: Value) -> Value:
    """``base`` to the power ``exponent``, exact for small whole exponents.

    Raises:
        NotArithmetic: the exponent is beyond 10,000 or there is no real value.
    """
    if abs(exponent) > _MAX_EXPONENT:
        raise NotArithmetic(f"expected an exponent of at most {_MAX_EXPONENT}, got {float(exponent):g}")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent.numerator) <= _MAX_BITS:
            return base**exponent.numerator
    if base < 0 and float(exponent) != int(exponent):
        raise NotArithmetic(f"a root of the negative number {float(base):g} is not real")
    return math.pow(float(base), float(exponent))


def _bounded(value: Value) -> Value:
    if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        return float(value)
    return value


def _root(value: Value, degree: int) -> Value:
    if degree == 0 or (value < 0 and degree % 2 == 0):
        raise NotArithmetic(f"the root of {float(value):g} is not real")
    rounded = round(abs(float(value)) ** (1 / degree) * 10**6)
    # A perfect root stays exact: √2.25 is 3/2.
    exact = Fraction(rounded, 10**6).limit_denominator(10**6)
    sign = -1 if value < 0 else 1
    if isinstance(value, Fraction) and degree <= 10 and exact**degree == abs(value):
        return sign * exact
    return sign * abs(float(value)) ** (1 / degree)


_FLOAT_CALLS: dict[str, Callable[[float], float]] = {
    "ln": math.log, "log": math.log10, "log10": math.log10, "log2": math.log2, "exp": math.exp,
}  # fmt: skip


def _call(name: str, values: list[Value]) -> Value:
    is_natural = name in ("math.log", "np.log", "numpy.log")
    name = "ln" if is_natural else name.rpartition(".")[2]
    many: dict[str, Callable[[list[Value]], Value]] = {"min": min, "max": max, "sum": lambda v: sum(v, Fraction(0))}
    if name in many:
        return _bounded(many[name](values))
    if name == "pow" and len(values) == 2:
        return raised(values[0], values[1])
    if name in ("log", "ln") and len(values) == 2:
        return math.log(values[0], values[1])
    if name == "round" and len(values) <= 2:
        places = Fraction(values[-1]) if len(values) == 2 else Fraction(0)
        if places.denominator != 1 or abs(places) > 30:
            raise NotArithmetic(f"expected a whole number of decimals up to 30, got {float(places):g}")
        return round_half_up(values[0], int(places))
    if len(values) != 1:
        raise NotArithmetic(f"expected other arguments for {name}, got {len(values)}")
    if name == "abs":
        return abs(values[0])
    return _root(values[0], 2) if name == "sqrt" else _FLOAT_CALLS[name](float(values[0]))
