"""What says again what a sentence of a book says, and what only uses its words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.tutor.restating import restates

HOOKE = "Năm 1665, nhà khoa học người Anh Robert Hooke xuất bản cuốn sách Micrographia với nhiều hình vẽ tỉ mỉ."
RICE = "Hạt thóc gồm vỏ trấu ở ngoài và hạt gạo ở trong."
MELTS = (
    "Quá trình chất chuyển từ thể rắn sang thể lỏng gọi là sự nóng chảy, còn quá trình ngược lại gọi là sự đông đặc."
)
CELL = "Tế bào có nhân được bao bọc bởi màng nhân gọi là tế bào nhân thực."
METRE = "Trong Hệ đơn vị đo lường quốc tế (viết tắt là SI), đơn vị đo chiều dài là mét, kí hiệu là m."
TWO = "Tháng 5, cây phượng ở sân trường nở hoa, còn cây bàng ra lá non."


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        # To the letter, and in another spelling of signs.
        (HOOKE, HOOKE),
        ("Sự thăng hoa xảy ra ở −78,5 °C.", "Sự thăng hoa xảy ra ở -78,5 °C."),
        ("Hải lí dài 1852 m.", "Hải lí dài 1 852 m."),
        ("Khí hoà tan trong nước.", "Khí hòa tan trong nước."),
        ("Khí hòa tan trong nước", "“Khí hòa tan trong nước”."),
        # Less.
        ("Robert Hooke xuất bản cuốn sách Micrographia.", HOOKE),
        ("Năm 1665, Robert Hooke xuất bản cuốn sách Micrographia.", HOOKE),
        ("Hồng cầu của người sống khoảng 120 ngày.", "Mỗi hồng cầu của người sống khoảng 120 ngày."),
        ("Đơn vị đo chiều dài là mét.", METRE),
        ("Ethanol sôi ở 78 °C.", "Nước sôi ở 100 °C; ethanol (cồn) sôi ở 78 °C."),
        ("Nước đá khô thăng hoa ở −78,5 °C.", "Nước đá khô, tức carbon dioxide rắn, thăng hoa ở −78,5 °C."),
        ("Cây phượng ở sân trường nở hoa.", TWO),
        # A time anywhere.
        ("Robert Hooke xuất bản cuốn sách Micrographia năm 1665.", HOOKE),
        ("Vào thế kỉ XVII, ông trồng một cây liễu.", "Ông trồng một cây liễu vào thế kỉ XVII."),
        ("Năm 1967, ông được phong anh hùng.", "Ông được phong anh hùng năm 1967."),
        # Halves exchanged.
        (
            "Ở khoảng 4 °C, khối lượng riêng của nước đạt giá trị lớn nhất.",
            "Khối lượng riêng của nước đạt giá trị lớn nhất ở khoảng 4 °C.",
        ),
        ("Trong các lục lạp, quang hợp diễn ra ở lá.", "Quang hợp diễn ra ở lá, trong các lục lạp."),
        # Parts around "và" exchanged.
        ("Vi khuẩn lactic giúp làm dưa muối và sữa chua.", "Vi khuẩn lactic giúp làm sữa chua và dưa muối."),
        ("Hạt thóc gồm hạt gạo ở trong và vỏ trấu ở ngoài.", RICE),
        ("Động vật và thực vật có tế bào nhân thực.", "Thực vật và động vật có tế bào nhân thực."),
        # Names.
        ("Tế bào nhân thực là tế bào có nhân được bao bọc bởi màng nhân.", CELL),
        ("Sự nóng chảy là quá trình chất chuyển từ thể rắn sang thể lỏng.", MELTS),
        ("Sự nóng chảy được gọi là quá trình chất chuyển từ thể rắn sang thể lỏng.", MELTS),
        # Properties.
        ("Khối lượng riêng của nước là 1 000 kg/m³.", "Nước có khối lượng riêng là 1 000 kg/m³, nghĩa là rất lớn."),
        ("Tên khoa học của cây lúa là Oryza sativa.", "Cây lúa có tên khoa học là Oryza sativa, thuộc họ Lúa."),
    ],
)
def test_what_says_the_same(statement: str, sentence: str) -> None:
    assert restates(statement, sentence)
    assert restates(unicodedata.normalize("NFD", statement), sentence)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        # Roles and places exchanged.
        ("Hạt thóc gồm vỏ trấu ở trong và hạt gạo ở ngoài.", RICE),
        ("Hạt thóc gồm hạt gạo ở ngoài và vỏ trấu ở trong.", RICE),
        ("Nhôm nặng hơn sắt.", "Sắt nặng hơn nhôm."),
        ("Thủy ngân có khối lượng riêng nhỏ hơn sắt.", "Sắt có khối lượng riêng nhỏ hơn thủy ngân."),
        ("Vi khuẩn ăn con người.", "Con người ăn vi khuẩn."),
        ("Chuột đồng đuổi mèo rừng.", "Mèo rừng đuổi chuột đồng."),
        ("Sau Newton, Halley làm chủ tịch.", "Sau Halley, Newton làm chủ tịch."),
        ("Quá trình chất chuyển từ thể lỏng sang thể rắn gọi là sự nóng chảy.", MELTS),
        ("Sự đông đặc là quá trình chất chuyển từ thể rắn sang thể lỏng.", MELTS),
        ("Sự ngưng tụ là quá trình chất chuyển từ thể rắn sang thể lỏng.", MELTS),
        ("Cây bàng ở sân trường nở hoa, còn cây phượng ra lá non.", TWO),
        ("Nước sôi ở 0 °C và tan ở 100 °C.", "Nước tan ở 0 °C và sôi ở 100 °C."),
        ("Ếch phát triển từ nòng nọc thành trứng.", "Ếch phát triển từ trứng thành nòng nọc."),
        # Negations dropped or put in.
        ("Tế bào động vật có thành tế bào.", "Tế bào động vật không có thành tế bào."),
        ("Virus không gây bệnh cúm.", "Virus gây bệnh cúm."),
        ("Người ta đo được nhiệt độ đó.", "Người ta chưa đo được nhiệt độ đó."),
        ("Kháng sinh có tác dụng với virus.", "Kháng sinh không có tác dụng với virus."),
        ("Các kim loại đều ở thể rắn.", "Các kim loại (trừ thủy ngân) đều ở thể rắn."),
        # Cause and effect.
        ("Cây thiếu nước vì lá rụng.", "Lá rụng vì cây thiếu nước."),
        ("Vì lá rụng nên cây thiếu nước.", "Vì cây thiếu nước nên lá rụng."),
        ("Nước đá nổi nên có khối lượng riêng nhỏ.", "Nước đá có khối lượng riêng nhỏ nên nổi."),
        # Another number, name, word, or one too many.
        ("Robert Hooke xuất bản cuốn sách Micrographia năm 1676.", HOOKE),
        ("Robert Brown xuất bản cuốn sách Micrographia.", HOOKE),
        ("Robert Hooke xuất bản nhiều cuốn sách Micrographia.", HOOKE),
        ("Robert Hooke xuất bản cuốn sách Micrographia lần đầu ở Luân Đôn.", HOOKE),
        # Broken off where the sentence goes on.
        ("Robert Hooke xuất bản cuốn.", HOOKE),
        ("Đơn vị đo chiều.", METRE),
        # Begun in the middle.
        ("Sách Micrographia với nhiều hình vẽ tỉ mỉ.", HOOKE),
        ("Vỏ trấu ở ngoài và hạt gạo ở trong.", RICE),
        ("Năm 1945, Việt Nam là thuộc địa của Pháp.", "Trước năm 1945, Việt Nam là thuộc địa của Pháp."),
        # Too much left out.
        ("Robert Hooke xuất bản hình vẽ tỉ mỉ.", HOOKE),
        ("Năm 1665, Micrographia với nhiều hình vẽ tỉ mỉ.", HOOKE),
        # Two sentences of a book are not one.
        ("Nước sôi ở 0 °C.", "Nước sôi. Nó đông ở 0 °C."),
        # A time that is another's: two times on one side.
        ("Ông sinh tại Huế năm 1949.", "Ông sinh năm 1910 tại Huế, năm 1949 về nước."),
        # Nothing.
        ("Nước.", "Nước."),
        ("", HOOKE),
        ("...", HOOKE),
        (HOOKE, ""),
    ],
)
def test_what_does_not(statement: str, sentence: str) -> None:
    assert not restates(statement, sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Người ta từng cho rằng Mặt Trời quay quanh Trái Đất.",
        "Ngày xưa, nhiều người tưởng Mặt Trời quay quanh Trái Đất.",
        "Giả sử Mặt Trời quay quanh Trái Đất.",
        "Nếu đúng như thế, Mặt Trời quay quanh Trái Đất.",
        "Một quan niệm sai lầm: Mặt Trời quay quanh Trái Đất.",
        "Có lẽ, Mặt Trời quay quanh Trái Đất.",
        "Thời đó, người ta tin rằng Mặt Trời quay quanh Trái Đất.",
    ],
)
def test_what_a_book_only_reports_is_no_statement_of_its_own(sentence: str) -> None:
    assert not restates("Mặt Trời quay quanh Trái Đất.", sentence)
    # Said with its hedge it is what the book says.
    assert restates(sentence, sentence)


WORDS = st.lists(
    st.sampled_from(["nước", "sôi", "lạnh", "đá", "tan", "nhôm", "sắt", "ở", "thể", "khí", "nổi", "chìm", "35", "7"]),
    min_size=2,
    max_size=9,
).map(" ".join)


@given(WORDS)
def test_every_sentence_restates_itself(text: str) -> None:
    assert restates(f"{text}.", f"{text.capitalize()}.")


@given(WORDS, st.sampled_from(["xenon", "1234", "không"]), st.integers(0, 9))
def test_no_sentence_bears_a_word_that_it_does_not_hold(text: str, strange: str, place: int) -> None:
    spoken = text.split()
    spoken.insert(min(place, len(spoken)), strange)
    assert not restates(" ".join(spoken), text)
