"""Numbers, dates and units in Vietnamese prose, comparable however they are written.

``1.954`` is ``1954`` and ``1 954``; ``0,5`` is ``0.5``; ``thế kỉ XV`` is ``thế kỷ 15``; ``2/9/1945`` is
``ngày 2 tháng 9 năm 1945``; ``ba trăm`` is ``300``; ``ki-lô-mét vuông`` is ``km²``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from deepedu.tutor.terms import word_set
from deepedu.tutor.units import MULTIPLIERS, TIME_UNITS, multiplier_after, unit_after

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂₃₄₅₆₇₈₉", "0123456789-0123456789")

_DATE = re.compile(r"(?<![\w./,-])(\d{1,2})\s?([/.-])\s?(\d{1,2})\s?\2\s?(\d{3,4})(?![\w/]|[.,-]\d)")
_DAY_MONTH = re.compile(
    r"(?<![\w./,])(?:ngày |mùng |mồng )?(\d{1,2})(?: tháng (\d{1,2})(?!\w)|/(\d{1,2})(?![\w/]))"
    r"(?:(?:,? năm (?=\d{3,4}(?!\w))|,? (?=\d{4}(?!\w))|/(?=\d{4}(?!\w)))(\d{3,4}))?",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(
    r"(?<!\w)tháng (\d{1,2}|giêng|một|hai|ba|tư|năm|sáu|bảy|tám|chín|mười một|mười hai|mười|chạp)(?!\w)"
    r"(?:(?:,? năm (?=\d{3,4}(?!\w))|(?:[/-]|,? )(?=\d{4}(?!\w)))(\d{3,4}))?",
    re.IGNORECASE,
)
_MONTHS = {"giêng": 1, "một": 1, "hai": 2, "ba": 3, "tư": 4, "năm": 5, "sáu": 6, "bảy": 7, "tám": 8, "chín": 9,
           "mười": 10, "mười một": 11, "mười hai": 12, "chạp": 12}  # fmt: skip
_FRACTION = re.compile(r"(?<![\w/.,])(\d{1,4})/(\d{1,4})(?![\w/])")
_NUMBER = re.compile(
    r"(?<![^\W_])(?<!\d[.,])(?P<sign>(?<![\w)\]%°.,])[-−–](?=\d))?"
    r"(?P<digits>\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:,\d+)?|\d+(?:[.,]\d+)*)"
    r"(?:\^(-?\d+)|(?P<power>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?"
)
_ROMAN = re.compile(
    r"(?<!\w)(?P<lead>thế k[ỉỷ] (?:thứ )?|lần thứ |thứ )(?P<numerals>[IVXL]+)(?!\w)"
    r"(?:\s?[-–,]\s?(?P<second>[IVXL]+)(?!\w))?",
    re.IGNORECASE,
)
_CENTURY = re.compile(r"(?<!\w)thế k[ỉỷ](?: thứ)? $", re.IGNORECASE)
_YEAR_BEFORE = re.compile(r"(?<!\w)năm $", re.IGNORECASE)
_MINUS_BEFORE = re.compile(r"(?<!\w)(?:âm|trừ) $", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """A number as it stands in ``text[start:end]``.

    ``values`` holds every reading of an ambiguous spelling (``1.954``). ``unit`` is canonical, or None. A date has
    ``date = (day, month, year)`` with None for parts not given, and no values. ``is_year``: it may be a year;
    ``says_year``: the word "năm" before it says so.
    """

    surface: str
    start: int
    end: int
    values: frozenset[Fraction] = frozenset()
    unit: str | None = None
    date: tuple[int | None, int | None, int | None] | None = None
    is_year: bool = False
    says_year: bool = False

    @property
    def is_time(self) -> bool:
        """Whether it tells when something was."""
        return self.date is not None or self.is_year or self.unit == "thế kỉ"


def roman_value(numerals: str) -> int | None:
    """Value of Roman numerals up to a few hundred; None when they are not well formed."""
    text = numerals.upper()
    if not re.fullmatch(r"C{0,3}(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})", text) or not text:
        return None
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}[c] for c in text]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def quantities(text: str) -> list[Quantity]:
    """Every number, date and number word of NFC ``text``, in order of place."""
    taken = bytearray(len(text))
    found: list[Quantity] = []
    for finder in (_dates, _romans, _fractions, _digits, _number_words):
        for quantity in finder(text, taken):
            taken[quantity.start : quantity.end] = b"\x01" * (quantity.end - quantity.start)
            found.append(quantity)
    return sorted(found, key=lambda q: q.start)


def bears(evidence: Sequence[Quantity], claim: Quantity, units: frozenset[str]) -> bool:
    """Whether ``evidence`` holds the number that ``claim`` states, with a unit that fits.

    Args:
        units: units that stand in the passage apart from numbers; a bare number in a table may mean one of them.
    """
    if any(same_quantity(claim, other, units) for other in evidence):
        return True
    day, month, year = claim.date or (None, None, None)
    if month is None or year is None:
        return False
    # "Năm 1945 ... Ngày 2 tháng 9, ...": the year is given once for several days.
    has_day = any(o.date is not None and o.date[2] is None and o.date[:2] == (day, month) for o in evidence)
    return has_day and any(o.is_year and Fraction(year) in o.values for o in evidence)


def same_quantity(claim: Quantity, other: Quantity, units: frozenset[str] = frozenset()) -> bool:
    """Whether ``other`` says at least what ``claim`` says."""
    if claim.date is not None:
        if other.date is not None:
            return all(mine is None or mine == its for mine, its in zip(claim.date, other.date, strict=True))
        day, month, year = claim.date
        return day is None and month is None and year is not None and other.is_year and Fraction(year) in other.values
    if other.date is not None:
        # A bare number never stands for a day or a month.
        year = other.date[2]
        return claim.unit is None and year is not None and Fraction(year) in claim.values
    if not claim.values & other.values:
        return False
    return _unit_fits(claim, other, units)


def _unit_fits(claim: Quantity, other: Quantity, units: frozenset[str]) -> bool:
    if claim.says_year and not other.is_year:
        return False
    if claim.unit == other.unit:
        return True
    if "TCN" in (claim.unit, other.unit):
        return False
    if claim.unit is None:
        return True
    return other.unit is None and not other.says_year and claim.unit in units


def _free(taken: bytearray, start: int, end: int) -> bool:
    return not any(taken[start:end])


def _dates(text: str, taken: bytearray) -> list[Quantity]:
    found: list[Quantity] = []

    def add(match: re.Match[str], day: int | None, month: int, year: str | None) -> None:
        if (day is None or 1 <= day <= 31) and 1 <= month <= 12 and _free(taken, match.start(), match.end()):
            taken[match.start() : match.end()] = b"\x01" * (match.end() - match.start())
            date = (day, month, int(year) if year else None)
            found.append(Quantity(match.group().strip(), match.start(), match.end(), date=date))

    for match in _DATE.finditer(text):
        add(match, int(match[1]), int(match[3]), match[4])
    for match in _DAY_MONTH.finditer(text):
        # "2/9" alone is a fraction as much as a day; only a year or the word "ngày" makes it a date.
        if match[2] or match[4] or match.group()[0].isalpha():
            add(match, int(match[1]), int(match[2] or match[3]), match[4])
    for match in _MONTH_YEAR.finditer(text):
        month = _MONTHS.get(match[1].lower())
        add(match, None, month if month is not None else int(match[1]), match[2])
    return found


def _romans(text: str, taken: bytearray) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _ROMAN.finditer(text):
        unit = "thế kỉ" if match["lead"].lower().startswith("thế") else None
        for group in ("numerals", "second"):
            value = roman_value(match[group]) if match[group] and match[group].isupper() else None
            if value and _free(taken, match.start(group), match.end(group)):
                start = match.start() if group == "numerals" else match.start(group)
                surface = text[start : match.end(group)]
                found.append(Quantity(surface, start, match.end(group), frozenset({Fraction(value)}), unit))
    return found


def _fractions(text: str, taken: bytearray) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _FRACTION.finditer(text):
        above, below = int(match[1]), int(match[2])
        if below and _free(taken, match.start(), match.end()):
            unit, end = unit_after(text, match.end())
            values = frozenset({Fraction(above, below)})
            found.append(Quantity(text[match.start() : end], match.start(), end, values, unit))
    return found


def _digits(text: str, taken: bytearray) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _NUMBER.finditer(text):
        if not _free(taken, match.start("digits"), match.end()) or _is_inside_word(text, match):
            continue
        values = _readings(match["digits"])
        exponent = match[3] or (match["power"] or "").translate(_SUPERSCRIPTS)
        if exponent.strip("-") and abs(int(exponent)) <= 40:
            values = {value ** int(exponent) for value in values}
        if match["sign"] or _MINUS_BEFORE.search(text[: match.start()]):
            values = {-value for value in values}
        found.append(_with_unit(text, match.start(), match.end(), values))
        if found[-1].end > match.end():
            taken[match.end() : found[-1].end] = b"\x01" * (found[-1].end - match.end())
    return found


def _is_inside_word(text: str, match: re.Match[str]) -> bool:
    """A digit glued to letters belongs to a name (B52, 4G), unless the letters are a unit."""
    rest = text[match.end() : match.end() + 24]
    return bool(rest) and rest[0].isalpha() and unit_after(rest, 0)[0] is None and multiplier_after(rest, 0)[0] == 1


def _with_unit(text: str, start: int, end: int, values: set[Fraction]) -> Quantity:
    factor, after = multiplier_after(text, end)
    while factor > 1:
        values, end = {value * factor for value in values}, after
        factor, after = multiplier_after(text, end)
    before = text[max(0, start - 16) : start]
    if _CENTURY.search(before):
        return Quantity(text[start:end], start, end, frozenset(values), "thế kỉ")
    unit, unit_end = unit_after(text, end)
    is_plain = text[start:end].isdecimal()
    is_calendar = is_plain and len(text[start:end]) in (3, 4)
    says_year = bool(_YEAR_BEFORE.search(before)) and is_plain
    is_year = says_year or (unit is None and is_calendar and any(1000 <= value <= 2100 for value in values))
    if is_year and unit in TIME_UNITS.values():
        unit, unit_end = None, end
    if unit not in (None, "TCN"):
        is_year = says_year = False
    return Quantity(text[start:unit_end], start, unit_end, frozenset(values), unit, None, is_year, says_year)


def _readings(digits: str) -> set[Fraction]:
    """Values that a spelling with separators may mean."""
    plain = re.sub(r"[ \u00a0\u202f]", "", digits)
    if plain.isdecimal():
        return {Fraction(plain)}
    marks = re.findall(r"[.,]", plain)
    if len(set(marks)) == 2:
        # The last mark is the decimal one: 1.234,5 or 1,234.5
        head, _, tail = plain.rpartition(marks[-1])
        return {Fraction(re.sub(r"[.,]", "", head) + "." + tail)}
    groups = re.split(r"[.,]", plain)
    is_grouped = len(groups[0]) <= 3 and groups[0] != "0" and all(len(g) == 3 for g in groups[1:])
    readings = {Fraction("".join(groups))} if is_grouped else set[Fraction]()
    if len(marks) == 1:
        readings.add(Fraction(f"{groups[0]}.{groups[1]}"))
    # 3.2.1 numbers a section: only the same spelling equals it.
    return readings or {Fraction(int("".join(groups)), 10 ** (len(groups) + 20))}


# --- Number words ----------------------------------------------------------------------------------------------------

_UNITS = {"một": 1, "mốt": 1, "hai": 2, "ba": 3, "bốn": 4, "tư": 4, "năm": 5, "lăm": 5, "nhăm": 5, "sáu": 6, "bảy": 7,
          "bẩy": 7, "tám": 8, "chín": 9}  # fmt: skip
_SCALES = {"trăm": 100, **MULTIPLIERS}
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER_WORDS = frozenset([*_UNITS, *_SCALES, "mười", "mươi", "linh", "lẻ"])
# Words that make "ba", "năm", "chín" a father, a year, or ripe.
_NOT_AFTER = {
    "ba": word_set("mẹ má tôi em mình ơi"),
    "chín": word_set("muồi đỏ vàng rộ"),
}
_NOT_BEFORE = {
    "ba": word_set("ông thu phong người"),
    "chín": word_set("quả trái lúa nấu đã vừa gần chưa"),
    "hai": frozenset(),
}
# "năm" is five only before something counted.
_COUNTED = word_set(
    "người loại phần bước tỉnh con cái chiếc lần nước châu đại giai điểm nhóm yếu đới tầng vùng dân huyện quận "
    "thành ngón cánh loài dạng kiểu hình câu bài mục tiết giờ phút giây ngày tuần tháng mét cân tấn"
)


def _number_words(text: str, taken: bytearray) -> list[Quantity]:
    listed = list(_WORD.finditer(text))
    found: list[Quantity] = []
    index = 0
    while index < len(listed):
        run_end = index
        while run_end < len(listed) and _continues(text, listed, index, run_end):
            run_end += 1
        run = listed[index:run_end]
        if not run or not _free(taken, run[0].start(), run[-1].end()):
            index += max(1, len(run))
            continue
        words = [m.group().lower() for m in run]
        value = _word_value(words) if _is_number_run(text, words, listed, index, run_end) else None
        if value is not None:
            quantity = _with_unit(text, run[0].start(), run[-1].end(), {Fraction(value)})
            found.append(quantity)
        index = run_end
    return found


def _continues(text: str, listed: list[re.Match[str]], first: int, position: int) -> bool:
    match = listed[position]
    if match.group().lower() not in _NUMBER_WORDS:
        return False
    if match.group()[0].isupper() and position > 0:
        return False
    return position == first or text[listed[position - 1].end() : match.start()] == " "


def _is_number_run(text: str, words: list[str], listed: list[re.Match[str]], start: int, end: int) -> bool:
    before = _next_to(text, listed, start - 1, start).lower()
    following = _next_to(text, listed, end, end - 1)
    after = following.lower()
    # "Hai Bà Trưng": a name, not a count.
    if listed[start].group()[0].isupper() and following[:1].isupper():
        return False
    if len(words) > 1:
        return any(w in _SCALES or w in ("mười", "mươi") for w in words)
    word = words[0]
    if word in ("một", "mốt", "tư", "lăm", "nhăm", "linh", "lẻ", "mươi") or word in _SCALES:
        return word == "tư" and before == "thứ"
    if word == "năm":
        return before in ("thứ", "lớp", "số") or (after in _COUNTED and before not in ("mỗi", "hàng", "một", "trong"))
    return after not in _NOT_AFTER.get(word, ()) and before not in _NOT_BEFORE.get(word, ())


def _next_to(text: str, listed: list[re.Match[str]], index: int, neighbour: int) -> str:
    """The word at ``index`` when only a space parts it from the one at ``neighbour``, else an empty string."""
    if not 0 <= index < len(listed):
        return ""
    first, second = listed[min(index, neighbour)], listed[max(index, neighbour)]
    return listed[index].group() if text[first.end() : second.start()] == " " else ""


def _word_value(words: list[str]) -> int | None:
    """Value of number words; None when they do not form one number."""
    total = current = 0
    last_unit: int | None = None
    for word in words:
        if word in _UNITS:
            if last_unit is not None:
                return None
            last_unit = _UNITS[word]
        elif word == "mười":
            current, last_unit = current + 10, None
        elif word == "mươi":
            current, last_unit = current + 10 * (last_unit or 1), None
        elif word == "trăm":
            current, last_unit = current + 100 * (last_unit or 1), None
        elif word in MULTIPLIERS:
            total += (current + (last_unit or 0) or 1) * MULTIPLIERS[word]
            current, last_unit = 0, None
    return total + current + (last_unit or 0)
