"""Letters without their accents."""

import sys
import unicodedata

import pytest

from deepedu.base.vietnamese import fold


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Trường Đại học", "truong dai hoc"),
        ("ĐƯỜNG ĐI", "duong di"),
        (unicodedata.normalize("NFD", "Quê hương"), "que huong"),
        ("H2O và 100 °C", "h2o va 100 °c"),
        ("Ångström, naïve, straße", "angstrom, naive, straße"),
        ("", ""),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_every_letter_is_folded_as_its_decomposition_says() -> None:
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if letter in "đĐ" or unicodedata.category(letter) == "Cs":
            continue
        parts = unicodedata.normalize("NFD", letter.lower())
        assert fold(letter) == "".join(part for part in parts if not unicodedata.combining(part)), hex(code)
