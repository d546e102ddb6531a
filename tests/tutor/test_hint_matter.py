"""What code finds of a question: its secret, and whether a pupil's answer is right."""

from fractions import Fraction

import pytest
from ladder_talk import MASS, Look

from deepedu.tutor.context import telling
from deepedu.tutor.hint_matter import Matter


def test_numbers_of_the_question_are_no_secret_unless_it_asks_whether_they_are_right(look: Look) -> None:
    plain = "Cây liễu của Jan Baptista van Helmont nặng thêm bao nhiêu sau 5 năm?"
    secret = Matter(plain, look(plain)).secret
    assert Fraction(74) in secret.numbers
    assert Fraction(5) not in secret.numbers
    claim = "Nước tinh khiết sôi ở 100 độ C phải không?"
    assert Fraction(100) in Matter(claim, look(claim)).secret.numbers


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("em tính 13600 x 0,01 = 136", True),
        ("em tính 13600 x 0,1 = 1360, đáp án là 1360", False),
        ("em tính 13600 x 2 = 27200", None),
        ("em đoán 135 hay 136", None),
        ("em chưa biết", None),
    ],
)
def test_a_number_is_judged_when_it_is_the_only_one_named(look: Look, message: str, verdict: bool | None) -> None:
    assert Matter(MASS, telling(MASS, look(MASS))).verdict(message) is verdict


def test_a_sentence_in_own_words_is_never_called_right(look: Look) -> None:
    question = "Vì sao nước đá nổi trên mặt nước?"
    matter = Matter(question, telling(question, look(question)))
    for message in ("em nghĩ vì nước đá có khối lượng riêng nhỏ hơn nước", "em nghĩ vì nó có khối lượng riêng lớn hơn"):
        assert matter.verdict(message) is None
