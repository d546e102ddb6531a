"""The sample textbook: its source, its PDF and its DOCX say the same, on the same pages."""

import importlib
import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from types import ModuleType

import pypdfium2
import pytest
from docx import Document
from docx.oxml.ns import qn

from deepedu.base.vietnamese import fold
from deepedu.curriculum.sample import DEMO_QUESTIONS, SAMPLE_DOCX, SAMPLE_PDF, SAMPLE_QUESTIONS

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def _collapse(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def source() -> ModuleType:
    """The parser of the book's source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module("sample_book_source")


@pytest.fixture(scope="module")
def pdf_pages() -> list[str]:
    """Text of each PDF page without its running head and page number."""
    document = pypdfium2.PdfDocument(SAMPLE_PDF)
    try:
        pages = []
        for index in range(len(document)):
            page = document[index]
            _, height = page.get_size()
            foot, head = 50, 60  # points; body text stays inside
            bottom, top = (foot, height - head) if index >= 2 else (foot, height)
            pages.append(_collapse(page.get_textpage().get_text_bounded(bottom=bottom, top=top)))
        return pages
    finally:
        document.close()


@pytest.fixture(scope="module")
def docx_pages() -> list[str]:
    """Text of each page of the Word file, pages counted by its page breaks."""
    pages = [""]
    for node in Document(str(SAMPLE_DOCX)).element.body.iter():
        if node.tag == qn("w:br") and node.get(qn("w:type")) == "page":
            pages.append("")
        elif node.tag == qn("w:p"):
            pages[-1] += "\n"
        elif node.tag == qn("w:tab"):
            pages[-1] += " "
        elif node.tag == qn("w:t"):
            pages[-1] += node.text or ""
    return [_collapse(page) for page in pages]


@pytest.fixture(scope="module")
def questions() -> list[dict]:
    """The questions made for measuring."""
    return [json.loads(line) for line in SAMPLE_QUESTIONS.read_text(encoding="utf-8").splitlines()]


def _contents(pdf_pages: list[str]) -> dict[int, range]:
    """Lesson number -> its pages, read off the printed table of contents."""
    starts = {int(n): int(page) for n, page in re.findall(r"Bài (\d+)\. \D+? (\d+)(?= |$)", pdf_pages[1])}
    ends = [*list(starts.values())[1:], len(pdf_pages) + 1]
    return {lesson: range(start, end) for (lesson, start), end in zip(starts.items(), ends, strict=True)}


def test_every_sentence_stands_once_in_the_pdf(source: ModuleType, pdf_pages: list[str]) -> None:
    whole = " ".join(pdf_pages)
    sentences = source.read_book().sentences()
    assert len(sentences) > 200
    assert {sentence: whole.count(sentence) for sentence in sentences if whole.count(sentence) != 1} == {}


def test_the_text_layer_is_composed(source: ModuleType, pdf_pages: list[str]) -> None:
    assert all(unicodedata.is_normalized("NFC", page) for page in pdf_pages)
    assert all(unicodedata.is_normalized("NFC", text) for block in source.read_book().blocks for text in block.plain())


def test_lessons_stand_where_the_contents_page_says(source: ModuleType, pdf_pages: list[str]) -> None:
    contents = _contents(pdf_pages)
    assert list(contents) == list(range(1, 9))
    lesson = 0
    for block in source.read_book().blocks:
        if block.kind == "lesson":
            lesson = int(block.text.split(".")[0].removeprefix("Bài "))
        elif block.kind == "chapter":
            lesson = 0
        elif lesson:
            found = [number for number, page in enumerate(pdf_pages, 1) if block.plain()[-1] in page]
            assert set(found) & set(contents[lesson]), block.text


def test_printed_page_numbers_are_the_real_ones() -> None:
    document = pypdfium2.PdfDocument(SAMPLE_PDF)
    try:
        feet = [document[i].get_textpage().get_text_bounded(top=50).strip() for i in range(len(document))]
    finally:
        document.close()
    assert feet == ["", *(str(number) for number in range(2, len(feet) + 1))]
    assert 14 <= len(feet) <= 24


def test_tables_read_row_by_row(source: ModuleType, pdf_pages: list[str], docx_pages: list[str]) -> None:
    tables = [block for block in source.read_book().blocks if block.kind == "table"]
    assert [table.text[:6] for table in tables] == ["Bảng 1", "Bảng 2"]
    for table in tables:
        reading = f"{table.text} " + " ".join(" ".join(row) for row in table.rows)
        assert sum(reading in page for page in pdf_pages) == 1
        assert sum(reading in page for page in docx_pages) == 1
    real = [[[cell.text for cell in row.cells] for row in table.rows] for table in Document(str(SAMPLE_DOCX)).tables]
    assert real == [[list(row) for row in table.rows] for table in tables]


def test_formulas_stand_in_both(source: ModuleType, pdf_pages: list[str], docx_pages: list[str]) -> None:
    formulas = [block.text for block in source.read_book().blocks if block.kind == "formula"]
    assert "D = m/V" in formulas
    for formula in formulas:
        assert any(formula in page for page in pdf_pages)
        assert any(formula in page for page in docx_pages)


def test_docx_headings(source: ModuleType) -> None:
    levels = {"chapter": "Heading 1", "lesson": "Heading 2", "section": "Heading 3"}
    expected = [
        (levels[block.kind], block.text.upper() if block.kind == "chapter" else block.text)
        for block in source.read_book().blocks
        if block.kind in levels
    ]
    paragraphs = Document(str(SAMPLE_DOCX)).paragraphs
    found = [(p.style.name, p.text) for p in paragraphs if p.style is not None and p.style.name in levels.values()]
    assert found == expected
    assert Counter(level for level, _ in found) == {"Heading 1": 3, "Heading 2": 8, "Heading 3": len(found) - 11}


def test_each_sentence_is_on_the_same_page_in_both(
    source: ModuleType, pdf_pages: list[str], docx_pages: list[str]
) -> None:
    assert len(docx_pages) == len(pdf_pages)
    for sentence in source.read_book().sentences():
        in_pdf = [number for number, page in enumerate(pdf_pages, 1) if sentence in page]
        in_docx = [number for number, page in enumerate(docx_pages, 1) if sentence in page]
        assert in_pdf == in_docx != [], sentence


def test_questions_are_complete(questions: list[dict]) -> None:
    answerable = [q for q in questions if q["answerable"]]
    assert (len(answerable), len(questions)) == (55, 80)
    assert len({fold(q["question"]) for q in questions}) == len(questions)
    assert sum(q["question"] == fold(q["question"]) for q in answerable) == 15
    assert {q["kind"] for q in answerable} == {"number", "date", "name", "definition", "formula", "table"}
    assert not any(q.get("answers") for q in questions if not q["answerable"])


def test_answers_stand_on_their_pages(questions: list[dict], pdf_pages: list[str], docx_pages: list[str]) -> None:
    contents = _contents(pdf_pages)
    for question in questions:
        if not question["answerable"]:
            continue
        assert question["page"] in contents[question["lesson"]], question
        assert question["answers"], question
        for answer in question["answers"]:
            whole = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
            assert whole.search(pdf_pages[question["page"] - 1]), question
            assert whole.search(docx_pages[question["page"] - 1]), question


def test_demo_questions_stand_on_their_pages(pdf_pages: list[str]) -> None:
    contents = _contents(pdf_pages)
    assert len(DEMO_QUESTIONS) == 3
    for demo in DEMO_QUESTIONS:
        assert demo.answer in pdf_pages[demo.page - 1]
        assert demo.page in contents[demo.lesson]


def test_files_are_built_from_this_source(source: ModuleType) -> None:
    document = pypdfium2.PdfDocument(SAMPLE_PDF)
    try:
        keywords = document.get_metadata_dict()["Keywords"]
    finally:
        document.close()
    assert keywords == Document(str(SAMPLE_DOCX)).core_properties.keywords
    assert keywords == f"source-sha256:{source.read_book().digest}"


def test_rebuilding_gives_the_committed_files() -> None:
    command = [sys.executable, str(SCRIPTS / "build_sample_book.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 2 and "Fonts are missing" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
