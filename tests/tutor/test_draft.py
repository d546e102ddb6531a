"""What is taken off a draft before it is checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.tutor.draft import clean, sentences


@pytest.mark.parametrize(
    ("written", "text", "markers"),
    [
        ("Ngô Quyền thắng [1].", "Ngô Quyền thắng.", (1,)),
        ("Ngô Quyền thắng [1][2].", "Ngô Quyền thắng.", (1, 2)),
        ("Ngô Quyền thắng [1, 2].", "Ngô Quyền thắng.", (1, 2)),
        ("Ngô Quyền thắng [đoạn 3].", "Ngô Quyền thắng.", (3,)),
        ("Ngô Quyền thắng【4】.", "Ngô Quyền thắng.", (4,)),
        ("Năm (1) và (2).", "Năm (1) và (2).", ()),
        ("Theo thông tin trong đoạn [1], Ngô Quyền thắng.", "Ngô Quyền thắng.", (1,)),
        ("Dựa vào sách giáo khoa, nước sôi.", "Nước sôi.", ()),
        ("Câu trả lời: nước sôi.", "Nước sôi.", ()),
        ("- **Nước** sôi.", "Nước sôi.", ()),
        ("2. Nước sôi.", "Nước sôi.", ()),
        ("Theo sách Đại Việt sử kí, vua mất.", "Theo sách Đại Việt sử kí, vua mất.", ()),
    ],
)
def test_markers_and_ornaments_are_taken_off(written: str, text: str, markers: tuple[int, ...]) -> None:
    cleaned = clean(written)
    assert (cleaned.text, cleaned.markers) == (text, markers)


def test_kinds_of_sentences() -> None:
    assert clean("Không có thông tin về điều này.").is_disclaimer
    assert clean("Đoạn văn không đề cập đến năm mất của ông.").is_disclaimer
    assert not clean("Nước không sôi.").is_disclaimer
    assert clean("Chúc bạn học tốt!").is_filler
    assert clean("Em còn muốn hỏi gì nữa?").is_question
    assert clean("吴权击败了南汉。").is_foreign
    assert clean("def solve(x): return x").is_code
    assert clean("[1]").is_empty


def test_code_blocks_are_left_out() -> None:
    assert sentences("Nước sôi.\n```python\nprint(1)\n```\nNước nguội.") == ["Nước sôi.", "Nước nguội."]
    assert sentences("```\nprint(1)") == []


@given(st.text())
def test_any_text_is_cleaned(text: str) -> None:
    for sentence in sentences(text):
        clean(sentence)
