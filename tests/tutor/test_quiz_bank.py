"""Banks come in from teachers' files without anything being dropped silently, and go out without loss."""

import csv
import io
import json
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import docx
import pytest
from docx.enum.text import WD_COLOR_INDEX
from docx.shared import RGBColor
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.errors import BadRequest
from deepedu.tutor.quiz import Choice, Claim, Item, QuizEvidence, Short, TrueFalse
from deepedu.tutor.quiz_bank import BankImport, bank_as_csv, bank_as_json, read_bank
from deepedu.tutor.quiz_paper import Line, questions_of

PROOF = QuizEvidence(book="ab" * 32, page=12, quote="=Nước sôi ở 100 °C.", passage_id=7)
ITEMS: tuple[Item, ...] = (
    Choice(stem="Thủ đô, của nước ta?", options=("Hà Nội", "Huế", "-5", "@x"), key=2, skill="Bài 1", evidence=PROOF),
    TrueFalse(
        stem="Xét các phát biểu:",
        statements=tuple(Claim(text=t, truth=t < "c", evidence=PROOF) for t in ("a1", 'b "2"', "c;3", "d\n4")),
    ),
    Short(stem="=1+1 bằng\nbao nhiêu?", key="-2,5", unit="cm", decimals=1, explanation="'tự tính"),
    Short(stem="Ai tìm ra\tvi khuẩn lao?", key="Robert Koch"),
)


def document(*lines: Any) -> bytes:
    """A Word file: each line a text, or a list of pieces ``(text, look)``, or a table as a list of rows."""
    made = docx.Document()
    for line in lines:
        if isinstance(line[0], list):
            table = made.add_table(rows=0, cols=len(line[0]))
            for row in line:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
            continue
        paragraph = made.add_paragraph()
        for text, look in [(line, "")] if isinstance(line, str) else line:
            run = paragraph.add_run(text)
            run.bold = True if look == "bold" else None
            run.underline = True if look == "underline" else None
            if look == "red":
                run.font.color.rgb = RGBColor(0xFF, 0, 0)
            if look == "highlight":
                run.font.highlight_color = WD_COLOR_INDEX.YELLOW
            if look == "subscript":
                run.font.subscript = True
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def word(*lines: Any) -> BankImport:
    return read_bank(document(*lines), "de.docx")


def only(imported: BankImport) -> Any:
    assert not imported.problems, [problem.text for problem in imported.problems]
    assert len(imported.items) == 1
    return imported.items[0]


# --- JSON and CSV ----------------------------------------------------------------------------------------------------


def test_json_and_csv_lose_nothing() -> None:
    for content, name in ((bank_as_json(ITEMS), "bank.json"), (bank_as_csv(ITEMS), "bank.csv")):
        imported = read_bank(content, name)
        assert not imported.problems
        assert imported.items == ITEMS


_TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), min_size=1, max_size=30).map(
    lambda text: "x" + text.replace("<", "").replace("&", "")
)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["", "=", "+", "-", "@", "'", "'="]), _TEXTS, _TEXTS)
def test_any_text_survives_a_spreadsheet_and_is_no_formula(first: str, stem: str, key: str) -> None:
    item = Short(stem=first + stem, key=key, explanation=first + key)
    content = bank_as_csv([item])
    assert read_bank(content, "bank.csv").items == (item,)
    cells = [cell for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


CSV = 'Câu hỏi;A;B;C;D;Đáp án\n"Thủ đô; của nước ta?";Hà Nội;Huế;Vinh;Đà Nẵng;A\nMột năm có mấy tháng?;;;;;12\n'


@pytest.mark.parametrize(
    "content",
    [
        CSV.encode(),
        CSV.encode("utf-8-sig"),
        CSV.encode("utf-16"),
        CSV.encode("utf-16-le"),
        CSV.encode("utf-16-be"),
        ("sep=;\r\n" + CSV).replace("\n", "\r\n").encode("utf-8-sig"),
        CSV.replace(";A;B;C;D;", ",A,B,C,D,").replace("?\";Hà Nội;Huế;Vinh;Đà Nẵng;A", "?\",Hà Nội,Huế,Vinh,Đà Nẵng,A")
        .replace("tháng?;;;;;12", "tháng?,,,,,12").encode(),
        CSV.replace("Thủ đô; của", "Thủ đô của").replace(";", "\t").encode("utf-16"),
        unicodedata.normalize("NFD", CSV).encode(),
        CSV.replace("Câu hỏi", "cau hoi").replace("Đáp án", "DAP AN").encode(),
    ],
)  # fmt: skip
def test_csv_as_spreadsheets_write_it(content: bytes) -> None:
    choice, short = read_bank(content, "bank.csv").items
    assert isinstance(choice, Choice)
    assert choice.options[choice.key] == "Hà Nội"
    assert isinstance(short, Short)
    assert short.key == "12"


def test_csv_in_vietnamese_windows() -> None:
    text = CSV + "Nước nào ở phía bắc nước ta, có biên giới dài với nước ta?;Lào;Thái Lan;Trung Quốc;Ấn Độ;C\n"
    tones = "\u0300\u0301\u0303\u0309\u0323"
    # Windows-1258 has ê and ơ but writes tones as marks of their own.
    spelt = "".join(
        unicodedata.normalize("NFC", "".join(c for c in d if c not in tones)) + "".join(c for c in d if c in tones)
        for d in (unicodedata.normalize("NFD", c) for c in text)
    )
    items = read_bank(spelt.encode("cp1258"), "bank.csv").items
    assert [item.stem for item in items][2].startswith("Nước nào ở phía bắc")


def test_csv_takes_every_kind() -> None:
    rows = [
        "loại,câu hỏi,A,B,C,D,đáp án,đơn vị,làm tròn",
        "đúng sai,Xét:,p,q,r,s,ĐSSĐ,,",
        ",Xét tiếp:,p,q,r,s,a-Đ b-S c-S d-S,,",
        "trả lời ngắn,Dài bao nhiêu?,,,,,\"2,50\",m,2",
        "trắc nghiệm,Chọn:,1,2,3,4,3,,",
    ]  # fmt: skip
    imported = read_bank("\n".join(rows).encode(), "bank.csv")
    assert not imported.problems
    first, second, short, choice = imported.items
    assert isinstance(first, TrueFalse)
    assert isinstance(second, TrueFalse)
    assert [claim.truth for claim in first.statements] == [True, False, False, True]
    assert [claim.truth for claim in second.statements] == [True, False, False, False]
    assert isinstance(short, Short)
    assert (short.key, short.unit, short.decimals) == ("2,50", "m", 2)
    assert isinstance(choice, Choice)
    assert choice.options[choice.key] == "3"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("Chọn?,a1,b1,c1,,A", "thiếu phương án D"),
        ("Chọn?,a1,b1,c1,d1,", "thiếu đáp án"),
        ("Chọn?,a1,b1,c1,d1,E", "từ A đến D"),
        ("Chọn?,a1,b1,c1,d1,x9", "“x9”"),
        ("Chọn?,a1,b1,a1,d1,B", "giống nhau"),
        (",a1,b1,c1,d1,B", "không được để trống"),
        ("Chọn <script>?,a1,b1,c1,d1,B", "HTML"),
        ("Chọn, nào?,a1,b1,c1,d1,B,", "có"),
        ("Nước sôi?,,,,,100,thừa", "hãy đặt ô"),
        ("  thủ ĐÔ? ,Huế,Hà Nội,Vinh,Cần Thơ,B", "trùng với dòng 2; hãy giữ"),
        ("thủ đô?,Huế,Hà Nội,Vinh,Cần Thơ,A", "trùng với dòng 2 nhưng đáp án khác"),
    ],
)
def test_rows_that_are_not_taken_are_told(row: str, reason: str) -> None:
    content = f"câu hỏi,A,B,C,D,đáp án\nThủ đô?,Hà Nội,Huế,Vinh,Cần Thơ,A\n{row}\n"
    imported = read_bank(content.encode(), "bank.csv")
    assert len(imported.items) == 1
    problem = imported.problems[0]
    assert problem.place == "dòng 3"
    assert reason in problem.reason
    assert problem.beginning in problem.text


def test_line_numbers_count_lines_inside_cells() -> None:
    content = 'câu hỏi,đáp án\n"hai\ndòng",1\n\nba,\n'
    imported = read_bank(content.encode(), "bank.csv")
    assert imported.items[0].stem == "hai\ndòng"
    assert [problem.place for problem in imported.problems] == ["dòng 5"]


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (b"", "x.csv", "trống"),
        (b"a,b\n1,2\n", "x.csv", "câu hỏi"),
        (b"{", "x.json", "JSON"),
        (b"5", "x.json", "danh sách"),
        (b"PK\x03\x04 no package", "x.docx", "Word"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "x.doc", ".docx"),
        ("Thñ ®« cña n­íc ViÖt Nam lµ g×? ".encode("cp1252") * 9, "x.csv", "Unicode"),
        (b"\xff\xfe\x00\xd8\x00", "x.csv", "UTF-8"),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(content: bytes, name: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read_bank(content, name)


def test_excel_and_missing_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "bang.xlsx"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("xl/workbook.xml", "")
    with pytest.raises(BadRequest, match="Excel"):
        read_bank(path)
    with pytest.raises(BadRequest, match="không mở được"):
        read_bank(tmp_path / "none.csv")


def test_json_entries_are_told_apart() -> None:
    good = json.loads(bank_as_json(ITEMS))["items"][3]
    bad = {**good, "stem": " ", "extra": 1}
    imported = read_bank(json.dumps([good, bad, 5, good]).encode(), "x.json")
    assert imported.items == ITEMS[3:]
    assert [problem.place for problem in imported.problems] == ["câu 2", "câu 3", "câu 4"]
    assert "không được để trống" in imported.problems[0].reason
    assert "extra" in imported.problems[0].reason


# --- Word ------------------------------------------------------------------------------------------------------------

OPTIONS = ("A. Hà Nội", "B. Huế", "C. Vinh", "D. Đà Nẵng")


@pytest.mark.parametrize(
    "lines",
    [
        ("Câu 1. Thủ đô cũ?", *OPTIONS, "Đáp án: B"),
        ("Câu 1: Thủ đô cũ?", *OPTIONS, "Đáp án đúng là B."),
        ("cau 1) Thủ đô cũ?", *OPTIONS, "Dap an B"),
        ("Câu 1 (0,25 điểm). Thủ đô cũ?", "\t".join(OPTIONS), "Đáp án: b"),
        ("Câu 1. Thủ đô cũ?", "A. Hà Nội   B. Huế   C. Vinh   D. Đà Nẵng", "Đáp án: B"),
        ("Câu 1. Thủ đô cũ? A. Hà Nội B. Huế C. Vinh D. Đà Nẵng", "Đáp án: B"),
        ("Câu 1. Thủ đô cũ?", "A) Hà Nội\tB) Huế", "C) Vinh\tD) Đà Nẵng", "Đáp án: B"),
        ("Câu 1. Thủ đô cũ?", "a. Hà Nội", "b. Huế", "c. Vinh", "d. Đà Nẵng", "Đáp án: b"),
        ("Câu 1. Thủ đô cũ?", [["A. Hà Nội", "B. Huế"], ["C. Vinh", "D. Đà Nẵng"]], "Đáp án: B"),
        ("Câu 1. Thủ đô cũ?", "A. Hà Nội", [("B. Huế", "underline")], "C. Vinh", "D. Đà Nẵng"),
        ("Câu 1. Thủ đô cũ?", "A. Hà Nội", [("B", "underline"), (". Huế", "")], "C. Vinh", "D. Đà Nẵng"),
        ("Câu 1. Thủ đô cũ?", "A. Hà Nội", [("B. Huế", "red")], "C. Vinh", "D. Đà Nẵng"),
        ("Câu 1. Thủ đô cũ?", "A. Hà Nội", [("B. ", ""), ("Huế", "highlight")], "C. Vinh", "D. Đà Nẵng"),
        (
            [("Câu 1.", "bold"), (" Thủ đô cũ?", "")],
            [("A.", "bold"), (" Hà Nội\t", ""), ("B. Huế", "bold"), ("\t", ""), ("C.", "bold"), (" Vinh\t", ""),
             ("D.", "bold"), (" Đà Nẵng", "")],
        ),
        ("TRƯỜNG THCS", "ĐỀ KIỂM TRA", "Câu 1. Thủ đô cũ?", *OPTIONS, "HẾT", "ĐÁP ÁN", "1.B"),
        ("Câu 1. Thủ đô cũ?", *OPTIONS, "BẢNG ĐÁP ÁN", [["Câu", "1", "2"], ["Đáp án", "B", "C"]]),
        ("Câu 1. Thủ đô cũ?", *OPTIONS, "BẢNG ĐÁP ÁN", [["Câu", "Đáp án"], ["1", "B"]]),
        ("Câu 1. Thủ đô cũ?", *OPTIONS, [["1.B", "2.C"]]),
        ("Câu 1. Thủ đô cũ?", *OPTIONS, "ĐÁP ÁN", "Câu 1. Đáp án: B"),
    ],
)  # fmt: skip
def test_a_choice_however_it_is_written(lines: tuple[Any, ...]) -> None:
    item = only(word(*lines))
    assert isinstance(item, Choice)
    assert item.stem == "Thủ đô cũ?"
    assert item.options == ("Hà Nội", "Huế", "Vinh", "Đà Nẵng")
    assert item.key == 1


def test_letters_of_the_stem_are_no_labels() -> None:
    item = only(word("Câu 1. Vitamin A. có nhiều ở đâu? A. Cà rốt B. Thịt C. Cá D. Gạo", "Đáp án: A"))
    assert item.stem == "Vitamin A. có nhiều ở đâu?"
    assert item.options == ("Cà rốt", "Thịt", "Cá", "Gạo")


def test_numbered_lists_of_word_and_subscripts_are_read() -> None:
    item = only(word([("Câu 1. Công thức của nước là H", ""), ("2", "subscript"), ("O?", "")], "Đáp số: đúng"))
    assert item.stem == "Công thức của nước là H₂O?"


@pytest.mark.parametrize(
    "lines",
    [
        ("a) p", "b) q", "c) r", "d) s", "Đáp án: ĐSSĐ"),
        ("a) p (Đ)", "b) q (S)", "c) r (S)", "d) s (Đ)"),
        ("a) p – Đúng", "b) q – Sai", "c) r – Sai", "d) s – Đúng"),
        ("a. p\tĐ", "b. q\tS", "c. r\tS", "d. s\tĐ"),
        ("a) p", "b) q", "c) r", "d) s", "Đáp án: a) Đúng, b) Sai, c) Sai, d) Đúng"),
        ([("a) p", "underline")], "b) q", "c) r", [("d) s", "underline")]),
        ([["Phát biểu", "Đúng", "Sai"], ["a) p", "x", ""], ["b) q", "", "x"], ["c) r", "", "x"], ["d) s", "x", ""]],),
        ("a) p", "b) q", "c) r", "d) s", "ĐÁP ÁN", "PHẦN II", [["1", "Đ", "S", "S", "Đ"]]),
        ("a) p", "b) q", "c) r", "d) s", "ĐÁP ÁN", "1. ĐSSĐ"),
    ],
)
def test_statements_however_their_truth_is_told(lines: tuple[Any, ...]) -> None:
    item = only(word("PHẦN II. Câu trắc nghiệm đúng sai.", "Trong mỗi ý a), b), c), d) thí sinh chọn đúng hoặc sai.",
                     "Câu 1. Xét các phát biểu:", *lines))  # fmt: skip
    assert isinstance(item, TrueFalse)
    assert item.stem == "Xét các phát biểu:"
    assert [(claim.text, claim.truth) for claim in item.statements] == [
        ("p", True), ("q", False), ("r", False), ("s", True),
    ]  # fmt: skip


def test_parts_number_their_questions_anew() -> None:
    imported = word(
        "PHẦN I. Trắc nghiệm", "Câu 1. Thủ đô cũ?", *OPTIONS,
        "PHẦN II. Đúng sai", "Câu 1. Xét:", "a) p", "b) q", "c) r", "d) s",
        "PHẦN III. Trả lời ngắn", "Câu 1. 2 + 3 bằng bao nhiêu?", "Đáp số: 5",
        "Câu 2. Dài bao nhiêu?", "Trả lời: ......",
        "---HẾT---", "ĐÁP ÁN", "PHẦN I", "1.B 2.C", "PHẦN II", "1. ĐSSĐ", "PHẦN III", "Câu 2. 2,5 m",
    )  # fmt: skip
    assert not imported.problems
    kinds = [item.kind for item in imported.items]
    assert kinds == ["choice", "true_false", "short", "short"]
    assert [item.key for item in imported.items if isinstance(item, Short)] == ["5", "2,5 m"]
    assert "đáp án “2. C” không có câu tương ứng" in imported.skipped
    assert "PHẦN I. Trắc nghiệm" in imported.skipped


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("Thủ đô cũ?", *OPTIONS), "không thấy đáp án"),
        (("Thủ đô cũ?", *OPTIONS[:3], "Đáp án: B"), "thiếu D"),
        (("Thủ đô cũ?", OPTIONS[0], OPTIONS[2], OPTIONS[3], "Đáp án: A"), "thiếu B"),
        (("Thủ đô cũ?", *OPTIONS[:3], [("D. Đà Nẵng", "red")], "Đáp án: B"), "khác nhau: B, D"),
        (("Thủ đô cũ?", *OPTIONS, "Đáp án: E"), "thấy “E”"),
        (("Thủ đô cũ?", "A. Huế", "B. Huế", "C. Vinh", "D. Đà Nẵng", "Đáp án: B"), "giống nhau"),
        (("Trình bày vai trò của rừng.",), "không thấy đáp án"),
        (("Xét:", "a) p (Đ)", "b) q (S)", "c) r", "d) s"), "không thấy đáp án"),
    ],
)
def test_questions_that_are_not_taken_are_told(lines: tuple[Any, ...], reason: str) -> None:
    first, *rest = lines
    imported = word(f"Câu 7. {first}", *rest, "Câu 8. Mấy?", "Đáp số: 4")
    assert [item.stem for item in imported.items] == ["Mấy?"]
    problem = imported.problems[0]
    assert problem.place == "câu 7"
    assert problem.beginning == first
    assert reason in problem.reason


def test_pictures_and_formulas_are_told() -> None:
    made = docx.Document()
    paragraph = made.add_paragraph("Câu 1. Hình bên là gì?")
    paragraph.add_run()._r.append(
        paragraph._p.makeelement("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}drawing", {})
    )
    made.add_paragraph("Đáp số: tế bào")
    out = io.BytesIO()
    made.save(out)
    imported = read_bank(out.getvalue(), "de.docx")
    assert not imported.items
    assert "có hình" in imported.problems[0].reason


def test_a_key_that_fits_two_questions_is_given_to_none() -> None:
    imported = word("Câu 1. Thủ đô?", *OPTIONS, "Câu 1. Cố đô?", *OPTIONS, "ĐÁP ÁN", "1.B")
    assert not imported.items
    assert all("nhiều câu cùng số" in problem.reason for problem in imported.problems)


def test_a_paper_without_questions_is_told() -> None:
    with pytest.raises(BadRequest, match="Câu 1"):
        word("Chỉ có một đoạn văn.")


LINES = ["Câu 1. Gì?", "Câu 2. Nào?", *OPTIONS, "a) p", "b) q (S)", "Đáp án: B", "Đáp án: ĐSSĐ", "1.B 2.C", "PHẦN II",
         "ĐÁP ÁN", "HẾT", "Đáp số: 5", "chữ thường"]  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(st.lists(st.sampled_from(LINES), max_size=25))
def test_no_question_is_dropped_silently(lines: list[str]) -> None:
    questions, skipped = questions_of([Line(line, (frozenset(),) * len(line)) for line in lines])
    head = next((place for place, line in enumerate(lines) if line == "ĐÁP ÁN"), len(lines))
    assert len(questions) == sum(line.startswith("Câu") for line in lines[:head])
    if not questions:
        told = " ".join(skipped)
        assert all(line in told for line in lines if line != "1.B 2.C" and not line.startswith("Câu"))
        assert ("1.B 2.C" in lines) == ("“1. B”" in told)
