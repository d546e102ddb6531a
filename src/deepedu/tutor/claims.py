"""Whether a stretch of the book bears a statement: its words, and every number, name, negation and comparison in it."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from deepedu.tutor.events import BIRTH, stated_event, tells_event
from deepedu.tutor.names import Name, bears_name, names
from deepedu.tutor.quantities import Quantity, bears, same_quantity
from deepedu.tutor.statement import Statement
from deepedu.tutor.terms import Token, is_content, weight, word_set
from deepedu.tutor.windows import Sentence, Window

# How much better another sentence may bear the words around a number: with a number of its own, and without.
_COMPETING_LEAD = 0.2
_LONE_LEAD = 0.4

# Of what a statement adds to the question, and of what it takes from it, one sentence must bear these shares.
_NEWS_TOGETHER = 0.8
# "là người", "vào": as good as nothing new.
_SOME_NEWS = 0.6
_ASKED_TOGETHER = 0.5

_NOT = frozenset({"không", "chưa", "chẳng", "chả", "đừng"})
# "không khí", "không gian": no negation. "không chỉ" says more, not less.
_NOT_NEGATED = word_set("khí gian quân trung chỉ những ngừng phận lưu kích")
_NOT_BEFORE = word_set("hàng trên số tàng hư chân")

_OPPOSITES = (
    ("lớn nhất", "nhỏ nhất"), ("lớn nhất", "bé nhất"), ("cao nhất", "thấp nhất"), ("dài nhất", "ngắn nhất"),
    ("nhiều nhất", "ít nhất"), ("tối đa", "tối thiểu"), ("đầu tiên", "cuối cùng"), ("lớn hơn", "nhỏ hơn"),
    ("cao hơn", "thấp hơn"), ("nhiều hơn", "ít hơn"), ("tăng", "giảm"), ("trước", "sau"), ("đông", "tây"),
    ("bắc", "nam"), ("trên", "dưới"), ("trong", "ngoài"), ("thắng lợi", "thất bại"), ("thắng", "thua"),
    ("thắng", "bại"), ("nóng", "lạnh"), ("nhanh", "chậm"), ("nặng", "nhẹ"), ("thu nhiệt", "tỏa nhiệt"),
    ("bắt đầu", "kết thúc"), ("xuất khẩu", "nhập khẩu"), ("mọc", "lặn"), ("dương", "âm"), ("sinh", "mất"),
    ("sớm", "muộn"), ("nam", "nữ"), ("hút", "đẩy"), ("co", "nở"), ("trái", "phải"), ("ngày", "đêm"),
    ("hòa bình", "chiến tranh"), ("độc lập", "phụ thuộc"), ("cao", "thấp"), ("giàu", "nghèo"), ("mạnh", "yếu"),
    ("ưu điểm", "nhược điểm"), ("thuận lợi", "khó khăn"), ("đúng", "sai"), ("ấm", "lạnh"), ("khô", "ẩm"),
)  # fmt: skip
_PRONOUNS = word_set(
    "ông bà nó họ chúng này đó đây ấy kia anh chị cô mình người vua hắn y ta các những cuộc sự loại thời khi lúc"
)
_PERSONS = word_set("ông bà họ nó")


def coverage(statement: Statement, window: Window) -> float:
    """Share of the statement's content that the window's words bear, 0 to 1.

    A name that stands elsewhere in the passage counts neither way: the window may say "ông" instead.
    """
    carried = _carried_names(statement, window)
    total = borne = 0.0
    for token, told in statement.content:
        is_borne = _bears_word(token, window, is_plain=statement.is_plain)
        if is_borne or token.start not in carried:
            total += told
            borne += told * is_borne
    if not total:
        return float(all(bears(window.quantities, q, window.passage.units) for q in statement.quantities))
    return borne / total


def news_coverage(statement: Statement, window: Window) -> float:
    """The same for the words that the question does not hold; 1 when there are none."""
    carried = _carried_names(statement, window)
    news = [
        (t, told) for t, told in statement.content if t.folded not in statement.question_words and is_content(t.word)
    ]
    total = sum(told for _, told in news)
    borne = sum(
        told
        for token, told in news
        if _bears_word(token, window, is_plain=statement.is_plain) or token.start in carried
    )
    return borne / total if total else 1.0


def said_together(statement: Statement, window: Window) -> bool:
    """Whether one sentence of the window bears both what the statement adds to the question and what it takes from it.

    A small model repeats the question and puts any word of the passage behind it; the words are all there, in
    different sentences.
    """
    carried = _carried_names(statement, window)
    told = [(t, w) for t, w in statement.content if is_content(t.word) and t.start not in carried]
    asked = [(t, w) for t, w in told if t.folded in statement.question_words]
    news = [(t, w) for t, w in told if t.folded not in statement.question_words]
    if not asked or sum(w for _, w in news) < _SOME_NEWS:
        return True
    for index, sentence in enumerate(window.sentences, window.first):
        near = [sentence, *([window.header] if window.header else [])]
        if sentence.leans_back:
            near += window.passage.sentences[max(0, index - 1) : index]
        held = {t.folded for s in near for t in s.tokens} if statement.is_plain else {w for s in near for w in s.words}
        is_news, is_asked = _share_held(news, held, statement), _share_held(asked, held, statement)
        if is_news >= _NEWS_TOGETHER and is_asked >= _ASKED_TOGETHER:
            return True
    return False


def _share_held(told: Sequence[tuple[Token, float]], held: set[str], statement: Statement) -> float:
    borne = sum(w for t, w in told if (t.folded if statement.is_plain else t.word) in held)
    return borne / sum(w for _, w in told)


def fault(statement: Statement, window: Window) -> str | None:
    """Why the window does not bear the statement, in Vietnamese; None when nothing speaks against it."""
    return (
        _number_fault(statement, window)
        or name_fault(statement, window)
        or _event_fault(statement, window)
        or _misplaced_name(statement, window)
        or _negation_fault(statement, window)
        or _opposite_fault(statement, window)
        or _swap_fault(statement, window)
    )


def name_fault(statement: Statement, window: Window) -> str | None:
    """The same for proper names alone."""
    for name in statement.names:
        if not bears_name(window.surroundings, name, is_plain=statement.is_plain):
            return f"Tên “{name.surface}” không có trong đoạn sách này."
    return None


def _event_fault(statement: Statement, window: Window) -> str | None:
    event = stated_event(statement.tokens)
    if event is None:
        return None
    is_timed = any(q.is_time for q in statement.quantities)
    if any(tells_event(sentence, event, is_timed=is_timed) for sentence in window.sentences):
        return None
    return f"Đoạn sách này không nói {'ngày sinh' if event is BIRTH else 'ngày mất'}."


def _bears_word(token: Token, window: Window, *, is_plain: bool) -> bool:
    if token.word in window.words:
        return True
    # Without accents a word is borne by any of its accented forms; with accents only by itself.
    return (is_plain or not token.word.isalpha()) and token.folded in window.folded


def _carried_names(statement: Statement, window: Window) -> frozenset[int]:
    """Places of words of names that stand in the passage or its titles rather than in the window itself."""
    return frozenset(
        token.start
        for name in statement.names
        if bears_name(window.surroundings, name, is_plain=statement.is_plain)
        for token in statement.tokens
        if name.start <= token.start < name.end
    )


def _number_fault(statement: Statement, window: Window) -> str | None:
    for quantity in statement.quantities:
        if not bears(window.quantities, quantity, window.passage.units):
            return _missing_number(statement, quantity, window)
        other = _better_placed(statement, quantity, window) or _said_elsewhere(statement, quantity, window)
        if other is not None:
            said = f"; ở chỗ này sách viết {other.surface}" if other is not quantity else ""
            return f"Sách gắn số {quantity.surface} với điều khác{said}."
    return None


def _missing_number(statement: Statement, quantity: Quantity, window: Window) -> str:
    kind = "Mốc thời gian" if quantity.is_time else "Số"
    mine = _around(statement.tokens, quantity)
    alike = [(_closeness(mine, _around(s.tokens, q)), q) for s in window.sentences for q in s.quantities]
    alike = [(closeness, q) for closeness, q in alike if _same_kind(quantity, q)]
    said = f"; sách viết {max(alike, key=lambda pair: pair[0])[1].surface}" if alike else ""
    return f"{kind} {quantity.surface} không có trong đoạn sách này{said}."


def _better_placed(statement: Statement, claim: Quantity, window: Window) -> Quantity | None:
    """A number of the same kind that stands where the book says what the statement says of ``claim``."""
    mine = _around(statement.tokens, claim)
    best_same = best_other = 0.0
    other: Quantity | None = None
    for sentence in window.sentences:
        for quantity in sentence.quantities:
            closeness = _closeness(mine, _around(sentence.tokens, quantity))
            if same_quantity(claim, quantity, window.passage.units):
                best_same = max(best_same, closeness)
            elif _same_kind(claim, quantity) and closeness > best_other:
                best_other, other = closeness, quantity
    if other is None or any(same_quantity(q, other) for q in statement.quantities):
        return None
    return other if best_other >= 0.5 and best_other > best_same + 0.25 else None


def _said_elsewhere(statement: Statement, claim: Quantity, window: Window) -> Quantity | None:
    """What the book says instead, when the statement's words stand in one sentence and ``claim`` in another.

    Returns:
        The number in that other sentence, ``claim`` itself when it has none of this kind, None when all is well.
    """
    if window.sentences[0].is_row:
        return None
    near = _nearness(statement, claim)
    here = elsewhere = 0.0
    other: Quantity | None = None
    for sentence in window.passage.sentences:
        if sentence.is_row:
            continue
        held = sentence.folded
        share = sum(told for word, told in near if word in held)
        if bears(sentence.quantities, claim, window.passage.units):
            here = max(here, share)
        elif share > elsewhere:
            elsewhere = share
            other = next((q for q in sentence.quantities if _same_kind(claim, q)), None)
    if other is not None and elsewhere > here + _COMPETING_LEAD:
        return other
    return claim if elsewhere > here + _LONE_LEAD else None


def _misplaced_name(statement: Statement, window: Window) -> str | None:
    for name in statement.names:
        other = _other_name(statement, name, window)
        if other is not None:
            return f"Ở chỗ này sách viết “{other.surface}”, không viết “{name.surface}”."
    return None


def _other_name(statement: Statement, name: Name, window: Window) -> Name | None:
    """The name that the book has where the statement has ``name``; None when it may stand there.

    A name from elsewhere in the passage stands for "ông" or for a subject left out, not for another name.
    """
    # Without accents there is no telling names from words in the book.
    if window.sentences[0].is_row or statement.is_plain:
        return None
    near = _nearness(statement, name)
    with_name = best = 0.0
    place: Sentence | None = None
    for sentence in window.sentences:
        share = sum(told for word, told in near if word in sentence.folded)
        if f" {' '.join(name.core)} " in sentence.said:
            with_name = max(with_name, share)
        elif share > best:
            best, place = share, sentence
    if place is None or place.leans_back or with_name >= best - _COMPETING_LEAD:
        return None
    mentioned = {word for n in statement.names for word in n.words}
    others = (n for n in names(place.text, place.tokens, window.passage.lexicon) if not mentioned & set(n.words))
    return next(others, None)


def _nearness(statement: Statement, claim: Quantity | Name) -> list[tuple[str, float]]:
    """The statement's words apart from names and numbers, the nearer to ``claim`` the heavier; together they weigh 1.

    Returns:
        Words without accents with their weight.
    """
    near: list[tuple[str, float]] = []
    places = [i for i, t in enumerate(statement.tokens) if claim.start <= t.start < claim.end] or [0]
    for index, token in enumerate(statement.tokens):
        is_named = any(name.start <= token.start < name.end for name in statement.names)
        if not is_named and not statement.in_quantity(token) and is_content(token.word):
            distance = min(abs(index - place) for place in places)
            near.append((token.folded, weight(token.word) / (1 + distance / 6)))
    total = sum(told for _, told in near)
    return [(word, told / total) for word, told in near] if total else []


def _same_kind(one: Quantity, two: Quantity) -> bool:
    return one.is_time == two.is_time and (one.is_time or one.unit == two.unit)


def _around(listed: Sequence[Token], quantity: Quantity) -> dict[str, float]:
    """Words next to a number, the nearer the heavier; together they weigh 1."""
    before = [t for t in listed if t.end <= quantity.start][-4:][::-1]
    after = [t for t in listed if t.start >= quantity.end][:4]
    near: dict[str, float] = {}
    for side in (before, after):
        for distance, token in enumerate(side):
            if not token.is_number:
                near[token.folded] = max(near.get(token.folded, 0.0), weight(token.word) / (distance + 1))
    total = sum(near.values())
    return {word: told / total for word, told in near.items()} if total else {}


def _closeness(mine: dict[str, float], its: dict[str, float]) -> float:
    return sum(told for word, told in mine.items() if word in its)


def _negated(listed: Sequence[Token]) -> list[tuple[str, ...]]:
    """For every negation the next content words."""
    found: list[tuple[str, ...]] = []
    for index, token in enumerate(listed):
        following = listed[index + 1].word if index + 1 < len(listed) else ""
        before = listed[index - 1].word if index else ""
        if token.word in _NOT and following not in _NOT_NEGATED and before not in _NOT_BEFORE and following:
            found.append(tuple(t.word for t in listed[index + 1 : index + 7] if is_content(t.word))[:3])
    return found


def _negation_fault(statement: Statement, window: Window) -> str | None:
    mine = _negated(statement.tokens)
    its = [negated for s in window.sentences for negated in _negated(s.tokens)]
    for negated in mine:
        if not any(set(negated) & set(other) for other in its):
            return f"Sách không phủ định điều này (“không {' '.join(negated)}”)."
    said = " ".join(t.word for t in statement.tokens)
    denied = {word for negated in mine for word in negated}
    for other in its:
        phrase = " ".join(other[:2])
        affirmed = window.lexicon.words.count(f" {phrase} ") > sum(" ".join(o[:2]) == phrase for o in its)
        if other and f" {phrase} " in f" {said} " and not denied & set(other) and not affirmed:
            return f"Sách phủ định điều này (“không {phrase}”)."
    return None


def _opposite_fault(statement: Statement, window: Window) -> str | None:
    mine_said = [t.word for t in statement.tokens]
    said, book = f" {' '.join(mine_said)} ", window.lexicon.words
    for pair in _OPPOSITES:
        for mine, its in (pair, pair[::-1]):
            is_turned = (
                f" {mine} " in said and f" {mine} " not in book and f" {its} " in book and f" {its} " not in said
            )
            if is_turned and _beside(mine_said, mine) & {w for s in window.sentences for w in _beside(s.words, its)}:
                return f"Sách viết “{its}”, không viết “{mine}”."
    return None


def _beside(words: Sequence[str], phrase: str) -> set[str]:
    """Words next to where ``phrase`` stands: only of the same thing can it say the opposite."""
    parts = phrase.split()
    found: set[str] = set()
    for index in range(len(words) - len(parts) + 1):
        if list(words[index : index + len(parts)]) == parts:
            near = [*words[max(0, index - 2) : index], *words[index + len(parts) : index + len(parts) + 2]]
            found.update(word for word in near if is_content(word))
    return found


def _swap_fault(statement: Statement, window: Window) -> str | None:
    """Words put in the place of others: borne elsewhere in the passage, but not said of this.

    "Đất phù sa chiếm diện tích lớn nhất" is not borne by "Đất feralit chiếm diện tích lớn nhất. Đất phù sa ...".
    """
    mine = [t for t in statement.tokens if is_content(t.word) or t.is_capitalised]
    for sentence in window.sentences:
        swapped = _swap_in(mine, sentence, window, statement)
        if swapped is not None:
            return f"Sách viết “{swapped[1]}”, không viết “{swapped[0]}”."
    return None


def _swap_in(mine: Sequence[Token], sentence: Sentence, window: Window, statement: Statement) -> tuple[str, str] | None:
    its = [t for t in sentence.tokens if is_content(t.word) or t.is_capitalised]
    matcher = SequenceMatcher(None, [t.word for t in mine], [t.word for t in its], autojunk=False)
    operations = matcher.get_opcodes()
    matched = sum(weight(t.word) for tag, a, b, _, _ in operations if tag == "equal" for t in mine[a:b])
    total = sum(weight(t.word) for t in mine)
    if not total or matched < 0.5 * total:
        return None
    sentence_words = frozenset(sentence.words)
    for tag, a, b, c, d in operations:
        if tag != "replace" or b - a > 6 or d - c > 6:
            continue
        put = [t for t in mine[a:b] if t.word not in sentence_words and not statement.in_quantity(t)]
        gone = [t for t in its[c:d] if t.is_capitalised or not any(t.word == m.word for m in mine)]
        is_borne = all(t.word in window.words or t.word in window.passage.lexicon.names for t in put)
        # A name in the place of another, even one that is not known to be a name.
        is_renamed = all(t.is_capitalised for t in mine[a:b]) and all(t.word in window.lexicon.names for t in its[c:d])
        # "Ông cùng các cộng sự" may well be he who is named.
        is_meant = (gone[:1] and gone[0].word in _PERSONS) or all(t.word in _PRONOUNS for t in gone)
        if put and gone and (is_borne or is_renamed) and not is_meant:
            return _span(statement.text, mine[a:b]), _span(sentence.text, its[c:d])
    return None


def _span(text: str, listed: Sequence[Token]) -> str:
    return re.sub(r"\s+", " ", text[listed[0].start : listed[-1].end])
