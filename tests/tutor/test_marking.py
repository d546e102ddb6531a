"""Answers are marked by what they mean, not by how they are typed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.vietnamese import fold
from deepedu.tutor.marking import choice_of, mark_choice, mark_number, mark_text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("0,5", "0.5"),
        ("0,5", "1/2"),
        (r"\frac{1}{2}", "0,5"),
        (".5", "0,5"),
        ("2/4", "1/2"),
        ("1 1/2", "1,5"),
        ("-1 1/2", "-1,5"),
        (r"2\frac{1}{2}", "2,5"),
        ("1.250.000", "1250000"),
        ("1 250 000 đồng", "1.250.000"),
        ("1.250", "1250"),
        ("1,250", "1250"),
        ("12 triệu", "12.000.000"),
        ("$5.00", "5"),
        ("5 USD", "$5"),
        ("$0,5$", "0.5"),
        ("50%", "50 %"),
        ("50 phần trăm", "50%"),
        ("6 (cm)", "6 cm"),
        ("6cm", "6"),
        ("6", "6 xăng-ti-mét"),
        ("60 km/h", "60 km/giờ"),
        ("12 quả", "12 quả cam"),
        ("12 học sinh.", "12"),
        ("Đáp số: 12 quả", "12 quả"),
        ("x = -3", "-3"),
        ("âm 5", "-5"),
        ("−5", "-5"),
        ("(5)", "5"),
        ("**42**", "42"),
        (" 42. ", "42"),
        ("ba trăm", "300"),
        ("hai mươi lăm quả", "25 quả"),
        ("3·10⁸", "300000000"),
        ("3 × 10^8 m/s", "3·10⁸ m/s"),
        ("√2", r"\sqrt{2}"),
        ("7.0", "7"),
    ],
)
def test_same_number(answer: str, expected: str) -> None:
    assert mark_number(answer, expected)
    assert mark_number(expected, answer)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("0,5", "5"),
        ("5", "-5"),
        ("50%", "50"),
        ("50%", "0,5"),
        ("0,33", "1/3"),
        ("6 m", "6 cm"),
        ("1 km", "1000 m"),
        ("5 USD", "5 đồng"),
        ("12 quả", "12 học sinh"),
        ("3 + 4", "7"),
        ("2 × 3", "6"),
        ("không phải 12", "12"),
        ("12 hoặc 13", "13"),
        ("", "0"),
        ("x", "0"),
        ("1/0", "0"),
        ("một ngôi nhà", "5"),
    ],
)
def test_another_number(answer: str, expected: str) -> None:
    assert not mark_number(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected", "options", "right"),
    [
        ("3,14", "3,14159", {"decimals": 2}, True),
        ("3,15", "3,14159", {"decimals": 2}, False),
        ("2,68", "2,675", {"decimals": 2}, True),
        ("0,33", "1/3", {"decimals": 2}, True),
        ("0,333", "1/3", {"decimals": 2}, True),
        ("15,23%", "15,2349%", {"decimals": 2}, True),
        ("15,2%", "15,4%", {"decimals": 2}, False),
        ("101", "100", {"relative": 0.01}, True),
        ("-101", "-100", {"relative": 0.01}, True),
        ("101,1", "100", {"relative": 0.01}, False),
        ("1.250", "1250", {"decimal": "comma"}, True),
        ("1.250", "1,25", {"decimal": "comma"}, False),
        ("1.250", "1250", {"decimal": "point"}, False),
        ("1,250", "1250", {"decimal": "point"}, True),
        ("50%", "0,5", {"percent_as_fraction": True}, True),
        ("1/2", "50%", {"percent_as_fraction": True}, True),
        ("50%", "50", {"percent_as_fraction": True}, False),
        ("0,1524", "15,235%", {"percent_as_fraction": True, "decimals": 1}, True),
    ],
)
def test_number_options(answer: str, expected: str, options: dict[str, Any], right: bool) -> None:
    assert mark_number(answer, expected, **options) is right


def test_expected_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="'Hà Nội'"):
        mark_number("5", "Hà Nội")


@settings(deadline=None)
@given(st.integers(-(10**9), 10**9), st.sampled_from([".", ",", " ", "\u00a0"]))
def test_grouping_does_not_matter(number: int, mark: str) -> None:
    assert mark_number(f"{number:,}".replace(",", mark), str(number))
    assert not mark_number(f"{number + 1:,}".replace(",", mark), str(number))


LABELLED = ["A. 824", "B. 82,4", "C. 8,24", "D. 0,824"]
PLAIN = ["Hà Nội", "Thành phố Hồ Chí Minh", "Huế", "Đà Nẵng"]


@pytest.mark.parametrize(
    "reply",
    [
        "B",
        "b.",
        "b",
        "(B)",
        "B)",
        "**B**",
        "B. 82,4",
        "b) 82.4",
        "Đáp án: B",
        "Đáp án B",
        "đáp án đúng là b",
        "dap an dung la B.",
        "The answer is B",
        "The correct answer is (B).",
        "Answer: B. 82,4",
        "82,4",
        "82.4",
        " 82,4. ",
        "2",
        "Option 2",
        "Em chọn B",
        "Vậy chọn đáp án B.",
        "Chọn B vì dịch dấu phẩy sang phải một chữ số.",
        "B vì nhân với 100.",
        "Kết quả là 82,4.",
        "Ta nhân 0,824 với 100 nên đáp án là 82,4.",
        "A sai vì nhân với 1000. Đáp án: B",
        "Có thể là A. 824 hoặc C. 8,24.\nTính lại thì đáp án đúng là B.",
        "Đáp án A sai, đáp án B đúng.",
        r"Nhân với 100: \boxed{B}",
        r"\boxed{82,4}",
        r"\boxed{\text{B}}",
        "Dịch dấu phẩy.\nB. 82,4",
        "Phép nhân cho ta 82,4 nhé.",
    ],
)
def test_reply_names_the_second_option(reply: str) -> None:
    assert choice_of(reply, LABELLED) == 1
    assert mark_choice(reply, LABELLED, "B")
    assert not mark_choice(reply, LABELLED, "A. 824")


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("Hà Nội", 0),
        ("ha noi", 0),
        ("Thủ đô là Hà Nội.", 0),
        ("thu do la ha noi", 0),
        ("TP nào? Thành phố Hồ Chí Minh", 1),
        ("3", 2),
        ("C", 2),
        ("Câu trả lời: Đà Nẵng", 3),
        ("Huế từng là kinh đô, nhưng đáp án là Hà Nội.", 0),
        ("Đáp án là Hà Nội, không phải Huế", None),
        ("Hà Nội và Huế", None),
        ("A hoặc B", None),
        ("Vinh", None),
        ("E", None),
        ("5", None),
        ("", None),
        ("A cell is the basic unit of life.", None),
        ("A là chữ cái đầu tiên", None),
        ("The answer is a city in the north.", None),
        ("Vitamin A và B rất tốt", None),
        ("A. Hà Nội\nB. Thành phố Hồ Chí Minh\nC. Huế\nD. Đà Nẵng", None),
        ("A. Huế", None),
        ("không chọn A", None),
    ],
)
def test_reply_to_options_without_labels(reply: str, index: int | None) -> None:
    assert choice_of(reply, PLAIN) == index


def test_place_counts_only_when_no_option_is_that_number() -> None:
    assert choice_of("2", ["4", "6", "2", "8"]) == 2
    assert choice_of("2", ["A. 4", "B. 6", "C. 2,0", "D. 8"]) == 2
    assert choice_of("2", ["4", "6", "3", "8"]) == 1


def test_text_within_another_option_is_not_named_by_it() -> None:
    options = ["Hà Nội", "Hà Nội và Huế"]
    assert choice_of("Hai thành phố là Hà Nội và Huế nhé", options) == 1


def test_labels_are_those_of_the_options() -> None:
    assert choice_of("Đáp án: B", ["B. 5", "A. 7"]) == 0


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("B", True),
        ("b.", True),
        ("B. 60 nghìn đòng", True),
        ("60 000 đòng", True),
        ("60 000 dong", True),
        ("A", False),
        ("50 000 đòng", False),
        # The label counts before the text.
        ("A. 60 000 đồng", False),
    ],
)
def test_answer_need_not_be_verbatim(answer: str, right: bool) -> None:
    assert mark_choice("B", ["A. 50 000 đồng", "B. 60 000 đồng", "C. 70 000 đồng"], answer) is right


def test_answer_must_be_like_a_choice() -> None:
    with pytest.raises(ValueError, match="Sông Hồng"):
        mark_choice("A", PLAIN, "Sông Hồng")


@settings(deadline=None)
@given(
    st.sampled_from("ABCD"), st.sampled_from(["{}", "({})", "{}.", "Đáp án: {}", "**Đáp án đúng là {}.**", "Chọn {}"])
)
def test_any_label_is_read(label: str, form: str) -> None:
    assert (
        choice_of(form.format(label), LABELLED) == choice_of(form.format(label.lower()), PLAIN) == "ABCD".index(label)
    )


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_reply_is_read(reply: str) -> None:
    assert choice_of(reply, LABELLED) in (None, 0, 1, 2, 3)
    assert mark_text(reply, ["Hà Nội"]) in (True, False)


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ("Hà Nội", ["Hà Nội"]),
        ("  hà   nội. ", ["Hà Nội"]),
        ("ha noi", ["Hà Nội"]),
        ("HA NOI!", ["Hà Nội"]),
        ("Da Nang", ["Đà Nẵng"]),
        ("“Truyện Kiều”", ["Truyện Kiều"]),
        ("hoà bình", ["hòa bình"]),
        ("Ha\u0300 No\u0323\u0302i", ["Hà Nội"]),
        ("Nguyễn Ái Quốc", ["Hồ Chí Minh", "Nguyễn Ái Quốc"]),
        ("0,5", ["1/2"]),
        ("1.954", ["1954"]),
        ("12 quả", ["12"]),
        (".5", ["0,5"]),
    ],
)
def test_text_is_accepted(answer: str, accepted: list[str]) -> None:
    assert mark_text(answer, accepted)


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ("má", ["mà"]),
        ("hà noi", ["Hà Nội"]),
        ("Hà Nội và Huế", ["Hà Nội"]),
        ("Hà", ["Hà Nội"]),
        ("hànội", ["Hà Nội"]),
        ("", ["Hà Nội"]),
        ("...", [""]),
        ("Hà Nội", []),
        ("0,5", ["5"]),
        ("Ha Noi", ["ha nọi ơi"]),
    ],
)
def test_text_is_not_accepted(answer: str, accepted: list[str]) -> None:
    assert not mark_text(answer, accepted)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["Nguyễn", "Trãi", "sông", "Hồng", "Đống", "Đa", "bậc", "thang"]), min_size=1, max_size=5)
)
def test_answer_without_accents_is_accepted(words: list[str]) -> None:
    answer = " ".join(words)
    assert mark_text(fold(answer), [answer])
    assert mark_text(f" {answer.upper()} .", [answer])
    assert not mark_text(answer + " nữa", [answer])
