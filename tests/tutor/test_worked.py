"""Exercises that code solves: by arithmetic, by a conversion, by a formula of the book."""

from fractions import Fraction

import pytest
from ladder_talk import MASS, Look, tells

from deepedu.tutor.context import telling
from deepedu.tutor.worked import Solution, solutions_of


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (MASS, 136),
        ("tinh khoi luong cua 0,01 m3 thuy ngan", 136),
        ("Một thỏi kim loại có khối lượng 17,92 kg và thể tích 0,002 m³. Hãy tính khối lượng riêng.", 8960),
        ("Nhiệt độ trong phòng là 27 °C. Hãy đổi nhiệt độ đó ra kelvin.", Fraction("300.15")),
        ("Một sợi dây dài 2,5 m. Hãy đổi độ dài đó ra xăng-ti-mét.", 250),
        ("Tính giá trị biểu thức (45 - 15) : 6 + 7", 12),
    ],
)
def test_code_solves_what_the_book_has_a_formula_for(look: Look, question: str, value: int | Fraction) -> None:
    found = solutions_of(question, telling(question, look(question)))
    assert [solution.value() for solution in found] == [value]


def test_what_a_table_tells_is_not_calculated(look: Look) -> None:
    question = "Nhiệt độ sôi của oxygen là bao nhiêu?"
    assert solutions_of(question, telling(question, look(question))) == []


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_a_worked_example_has_other_numbers_and_a_right_result(variant: int) -> None:
    solution = Solution("{0}/{1}", (Fraction("17.92"), Fraction("0.002")), ("m", "V"), "D = m/V")
    numbers = solution.others(lambda text: tells(text, "8960"), variant)
    assert numbers is not None
    assert not set(numbers) & set(solution.numbers)
    assert solution.value(numbers) == numbers[0] / numbers[1] != 8960
    assert solution.worked() == "D = m/V = 17,92/0,002 = 8 960"
