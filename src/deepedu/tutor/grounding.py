"""Every sentence of a model's answer held against the passages it was given, without a second model.

A sentence is supported when a window of one to three neighbouring sentences of one passage bears its words, and every
number, date, unit and proper name in it stands in that evidence. What fails is marked with the reason, and the book's
own sentence takes its place. When the book has none, the answer says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Answer, CheckedSentence, Citation, Lesson, Status
from deepedu.tutor.claims import coverage, fault, name_fault, news_coverage, said_together
from deepedu.tutor.draft import Cleaned, clean, sentences
from deepedu.tutor.events import asked_event, stated_event
from deepedu.tutor.names import Lexicon
from deepedu.tutor.quantities import Quantity, bears
from deepedu.tutor.question import Asked, Question
from deepedu.tutor.quoting import Choice, QuoteScorer
from deepedu.tutor.read_passages import READ
from deepedu.tutor.statement import Statement
from deepedu.tutor.terms import tokens
from deepedu.tutor.windows import Passage, Window, nearest_lessons

# Share of a sentence's content that its window must bear. Found on ViQuAD dev; see the grounding bench.
_BEARS = 0.62
# The same for what the sentence adds to the question.
_BEARS_NEWS = 0.6
# Windows with less than this in common with a sentence are no place to look for its fault.
_RELATED = 0.35
# Above it the book is taken to answer the question: a wrong "not in the book" hurts more than a quote too many.
_FOUND = 0.4
# Below it a true sentence is beside the point.
_TO_THE_POINT = 0.25
# How far below the best quote a bare answer may stand.
_NEAR_BEST = 1.0
# What a model's "it does not say" takes from the odds that the book answers.
_DISCLAIMER_MALUS = 0.5
# What a failed sentence's words weigh in the choice of the quote.
_DRAFT_HINT = 2.0
_TRIED_WINDOWS = 8
_MAX_SENTENCES = 60

_NOT_SAID = "Sách không nói điều này."
_NOT_VIETNAMESE = "Câu này không viết bằng tiếng Việt."
_NOT_PROSE = "Đây không phải là một câu trả lời bằng lời."
_TOO_SHORT = "Câu trả lời quá ngắn, không khớp với chỗ sách nói về câu hỏi."


@dataclass(frozen=True)
class _Fit:
    """A window held against a statement."""

    window: Window
    score: float


@dataclass(frozen=True)
class _Verdict:
    """A checked sentence with the window that bears it, or where its fault was found."""

    sentence: CheckedSentence
    statement: Statement
    window: Window | None

    @property
    def is_supported(self) -> bool:
        return self.sentence.status is Status.SUPPORTED


class Grounder:
    """Checks the sentences of one answer.

    Args:
        question: what the pupil asked.
        evidence: the passages the model was given; the first is marker [1].
        ranks: place of each in search's order, from 0; None: they are in that order.
    """

    def __init__(self, question: str, evidence: Sequence[Evidence], ranks: Sequence[int] | None = None) -> None:
        self._evidence = tuple(evidence)
        self._passages = tuple(READ.read(self._evidence))
        book = [(s.text, s.tokens) for passage in self._passages for s in passage.sentences]
        # The question's own spelling helps to tell names from words; it vouches for none, being no evidence.
        asked = _uncapitalised(question)
        self._known = Lexicon.of([*book, (asked, tokens(asked))])
        self._question = Question.of(question, self._known)
        self._scorer = QuoteScorer(self._question, self._passages, ranks)
        self._choices = self._scorer.candidates()

    def check_sentence(self, sentence: str) -> CheckedSentence | None:
        """Verdict on one finished sentence of the draft.

        Returns:
            The sentence without markers, supported or not; None when it says nothing (a greeting, a question back,
            "the passages do not say").
        """
        verdict = self._check(sentence)
        return None if verdict is None else verdict.sentence

    def finish(self, draft: str) -> Answer:
        """The whole draft as an answer: every sentence with its verdict, and the book's own words where it failed.

        When the book does not answer the question, the sentences only tell what became of the draft.
        """
        verdicts: list[_Verdict] = []
        seen: set[str] = set()
        pieces = sentences(draft)[:_MAX_SENTENCES]
        for piece in pieces:
            verdict = self._check(piece)
            # Small models repeat themselves.
            if verdict is not None and verdict.sentence.text.casefold() not in seen:
                seen.add(verdict.sentence.text.casefold())
                verdicts.append(verdict)
        disclaims = any(clean(piece).is_disclaimer for piece in pieces)
        if not self._is_found(verdicts, disclaims=disclaims):
            kept = tuple(verdict.sentence for verdict in verdicts)
            return Answer(self._question.text, False, kept, self._nearest())
        return Answer(self._question.text, True, tuple(self._with_quote(verdicts)))

    # --- One sentence ------------------------------------------------------------------------------------------------

    def _check(self, sentence: str) -> _Verdict | None:
        cleaned = clean(sentence)
        if cleaned.is_empty:
            return None
        statement = Statement.of(cleaned.text, self._question.tokens, self._known)
        copied = self._copied(cleaned)
        if copied is not None:
            return None if cleaned.is_question else self._supported(cleaned, statement, _Fit(copied, 1.0))
        if cleaned.is_question or cleaned.is_disclaimer:
            return None
        if not statement.has_news and statement.content and not self._question.wants_yes_or_no:
            return None  # The question again.
        if cleaned.is_foreign or cleaned.is_code:
            return _unsupported(cleaned, statement, _NOT_VIETNAMESE if cleaned.is_foreign else _NOT_PROSE, None)
        if cleaned.is_filler and not statement.quantities and all(name.start == 0 for name in statement.names):
            return None
        return self._held_against_book(cleaned, statement)

    def _copied(self, cleaned: Cleaned) -> Window | None:
        """The window that says the same to the letter, the cited passage first."""
        wanted = _plain(cleaned.text)
        cited, others = self._by_citation(cleaned.markers)
        for passage in (*cited, *others):
            for window in passage.windows:
                if _plain(window.text) == wanted:
                    return window
        return None

    def _held_against_book(self, cleaned: Cleaned, statement: Statement) -> _Verdict:
        for group in self._by_citation(cleaned.markers):
            fit = self._bearing(statement, group)
            if fit is not None:
                return self._supported(cleaned, statement, fit)
        fits = self._fits(statement, self._passages)
        reason, fit = self._reason(statement, fits)
        return _unsupported(cleaned, statement, reason, fit)

    def _by_citation(self, markers: Sequence[int]) -> tuple[list[Passage], list[Passage]]:
        """The cited passages, and the others: a model that cites the wrong one may still say what another bears."""
        cited = [self._passages[n - 1] for n in markers if 1 <= n <= len(self._passages)]
        return cited, [passage for passage in self._passages if passage not in cited]

    def _fits(self, statement: Statement, passages: Sequence[Passage]) -> list[_Fit]:
        """Windows by how much of the statement they bear, best first; of equals the shorter."""
        fits = [_Fit(w, coverage(statement, w)) for passage in passages for w in passage.windows]
        return sorted(fits, key=lambda fit: -(fit.score - 0.02 * (fit.window.stop - fit.window.first)))

    def _bearing(self, statement: Statement, passages: Sequence[Passage]) -> _Fit | None:
        fits = [fit for fit in self._fits(statement, passages) if fit.score >= _BEARS and _holds_all(fit, statement)]
        for fit in fits[:_TRIED_WINDOWS]:
            if news_coverage(statement, fit.window) < _BEARS_NEWS:
                continue
            if statement.is_fragment and not self._is_where_asked(statement, fit.window):
                continue
            if said_together(statement, fit.window) and fault(statement, fit.window) is None:
                return fit
        return None

    def _is_where_asked(self, statement: Statement, window: Window) -> bool:
        """Whether a bare answer ("Năm 938.") stands where the book speaks of the question."""
        if coverage(statement, window) < 1.0 or not self._choices:
            return False
        if self._fit_to_question(window).score < self._choices[0].score - _NEAR_BEST:
            return False
        # Read together with the question it must hold as a whole.
        asked = self._question.text.rstrip(" ?.")
        whole = Statement.of(f"{asked}, {statement.text}", self._question.tokens, self._known)
        return fault(whole, window) is None

    def _reason(self, statement: Statement, fits: Sequence[_Fit]) -> tuple[str, _Fit | None]:
        """What to tell the pupil about a statement that no window bears, and the window that says so."""
        related = [fit for fit in fits[:_TRIED_WINDOWS] if fit.score >= _RELATED]
        # A window about the same names, and then one that holds the numbers, tells more than one that is merely alike.
        related.sort(key=lambda f: (name_fault(statement, f.window) is not None, not _holds_all(f, statement)))
        for fit in related:
            found = fault(statement, fit.window)
            if found is not None:
                return found, fit
        for quantity in statement.quantities:
            if not any(_holds(w, quantity) for p in self._passages for w in p.windows):
                return f"Số {quantity.surface} không có trong các đoạn sách tìm được.", None
        nearest = related[0] if related else None
        return (_TOO_SHORT if statement.is_fragment and nearest else _NOT_SAID), nearest

    # --- The whole answer --------------------------------------------------------------------------------------------

    def _is_found(self, verdicts: Sequence[_Verdict], *, disclaims: bool) -> bool:
        if not self._choices:
            return False
        # That the model found something true to say is no sign of it: small models copy what they are shown.
        raised = _logit(max(self._choices[0].probability, *self._probabilities(verdicts)))
        if disclaims and not any(verdict.is_supported for verdict in verdicts):
            raised -= _DISCLAIMER_MALUS
        return raised >= _logit(_FOUND)

    def _probabilities(self, verdicts: Sequence[_Verdict]) -> list[float]:
        windows = [v.window for v in verdicts if v.is_supported and v.window and self._answers(v.statement)]
        return [0.0, *(self._fit_to_question(window).probability for window in windows)]

    def _answers(self, statement: Statement) -> bool:
        """Whether a supported statement tells what was asked, rather than only something true."""
        asked = asked_event(self._question.tokens)
        if not statement.has_news or (asked and asked != stated_event(statement.tokens) and not statement.is_fragment):
            return False
        match self._question.asked:
            case Asked.TIME | Asked.NUMBER:
                return not all(bears(self._question.quantities, q, frozenset()) for q in statement.quantities)
            case Asked.PERSON:
                known = {word for name in self._question.names for word in name.words}
                return any(not known & set(name.words) for name in statement.names)
            case _:
                return True

    def _fit_to_question(self, window: Window) -> Choice:
        return self._scorer.choice_of(window)

    def _supported(self, cleaned: Cleaned, statement: Statement, fit: _Fit) -> _Verdict:
        score = round(fit.score, 3)
        sentence = CheckedSentence(cleaned.text, Status.SUPPORTED, self._citation(fit.window), score)
        return _Verdict(sentence, statement, fit.window)

    def _citation(self, window: Window) -> Citation:
        return window.citation(self._passages.index(window.passage) + 1)

    def _with_quote(self, verdicts: Sequence[_Verdict]) -> list[CheckedSentence]:
        """The sentences, with a quote in place of the first that failed when none of them answers the question."""
        if sum(verdict.is_supported for verdict in verdicts) > 1:
            verdicts = [verdict for verdict in verdicts if self._is_to_the_point(verdict)]
        sentences = [verdict.sentence for verdict in verdicts]
        if any(self._is_good_answer(verdict) for verdict in verdicts):
            return sentences
        failed = next((v for v in verdicts if not v.is_supported), None)
        choice = self._quote_for(failed)
        window = choice.window
        score = round(choice.probability, 3)
        quote = CheckedSentence(window.readable(), Status.QUOTED, self._citation(window), score)
        if failed is None:
            return [quote, *sentences]
        quote = replace(quote, reason=failed.sentence.reason, replaces=failed.sentence.text)
        return [quote if sentence is failed.sentence else sentence for sentence in sentences]

    def _nearest(self) -> tuple[Lesson, ...]:
        """Lessons to read on, that of the best window first."""
        ranked = [choice.window.passage.evidence for choice in self._choices]
        return nearest_lessons([*ranked, *self._evidence])

    def _is_good_answer(self, verdict: _Verdict) -> bool:
        if not verdict.is_supported or verdict.window is None or not self._answers(verdict.statement):
            return False
        best = self._choices[0]
        if (
            self._question.asked is Asked.DEFINITION
            and best.defines
            and not self._fit_to_question(verdict.window).defines
        ):
            return False  # Something true of the thing, where the book says what it is.
        return _overlap(verdict.window, best.window) or self._fit_to_question(verdict.window).probability >= _FOUND

    def _is_to_the_point(self, verdict: _Verdict) -> bool:
        """Whether a sentence belongs into the answer: not when it is true and about something else, which is what
        small models copy when they know no better."""
        if not verdict.is_supported or verdict.window is None:
            return True
        return _overlap(verdict.window, self._choices[0].window) or (
            self._fit_to_question(verdict.window).probability >= _TO_THE_POINT
        )

    def _quote_for(self, failed: _Verdict | None) -> Choice:
        """The best quote; a sentence that failed helps to find it, for it often gets only a number or a name wrong."""
        if failed is None or failed.sentence.score < _RELATED:
            return self._choices[0]
        statement = failed.statement
        return max(self._choices, key=lambda choice: choice.score + _DRAFT_HINT * coverage(statement, choice.window))


def _unsupported(cleaned: Cleaned, statement: Statement, reason: str, fit: _Fit | None) -> _Verdict:
    score = round(fit.score, 3) if fit else 0.0
    sentence = CheckedSentence(cleaned.text, Status.UNSUPPORTED, None, score, reason)
    return _Verdict(sentence, statement, fit.window if fit else None)


def _holds(window: Window, quantity: Quantity) -> bool:
    return bears(window.quantities, quantity, window.passage.units)


def _holds_all(fit: _Fit, statement: Statement) -> bool:
    return all(_holds(fit.window, quantity) for quantity in statement.quantities)


def _uncapitalised(question: str) -> str:
    """The question without the capital that only opens it, which would make a name of any word."""
    text = question.strip()
    words = tokens(text)
    if words and (len(words) == 1 or not words[1].is_capitalised):
        return text[: words[0].start] + text[words[0].start :][:1].lower() + text[words[0].start + 1 :]
    return text


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(" .!…").casefold()


def _overlap(one: Window, two: Window) -> bool:
    return one.passage is two.passage and one.first < two.stop and two.first < one.stop


def _logit(probability: float) -> float:
    return math.log(probability / (1.0 - probability))
