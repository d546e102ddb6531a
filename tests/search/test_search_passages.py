"""Whole lessons of a book, with the place of every passage."""

from small_library import Library

from deepedu.search.passages import load_passages, load_section, sections_with_text
from deepedu.store import Database


def test_a_lesson_is_whole_and_in_order_with_its_place(library: Library) -> None:
    chapter = ("Chương I", "Mở đầu")
    book, ids = library.add("Địa lí", ["Một.", "Hai.", "Ba."], chapter=chapter, lesson=("Bài 4", "Sông"), label="xii")
    other, other_ids = library.add("Lịch sử", ["Bốn."])
    with library.db.read() as session:
        (section,) = sections_with_text(session, book)
        found = load_section(session, section)
        assert [item.passage_id for item in found] == ids
        assert {(item.chapter, item.lesson, item.section_id) for item in found} == {
            ("Chương I. Mở đầu", "Bài 4. Sông", section)
        }
        assert [item.page_labels for item in found] == [{1: "xii"}, {2: "xii"}, {3: "xii"}]
        both = load_passages(session, [other_ids[0], ids[1], 999])
        assert (both[ids[1]].book_id, both[other_ids[0]].book_id) == (book, other)
        assert (both[ids[1]].page_labels, both[other_ids[0]].page_labels) == ({2: "xii"}, {})
        assert both.keys() == {ids[1], other_ids[0]}


def test_a_book_that_is_not_ready_has_no_passages(library: Library) -> None:
    book, ids = library.add("Địa lí", ["Một."], status="reading")
    with library.db.read() as session:
        assert load_passages(session, ids) == {}
        assert [load_section(session, section) for section in sections_with_text(session, book)] == [()]


def test_sections_of_a_real_book_come_in_reading_order(sample_library: Database) -> None:
    with sample_library.read() as session:
        sections = sections_with_text(session, 1)
        lessons = [load_section(session, section)[0].lesson or "" for section in sections]
    numbered = [lesson for lesson in lessons if lesson.startswith("Bài ")]
    assert [lesson[:6] for lesson in numbered] == [f"Bài {n}." for n in range(1, 9)]
