"""Every sentence of a model's answer held against the passages it was given, without a second model.

A sentence is supported when a window of one to three neighbouring sentences of one passage bears its words, and every
number, date, unit and proper name in it stands in that evidence. What fails is marked with the reason, and the book's
own sentence takes its place. When the book has none, the answer says so.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Answer, CheckedSentence, Status
from deepedu.tutor.claims import Statement, coverage, fault, news_coverage
from deepedu.tutor.draft import Cleaned, clean, sentences
from deepedu.tutor.names import Lexicon
from deepedu.tutor.quantities import bears
from deepedu.tutor.quoting import Asked, Choice, Question, candidates, choice_of
from deepedu.tutor.terms import tokens
from deepedu.tutor.windows import Passage, Window, nearest_lessons

_log = logging.getLogger(__name__)

# Share of a sentence's content that its window must bear. Found on ViQuAD dev; see the grounding bench.
_BEARS = 0.62
# The same for what the sentence adds to the question.
_BEARS_NEWS = 0.6
# Windows with less than this in common with a sentence are no place to look for its fault.
_RELATED = 0.35
# Above it the book is taken to answer the question: a wrong "not in the book" hurts more than a quote too many.
_FOUND = 0.4
# How far below the best quote a bare answer may stand.
_NEAR_BEST = 1.0
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


class Grounder:
    """Checks the sentences of one answer.

    Args:
        question: what the pupil asked.
        evidence: the passages the model was given; the first is marker [1].
    """

    def __init__(self, question: str, evidence: Sequence[Evidence]) -> None:
        self._evidence = tuple(evidence)
        self._passages = tuple(Passage(marker, piece) for marker, piece in enumerate(self._evidence, start=1))
        book = [(s.text, s.tokens) for passage in self._passages for s in passage.sentences]
        asked = tuple(tokens(question))
        # The question's own spelling tells names too, but must not vouch for them: it is no evidence.
        self._known = Lexicon.of([*book, (question, asked)])
        self._question = Question.of(question, self._known)
        self._choices = candidates(self._question, self._passages)

    def check_sentence(self, sentence: str) -> CheckedSentence | None:
        """Verdict on one finished sentence of the draft.

        Returns:
            The sentence without markers, supported or not; None when it says nothing (a greeting, a question back,
            "the passages do not say").
        """
        cleaned = clean(sentence)
        if cleaned.is_empty:
            return None
        copied = self._copied(cleaned)
        if copied is not None:
            return None if cleaned.is_question else self._supported(cleaned, _Fit(copied, 1.0))
        if cleaned.is_question or cleaned.is_disclaimer:
            return None
        if cleaned.is_foreign or cleaned.is_code:
            return _unsupported(cleaned, _NOT_VIETNAMESE if cleaned.is_foreign else _NOT_PROSE, 0.0)
        statement = Statement.of(cleaned.text, self._question.tokens, self._known)
        if cleaned.is_filler and not statement.quantities and all(name.start == 0 for name in statement.names):
            return None
        return self._verdict(cleaned, statement)

    def finish(self, draft: str) -> Answer:
        """The whole draft as an answer: every sentence with its verdict, and the book's own words where it failed."""
        checked: list[CheckedSentence] = []
        seen: set[str] = set()
        pieces = sentences(draft)[:_MAX_SENTENCES]
        for piece in pieces:
            verdict = self.check_sentence(piece)
            # Small models repeat themselves.
            if verdict is not None and verdict.text.casefold() not in seen:
                seen.add(verdict.text.casefold())
                checked.append(verdict)
        disclaims = any(clean(piece).is_disclaimer for piece in pieces)
        if not self._is_found(checked, disclaims=disclaims):
            kept = tuple(checked)
            return Answer(self._question.text, False, kept, nearest_lessons(self._evidence))
        return Answer(self._question.text, True, tuple(self._with_quotes(checked)))

    # --- One sentence ------------------------------------------------------------------------------------------------

    def _copied(self, cleaned: Cleaned) -> Window | None:
        """The window that says the same to the letter, the cited passage first."""
        wanted = _plain(cleaned.text)
        for passage in self._in_cited_order(cleaned.markers):
            for window in passage.windows:
                if _plain(window.text) == wanted:
                    return window
        return None

    def _verdict(self, cleaned: Cleaned, statement: Statement) -> CheckedSentence:
        cited = [self._passages[n - 1] for n in cleaned.markers if 1 <= n <= len(self._passages)]
        others = [passage for passage in self._passages if passage not in cited]
        for group in (cited, others):
            fit = self._bearing(statement, group)
            if fit is not None:
                return self._supported(cleaned, fit)
        nearest = self._fits(statement, self._passages)
        reason = self._reason(statement, nearest[0] if nearest else None)
        return _unsupported(cleaned, reason, nearest[0].score if nearest else 0.0)

    def _fits(self, statement: Statement, passages: Sequence[Passage]) -> list[_Fit]:
        """Windows by how much of the statement they bear, best first; of equals the shorter."""
        fits = [_Fit(w, coverage(statement, w)) for passage in passages for w in passage.windows]
        return sorted(fits, key=lambda fit: -(fit.score - 0.02 * (fit.window.stop - fit.window.first)))

    def _bearing(self, statement: Statement, passages: Sequence[Passage]) -> _Fit | None:
        for fit in self._fits(statement, passages)[:_TRIED_WINDOWS]:
            if fit.score < _BEARS or news_coverage(statement, fit.window) < _BEARS_NEWS:
                continue
            if statement.is_fragment and not self._is_where_asked(statement, fit.window):
                continue
            if fault(statement, fit.window) is None:
                return fit
        return None

    def _is_where_asked(self, statement: Statement, window: Window) -> bool:
        """Whether a bare answer ("Năm 938.") stands where the book speaks of the question."""
        if coverage(statement, window) < 1.0 or not self._choices:
            return False
        own = choice_of(self._question, self._passages, window)
        if own.score < self._choices[0].score - _NEAR_BEST:
            return False
        # Read together with the question it must hold as a whole.
        asked = self._question.text.rstrip(" ?.")
        whole = Statement.of(f"{asked}, {statement.text}", self._question.tokens, self._known)
        return fault(whole, window) is None

    def _reason(self, statement: Statement, nearest: _Fit | None) -> str:
        if nearest is None:
            return _NOT_SAID
        found = fault(statement, nearest.window)
        if found is not None and nearest.score >= _RELATED:
            return found
        for quantity in statement.quantities:
            if not any(bears(w.quantities, quantity, p.units) for p in self._passages for w in p.windows):
                return f"Số {quantity.surface} không có trong sách."
        if statement.is_fragment and nearest.score >= _BEARS:
            return _TOO_SHORT
        return _NOT_SAID

    def _supported(self, cleaned: Cleaned, fit: _Fit) -> CheckedSentence:
        return CheckedSentence(cleaned.text, Status.SUPPORTED, fit.window.citation(), round(fit.score, 3))

    def _in_cited_order(self, markers: Sequence[int]) -> list[Passage]:
        cited = [self._passages[n - 1] for n in markers if 1 <= n <= len(self._passages)]
        return [*cited, *(passage for passage in self._passages if passage not in cited)]

    # --- The whole answer --------------------------------------------------------------------------------------------

    def _is_found(self, checked: Sequence[CheckedSentence], *, disclaims: bool) -> bool:
        if not self._choices:
            return False
        raised = _logit(self._choices[0].probability)
        for sentence in checked:
            if sentence.status is Status.SUPPORTED and self._answers(sentence):
                raised = max(raised, _logit(self._own_choice(sentence).probability) + 1.0)
        if disclaims and not any(s.status is Status.SUPPORTED for s in checked):
            raised -= 1.0
        return raised >= _logit(_FOUND)

    def _answers(self, sentence: CheckedSentence) -> bool:
        """Whether a supported sentence tells what was asked, rather than only something true."""
        statement = Statement.of(sentence.text, self._question.tokens, self._known)
        if not statement.has_news:
            return False
        fresh = [q for q in statement.quantities if not bears(self._question.quantities, q, frozenset())]
        match self._question.asked:
            case Asked.TIME | Asked.NUMBER:
                return bool(fresh)
            case Asked.PERSON:
                known = {word for name in self._question.names for word in name.words}
                return any(not known & set(name.words) for name in statement.names)
            case _:
                return True

    def _own_choice(self, sentence: CheckedSentence) -> Choice:
        return choice_of(self._question, self._passages, self._window_of(sentence))

    def _window_of(self, sentence: CheckedSentence) -> Window:
        citation = sentence.citation
        assert citation is not None
        passage = self._passages[citation.marker - 1]
        return next(w for w in passage.windows if (w.start, w.end) == (citation.start, citation.end))

    def _with_quotes(self, checked: Sequence[CheckedSentence]) -> list[CheckedSentence]:
        best = self._choices[0]
        answered = any(
            s.status is Status.SUPPORTED
            and self._answers(s)
            and (_overlaps(self._window_of(s), best.window) or self._own_choice(s).probability >= _FOUND)
            for s in checked
        )
        if answered:
            return list(checked)
        quote = CheckedSentence(
            best.window.readable(), Status.QUOTED, best.window.citation(), round(best.probability, 3)
        )
        result: list[CheckedSentence] = []
        is_placed = False
        for sentence in checked:
            if sentence.status is Status.UNSUPPORTED and not is_placed:
                result.append(replace(quote, reason=sentence.reason, replaces=sentence.text))
                is_placed = True
            else:
                result.append(sentence)
        return result if is_placed else [quote, *result]


def _unsupported(cleaned: Cleaned, reason: str, score: float) -> CheckedSentence:
    return CheckedSentence(cleaned.text, Status.UNSUPPORTED, None, round(score, 3), reason)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(" .!…").casefold()


def _overlaps(one: Window, two: Window) -> bool:
    return one.passage is two.passage and one.first < two.stop and two.first < one.stop


def _logit(probability: float) -> float:
    return math.log(probability / (1.0 - probability))
