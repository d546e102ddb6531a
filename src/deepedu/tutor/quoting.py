"""Which sentence of the book answers a question, without any model; and whether any does."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deepedu.base.vietnamese import fold
from deepedu.tutor.names import Lexicon, Name, bears_name, names
from deepedu.tutor.quantities import Quantity, bears, quantities
from deepedu.tutor.terms import Token, is_content, is_typed_plain, pairs, tokens, weight
from deepedu.tutor.units import unit_after, units_in
from deepedu.tutor.windows import Passage, Window


class Asked(StrEnum):
    """What kind of answer a question wants."""

    TIME = "time"
    NUMBER = "number"
    PERSON = "person"
    PLACE = "place"
    REASON = "reason"
    DEFINITION = "definition"
    OTHER = "other"


# On text without accents, lower case, words parted by one space.
_ASKED = (
    (
        Asked.TIME,
        r"\b(?:nam|ngay|thang|the k[iy]|thap (?:nien|ky|ki)|thoi gian|thoi diem|thoi ky|thoi ki|giai doan|mua|luc|khi|"
        r"trieu dai|thoi) (?:nao|may|bao nhieu)\b|\bbao gio\b|\bthe k[iy] (?:thu )?may\b|\bhoi nao\b|\bbao lau\b",
    ),
    (
        Asked.NUMBER,
        r"\bbao nhieu\b|\bmay (?:nguoi|loai|phan|tinh|con|cai|lan|bac|buoc|chau|do|km|nuoc|nam)\b|\bthu may\b",
    ),
    (Asked.REASON, r"\b(?:vi|tai|boi|do) (?:sao|dau)\b|\bnguyen nhan\b|\bl[yi] do\b|\bnho (?:gi|dau|vao dau)\b"),
    (
        Asked.PERSON,
        r"\bai\b|\bnguoi nao\b|\b(?:vua|vi vua|tuong|ong|ba|vi|hoang de|tong thong|chu tich|thu tuong) nao\b|"
        r"\bnha (?:\w+ ){1,2}nao\b|\bnhan vat nao\b|\bten (?:la )?gi\b",
    ),
    (
        Asked.PLACE,
        r"\bo dau\b|\btai dau\b|\btu dau\b|\b(?:noi|dau|tinh|nuoc|quoc gia|thanh pho|dia diem|chau luc|vung|mien|quan|"
        r"huyen|dao|bien|song|khu vuc|thu do) nao\b|\bden dau\b",
    ),
    (Asked.DEFINITION, r"^(?:\w+ ){1,6}la gi\b|\bthe nao la\b|\bnghia la gi\b"),
)
_ASKED_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _ASKED)
_UNIT_ASKED = re.compile(r"(?:bao nhiêu|bao nhieu|mấy|may)\s+(\S+(?:\s\S+){0,3})", re.IGNORECASE)
_REASON = re.compile(r"\b(?:vì|do|nên|bởi|nhờ|nguyên nhân|lý do|lí do|khiến|dẫn đến|dẫn tới|để|nhằm)\b", re.IGNORECASE)
_DEFINES = re.compile(r"\b(?:là|được gọi là|gọi là|nghĩa là|tức là)\b", re.IGNORECASE)
_PLACE_WORD = re.compile(
    r"\b(?:ở|tại|đến|từ|tỉnh|thành phố|huyện|vùng|sông|biển|đảo|núi|miền|nước|châu|phía|thuộc)\b", re.IGNORECASE
)


_WHEN = r" (?:(?:vao|trong|o) )?(?:(?:nam|ngay|thang|luc|thoi gian) (?:nao|bao nhieu|may)|khi nao|bao gio|the k[iy])"
_EVENTS = tuple(
    (re.compile(rf"\b(?:{'|'.join(words)}){_WHEN}"), words)
    for words in (
        ("sinh", "ra doi", "chao doi"),
        ("mat", "qua doi", "tu tran", "chet", "bang ha", "hy sinh", "hi sinh"),
    )
)
# "(1701 – 1744)" after a name.
_LIFESPAN = re.compile(r"\([^()]*\d{3,4}[^()]{0,4}[-–—][^()]*\d{3,4}[^()]*\)")


@dataclass(frozen=True)
class Question:
    """A question read for what it asks and what it names."""

    text: str
    tokens: tuple[Token, ...]
    names: tuple[Name, ...]
    quantities: tuple[Quantity, ...]
    asked: Asked
    asked_words: frozenset[int]
    units: frozenset[str]
    is_plain: bool

    @classmethod
    def of(cls, text: str, known: Lexicon) -> "Question":
        """Reads ``text``; ``known`` is what the evidence says, which tells names from common words."""
        listed = tuple(tokens(text))
        asked, asked_words = _asked_in(listed)
        unit = _UNIT_ASKED.search(text)
        if unit is not None:
            # The answer may spell the unit otherwise, so its words are no content either.
            _, unit_end = unit_after(text, unit.start(1))
            in_unit = {i for i, t in enumerate(listed) if unit.start(1) <= t.start < unit_end}
            asked_words |= in_unit
        return cls(
            text=text,
            tokens=listed,
            names=tuple(names(text, listed, known)),
            quantities=tuple(quantities(text)),
            asked=asked,
            asked_words=asked_words,
            units=_units_asked(unit[1]) if unit else frozenset(),
            is_plain=is_typed_plain(listed),
        )

    def content(self) -> list[tuple[Token, float]]:
        """Its words with their weight, each once; words without meaning and those that ask left out."""
        seen: dict[str, tuple[Token, float]] = {}
        for index, token in enumerate(self.tokens):
            if index in self.asked_words:
                continue
            told = weight(token.folded, is_folded=True) if self.is_plain else weight(token.word)
            if told > 0.05:
                seen.setdefault(token.word, (token, told))
        return list(seen.values())


def _units_asked(text: str) -> frozenset[str]:
    units = units_in(text)
    # "Bao nhiêu độ" asks for any degree.
    return units | {"°C", "°F", "K"} if "°" in units else units


def _asked_in(listed: Sequence[Token]) -> tuple[Asked, frozenset[int]]:
    """The kind of answer wanted, and the places of the words that ask for it ("năm nào")."""
    plain = " ".join(token.folded for token in listed)
    for kind, pattern in _ASKED_PATTERNS:
        match = pattern.search(plain)
        if match is not None and kind is not Asked.DEFINITION:
            first, last = plain[: match.start()].count(" "), plain[: match.end()].count(" ")
            return kind, frozenset(range(first, last + 1))
        if match is not None:
            return kind, frozenset()
    return Asked.OTHER, frozenset()


@dataclass(frozen=True)
class Choice:
    """A window with how well it fits the question.

    ``score`` ranks windows of one question; ``probability`` says how likely the book answers the question at all.
    """

    window: Window
    score: float
    features: dict[str, float]
    is_plain: bool

    @property
    def probability(self) -> float:
        return answered_probability(self.features, is_plain=self.is_plain)


def candidates(question: Question, passages: Sequence[Passage]) -> list[Choice]:
    """Quotable windows of one or two sentences, best first."""
    content = question.content()
    rarity = _rarity(content, passages, is_plain=question.is_plain)
    found: list[Choice] = []
    for passage in passages:
        for window in passage.windows:
            if window.stop - window.first > 2 or not _is_quotable(window):
                continue
            features = _features(question, content, rarity, window)
            found.append(Choice(window, _quote_score(features), features, question.is_plain))
    return sorted(found, key=lambda choice: -choice.score)


def choice_of(question: Question, passages: Sequence[Passage], window: Window) -> Choice:
    """How well one given window fits the question."""
    content = question.content()
    rarity = _rarity(content, passages, is_plain=question.is_plain)
    features = _features(question, content, rarity, window)
    return Choice(window, _quote_score(features), features, question.is_plain)


def _is_quotable(window: Window) -> bool:
    return not any(s.is_question or s.is_heading for s in window.sentences)


def _rarity(content: Sequence[tuple[Token, float]], passages: Sequence[Passage], *, is_plain: bool) -> dict[str, float]:
    """How much each word of the question tells, from its general weight and from how few sentences hold it."""
    sentences = [window for passage in passages for window in passage.windows if window.stop - window.first == 1]
    rarity: dict[str, float] = {}
    for token, told in content:
        holding = sum(_holds(window, token, is_plain=is_plain) for window in sentences)
        rarity[token.word] = told * math.log(1 + (len(sentences) + 1) / (holding + 0.5))
    return rarity


def _holds(window: Window, token: Token, *, is_plain: bool) -> bool:
    return token.folded in window.folded if is_plain else token.word in window.words


def _features(
    question: Question,
    content: Sequence[tuple[Token, float]],
    rarity: dict[str, float],
    window: Window,
) -> dict[str, float]:
    plain = question.is_plain
    told = sum(w for _, w in content) or 1.0
    rare = sum(rarity.values()) or 1.0
    held = [(t, w) for t, w in content if _holds(window, t, is_plain=plain)]
    lexicon = window.passage.lexicon
    in_passage = sum(w for t, w in content if f" {t.folded} " in lexicon.folded) / told
    asked_pairs = pairs([t.folded for t in question.tokens if is_content(t.word)])
    named = question.names
    numbers = question.quantities
    return {
        "words": sum(w for _, w in held) / told,
        "rare": sum(rarity[t.word] for t, _ in held) / rare,
        "pairs": sum(p in window.pairs for p in asked_pairs) / len(asked_pairs) if asked_pairs else 0.0,
        "passage": in_passage,
        "names_here": _share([bears_name(window.lexicon, n, is_plain=plain) for n in named]),
        "names_missing": 1.0 - _share([bears_name(lexicon, n, is_plain=plain) for n in named]),
        "numbers_missing": 1.0 - _share([bears(window.quantities, q, window.passage.units) for q in numbers]),
        "times_missing": 1.0 - _share([_tells_time(window.passage, q) for q in numbers if q.is_time]),
        "event_missing": float(_lacks_event(question, window)),
        "fits": _fits(question, window),
        "pairs_passage": sum(f" {a} {b} " in lexicon.folded for a, b in asked_pairs) / len(asked_pairs)
        if asked_pairs
        else 0.0,
        "max_missing": max((rarity[t.word] for t, _ in content if not _holds(window, t, is_plain=plain)), default=0.0),
        "length": min(2.0, len(window.text) / 250),
        "leans": float(window.sentences[0].leans_back),
    }


def _tells_time(passage: Passage, asked: Quantity) -> bool:
    return any(bears(s.quantities, asked, passage.units) for s in passage.sentences)


def _share(held: Sequence[bool]) -> float:
    return sum(held) / len(held) if held else 1.0


def _fits(question: Question, window: Window) -> float:
    """Whether the window holds an answer of the kind asked for, 0 to 1."""
    fresh = [q for q in window.quantities if not bears(question.quantities, q, frozenset())]
    match question.asked:
        case Asked.TIME:
            return float(any(q.is_time for q in fresh)) or (0.4 if fresh else 0.0)
        case Asked.NUMBER:
            if question.units:
                return float(any(q.unit in question.units for q in fresh)) or (0.4 if fresh else 0.0)
            return float(any(not q.is_time for q in fresh)) or (0.4 if fresh else 0.0)
        case Asked.PERSON:
            asked = {w for n in question.names for w in n.words}
            others = [n for n in window.names if not asked & set(n.words)]
            return 1.0 if any(len(n.words) > 1 for n in others) else 0.5 if others else 0.0
        case Asked.PLACE:
            return 0.5 * bool(window.names) + 0.5 * bool(_PLACE_WORD.search(window.text))
        case Asked.REASON:
            return float(bool(_REASON.search(window.text)))
        case Asked.DEFINITION:
            return _defines(question, window)
        case Asked.OTHER:
            return 0.5


def _lacks_event(question: Question, window: Window) -> bool:
    """Whether the question asks when someone was born or died and the window tells neither in words nor in dates.

    Both are what a model likes to invent for a name that it finds in a passage.
    """
    asked = " ".join(t.folded for t in question.tokens)
    for pattern, words in _EVENTS:
        if pattern.search(asked):
            said = f" {' '.join(t.folded for s in window.sentences for t in s.tokens)} "
            return not any(f" {word} " in said for word in words) and not _LIFESPAN.search(window.text)
    return False


def _defines(question: Question, window: Window) -> float:
    """Whether the window says what the asked thing is: "X là ..." near its beginning."""
    match = _DEFINES.search(window.text)
    if match is None:
        return 0.0
    head = fold(window.text[: match.start()])
    subject = [t.folded for t in question.tokens if is_content(t.word)]
    return 1.0 if subject and all(word in head for word in subject) and match.start() < 80 else 0.3


# Listwise logistic regression on 600 questions of ViQuAD dev: which window holds the answer?
_QUOTE_WEIGHTS = {
    "words": 3.1,
    "rare": 4.15,
    "pairs": 2.45,
    "passage": -0.65,
    "names_here": 0.75,
    "names_missing": -2.05,
    "numbers_missing": -1.5,
    "fits": 1.35,
    "length": -0.05,
    "event_missing": -2.0,
    "leans": 0.1,
}
# Logistic regression on the same questions, with the right passage among three and with its whole article taken away:
# does the best window answer? Questions without accents match by chance more easily and tell no names, so they have
# their own. "times_missing" and "event_missing" are set by hand: ViQuAD asks few such questions, textbooks invite them.
_ANSWERED_WEIGHTS = {
    "words": 2.25,
    "rare": 1.7,
    "pairs": 1.6,
    "passage": 0.7,
    "pairs_passage": 0.7,
    "names_here": 0.4,
    "names_missing": -2.3,
    "numbers_missing": -0.8,
    "max_missing": -0.15,
    "fits": 0.1,
    "times_missing": -1.5,
    "event_missing": -3.0,
    "bias": -2.2,
}
_ANSWERED_WEIGHTS_PLAIN = {
    "words": 1.95,
    "rare": 1.95,
    "pairs": 1.9,
    "passage": 1.35,
    "pairs_passage": 2.85,
    "numbers_missing": -0.75,
    "max_missing": -0.6,
    "times_missing": -1.5,
    "event_missing": -3.0,
    "bias": -2.1,
}


def _quote_score(features: dict[str, float]) -> float:
    return sum(factor * features[name] for name, factor in _QUOTE_WEIGHTS.items())


def answered_probability(features: dict[str, float], *, is_plain: bool) -> float:
    """How likely it is that the book answers the question, from the features of its best window."""
    weights = _ANSWERED_WEIGHTS_PLAIN if is_plain else _ANSWERED_WEIGHTS
    raised = sum(factor * features.get(name, 1.0) for name, factor in weights.items())
    return 1.0 / (1.0 + math.exp(-raised))
