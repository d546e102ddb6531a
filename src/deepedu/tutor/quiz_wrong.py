"""Wrong answers that a pupil who has not read the lesson could believe: other values of the same kind in the same book,
and true sentences with one thing changed."""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from deepedu.base.vietnamese import words
from deepedu.tutor.quiz_facts import NATIONS, Fact, value
from deepedu.tutor.quiz_gate import means_same

# Puts things into an order that depends on the seed only.
Draw = Callable[..., bytes]

# Two numbers nearer than this, as a share of the larger, are too alike to be told apart.
_APART = Fraction(1, 50)
# Where the book gives a rough figure, another near it may be true as well; one that is made up more than one of the
# book, which means something else there.
_ROUGHLY = re.compile(
    r"\b(?:khoảng|chừng|gần|hơn|tới|ước tính|trên|dưới|thường (?:dài|nặng|cao|rộng|sâu|có kích thước))\b"
    r"(?:[^,;]|,(?=\d)){0,40}$"
)
_ROUGHLY_APART, _MADE_UP_APART = Fraction(1, 9), Fraction(2, 5)
# A value of the book this many times larger or smaller is less likely than one made up.
_NEAR_TIMES = 4
# Of so many nearest values of the book the wrong answers are drawn.
_NEAREST = 6
_FACTORS = (Fraction(2), Fraction(1, 2), Fraction(3, 2), Fraction(3, 4), Fraction(5, 4), Fraction(3), Fraction(4))
_ROUND = (1, 2, 5, 10, 20, 50, 100)
_YEARS = (-21, 12, -8, 17, 29, -34, 6)
_YEARS_APART = 60
_LATEST = 2020
_COLDEST = -273

# Said instead of each other they make a true sentence false; each has to stand in it once.
_OPPOSITES = (
    ("lớn nhất", "nhỏ nhất"), ("cao nhất", "thấp nhất"), ("nhiều nhất", "ít nhất"), ("dài nhất", "ngắn nhất"),
    ("lớn hơn", "nhỏ hơn"), ("cao hơn", "thấp hơn"), ("nhiều hơn", "ít hơn"), ("bên ngoài", "bên trong"),
    ("khó nén", "dễ nén"), ("dễ bị nén", "khó bị nén"), ("tăng", "giảm"), ("thu nhiệt", "tỏa nhiệt"),
    ("đầu tiên", "cuối cùng"), ("ở xa nhau", "ở sát nhau"), ("thắng lợi", "thất bại"), ("đơn bào", "đa bào"),
    ("nhân sơ", "nhân thực"), ("thể rắn", "thể khí"),
)  # fmt: skip
_DENIED = re.compile(r" không (?=(?:có|còn|thay đổi|đổi|mang|thuộc|được|bị|phụ thuộc|tan|dẫn)\b)")


def wrong_answers(fact: Fact, pool: Iterable[Fact], is_wrong: Callable[[str, str], bool], draw: Draw) -> list[str]:
    """Up to three wrong answers in the place of a fact's key.

    Args:
        pool: facts of the book; those of the fact's group give answers, the likeliest first.
        is_wrong: whether the book nowhere says the statement with such an answer; given both.
    """
    chosen: list[str] = []
    for answer in _likely(fact, pool, draw):
        is_new = not any(_too_like(answer, other, fact) for other in (fact.key, *chosen))
        if is_new and _is_possible(answer, fact) and is_wrong(fact.with_key(answer), answer):
            chosen.append(answer)
            if len(chosen) == 3:
                break
    return chosen


def _is_possible(answer: str, fact: Fact) -> bool:
    return not _stands_in(answer, fact) and _keeps_range(answer, fact)


def likeliest(fact: Fact, wrong: Sequence[str]) -> list[str]:
    """Wrong answers, those nearest to the key in value first."""
    own = value(fact.key)
    if own is None:
        return list(wrong)
    return sorted(wrong, key=lambda answer: _times(own, value(answer) or Fraction(0)))


def _likely(fact: Fact, pool: Iterable[Fact], draw: Draw) -> list[str]:
    alike = {other.key: other for other in pool if _is_like(fact, other) and other.key != fact.key}
    own = value(fact.key)
    if own is None:
        return [*_of_one_kind(fact, list(alike.values()), draw), *_nations(fact, draw)]
    values = [(key, number) for key in alike if (number := value(key)) is not None]
    if fact.sort == "year":
        near = [key for key, number in values if abs(number - own) <= _YEARS_APART]
        return [*sorted(near, key=lambda key: draw(fact.said, key)), *_made_up(fact, own, draw)]
    times = {key: _times(own, number) for key, number in values}
    near = sorted((key for key in times if times[key] <= _NEAR_TIMES), key=lambda key: times[key])
    near = sorted(near[:_NEAREST], key=lambda key: draw(fact.said, key)) + near[_NEAREST:]
    far = sorted((key for key in times if times[key] > _NEAR_TIMES), key=lambda key: times[key])
    # A table's own column is what a pupil takes the wrong row of.
    return [*near, *far, *_made_up(fact, own, draw)] if fact.is_row else [*near, *_made_up(fact, own, draw), *far]


def _is_like(fact: Fact, other: Fact) -> bool:
    return other.group == fact.group or (fact.unit != "" and not fact.is_row and other.unit == fact.unit)


def _times(one: Fraction, two: Fraction) -> Fraction:
    """How many times the larger of two numbers is the smaller; a different sign is far."""
    if one * two <= 0:
        return Fraction(10**9) + abs(one - two)
    return max(one / two, two / one)


def _of_one_kind(fact: Fact, alike: Sequence[Fact], draw: Draw) -> list[str]:
    def rank(other: Fact) -> tuple[bool, bool, bool, bytes]:
        mine, its = fact.passage, other.passage
        is_far = mine.chapter != its.chapter
        return not is_alike_term(fact, other.key), mine.lesson != its.lesson, is_far, draw(fact.said, other.key)

    ranked = sorted(alike, key=rank)
    if fact.group == "term thing":
        # Of things that have nothing to do with it, one at most: more would leave the key alone among strangers.
        near = [
            other for other in ranked if is_alike_term(fact, other.key) or other.passage.lesson == fact.passage.lesson
        ]
        ranked = [*near, *[other for other in ranked if other not in near][:1]]
    return [_cased(other.key, fact) for other in ranked]


def is_alike_term(fact: Fact, other: str) -> bool:
    """Whether two terms begin alike, as those do that are easily mixed up; names all do."""
    return fact.sort != "term" or words(other)[0] == words(fact.key)[0]


def _nations(fact: Fact, draw: Draw) -> list[str]:
    if fact.group != "place nation":
        return []
    return sorted(NATIONS[:12], key=lambda name: draw(fact.said, name))


def _cased(key: str, fact: Fact) -> str:
    """A term as the key is written, so that its first letter tells nothing."""
    if fact.sort != "term":
        return key
    first = key[:1].upper() if fact.key[:1].isupper() else key[:1].lower()
    return first + key[1:]


def _made_up(fact: Fact, own: Fraction, draw: Draw) -> list[str]:
    if fact.sort == "year":
        return [str(own + step) for step in sorted(_YEARS, key=lambda s: draw(fact.said, s)) if own + step <= _LATEST]
    if own.denominator == 1 and abs(own) < 10:
        made = [own + step for step in (1, 2, -1, 3, -2, 5, 9, 15) if own + step > 0 or own <= 0]
    else:
        made = [own * factor for factor in sorted(_FACTORS, key=lambda f: draw(fact.said, f))]
    if own.denominator == 1:
        made = [Fraction(_rounded(one)) for one in made]
    if _is_rough(fact):
        made = [one for one in made if abs(one - own) >= _MADE_UP_APART * max(abs(one), abs(own))]
    is_cold = fact.unit == "°C"
    return [printed(one, fact.key) for one in made if one.denominator in _ROUND and not (is_cold and one < _COLDEST)]


def _rounded(number: Fraction) -> int:
    """As round as numbers of its size are in books."""
    size = 10 ** max(0, len(str(abs(int(number)))) - 3)
    return round(number / size) * size


def printed(number: Fraction, like: str) -> str:
    """A number in the spelling of another: spaces between thousands, a decimal comma, its minus sign."""
    text = format(float(number), ",.4f").rstrip("0").rstrip(".") if number.denominator > 1 else f"{int(number):,}"
    gap = "" if re.search(r"\d{4}", like) else "." if re.search(r"\d\.\d{3}", like) else " "
    text = text.replace(",", "\0").replace(".", ",").replace("\0", gap)
    return text.replace("-", "-" if like.startswith("-") else "−")


def _too_like(one: str, two: str, fact: Fact) -> bool:
    first, second = value(one), value(two)
    if first is None or second is None:
        return means_same(one, two)
    if fact.sort == "year":
        return abs(first - second) < 3
    is_small_count = fact.key.isdecimal() and max(abs(first), abs(second)) < 10
    apart = _ROUGHLY_APART if two == fact.key and _is_rough(fact) else Fraction(0) if is_small_count else _APART
    return abs(first - second) < apart * max(abs(first), abs(second)) or first == second


def _is_rough(fact: Fact) -> bool:
    return _ROUGHLY.search(fact.said[: fact.start]) is not None


def _stands_in(answer: str, fact: Fact) -> bool:
    """Whether the sentence, or the one it was taken from, holds the answer elsewhere."""
    number = value(answer)
    if number is not None:
        found = re.findall(r"[-−–]?\d+(?:[ \u00a0]\d{3})*(?:,\d+)?", fact.blanked)
        return any(value(one) == number for one in found)
    return f" {' '.join(words(answer))} " in f" {' '.join(words(fact.blanked))} "


def _keeps_range(answer: str, fact: Fact) -> bool:
    """Whether "từ … đến …" still goes upwards."""
    number = value(answer)
    if number is None:
        return True
    digits = r"([-−–]?\d+(?:[ \u00a0]\d{3})*(?:,\d+)?)"
    upper = re.match(rf"[^\d,.]{{0,12}} đến {digits}", fact.said[fact.end :])
    lower = re.search(rf"{digits}[^\d,.]{{0,12}} đến $", fact.said[: fact.start])
    least, most = value(lower[1]) if lower else None, value(upper[1]) if upper else None
    return (least is None or number > least) and (most is None or number < most)


def in_order(fact: Fact, wrong: Sequence[str], draw: Draw) -> list[str]:
    """The key among the wrong answers: numbers ascending, as on an examination paper, others drawn."""
    options = [fact.key, *wrong]
    values = [value(option) for option in options]
    if None not in values:
        return [option for _, option in sorted(zip(values, options, strict=True), key=lambda pair: pair[0] or 0)]
    return sorted(options, key=lambda option: draw(fact.said, option))


def altered(said: str, draw: Draw) -> list[str]:
    """A true sentence made false by one negation dropped or one word turned into its opposite; likeliest first."""
    made: list[str] = []
    if "(" in said:
        return made  # An abbreviation would tell what stood there.
    if len(_DENIED.findall(said)) == 1:
        made.append(_DENIED.sub(" ", said))
    for pair in _OPPOSITES:
        for one, other in (pair, pair[::-1]):
            pattern = re.compile(rf"(?<!\w){one}(?!\w)")
            if len(pattern.findall(said)) == 1 and other not in said:
                made.append(pattern.sub(other, said))
    return sorted(made, key=lambda text: draw(text))
