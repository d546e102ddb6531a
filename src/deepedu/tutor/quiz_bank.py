"""Banks of quiz items from files that teachers have: JSON, CSV as Excel writes it, Word papers; and back again.

Nothing is dropped silently: every question that could not be taken is told with its place, its beginning, what was
expected and what to do.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepedu.base.errors import BadRequest, DamagedDocument, UnsupportedFormat
from deepedu.base.vietnamese import fold, words
from deepedu.curriculum.legacy import legacy_encoding
from deepedu.curriculum.readers.text import decode
from deepedu.tutor.quiz import LETTERS, Choice, Item, Short, TrueFalse, read_item
from deepedu.tutor.quiz_docx import lines_of
from deepedu.tutor.quiz_paper import FoundQuestion, questions_of
from deepedu.tutor.quiz_reading import read_choice, read_truths

_LARGEST_BYTES = 20_000_000
_MOST_ITEMS = 5000
_BEGINNING = 80


@dataclass(frozen=True)
class BankProblem:
    """A question that was not taken: where it stands, how it begins, what is wrong with it."""

    place: str
    beginning: str
    reason: str

    @property
    def text(self) -> str:
        """All of it in one Vietnamese sentence."""
        return f"{self.place} (“{self.beginning}”): {self.reason}"


@dataclass(frozen=True)
class BankImport:
    """``skipped``: lines that belong to no question, such as the paper's head."""

    items: tuple[Item, ...]
    problems: tuple[BankProblem, ...]
    skipped: tuple[str, ...] = ()


# A question on its way in: its place, its beginning, and its data or what is wrong with it.
_Found = tuple[str, str, dict[str, Any] | str]


def read_bank(source: Path | bytes, filename: str | None = None) -> BankImport:
    """Every item that a file holds, and every question that could not be taken.

    Args:
        source: the file or its content.
        filename: its name, where ``source`` is the content; only tells what the file is meant to be.

    Raises:
        BadRequest: the file as a whole cannot be read; the message tells what to do.
    """
    name = filename or (source.name if isinstance(source, Path) else "")
    content = _content(source)
    if content.startswith(b"PK"):
        return _of_word(content)
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise BadRequest(
            "cần tệp .docx, .csv hoặc .json, nhận được tệp Word hay Excel đời cũ; hãy lưu thành .docx, .csv"
        )
    text = _text(content)
    is_json = name.lower().endswith(".json") or (text.lstrip()[:1] in ("{", "[") and not name.lower().endswith(".csv"))
    return _taken(_of_json(text) if is_json else _of_csv(text))


def _content(source: Path | bytes) -> bytes:
    try:
        content = source.read_bytes() if isinstance(source, Path) else source
    except OSError as error:
        raise BadRequest(f"không mở được tệp {source!s}: {error.strerror}; hãy kiểm tra lại đường dẫn") from error
    if not content.strip():
        raise BadRequest("tệp trống; hãy chọn tệp có câu hỏi")
    if len(content) > _LARGEST_BYTES:
        raise BadRequest(f"cần tệp tới {_LARGEST_BYTES // 10**6} MB, tệp có {len(content) // 10**6} MB; hãy chia nhỏ")
    return content


def _text(content: bytes) -> str:
    # Half of the bytes of UTF-16 without a mark are zeros where the text is plain.
    head = content[:400]
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")) and head.count(0) > len(head) // 8:
        content = (b"\xff\xfe" if head[1::2].count(0) > head[::2].count(0) else b"\xfe\xff") + content
    try:
        text = decode(content)
    except UnsupportedFormat as error:
        raise BadRequest(str(error)) from error
    # The last encoding that is tried takes any bytes, those of old fonts too.
    is_western = not text.isascii() and text == content.decode("cp1252", errors="replace")
    if (legacy := legacy_encoding(text)) is not None or is_western or "\ufffd" in text or "\0" in text:
        raise BadRequest(
            f"cần tệp mã Unicode (UTF-8), tệp này {f'gõ bằng mã cũ {legacy}' if legacy else 'có chữ hỏng'}; "
            "hãy chuyển mã rồi lưu lại, trong Excel chọn “CSV UTF-8”"
        )
    return text


def _taken(found: Iterable[_Found], skipped: Sequence[str] = ()) -> BankImport:
    items: list[Item] = []
    problems: list[BankProblem] = []
    places: dict[tuple[str, ...], tuple[str, Item]] = {}
    for place, beginning, data in found:
        reason, item = _item(data)
        if item is not None:
            before = places.setdefault(_asked(item), (place, item))
            if before[1] is not item:
                keys = "" if _key(before[1]) == _key(item) else " nhưng đáp án khác"
                reason, item = f"trùng với {before[0]}{keys}; hãy giữ một câu", None
        if item is None:
            problems.append(BankProblem(place, " ".join(beginning.split())[:_BEGINNING], reason))
        elif len(items) >= _MOST_ITEMS:
            raise BadRequest(f"cần nhiều nhất {_MOST_ITEMS} câu trong một tệp; hãy chia nhỏ tệp")
        else:
            items.append(item)
    return BankImport(tuple(items), tuple(problems), tuple(skipped))


def _item(data: dict[str, Any] | str) -> tuple[str, Item | None]:
    if isinstance(data, str):
        return data, None
    try:
        return "", read_item(data)
    except BadRequest as error:
        return str(error), None


def _asked(item: Item) -> tuple[str, ...]:
    """What an item asks, in any case, spacing and order of options."""
    said = item.options if isinstance(item, Choice) else ()
    said = tuple(claim.text for claim in item.statements) if isinstance(item, TrueFalse) else said
    return item.kind, " ".join(words(item.stem)), *sorted(" ".join(text.split()) for text in said)


def _key(item: Item) -> object:
    match item:
        case Choice():
            return item.options[item.key]
        case TrueFalse():
            return tuple(sorted((claim.text, claim.truth) for claim in item.statements))
        case Short():
            return item.key, item.unit, item.decimals


# --- Word ------------------------------------------------------------------------------------------------------------


def _of_word(content: bytes) -> BankImport:
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        if any(name.startswith("xl/") for name in names):
            raise BadRequest("cần tệp .docx, .csv hoặc .json, nhận được tệp Excel; hãy lưu thành “CSV UTF-8”")
        questions, skipped = questions_of(lines_of(content))
    except (DamagedDocument, zipfile.BadZipFile) as error:
        raise BadRequest(f"không đọc được tệp Word: {error}; hãy mở bằng Word rồi lưu lại thành .docx") from error
    if not questions:
        raise BadRequest("không thấy câu hỏi nào; mỗi câu cần mở đầu bằng “Câu 1.”, “Câu 2.”…")
    return _taken(map(_of_question, questions), skipped)


def _of_question(question: FoundQuestion) -> _Found:
    return question.place, question.beginning, question.problem or question.data


# --- JSON ------------------------------------------------------------------------------------------------------------


def _of_json(text: str) -> Iterator[_Found]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"tệp JSON bị hỏng ({error}); hãy xuất lại tệp") from error
    listed = data.get("items") if isinstance(data, Mapping) else data
    if not isinstance(listed, list):
        raise BadRequest('cần một danh sách câu hỏi hoặc {"items": [...]}; hãy xuất lại tệp JSON')
    for number, entry in enumerate(listed, start=1):
        beginning = str(entry.get("stem", "")) if isinstance(entry, Mapping) else str(entry)
        yield f"câu {number}", beginning, entry if isinstance(entry, dict) else "cần một đối tượng JSON cho mỗi câu"


def bank_as_json(items: Iterable[Item]) -> bytes:
    """Items as JSON that ``read_bank`` reads back without loss."""
    listed = [item.model_dump(mode="json", exclude_none=True) for item in items]
    return json.dumps({"items": listed}, ensure_ascii=False, indent=1).encode()


# --- CSV -------------------------------------------------------------------------------------------------------------

# Columns as they are written; other names that are understood, without accents.
_COLUMNS = {
    "kind": ("loại", "loai cau", "dang", "dang cau", "kind", "type"),
    "stem": ("câu hỏi", "noi dung", "de bai", "cau", "stem", "question"),
    "A": ("A", "phuong an a", "dap an a", "y a", "option a"),
    "B": ("B", "phuong an b", "dap an b", "y b", "option b"),
    "C": ("C", "phuong an c", "dap an c", "y c", "option c"),
    "D": ("D", "phuong an d", "dap an d", "y d", "option d"),
    "key": ("đáp án", "dap an dung", "dap so", "key", "answer"),
    "unit": ("đơn vị", "unit"),
    "decimals": ("làm tròn", "so chu so thap phan", "decimals"),
    "skill": ("bài", "bai hoc", "chu de", "skill"),
    "explanation": ("lời giải", "giai thich", "huong dan", "explanation"),
    "evidence": ("dẫn chứng", "evidence"),
}
_COLUMN_OF = {fold(name): column for column, names in _COLUMNS.items() for name in names}
_KINDS = {"choice": "trắc nghiệm", "true_false": "đúng sai", "short": "trả lời ngắn"}
_KIND_OF = {fold(name): kind for kind, name in _KINDS.items()} | {kind: kind for kind in _KINDS} | {
    "nhieu lua chon": "choice", "phan i": "choice", "dung/sai": "true_false", "phan ii": "true_false",
    "tra loi ngan": "short", "phan iii": "short", "tu luan ngan": "short",
}  # fmt: skip
# A cell that begins with one of these is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def _of_csv(text: str) -> Iterator[_Found]:
    text = text.removeprefix("\ufeff")
    first, _, rest = text.partition("\n")
    given = first.strip().lower()
    if given.startswith("sep=") and len(given) <= 5:
        text, delimiters = rest, [first.strip()[4:] or "\t"]
    else:
        delimiters = [";", ",", "\t"]
    tables = [_rows(text, delimiter) for delimiter in delimiters]
    rows = max(tables, key=lambda table: sum(fold(cell.strip()) in _COLUMN_OF for cell in table[0][1]) if table else 0)
    columns = [_COLUMN_OF.get(fold(cell.strip())) for cell in rows[0][1]] if rows else []
    if "stem" not in columns or "key" not in columns:
        found = ", ".join(rows[0][1])[:200] if rows else "không có gì"
        wanted = ", ".join(names[0] for names in _COLUMNS.values())
        raise BadRequest(f"cần dòng đầu ghi tên cột ({wanted}; ít nhất “câu hỏi” và “đáp án”), thấy: {found}")
    for line, cells in rows[1:]:
        cells = [_unescaped(cell) for cell in cells]
        row = {column: cell for column, cell in zip(columns, cells, strict=False) if column is not None}
        extra = len(cells) > len(columns) and any(cell.strip() for cell in cells[len(columns) :])
        wrong = (
            f"cần {len(columns)} ô, có {len(cells)}; hãy đặt ô có dấu phân cách trong dấu ngoặc kép" if extra else None
        )
        yield f"dòng {line}", row.get("stem", ""), wrong or _of_row(row)


def _rows(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """Rows that hold anything, each with the line it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[tuple[int, list[str]]] = []
    begin = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((begin, cells))
            begin = reader.line_num + 1
    except csv.Error as error:
        raise BadRequest(f"tệp CSV hỏng ở dòng {reader.line_num} ({error}); hãy lưu lại từ Excel") from error
    return rows


def _of_row(row: Mapping[str, str]) -> dict[str, Any] | str:
    said = {column: cell.strip() for column, cell in row.items()}
    options = [said.get(letter, "") for letter in LETTERS]
    key = said.get("key", "")
    kind = _kind(said.get("kind", ""), options, key)
    if kind is None:
        return f"loại câu “{said['kind']}” lạ; hãy ghi một trong: {', '.join(_KINDS.values())}"
    data: dict[str, Any] = {"kind": kind, "stem": row.get("stem", "")}
    data |= {column: said[column] for column in ("skill",) if said.get(column)}
    if said.get("explanation"):
        data["explanation"] = row["explanation"]
    if not key:
        return "thiếu đáp án; hãy điền cột “đáp án”"
    try:
        proofs = json.loads(said["evidence"]) if said.get("evidence") else {}
        return data | _answer(kind, options, key, said, proofs)
    except (BadRequest, ValueError, TypeError, AttributeError) as error:
        return str(error)


def _kind(named: str, options: Sequence[str], key: str) -> str | None:
    if named:
        return _KIND_OF.get(fold(named).strip())
    if not any(options):
        return "short"
    is_truths = len([letter for letter in fold(key) if letter in "dstf"]) >= 4 and key not in options
    return "true_false" if is_truths and all(options) else "choice"


def _answer(
    kind: str, options: Sequence[str], key: str, said: Mapping[str, str], proofs: Mapping[str, Any]
) -> dict[str, Any]:
    evidence = {"evidence": proofs["item"]} if proofs.get("item") else {}
    if kind == "choice":
        missing = [letter for letter, option in zip(LETTERS, options, strict=True) if not option]
        if missing:
            raise BadRequest(f"thiếu phương án {', '.join(missing)}; hãy điền đủ bốn phương án")
        return {**evidence, "options": list(options), "key": read_choice(options, key)}
    if kind == "true_false":
        truths = read_truths(key)
        if None in truths:
            raise BadRequest(f"cần Đ hoặc S cho cả bốn ý, nhận được “{key}”")
        own = proofs.get("statements") or [None] * 4
        pairs = zip(options, truths, own, strict=True)
        claims = [{"text": text, "truth": truth, "evidence": proof} for text, truth, proof in pairs]
        return {**evidence, "statements": claims}
    decimals = {"decimals": int(said["decimals"])} if said.get("decimals") else {}
    unit = {"unit": said["unit"]} if said.get("unit") else {}
    return {**evidence, "key": key, **unit, **decimals}


def bank_as_csv(items: Iterable[Item]) -> bytes:
    """Items as a table that spreadsheets open and ``read_bank`` reads back without loss.

    Cells that a spreadsheet would take for a formula begin with an apostrophe.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([names[0] for names in _COLUMNS.values()])
    for item in items:
        cells = _cells(item)
        writer.writerow([_escaped(cells.get(column, "")) for column in _COLUMNS])
    return out.getvalue().encode("utf-8-sig")


def _cells(item: Item) -> dict[str, str]:
    cells = {"kind": _KINDS[item.kind], "stem": item.stem, "skill": item.skill, "explanation": item.explanation}
    proofs: dict[str, Any] = {"item": item.evidence.model_dump() if item.evidence else None}
    match item:
        case Choice():
            cells |= dict(zip(LETTERS, item.options, strict=True)) | {"key": LETTERS[item.key]}
        case TrueFalse():
            cells |= {letter: claim.text for letter, claim in zip(LETTERS, item.statements, strict=True)}
            cells["key"] = "".join("Đ" if claim.truth else "S" for claim in item.statements)
            proofs["statements"] = [c.evidence.model_dump() if c.evidence else None for c in item.statements]
        case Short():
            cells |= {"key": item.key, "unit": item.unit or ""}
            cells["decimals"] = "" if item.decimals is None else str(item.decimals)
    if proofs["item"] or any(proofs.get("statements", ())):
        cells["evidence"] = json.dumps(proofs, ensure_ascii=False)
    return cells


def _escaped(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _unescaped(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
