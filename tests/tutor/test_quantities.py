"""Numbers, dates and units are the same however they are written."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.tutor.quantities import bears, quantities, roman_value
from deepedu.tutor.units import units_in


def is_borne(claim: str, evidence: str) -> bool:
    claims = quantities(claim)
    assert claims, f"no number seen in {claim!r}"
    return all(bears(quantities(evidence), one, units_in(evidence)) for one in claims)


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("1954", "1.954"),
        ("1.954 người", "1 954 người"),
        ("12.000.000", "12 triệu"),
        ("0,5", "0.5"),
        ("1/2", "0,5"),
        ("25%", "25 phần trăm"),
        ("thế kỉ XV", "thế kỷ 15"),
        ("thế kỷ XVI", "từ thế kỉ XV – XVI"),
        ("2/9/1945", "ngày 2 tháng 9 năm 1945"),
        ("tháng 9 năm 1945", "2-9-1945"),
        ("năm 1945", "ngày 2 tháng 9 năm 1945"),
        ("tháng Tám năm 1945", "tháng 8/1945"),
        ("ngày 2 tháng 9 năm 1945", "Năm 1945, cách mạng thắng lợi. Ngày 2 tháng 9, lễ được tổ chức."),
        ("ba trăm người", "300 người"),
        ("325 con", "ba trăm hai mươi lăm con"),
        ("hai con sông", "2 con sông"),
        ("3143 mét", "3.143 m"),
        ("331.212 km²", "331 212 ki-lô-mét vuông"),
        ("100 độ C", "100°C"),
        ("-5 °C", "âm 5 độ C"),
        ("từ 1945 đến 1954", "1945–1954"),
        ("năm 179 trước Công nguyên", "năm 179 TCN"),
        ("1149 km", "Chiều dài (km) | 1149"),
        ("lần thứ hai", "lần thứ II"),
        ("3·10⁸ m/s", "3·10⁸ m/s"),
    ],
)
def test_same_number_in_another_spelling_is_borne(claim: str, evidence: str) -> None:
    assert is_borne(claim, evidence)


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("939", "938"),
        ("100 m", "100 km"),
        ("100 km", "100"),
        ("0,5", "5"),
        ("-5 °C", "5 °C"),
        ("5 °C", "-5 °C"),
        ("năm 1954", "1.954 m"),
        ("năm 179", "năm 179 TCN"),
        ("năm 179 TCN", "năm 179"),
        ("thế kỉ XV", "thế kỉ XVI"),
        ("2/9/1945", "ngày 2 tháng 9 năm 1946"),
        ("ngày 3 tháng 9", "ngày 2 tháng 9 năm 1945"),
        ("tháng 9 năm 1945", "tháng 8 năm 1945"),
        ("25%", "25"),
        ("ba trăm", "ba mươi"),
        ("1,5 triệu", "1,5 tỉ"),
        ("10⁸", "10⁹"),
    ],
)
def test_another_number_is_not_borne(claim: str, evidence: str) -> None:
    assert not is_borne(claim, evidence)


@pytest.mark.parametrize(
    "text", ["Hai Bà Trưng", "ba mẹ em", "mỗi năm", "một ngôi làng", "máy bay B52", "khí CO2", "mạng 4G", "quả chín"]
)
def test_words_that_are_no_numbers(text: str) -> None:
    assert quantities(text) == []


def test_places_are_exact_slices() -> None:
    text = "Năm 938, ngày 2 tháng 9 năm 1945, ba trăm người, 3.143 m, thế kỉ XV – XVI và 0,5 %."
    found = quantities(text)
    assert len(found) == 7
    assert all(text[q.start : q.end] == q.surface for q in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


@given(st.integers(0, 10**9))
def test_grouped_digits_are_one_number(number: int) -> None:
    dotted = f"{number:,}".replace(",", ".")
    assert is_borne(f"{number} người", f"{dotted} người")
    assert is_borne(f"{number} người", f"{dotted.replace('.', ' ')} người")
    assert not is_borne(f"{number + 1} người", f"{dotted} người")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for quantity in quantities(text):
        assert 0 <= quantity.start < quantity.end <= len(text)


def test_roman_numerals() -> None:
    assert [roman_value(n) for n in ("IV", "XV", "XIX", "XXI", "XC")] == [4, 15, 19, 21, 90]
    assert roman_value("IIX") is None
