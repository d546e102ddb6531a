"""Search by words, the way pupils type: accents or none, both tone places, numbers, and anything else."""

import itertools
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_library import Library

from deepedu.search import lexical
from deepedu.search.evidence import Scope
from deepedu.search.lexical import LexicalRetriever
from deepedu.store.tables import Passage
from deepedu.store.terms import sentences, terms

ANY = Scope()
NOISE = [f"Câu chuyện thứ {n} kể về một ngôi làng ven sông." for n in range(30)]


@pytest.fixture
def find(library):
    """``find(texts, question)``: indexes of the texts found, best first, among other passages."""

    numbers = itertools.count()

    def find(texts: list[str], question: str) -> list[int]:
        book, ids = library.add(f"S{next(numbers)}", [*texts, *NOISE])
        found = LexicalRetriever(library.db).retrieve(question, Scope(book_ids=(book,)), 50)
        return [ids.index(passage_id) for passage_id, _ in found if ids.index(passage_id) < len(texts)]

    return find


def test_accents_are_found_without_typing_them(find) -> None:
    assert find(["Phương trình bậc hai có hai nghiệm.", "Đường thẳng song song."], "phuong trinh bac hai") == [0]


def test_d_finds_the_barred_d(find) -> None:
    assert find(["Đường thẳng đi qua hai điểm.", "Núi cao."], "duong thang di qua") == [0]


def test_an_exact_match_stands_above_a_folded_one(find) -> None:
    texts = ["Bài học: phương trình bậc hai.", "Bai hoc: phuong trinh bac hai."]
    assert find(texts, "phuong trinh bac hai") == [1, 0]


def test_typed_accents_find_only_those_accents(find) -> None:
    texts = ["Em gửi mã cho bạn.", "Em gọi má ra vườn.", "Em vẽ con ma.", "Em trồng mạ."]
    assert find(texts, "má") == [1]


def test_no_accent_finds_every_accent(find) -> None:
    texts = ["Em gửi mã cho bạn.", "Em gọi má ra vườn.", "Em vẽ con ma."]
    assert sorted(find(texts, "ma")) == [0, 1, 2]


def test_no_accent_prefers_what_was_typed(find) -> None:
    assert find(["Em gửi mã cho bạn.", "Em gọi má ra vườn.", "Em vẽ con ma."], "ma")[0] == 2


def test_among_different_accents_the_typed_one_wins(find) -> None:
    """ "bán" and "bàn" both hold the rest of the question; the accent decides."""
    texts = ["Chiếc bàn gỗ ở cửa hàng.", "Cửa hàng bán gỗ ở phố."]
    assert find(texts, "cửa hàng bán gỗ")[0] == 1


def test_mixed_typing(find) -> None:
    texts = ["Chiến thắng Bạch Đằng năm 938 do Ngô Quyền chỉ huy.", "Chiến dịch Biên giới."]
    assert find(texts, "chien thắng Bạch dang")[0] == 0


@pytest.mark.parametrize("question", ["hoà bình", "hòa bình", "HOÀ BÌNH", "hoa binh"])
def test_both_places_of_the_tone_mark(find, question: str) -> None:
    assert find(["Nhân dân yêu chuộng hòa bình.", "Chiến tranh."], question) == [0]
    assert find(["Ngày hội hoà bình thế giới.", "Chiến tranh lớn."], question) == [0]


def test_composed_and_decomposed_typing_rank_the_same(library) -> None:
    library.add("Y tế", ["Bệnh viện tỉnh nằm ở trung tâm.", "Bệnh nhân đến viện.", *NOISE])
    retriever = LexicalRetriever(library.db)
    composed = retriever.retrieve(unicodedata.normalize("NFC", "bệnh viện"), ANY, 10)
    decomposed = retriever.retrieve(unicodedata.normalize("NFD", "bệnh viện"), ANY, 10)
    assert len(composed) == 2
    assert composed == decomposed


@pytest.mark.parametrize("written", ["1.954", "1954", "1 954", "1,954"])
@pytest.mark.parametrize("asked", ["1.954", "1954", "1 954"])
def test_digit_groups(find, written: str, asked: str) -> None:
    assert find([f"Xã có {written} người.", "Xã có 2.017 người."], f"số {asked}") == [0]


def test_terms_see_through_writing() -> None:
    assert terms("Cân nặng 5kg, 1.200.000 đồng") == ["cân", "nặng", "5", "kg", "1200000", "đồng"]
    assert terms("2.9.1945") == ["2", "9", "1945"]
    assert terms("H₂O và m²") == ["h2o", "và", "m2"]
    assert terms("1.954,5 km") == ["1954", "5", "km"]
    assert sentences("Một câu. Hai câu!\nBa") == [["một", "câu"], ["hai", "câu"], ["ba"]]


def test_the_pair_decides_between_passages_of_the_same_syllables(find) -> None:
    texts = ["Sinh viên học môn toán ở trường.", "Học sinh vào lớp, viên phấn ở trên bàn."]
    assert find(texts, "học sinh")[0] == 1
    assert find(["Trường có viên học, sinh sau.", "Trường có sinh viên đông."], "sinh viên")[0] == 1


def test_one_good_sentence_beats_scattered_words(find) -> None:
    scattered = "Sông chảy. Đà đổi. Nhà máy cũ. Thủy sản nhiều. Điện sáng."
    together = "Nhà máy thủy điện trên sông Đà phát điện. Cá bơi. Chim hót. Mây bay."
    assert find([scattered, together], "nhà máy thủy điện sông Đà")[0] == 1


def test_question_words_do_not_pull(find) -> None:
    texts = ["Ai là ai? Cái gì là gì? Năm nào là năm nào?", "Lý Công Uẩn dời đô về Thăng Long."]
    assert find(texts, "Ai dời đô về Thăng Long năm nào?")[0] == 1
    # Alone they are all there is to go by.
    assert find(["Ai đó gọi tên em.", "Trời mưa."], "ai") == [0]


def test_titles_count(library) -> None:
    _, first = library.add("Lịch sử", ["Ông sinh năm 1380 ở Nhị Khê.", *NOISE], heading="Bài 5. Nguyễn Trãi")
    _, second = library.add("Địa lí", ["Ông sinh năm 1380 ở Nhị Khê."], heading="Bài 9. Lê Lợi")
    found = LexicalRetriever(library.db).retrieve("Nguyễn Trãi sinh năm nào?", ANY, 5)
    assert [passage_id for passage_id, _ in found][:2] == [first[0], second[0]]
    by_book = LexicalRetriever(library.db).retrieve("dia li", ANY, 5)
    assert [passage_id for passage_id, _ in by_book] == second


def test_scope(library) -> None:
    text = "Nước sôi ở một trăm độ."
    six, six_ids = library.add("Khoa học 6", [text], grade=6, subject="Khoa học tự nhiên")
    _, seven_ids = library.add("Khoa học 7", [text], grade=7, subject="Khoa học tự nhiên")
    retriever = LexicalRetriever(library.db)

    def found(scope: Scope) -> list[int]:
        return sorted(passage_id for passage_id, _ in retriever.retrieve("nước sôi", scope, 5))

    assert found(ANY) == six_ids + seven_ids
    assert found(Scope(grade=6)) == six_ids
    assert found(Scope(subject="khoa hoc tu nhien", grade=7)) == seven_ids
    assert found(Scope(book_ids=(six,))) == six_ids
    assert found(Scope(book_ids=(six,), grade=7)) == []
    assert found(Scope(book_ids=())) == []


def test_books_that_come_and_go_are_noticed(library) -> None:
    retriever = LexicalRetriever(library.db)
    assert retriever.retrieve("nước", ANY, 5) == []
    book, ids = library.add("A", ["Nước sôi."])
    library.add("B", ["Nước chưa đọc xong."], status="reading")
    assert [passage_id for passage_id, _ in retriever.retrieve("nước", ANY, 5)] == ids
    library.delete(book)
    assert retriever.retrieve("nước", ANY, 5) == []


def test_score_agrees_with_retrieve(library) -> None:
    _, ids = library.add("A", ["Nước sôi bốc hơi.", "Nước đá tan.", "Lửa cháy.", *NOISE])
    retriever = LexicalRetriever(library.db)
    ranked = dict(retriever.retrieve("nước sôi", ANY, 10))
    scores = retriever.score("nước sôi", [*ids[:3], 10**9])
    assert scores == {**ranked, ids[2]: 0.0}
    assert retriever.score("nước sôi", []) == {}


def test_a_large_library_proposes_by_its_rare_words(library, monkeypatch) -> None:
    monkeypatch.setattr(lexical, "LARGE", 10)
    _, ids = library.add("A", ["Ngôi làng có cây đa cổ thụ.", *NOISE])
    retriever = LexicalRetriever(library.db)
    assert [i for i, _ in retriever.retrieve("cây đa ngôi làng", ANY, 50)] == [ids[0]]
    # Where every word is common, they all propose.
    assert len(retriever.retrieve("ngôi làng", ANY, 50)) == len(NOISE) + 1


def test_a_pasted_page_is_a_question_too(library) -> None:
    _, ids = library.add("A", ["Quang hợp tạo ra khí ôxi.", *NOISE])
    pasted = " ".join(f"từ{n}" for n in range(3000)) + " quang hợp"
    assert LexicalRetriever(library.db).retrieve(pasted, ANY, 3)[0][0] == ids[0]
    assert LexicalRetriever(library.db).retrieve("quang hợp " * 500, ANY, 3)[0][0] == ids[0]


@pytest.mark.parametrize("question", ["", "   ", "?!...", "\0", "“”", "😀", "\ud800"])
def test_a_question_without_words_finds_nothing(library, question: str) -> None:
    library.add("A", ["Nước sôi."])
    assert LexicalRetriever(library.db).retrieve(question, ANY, 5) == []


AWKWARD = [
    '"',
    "'",
    "*",
    "NEAR(",
    "AND",
    "OR",
    "NOT",
    "-",
    "^",
    "{words}:",
    "(",
    ")",
    "+",
    ":",
    "\\",
    "%",
    ";--",
    "col:x",
]


@pytest.mark.parametrize("sign", AWKWARD)
def test_signs_and_operators_are_only_text(find, sign: str) -> None:
    assert find(["Nước sôi bốc hơi.", "Lửa cháy."], f"nước {sign} sôi{sign}") == [0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    library = Library(tmp_path_factory.mktemp("filled") / "data")
    library.add("A", ["Nước sôi bốc hơi.", "Lửa cháy."])
    yield LexicalRetriever(library.db)
    library.db.close()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(), st.lists(st.sampled_from([*AWKWARD, "nước", "sôi", " "])).map("".join)))
def test_no_text_breaks_the_query(filled, question: str) -> None:
    for passage_id, score in filled.retrieve(question, ANY, 5):
        assert passage_id > 0
        assert score > 0


def test_the_title_asked_for_beats_a_longer_one(library) -> None:
    other, _ = library.add("Đồng bằng sông Hồng", ["Vùng đất này rất màu mỡ.", *NOISE])
    asked, _ = library.add("Sông Hồng", ["Nơi đây nước chảy xiết.", *NOISE])
    found = LexicalRetriever(library.db).retrieve("sông Hồng là gì", ANY, 1)
    with library.db.read() as session:
        assert session.get_one(Passage, found[0][0]).book_id == asked != other


@pytest.mark.parametrize(
    "task", ["Hãy giới thiệu về", "Em hãy trình bày khái niệm", "Cho em biết", "em hay ke ten", "Nêu định nghĩa"]
)
def test_the_words_of_a_task_are_not_looked_for(find, task: str) -> None:
    texts = [
        "Quang hợp diễn ra ở lá cây.",
        "Bài này giới thiệu, trình bày, nêu khái niệm, định nghĩa và kể tên em biết.",
    ]
    assert find(texts, f"{task} quang hợp")[0] == 0


def test_a_question_that_is_nothing_but_a_task_is_searched_as_it_is(find) -> None:
    assert find(["Bài giới thiệu của em.", "Quang hợp."], "giới thiệu") == [0]
