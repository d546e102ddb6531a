"""Passages: whole sentences, bounded, in one lesson, every character traceable to its page."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_documents import PROSE

from deepedu.base.vietnamese import estimate_tokens, sentence_spans
from deepedu.curriculum.manuscript import Manuscript
from deepedu.curriculum.passages import PassageDraft, cut_passages
from deepedu.curriculum.readers import PageText, open_document
from deepedu.curriculum.structure import Structure, find_structure


def cut(
    pages: Sequence[str], tokens: int = 64, *, has_pages: bool = True
) -> tuple[Manuscript, Structure, list[PassageDraft]]:
    manuscript = Manuscript([PageText(number, text) for number, text in enumerate(pages, start=1)], has_pages=has_pages)
    structure = find_structure(manuscript, "Sách")
    return manuscript, structure, cut_passages(manuscript, structure, tokens)[0]


def check_places(manuscript: Manuscript, passages: Sequence[PassageDraft]) -> None:
    """Spans map back exactly, and every visible character that is no furniture is in exactly one passage."""
    texts = {page.number: page.text for page in manuscript.pages}
    starts = {page.number: start for page, start in zip(manuscript.pages, manuscript.page_starts, strict=True)}
    covered = [0] * len(manuscript.text)
    for passage in passages:
        position = 0
        for start, end, page, page_start in passage.spans:
            assert position <= start < end
            assert not passage.text[position:start].strip()
            position = end
            stored = texts[page][page_start : page_start + end - start]
            assert [" " if c.isspace() else c for c in stored] == list(passage.text[start:end])
            for offset in range(starts[page] + page_start, starts[page] + page_start + end - start):
                covered[offset] += 1
        assert not passage.text[position:].strip()
        pages = [span[2] for span in passage.spans]
        assert (passage.first_page, passage.last_page) == (min(pages), max(pages))
    for line in manuscript.lines:
        for offset in range(line.start, line.end):
            if not manuscript.text[offset].isspace():
                assert covered[offset] == (0 if line.dropped else 1), line.text


_WORDS = st.sampled_from(["Nước", "ta", "có", "nhiều", "sông", "1.954", "TP.", "núi,", "đẹp", "biển"])
_SENTENCE = st.lists(_WORDS, min_size=1, max_size=30).map(lambda words: "Câu " + " ".join(words) + ".")
_PIECE = st.one_of(
    _SENTENCE,
    st.sampled_from(
        ["\n\n", "\n", "\n- mục một\n", "\nBài 1. Mở đầu\n\n", "\n\nBài 2. Kết thúc\n\n", "Bài 3 nói rằng"]
    ),
    st.lists(_WORDS, min_size=1, max_size=4).map(lambda words: "\n\n1. " + " ".join(words).capitalize() + "\n\n"),
)
_PAGE = st.lists(_PIECE, max_size=12).map(" ".join)


@given(st.lists(_PAGE, min_size=1, max_size=5), st.integers(32, 120))
def test_any_text_is_cut_without_loss_in_order_and_within_the_bound(pages: list[str], tokens: int) -> None:
    manuscript, _, passages = cut(pages, tokens)
    check_places(manuscript, passages)
    order = [(passage.spans[0][2], passage.spans[0][3]) for passage in passages]
    assert order == sorted(order)
    for passage in passages:
        assert passage.tokens == estimate_tokens(passage.text)
        assert passage.tokens <= tokens or len(sentence_spans(passage.text)) == 1


def test_sentences_stay_whole_even_over_a_page_break() -> None:
    first = "Bài 1. Dòng sông\n\n" + PROSE + "Sông Hồng bắt nguồn từ Trung Quốc,"
    second = "chảy qua Hà Nội rồi ra biển Đông. " + PROSE
    manuscript, _, passages = cut([first, second], 100)
    check_places(manuscript, passages)
    whole = "Sông Hồng bắt nguồn từ Trung Quốc, chảy qua Hà Nội rồi ra biển Đông."
    (across,) = [passage for passage in passages if whole in passage.text]
    assert (across.first_page, across.last_page) == (1, 2)
    for passage in passages:
        assert passage.text.rstrip().endswith(".") or passage.text.startswith("Bài 1")


def test_running_heads_between_two_halves_of_a_sentence_vanish() -> None:
    pages = [
        f"Địa lí 8 – Bài học\n\nPhần đầu của trang {n} nói về núi và sông,\n\n{n}" for n in range(1, 6)
    ]  # fmt: skip
    pages = [page.replace("Phần đầu", "phần sau") if n else page for n, page in enumerate(pages)]
    manuscript, _, passages = cut(pages, 200)
    check_places(manuscript, passages)
    assert "núi và sông, phần sau của trang 2" in passages[0].text
    assert not any("Địa lí 8" in passage.text for passage in passages)


def test_no_passage_crosses_a_lesson_and_a_heading_goes_with_the_text_below() -> None:
    text = f"Bài 1. Một\n\n{PROSE}\n\n1. Mục nhỏ\n\n{PROSE}\n\nBài 2. Hai\n\n{PROSE}"
    manuscript, structure, passages = cut([text], 120)
    check_places(manuscript, passages)
    assert [structure.sections[passage.section].display for passage in passages] == [
        "Bài 1. Một",
        "Bài 1. Một",
        "Bài 2. Hai",
    ]
    assert [passage.heading for passage in passages] == ["Bài 1. Một", "Bài 1. Một > 1. Mục nhỏ", "Bài 2. Hai"]
    assert passages[1].text.startswith("1. Mục nhỏ\n\nNước ta")
    assert passages[2].text.startswith("Bài 2. Hai\n\nNước ta")


def test_passages_end_at_paragraphs_where_they_can() -> None:
    paragraphs = [f"Đoạn {n} bắt đầu ở đây. " + PROSE.strip() for n in range(6)]
    _, _, passages = cut(["\n\n".join(paragraphs)], 200)
    for passage in passages:
        assert passage.text.startswith("Đoạn")


def test_a_long_sentence_is_a_passage_of_its_own_and_an_endless_one_is_cut_and_noted() -> None:
    long_one = "Danh sách gồm " + ", ".join(f"mục thứ {n}" for n in range(30)) + "."
    endless = "Danh sách gồm " + "; ".join(f"mục thứ {n} của bảng" for n in range(300)) + "."
    manuscript = Manuscript([PageText(1, f"{PROSE}\n\n{long_one}\n\n{endless}")], has_pages=True)
    passages, notes = cut_passages(manuscript, find_structure(manuscript, "Sách"), 64)
    check_places(manuscript, passages)
    assert long_one in [passage.text for passage in passages]
    pieces = [passage for passage in passages if "của bảng" in passage.text]
    assert len(pieces) > 10
    assert all(passage.tokens <= 64 for passage in pieces)
    assert all(passage.text.endswith((";", ".")) for passage in pieces)
    assert len(notes) == 1
    assert "Trang 1" in notes[0]


def test_a_long_table_keeps_its_rows_whole_and_its_header_in_every_passage() -> None:
    rows = ["Tên vua | Năm lên ngôi | Kinh đô", *(f"Vua thứ {n} | {1000 + n} | Thăng Long" for n in range(30))]
    text = f"{PROSE}\n\nBảng 1. Các vua\n\n" + "\n".join(rows)
    _, _, passages = cut([text], 100)
    tables = [passage for passage in passages if " | " in passage.text]
    assert len(tables) > 2
    assert all("Tên vua | Năm lên ngôi | Kinh đô\n" in passage.text for passage in tables)
    assert [row for passage in tables for row in passage.text.split("\n") if row.startswith("Vua")] == rows[1:]
    assert "Bảng 1. Các vua" in tables[0].text


@pytest.mark.shared_data
def test_real_articles_lose_nothing(shared_data: Path) -> None:
    folder = shared_data / "viwiki_school"
    if not folder.is_dir():
        pytest.skip(f"no viwiki_school in {shared_data}")
    files = sorted(folder.glob("*/*.txt"))[::27]
    assert len(files) >= 9
    for file in files:
        document = open_document(file)
        manuscript = Manuscript(list(document.pages()), has_pages=document.has_pages)
        passages, _ = cut_passages(manuscript, find_structure(manuscript, file.stem), 256)
        check_places(manuscript, passages)
        for passage in passages:
            assert passage.tokens <= 256 or len(sentence_spans(passage.text)) == 1
