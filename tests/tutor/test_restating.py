"""What says again what a sentence of a book says, and what only uses its words."""

import unicodedata
from random import Random

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
        (RICE, RICE),
        (TWO, TWO),
        ("Sự thăng hoa xảy ra ở −78,5 °C.", "Sự thăng hoa xảy ra ở -78,5 °C."),
        ("Hải lí dài 1852 m.", "Hải lí dài 1 852 m."),
        ("Khí hoà tan trong nước.", "Khí hòa tan trong nước."),
        ("khí hòa tan trong nước", "“Khí hòa tan trong nước”."),
        # The only time of a single clause at its other end.
        (
            "Robert Hooke xuất bản cuốn sách Micrographia năm 1665.",
            "Năm 1665, Robert Hooke xuất bản cuốn sách Micrographia.",
        ),
        ("Robert Hooke xuất bản Micrographia vào năm 1665.", "Năm 1665, Robert Hooke xuất bản Micrographia."),
        ("Năm 1967, Lương Định Của được phong anh hùng.", "Lương Định Của được phong anh hùng năm 1967."),
        ("Ngày 20 tháng 5 năm 1875, 17 nước kí Công ước Mét.", "17 nước kí Công ước Mét vào ngày 20 tháng 5 năm 1875."),
    ],
)
def test_a_sentence_of_the_book_said_again(statement: str, sentence: str) -> None:
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
        # What looser bounds on the order of words let through: converses, exchanged parts of "và", a dropped opening,
        # exception, condition or deciding word, a time moved to another clause.
        ("Động vật có vú là cá voi xanh.", "Cá voi xanh là động vật có vú."),
        ("Thú biết bay là dơi quạ.", "Dơi quạ là thú biết bay."),
        ("Hình chữ nhật là hình vuông có bốn cạnh bằng nhau.", "Hình vuông là hình chữ nhật có bốn cạnh bằng nhau."),
        ("Hạt nhân mang điện dương có nguyên tử carbon.", "Nguyên tử carbon có hạt nhân mang điện dương."),
        ("Tám hành tinh gồm Hệ Mặt Trời.", "Hệ Mặt Trời gồm tám hành tinh."),
        ("Đường làng ngập thì trời mưa to.", "Trời mưa to thì đường làng ngập."),
        ("Đường làng ngập thì trời mưa to.", "Trời mưa to nên đường làng ngập."),
        ("Chia hết cho 2 thì số tự nhiên chia hết cho 4.", "Số tự nhiên chia hết cho 4 thì chia hết cho 2."),
        ("Năm 1939, Pháp và Đức tấn công Ba Lan.", "Năm 1939, Đức tấn công Ba Lan và Pháp."),
        ("Lợn rừng và hổ săn nai.", "Hổ săn nai và lợn rừng."),
        ("Muối khoáng và rễ cây hút nước.", "Rễ cây hút nước và muối khoáng."),
        ("Nước sôi và đóng băng lần lượt ở 0 °C và 100 °C.", "Nước đóng băng và sôi lần lượt ở 0 °C và 100 °C."),
        (
            "Trái Đất và Mặt Trăng có bán kính lần lượt là 1737 km và 6371 km.",
            "Mặt Trăng và Trái Đất có bán kính lần lượt là 1737 km và 6371 km.",
        ),
        ("Trái Đất là Mặt Trăng.", "Vệ tinh tự nhiên của Trái Đất là Mặt Trăng."),
        ("Pháp là Paris.", "Thủ đô của nước Pháp là Paris."),
        ("Socrates là Plato.", "Học trò giỏi nhất của Socrates là Plato."),
        ("Pasteur tìm ra vi khuẩn dịch hạch.", "Học trò của Pasteur tìm ra vi khuẩn dịch hạch."),
        ("Nguyễn Sinh Sắc rời bến Nhà Rồng năm 1911.", "Người con của Nguyễn Sinh Sắc rời bến Nhà Rồng năm 1911."),
        ("Mặt Trời quay quanh Trái Đất.", "Ptolemy khẳng định Mặt Trời quay quanh Trái Đất."),
        ("Mặt Trời quay quanh Trái Đất.", "Galileo bác bỏ ý kiến Mặt Trời quay quanh Trái Đất."),
        ("Trái Đất phẳng như chiếc đĩa.", "Người xưa bảo Trái Đất phẳng như chiếc đĩa."),
        ("Vật nặng rơi nhanh hơn vật nhẹ.", "Theo Aristotle, vật nặng rơi nhanh hơn vật nhẹ."),
        ("Con gà mái đẻ trứng vàng.", "Trong truyện cổ tích, con gà mái đẻ trứng vàng."),
        ("Nước giếng chữa được bệnh lao.", "Tin đồn lan khắp làng: nước giếng chữa được bệnh lao."),
        ("Thuốc lá chữa được ho.", "Thuốc lá chữa được ho, theo một quảng cáo thời xưa."),
        ("Cá voi là một loài cá.", "Cá voi là một loài cá?"),
        ("Mọi kim loại đều ở thể rắn.", "Mọi kim loại đều ở thể rắn, trừ thủy ngân."),
        ("Các loài chim đều biết bay.", "Các loài chim đều biết bay, ngoại trừ đà điểu và chim cánh cụt."),
        ("Nước sôi ở 70 °C.", "Nước sôi ở 70 °C trên đỉnh Everest."),
        ("Sắt nổi.", "Sắt nổi trên thủy ngân."),
        ("Thuốc này an toàn.", "Thuốc này an toàn cho người lớn."),
        ("Kim cương cháy được.", "Kim cương cháy được trong oxygen tinh khiết."),
        ("Sắt cách điện.", "Sắt dẫn điện, nhựa cách điện."),
        ("Cá thở bằng phổi.", "Cá thở bằng mang, ếch thở bằng phổi."),
        ("Nước ở dạng rắn là hơi.", "Nước ở dạng rắn là băng, dạng khí là hơi."),
        ("Tan là lỏng thành rắn.", "Lỏng thành rắn gọi là đông, ngược lại là tan."),
        ("Ban ngày Sao Thủy lạnh.", "Ban ngày Mặt Trăng lạnh, đêm xuống Sao Thủy lạnh."),
        ("Cá mập tấn công người.", "Cá mập hiếm khi tấn công người."),
        ("Galileo bị thiêu sống năm 1633.", "Galileo suýt bị thiêu sống năm 1633."),
        ("Trẻ nhỏ cần uống mật ong.", "Trẻ nhỏ cần tránh uống mật ong."),
        ("Sông Nin dài bằng sông Amazon.", "Sông Nin dài gần bằng sông Amazon."),
        ("Ánh sáng đỏ bị lệch nhất.", "Ánh sáng đỏ bị lệch ít nhất."),
        ("Ông làm hiệu trưởng trường Bưởi năm 1950.", "Ông thôi làm hiệu trưởng trường Bưởi năm 1950."),
        ("Virus này gây tử vong ở trẻ em.", "Virus này có thể gây tử vong ở trẻ em."),
        ("Núi lửa phun trào năm 2100.", "Núi lửa sẽ phun trào năm 2100."),
        ("Nấm ăn được.", "Nấm phần lớn ăn được."),
        ("Quân Nguyên bao vây Bạch Đằng.", "Quân Nguyên bị bao vây ở Bạch Đằng."),
        ("Tê giác săn bắt trộm ở châu Phi.", "Tê giác bị săn bắt trộm ở châu Phi."),
        ("Halley xuất bản cuốn Principia.", "Halley giúp Newton xuất bản cuốn Principia."),
        ("Hoa Kì vay tiền mua vũ khí.", "Hoa Kì cho Anh vay tiền mua vũ khí."),
        ("Leibniz lập nên Viện Hàn lâm Phổ năm 1643.", "Newton ra đời năm 1643, Leibniz lập nên Viện Hàn lâm Phổ."),
        ("Newton làm chủ tịch Hội Hoàng gia năm 1703.", "Hooke mất năm 1703; Newton làm chủ tịch Hội Hoàng gia."),
        ("Ông về nước khi đã già năm 1967.", "Mãi đến năm 1967 ông mới về nước, khi đã già."),
        ("Đoàn quân có ba người.", "Đoàn quân có ba mươi hai người."),
        ("Sông dài hai ki-lô-mét.", "Sông dài hai nghìn ki-lô-mét."),
        ("Cả nước thu hoạch 43 tấn lúa.", "Cả nước thu hoạch 43 triệu tấn lúa."),
        ("Vua của Lê Lợi tin dùng Nguyễn Trãi.", "Vua Lê Lợi tin dùng Nguyễn Trãi."),
        ("Con hổ và mẹ săn nai.", "Con hổ mẹ săn nai."),
        ("Hạt gạo ở ngoài, vỏ trấu ở trong.", "Vỏ trấu ở ngoài, hạt gạo ở trong."),
        ("Virus có cấu tạo tế bào.", "Virus không có cấu tạo tế bào."),
        (
            "Cực nam sơn đỏ còn cực bắc sơn xanh.",
            "Nam châm có cực bắc và cực nam, cực bắc sơn đỏ còn cực nam sơn xanh.",
        ),
        ("Trái Đất là nước.", "Hai phần ba bề mặt Trái Đất là nước."),
        ("Mặt Trăng ở xa hơn Mặt Trời.", "Mặt Trời ở xa hơn Mặt Trăng."),
        ("Ếch con phát triển từ nòng nọc thành trứng.", "Ếch con phát triển từ trứng thành nòng nọc."),
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
        "Năm 1674, ông phát hiện các sinh vật đơn bào.",
        "Nó sôi ở 100 °C.",
        "Vì vậy, sắt chìm trong nước.",
        "Khối lượng riêng của chất này lớn hơn của nước.",
        "Cá voi là một loài cá?",
        "Chì | 327 | 1 749",
        "Nhiệt độ nóng chảy được ghi trong bảng 2.",
    ],
)
def test_what_needs_another_sentence_to_be_understood_bears_nothing(sentence: str) -> None:
    assert not restates(sentence, sentence)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("Năm 1945, Việt Nam có nhiều thay đổi trước.", "Việt Nam có nhiều thay đổi trước năm 1945."),
        ("Năm 1910, ngày sinh là 4 tháng 4.", "Ngày sinh là 4 tháng 4 năm 1910."),
        ("Halley mất và được chôn năm 1742, Newton mất.", "Năm 1742, Halley mất, Newton mất và được chôn."),
        ("Dân số tăng từ năm 1900 đến năm 2000.", "Năm 2000, dân số tăng từ năm 1900 đến."),
    ],
)
def test_a_time_that_says_when_else_stays_where_it_is(statement: str, sentence: str) -> None:
    assert not restates(statement, sentence)


SAID = ("nước", "đá", "sắt", "nhôm", "nổi", "chìm", "trong", "trên", "và", "không", "là", "có")
WORDS = st.lists(st.sampled_from(SAID), min_size=3)


@given(WORDS, st.randoms())
def test_another_order_is_another_sentence(said: list[str], draw: Random) -> None:
    other = list(said)
    draw.shuffle(other)
    assert restates(" ".join(said), " ".join(other)) is (said == other)
