"""Numbers as they are written and said."""

from fractions import Fraction

import pytest

from deepedu.tutor.number_words import in_one_spelling, in_vietnamese, in_words, plain_digits, shown_number


@pytest.mark.parametrize(
    ("value", "shown", "digits"),
    [
        ("2700", "2 700", "2700"),
        ("0.002", "0,002", "2"),
        ("999", "999", "999"),
        ("1234567.5", "1 234 567,5", "12345675"),
        ("-3.25", "-3,25", "325"),
        ("1/3", "0,3333", "3333"),
        ("0", "0", "0"),
    ],
)
def test_numbers_are_written_as_schools_write_them(value: str, shown: str, digits: str) -> None:
    assert shown_number(Fraction(value)) == shown
    assert plain_digits(Fraction(value)) == digits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("15", "muoi nam"),
        ("24", "hai bon"),
        ("1085", "mot nghin khong tram tam muoi nam"),
        ("1714", "mot bay mot bon"),
        ("1714", "seventeen fourteen"),
        ("2005", "hai nghin khong tram linh nam"),
        ("1000000", "mot trieu"),
        ("2.54", "hai phay nam bon"),
        ("2.54", "hai phay nam muoi bon"),
    ],
)
def test_numbers_are_said_in_several_ways(value: str, said: str) -> None:
    assert said in in_words(Fraction(value))


def test_one_digit_alone_is_said_in_any_text() -> None:
    assert in_words(Fraction(5)) == frozenset()
    assert in_vietnamese(5) == {"nam"}


def test_words_of_numbers_have_one_spelling() -> None:
    assert in_one_spelling(["mot", "ngan", "le", "tu", "and", "muoi", "lam"]) == "mot nghin linh bon muoi nam"
