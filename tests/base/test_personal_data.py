"""What tells of a person is masked however it was typed; what a lesson is made of is not."""

import json
import random
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.personal_data import PLACEHOLDERS, PersonalKind, find, mask
from deepedu.base.typed_text import TypedText
from deepedu.base.vietnamese import fold

CLASS = (
    "Nguyễn Thị Minh Anh",
    "Trần Văn Hùng",
    "Phạm Hòa Bình",
    "Nguyễn Huệ",
    "Lê Bình Minh",
    "Đỗ Thúy Kiều",
    "Lê Hoa",
)

# The part in ⟦⟧ has to be masked as that kind.
MASKED = [
    ("phone", "sđt em là ⟦0912345678⟧"),
    ("phone", "goi em so ⟦0912 345 678⟧ nha"),
    ("phone", "⟦091.234.5678⟧ là số mẹ em"),
    ("phone", "zalo ⟦0-912-345-678⟧"),
    ("phone", "⟦+84 912 345 678⟧"),
    ("phone", "⟦(+84) 912345678⟧"),
    ("phone", "⟦84912345678⟧ nhé"),
    ("phone", "sdt ⟦84 912 345 678⟧"),
    ("phone", "số của mẹ: ⟦0 9 1 2 3 4 5 6 7 8⟧"),
    ("phone", "⟦０９１２３４５６７８⟧"),
    ("phone", "⟦0912\u200b345\u200b678⟧ ạ"),
    ("phone", "⟦không chín một hai ba bốn năm sáu bảy tám⟧"),
    ("phone", "⟦024 3825 1234⟧"),
    ("phone", "nhà em ⟦(028) 3825 1234⟧"),
    ("phone", "em học lớp 6 ⟦0912345678⟧"),
    ("identity_card", "cccd ⟦001206012345⟧"),
    ("identity_card", "⟦079 306 012 345⟧"),
    ("identity_card", "cmnd của bố em ⟦123456789⟧"),
    ("identity_card", "số định danh là ⟦038 309 000 123⟧"),
    ("bank_account", "stk ⟦19036789012345⟧ techcombank"),
    ("bank_account", "số tài khoản: ⟦0011 0042 1234⟧"),
    ("student_code", "mã học sinh ⟦HS2026001⟧"),
    ("student_code", "sbd ⟦020145⟧"),
    ("document", "bhyt của em ⟦HS4797912345678⟧"),
    ("email", "email ⟦lan.nguyen@gmail.com⟧ nhé"),
    ("email", "⟦lan a còng gmail chấm com⟧"),
    ("email", "⟦lan_2k9@yahoo.com.vn⟧."),
    ("social_account", "fb em là ⟦Lan Nguyen⟧"),
    ("social_account", "⟦https://www.facebook.com/lan.nguyen.2k9⟧."),
    ("social_account", "⟦zalo.me/lan2009⟧"),
    ("social_account", "insta: ⟦@lan_2k9⟧"),
    ("birth_date", "em sinh ngày ⟦12/3/2012⟧"),
    ("birth_date", "ngày sinh: ⟦12-03-1980⟧"),
    ("birth_date", "em sinh ngày ⟦5 tháng 9 năm 2011⟧"),
    ("password", "mật khẩu vnedu của em là ⟦abc@123⟧"),
    ("address", "nhà em ở ⟦số 12 ngõ 34 đường Láng, phường Láng Thượng, quận Đống Đa, Hà Nội⟧"),
    ("address", "nha em o ⟦thon dong xa yen my huyen thanh tri ha noi⟧ nha co"),
    ("address", "em ở ⟦25 Nguyễn Trãi, Thanh Xuân⟧"),
    ("address", "⟦thôn 3, xã Yên Mỹ, huyện Thanh Trì, Hà Nội⟧"),
    ("address", "ship về ⟦số 8 phố Huế, quận Hai Bà Trưng⟧ giúp em"),
    ("name", "em tên là ⟦Nguyễn Thị Lan⟧ ạ"),
    ("name", "em ten la ⟦lan⟧ hoc lop 7"),
    ("name", "mẹ em là ⟦Lê Thị Hoa⟧"),
    ("name", "me em la ⟦le thi hoa⟧"),
    ("name", "họ và tên: ⟦Vũ Đức Duy⟧"),
    ("name", "my name is ⟦Nguyen Van Nam⟧"),
    ("name", "⟦nguyen thi minh anh⟧ ghet em"),
    ("name", "bạn ⟦Minh Anh⟧ đánh em"),
    ("name", "⟦NGUYỄN THỊ MINH ANH⟧"),
    ("name", "⟦đỗ thuý kiều⟧"),
    ("name", "bạn ⟦Bình Minh⟧ nói"),
    ("name", "bạn ⟦Nguyễn Huệ⟧ lớp em không nộp bài"),
    ("name", "bạn ⟦Nguyễn Văn Bình⟧ trêu em"),
]
LESSONS = [
    "0912 : 3 = 304",
    "Tính 0,912345678 + 1",
    "0.912345678 làm tròn thế nào?",
    "Trái Đất cách Mặt Trời 149 600 000 km",
    "84 912 345 678 đồng",
    "Số 84912345678 người",
    "Các số 03 05 07 08 09 là số lẻ hay chẵn",
    "Dãy 0 3 5 7 9 1 2 4 6 8 có bao nhiêu số",
    "chứng minh 123456789 chia hết cho 3",
    "123456789 là số có chín chữ số",
    "6,02·10²³ hạt",
    "3,0.10^8 m/s",
    "ISBN 978-604-0-12345-6",
    "ISBN 0-306-40615-2",
    "trang 112, bài 3, năm 1945",
    "tài khoản có 12 000 000 đồng, lãi suất 5%",
    "Tài khoản ngân hàng là gì?",
    "mật khẩu là một chuỗi kí tự",
    "facebook là gì",
    "@property trong python",
    "Chủ tịch Hồ Chí Minh sinh ngày 19/5/1890 ở đâu?",
    "các học sinh ngày 20/11 tặng hoa",
    "Hà Nội ở đâu?",
    "em sống ở Hà Nội",
    "quê Bác ở làng Sen, xã Kim Liên, huyện Nam Đàn, tỉnh Nghệ An",
    "ngôi nhà số 48 phố Hàng Ngang, nơi Chủ tịch Hồ Chí Minh viết Tuyên ngôn",
    "Số nhà của An là số có hai chữ số",
    "phân số gần số 0 nhất",
    "bạn Hoa có 5 quả táo, bạn Lan có 3 quả",
    "hoa hồng thuộc họ nào",
    "mẹ em là giáo viên",
    "em tên gì thầy đoán xem",
    "bình minh trên biển",
    "thủy điện Hòa Bình lớn nhất nước ta",
    "Nguyễn Huệ đại phá quân Thanh năm 1789",
    "vua Nguyễn Huệ lên ngôi năm nào",
    "Trần Hưng Đạo là ai",
    "vua Trần Anh Tông nhường ngôi cho ai",
    "Thúy Kiều là nhân vật của Nguyễn Du",
]


@pytest.mark.parametrize(("kind", "marked"), MASKED)
def test_what_is_masked(kind: str, marked: str) -> None:
    before, rest = marked.split("⟦")
    inside, after = rest.split("⟧")
    text = before + inside + after
    masked = mask(text, class_names=CLASS)
    assert masked.text == before + PLACEHOLDERS[PersonalKind(kind)] + after
    assert [(f.start, f.end) for f in masked.findings] == [(len(before), len(before) + len(inside))]


@pytest.mark.parametrize("text", LESSONS)
def test_what_a_lesson_says(text: str) -> None:
    assert mask(text, class_names=CLASS).text == text


@pytest.mark.parametrize(("kind", "marked"), MASKED)
def test_decomposed_text(kind: str, marked: str) -> None:
    text = marked.replace("⟦", "").replace("⟧", "")
    decomposed = unicodedata.normalize("NFD", text)
    assert unicodedata.normalize("NFC", mask(decomposed, class_names=CLASS).text) == mask(text, class_names=CLASS).text
    assert kind in [f.kind.value for f in find(decomposed, class_names=CLASS)]


def test_a_lone_given_name_is_a_word() -> None:
    assert find("Hoa nở, anh Hùng đi học, bình yên", class_names=CLASS) == []


def test_without_a_class_list_only_introduced_names_are_known() -> None:
    assert find("Trần Văn Hùng không làm bài") == []
    assert find("Trần Văn Hùng không làm bài", class_names=CLASS) != []


def test_several_at_once() -> None:
    text = "em tên là Trần Văn Hùng, sđt 0912345678, nhà em ở số 5 phố Huế, quận Hai Bà Trưng"
    assert mask(text, class_names=CLASS).text == "em tên là [họ tên], sđt [số điện thoại], nhà em ở [địa chỉ]"


_PARTS = [marked.replace("⟦", "").replace("⟧", "") for _, marked in MASKED] + LESSONS


@pytest.mark.parametrize("text", _PARTS)
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask(text, class_names=CLASS).text
    assert mask(once, class_names=CLASS).text == once


@given(st.lists(st.sampled_from(_PARTS), max_size=4), st.sampled_from([". ", "\n"]))
def test_what_is_masked_alone_is_masked_among_others(parts: list[str], joint: str) -> None:
    text = joint.join(parts)
    kinds = {f.kind for f in find(text, class_names=CLASS)} - {PersonalKind.ADDRESS}
    assert kinds >= {f.kind for part in parts for f in find(part, class_names=CLASS)} - {PersonalKind.ADDRESS}


@given(st.text(max_size=120))
def test_findings_are_in_order_and_apart(text: str) -> None:
    found = find(text, class_names=CLASS)
    assert all(0 <= f.start < f.end <= len(text) for f in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


@given(st.text(max_size=80))
def test_typed_text_keeps_its_lengths_and_places(text: str) -> None:
    typed = TypedText.of(text)
    assert len(typed.text) == len(typed.folded) == len(typed.starts) == len(typed.ends)
    assert all(0 <= start < end <= len(text) for start, end in zip(typed.starts, typed.ends, strict=True))


@given(st.integers(0, 10**8 - 1), st.sampled_from("35789"), st.sampled_from(["", " ", ".", "-"]))
def test_every_mobile_number(rest: int, lead: str, sign: str) -> None:
    digits = f"0{lead}{rest:08d}"
    written = sign.join((digits[:4], digits[4:7], digits[7:]))
    assert mask(f"Số mẹ em {written} nhé").text == "Số mẹ em [số điện thoại] nhé"


@given(st.integers(1, 10**12))
def test_an_amount_is_none(amount: int) -> None:
    assert find(f"Số dân là {amount:,} người".replace(",", " ")) == []


@pytest.mark.shared_data
def test_real_provinces_and_names(shared_data: Path) -> None:
    """The product's own short list of towns knows every province; names are found typed without accents too."""
    provinces = json.loads((shared_data / "vi_admin_units" / "tinh_tp.json").read_text(encoding="utf-8"))
    for unit in provinces.values():
        text = f"nhà em ở thôn 5, {unit['name']}"
        assert mask(text).text == "nhà em ở [địa chỉ]", text
        card = f"{int(unit['code']):03d}310{123456}"
        assert [f.kind.value for f in find(f"số {card}")] == ["identity_card"], unit["name"]
    given = (shared_data / "vi_names" / "girl.txt").read_text(encoding="utf-8").split("\n")
    for name in random.Random(0).sample([n.strip() for n in given if len(n.split()) == 2], 100):
        whole = f"Nguyễn Thị {name}"
        assert find(f"hôm nay {fold(whole)} vắng ạ", class_names=[whole]) != [], whole
