"""A question with what the book has for it: what answers it, what must stay secret, what a pupil's answer is worth."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Evidence
from deepedu.tutor.calculator import calculations
from deepedu.tutor.names import Lexicon, Name
from deepedu.tutor.pupil_intent import Kind, Subject, content_words, lesson_words, numbers_of, plain_words, says
from deepedu.tutor.quantities import Quantity, bears, quantities
from deepedu.tutor.question import Asked, Question
from deepedu.tutor.quoting import Choice, QuoteScorer
from deepedu.tutor.read_passages import READ
from deepedu.tutor.secret import Secret, leaks
from deepedu.tutor.terms import pairs, tokens, weight
from deepedu.tutor.windows import Passage, Sentence, Window
from deepedu.tutor.worked import FORMULA, solutions_of

# A sentence whose score lies this close to the best may be the answer as well, so it is kept secret too.
_NEAR_BEST = 1.2
_NEAR_SENTENCES = 4
_FAR_BEST = 3.0
_FAR_SENTENCES = 10
_ANSWERED = 0.4
_SURE = 0.6
_OPTION = re.compile(r"(?<!\w)([A-D])\s*[.):]\s*(.+?)(?=\s+[B-D]\s*[.):]\s|$)", re.DOTALL)
_ENGLISH_ASKED = (
    (Asked.TIME, r"\b(?:when|(?:what|which) (?:year|date|day|month|century)|how long ago)\b"),
    (Asked.NUMBER, r"\bhow (?:many|much|high|tall|long|fast|hot|cold|big|far|often|heavy)\b|\b(?:temperature|speed)\b"),
    (Asked.PERSON, r"\b(?:who|whom|whose|which (?:scientist|doctor|person))\b"),
    (Asked.PLACE, r"\b(?:where|(?:what|which) (?:city|country|place|station))\b"),
    (Asked.REASON, r"\bwhy\b"),
    (Asked.DEFINITION, r"^(?:what is|what are|define|what does)\b"),
)
_OPEN = re.compile(
    r"\b(?:vi sao|tai sao|giai thich|neu|ke ten|so sanh|trinh bay|the nao|khac|vai tro|chuc nang|dac diem|lam gi|"
    r"hien tuong|dieu gi|thay gi|diem nao|why|explain|describe|compare|define|difference)\b"
)
# "Tên ... là gì", "đơn vị ... là gì" ask for a word, not for a meaning.
_NAMED = re.compile(r"^(?:ten|ki hieu|ky hieu|don vi|cong thuc|name|unit|formula|symbol)\b")
_TASK = re.compile(
    r"\b(?:tinh(?! (?:che|khiet|bot|the|chat|trung))|doi|giai(?! thich)|calculate|compute|convert|solve|work out)\b"
)


class Matter:
    """A question, the passages for it, its secret, and what a pupil's answer to it is worth.

    Args:
        question: as the pupil asked it.
        evidence: passages that search found for it, best first.
        key: the right answer where a teacher gave one: a text, a number or an option's letter.
        guarded: secrets of other questions that the pupil is still working on.
    """

    def __init__(
        self, question: str, evidence: Sequence[Evidence], *, key: str | None = None, guarded: Sequence[Secret] = ()
    ) -> None:
        self.text, self.key, self.guarded = question, key, tuple(guarded)
        options = list(_OPTION.finditer(question))
        self.options = {m[1]: m[2].strip() for m in options} if len(options) >= 2 else {}
        self.stem = question[: options[0].start()] if self.options else question
        self.evidence = tuple(evidence)
        self.passages = READ.read(evidence)
        book = [(s.text, s.tokens) for passage in self.passages for s in passage.sentences]
        self._known = Lexicon.of(book)
        self.question = Question.of(self.stem.strip() or question, self._known)
        self.choices = QuoteScorer(self.question, self.passages).candidates()
        self.best: Choice | None = self.choices[0] if self.choices else None
        self.solutions = solutions_of(self.stem, evidence)
        self.secret = self._secret()

    @cached_property
    def asked(self) -> Asked:
        """What kind of answer is wanted, asked in either language."""
        if self.question.asked is not Asked.OTHER:
            return self.question.asked
        said = plain_words(self.stem)
        return next((kind for kind, pattern in _ENGLISH_ASKED if re.search(pattern, said)), Asked.OTHER)

    @cached_property
    def kind(self) -> Kind:
        """What it takes to answer."""
        said = plain_words(self.stem)
        given = [q for q in self.question.quantities if not q.is_time and (q.unit or q.surface[-1:].isdigit())]
        if self.solutions or (given and _TASK.search(said)) or (len(given) >= 2 and self.asked is Asked.NUMBER):
            return Kind.EXERCISE
        if self.asked in (Asked.TIME, Asked.NUMBER, Asked.PERSON) or _NAMED.search(said):
            return Kind.SHORT
        is_open = self.asked in (Asked.REASON, Asked.DEFINITION) or _OPEN.search(said) is not None
        return Kind.OPEN if is_open else Kind.SHORT

    @cached_property
    def is_claim(self) -> bool:
        """Whether it asks if something is so: then what it names is no given, but a guess."""
        return self.question.wants_yes_or_no or says("verify", self.stem)

    @property
    def is_answerable(self) -> bool:
        """Whether code or book has an answer."""
        return bool(self.key or self.solutions) or (self.best is not None and self.best.probability >= _ANSWERED)

    def subject(self) -> Subject:
        """What the ladder keeps of it."""
        window = self.best.window if self.best else None
        told = [_told_by(passage) for passage in self.passages]
        said = {word: None for one in told for word in one.words}
        names = {name for one in told[:4] for name in one.names}
        figures = {figure for one in told[:4] for figure in one.figures}
        figures |= {str(number) for solution in self.solutions for number in solution.numbers}
        return Subject(
            kind=self.kind,
            terms=content_words(self.stem),
            numbers=tuple(sorted(numbers_of(self.stem))),
            vocabulary=tuple(said),
            names=tuple(sorted({fold(name) for name in names - self._known.small})),
            figures=tuple(sorted(figures)),
            expressions=tuple("".join(c.expression.split()) for c in calculations(self.stem, decimal="comma")),
            section=window.passage.evidence.section_id if window else 0,
            place=(window.passage.evidence.passage_id, window.start, window.end) if window else None,
            asked=str(self.asked),
            has_options=bool(self.options) or self.question.wants_yes_or_no,
        )

    # --- What must not be said ---

    def _secret(self) -> Secret:
        secret = Secret(letters=frozenset(self.options))
        for option in self.options.values():
            secret |= _secret_of_text(option)
        if self.key and self.key.strip(" .") not in self.options:
            secret |= _secret_of_text(self.key)
        for solution in self.solutions:
            secret |= Secret(numbers=frozenset({abs(solution.value())} - self._given_values()))
        for place, choice in enumerate(self._near()):
            secret |= self._secret_of_window(choice.window, is_best=place == 0)
        return secret

    def _near(self) -> list[Choice]:
        if self.best is None or self.kind is Kind.EXERCISE:
            return []
        return [c for c in self.choices[:12] if c.score >= self.best.score - _NEAR_BEST][:_NEAR_SENTENCES]

    def _given_values(self) -> set[Fraction]:
        return set() if self.is_claim else {abs(v) for q in self.question.quantities for v in q.values}

    def fresh(self, found: Iterable[Quantity]) -> list[Quantity]:
        """Those that the question does not give itself."""
        given = () if self.is_claim else self.question.quantities
        return [q for q in found if not bears(given, q, frozenset())]

    def fresh_names(self, found: Iterable[Name]) -> list[Name]:
        """Those that the question does not give itself."""
        asked = set() if self.is_claim else {token.folded for token in self.question.tokens}
        return [n for n in found if not {fold(w) for w in n.core} <= asked]

    def _secret_of_window(self, window: Window, *, is_best: bool) -> Secret:
        fresh = self.fresh(window.quantities)
        wants_value = self.asked in (Asked.TIME, Asked.NUMBER)
        numbers = {abs(v) for q in fresh for v in q.values}
        numbers |= {Fraction(q.date[2]) for q in fresh if q.date and q.date[2]}
        days = {(day, month) for q in fresh if q.date for day, month, _ in [q.date] if day and month}
        if wants_value:
            return Secret(numbers=frozenset(numbers - self._given_values()), days=frozenset(days))
        asked = set[str]() if self.is_claim else {token.folded for token in self.question.tokens}
        names = {tuple(w for w in map(fold, n.core) if w not in asked) for n in self.fresh_names(window.names)}
        names = {n for n in names if len(n) > 1 or (n and weight(n[0], is_folded=True) >= 1.0)}
        rare = {w for n in names for w in n if weight(w, is_folded=True) >= 1.0 and len(w) > 2}
        secret = Secret(names=frozenset(names), words=frozenset(rare))
        if self.asked in (Asked.PERSON, Asked.PLACE) or not is_best:
            return secret
        fresh_words = [w for w in content_words(window.text) if w not in asked]
        formulas = {tuple(t.folded for t in tokens(m.group())) for m in FORMULA.finditer(window.text)}
        told = {p for s in window.sentences for p in pairs([t.folded for t in s.tokens]) if set(p) <= set(fresh_words)}
        strong = {w for w in fresh_words if weight(w, is_folded=True) >= 1.0} if self.kind is Kind.SHORT else set[str]()
        return secret | Secret(
            numbers=frozenset(numbers if self.kind is Kind.SHORT or self.is_claim else set()),
            phrases=frozenset(formulas),
            words=frozenset(strong),
            pairs=frozenset(told),
        )

    @property
    def is_blanked(self) -> bool:
        """Whether an answer is a value that can be taken out of a sentence."""
        return self.kind is Kind.EXERCISE or self.asked in (Asked.TIME, Asked.NUMBER, Asked.PERSON, Asked.PLACE)

    def answering(self) -> set[Sentence]:
        """Sentences that may be the answer. Where no value can be blanked in them, more of them are left out."""
        if self.best is None:
            return set()
        margin, most = (_NEAR_BEST, _NEAR_SENTENCES) if self.is_blanked else (_FAR_BEST, _FAR_SENTENCES)
        near = [c for c in self.choices[:most] if c.score >= self.best.score - margin]
        return {sentence for choice in near for sentence in choice.window.sentences}

    def hides(self, text: str) -> bool:
        """Whether ``text`` gives away this question's secret or a guarded one."""
        return any(leaks(text, secret) for secret in (self.secret, *self.guarded))

    # --- What a pupil's answer is worth ---

    def verdict(self, message: str) -> bool | None:
        """Whether the answer that a message names is right; None: it names none, or more than one, or code cannot tell.

        Only a number, a name or an option is judged, never a statement in own words.
        """
        if self.options and self.key:
            letters = set(re.findall(r"(?<!\w)([A-D])(?!\w)", message))
            return letters == {self.key.strip(" .")} if len(letters) == 1 else None
        if self.kind is Kind.EXERCISE:
            return self._number_verdict(message, [s.value() for s in self.solutions[:1]] or _values_of(self.key))
        if self.key is None and (self.best is None or self.best.probability < _SURE):
            return None
        if self.asked in (Asked.TIME, Asked.NUMBER):
            return self._number_verdict(message, _values_of(self.key) if self.key else self._expected_numbers())
        said = {token.folded for token in tokens(message)}
        if self.asked is Asked.PERSON and self.best is not None:
            right = [set(map(fold, n.core)) for n in self.fresh_names(self.best.window.names)]
            subject = self.subject()
            named = [n for n in subject.names if n in said and n not in subject.terms]
            if len(right) != 1 or not named:
                return None
            return set(named) <= right[0]
        # Of a sentence in own words code cannot tell whether it says the same or the contrary.
        return None

    def _expected_numbers(self) -> list[Fraction]:
        assert self.best is not None
        fresh = [q for q in self.fresh(self.best.window.quantities) if q.is_time == (self.asked is Asked.TIME)]
        values = [Fraction(q.date[2]) if q.date and q.date[2] else min(q.values, default=None) for q in fresh]
        return [value for value in values if value is not None]

    def _number_verdict(self, message: str, expected: Sequence[Fraction]) -> bool | None:
        if len(expected) != 1:
            return None
        given = numbers_of(self.text) if not self.is_claim else frozenset[str]()
        claims = [c for c in calculations(message, decimal="comma") if c.claimed]
        is_said = says("result", message) or says("verify", message)
        if claims:
            named = _values_of(claims[-1].claimed)
            # A step on the way is not the answer.
            is_step = named == [Fraction(claims[-1].value)] and not is_said
            return True if named == list(expected) else None if is_step or not named else False
        rest = re.sub(
            r"(?i)\b(?:trang|bảng|bang|câu|cau|hình|hinh|bài|bai|lớp|lop|page|table|grade)\s+\d+", " ", message
        )
        named = [q for q in quantities(rest) if q.values and not numbers_of(q.surface) & given]
        if len(named) != 1:
            return None
        return any(abs(v) == abs(expected[0]) for v in named[0].values)


def _secret_of_text(text: str) -> Secret:
    found = quantities(text)
    words = tuple(t.folded for t in tokens(text))
    is_short = len(words) <= 4
    return Secret(
        numbers=frozenset(abs(v) for q in found for v in q.values)
        | frozenset(Fraction(q.date[2]) for q in found if q.date and q.date[2]),
        days=frozenset((q.date[0], q.date[1]) for q in found if q.date and q.date[0] and q.date[1]),
        phrases=frozenset({words}) if is_short and not found else frozenset(),
        pairs=frozenset() if is_short else frozenset(pairs(list(content_words(text)))),
    )


def _values_of(text: str | None) -> list[Fraction]:
    found = quantities(text or "")
    return [max(found[0].values)] if len(found) == 1 and found[0].values else []


@dataclass(frozen=True)
class _Told:
    """Words of a passage that carry meaning, words of its names, and its numbers."""

    words: tuple[str, ...]
    names: frozenset[str]
    figures: frozenset[str]


@lru_cache(maxsize=256)
def _told_by(passage: Passage) -> _Told:
    names = frozenset(word for s in passage.sentences for name in names_in(s, passage) for word in name.words)
    return _Told(lesson_words(passage.text), names, numbers_of(passage.text))


def names_in(sentence: Sentence, passage: Passage) -> Sequence[Name]:
    """Proper names of a sentence of ``passage``."""
    # The windows of one sentence come first.
    return passage.windows[passage.sentences.index(sentence)].names
