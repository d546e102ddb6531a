"""What a pupil's answer to a quiz item says, however it was typed: a choice, truths of statements, a short answer."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

from deepedu.base.errors import BadRequest
from deepedu.base.vietnamese import fold, words
from deepedu.tutor.marking import choice_of, mark_number, mark_text
from deepedu.tutor.quantities import Quantity, quantities, roman_value, same_quantity
from deepedu.tutor.terms import word_set
from deepedu.tutor.units import unit_after, units_in

# What JSON can hold of an answer.
Given = str | int | float | bool | Sequence[Any] | Mapping[str, Any] | None

LETTERS = "ABCD"
_BLANK = re.compile(r"[\s._…?–—-]*")
_LONGEST = 500


def is_blank(given: Given) -> bool:
    """Whether nothing was answered."""
    if given is None or isinstance(given, str):
        return _BLANK.fullmatch(given or "") is not None
    if isinstance(given, Mapping):
        return all(is_blank(value) for value in given.values())
    return isinstance(given, Sequence) and all(is_blank(value) for value in given)


_VULGAR = re.compile("[¼-¾⅐-⅞]")


def as_text(given: Given, expected: str) -> str:
    """An answer that has to be one text or number, as text, NFC.

    Raises:
        BadRequest: it is something else, or far too long; ``expected`` tells what was.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise BadRequest(f"cần {expected}, nhận được {given!r}")
    if isinstance(given, float):
        # The comma says that it is no thousand.
        return format(Decimal(str(given)), "f").removesuffix(".0").replace(".", ",")
    text = unicodedata.normalize("NFC", str(given)).strip()
    if len(text) > _LONGEST:
        raise BadRequest(f"cần {expected}, nhận được {len(text)} kí tự; hãy viết ngắn lại")
    # Phones write ½ for 1/2.
    return _VULGAR.sub(lambda found: unicodedata.normalize("NFKC", found.group()).replace("\u2044", "/"), text)


# --- Choices ---------------------------------------------------------------------------------------------------------


def read_choice(options: Sequence[str], given: Given) -> int:
    """The index of the option that an answer means: its letter, its place (unless options are numbers) or its text.

    Text without accents means an option where no other option reads the same without accents.

    Raises:
        BadRequest: it means none of them, or more than one.
    """
    wanted = f"một chữ cái từ A đến {LETTERS[len(options) - 1]} hoặc nguyên văn một phương án"
    text = as_text(given, wanted)
    labelled = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    exact = [index for index, option in enumerate(options) if option.strip() == text]
    is_label = re.fullmatch(r"[A-Da-d]", text) is not None
    if exact and not is_label:
        return exact[0]
    if re.fullmatch(r"\d", text) and any(map(is_number, options)):
        index = next((i for i, option in enumerate(options) if _is_same_number(text, option)), None)
    elif len({fold(option) for option in options}) < len(options):
        # Only letters can be told apart in prose; a text has to be one of them with its accents.
        index = choice_of(text, [f"{label[:2]} \u2460{i}" for i, label in enumerate(labelled)])
        spelt = [i for i, option in enumerate(options) if words(option) == words(text)]
        index = spelt[0] if index is None and len(spelt) == 1 else index
    else:
        index = choice_of(text, labelled)
    if index is None:
        raise BadRequest(f"cần {wanted}, nhận được “{text}”")
    return index


# --- Truths ----------------------------------------------------------------------------------------------------------

_TRUTHS = {"đ": True, "đúng": True, "dung": True, "t": True, "true": True, "right": True,
           "s": False, "sai": False, "f": False, "false": False, "wrong": False}  # fmt: skip
_FILLER = word_set("ý y câu cau phát phat biểu bieu mệnh menh đề de là la thì thi và va")
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_GLUED = re.compile(r"(?:[abcd1-4][đdsft]){1,4}|[đdsft]{4}")
_WANTED = "Đ hoặc S cho bốn ý, ví dụ “ĐSSĐ” hay “a-Đ, b-S, c-S, d-Đ”"


def read_truths(given: Given) -> tuple[bool | None, ...]:
    """What an answer says of each of four statements; None where it says nothing.

    Raises:
        BadRequest: it cannot be read, or in more than one way ("d" may be a letter as well as "đúng").
    """
    if isinstance(given, Mapping):
        pairs = [(_label(str(key)), _truth(value)) for key, value in given.items()]
        labels = [label for label, _ in pairs]
        if None in labels or len(set(labels)) < len(labels):
            raise BadRequest(f"cần {_WANTED}, nhận được {dict(given)!r}")
        said = dict(pairs)
        return tuple(said.get(index) for index in range(4))
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != 4:
            raise BadRequest(f"cần {_WANTED}, nhận được {len(given)} ý")
        return tuple(_truth(value) for value in given)
    text = as_text(given, _WANTED)
    readings = set(_readings(text))
    if len(readings) != 1 or () in readings:
        raise BadRequest(f"cần {_WANTED}, nhận được “{text}”")
    return readings.pop()


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if is_blank(value):
        return None
    said = unicodedata.normalize("NFC", str(value)).strip(" .()[]").lower()
    truth = {"d": True, "1": True, "0": False, **_TRUTHS}.get(said)
    if truth is None:
        raise BadRequest(f"cần {_WANTED}, nhận được {value!r}")
    return truth


def _label(text: str) -> int | None:
    place = "abcd1234".find(text.strip(" .)(").lower() or "?")
    return None if place < 0 else place % 4


def _readings(text: str) -> Iterator[tuple[bool | None, ...]]:
    """Every way to read a text: truths alone, each after its letters ("a c đúng"), or before them ("đúng: a, c")."""
    found = [token for token in _TOKEN.findall(text.lower()) if token not in _FILLER]
    glued = "".join(found)
    listed = list(glued) if _GLUED.fullmatch(glued) else found
    if len(listed) > 12:
        return
    for reading in product(*(_meanings(token) for token in listed)):
        shape = "".join("T" if isinstance(one, bool) else "L" for one in reading)
        if shape == "TTTT":
            yield tuple(one for one in reading if isinstance(one, bool))
        elif "L" not in shape:
            yield ()  # Too few or too many: "d s" is no sure answer to d.
        elif re.fullmatch(r"(?:L+T)+", shape):
            yield from _joined(reading)
        elif re.fullmatch(r"(?:TL+)+", shape):
            yield from _joined(reading[::-1])


def _meanings(token: str) -> list[bool | int]:
    """The truths and the places of statements that a word may mean; none makes a text unreadable."""
    truths: list[bool | int] = [True] if token == "d" else [_TRUTHS[token]] if token in _TRUTHS else []
    place = _label(token) if len(token) == 1 else None
    return truths if place is None else [*truths, place]


def _joined(reading: Sequence[bool | int]) -> Iterator[tuple[bool | None, ...]]:
    said: dict[int, bool] = {}
    waiting: list[int] = []
    for one in reading:
        if isinstance(one, bool):
            said |= dict.fromkeys(waiting, one)
            waiting = []
        elif one in said or one in waiting:
            return
        else:
            waiting.append(one)
    yield tuple(said.get(index) for index in range(4))


# --- Short answers ---------------------------------------------------------------------------------------------------

_LEAD = re.compile(r"(?:dap an|dap so|cau tra loi|tra loi|ket qua|ds)(?: la)?\s*[:=]?\s+|la ")
_YEAR_LEAD = re.compile(r"(?:vào |vao )?n[ăa]m (?=\d{3,4}$)", re.IGNORECASE)
_DATE_WORDS = {"ngay": "ngày", "thang": "tháng", "nam": "năm"}
_NUMBER_PART = re.compile(
    r"([^\d]*\d[\d\s.,/·×*^()⁻⁰¹²³⁴-⁹−-]*(?:(?:nghìn|ngàn|vạn|triệu|tỉ|tỷ)\b\s*)*)((?!π)(?:[^\W\d_]|[°º℃%‰$€₫£Ω]).*)?",
    re.DOTALL,
)
_LEVEL = str.maketrans("₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "01234567890123456789+-")


def is_number(text: str) -> bool:
    """Whether a text is a number, with a unit or without."""
    return _is_same_number(text, text)


def number_and_unit(text: str) -> tuple[str, str]:
    """The number of a text such as "12 triệu đồng", and what stands behind it; the unit may be empty."""
    match = _NUMBER_PART.fullmatch(text.strip().rstrip(" .;!"))
    if match is None:
        return text, ""
    return match[1].strip(), (match[2] or "").strip(" .;!()")


def is_same_unit(one: str, two: str) -> bool:
    """Whether two units are one in another spelling: "độ C" is "°C", 1 km is not 1000 m."""
    return mark_number(f"1 {one}", f"1 {two}")


def is_right_short(given: str, key: str, *, unit: str | None, decimals: int | None, stem: str) -> bool:
    """Whether a short answer is the key.

    A number may lack its unit where the pupil is told the unit: beside the answer (``unit``) or in the stem. A unit
    that is given must be the right one. A text must be the key as a whole; see ``marking.mark_text``.
    """
    lead = _LEAD.match(fold(given))
    if lead is not None and not fold(key).startswith(lead.group()):
        given = given[lead.end() :]
    if _is_symbol(key.translate(_LEVEL)):
        return given.translate(_LEVEL).strip(" .") == key.translate(_LEVEL)
    if (dated := _same_date(given, key)) is not None:
        return dated
    given, key = _YEAR_LEAD.sub("", given), _YEAR_LEAD.sub("", key)
    numeral = roman_value(key)
    if numeral is not None:
        said = re.sub(r"^(?:thế kỉ|thế kỷ|the ki|the ky|thứ|thu)\s+", "", given.lower()).strip(" .")
        return said in (key.lower(), str(numeral))
    if not is_number(key):
        return mark_text(given, [key])
    return _is_right_number(given, key, unit, decimals, stem)


def _is_right_number(given: str, key: str, unit: str | None, decimals: int | None, stem: str) -> bool:
    number, own_unit = number_and_unit(key)
    theirs, their_unit = number_and_unit(given)
    told = unit or own_unit
    if not their_unit:
        fits = unit is not None or not own_unit or _names_unit(stem, own_unit)
    elif told:
        fits = is_same_unit(their_unit, told)
    else:
        fits = f" {' '.join(words(fold(their_unit)))} " in f" {' '.join(words(fold(stem)))} "
    # A comma before three digits is no thousand in Vietnamese, unless the key leaves it open.
    is_open = re.search(r"\d[.]\d{3}(?!\d)", number) is not None
    mode = "comma" if "," in theirs and not is_open else "either"
    return fits and mark_number(_with_comma(theirs), _with_comma(number), decimals=decimals, decimal=mode)


def _with_comma(number: str) -> str:
    """A point that can only be a decimal one, written as a comma."""
    return re.sub(r"(?<![\d.,])(\d+)\.(\d{1,2}|\d{4,})(?![\d.,])|(?<![\d.,])(0)\.(\d+)(?![\d.,])", _comma, number)


def _comma(match: re.Match[str]) -> str:
    return f"{match[1] or match[3]},{match[2] or match[4]}"


def _names_unit(stem: str, unit: str) -> bool:
    canonical, end = unit_after(unit, 0)
    if canonical is not None and end == len(unit):
        return canonical in units_in(stem)
    return f" {' '.join(words(unit))} " in f" {' '.join(words(stem))} "


def _is_symbol(text: str) -> bool:
    """Whether case tells: Co is no CO, Aa no aa. In words, names and abbreviations (IRRI) it does not."""
    if re.fullmatch(r"[A-Za-z][A-Za-z\d]*", text) is None or text.islower():
        return False
    is_genotype = re.fullmatch(r"(?:([A-Za-z])(?i:\1))+", text) is not None
    return is_genotype or len(text) <= 2 or not text.isalpha() or not (text.isupper() or text.istitle())


def _same_date(given: str, key: str) -> bool | None:
    """Whether two dates are one; None when the key is no date."""
    ours = _date(key)
    if ours is None:
        return None
    theirs = _date(given)
    return theirs is not None and same_quantity(theirs, ours) and same_quantity(ours, theirs)


def _date(text: str) -> Quantity | None:
    text = re.sub(r"\b(?:ngay|thang|nam)\b", lambda match: _DATE_WORDS[match.group()], text.lower())
    found = quantities(text)
    if len(found) != 1 or found[0].date is None:
        return None
    rest = text[: found[0].start] + text[found[0].end :]
    return found[0] if set(words(rest)) <= {"vào", "vao", "ngày"} else None


def _is_same_number(given: str, key: str) -> bool:
    try:
        return mark_number(given, key)
    except ValueError:
        return False
