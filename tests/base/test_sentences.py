"""Sentence boundaries in Vietnamese: what a passage never cuts and a quotation never splits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.vietnamese import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["TP. Hồ Chí Minh là thành phố lớn.", "GS. Tôn Thất Tùng và PGS.TS. Trần Văn Bình đến đây.", "Th.S Lê An."],
        ["Có mèo, chó, v.v.", "Ngoài ra còn có gà.", "Có cá, tôm, v.v. và cua."],
        ["Dân số là 1.954 người.", "Ngày 2. 9. 1945 nước ta độc lập.", "Trước đó là năm 1944.", "Rồi hết."],
        ["A. Einstein sinh năm 1879.", "Nhà bác học A. Einstein mất năm 1955.", "C. Mác và Ph. Ăngghen viết sách."],
        ["Cà rốt có nhiều vitamin A.", "Chất này tốt cho mắt.", "Xe đi từ A đến B.", "Hỏi bao lâu?"],
        ["Nối hai điểm A và B.", "Vẽ tiếp.", "Kim loại kiềm gồm Li, Na, K.", "Chúng rất hoạt động."],
        ['Bác nói: "Không có gì quý hơn độc lập, tự do."', "Câu nói đó vang mãi.", '"Ai đó?" ông hỏi.'],
        ["Ôi... đẹp quá!", "Thế rồi...", "Anh đi.", "Trời ơi!", "Sao thế?!", "Không sao…", "Được rồi."],
        ["Sự kiện năm 1945.[1]", "Sau đó còn nữa.[2][3]", "Xem thêm ở dưới (Hình 1.2).", "Đúng thế."],
        ["Bài 1. Vị trí địa lí.", "Hình 2. Bản đồ.", "Câu 5. Vì sao?", "1. Mở đầu.", "a) Nội dung."],
        ["Lê Q. Đôn.", "V.I. Lenin nói.", "Nước ở Đông Nam Á.", "Xem tr. 25 của NXB. Giáo dục."],
        ["Nước có pH là 7.", "pH của chanh là 2.", "Khoảng 5 km.", "Núi cao 3.143 m.", "Hết."],
    ],
)
def test_prose_is_split_at_sentence_ends_only(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_missing_space_after_a_full_stop_is_forgiven_but_names_are_not_cut() -> None:
    assert sentences("Đây là Hà Nội.Đây là Huế. Xem TP.HCM và deepedu.vn nhé.") == [
        "Đây là Hà Nội.",
        "Đây là Huế.",
        "Xem TP.HCM và deepedu.vn nhé.",
    ]


def test_a_wrapped_line_goes_on_and_a_heading_ends() -> None:
    text = (
        "Vị trí địa lí\nViệt Nam nằm ở rìa phía đông của bán đảo Đông Dương, gần trung tâm khu\n"
        "vực Đông Nam Á. Diện tích là 331.212 km² và\nTP. Hồ Chí Minh lớn nhất.\n\nSông ngòi\n\nNhiều sông"
    )
    assert sentences(text) == [
        "Vị trí địa lí",
        "Việt Nam nằm ở rìa phía đông của bán đảo Đông Dương, gần trung tâm khu\nvực Đông Nam Á.",
        "Diện tích là 331.212 km² và\nTP. Hồ Chí Minh lớn nhất.",
        "Sông ngòi",
        "Nhiều sông",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["Các vùng:", "- Biển Đông", "- Đồng bằng Bắc Bộ", "– Tây Nguyên"],
        ["1. Một", "2. Hai", "a) Ba", "b) Bốn"],
        ["Tên | Năm | Nơi", "Đinh Bộ Lĩnh | 968 | Hoa Lư", "Lý Công Uẩn | 1009 | Thăng Long"],
        ["Mục lục ........ 5", "Bài 1 ........ 7"],
        ["Bài 2. Thời kì Văn Lang", "Nước Văn Lang ra đời cách đây khoảng 2700 năm, đóng đô ở Phong Châu."],
        ["CHƯƠNG I\nTHỜI KÌ DỰNG NƯỚC", "Nước Văn Lang ra đời sớm."],
    ],
)
def test_list_items_rows_and_headings_end_at_their_line_end(lines: list[str]) -> None:
    assert sentences("\n".join(lines)) == lines


_PIECES = st.sampled_from(
    [
        "Hà Nội",
        "là",
        ".",
        ". ",
        "...",
        "?",
        "”",
        "\n",
        "\n\n",
        "\t",
        " | ",
        "1.954",
        "TP.",
        "A.",
        "- ",
        "Bài 1",
        ")",
        " ",
    ]
)


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=40).map("".join))
def test_every_visible_character_is_in_exactly_one_sentence(text: str) -> None:
    spans = sentence_spans(text)
    position = 0
    for start, end in spans:
        assert start >= position
        assert end > start
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()
