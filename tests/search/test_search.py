"""Question in, evidence out: the whole of search."""

import threading

import pytest
from small_library import HashEmbedder

from deepedu.base.config import SearchSettings
from deepedu.base.errors import SearchError
from deepedu.search.embed import embed_missing
from deepedu.search.evidence import Scope
from deepedu.search.search import Mode, Search
from deepedu.store import Database

WORDS_ONLY = SearchSettings(dense="off")


def test_evidence_tells_its_place(library) -> None:
    text = "Năm 938, Ngô Quyền thắng trận Bạch Đằng."
    book, ids = library.add(
        "Lịch sử 5",
        ["Trang đầu.", text],
        lesson=("Bài 3", "Bạch Đằng"),
        chapter=("Chương II", "Dựng nước"),
        label="57",
    )
    [found] = Search(library.db, WORDS_ONLY).search("Ngô Quyền thắng trận nào?")
    assert found.passage_id == ids[1]
    assert (found.book_id, found.book) == (book, "Lịch sử 5")
    assert (found.chapter, found.lesson) == ("Chương II. Dựng nước", "Bài 3. Bạch Đằng")
    assert (found.first_page, found.last_page, found.page_labels) == (2, 2, {2: "57"})
    assert found.text == text
    assert found.place_of(4) == (2, 4)
    assert found.has_pages
    assert found.scores == {"lexical": found.score}


def test_the_right_book_before_and_after_another_goes(library) -> None:
    first, _ = library.add("Sách 1", ["Sông Hồng chảy ra biển."])
    second, ids = library.add("Sách 2", ["Sông Hương chảy qua Huế."])
    search = Search(library.db, WORDS_ONLY)
    for scope in (Scope(), Scope(book_ids=(second,))):
        assert search.search("sông nào chảy qua Huế", scope=scope)[0].passage_id == ids[0]
    library.delete(first)
    assert [item.book_id for item in search.search("sông Hương")] == [second]


def test_unfinished_books_are_not_searched(library, embedder) -> None:
    library.add("A", ["Nước sôi."], status="reading")
    assert Search(library.db, SearchSettings(), embedder).search("nước sôi") == []


@pytest.mark.parametrize("question", ["", " ", "?", "😀!"])
def test_nothing_asked_nothing_found(library, embedder, question: str) -> None:
    library.add("A", ["Nước sôi."])
    embed_missing(library.db, embedder)
    assert Search(library.db, SearchSettings(), embedder).search(question) == []


def test_limit(library) -> None:
    library.add("A", [f"Nước sôi lần {n}." for n in range(30)])
    assert len(Search(library.db, WORDS_ONLY).search("nước sôi", limit=7)) == 7
    assert len(Search(library.db, SearchSettings(dense="off", candidates=1)).search("nước sôi", limit=7)) == 7


class Meaning(HashEmbedder):
    """Knows that "ôxi" and "dưỡng khí" are the same."""

    def _vector(self, text: str):
        return super()._vector(text.replace("dưỡng khí", "ôxi"))


def test_meaning_finds_what_words_do_not(library) -> None:
    _, ids = library.add("A", ["Cây nhả ra ôxi.", "Mèo bắt chuột.", "Trời mưa to."])
    meaning = Meaning()
    search = Search(library.db, SearchSettings(), meaning)
    assert search.search("dưỡng khí") == []
    embed_missing(library.db, meaning)
    found = search.search("dưỡng khí")
    assert found[0].passage_id == ids[0]
    assert set(found[0].scores) == {"lexical", "dense"}


def test_a_half_embedded_library_answers_from_both_halves(library, embedder) -> None:
    _, old = library.add("Cũ", ["Nước sôi ở trăm độ.", "Mèo bắt chuột."])
    embed_missing(library.db, embedder)
    _, new = library.add("Mới", ["Vua Lý dời đô về Thăng Long.", "Trời mưa."])
    search = Search(library.db, SearchSettings(), embedder)
    assert search.search("Vua Lý dời đô về đâu?")[0].passage_id == new[0]
    assert search.search("nước sôi ở mấy độ?")[0].passage_id == old[0]
    assert search.modes() == [Mode("lexical", True), Mode("dense", True, "2 of 4 passages have their vector")]


def test_modes_say_why_not(library, embedder) -> None:
    assert Search(library.db, WORDS_ONLY).modes()[1] == Mode("dense", False, "turned off (search.dense)")
    search = Search(library.db, SearchSettings(), embedder)
    library.add("A", ["Nước sôi."])
    assert search.modes()[1] == Mode("dense", False, "0 of 1 passages have their vector")
    embed_missing(library.db, embedder)
    assert search.modes() == [Mode("lexical", True), Mode("dense", True)]


def test_an_embedder_that_fails_leaves_the_words(library, embedder, caplog) -> None:
    _, ids = library.add("A", ["Nước sôi.", "Mưa rơi."])
    embed_missing(library.db, embedder)

    class Down(HashEmbedder):
        def embed_query(self, text):
            raise SearchError(f"endpoint down, {len(text)} characters unsent")

    search = Search(library.db, SearchSettings(), Down())
    for _ in range(3):
        assert [item.passage_id for item in search.search("nước sôi")] == [ids[0]]
    assert caplog.text.count("endpoint down") == 1
    assert search.modes()[1] == Mode("dense", False, "endpoint down, 8 characters unsent")


def test_many_threads_share_one_search(library, embedder) -> None:
    _, ids = library.add("A", [f"Con số {n} đứng ở đây." for n in range(40)])
    embed_missing(library.db, embedder)
    search = Search(library.db, SearchSettings(), embedder)
    wrong: list[int] = []

    def ask(number: int) -> None:
        if search.search(f"con số {number}")[0].passage_id != ids[number]:
            wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_lesson_is_looked_into_alone(sample_library: Database) -> None:
    search = Search(sample_library, SearchSettings(dense="off"))
    whole = search.search("nước sôi ở bao nhiêu độ")
    section = whole[-1].section_id
    assert section != whole[0].section_id
    within = search.search("nước sôi ở bao nhiêu độ", scope=Scope(section_id=section))
    assert within
    assert {each.section_id for each in within} == {section}
    assert search.search("nước sôi ở bao nhiêu độ", scope=Scope(book_ids=(99,), section_id=section)) == []
