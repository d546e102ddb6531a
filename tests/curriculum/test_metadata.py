"""Title, grade, subject and series: given, told or guessed, and which of them."""

from pathlib import PurePath

import pytest

from deepedu.curriculum.metadata import Metadata, guess
from deepedu.curriculum.readers import PageText


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("toan-10-tap-1.pdf", "", Metadata("Toán 10, tập 1", 10, "Toán", None)),
        ("Lịch sử và Địa lí lớp 5.docx", "", Metadata("Lịch sử và Địa lí 5", 5, "Lịch sử và Địa lí", None)),
        ("khtn6.pdf", "", Metadata("Khoa học tự nhiên 6", 6, "Khoa học tự nhiên", None)),
        ("Vật lý 11.pdf", "", Metadata("Vật lí 11", 11, "Vật lí", None)),
        (
            "scan0001.pdf",
            "BỘ GIÁO DỤC VÀ ĐÀO TẠO\n\nTOÁN\n\n7\n\nCÁNH DIỀU",
            Metadata("Toán 7", 7, "Toán", "Cánh Diều"),
        ),
        (
            "SGK KHTN 6 (Kết nối tri thức).pdf",
            "",
            Metadata("SGK KHTN 6 (Kết nối tri thức)", 6, "Khoa học tự nhiên", "Kết nối tri thức với cuộc sống"),
        ),
        (
            "an_dương_vương.txt",
            "An Dương Vương (chữ Hán), là một vị vua trong lịch sử Việt Nam lớp trước.",
            Metadata("An Dương Vương"),
        ),
        ("hà_nội_(thành_phố).txt", "Hà Nội là thủ đô", Metadata("Hà Nội (thành phố)")),
        ("báo cáo 2.1.pdf", "", Metadata("Báo cáo 2.1")),
    ],
)
def test_guesses(name: str, text: str, expected: Metadata) -> None:
    found, guessed = guess(Metadata(), {}, [PageText(1, text)], PurePath(name))
    assert found == expected
    assert guessed == [key for key in ("title", "grade", "subject", "series") if getattr(expected, key) is not None]


def test_the_folder_may_name_grade_and_subject() -> None:
    found, _ = guess(Metadata(), {}, [PageText(1, "")], PurePath("Lớp 9/đề cương.docx"))
    assert found.grade == 9
    found, _ = guess(Metadata(), {}, [PageText(1, "")], PurePath("hoa_hoc/muối.txt"))
    assert found.subject == "Hóa học"


def test_what_is_given_is_never_guessed() -> None:
    given = Metadata(title="Của tôi", grade=3)
    found, guessed = guess(given, {"title": "Khác", "series": "Bộ"}, [PageText(1, "Toán 5")], PurePath("toan5.pdf"))
    assert found == Metadata("Của tôi", 3, "Toán", "Bộ")
    assert guessed == ["subject", "series"]
