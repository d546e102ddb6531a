"""Quizzes: items in the three forms of the national examination, how they are marked, and what a pupil is shown.

Source: the rules of the upper-secondary graduation examination from 2025: a choice is worth 0.25; of four statements
one, two, three, four right are worth 0.1, 0.25, 0.5, 1; a short answer is worth 0.5 in mathematics and 0.25 elsewhere.
"""

import hashlib
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    computed_field,
    field_validator,
    model_validator,
)

from deepedu.base.errors import BadRequest
from deepedu.base.vietnamese import fold, words
from deepedu.tutor.quiz_reading import (
    LETTERS,
    Given,
    as_text,
    is_blank,
    is_number,
    is_right_short,
    is_same_unit,
    number_and_unit,
    read_choice,
    read_truths,
)

_LONGEST = 4000
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Tags that do something; "a < b", "#include <iostream>" and vector<int> are text.
_TAG = re.compile(
    r"<(?:!--|/?(?:a|b|i|u|s|p|br|hr|h[1-6]|em|strong|sub|sup|span|div|font|img|script|style|iframe|svg|object|embed|"
    r"table|tbody|tr|td|th|ul|ol|li|form|input|button|link|meta|video|audio|math|html|body|head)"
    r"(?:[\s/][^<>]*)?/?>)|&(?:nbsp|lt|gt|amp|quot|#\d+);",
    re.IGNORECASE,
)


def clean_text(text: str) -> str:
    """A text of an item in its one spelling: NFC, line feeds, nothing invisible; indentation of later lines stays.

    Raises:
        ValueError: it holds HTML or control characters, or is far too long.
    """
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).replace("\u00a0", " ")
    lines = re.split(r"\r\n?|[\n\u2028\u2029]", text)
    text = "\n".join(re.sub(r"(?<=\S)[ \t]+", " ", line).rstrip() for line in lines).strip()
    if found := _CONTROL.search(text):
        raise ValueError(f"cần chữ thường, gặp kí tự điều khiển {found.group()!r}; hãy gõ lại chỗ đó")
    if found := _TAG.search(text):
        raise ValueError(f"cần chữ thường, gặp mã HTML {found.group()!r}; hãy xóa mã hoặc viết bằng dấu ‹ ›")
    if len(text) > _LONGEST:
        raise ValueError(f"cần nhiều nhất {_LONGEST} kí tự, có {len(text)}; hãy viết ngắn lại")
    return text


def _said(text: str) -> str:
    if not (text := clean_text(text)):
        raise ValueError("không được để trống; hãy viết nội dung")
    return text


Text = Annotated[str, AfterValidator(clean_text)]
Said = Annotated[str, AfterValidator(_said)]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuizEvidence(_Value):
    """Where a book bears an item: its document's SHA-256, the page, the words; ``passage_id`` holds for one library."""

    book: str
    page: int = Field(ge=1)
    quote: Said
    passage_id: int | None = None


class _Item(_Value, ABC):
    stem: Said
    evidence: QuizEvidence | None = None
    skill: Text = ""
    explanation: Text = ""

    @computed_field
    @property
    def id(self) -> str:
        """Hash of what is asked. The key has no part in it: mending it keeps the id, and the id betrays nothing."""
        asked = json.dumps(self.shown_parts(), ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    @abstractmethod
    def shown_parts(self) -> dict[str, Any]:
        """What a pupil is shown of it."""

    @model_validator(mode="before")
    @classmethod
    def _without_id(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if name != "id"} if isinstance(data, Mapping) else data


class Choice(_Item):
    """Four options, one of them right: ``options[key]``."""

    kind: Literal["choice"] = "choice"
    options: tuple[Said, ...]
    key: int

    @field_validator("options")
    @classmethod
    def _four_different(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        if len(options) != 4:
            raise ValueError(f"cần đúng 4 phương án, có {len(options)}; hãy viết đủ A, B, C, D")
        for second, option in enumerate(options):
            for first in range(second):
                if is_same_option(options[first], option):
                    names = f"{LETTERS[first]} và {LETTERS[second]}"
                    raise ValueError(f"phương án {names} giống nhau (“{option}”); hãy sửa một phương án")
        return options

    @field_validator("key")
    @classmethod
    def _in_range(cls, key: int) -> int:
        if not 0 <= key <= 3:
            raise ValueError(f"cần số từ 0 (A) đến 3 (D), nhận được {key}; hãy chọn một phương án đúng")
        return key

    def shown_parts(self) -> dict[str, Any]:
        return {"kind": self.kind, "stem": self.stem, "options": list(self.options)}


class Claim(_Value):
    """One of the statements of a true/false item."""

    text: Said
    truth: bool
    evidence: QuizEvidence | None = None


class TrueFalse(_Item):
    """Four statements, a to d, each true or false by itself."""

    kind: Literal["true_false"] = "true_false"
    statements: tuple[Claim, ...]

    @field_validator("statements")
    @classmethod
    def _four_different(cls, statements: tuple[Claim, ...]) -> tuple[Claim, ...]:
        if len(statements) != 4:
            raise ValueError(f"cần đúng 4 ý, có {len(statements)}; hãy viết đủ a, b, c, d")
        if len({" ".join(words(claim.text)) for claim in statements}) < 4:
            raise ValueError("có hai ý giống nhau; hãy sửa một ý")
        return statements

    def shown_parts(self) -> dict[str, Any]:
        return {"kind": self.kind, "stem": self.stem, "statements": [claim.text for claim in self.statements]}


class Short(_Item):
    """An answer of a number or a few words. ``unit`` is shown beside the answer; ``decimals``: places to round to."""

    kind: Literal["short"] = "short"
    key: Said
    unit: Text | None = None
    decimals: int | None = Field(default=None, ge=0, le=10)

    @field_validator("key", mode="before")
    @classmethod
    def _number_as_text(cls, key: Any) -> Any:
        is_plain = isinstance(key, int | float) and not isinstance(key, bool)
        return as_text(key, "đáp số") if is_plain else key

    @model_validator(mode="after")
    def _fits(self) -> "Short":
        if (self.unit or self.decimals is not None) and not is_number(self.key):
            raise ValueError(f"đơn vị và làm tròn chỉ đi với đáp số là số, đáp số là “{self.key}”")
        own = number_and_unit(self.key)[1]
        if self.unit and own and not is_same_unit(own, self.unit):
            raise ValueError(f"đáp số ghi “{own}” còn đơn vị ghi “{self.unit}”; hãy sửa cho khớp")
        return self

    def shown_parts(self) -> dict[str, Any]:
        asked = {"kind": self.kind, "stem": self.stem, "unit": self.unit, "decimals": self.decimals}
        return {name: value for name, value in asked.items() if value is not None}


Item = Annotated[Choice | TrueFalse | Short, Field(discriminator="kind")]

# Options that only their case tells apart: genotypes, formulas, units.
_SYMBOL = re.compile(r"[A-Za-z0-9_()/^+-]{1,12}")


def is_same_option(one: str, two: str) -> bool:
    """Whether two options are one after folding. Words that differ in their accents (sửa, sữa) are two, and so are
    symbols that differ in case."""
    plain = [" ".join(text.split()).strip(" .;,") for text in (one, two)]
    if fold(plain[0]) != fold(plain[1]) or all(map(_SYMBOL.fullmatch, plain)):
        return plain[0] == plain[1]
    pairs = zip(*map(words, plain), strict=False)
    return not any(first != second and fold(first) != first and fold(second) != second for first, second in pairs)


def shown(item: Item) -> dict[str, Any]:
    """What a pupil may see of an item, as plain values: never its key, explanation, evidence or skill."""
    return {"id": item.id, **item.shown_parts()}


# --- Marks -----------------------------------------------------------------------------------------------------------

_CHOICE = Decimal("0.25")
_STATEMENTS = tuple(map(Decimal, ("0", "0.1", "0.25", "0.5", "1")))


@dataclass(frozen=True)
class Mark:
    """``score`` is the share of the points, 0 to 1; ``right`` has one entry, or four for statements.

    ``given`` is the answer in one spelling ("B", "ĐS-Đ", the text); None where nothing was answered.
    """

    points: Decimal
    max_points: Decimal
    right: tuple[bool, ...]
    given: str | None

    @property
    def score(self) -> float:
        return float(self.points / self.max_points)

    @property
    def is_answered(self) -> bool:
        return self.given is not None


def max_points(item: Item, subject: str | None = None) -> Decimal:
    """What an item is worth; ``subject`` tells mathematics from the others."""
    match item:
        case Choice():
            return _CHOICE
        case TrueFalse():
            return _STATEMENTS[-1]
        case Short():
            return Decimal("0.5") if fold(subject or "").strip().startswith("toan") else Decimal("0.25")


def mark(item: Item, given: Given, *, subject: str | None = None) -> Mark:
    """Marks an answer.

    Raises:
        BadRequest: the answer to a choice or to statements cannot be read; the message tells what was expected.
    """
    most = max_points(item, subject)
    if is_blank(given) and not (isinstance(item, Short) and isinstance(given, str) and given.strip() == item.key):
        return Mark(Decimal(0), most, (False,) * (4 if isinstance(item, TrueFalse) else 1), None)
    match item:
        case Choice():
            index = read_choice(item.options, given)
            is_right, said = index == item.key, LETTERS[index]
        case TrueFalse():
            truths = read_truths(given)
            right = tuple(truth is claim.truth for truth, claim in zip(truths, item.statements, strict=True))
            return Mark(_STATEMENTS[sum(right)], most, right, "".join(map(_sign, truths)))
        case Short():
            said = as_text(given, "một số hoặc vài từ")
            is_right = is_right_short(said, item.key, unit=item.unit, decimals=item.decimals, stem=item.stem)
    return Mark(most if is_right else Decimal(0), most, (is_right,), said)


def _sign(truth: bool | None) -> str:
    return "-" if truth is None else "Đ" if truth else "S"


# --- Quizzes ---------------------------------------------------------------------------------------------------------

# An option or statement that points to another one has to keep its place.
_POINTING = re.compile(
    r"\b(?:tat ca|ca (?:ba|bon|hai|[2-4]|[abcd]\b)|(?:dap an|phuong an|y|cau|phat bieu|menh de) [abcd]\b|"
    r"[abcd] (?:va|hoac|hay|deu) |(?:o|cac (?:y|phuong an|dap an)) tren|khong (?:co )?(?:phuong an|dap an|y) nao)",
)
_PARTS = ("choice", "true_false", "short")


class Quiz(_Value):
    """Items that are given out together. ``seed`` is part of every pupil's order."""

    title: Said
    items: tuple[Item, ...]
    subject: Text | None = None
    grade: int | None = Field(default=None, ge=1, le=12)
    seed: int = 0

    @field_validator("items")
    @classmethod
    def _each_once(cls, items: tuple[Item, ...]) -> tuple[Item, ...]:
        if not items:
            raise ValueError("cần ít nhất một câu hỏi")
        seen: set[str] = set()
        for item in items:
            if item.id in seen:
                raise ValueError(f"câu “{item.stem[:60]}” có hai lần; hãy bỏ một")
            seen.add(item.id)
        return items


@dataclass(frozen=True)
class Placed:
    """An item as one pupil sees it: what stands at place ``n`` is option or statement ``order[n]`` of the item."""

    item: Item
    order: tuple[int, ...]

    @property
    def turned(self) -> Item:
        """The item with its options in the pupil's order."""
        match self.item:
            case Choice(options=options, key=key):
                update = {"options": tuple(options[place] for place in self.order), "key": self.order.index(key)}
            case TrueFalse(statements=statements):
                update = {"statements": tuple(statements[place] for place in self.order)}
            case Short():
                return self.item
        return self.item.model_copy(update=update)

    def shown(self) -> dict[str, Any]:
        """As ``quiz.shown``, under the item's own id."""
        return {**shown(self.turned), "id": self.item.id}

    def mark(self, given: Given, *, subject: str | None = None) -> Mark:
        """Marks what the pupil answered to what was shown, and tells it in the item's own order.

        Raises:
            BadRequest: as ``quiz.mark``.
        """
        marked = mark(self.turned, given, subject=subject)
        if marked.given is None or isinstance(self.item, Short):
            return marked
        if isinstance(self.item, Choice):
            return replace(marked, given=LETTERS[self.order[LETTERS.index(marked.given)]])
        places = [self.order.index(index) for index in range(4)]
        said = "".join(marked.given[place] for place in places)
        return replace(marked, right=tuple(marked.right[place] for place in places), given=said)


def arranged(quiz: Quiz, seed: int | str) -> tuple[Placed, ...]:
    """The quiz in one pupil's order, the same for the same seed on any machine.

    Items keep to their part: choices, then statements, then short answers. Options that point to others ("cả A và B")
    keep everything of their item in place.
    """
    ranked = sorted(quiz.items, key=lambda item: (_PARTS.index(item.kind), _draw(quiz.seed, seed, item.id)))
    return tuple(Placed(item, _order(item, quiz.seed, seed)) for item in ranked)


def _order(item: Item, *seeds: int | str) -> tuple[int, ...]:
    match item:
        case Choice():
            texts: Sequence[str] = item.options
        case TrueFalse():
            texts = [claim.text for claim in item.statements]
        case Short():
            return ()
    places = range(len(texts))
    if any(_POINTING.search(fold(text)) for text in texts):
        return tuple(places)
    return tuple(sorted(places, key=lambda place: _draw(*seeds, item.id, place)))


def _draw(*parts: int | str) -> bytes:
    # ``random`` promises no order across versions of Python, a digest does.
    return hashlib.sha256("\x00".join(map(str, parts)).encode()).digest()


# --- From plain data -------------------------------------------------------------------------------------------------

_ITEM: TypeAdapter[Choice | TrueFalse | Short] = TypeAdapter(Item)
_QUIZ = TypeAdapter(Quiz)
_Read = TypeVar("_Read")
_NAMES = {"stem": "câu hỏi", "options": "phương án", "key": "đáp án", "statements": "các ý", "truth": "đúng/sai",
          "unit": "đơn vị", "decimals": "số chữ số thập phân", "kind": "loại câu", "title": "tên đề", "items": "câu",
          "grade": "lớp", "subject": "môn", "evidence": "dẫn chứng", "explanation": "lời giải", "page": "trang",
          "quote": "trích dẫn", "skill": "bài học", "text": "nội dung", "book": "sách"}  # fmt: skip


def read_item(data: Any) -> Item:
    """An item from plain data.

    Raises:
        BadRequest: it is none, with everything that is wrong with it, in Vietnamese.
    """
    return _read(_ITEM, data)


def read_quiz(data: Any) -> Quiz:
    """A quiz from plain data.

    Raises:
        BadRequest: as ``read_item``.
    """
    return _read(_QUIZ, data)


def _read(adapter: TypeAdapter[_Read], data: Any) -> _Read:
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        raise BadRequest("; ".join(dict.fromkeys(map(_told, error.errors())))) from error


def _told(error: Any) -> str:
    """One fault in Vietnamese, with its place: ``phương án 2: không được để trống``."""
    path = [part for part in error["loc"] if part not in _PARTS]
    named = (str(part + 1) if isinstance(part, int) else _NAMES.get(str(part), str(part)) for part in path)
    place = " ".join(named) or "câu hỏi"
    match error["type"]:
        case "value_error":
            return f"{place}: {error['ctx']['error']}"
        case "missing":
            return f"{place}: còn thiếu; hãy thêm “{path[-1] if path else ''}”"
        case "extra_forbidden":
            return f"{place}: mục lạ; hãy bỏ đi"
        case "union_tag_invalid" | "union_tag_not_found":
            return f"loại câu (kind): cần một trong {', '.join(_PARTS)}"
        case _:
            return f"{place}: giá trị không hợp lệ, nhận được {str(error['input'])[:60]!r}"
