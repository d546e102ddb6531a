"""Arithmetic in text is found, evaluated exactly and put right; right text is never touched."""

import math
from contextlib import suppress
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.tutor.calculator import NotArithmetic, calculations, corrected, evaluate


def exact(spelling: str) -> Fraction:
    return Fraction(spelling)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(120,000 / 1.25 million) x 100", "9.6"),
        ("5 x 3", "15"),
        ("5x3", "15"),
        ("80 000 : 6", "40000/3"),
        ("15:3", "5"),
        ("10 − 4 ÷ 2 · 3", "4"),
        ("7 – 2", "5"),
        ("2(3+4)", "14"),
        ("(1+2)(3)", "9"),
        ("(1+2)3", "9"),
        ("6/2(1+2)", "9"),
        ("[1+{2*3}]", "7"),
        ("-2^2", "-4"),
        ("2^-1", "1/2"),
        ("2^3^2", "512"),
        ("2**10", "1024"),
        ("2³ + 5²", "33"),
        ("10⁻²", "1/100"),
        ("--5", "5"),
        ("5 × -3", "-15"),
        ("0,5 + 2,54", "3.04"),
        ("0,125 × 8", "1"),
        ("1,250 + 1", "1251"),
        ("1.250 + 1", "2.25"),
        ("1.250.000 / 2", "625000"),
        ("1,250,000 / 2", "625000"),
        ("1 250 000 / 2", "625000"),
        ("1,234.5 × 2", "2469"),
        ("1.234,5 × 2", "2469"),
        (".5 + 1", "1.5"),
        ("1.5e3*2", "3000"),
        ("$5 + 3 đồng", "8"),
        ("€20 / 4", "5"),
        ("50.000đ : 1000", "0.05"),
        ("55M / 5", "11000000"),
        ("5K + 1", "5001"),
        ("1,5 triệu : 3 nghìn", "500"),
        ("3 nghìn tỉ", "3000000000000"),
        ("2 tỷ - 1 bn", "1000000000"),
        ("(1 + 1) million", "2000000"),
        ("3% × 200", "6"),
        ("10 + 5%", "10.05"),
        ("(45,000 / 300,000) × 100", "15"),
        ("(45,000 / 300,000) × 100%", "15"),
        ("100% × 45 / 300", "15"),
        ("100% - 85%", "0.15"),
        ("180° - 60° - 50°", "70"),
        (r"\frac{45{,}000}{300{,}000} \times 100\%", "15"),
        (r"\left( \dfrac{1}{3} \right)^{2}", "1/9"),
        (r"\( 2\frac{1}{2} + \sqrt[3]{8} \)", "4.5"),
        (r"2\frac{3}{2}", "3"),
        (r"$6 \div 4 \cdot 2$", "3"),
        (r"\[ 3 \text{ million} + 5\text{ đồng} \]", "3000005"),
        (r"\text{Tổng } 3 + 4", "7"),
        ("√16 + √(2.25)", "5.5"),
        (r"\sqrt{144}", "12"),
        ("math.sqrt(16) + np.sqrt(9)", "7"),
        ("max(1,5) + min(2, 3)", "7"),
        ("sum([1, 2, 3])/3", "2"),
        ("abs(2 - 5)", "3"),
        ("round(2.5) + round(-2.5)", "0"),
        ("round(2.675, 2)", "2.68"),
        ("pow(1.05, 2)", "1.1025"),
        ("12 (cm) × 2", "24"),
    ],
)
def test_value_is_exact(expression: str, value: str) -> None:
    result = evaluate(expression)
    assert isinstance(result, Fraction)
    assert result == exact(value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("√2", math.sqrt(2)),
        ("2π", 2 * math.pi),
        ("ln(10)", math.log(10)),
        ("math.log(10)", math.log(10)),
        ("log(1000)", 3.0),
        ("log(8, 2)", 3.0),
        ("exp(1)", math.e),
        ("1.005^360", 1.005**360),
        ("1000 × (1 + 5%)^2.5", 1000 * 1.05**2.5),
    ],
)
def test_value_that_is_not_exact_is_a_float(expression: str, value: float) -> None:
    assert evaluate(expression) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("spelling", "point", "comma"),
    [
        ("1,250", "1250", "1.25"),
        ("1.250", "1.25", "1250"),
        ("2,54", "2.54", "2.54"),
        ("2.54", "2.54", "2.54"),
        ("0.125", "0.125", "0.125"),
        ("1.250,75", "1250.75", "1250.75"),
        ("1234,567", "1234.567", "1234.567"),
    ],
)
def test_decimal_decides_single_marks_only(spelling: str, point: str, comma: str) -> None:
    assert evaluate(spelling) == exact(point)
    assert evaluate(spelling, decimal="comma") == exact(comma)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "x",
        "3 +",
        "5 3",
        "(3 + 4",
        "(3 + 4]",
        "3.2.1",
        "1.234,567,890",
        "1/0",
        "5 / (3 - 3)",
        "0^-1",
        "(-8)^0.5",
        "√(-4)",
        "ln(0)",
        "2^99999",
        "9^9^9",
        "10.5^9999",
        "1e999",
        "exp(9999)",
        "sqrt(1, 2)",
        "round(2, 0.5)",
        "Revenue / 3",
        "__import__('os')",
        "3 if 4 else 5",
        "3 = 3",
        "(" * 500 + "1" + ")" * 500,
        "2^" * 400 + "1",
        "1+" * 1500 + "1",
        "²" * 1000,
    ],
)
def test_anything_else_is_refused(expression: str) -> None:
    with pytest.raises(NotArithmetic):
        evaluate(expression)


def test_refusal_says_what_is_wrong() -> None:
    with pytest.raises(NotArithmetic, match="2000 characters"):
        evaluate("1" * 2001)
    with pytest.raises(NotArithmetic, match="divisor other than zero"):
        evaluate("1 : 0")
    with pytest.raises(NotArithmetic, match="'y' at character 4"):
        evaluate("3 + y")


Tree = tuple[str, Fraction]


def _join(left: Tree, symbol: str, right: Tree) -> Tree:
    (a, x), (b, y) = left, right
    if symbol in "÷:/" and y == 0:
        symbol = "+"
    value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "×": lambda: x * y, "x": lambda: x * y}
    value |= dict.fromkeys("÷:/", lambda: x / y)
    return f"({a} {symbol} {b})", value[symbol]()


_NUMBERS = st.one_of(
    st.integers(0, 10**7).map(lambda n: (f"{n:,}", Fraction(n))),
    st.integers(0, 999).map(lambda n: (str(n), Fraction(n))),
    st.integers(0, 9999).map(lambda n: (f"{n // 100}.{n % 100:02d}", Fraction(n, 100))),
)
_TREES = st.recursive(
    _NUMBERS, lambda inner: st.builds(_join, inner, st.sampled_from("+-*×x÷:/"), inner), max_leaves=12
)


@settings(deadline=None)
@given(_TREES)
def test_any_tree_has_the_value_of_fraction_arithmetic(tree: Tree) -> None:
    assert evaluate(tree[0]) == tree[1]


@settings(deadline=None)
@given(st.lists(st.integers(1, 99), min_size=2, max_size=8), st.data())
def test_precedence_is_that_of_python(numbers: list[int], data: st.DataObject) -> None:
    symbols = data.draw(st.lists(st.sampled_from("+-*"), min_size=len(numbers), max_size=len(numbers)))
    expression = str(numbers[0]) + "".join(f" {s} {n}" for s, n in zip(symbols, numbers[1:], strict=False))
    assert evaluate(expression) == eval(expression)  # The source is digits and signs made above.


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/^().,%x√{}[]\\ =:ađk$", max_size=60))
def test_any_text_is_evaluated_or_refused(text: str) -> None:
    with suppress(NotArithmetic):
        assert math.isfinite(evaluate(text))
    fixed, wrong = corrected(text)
    assert wrong or fixed == text
    assert all(text[c.start : c.end] == c.expression for c in calculations(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Operating Margin = (45,000 / 300,000) × 100 = 15%", [("(45,000 / 300,000) × 100", "15%", "15")]),
        ("a = 3 + 4 = 7", [("3 + 4", "7", "7")]),
        ("Vậy 15 : 2,5 = 6 (cm)", [("15 : 2,5", "6", "6")]),
        ("Em tính 3 × 4 rồi cộng 2 + 5.", [("3 × 4", None, "12"), ("2 + 5", None, "7")]),
        ("Lãi là 1,5 triệu đồng × 2 = 3 triệu đồng.", [("1,5 triệu đồng × 2", "3 triệu", "3000000")]),
        ("3 × 500 = 1500 m = 1,5 km", [("3 × 500", "1500", "1500")]),
        ("x = 2 × 3\n  = 6", [("2 × 3", "6", "6")]),
        ("12/16 = 3/4 = 0.75", [("12/16", "3/4", "3/4"), ("3/4", "0.75", "3/4")]),
        ("(3 + 4 = 7) và 2^5", [("3 + 4", "7", "7"), ("2^5", None, "32")]),
        (r"\[ \frac{1}{2} + \frac{1}{3} \approx 0{,}83 \]", [(r"\frac{1}{2} + \frac{1}{3}", "0{,}83", "5/6")]),
        ("- 9 - 4 = 5\n- 9 + 4 = 13", [("9 - 4", "5", "5"), ("9 + 4", "13", "13")]),
        ("Bước 1 : 3 + 4 = 7", [("3 + 4", "7", "7")]),
        ("1) 3 + 4 = 7", [("3 + 4", "7", "7")]),
        ("* 5 × 2 = 10\n* 3 + 4 = 7", [("5 × 2", "10", "10"), ("3 + 4", "7", "7")]),
        ("**2 * 3 = 6**", [("2 * 3", "6", "6")]),
        ("7 : 2 = 3 (dư 1)", [("7 : 2", None, "7/2")]),
        ("Học sinh viết 3 + 4 = 8 là sai.", [("3 + 4", None, "7")]),
        ("1000 - 250 là bao nhiêu?", [("1000 - 250", None, "750")]),
        ("$300,000 - $255,000 = $45,000", [("300,000 - $255,000", "45,000", "45000")]),
    ],
)
def test_calculations_are_found(text: str, expected: list[tuple[str, str | None, str]]) -> None:
    found = calculations(text)
    assert [(c.expression, c.claimed, c.value) for c in found] == [(e, c, exact(v)) for e, c, v in expected]
    assert all(text[c.start : c.end] == c.expression for c in found)


@pytest.mark.parametrize(
    "text",
    [
        "Ngày 2/9/1945, Bác Hồ đọc Tuyên ngôn Độc lập.",
        "30/4/1975 = ngày thống nhất; 1945-09-02",
        "2/9/1945 = 1945, 30/4/1975 + 2 = 5",
        "giai đoạn 1954-1975, 1954 - 1975, 1975 - 1954",
        "trang 10 - 15, tuổi 6-11",
        "Gọi 0901-234-567 hoặc +84 901 234 567.",
        "ăn 1/2 cái bánh lúc 10:30",
        "COVID-19, B52, H2O + 3, lớp 10-11",
        "Revenue / 3",
        "Revenue / 3 + 4 = 9",
        "(Revenue - 3) / 4 + 5 = 9",
        "3 + 4y = 9",
        "3 + 4 y = 9",
        "3 + 2x = 7",
        "f(2 + 3) = 7",
        "2 × [x] = 6",
        "3 + ? = 7",
        "print(3 + 4)",
        "https://vi.wikipedia.org/3/4",
        "x = 5, y = -3",
        "1 m + 50 cm = 1,5 m",
        "120 km : 2 giờ = 60 km/h",
        "phiên bản 3.2.1 + 4",
    ],
)
def test_what_is_no_calculation(text: str) -> None:
    assert calculations(text) == []
    assert corrected(text) == (text, [])


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("(120,000 / 1.25 million) x 100 = 90 %", "(120,000 / 1.25 million) x 100 = 9.6 %"),
        ("Tỉ lệ: 120,000 / 1,250,000 = 90%", "Tỉ lệ: 120,000 / 1,250,000 = 9.6%"),
        ("a = 3 + 4 = 8.", "a = 3 + 4 = 7."),
        ("10/4 = 2", "10/4 = 2.5"),
        ("2/3 = 0.66", "2/3 = 0.67"),
        ("2 : 3 = 0,6", "2 : 3 = 0,67"),
        ("100 : 7 = 15", "100 : 7 = 14.29"),
        ("3 / 2000 = 0.15", "3 / 2000 = 0.0015"),
        ("300,000 × 5 = 1,600,000 USD", "300,000 × 5 = 1,500,000 USD"),
        ("5 × 12 000 = 50 000 (đồng)", "5 × 12 000 = 60 000 (đồng)"),
        ("Lãi = $300,000 - $255,000 = -$50,000", "Lãi = $300,000 - $255,000 = $45,000"),
        ("$255,000 - $300,000 = $45,000", "$255,000 - $300,000 = $-45,000"),
        ("2.5 million * 4 = 11 million", "2.5 million * 4 = 10 million"),
        ("50 × 2 = **90** quả", "50 × 2 = **100** quả"),
        ("3 cm + 4 cm = 8 cm", "3 cm + 4 cm = 7 cm"),
        ("12 × 5cm = 61cm", "12 × 5cm = 60cm"),
        ("180° - 60° - 50° = 60°", "180° - 60° - 50° = 70°"),
        (r"$\frac{1}{4} \times 2 = 0{,}6$", r"$\frac{1}{4} \times 2 = 0,5$"),
        (r"\frac{45{,}000}{300{,}000} \times 100 = 16\%", r"\frac{45{,}000}{300{,}000} \times 100 = 15\%"),
        ("3 + 4 = 7 × 2 = 15", "3 + 4 = 7 × 2 = 14"),
        ("(45 / 300) × 100 = 0.25 × 100 = 25%", "(45 / 300) × 100 = 15 = 15%"),
        ("1 + 1 = 3, 2 + 2 = 4, 3 + 3 = 7", "1 + 1 = 2, 2 + 2 = 4, 3 + 3 = 6"),
        ("3 × 500 = 1600 m = 1,5 km", "3 × 500 = 1500 m = 1,5 km"),
    ],
)
def test_wrong_result_is_replaced(text: str, fixed: str) -> None:
    result, wrong = corrected(text)
    assert result == fixed
    assert wrong
    assert all(c.claimed is not None for c in wrong)
    assert corrected(fixed) == (fixed, [])


@pytest.mark.parametrize(
    "text",
    [
        "(45,000 / 300,000) × 100 = 15%",
        "(45,000 / 300,000) × 100% = 0.15 = 15%",
        "45,000 / 300,000 = 0.15 = 15%",
        "100 : 3 = 33",
        "100 : 3 = 33,3",
        "100 / 3 ≈ 33.33 ≈ 33",
        "5 / 2 = 3",
        "1.005 × 1 = 1.00",
        "1,234,567 + 1 ≈ 1,230,000",
        "12.36 million / 10 = 1.2 million",
        "(17/32) × 1250 = 0.53 × 1250 = 662.5",
        "1.250 + 800 = 2.050",
        "√2 = 1,414",
        "2^10 = 1024 = 1.024 × 10^3",
        "0.1 + 0.2 = 0.3",
    ],
)
def test_right_result_stays(text: str) -> None:
    assert calculations(text)
    assert corrected(text) == (text, [])


def test_decimal_comma_reads_vietnamese_thousands() -> None:
    text = "Mua 3 hộp: 3 × 12.500 = 36.500 đồng; 1.250 : 4 = 300"
    assert corrected(text, decimal="comma")[0] == "Mua 3 hộp: 3 × 12.500 = 37.500 đồng; 1.250 : 4 = 312,5"


def test_wrong_calculation_is_reported() -> None:
    _, wrong = corrected("Đúng: 1 + 1 = 2. Sai thì 15 : 2,5 = 7 (cm).")
    assert [(c.expression, c.claimed, c.value) for c in wrong] == [("15 : 2,5", "7", Fraction(6))]


@settings(deadline=None)
@given(_TREES.filter(lambda tree: tree[0].startswith("(")), st.integers(2, 4), st.sampled_from(["point", "comma"]))
def test_a_rounded_claim_stays_and_another_is_replaced(
    tree: Tree, places: int, decimal: Literal["point", "comma"]
) -> None:
    right = f"{float(round(tree[1], places)):.{places}f}"
    if abs(tree[1]) > 10**9:
        return
    text = f"Vậy kết quả là {tree[0]} = {right} đồng"
    assert corrected(text)[0] == text
    fixed, wrong = corrected(f"Vậy kết quả là {tree[0]} = {float(right) * 7 + 3:.2f} đồng", decimal=decimal)
    assert len(wrong) == 1
    assert corrected(fixed, decimal=decimal) == (fixed, [])


def test_long_text_is_read_in_time() -> None:
    text = "Ta có 3 + 4 = 7 và (2 : 1) * " * 2000 + "(" * 5000 + "1+" * 5000 + "9" * 6000
    assert len(calculations(text)) >= 2000
