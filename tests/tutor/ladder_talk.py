"""Questions to the sample textbook, and whether a text tells an answer, judged without the code under test."""

import re
from collections.abc import Callable, Sequence

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Evidence

Look = Callable[[str], Sequence[Evidence]]
YEAR = "Năm nào Fahrenheit chế tạo được nhiệt kế thủy ngân?"
MASS = "Tính khối lượng của 0,01 m³ thủy ngân."


def squashed(text: str) -> str:
    return "".join(c for c in fold(text) if c.isalnum())


def tells(text: str, answer: str) -> bool:
    if answer.isdigit():
        joined = re.sub(r"(?<=\d)[\s.,](?=\d)", "", fold(text))
        return re.search(rf"(?<!\d)(?:{answer}|{answer[::-1]})(?!\d)", joined) is not None
    return squashed(answer) in squashed(text)
