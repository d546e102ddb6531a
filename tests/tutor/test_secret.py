"""A secret is known in every disguise, and a wording may hold no word that its material does not hold."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.tutor.number_words import in_words
from deepedu.tutor.secret import Secret, leaks, strays


@pytest.mark.parametrize(
    "text",
    [
        "Năm 1714.", "1 7 1 4", "1.714", "1-7-1-4", "viết ngược: 4171", "một nghìn bảy trăm mười bốn",
        "mot ngan bay tram muoi bon", "một bảy một bốn", "seventeen fourteen",
        "one thousand seven hundred and fourteen",
        "1700 + 14", "3428/2", "857 x 2 = ?", "171400 %",
    ],
)  # fmt: skip
def test_a_number_is_known_in_every_notation(text: str) -> None:
    assert leaks(text, Secret(numbers=frozenset({Fraction(1714)})))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Có 2,54 cm.", Secret(numbers=frozenset({Fraction("2.54")}))),
        ("hai phẩy năm tư", Secret(numbers=frozenset({Fraction("2.54")}))),
        ("bằng 254/100", Secret(numbers=frozenset({Fraction("2.54")}))),
        ("một nghìn tám trăm năm mươi hai", Secret(numbers=frozenset({Fraction(1852)}))),
        ("một nghìn không trăm tám lăm", Secret(numbers=frozenset({Fraction(1085)}))),
        ("ngày 20 tháng 5", Secret(days=frozenset({(20, 5)}))),
        ("20/05", Secret(days=frozenset({(20, 5)}))),
        ("hai mươi tháng năm", Secret(days=frozenset({(20, 5)}))),
        ("là Robert Hooke", Secret(names=frozenset({("robert", "hooke")}))),
        ("R o b e r t H o o k e", Secret(names=frozenset({("robert", "hooke")}))),
        ("ekooHtreboR", Secret(names=frozenset({("robert", "hooke")}))),
        ("OSMIUM!", Secret(words=frozenset({"osmium"}))),
        ("m é t", Secret(words=frozenset({"met"}))),
        ("Chọn B.", Secret(letters=frozenset({"B"}))),
        ("D = m/V", Secret(phrases=frozenset({("d", "m", "v")}))),
    ],
)
def test_other_secrets_are_known_in_disguise(text: str, secret: Secret) -> None:
    assert leaks(text, secret)


@pytest.mark.parametrize("text", ["Năm 1742.", "mười bốn", "17 và 14 không đứng cạnh nhau", "Em mở trang 6."])
def test_other_numbers_are_no_leak(text: str) -> None:
    assert not leaks(text, Secret(numbers=frozenset({Fraction(1714)})))


@pytest.mark.parametrize(
    "added", ["Số 5.", "ba", "Đó là Newton.", "osmium", "x", "MDCCXIV", "buon vai", "NzE0", "eight", "答案"]
)
def test_a_wording_may_add_nothing_of_its_own(added: str) -> None:
    material = "Ý cần dùng: chất lỏng trong bầu nhiệt kế nở ra."
    assert not strays(f"Em nhớ nhé, {material} Em thử nghĩ xem.", material)
    assert strays(f"{material} Em thử nghĩ về {added}", material)


@given(number=st.integers(10, 10**9), around=st.sampled_from(["", "đáp án là ", "the answer is "]))
def test_no_way_to_say_a_number_gets_by(number: int, around: str) -> None:
    secret = Secret(numbers=frozenset({Fraction(number)}))
    for said in in_words(Fraction(number)):
        assert leaks(f"{around}{said}", secret)
        assert leaks(f"{around}{said.upper()}!", secret)


def test_secrets_add_up() -> None:
    both = Secret(words=frozenset({"osmium"})) | Secret(numbers=frozenset({Fraction(1714)}))
    assert leaks("osmium", both)
    assert leaks("1714", both)
    assert not leaks("Năm 1742.", both)
