"""An examination paper as lines with their looks, read into questions: stems, options, and the key wherever it is told.

The key stands in an option's looks (underlined, coloured, highlighted, bold), in a line below ("Đáp án: B"), or in a
list at the end ("1.B 2.C"). Where two of them disagree the question is not taken.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deepedu.base.errors import BadRequest
from deepedu.base.vietnamese import fold
from deepedu.tutor.quiz_reading import LETTERS, is_blank, read_truths

Look = Literal["underline", "colour", "highlight", "bold"]
# In the order in which they are trusted; bold is often only how a label is set.
_LOOKS: tuple[Look, ...] = ("underline", "colour", "highlight", "bold")


@dataclass(frozen=True)
class Line:
    """A line or a row of a table (``cells``); ``looks`` has an entry for each character of ``text``.

    ``unread`` names what of it is no text: "hình", "công thức".
    """

    text: str
    looks: tuple[frozenset[Look], ...]
    cells: tuple[str, ...] = ()
    unread: str = ""


@dataclass(frozen=True)
class FoundQuestion:
    """A question as plain data for ``quiz.read_item``, or with what keeps it from being one."""

    place: str
    beginning: str
    data: dict[str, Any]
    problem: str = ""


@dataclass
class _Draft:
    part: int | None
    number: int
    lines: list[Line]
    told: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def place(self) -> str:
        return f"câu {self.number}" if self.part is None else f"phần {'I' * self.part}, câu {self.number}"


_NUMBERED = (
    re.compile(r"\s*c[âa]u\s*(?:h[ỏo]i\s*)?(?:s[ốo]\s*)?(\d{1,3})\s*(?:\([^()]{1,30}\))?\s*[.:)–-]?\s*", re.IGNORECASE),
    re.compile(r"\s*(?:bài|bai|question)\s*(\d{1,3})\s*(?:\([^()]{1,30}\))?\s*[.:)–-]\s*", re.IGNORECASE),
    re.compile(r"\s*(\d{1,3})\s*[.)]\s+"),
)
_PART = re.compile(r"\s*phan\s*(i{1,3}|[123])(?!\w)")
_KEYS_HEAD = re.compile(
    r"[\s*-]*(?:bang |huong dan cham,? (?:va )?)?dap an"
    r"(?: (?:va|chi tiet|tham khao|de|ma|mon|trac nghiem|thang|phan)\b.{0,60})?[\s:.*-]*"
)
_END = re.compile(r"[\s.*_–-]*het[\s.*_–-]*")
_PAIR = r"(?:c[âa]u\s*)?(\d{1,3})\s*[.:)–-]?\s*([A-D](?!\w)|[ĐSDTF]{4}(?!\w))"
_PAIRS = re.compile(rf"\s*(?:{_PAIR}[\s,;|.]*){{2,}}", re.IGNORECASE)
_KEY_WORDS = r"(?:đáp án|đáp số|dap an|dap so|đ/a|trả lời|tra loi|key|answer)(?: đúng| dung)?(?: là| la)?"
_TOLD = re.compile(
    rf"(?:^|(?<=[\n\t]))[ ]*{_KEY_WORDS}(?:\s*[:=]\s*([^\n\t]*)|\s+([A-D])[ .]*(?=[\n\t]|$))"
    rf"|[(\[][ ]*{_KEY_WORDS}\s*[:=]?\s*([^\n)\]]*)[)\]]",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"(?:^|\n)[ \t]*(?:lời giải|hướng dẫn(?: giải)?|giải thích|loi giai|giai thich)(?: chi tiết)?\s*[:.]?\s*",
    re.IGNORECASE,
)
_TRUTH_AT_END = re.compile(
    r"(?:[(\[]\s*|[–-]\s*|\t\s*|\s{2,}|\s(?=đúng\W*$|sai\W*$))(đúng|sai|đ|s)\s*[)\]]?\s*\.?\s*$", re.IGNORECASE
)
_LABELS = {
    "upper": re.compile(r"(?:^|(?<=\s))([A-D])(?:\s*[.):]\s*|\t)"),
    "lower": re.compile(r"(?:^|(?<=\s))([a-d])(?:\s*[.)]\s*|\t)"),
}


def questions_of(lines: Sequence[Line]) -> tuple[list[FoundQuestion], list[str]]:
    """The questions of a paper in order, and the lines that belong to none."""
    drafts: list[_Draft] = []
    skipped: list[str] = []
    keys: list[tuple[int | None, int, str]] = []
    numbered = next((p for p in _NUMBERED if any(p.match(line.text) for line in lines)), _NUMBERED[0])
    part: int | None = None
    in_keys = False
    for line in _with_truths(lines):
        plain = fold(line.text)
        if found := _PART.match(plain):
            part = len(found[1]) if found[1].startswith("i") else int(found[1])
            skipped.append(line.text)
            drafts.append(_Draft(part, 0, []))  # What follows belongs to no question.
        elif _KEYS_HEAD.fullmatch(plain) or _END.fullmatch(plain):
            in_keys = in_keys or _END.fullmatch(plain) is None
            part = None if in_keys else part
            skipped.append(line.text)
            drafts.append(_Draft(part, 0, []))
        elif pairs := _key_pairs(line, part, in_keys=in_keys, numbered=numbered):
            keys += pairs
        elif not in_keys and (found := numbered.match(line.text)):
            drafts.append(_Draft(part, int(found[1]), [_cut(line, found.end())]))
        elif drafts and drafts[-1].number and not in_keys:
            drafts[-1].lines.append(line)
        elif line.text.strip() or line.unread:
            skipped.append(line.text or f"({line.unread})")
    questions = [draft for draft in drafts if draft.number]
    parsed = [_Parsed.of(draft) for draft in questions]
    skipped += _assign(keys, questions, parsed)
    return [one.finished(draft) for one, draft in zip(parsed, questions, strict=True)], skipped


def _cut(line: Line, start: int) -> Line:
    return Line(line.text[start:], line.looks[start:], line.cells, line.unread)


def _with_truths(lines: Sequence[Line]) -> Iterator[Line]:
    """Rows of a table with the columns "Đúng" and "Sai" as statements with their truth behind."""
    columns: tuple[int, int] | None = None
    for line in lines:
        heads = [fold(cell).strip() for cell in line.cells]
        true = next((heads.index(name) for name in ("dung", "d") if heads.count(name) == 1), -1)
        false = next((heads.index(name) for name in ("sai", "s") if heads.count(name) == 1), -1)
        if len(heads) >= 3 and true > 0 and false > 0:
            columns = true, false
            continue
        is_statement = (
            columns is not None and len(line.cells) > max(columns) and re.match(r"[a-d](?:[.)]|\s*$)", heads[0])
        )
        if columns is None or not is_statement:
            columns = columns if is_statement else None
            yield line
            continue
        truth = "Đ" if line.cells[columns[0]].strip() else "S" if line.cells[columns[1]].strip() else ""
        label, *rest = line.cells[: min(columns)]
        label = label if re.match(r"[a-dA-D][.)]", label) else f"{label})"
        text = f"{' '.join([label, *rest])}\t{truth}"
        yield Line(text, (frozenset(),) * len(text))


# --- Keys at the end -------------------------------------------------------------------------------------------------


def _key_pairs(
    line: Line, part: int | None, *, in_keys: bool, numbered: re.Pattern[str]
) -> list[tuple[int | None, int, str]]:
    """Numbers of questions with their keys, where a line or row is nothing but those."""
    if line.cells:
        return _row_pairs(line.cells, part)
    if _PAIRS.fullmatch(line.text):
        return [(part, int(m[1]), m[2].upper()) for m in re.finditer(_PAIR, line.text, re.IGNORECASE)]
    if in_keys and (one := re.fullmatch(rf"\s*{_PAIR}[\s.]*", line.text, re.IGNORECASE)):
        return [(part, int(one[1]), one[2].upper())]
    if in_keys:
        found = numbered.match(line.text) or _NUMBERED[2].match(line.text)
        told = _TOLD.sub(lambda m: m[1] or m[2] or m[3] or "", line.text[found.end() :]).strip() if found else ""
        if found and told:
            return [(part, int(found[1]), told)]
    return []


def _row_pairs(cells: Sequence[str], part: int | None) -> list[tuple[int | None, int, str]]:
    said = [cell.strip() for cell in cells if cell.strip()]
    inside = [re.fullmatch(_PAIR, cell, re.IGNORECASE) for cell in said]
    if said and all(inside):
        return [(part, int(match[1]), match[2].upper()) for match in inside if match]
    if len(said) in (2, 5) and (match := re.fullmatch(r"(?:câu\s*)?(\d{1,3})\.?", said[0], re.IGNORECASE)):
        told = "".join(said[1:])
        if re.fullmatch(r"[A-DĐSTF]|[ĐSTF]{4}", told, re.IGNORECASE):
            return [(part, int(match[1]), told.upper())]
    return []


def key_rows(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A table of two rows, numbers above keys, as cells "1.B"; any other table as it is."""
    turned: list[tuple[str, ...]] = []
    index = 0
    while index < len(rows):
        numbers = [cell.strip() for cell in rows[index]]
        below = [cell.strip() for cell in rows[index + 1]] if index + 1 < len(rows) else []
        places = [place for place, cell in enumerate(numbers) if re.fullmatch(r"\d{1,3}", cell)]
        head = [cell for place, cell in enumerate(numbers) if place not in places and cell]
        is_keys = len(places) >= 2 and len(head) <= 1 and len(below) == len(numbers)
        if is_keys and all(re.fullmatch(r"[A-Da-d]|[ĐSđs]{4}", below[place]) for place in places):
            turned.append(tuple(f"{numbers[place]}.{below[place]}" for place in places))
            index += 2
        else:
            turned.append(rows[index])
            index += 1
    return turned


def _assign(
    keys: Sequence[tuple[int | None, int, str]], questions: Sequence[_Draft], parsed: Sequence["_Parsed"]
) -> list[str]:
    """Gives every key of the list at the end to its question; what fits none is told back."""
    lost: list[str] = []
    for part, number, key in keys:
        fitting = [
            (draft, one)
            for draft, one in zip(questions, parsed, strict=True)
            if draft.number == number and (part is None or draft.part in (None, part)) and one.takes(key)
        ]
        if len(fitting) != 1:
            lost.append(f"đáp án “{number}. {key}” {'không có câu tương ứng' if not fitting else 'ứng với nhiều câu'}")
        for draft, _ in fitting:
            if len(fitting) == 1:
                draft.told.append(key)
            else:
                draft.problem = "bảng đáp án ứng với nhiều câu cùng số; hãy ghi “Đáp án: …” ngay dưới mỗi câu"
    return lost


# --- One question ----------------------------------------------------------------------------------------------------


@dataclass
class _Parsed:
    kind: Literal["choice", "true_false", "short"]
    stem: str
    options: list[str]
    letters: str
    votes: list[str]
    explanation: str
    unread: str

    @classmethod
    def of(cls, draft: _Draft) -> "_Parsed":
        text = "\n".join(line.text for line in draft.lines)
        looks = [look for line in draft.lines for look in (*line.looks, frozenset[Look]())]
        unread = next((line.unread for line in draft.lines if line.unread), "")
        explanation = ""
        if found := _EXPLAINED.search(text):
            explanation, text = text[found.end() :].strip(), text[: found.start()]
        told = [m[1] or m[2] or m[3] or "" for m in _TOLD.finditer(text)]
        draft.told += [key.strip(" .") for key in told if not is_blank(key)]
        text = _TOLD.sub(lambda match: "\0" * len(match.group()), text)
        upper, lower = _chain(text, "upper"), _chain(text, "lower")
        chain, letters = (upper, "ABCD") if len(upper) >= len(lower) else (lower, "abcd")
        if len(chain) < 2:
            return cls("short", _tidy(text), [], "", [], explanation, unread)
        ends = [match.start() for match in chain[1:]] + [len(text)]
        spans = [(match.end(), end) for match, end in zip(chain, ends, strict=True)]
        options = [text[start:end] for start, end in spans]
        is_one_letter = any(re.fullmatch(r"[A-Da-d]", key) for key in draft.told)
        is_claims = draft.part == 2 or any(_is_truths(key) for key in draft.told)
        is_claims = (is_claims or (letters == "abcd" and draft.part is None)) and not is_one_letter
        labels = [match.span(1) for match in chain]
        stem = _tidy(text[: chain[0].start()])
        found = "".join(match[1] for match in chain).upper()
        if not is_claims:
            votes = _looked(labels, spans, text, looks)
            return cls("choice", stem, [_tidy(option) for option in options], found, votes, explanation, unread)
        truths = [match[1] if (match := _TRUTH_AT_END.search(option.rstrip("\0 \n\t"))) else "" for option in options]
        votes = ["".join("Đ" if fold(t).startswith("d") else "S" for t in truths)] if all(truths) else []
        if all(truths):
            options = [_TRUTH_AT_END.sub("", option.rstrip("\0 \n\t")) for option in options]
        votes += _looked_true(labels, spans, text, looks) if not votes else []
        return cls("true_false", stem, [_tidy(option) for option in options], found, votes, explanation, unread)

    def takes(self, key: str) -> bool:
        """Whether a key is one of this kind of question."""
        if self.kind == "choice":
            return re.fullmatch(r"[A-Da-d]\.?", key.strip()) is not None
        return self.kind == "short" or _is_truths(key)

    def finished(self, draft: _Draft) -> FoundQuestion:
        beginning = " ".join(self.stem.split())[:80]
        data: dict[str, Any] = {"kind": self.kind, "stem": self.stem}
        if self.explanation:
            data["explanation"] = self.explanation
        try:
            if draft.problem or self.unread:
                raise BadRequest(
                    draft.problem or f"có {self.unread} mà bản nhập chữ không giữ được; hãy viết lại câu này bằng chữ"
                )
            data |= self._answer(draft.told)
        except BadRequest as error:
            return FoundQuestion(draft.place, beginning, data, str(error))
        return FoundQuestion(draft.place, beginning, data)

    def _answer(self, told: Sequence[str]) -> Mapping[str, Any]:
        if self.kind == "short":
            return {"key": _agreed([*dict.fromkeys(told)], "“Đáp số: …” dưới câu, hoặc bốn phương án A, B, C, D")}
        if missing := [letter for letter in LETTERS if letter not in self.letters]:
            what = "phương án" if self.kind == "choice" else "ý"
            raise BadRequest(
                f"cần đủ bốn {what}, thiếu {', '.join(missing)}; hãy ghi mỗi {what} bằng “{missing[0]}. …”"
            )
        if self.kind == "choice":
            wanted = "một phương án gạch chân, in đậm hoặc tô đỏ, hoặc “Đáp án: B”"
            letters = [key.strip(" .").upper() for key in told]
            key = _agreed([*dict.fromkeys([*letters, *self.votes])], wanted)
            if key not in LETTERS:
                raise BadRequest(f"cần đáp án A, B, C hoặc D, thấy “{key}”; hãy ghi lại đáp án")
            return {"options": self.options, "key": LETTERS.index(key)}
        truths = [read_truths(key) for key in told] + [read_truths(key) for key in self.votes]
        agreed = _agreed([*dict.fromkeys(truths)], "“Đáp án: ĐSSĐ” hoặc (Đ), (S) sau mỗi ý")
        if None in agreed:
            raise BadRequest("cần Đ hoặc S cho cả bốn ý; hãy ghi đủ")
        claims = zip(self.options, agreed, strict=True)
        return {"statements": [{"text": text, "truth": truth} for text, truth in claims]}


def _agreed(keys: Sequence[Any], wanted: str) -> Any:
    if not keys:
        raise BadRequest(f"không thấy đáp án; cần {wanted}")
    if len(keys) > 1:
        shown = [key if isinstance(key, str) else "".join("Đ" if t else "S" for t in key) for key in keys]
        raise BadRequest(f"có nhiều đáp án khác nhau: {', '.join(shown)}; hãy giữ một đáp án")
    return keys[0]


def _is_truths(key: str) -> bool:
    try:
        return not is_blank(key) and None not in read_truths(key)
    except BadRequest:
        return False


def _chain(text: str, case: str) -> list[re.Match[str]]:
    """The labels of the options, A to D in order; those at the beginning of a line or column before any others."""
    found = list(_LABELS[case].finditer(text))
    strong = [match for match in found if re.search(r"(?:^|[\n\t]|\s\s)$", text[: match.start()])]
    chains = [_ascending(pool) for pool in (strong, found)]
    return chains[0] if len(chains[0]) == 4 else max(chains, key=len)


def _ascending(found: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    chain: list[re.Match[str]] = []
    for match in found:
        place = "abcd".index(match[1].lower())
        if place == 0 and len(chain) <= 1:
            chain = [match]  # "vitamin A. …" in the stem, and the option A after it.
        elif chain and place > "abcd".index(chain[-1][1].lower()):
            chain.append(match)
    return chain


def _looked(
    labels: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], text: str, looks: Sequence[frozenset[Look]]
) -> list[str]:
    """The option that looks different from the others, by the first kind of look that singles one out."""
    for look in _LOOKS:
        for places in (labels, spans):
            marked = [index for index, span in enumerate(places) if _has(look, span, text, looks)]
            if len(marked) == 1:
                return [LETTERS[marked[0]]]
    return []


def _looked_true(
    labels: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], text: str, looks: Sequence[frozenset[Look]]
) -> list[str]:
    """The statements that are marked as true, where some are and some are not."""
    for look in _LOOKS:
        for places in (labels, spans):
            marked = [_has(look, span, text, looks) for span in places]
            if any(marked) and not all(marked):
                return ["".join("Đ" if one else "S" for one in marked)]
    return []


def _has(look: Look, span: tuple[int, int], text: str, looks: Sequence[frozenset[Look]]) -> bool:
    inside = [index for index in range(*span) if not text[index].isspace() and text[index] != "\0"]
    return bool(inside) and sum(look in looks[index] for index in inside) > 0.7 * len(inside)


def _tidy(text: str) -> str:
    lines = (re.sub(r"\s*\t\s*", " ", line).strip() for line in text.replace("\0", "").split("\n"))
    return "\n".join(line for line in lines if line)
