"""Which words are proper names, and when a text holds them."""

import re

import pytest

from deepedu.tutor.names import Lexicon, bears_name, names
from deepedu.tutor.terms import tokens

BOOK = (
    "Năm 938, Ngô Quyền đánh tan quân Nam Hán trên sông Bạch Đằng. Lý Thái Tổ dời đô về Thăng Long. "
    "Franklin D. Roosevelt sinh ở châu Mỹ. Sông Hồng đổ ra Biển Đông. Khí CO2 và H₂O. Tổ chức UNESCO đặt ở Huế."
)


def lexicon(text: str) -> Lexicon:
    return Lexicon.of([(text, tokens(text))])


def found(text: str, book: str = BOOK) -> list[str]:
    return [name.surface for name in names(text, tokens(text), lexicon(book))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Năm ấy quân ta thắng.", []),
        ("Ngô Quyền thắng.", ["Ngô Quyền"]),
        ("Quân ta ở Hà Nội. Quân địch ở Huế.", ["Hà Nội", "Huế"]),
        ("Huế là cố đô.", ["Huế"]),
        ("Kiến trúc đẹp.", []),
        ("Roosevelt là tổng thống.", ["Roosevelt"]),
        ("Ông F. D. Roosevelt đến.", ["F. D. Roosevelt"]),
        ("Khí CO2 và UNESCO.", ["CO2", "UNESCO"]),
        ("Vào thế kỉ XV và tháng Tám.", []),
        ("Vua Louis XIV mất.", ["Louis XIV"]),
    ],
)
def test_names_are_told_from_words_that_open_a_sentence(text: str, expected: list[str]) -> None:
    titles = r"^(Ông|Vua|Khí) "
    assert [re.sub(titles, "", name) for name in found(text)] == expected


@pytest.mark.parametrize(
    "text",
    ["Vua Lý Thái Tổ", "Bà đến sông Hồng", "NGÔ QUYỀN", "Ngô quyền và Nam Hán", "ở châu Mỹ Franklin D. Roosevelt"],
)
def test_names_that_the_book_holds(text: str) -> None:
    listed = names(text, tokens(text), lexicon(BOOK))
    assert all(bears_name(lexicon(BOOK), name) for name in listed)


@pytest.mark.parametrize(
    "text", ["ở Lê Lợi", "ở Ngô Quyên", "sông Mã", "vua Lý Thái Tông", "Anders Celsius", "khí SO2", "ở Quyền Ngô"]
)
def test_names_that_the_book_lacks(text: str) -> None:
    listed = names(text, tokens(text), lexicon(BOOK))
    assert listed
    assert not all(bears_name(lexicon(BOOK), name) for name in listed)


def test_names_without_accents_are_compared_without_them() -> None:
    text = "Ngo Quyen danh tan quan Nam Han"
    listed = names(text, tokens(text), lexicon(BOOK))
    assert [name.surface for name in listed] == ["Ngo Quyen", "Nam Han"]
    assert all(bears_name(lexicon(BOOK), name, is_plain=True) for name in listed)
    assert not any(bears_name(lexicon(BOOK), name) for name in listed)
