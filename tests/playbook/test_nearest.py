"""Things found again by the words of another text."""

from hypothesis import given
from hypothesis import strategies as st

from deepedu.playbook.nearest import Nearest

TEXTS = {
    "lãi": "Bác Ba gửi 200 triệu đồng, lãi suất 6 % một năm. Tính tiền lãi sau một năm.",
    "lãi2": "Cô Tư gửi 50 triệu đồng, lãi suất 5 % một năm. Tính tiền lãi sau một năm.",
    "đường": "Một ô tô đi 120 km hết 2 giờ. Tính vận tốc của ô tô.",
    "diện": "Một hình chữ nhật dài 5 m, rộng 3 m. Tính diện tích.",
}


def kept(**more: str) -> Nearest[str]:
    nearest = Nearest[str]()
    for key, text in {**TEXTS, **more}.items():
        nearest.put(key, text, key)
    return nearest


def test_exercises_of_one_kind_are_near_whatever_their_numbers() -> None:
    asked = "Chú Năm gửi 70 triệu đồng, lãi suất 7 % một năm. Tính tiền lãi."
    assert set(kept().near(asked, 2)) == {"lãi", "lãi2"}
    assert kept().near("Một xe máy đi 80 km hết 2 giờ. Tính vận tốc.", 1) == ["đường"]


def test_one_is_never_its_own_neighbour() -> None:
    found = kept().near(TEXTS["lãi"], 9, without="lãi")
    assert found[0] == "lãi2"
    assert "lãi" not in found
    assert kept().near(TEXTS["lãi"], 1) == ["lãi"]


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    nearest = Nearest[str]()
    for number in range(9):
        nearest.put(f"thường{number}", f"tính tổng số {number}", "thường")
    nearest.put("hiếm", "osmium nặng lắm", "hiếm")
    assert nearest.near("tính tổng osmium", 1) == ["hiếm"]


def test_a_long_text_is_not_near_everything() -> None:
    short, long = TEXTS["đường"], " ".join(TEXTS.values())
    nearest = Nearest[str]()
    nearest.put("a-dài", long, "dài")
    nearest.put("b-ngắn", short, "ngắn")
    assert nearest.near("Tính vận tốc của ô tô.", 2) == ["ngắn", "dài"]


def test_what_shares_no_word_is_not_found() -> None:
    assert kept().near("quang hợp", 5) == []
    assert kept().near("", 5) == []
    assert kept().near(TEXTS["lãi"], 0) == []
    assert Nearest[str]().near(TEXTS["lãi"], 3) == []


def test_a_key_holds_one_thing() -> None:
    nearest = kept()
    nearest.put("lãi", "Quang hợp diễn ra ở lá.", "mới")
    assert len(nearest) == len(TEXTS)
    assert nearest.near("quang hợp ở lá", 1) == ["mới"]
    assert "mới" not in nearest.near("gửi lãi suất triệu đồng", 9)


@given(st.permutations(list(TEXTS)))
def test_the_order_of_putting_does_not_matter(keys: list[str]) -> None:
    nearest = Nearest[str]()
    for key in keys:
        nearest.put(key, TEXTS[key], key)
    assert nearest.near("Tính tiền lãi sau một năm.", 4) == kept().near("Tính tiền lãi sau một năm.", 4)
