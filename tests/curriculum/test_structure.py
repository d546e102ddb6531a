"""Chapters and lessons, in the many forms books print them, and what only looks like them."""

import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from made_documents import PROSE

from deepedu.curriculum.headings import parse_heading, parse_subsection
from deepedu.curriculum.manuscript import Manuscript
from deepedu.curriculum.readers import PageText, open_document
from deepedu.curriculum.readers.text import open_text
from deepedu.curriculum.sample import SAMPLE_DOCX, SAMPLE_PDF, SAMPLE_SOURCE
from deepedu.curriculum.structure import Structure, find_structure

BODY = PROSE * 2


def structure_of(tmp_path: Path, text: str) -> Structure:
    path = tmp_path / "sach.txt"
    path.write_text(text, encoding="utf-8")
    document = open_text(path)
    return find_structure(Manuscript(list(document.pages()), has_pages=document.has_pages), "Sách")


def outline(structure: Structure) -> list[str]:
    lines = []
    for section in structure.sections:
        depth, parent = 0, section.parent
        while parent is not None:
            depth, parent = depth + 1, structure.sections[parent].parent
        lines.append("  " * depth + section.display)
    return lines


def wrap(text: str, width: int = 70) -> str:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("CHƯƠNG I", ("chapter", "CHƯƠNG I", 1, "")),
        ("Chương 1: Điện học", ("chapter", "Chương 1", 1, "Điện học")),
        ("CHƯƠNG 2. QUANG HỌC", ("chapter", "CHƯƠNG 2", 2, "QUANG HỌC")),
        ("Chủ đề 3", ("topic", "Chủ đề 3", 3, "")),
        ("PHẦN MỘT", ("part", "PHẦN MỘT", 1, "")),
        ("Phần thứ hai: Hình học", ("part", "Phần thứ hai", 2, "Hình học")),
        ("BÀI 1", ("lesson", "BÀI 1", 1, "")),
        ("Bài 1.", ("lesson", "Bài 1", 1, "")),
        ("Bài 12 – Ấn Độ", ("lesson", "Bài 12", 12, "Ấn Độ")),
        ("Bài 10-11. Thực hành", ("lesson", "Bài 10-11", 10, "Thực hành")),
        ("Bài 5 (tiếp theo)", ("lesson", "Bài 5", 5, "(tiếp theo)")),
        ("§1. Hàm số", ("lesson", "§1", 1, "Hàm số")),
        ("Tiết 3", ("period", "Tiết 3", 3, "")),
        ("Bài1", ("lesson", "Bài 1", 1, "")),
        ("  BÀI   7 .   TẾ BÀO ", ("lesson", "BÀI 7", 7, "TẾ BÀO")),
        ("B À I 1 : Mở đầu", ("lesson", "BÀI 1", 1, "Mở đầu")),
        ("C H Ư Ơ N G  I V", ("chapter", "CHƯƠNG IV", 4, "")),
        ("Bài 1 | ĐO CHIỀU DÀI", ("lesson", "Bài 1", 1, "ĐO CHIỀU DÀI")),
        ("Bài 3 nói rằng đất nước ta giàu đẹp", None),
        ("Bài 2 trang 10", None),
        ("Bài tập 1", None),
        ("Phần hai bên bờ sông", None),
        ("Tiết kiệm", None),
        ("Chương trình 1", None),
        ("xem Bài 2", None),
        ("Bài 2)", None),
    ],
)
def test_heading_lines(line: str, expected: tuple[str, str, int, str] | None) -> None:
    heading = parse_heading(line)
    found = None if heading is None else (heading.kind, heading.label, heading.ordinal, heading.title)
    assert found == expected


def test_subsection_lines() -> None:
    kinds = [
        heading.kind
        for line in ("I. Mở đầu", "1. Đơn vị", "1.2. Đo", "a) Cách đo")
        if (heading := parse_subsection(line))
    ]
    assert kinds == ["roman", "number", "decimal", "letter"]
    assert parse_subsection("1.954 người tham gia") is None


def test_numbered_exercises_are_no_lessons(tmp_path: Path) -> None:
    text = "CHƯƠNG I\nCĂN BẬC HAI\n\n"
    for number in range(1, 6):
        if number == 4:
            text += "Chương 2: Hàm số\n\n"
        text += f"Bài {number}. Tên bài {number}\n\n{BODY}\n\nBÀI TẬP\n\n"
        text += "".join(f"Bài {k}. Tính giá trị của biểu thức A khi x = {k}.\n\n" for k in range(1, 7))
    assert outline(structure_of(tmp_path, text)) == [
        "CHƯƠNG I. CĂN BẬC HAI",
        "  Bài 1. Tên bài 1",
        "  Bài 2. Tên bài 2",
        "  Bài 3. Tên bài 3",
        "Chương 2. Hàm số",
        "  Bài 4. Tên bài 4",
        "  Bài 5. Tên bài 5",
    ]


def test_exercises_that_read_like_prose_are_no_lessons(tmp_path: Path) -> None:
    text = "".join(
        f"BÀI {n}. NGUYÊN HÀM {n}\n\n{BODY}\n\nBài tập\n\n"
        + "".join(f"Bài {k}. Vật rơi tự do từ độ cao {k} m rồi chạm đất với vận tốc lớn.\n\n" for k in range(1, 9))
        for n in (1, 2, 3)
    )
    assert outline(structure_of(tmp_path, text)) == [f"BÀI {n}. NGUYÊN HÀM {n}" for n in (1, 2, 3)]


def test_a_single_lesson_with_its_exercises(tmp_path: Path) -> None:
    text = f"BÀI 5\nĐỊNH LUẬT ÔM\n\n{BODY}\n\nBài tập\n\n" + "".join(
        f"Bài {k}. Tính điện trở của dây dẫn số {k}.\n\n" for k in range(1, 8)
    )
    assert outline(structure_of(tmp_path, text)) == ["BÀI 5. ĐỊNH LUẬT ÔM"]


def test_titles_on_the_next_lines_numbers_that_start_anew_and_references_in_prose(tmp_path: Path) -> None:
    text = ""
    for chapter in ("I", "II", "III"):
        text += f"CHƯƠNG {chapter}\nTÊN CHƯƠNG RẤT DÀI NÊN PHẢI\nXUỐNG DÒNG THỨ HAI\n\n"
        for number in (1, 2, 3):
            text += (
                f"BÀI {number}\nTÊN BÀI {chapter}.{number}\n\n{wrap(BODY + 'Điều này đã được nói rõ ràng ở')}\n"
                "Bài 2. Tuy nhiên, người ta không làm như thế.\n\nBài 3 nói rằng điều này đúng.\n\n(xem Bài 1)\n\n"
            )
    expected = []
    for chapter in ("I", "II", "III"):
        expected.append(f"CHƯƠNG {chapter}. TÊN CHƯƠNG RẤT DÀI NÊN PHẢI XUỐNG DÒNG THỨ HAI")
        expected += [f"  BÀI {number}. TÊN BÀI {chapter}.{number}" for number in (1, 2, 3)]
    assert outline(structure_of(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("leader", "at_end"),
    # A list without page numbers at the end of a book cannot be told from empty lessons.
    [(" ........ {page}", False), ("\t{page}", False), (" {page}", False), ("", False),
     (" ........ {page}", True), ("\t{page}", True), (" {page}", True)],
)  # fmt: skip
def test_a_table_of_contents_is_no_structure_and_no_content(tmp_path: Path, leader: str, at_end: bool) -> None:
    names = ["Mở đầu về đo lường", "Đo chiều dài", "Đo khối lượng", "Đo thời gian"]
    contents = "MỤC LỤC\n" + "".join(
        f"Bài {n}. {name}{leader.format(page=4 * n + 1)}\n" for n, name in enumerate(names, start=1)
    )
    book = "".join(f"Bài {n}. {name}\n\n{BODY}\n\n" for n, name in enumerate(names, start=1))
    structure = structure_of(tmp_path, book + contents if at_end else contents + "\n" + book)
    assert outline(structure) == [f"Bài {n}. {name}" for n, name in enumerate(names, start=1)]


def test_running_heads_and_page_numbers_are_no_headings(tmp_path: Path) -> None:
    pages = []
    for lesson in (1, 2, 3):
        for page in range(3):
            head = f"Bài {lesson}. Tên bài {lesson}" if page else "Toán 9 – Tập một"
            title = f"\n\nBài {lesson}. TÊN BÀI {lesson}" if page == 0 else ""
            body = wrap(f"Trang này nói về điều thứ {len(pages)}. " + BODY)
            pages.append(f"{head}{title}\n\n{body}\n\n{len(pages) + 7}")
    path = tmp_path / "sach.txt"
    path.write_text("\f".join(pages), encoding="utf-8")
    document = open_text(path)
    manuscript = Manuscript(list(document.pages()), has_pages=True)
    structure = find_structure(manuscript, "Sách")
    assert outline(structure) == [f"Bài {n}. TÊN BÀI {n}" for n in (1, 2, 3)]
    assert [(section.first_page, section.last_page) for section in structure.sections] == [(1, 3), (4, 6), (7, 9)]
    dropped = [line.text for line in manuscript.lines if line.dropped]
    assert len([line for line in dropped if line.isdigit()]) == 9
    assert dropped.count("Toán 9 – Tập một") == 3


def test_parts_chapters_and_paragraph_signs(tmp_path: Path) -> None:
    text = f"Phần một\nĐẠI SỐ\n\nChương I. Số\n\n§1. Số thực\n\n{BODY}\n\n§2. Căn\n\n{BODY}\n\n"
    text += f"Phần hai\nHÌNH HỌC\n\nChương II. Hình\n\n§1. Điểm\n\n{BODY}\n\n§2. Đường\n\n{BODY}"
    assert outline(structure_of(tmp_path, text)) == [
        "Phần một. ĐẠI SỐ",
        "  Chương I. Số",
        "    §1. Số thực",
        "    §2. Căn",
        "Phần hai. HÌNH HỌC",
        "  Chương II. Hình",
        "    §1. Điểm",
        "    §2. Đường",
    ]


def test_topics_reviews_front_matter_and_headings_inside_lessons(tmp_path: Path) -> None:
    text = "LỜI NÓI ĐẦU\n\nCác em thân mến, sách này dành cho các em.\n\n"
    for topic in (1, 2):
        text += f"CHỦ ĐỀ {topic}. NĂNG LƯỢNG {topic}\n\n"
        for number in (2 * topic - 1, 2 * topic):
            text += (
                f"Bài {number} – Tên {number}\n\nTiết 1\n\n{BODY}\n\nI. Mục một\n\n{BODY}\n\n1. Mục nhỏ\n\n{BODY}\n\n"
                "1. Một việc\n2. Hai việc\n3. Ba việc\n\n"
            )
        text += f"ÔN TẬP CHỦ ĐỀ {topic}\n\n{BODY}\n\n"
    structure = structure_of(tmp_path, text + "PHỤ LỤC\n\nBảng các đơn vị.")
    assert outline(structure) == [
        "LỜI NÓI ĐẦU",
        "CHỦ ĐỀ 1. NĂNG LƯỢNG 1",
        "  Bài 1. Tên 1",
        "  Bài 2. Tên 2",
        "  ÔN TẬP CHỦ ĐỀ 1",
        "CHỦ ĐỀ 2. NĂNG LƯỢNG 2",
        "  Bài 3. Tên 3",
        "  Bài 4. Tên 4",
        "  ÔN TẬP CHỦ ĐỀ 2",
        "PHỤ LỤC",
    ]
    assert {sub.title for sub in structure.subsections} == {"I. Mục một", "1. Mục nhỏ"}


def test_scanned_spelling_and_decomposed_letters(tmp_path: Path) -> None:
    heads = ("B À I 1 : Mở đầu", "BÀI2. Tên hai", "Bài   3 .Tên ba", "BÀI  4", "Bài 5 Tên năm")
    text = "".join(f"{head}\n\n{BODY}\n\n" for head in heads)
    found = outline(structure_of(tmp_path, unicodedata.normalize("NFD", text)))
    assert found == ["BÀI 1. Mở đầu", "BÀI 2. Tên hai", "Bài 3. Tên ba", "BÀI 4", "Bài 5. Tên năm"]


@pytest.mark.parametrize("path", [SAMPLE_PDF, SAMPLE_DOCX, SAMPLE_SOURCE], ids=["pdf", "docx", "markdown"])
def test_the_sample_book_has_its_structure_in_every_format(path: Path) -> None:
    document = open_document(path)
    structure = find_structure(Manuscript(list(document.pages()), has_pages=document.has_pages), "Sách")
    document.close()
    lessons = [section for section in structure.sections if section.number and section.kind == "lesson"]
    chapters = [section for section in structure.sections if section.kind == "chapter"]
    assert [lesson.number for lesson in lessons] == [str(number) for number in range(1, 9)]
    assert [chapter.number for chapter in chapters] == ["I", "II"]
    assert [structure.sections[lesson.parent or 0].number for lesson in lessons] == ["I"] * 4 + ["II"] * 4
    if document.has_pages:
        assert [lesson.first_page for lesson in lessons] == [4, 6, 8, 10, 12, 14, 16, 18]


def test_sections_of_an_encyclopaedia_article(tmp_path: Path) -> None:
    text = (
        f"An Dương Vương là một vị vua.\n\n== Nguồn gốc ==\n\n=== Người Âu Việt ===\n{BODY}\n\n== Tham khảo ==\n{BODY}"
    )
    structure = structure_of(tmp_path, text)
    assert outline(structure) == ["Sách", "Nguồn gốc", "Tham khảo"]
    assert [section.kind for section in structure.sections] == ["lesson"] * 3
    assert [sub.title for sub in structure.subsections] == ["Người Âu Việt"]


def test_a_book_without_headings_is_parted_by_pages() -> None:
    pages = [PageText(number, BODY) for number in range(1, 13)]
    structure = find_structure(Manuscript(pages, has_pages=True), "Sách")
    assert structure.is_fallback
    assert [section.title for section in structure.sections] == ["Trang 1–5", "Trang 6–10", "Trang 11–12"]
    short = find_structure(Manuscript(pages[:2], has_pages=True), "Sách")
    assert [(section.kind, section.title) for section in short.sections] == [("part", "Sách")]


def test_sections_follow_one_another_and_cover_everything(tmp_path: Path) -> None:
    text = f"Trang bìa\n\nBài 1. Một\n\n{BODY}\n\nBài 2. Hai\n\n{BODY}"
    sections = structure_of(tmp_path, text).sections
    assert sections[0].start == 0
    assert all(before.end == after.start for before, after in pairwise(sections))
