"""Items are marked by the rules of the examination, whatever way the answer is typed; pupils are shown no key."""

import json
import unicodedata
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.errors import BadRequest
from deepedu.base.vietnamese import fold
from deepedu.tutor.quiz import (
    Choice,
    Claim,
    Item,
    Quiz,
    QuizEvidence,
    Short,
    TrueFalse,
    arranged,
    mark,
    max_points,
    read_item,
    read_quiz,
    shown,
)

PROOF = QuizEvidence(book="ab" * 32, page=12, quote="Chứng cứ bí mật.", passage_id=7)
CITY = Choice(
    stem="Thủ đô của nước ta?",
    options=("Huế", "Hà Nội", "Đà Nẵng", "Thành phố Hồ Chí Minh"),
    key=1,
    evidence=PROOF,
    skill="Bài bí mật",
    explanation="Lời giải bí mật",
)
NUMBERS = Choice(stem="2 × 3 bằng?", options=("4", "6", "2", "8,5"), key=1)
CLAIMS = TrueFalse(
    stem="Xét các phát biểu:",
    statements=tuple(Claim(text=f"phát biểu {n}", truth=n in (1, 4), evidence=PROOF) for n in (1, 2, 3, 4)),
    explanation="Lời giải bí mật",
)
LENGTH = Short(stem="Sợi dây dài bao nhiêu?", key="2,5", unit="m", evidence=PROOF, skill="Bài bí mật")


# --- Items -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [CITY, NUMBERS, CLAIMS, LENGTH])
def test_items_survive_json(item: Item) -> None:
    assert read_item(json.loads(item.model_dump_json())) == item


def test_id_tells_what_is_asked_and_not_the_key() -> None:
    assert read_item({**CITY.model_dump(), "key": 0}).id == CITY.id
    assert CITY.model_copy(update={"stem": "Thủ đô?"}).id != CITY.id
    assert Choice(stem="  Thủ  đô của\u00a0nước ta? ", options=CITY.options, key=0).id == CITY.id
    decomposed = unicodedata.normalize("NFD", CITY.stem)
    assert Choice(stem=decomposed, options=CITY.options, key=0).id == CITY.id
    assert CITY.id == "942c9a8daaa5b9ec"


def data(**changes: Any) -> dict[str, Any]:
    return {"kind": "choice", "stem": "Gì?", "options": ["p", "q", "r", "s"], "key": 0, **changes}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (data(stem=" \n"), "câu hỏi: không được để trống"),
        (data(stem="<b>Gì</b>"), "mã HTML '<b>'"),
        (data(stem="Gì<img src=x onerror=alert(1)>"), "mã HTML"),
        (data(stem="Gì\x07"), "kí tự điều khiển"),
        (data(stem="a" * 5000), "nhiều nhất 4000"),
        (data(options=["p", "q", "r"]), "cần đúng 4 phương án, có 3"),
        (data(options=["p", "q", "r", " "]), "phương án 4: không được để trống"),
        (data(options=["Hà Nội", "q", "ha  nội.", "s"]), "A và C giống nhau"),
        (data(options=["Hà Nội", "q", "Ha Noi", "s"]), "A và C giống nhau"),
        (data(options=["hòa", "q", "hoà", "s"]), "A và C giống nhau"),
        (data(key=4), "từ 0 (A) đến 3 (D)"),
        (data(key=-1), "từ 0 (A) đến 3 (D)"),
        (data(key="x"), "đáp án: giá trị không hợp lệ"),
        (data(kind="essay"), "choice, true_false, short"),
        ({"kind": "short", "stem": "Gì?"}, "đáp án: còn thiếu"),
        ({"kind": "short", "stem": "Gì?", "key": "Huế", "unit": "m"}, "đơn vị và làm tròn"),
        ({"kind": "short", "stem": "Gì?", "key": "5 km", "unit": "m"}, "hãy sửa cho khớp"),
        ({"kind": "true_false", "stem": "Gì?", "statements": [{"text": "p", "truth": True}]}, "cần đúng 4 ý"),
        (data(extra=1), "extra: mục lạ"),
        (7, "không hợp lệ"),
    ],
)
def test_wrong_items_say_what_to_do(wrong: Any, told: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_item(wrong)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        ("AA", "Aa", "aa", "aA"),
        ("CO", "Co", "CO2", "Cu"),
        ("sửa chữa", "sữa chửa", "sữa chữa", "sửa chửa"),
        ("1/2", "2/4", "0,5", "50%"),
    ],
)
def test_options_that_only_look_alike_are_taken(options: tuple[str, ...]) -> None:
    item = Choice(stem="Chọn?", options=options, key=0)
    for index, option in enumerate(options):
        assert mark(item, option).given == "ABCD"[index]


@pytest.mark.parametrize(
    "stem", ["x < 3 và y > 2?", "#include <iostream> để làm gì?", "R&D là gì?", "if a<b:\n    print(a)"]
)
def test_text_that_is_no_html_is_taken(stem: str) -> None:
    assert Short(stem=stem, key="1").stem == stem


# --- Choices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["B", "b", " b. ", "(b)", "B)", "đáp án B", "dap an b", "Em chọn B", "2", 2, "Hà Nội", "hà nội", "ha noi",
     "HA NOI.",      "B. Hà Nội", "Ha\u0300 No\u0323\u0302i", "Thủ đô là Hà Nội"],
)  # fmt: skip
def test_the_second_option_in_many_ways(answer: Any) -> None:
    marked = mark(CITY, answer)
    assert (marked.points, marked.max_points, marked.right, marked.given) == (Decimal("0.25"),) * 2 + ((True,), "B")
    assert marked.score == 1.0


@pytest.mark.parametrize(
    ("answer", "given"), [("A", "A"), ("1", "A"), ("da nang", "C"), ("D. Thành phố Hồ Chí Minh", "D")]
)
def test_another_option_is_wrong(answer: str, given: str) -> None:
    marked = mark(CITY, answer)
    assert (marked.points, marked.right, marked.given, marked.score) == (0, (False,), given, 0.0)


@pytest.mark.parametrize(
    "answer", ["E", "5", 0, "Hà Nồi", "Vinh", "A hoặc B", "A, B", True, ["B"], {"a": 1}, "x" * 900]
)
def test_what_cannot_be_read_is_an_error(answer: Any) -> None:
    with pytest.raises(BadRequest, match="cần một chữ cái từ A đến D"):
        mark(CITY, answer)


def test_numbers_as_options_are_their_values() -> None:
    assert mark(NUMBERS, "2").given == "C"
    assert mark(NUMBERS, 6).given == "B"
    assert mark(NUMBERS, "8.5").given == mark(NUMBERS, 8.5).given == "D"
    assert mark(NUMBERS, "17/2").given == "D"
    with pytest.raises(BadRequest):
        mark(NUMBERS, "3")


def test_text_without_accents_that_fits_two_options_is_none() -> None:
    item = Choice(stem="Chọn?", options=("sửa chữa", "sữa chửa", "p", "q"), key=0)
    assert mark(item, "Sửa chữa").given == "A"
    assert mark(item, "b").given == "B"
    assert mark(item, "em chọn b").given == "B"
    with pytest.raises(BadRequest):
        mark(item, "sua chua")


@pytest.mark.parametrize("answer", [None, "", "  ", "...", "…", "-", [], {}, [None, ""], {"a": None}])
@pytest.mark.parametrize("item", [CITY, NUMBERS, CLAIMS, LENGTH])
def test_blank_is_not_answered(item: Item, answer: Any) -> None:
    marked = mark(item, answer)
    assert not marked.is_answered
    assert marked.points == 0
    assert not any(marked.right)


# --- Statements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ["Đ", "S", "S", "Đ"], [True, False, False, True], ["đúng", "sai", "Sai", "ĐÚNG"], [1, 0, 0, 1],
        ("T", "F", "F", "T"), "ĐSSĐ", "đ s s đ", "D-S-S-D", "dssd", "Đ,S,S,Đ", "a-Đ b-S c-S d-Đ",
        "a) Đúng; b) Sai; c) Sai; d) Đúng",
        "a-d b-s c-s d-d", "ađbscsdđ", "1Đ 2S 3S 4Đ", "true false false true", "đúng/sai/sai/đúng", "dung sai sai dung",
        "a, d đúng; b, c sai", "Đúng: a, d. Sai: b, c", "ý a và d là đúng, ý b và c là sai",
        "đu\u0301ng, sai, sai, đu\u0301ng",
        {"a": "Đ", "b": "S", "c": False, "d": True}, {"A": "đúng", "B": "s", "C": 0, "D": 1},
        {"1": "T", "2": "F", "3": "F", "4": "T"},
    ],
)  # fmt: skip
def test_truths_in_many_ways(answer: Any) -> None:
    marked = mark(CLAIMS, answer)
    assert (marked.points, marked.right, marked.given) == (1, (True,) * 4, "ĐSSĐ")


@pytest.mark.parametrize(
    "answer",
    ["ĐS", "ĐSSĐĐ", "d s", "d-d", "có", "a a Đ", "a Đ a S", "Đ?SĐ", "a", 5, True, ["Đ"], ["Đ", "S", "S", "hm"],
     {"e": "Đ"}, {"a": "Đ", "A": "S"}, {"a": "hm"}],
)  # fmt: skip
def test_truths_that_cannot_be_read_are_an_error(answer: Any) -> None:
    with pytest.raises(BadRequest, match="cần Đ hoặc S"):
        mark(CLAIMS, answer)


@given(st.lists(st.sampled_from([True, False, None]), min_size=4, max_size=4))
def test_statements_earn_by_the_table_of_the_examination(answer: list[bool | None]) -> None:
    expected = tuple(given is claim.truth for given, claim in zip(answer, CLAIMS.statements, strict=True))
    marked = mark(CLAIMS, answer)
    table = [Decimal(0), Decimal("0.1"), Decimal("0.25"), Decimal("0.5"), Decimal(1)]
    assert marked.right == expected
    assert marked.points == table[sum(expected)]
    assert marked.max_points == 1
    assert marked.is_answered == any(given is not None for given in answer)


def test_every_pattern_of_truths_is_read_from_every_form() -> None:
    for pattern in product([True, False], repeat=4):
        letters = "".join("Đ" if truth else "S" for truth in pattern)
        labelled = ", ".join(f"{label}) {letter}" for label, letter in zip("abcd", letters, strict=True))
        for form in (
            letters,
            fold(letters),
            labelled,
            fold(labelled),
            list(letters),
            dict(zip("abcd", letters, strict=True)),
        ):
            assert mark(CLAIMS, form).given == letters


def test_statements_left_out_are_not_right() -> None:
    assert mark(CLAIMS, "a đúng, c sai").given == "Đ-S-"
    assert mark(CLAIMS, {"b": "S"}).right == (False, True, False, False)


# --- Short answers ---------------------------------------------------------------------------------------------------


def test_points_depend_on_the_subject() -> None:
    assert mark(LENGTH, "2,5", subject="Toán").points == Decimal("0.5")
    assert mark(LENGTH, "2,5", subject="toan 9").points == Decimal("0.5")
    assert mark(LENGTH, "2,5", subject="Vật lí").points == mark(LENGTH, "2,5").points == Decimal("0.25")
    assert max_points(CITY, "Toán") == Decimal("0.25")


@pytest.mark.parametrize(
    ("item", "right", "wrong"),
    [
        ({"key": "0,5"}, ["0.5", "1/2", ".5", "0,50", 0.5, "Đáp số: 0,5", "x = 0,5"],
         ["5", "0,05", "-0,5", "1/3", "0,5 m"]),
        ({"key": 0.125}, ["0,125", "1/8", "0.125"], ["125"]),
        ({"key": "1250"}, ["1 250", "1.250", "1250", 1250], ["1,250", 1.25, "125"]),
        ({"key": "1,25"}, ["1.25", 1.25], ["125", "12,5"]),
        ({"key": "2.125"}, ["2125", "2,125", "2.125"], ["212,5"]),
        # Beside the answer: the unit is told, so it may be left out; another one is wrong.
        ({"key": "2,5", "unit": "m"}, ["2,5", "2,5 m", "2.5m", "2,5 mét"], ["2,5 cm", "250 cm", "2,5 kg", "2,5 quả"]),
        # In the key: the pupil has to give it, unless the stem does.
        ({"key": "5 cm"}, ["5 cm", "5cm", "5 xăng-ti-mét"], ["5", "5 m", "50 mm"]),
        ({"key": "5 cm", "stem": "Dài … cm."}, ["5", "5 cm"], ["5 m"]),
        ({"key": "5 cm", "stem": "Dài bao nhiêu xăng-ti-mét?"}, ["5", "5 cm"], ["5 m"]),
        ({"key": "12", "stem": "Có bao nhiêu quả cam?"}, ["12", "12 quả", "12 quả cam", "12 qua"],
         ["12 cm", "12 học sinh"]),
        ({"key": "50%"}, ["50 %", "50 phần trăm"], ["50", "0,5", "1/2"]),
        ({"key": "50", "unit": "%"}, ["50", "50%"], ["0,5"]),
        ({"key": "100 °C"}, ["100 độ C", "100°C"], ["100", "100 K", "100 °F"]),
        ({"key": "3,14", "decimals": 2}, ["3,14", "3,141", "3.14159"], ["3,15", "3,1"]),
        ({"key": "−89,2", "unit": "°C"}, ["-89,2", "âm 89,2", "–89,2 °C"], ["89,2"]),
        ({"key": "12 triệu đồng"}, ["12 000 000 đồng", "12 triệu đồng"], ["12 đồng", "12 triệu"]),
        ({"key": "1945"}, ["1945", "năm 1945", "nam 1945"], ["1954", "45"]),
        ({"key": "năm 1945"}, ["1945", "Năm 1945"], ["1954"]),
        ({"key": "20 tháng 5 năm 1875"}, ["20/5/1875", "ngày 20-5-1875", "20 thang 5 nam 1875"],
         ["5/1875", "1875", "21/5/1875"]),
        ({"key": "XVII", "stem": "Vào thế kỉ nào?"}, ["XVII", "xvii", "17", "thế kỉ XVII", "the ki 17"], ["XVI", "18"]),
        ({"key": "Robert Koch"}, ["robert koch", " ROBERT  KOCH. ", "là Robert Koch"],
         ["Koch", "Robert Hooke", "Robert Koch và Pasteur"]),
        ({"key": "Hà Nội"}, ["ha noi", "HÀ NỘI", "Đáp án: Hà Nội", "dap an ha noi"], ["Hà Nồi", "Hà Noi", "Hanoi"]),
        ({"key": "hòa tan"}, ["hoà tan", "hoa tan"], ["hóa tan"]),
        ({"key": "CO2"}, ["CO2", "CO₂"], ["Co2", "co2", "CO"]),
        ({"key": "Aa"}, ["Aa"], ["aa", "AA"]),
        ({"key": "NaCl"}, ["NaCl"], ["nacl", "NACL"]),
        ({"key": "IRRI"}, ["irri", "IRRI"], ["IRI"]),
        ({"key": "Oxygen"}, ["oxygen", "OXYGEN"], ["oxy"]),
        ({"key": "="}, ["=", " = "], ["<", ">"]),
        ({"key": "-"}, ["-"], ["+"]),
    ],
)  # fmt: skip
def test_short_answers(item: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    short = read_item({"kind": "short", "stem": "Bao nhiêu?", **item})
    for answer in right:
        assert mark(short, answer).score == 1.0, answer
    for answer in wrong:
        assert mark(short, answer).score == 0.0, answer


@pytest.mark.parametrize("answer", [True, ["5"], {"a": 5}, "5" * 600])
def test_a_short_answer_has_to_be_a_text_or_number(answer: Any) -> None:
    with pytest.raises(BadRequest, match="cần một số hoặc vài từ"):
        mark(LENGTH, answer)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_marked_or_refused(answer: str) -> None:
    for item in (CITY, NUMBERS, CLAIMS):
        try:
            assert mark(item, answer).score in (0.0, 0.1, 0.25, 0.5, 1.0)
        except BadRequest:
            continue
    assert mark(LENGTH, answer).score in (0.0, 1.0)
    assert mark(Short(stem="Ai?", key="Hà Nội"), answer).score in (0.0, 1.0)


# --- What is shown, and in which order -------------------------------------------------------------------------------


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in (name, *leaves(inner))]
    return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("item", [CITY, NUMBERS, CLAIMS, LENGTH])
def test_pupils_are_shown_no_key(item: Item) -> None:
    quiz = Quiz(title="Đề", items=(item,))
    for view in (shown(item), arranged(quiz, "an")[0].shown()):
        found = leaves(view)
        assert not {"key", "truth", "evidence", "explanation", "skill", "quote", "statements_truth"} & set(
            map(str, found)
        )
        assert not any("bí mật" in str(leaf) for leaf in found)
        assert not any(isinstance(leaf, bool) for leaf in found)
    if isinstance(item, Short):
        assert item.key not in map(str, leaves(shown(item)))


def test_the_shown_view_is_the_same_whatever_the_key_is() -> None:
    views = [shown(CITY.model_copy(update={"key": key})) for key in range(4)]
    assert all(view == views[0] for view in views)


QUIZ = Quiz(title="Đề 1", items=(LENGTH, CLAIMS, CITY, NUMBERS), subject="Toán", grade=6, seed=3)


def test_order_is_the_same_for_the_same_pupil_and_differs_between_pupils() -> None:
    assert arranged(QUIZ, "an") == arranged(QUIZ, "an")
    orders = {tuple((placed.item.id, placed.order) for placed in arranged(QUIZ, pupil)) for pupil in range(20)}
    assert len(orders) > 10
    for placed in (arranged(QUIZ, pupil) for pupil in range(20)):
        assert [one.item.kind for one in placed] == ["choice", "choice", "true_false", "short"]
    # Pinned: the same on any machine and version, or pupils' stored orders would change under them.
    assert [placed.order for placed in arranged(QUIZ, "an")] == [(0, 1, 2, 3), (2, 0, 1, 3), (1, 3, 2, 0), ()]


@given(st.integers(), st.sampled_from("ABCD"))
def test_a_shuffled_choice_is_marked_back(seed: int, letter: str) -> None:
    placed = next(one for one in arranged(QUIZ, seed) if one.item == CITY)
    text = placed.shown()["options"]["ABCD".index(letter)]
    marked = placed.mark(letter)
    assert marked == mark(CITY, text)
    assert marked.right == (text == "Hà Nội",)
    assert placed.shown()["id"] == CITY.id


@given(st.integers(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_shuffled_statements_are_marked_back(seed: int, truths: list[bool]) -> None:
    placed = next(one for one in arranged(QUIZ, seed) if one.item == CLAIMS)
    said = dict(zip(placed.shown()["statements"], truths, strict=True))
    assert placed.mark(truths) == mark(CLAIMS, [said[claim.text] for claim in CLAIMS.statements])


@pytest.mark.parametrize(
    "last", ["Cả A và B đều đúng", "Tất cả các phương án trên", "Không có đáp án nào đúng", "Ý B và C"]
)
def test_options_that_point_to_others_keep_their_place(last: str) -> None:
    item = Choice(stem="Chọn?", options=("p", "q", "r", last), key=3)
    quiz = Quiz(title="Đề", items=(item,))
    assert {arranged(quiz, seed)[0].order for seed in range(20)} == {(0, 1, 2, 3)}


def test_quizzes_are_checked() -> None:
    assert read_quiz(json.loads(QUIZ.model_dump_json())) == QUIZ
    for wrong, told in (
        ({"items": []}, "ít nhất một câu"),
        ({"items": [CITY, CITY]}, "có hai lần"),
        ({"grade": 13}, "lớp"),
    ):
        with pytest.raises(BadRequest, match=told):
            read_quiz({**dict(QUIZ), **wrong})
