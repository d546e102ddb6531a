"""Which sentence of the book answers a question, without any model; and whether any does."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.base.vietnamese import fold
from deepedu.tutor.events import asked_event, tells_event
from deepedu.tutor.names import Lexicon, Name, bears_name, names
from deepedu.tutor.quantities import Quantity, bears
from deepedu.tutor.question import Asked, Question
from deepedu.tutor.terms import Token, is_content, pairs
from deepedu.tutor.units import units_in
from deepedu.tutor.windows import Passage, Sentence, Window

_POINT = re.compile(r"[-–•+*]|\d{1,2}[.)]|[a-z][.)]")
_POINTS = 6
# Search's order tells no more beyond this place.
_LAST_RANK = 4
# How far back "ông" and "nó" may point.
_SENTENCES_BACK = 3
# A word that tells at least this much names what a question is about.
_TELLING = 0.8
_REASON = re.compile(r"\b(?:vì|do|nên|bởi|nhờ|nguyên nhân|lý do|lí do|khiến|dẫn đến|dẫn tới|để|nhằm)\b", re.IGNORECASE)
_DEFINES = re.compile(r"\b(?:là|được gọi là|gọi là|nghĩa là|tức là)\b", re.IGNORECASE)
_PLACE_WORD = re.compile(
    r"\b(?:ở|tại|đến|từ|tỉnh|thành phố|huyện|vùng|sông|biển|đảo|núi|miền|nước|châu|phía|thuộc)\b", re.IGNORECASE
)


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
    def defines(self) -> bool:
        """Whether it says what the asked thing is."""
        return self.features["fits"] == 1.0

    @property
    def probability(self) -> float:
        return answered_probability(self.features, is_plain=self.is_plain)


class QuoteScorer:
    """How well windows of the passages answer one question.

    Args:
        ranks: place of each passage in search's order, from 0; None: they are in that order.
    """

    def __init__(self, question: Question, passages: Sequence[Passage], ranks: Sequence[int] | None = None) -> None:
        self._question = question
        self._passages = passages
        self._ranks = dict(zip(map(id, passages), range(len(passages)) if ranks is None else ranks, strict=True))
        self._content = question.content()
        self._rarity = _rarity(self._content, passages, is_plain=question.is_plain)
        self._told = sum(weight for _, weight in self._content) or 1.0
        self._rare = sum(self._rarity.values()) or 1.0
        self._pairs = pairs([t.folded for t in question.tokens if is_content(t.word)])

    def candidates(self) -> list[Choice]:
        """Quotable windows of one or two sentences, best first."""
        found = [
            self.choice_of(_with_what_follows(window))
            for passage in self._passages
            for window in passage.windows
            if window.stop - window.first <= 2 and _is_quotable(window)
        ]
        return sorted(found, key=lambda choice: -choice.score)

    def choice_of(self, window: Window) -> Choice:
        """How well one given window fits the question."""
        features = self._features(window)
        return Choice(window, _quote_score(features, self._question), features, self._question.is_plain)

    def _features(self, window: Window) -> dict[str, float]:
        question, content, asked_pairs = self._question, self._content, self._pairs
        plain = question.is_plain
        held = [(t, w) for t, w in content if _holds(window, t, is_plain=plain)]
        lexicon = window.passage.lexicon
        loose = _loose_words(question, content, window)
        numbers = question.quantities
        return {
            "words": sum(w for _, w in held) / self._told,
            "rare": sum(self._rarity[t.word] for t, _ in held) / self._rare,
            "pairs": sum(p in window.pairs for p in asked_pairs) / len(asked_pairs) if asked_pairs else 0.0,
            "passage": sum(w for t, w in content if f" {t.folded} " in lexicon.folded) / self._told,
            "names_here": _share([_speaks_of(window, n, is_plain=plain) for n in question.names]),
            "loose_words": float(loose),
            "other_row": float(window.sentences[0].is_row and loose > 0),
            "names_missing": 1.0 - _share([bears_name(lexicon, n, is_plain=plain) for n in question.names]),
            "numbers_missing": 1.0 - _share([bears(window.quantities, q, window.passage.units) for q in numbers]),
            "times_missing": 1.0 - _share([_tells_time(window.passage, q) for q in numbers if q.is_time]),
            "event_missing": float(_lacks_event(question, window)),
            "fits": _fits(question, window),
            "pairs_passage": sum(f" {a} {b} " in lexicon.folded for a, b in asked_pairs) / len(asked_pairs)
            if asked_pairs
            else 0.0,
            "max_missing": max(
                (self._rarity[t.word] for t, _ in content if not _holds(window, t, is_plain=plain)), default=0.0
            ),
            "length": min(2.0, len(window.text) / 250),
            "leans": float(window.sentences[0].leans_back),
            "rank": float(min(self._ranks[id(window.passage)], _LAST_RANK)),
        }


def _with_what_follows(window: Window) -> Window:
    """The window together with what its last sentence announces: a formula, or the points of a list."""
    if not window.sentences[-1].is_open:
        return window
    sentences, stop = window.passage.sentences, window.stop + 1
    while stop < len(sentences) and _POINT.match(sentences[stop].text) and stop < window.stop + _POINTS:
        stop += 1
    return Window(window.passage, window.first, min(stop, len(sentences)))


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


def _speaks_of(window: Window, name: Name, *, is_plain: bool) -> bool:
    """Whether a name stands in the window, or before it where the window only says "ông"."""
    if bears_name(window.lexicon, name, is_plain=is_plain):
        return True
    before = window.passage.sentences[max(0, window.first - _SENTENCES_BACK) : window.first]
    if not window.sentences[0].leans_back or not before:
        return False
    return bears_name(Lexicon.of([(s.text, s.tokens) for s in before]), name, is_plain=is_plain)


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
            in_column = bool(window.header and question.units & units_in(window.header.text))
            if question.units and not in_column:
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
    """Whether the question asks when or where someone was born or died and no sentence of the window tells that."""
    event = asked_event(question.tokens)
    is_timed = question.asked is Asked.TIME
    return event is not None and not any(tells_event(s, event, is_timed=is_timed) for s in window.sentences)


def _offers_answer(question: Question, sentence: Sentence, window: Window) -> bool:
    """Whether a sentence holds a number, or a name, that the question does not."""
    if question.asked is Asked.PERSON:
        asked = {word for name in question.names for word in name.words}
        return any(not asked & set(n.words) for n in names(sentence.text, sentence.tokens, window.passage.lexicon))
    return any(not bears(question.quantities, q, frozenset()) for q in sentence.quantities)


def _loose_words(question: Question, content: Sequence[tuple[Token, float]], window: Window) -> int:
    """How many telling words of a question for a number, a time or a person stand apart from every such answer.

    "Wolfram sôi ở bao nhiêu độ C?" is not answered by "Nước sôi ở 70 °C. Wolfram nóng chảy ở 3 422 °C."
    """
    if question.asked not in (Asked.NUMBER, Asked.TIME, Asked.PERSON):
        return 0
    telling = [t for t, told in content if told >= _TELLING]
    fewest = len(telling)
    for index, sentence in enumerate(window.sentences):
        if not _offers_answer(question, sentence, window):
            continue
        near = [sentence, *([window.header] if window.header else [])]
        if sentence.leans_back:
            near += window.passage.sentences[max(0, window.first + index - 2) : window.first + index]
        held = {t.folded for s in near for t in s.tokens} if question.is_plain else {w for s in near for w in s.words}
        fewest = min(fewest, sum((t.folded if question.is_plain else t.word) not in held for t in telling))
    return min(fewest, 3)


def _defines(question: Question, window: Window) -> float:
    """Whether the window says what the asked thing is: "X là ..." near its beginning, or "... gọi là X"."""
    subject = [t.folded for i, t in enumerate(question.tokens) if is_content(t.word) and i not in question.asked_words]
    said = fold(window.text)
    if subject and re.search(rf"\b(?:goi|duoc hieu) la (?:\w+ )?{re.escape(' '.join(subject))}\b", said):
        return 1.0
    match = _DEFINES.search(window.text)
    if match is None:
        return 0.0
    head = said[: match.start()]
    return 1.0 if subject and all(word in head for word in subject) and match.start() < 80 else 0.3


# Listwise logistic regression on 600 questions of ViQuAD dev: which window holds the answer? "other_row" and "rank"
# were set by hand afterwards (docs/log.md).
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
    "other_row": -2.0,
    "rank": -0.2,
}
# Logistic regression on the same questions, with the right passage among three and with its whole article taken away:
# does the best window answer? Questions without accents match by chance more easily and tell no names, so they have
# their own. "times_missing", "event_missing", "loose_words" and "other_row" are set by hand: ViQuAD asks few such
# questions, textbooks invite them.
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
    "event_missing": -4.5,
    "loose_words": -0.3,
    "other_row": -4.0,
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
    "event_missing": -4.5,
    "loose_words": -0.3,
    "other_row": -4.0,
    "bias": -2.1,
}


_DEFINITION_BONUS = 1.0


def _quote_score(features: dict[str, float], question: Question) -> float:
    # Set by hand: hardly any question of ViQuAD asks what something is.
    bonus = _DEFINITION_BONUS if question.asked is Asked.DEFINITION and features["fits"] == 1.0 else 0.0
    return bonus + sum(factor * features[name] for name, factor in _QUOTE_WEIGHTS.items())


def answered_probability(features: dict[str, float], *, is_plain: bool) -> float:
    """How likely it is that the book answers the question, from the features of its best window."""
    weights = _ANSWERED_WEIGHTS_PLAIN if is_plain else _ANSWERED_WEIGHTS
    raised = sum(factor * features.get(name, 1.0) for name, factor in weights.items())
    return 1.0 / (1.0 + math.exp(-raised))
