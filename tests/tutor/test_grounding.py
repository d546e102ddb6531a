"""Answers stand on the book: nothing is marked as supported that the evidence does not bear."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import NOT_IN_BOOK, Answer, Status
from deepedu.tutor.grounding import Grounder

BATTLE = (
    "Năm 938, Ngô Quyền lãnh đạo quân dân ta đánh tan quân Nam Hán trên sông Bạch Đằng. Ông cho đóng cọc gỗ đầu bịt "
    "sắt xuống lòng sông. Năm 939, Ngô Quyền xưng vương, đóng đô ở Cổ Loa. Ông trị vì được sáu năm."
)
NATURE = (
    "Đỉnh Phan-xi-păng cao 3.143 m, là đỉnh núi cao nhất nước ta. Đất feralit chiếm diện tích lớn nhất. "
    "Đất phù sa tập trung ở các đồng bằng. Nước sôi ở 100 °C và đông đặc ở 0 °C."
)
RIVERS = "Tên sông | Chiều dài (km) | Nơi đổ ra\nSông Hồng | 1149 | Biển Đông\nSông Mê Công | 4350 | Biển Đông"
SCALE = (
    "Anders Celsius đề xuất thang đo nhiệt độ năm 1742. Thang này chia khoảng giữa điểm đông đặc và điểm sôi của nước "
    "thành 100 phần bằng nhau. Không khí không màu, không mùi."
)


def passage(number: int, text: str, lesson: str) -> Evidence:
    spans = ((0, len(text), number + 4, 200),)
    return Evidence(number, 1, "Khoa học 5", "Chương I", lesson, text, number + 4, number + 4, spans)


BOOK = [
    passage(1, BATTLE, "Bài 5: Chiến thắng Bạch Đằng"),
    passage(2, NATURE, "Bài 2: Thiên nhiên"),
    passage(3, RIVERS, "Bài 3: Sông ngòi"),
    passage(4, SCALE, "Bài 4: Nhiệt độ"),
]
BATTLE_YEAR = "Ngô Quyền đánh tan quân Nam Hán năm nào?"


def answer(question: str, draft: str) -> Answer:
    return Grounder(question, BOOK).finish(draft)


def assert_quotes_are_slices(checked: Answer, evidence: list[Evidence] = BOOK) -> None:
    for sentence in checked.sentences:
        citation = sentence.citation
        assert (citation is None) == (sentence.status is Status.UNSUPPORTED)
        if citation is not None:
            piece = evidence[citation.marker - 1]
            assert piece.text[citation.start : citation.end] == citation.quote
            assert (piece.passage_id, piece.lesson) == (citation.passage_id, citation.lesson)
            assert (citation.page, citation.page_start) == piece.place_of(citation.start)


@pytest.mark.parametrize(
    ("question", "draft", "page"),
    [
        (BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán vào năm 938 trên sông Bạch Đằng [1].", 5),
        (BATTLE_YEAR, "Theo thông tin trong đoạn [1], Ngô Quyền đã đánh tan quân Nam Hán năm 938.", 5),
        (BATTLE_YEAR, "Ngo Quyen danh tan quan Nam Han nam 938.", 5),
        (BATTLE_YEAR, "Năm 938.", 5),
        (BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán năm 938 [3].", 5),
        ("Đỉnh núi nào cao nhất nước ta?", "Phan-xi-păng là đỉnh núi cao nhất nước ta, cao 3143 mét [2].", 6),
        ("Sông Hồng dài bao nhiêu km?", "Sông Hồng dài 1149 km [3].", 7),
        ("Nước sôi ở bao nhiêu độ?", "Nước sôi ở 100 độ C [2].", 6),
        ("Ai đề xuất thang đo nhiệt độ?", "Anders Celsius là người đề xuất thang đo nhiệt độ vào năm 1742 [4].", 8),
        ("Không khí có màu không?", "Không khí không có màu [4].", 8),
    ],
)
def test_true_sentences_are_supported_and_cite_their_page(question: str, draft: str, page: int) -> None:
    checked = answer(question, draft)
    assert checked.found
    supported = [s for s in checked.sentences if s.status is Status.SUPPORTED]
    assert [s.citation.page for s in supported if s.citation] == [page]
    assert all("[" not in s.text for s in checked.sentences)
    assert_quotes_are_slices(checked)


@pytest.mark.parametrize(
    ("question", "draft", "told", "right"),
    [
        (BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán năm 940 [1].", "940", "938"),
        (BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán năm 939 [1].", "939", "938"),
        (BATTLE_YEAR, "Năm 939.", "939", "938"),
        (BATTLE_YEAR, "Lê Lợi đánh tan quân Nam Hán năm 938 [1].", "Lê Lợi", "Ngô Quyền"),
        ("Ai đóng đô ở Cổ Loa?", "Nam Hán xưng vương, đóng đô ở Cổ Loa năm 939 [1].", "Nam Hán", "Ngô Quyền"),
        (BATTLE_YEAR, "Ngô Quyên đánh tan quân Nam Hán năm 938 [1].", "Ngô Quyên", "Ngô Quyền"),
        ("Loại đất nào chiếm diện tích lớn nhất?", "Đất phù sa chiếm diện tích lớn nhất [2].", "phù sa", "feralit"),
        ("Loại đất nào chiếm diện tích lớn nhất?", "Đất feralit chiếm diện tích nhỏ nhất.", "nhỏ nhất", "lớn nhất"),
        ("Sông Hồng dài bao nhiêu km?", "Sông Hồng dài 4350 km [3].", "4350", "1149"),
        ("Sông Hồng dài bao nhiêu km?", "Sông Hồng dài 1149 m [3].", "1149 m", "1149"),
        ("Nước sôi ở bao nhiêu độ?", "Nước sôi ở 0 độ C [2].", "0 độ C", "100 °C"),
        ("Nước sôi ở bao nhiêu độ?", "Nước không sôi ở 100 độ C [2].", "không", "100 °C"),
        ("Ai đề xuất thang đo nhiệt độ?", "Isaac Newton đề xuất thang đo nhiệt độ [4].", "Newton", "Anders Celsius"),
        (BATTLE_YEAR, "吴权在938年击败了南汉。", "tiếng Việt", "938"),
        (BATTLE_YEAR, "Ngo Quyen defeated the Southern Han army in 938.", "Southern Han", "938"),
    ],
)
def test_false_sentences_name_the_culprit_and_give_way_to_the_book(
    question: str, draft: str, told: str, right: str
) -> None:
    checked = answer(question, draft)
    assert checked.found
    (quoted,) = checked.sentences
    assert quoted.status is Status.QUOTED
    assert told in (quoted.reason or "")
    assert quoted.replaces
    assert right in quoted.text
    assert_quotes_are_slices(checked)


@pytest.mark.parametrize(
    "question",
    [
        "Anders Celsius mất năm nào?",
        "Vua Quang Trung đại phá quân Thanh năm nào?",
        "Thủ đô của nước Pháp là gì?",
        "Quang hợp diễn ra ở bộ phận nào của cây?",
        "vua quang trung dai pha quan thanh nam nao",
    ],
)
@pytest.mark.parametrize("draft", ["", "Không có thông tin về điều này.", "Năm 1789 [7].", "Đó là Paris [1]."])
def test_what_the_book_does_not_say(question: str, draft: str) -> None:
    checked = answer(question, draft)
    assert not checked.found
    assert checked.text == NOT_IN_BOOK
    assert not [s for s in checked.sentences if s.status is not Status.UNSUPPORTED]
    assert 1 <= len(checked.nearest) <= 3
    assert len({lesson.lesson for lesson in checked.nearest}) == len(checked.nearest)


def test_nearest_lesson_is_the_one_about_the_subject() -> None:
    assert answer("Anders Celsius mất năm nào?", "").nearest[0].lesson == "Bài 4: Nhiệt độ"


@pytest.mark.parametrize("question", [BATTLE_YEAR, fold(BATTLE_YEAR)])
@pytest.mark.parametrize("draft", ["", "Xin chào!", "```python\nprint(938)\n```", "[1]", "Bạn hỏi gì?"])
def test_a_silent_model_leaves_the_word_to_the_book(question: str, draft: str) -> None:
    (quoted,) = answer(question, draft).sentences
    assert quoted.status is Status.QUOTED
    assert "938" in quoted.text
    assert quoted.replaces is None


def test_a_table_row_is_read_with_its_head() -> None:
    (quoted,) = answer("Sông Hồng dài bao nhiêu km?", "").sentences
    assert quoted.text == "Tên sông: Sông Hồng; Chiều dài: 1149 km; Nơi đổ ra: Biển Đông."
    assert quoted.citation
    assert quoted.citation.quote == "Sông Hồng | 1149 | Biển Đông"


def test_restating_the_question_is_not_taken_for_an_answer() -> None:
    checked = answer(BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán trên sông Bạch Đằng.")
    assert [s.status for s in checked.sentences] == [Status.QUOTED, Status.SUPPORTED]


def test_one_invented_sentence_does_not_spoil_the_others() -> None:
    draft = "Ngô Quyền đánh tan quân Nam Hán năm 938 [1]. Ông mất năm 944 [1]. Chúc bạn học tốt!"
    checked = answer(BATTLE_YEAR, draft)
    assert [s.status for s in checked.sentences] == [Status.SUPPORTED, Status.UNSUPPORTED]
    assert "944" in (checked.sentences[1].reason or "")
    assert "944" not in checked.text


def test_repeated_sentences_are_shown_once() -> None:
    checked = answer(BATTLE_YEAR, "Ngô Quyền đánh tan quân Nam Hán năm 938. " * 5)
    assert len(checked.sentences) == 1


@pytest.mark.parametrize("markers", ["[7]", "[0]", "[99999]", "[1][7]", "[n]", "[2, 9]"])
def test_markers_that_point_at_nothing_are_removed(markers: str) -> None:
    checked = answer(BATTLE_YEAR, f"Ngô Quyền đánh tan quân Nam Hán năm 938 {markers}.")
    (sentence,) = checked.sentences
    assert sentence.status is Status.SUPPORTED
    assert "[" not in sentence.text
    assert sentence.citation
    assert sentence.citation.marker == 1


@pytest.mark.parametrize("draft", ["", "Ngô Quyền thắng năm 938 [7].", BATTLE, "[1]"])
def test_without_evidence_nothing_is_found(draft: str) -> None:
    for evidence in ([], [passage(1, "", "Bài 1")]):
        checked = Grounder(BATTLE_YEAR, evidence).finish(draft)
        assert not checked.found
        assert all(s.status is Status.UNSUPPORTED for s in checked.sentences)


def test_streamed_verdicts_are_those_of_the_whole() -> None:
    pieces = ["Ngô Quyền đánh tan quân Nam Hán năm 938 [1].", "Ông mất năm 944.", "Chúc bạn học tốt!"]
    grounder = Grounder(BATTLE_YEAR, BOOK)
    streamed = [grounder.check_sentence(piece) for piece in pieces]
    assert streamed[2] is None
    assert tuple(s for s in streamed if s) == grounder.finish(" ".join(pieces)).sentences


# --- Properties ------------------------------------------------------------------------------------------------------

SENTENCES = [s for text in (BATTLE, NATURE, SCALE) for s in re.findall(r"[^.]+(?:\.\d+[^.]*)*\.", text)]
NAMES = ["Ngô Quyền", "Nam Hán", "Bạch Đằng", "Cổ Loa", "Anders Celsius", "Phan-xi-păng"]
OTHER_NAMES = ["Lê Lợi", "Nguyễn Huệ", "Chi Lăng", "Isaac Newton", "Hoa Lư", "Tống", "Louis Pasteur"]
QUESTIONS = [BATTLE_YEAR, "Nước sôi ở bao nhiêu độ?", "Ai đề xuất thang đo nhiệt độ?", "", "???"]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_books_own_sentence_is_supported_by_itself(sentence: str, question: str) -> None:
    checked = Grounder(question, BOOK).check_sentence(sentence.strip() + " [2]")
    assert checked
    assert checked.status is Status.SUPPORTED
    assert checked.citation
    assert checked.citation.quote == sentence.strip()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SENTENCES), st.sampled_from(QUESTIONS), st.integers(0, 99_999), st.randoms())
def test_a_changed_number_is_never_supported(sentence: str, question: str, number: int, chance: random.Random) -> None:
    places = list(re.finditer(r"\d+(?:\.\d+)*", sentence))
    all_numbers = {n.replace(".", "") for n in re.findall(r"\d+(?:\.\d+)*", " ".join(e.text for e in BOOK))}
    if not places or str(number) in all_numbers:
        return
    place = chance.choice(places)
    changed = sentence[: place.start()] + str(number) + sentence[place.end() :]
    checked = Grounder(question, BOOK).check_sentence(changed)
    assert checked is None or checked.status is Status.UNSUPPORTED, changed


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SENTENCES), st.sampled_from(QUESTIONS), st.sampled_from(OTHER_NAMES))
def test_a_changed_name_is_never_supported(sentence: str, question: str, name: str) -> None:
    for old in NAMES:
        if old in sentence:
            checked = Grounder(question, BOOK).check_sentence(sentence.replace(old, name))
            assert checked is None or checked.status is Status.UNSUPPORTED


_PIECES = st.sampled_from(
    [
        *SENTENCES,
        "[1]",
        "[7]",
        "Năm 938.",
        "Không có thông tin.",
        "Lê Lợi",
        "939",
        "```",
        "\n\n",
        " | ",
        "?",
        "- ",
        "Ông",
    ]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=8), st.one_of(st.sampled_from(QUESTIONS), st.text()))
def test_whatever_the_draft_the_answer_is_sound(pieces: list[str], question: str) -> None:
    checked = Grounder(question, BOOK).finish(" ".join(pieces))
    assert_quotes_are_slices(checked)
    assert checked.found or checked.text == NOT_IN_BOOK
    for sentence in checked.sentences:
        if sentence.status is Status.SUPPORTED and sentence.citation:
            assert set(re.findall(r"\d{2,}", sentence.text.replace(".", ""))) <= set(
                re.findall(r"\d{2,}", sentence.citation.quote.replace(".", ""))
            )


@pytest.mark.parametrize(
    ("book", "draft", "status"),
    [
        ("Anders Celsius quan sát sinh vật năm 1674.", "Anders Celsius sinh năm 1674.", Status.UNSUPPORTED),
        ("Anders Celsius sinh năm 1701 ở Uppsala.", "Anders Celsius sinh năm 1701.", Status.SUPPORTED),
        ("Anders Celsius hi sinh năm 1744.", "Anders Celsius sinh năm 1744.", Status.UNSUPPORTED),
    ],
)
def test_births_and_deaths_must_be_told(book: str, draft: str, status: Status) -> None:
    passage = Evidence(1, 1, "Sách", None, "Bài 1", book, 1, 1, ((0, len(book), 1, 0),))
    checked = Grounder("Anders Celsius là ai?", [passage]).check_sentence(draft)
    assert checked is not None
    assert checked.status is status


def told(question: str, *book: str, draft: str = "") -> str:
    passages = [
        Evidence(n, 1, "Sách", None, "Bài 1", text, 1, 1, ((0, len(text), 1, 0),)) for n, text in enumerate(book, 1)
    ]
    return Grounder(question, passages).finish(draft).text


def test_a_formula_is_quoted_with_the_line_that_announces_it() -> None:
    book = "Khối lượng riêng D của chất được tính theo công thức sau:\n\nD = m/V\n\nĐơn vị là kg/m³."
    assert "D = m/V" in told("Khối lượng riêng được tính theo công thức nào?", book)


def test_a_definition_is_preferred_to_something_true_of_the_thing() -> None:
    definition = "Chất chuyển thẳng từ thể rắn sang thể khí, hiện tượng này gọi là sự thăng hoa."
    true = "Nước đá khô thăng hoa ở −78,5 °C."
    assert "gọi là sự thăng hoa" in told("su thang hoa la gi", f"{definition} {true}", draft=true)


def test_the_row_of_another_thing_answers_nothing() -> None:
    book = "Chất | Nhiệt độ sôi (°C)\nNước | 100\nSắt | 2 861"
    assert "2 861 °C" in told("Nhiệt độ sôi của sắt là bao nhiêu?", book)
    assert told("Nhiệt độ sôi của hydrogen là bao nhiêu?", book) == NOT_IN_BOOK


def test_tasks_of_an_exercise_are_no_statements() -> None:
    book = "Hãy đổi nhiệt độ 27 °C ra kelvin. Nước sôi ở 100 °C."
    shown = told("Nước sôi ở bao nhiêu độ C?", book, draft="Hãy đổi nhiệt độ 27 °C ra kelvin. Nước sôi ở 100 °C.")
    assert shown == "Nước sôi ở 100 °C."


def test_what_is_true_but_beside_the_point_is_left_out() -> None:
    book = "Robert Hooke gọi mỗi ô là cell. Vi khuẩn thường dài từ 0,5 µm đến 5 µm. Cây lúa cần nhiều nước."
    shown = told("Ai gọi mỗi ô là cell?", book, draft=f"{book} Robert Hooke gọi mỗi ô là cell.")
    assert shown == "Robert Hooke gọi mỗi ô là cell."


def test_a_name_may_stand_for_he_and_his_colleagues() -> None:
    book = (
        "Lương Định Của sinh năm 1920 ở Sóc Trăng. Ông cùng các cộng sự đã tạo ra giống lúa Nông nghiệp 1, cho năng "
        "suất cao hơn giống cũ."
    )
    draft = "Lương Định Của đã tạo ra giống lúa Nông nghiệp 1."
    assert told("Lương Định Của đã tạo ra giống lúa nào?", book, draft=draft) == draft


def test_a_word_from_another_sentence_behind_the_question_is_no_answer() -> None:
    book = (
        "Hậu quả tồi tệ nhất của việc hủy hoại môi trường là sự tuyệt chủng hàng loạt. "
        "Nhiều nhà khoa học đang theo dõi sự nóng lên của khí hậu."
    )
    question = "Hậu quả tồi tệ nhất của việc hủy hoại môi trường là gì?"
    draft = "Hậu quả tồi tệ nhất của việc hủy hoại môi trường là sự nóng lên của khí hậu."
    shown = told(question, book, draft=draft)
    assert "tuyệt chủng" in shown
    assert draft not in shown


def test_the_question_said_again_is_nothing_said() -> None:
    passage = Evidence(1, 1, "Sách", None, "Bài 1", "Nước sôi ở 100 °C.", 1, 1, ((0, 19, 1, 0),))
    assert Grounder("Nước sôi ở bao nhiêu độ?", [passage]).check_sentence("Nước sôi ở độ.") is None
