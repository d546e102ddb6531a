"""Whether the sample book bears a text: quotes where it does, reasons where it does not, doubts in between."""

import asyncio

import pytest
import sqlalchemy as sa

from deepedu.base.config import SearchSettings
from deepedu.base.vietnamese import estimate_tokens
from deepedu.bench.library import add_book
from deepedu.playbook.bullet import BULLET_TOKENS, BulletScope
from deepedu.playbook.problem import FactVerdict
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.tables import Book
from deepedu.tutor.fact_check import BookFactCheck

BROWN = "Năm 1831, nhà thực vật học Robert Brown đặt tên cho nhân tế bào khi nghiên cứu các cây lan."
LACTIC = "Vi khuẩn lactic giúp làm sữa chua và dưa muối."


def check(library: Database, text: str, **scope: object) -> FactVerdict:
    facts = BookFactCheck(library, Search(library, SearchSettings(dense="off")))
    return asyncio.run(facts.check(text, BulletScope.model_validate(scope)))


def digest(library: Database) -> str:
    with library.read() as session:
        (found,) = session.scalars(sa.select(Book.sha256))
    return found


def test_a_true_sentence_has_its_quote_in_the_book(sample_library: Database) -> None:
    verdict = check(sample_library, BROWN)
    assert (verdict.reasons, verdict.doubts) == ((), ())
    (found,) = verdict.evidence
    assert (found.book, found.page) == (digest(sample_library), 13)
    assert BROWN.rstrip(".") in found.quote


@pytest.mark.parametrize(
    "text",
    [
        LACTIC,
        BROWN,
        "Nhà thực vật học Robert Brown đặt tên cho nhân tế bào khi nghiên cứu các cây lan vào năm 1831.",
        f"{BROWN} {LACTIC}",
        "Tế bào động vật không có thành tế bào và không có lục lạp.",
    ],
)
def test_what_the_book_says_is_borne(sample_library: Database, text: str) -> None:
    verdict = check(sample_library, text)
    assert (verdict.reasons, verdict.doubts) == ((), ())
    assert verdict.evidence


@pytest.mark.parametrize(
    "text",
    [
        "Năm 1752, Anders Celsius đề xuất một thang nhiệt độ.",
        "Năm 1742, Daniel Gabriel Fahrenheit đề xuất một thang nhiệt độ.",
        "Thuốc kháng sinh có tác dụng với virus.",
        "Số pi đúng bằng 3,14.",
        "Thủ đô của nước Pháp là Paris.",
        # Half of it is true.
        f"{BROWN} Ông sinh năm 1699 tại Uppsala.",
        f"{LACTIC} Mỗi hải lí dài 1 609 m.",
        "Thuốc kháng sinh không có tác dụng với virus. Số pi đúng bằng 3,14.",
    ],
)
def test_what_the_book_does_not_say_is_refused_with_reasons(sample_library: Database, text: str) -> None:
    verdict = check(sample_library, text)
    assert verdict.reasons
    assert all(reason.strip() and "None" not in reason for reason in verdict.reasons)
    # A refusal leaves nothing to look at.
    assert verdict.doubts == ()


def test_only_the_sentence_at_fault_is_named(sample_library: Database) -> None:
    (reason,) = check(sample_library, f"{LACTIC} Mỗi hải lí dài 1 609 m.").reasons
    assert "hải lí" in reason
    assert "lactic" not in reason


def test_two_true_sentences_have_two_quotes_and_twice_the_same_has_one(sample_library: Database) -> None:
    assert len(check(sample_library, f"{BROWN} {LACTIC}").evidence) == 2
    assert len(check(sample_library, f"{LACTIC} {LACTIC}").evidence) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Thuốc kháng sinh không có tác dụng với virus.",
        # Half of a sentence: what was left out may have been a condition.
        "Mỗi in-sơ dài đúng 2,54 cm.",
    ],
)
def test_what_is_not_a_whole_sentence_of_the_book_is_left_to_a_person(sample_library: Database, text: str) -> None:
    verdict = check(sample_library, text)
    assert verdict.reasons == ()
    (doubt,) = verdict.doubts
    assert "lời khác" in doubt
    # With the quote beside it.
    assert verdict.evidence[0].quote


def test_two_things_that_changed_places_do_not_pass(sample_library: Database) -> None:
    verdict = check(sample_library, "Hạt thóc gồm vỏ trấu ở trong và hạt gạo ở ngoài.")
    assert verdict.reasons or verdict.doubts


@pytest.mark.parametrize("text", ["Xin chào các em!", "Vì sao trời xanh?", "..."])
def test_what_says_nothing_is_no_fact(sample_library: Database, text: str) -> None:
    verdict = check(sample_library, text)
    assert verdict.reasons
    assert verdict.evidence == ()


def test_another_scope_has_other_books(sample_library: Database) -> None:
    mine = digest(sample_library)
    assert check(sample_library, LACTIC, book=mine, grade=6).reasons == ()
    for scope in ({"book": "0" * 64}, {"grade": 9}, {"subject": "Lịch sử"}):
        verdict = check(sample_library, LACTIC, **scope)
        assert verdict.reasons, scope
        assert verdict.evidence == (), scope
    add_book(sample_library, "Sách khác", ["Mỗi dặm dài khoảng 1 609 m. Dặm là đơn vị của người Anh."])
    assert check(sample_library, "Mỗi dặm dài khoảng 1 609 m.").reasons == ()
    assert check(sample_library, "Mỗi dặm dài khoảng 1 609 m.", book=mine).reasons


def test_exercises_are_no_evidence(sample_library: Database) -> None:
    # It stands in the book only as the given part of an exercise.
    assert check(sample_library, "Nhiệt độ trong phòng là 27 °C.").reasons


def test_the_quote_is_the_sentence_that_bears_it(sample_library: Database) -> None:
    for text in (BROWN, LACTIC):
        (found,) = check(sample_library, text).evidence
        assert found.quote == text
    # On its page: another one than the passage begins on would be a wrong citation.
    assert check(sample_library, LACTIC).evidence[0].page == 16


def test_a_quote_may_be_longer_than_a_rule(sample_library: Database) -> None:
    long = "Cây bàng ở sân trường ra lá non năm 1975, " + ", ".join(["hoa nở trắng cả một góc vườn sau nhà"] * 20) + "."
    add_book(sample_library, "Sách có câu dài", [long])
    verdict = check(sample_library, "Cây bàng ở sân trường ra lá non năm 1975.")
    assert (verdict.reasons, len(verdict.doubts)) == ((), 1)
    assert estimate_tokens(verdict.evidence[0].quote) > BULLET_TOKENS
