"""Search by words, the way pupils type Vietnamese.

The text index proposes passages; they are then scored again from the terms it stores, for what its own ranking
cannot do: BM25 with milder constants, accents told apart term by term, and the best single sentence.

A syllable typed with an accent finds that accent only ("má" never finds "mã"). One typed without finds every accent
of it; how much such a match counts depends on whether the rest of the question was typed with accents.

Source: Robertson and Zaragoza 2009, The Probabilistic Relevance Framework: BM25 and Beyond.
Differs: k1, b and all weights below are measured on UIT-ViQuAD (bench retrieval); SQLite's own are 1.2 and 0.75.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from sqlalchemy.orm import Session

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Scope
from deepedu.search.library import books_in, library_stamp
from deepedu.store import Database, text_index
from deepedu.store.terms import SENTENCE_MARK, sentences

K1, B = 0.6, 0.4
# Weights relative to a syllable: a pair of neighbours, the best sentence, a syllable in a title.
PAIR, SENTENCE, HEADING = 0.4, 0.4, 1.0
# What a title is worth of which the question has nearly nothing, beside one that it has whole.
LOOSE_TITLE = 0.3
# What a match without regard to accents counts beside one that agrees in them.
FOLDED = 0.9
# These stand in the question and not in the answer.
QUESTION_WORDS = frozenset(["gì", "nào", "ai", "đâu", "sao", "mấy", "nhiêu"])
# The same without accents are also other words (não, đầu, máy, nhiều), so only phrases are taken for questions.
PLAIN_QUESTIONS = frozenset(
    {"la gi", "o dau", "vi sao", "tai sao", "bao nhieu", "the nao", "nam nao", "nguoi nao", "la ai"}
)

# How a task begins ("Em hãy trình bày về ..."), without accents: said to the tutor, not found in the book.
TASK = re.compile(
    r"(em |ban |hay |xin |vui long )*"
    r"(gioi thieu|trinh bay|neu|ke|noi|mo ta|tom tat|giai thich|cho (\w+ )?biet|tim hieu|viet)"
    r"( (ro|ten|khai niem|dinh nghia))?( cho (em|toi|minh))?( ve)? "
)

# Passages the index proposes for scoring, at least.
POOL = 100
# A pasted page is searched by its rarest words.
MAX_TERMS = 64
MAX_CACHED = 50_000
# In a large library, syllables of a smaller idf than this (in a fifth of all passages) propose none by themselves:
# they make up half of the index's work.
COMMON_IDF, LARGE = 1.5, 1000


@dataclass(frozen=True)
class _Term:
    """A syllable or a pair of the question. ``folded`` is None where accents have to agree; ``exact`` and ``loose``
    are what a match in one sentence is worth with the accents as typed and without regard to them."""

    text: str
    folded: str | None
    exact: float
    loose: float


# A syllable by its number in the question, or a pair by its two.
_Key = int | tuple[int, int]


@dataclass(frozen=True)
class _Query:
    syllables: tuple[_Term, ...]
    pairs: Mapping[tuple[int, int], _Term]
    plain: bool
    least_idf: float

    @cached_property
    def lookup(self) -> dict[str, list[tuple[int, str, bool]]]:
        """``(number, text, accents must agree)`` of the syllables, by their form without accents."""
        found: dict[str, list[tuple[int, str, bool]]] = {SENTENCE_MARK: []}
        for number, term in enumerate(self.syllables):
            found.setdefault(fold(term.text), []).append((number, term.text, term.folded is None))
        return found

    def term(self, key: _Key) -> tuple[_Term, float]:
        """The term of a key and its weight."""
        return (self.pairs[key], PAIR) if isinstance(key, tuple) else (self.syllables[key], 1.0)


class LexicalRetriever:
    """Finds passages by the question's words. Safe to share between threads."""

    name = "lexical"

    def __init__(self, db: Database) -> None:
        self._db = db
        self._statistics = _Statistics()

    def retrieve(self, question: str, scope: Scope, limit: int) -> list[tuple[int, float]]:
        """See ``Retriever``. Raises: StoreError."""
        with self._db.read() as session:
            self._statistics = self._statistics.current(session)
            query = self._parse(session, question)
            books = books_in(session, scope)
            if not query.syllables or books == []:
                return []
            pool = max(POOL, limit)
            found = text_index.match(session, _alternatives(query), _column_weights(query), pool, books)
            scored = self._scores(session, query, [passage_id for passage_id, _ in found])
        matched = [item for item in scored.items() if item[1] > 0]
        return sorted(matched, key=lambda item: (-item[1], item[0]))[:limit]

    def score(self, question: str, passage_ids: Sequence[int]) -> dict[int, float]:
        """Scores of given passages, on the scale of ``retrieve``; passages that are not indexed are left out.

        Raises:
            StoreError: the database failed.
        """
        with self._db.read() as session:
            self._statistics = self._statistics.current(session)
            return self._scores(session, self._parse(session, question), passage_ids)

    def _parse(self, session: Session, question: str) -> _Query:
        typed = _without_task([term for sentence in sentences(question) for term in sentence])
        words = [word for word in typed if not word.isdigit()]
        plain = all(fold(word) == word for word in words)
        kept = _without_question_words(typed, plain)
        statistics = self._statistics
        terms: dict[str, _Term] = {}
        for word in kept:
            # What stands in no passage would only crowd out what does.
            if word is not None and word not in terms and statistics.holds(session, word):
                terms[word] = statistics.term(session, word, word if fold(word) == word else None, plain)
        rarest = sorted(terms.values(), key=lambda term: -max(term.exact, term.loose))[:MAX_TERMS]
        syllables = [term for term in terms.values() if term in rarest]
        index = {term.text: number for number, term in enumerate(syllables)}
        pairs: dict[tuple[int, int], _Term] = {}
        for left, right in pairwise(kept):
            if left in index and right in index:
                strict = fold(left) != left and fold(right) != right
                pair = f"{left}_{right}"
                pairs[index[left], index[right]] = statistics.term(
                    session, pair, None if strict else fold(pair), plain, "pairs", "folded_pairs"
                )
        rare = any(max(term.exact, term.loose) >= COMMON_IDF for term in syllables)
        least_idf = COMMON_IDF if rare and statistics.passages > LARGE else 0.0
        return _Query(tuple(syllables), pairs, plain, least_idf)

    def _scores(self, session: Session, query: _Query, passage_ids: Sequence[int]) -> dict[int, float]:
        stored = text_index.indexed(session, passage_ids)
        mean = self._statistics.mean_characters or 1.0
        return {
            passage_id: _score(query, plain, folded, heading, len(plain) / mean)
            for passage_id, (plain, folded, heading) in stored.items()
        }


class _Statistics:
    """Size of the index and document frequencies, kept until the library changes."""

    def __init__(self, stamp: tuple[int, ...] = (), passages: int = 0, mean_characters: float = 0.0) -> None:
        self.stamp = stamp
        self.passages = passages
        self.mean_characters = mean_characters
        self._frequencies: dict[str, dict[str, int]] = {}

    def current(self, session: Session) -> "_Statistics":
        stamp = library_stamp(session)
        return self if stamp == self.stamp else _Statistics(stamp, *text_index.index_size(session))

    def term(
        self,
        session: Session,
        text: str,
        folded: str | None,
        plain: bool,
        exact_in: str = "words",
        loose_in: str = "folded",
    ) -> _Term:
        loose = 0.0
        if folded is not None:
            loose = FOLDED * self._idf(session, folded, loose_in)
        # Typed without accents, "nam" may mean any: that spelling being rare makes it no better a sign.
        exact = loose / FOLDED if plain else self._idf(session, text, exact_in)
        return _Term(text, folded, exact, loose)

    def holds(self, session: Session, word: str) -> bool:
        """Whether any passage or title has this word, in the spelling given."""
        return bool(self._columns(session, word))

    def _columns(self, session: Session, term: str) -> dict[str, int]:
        if term not in self._frequencies:
            if len(self._frequencies) > MAX_CACHED:
                self._frequencies.clear()
            self._frequencies[term] = text_index.document_frequencies(session, term)
        return self._frequencies[term]

    def _idf(self, session: Session, term: str, column: str) -> float:
        frequency = min(self._columns(session, term).get(column, 0), self.passages)
        return math.log1p((self.passages - frequency + 0.5) / (frequency + 0.5))


def _without_task(typed: list[str]) -> list[str]:
    """The question without the words that only ask for it, unless nothing would be left."""
    begin = TASK.match(" ".join(fold(word) for word in typed) + " ")
    rest = typed[begin.group().count(" ") :] if begin else []
    return rest or typed


def _without_question_words(typed: list[str], plain: bool) -> list[str | None]:
    """Question words become None, so that their neighbours do not pair up; all stay when nothing else would."""
    kept: list[str | None] = list(typed)
    if plain:
        for start, pair in enumerate(pairwise(typed)):
            if " ".join(pair) in PLAIN_QUESTIONS:
                kept[start] = kept[start + 1] = None
    else:
        kept = [None if word in QUESTION_WORDS else word for word in typed]
    return kept if any(kept) else list(typed)


def _alternatives(query: _Query) -> list[tuple[str, str]]:
    """The terms that propose passages, each with the columns of the index where it may match."""
    found: list[tuple[str, str]] = []
    for columns, loose_columns, terms in (
        ("words heading", "folded heading_folded", query.syllables),
        ("pairs", "folded_pairs", query.pairs.values()),
    ):
        for term in terms:
            if max(term.exact, term.loose) >= query.least_idf:
                found.append((columns, term.text))
                if term.folded is not None:
                    found.append((loose_columns, term.folded))
    return found


def _column_weights(query: _Query) -> tuple[float, ...]:
    """For ``terms.COLUMNS``."""
    if query.plain:
        return (1 - FOLDED, FOLDED, 0.0, PAIR, 0.0, HEADING)
    return (1.0, FOLDED, PAIR, PAIR * FOLDED, HEADING, HEADING * FOLDED)


def _score(query: _Query, plain: str, folded: str, heading: str, relative_length: float) -> float:
    """BM25 over syllables and pairs, plus the best sentence, plus the title."""
    best = 0.0
    counts: dict[_Key, list[int]] = {}
    for hits in _hits_by_sentence(query, plain, folded):
        worth: dict[_Key, float] = {}
        for key, exact in hits:
            term, weight = query.term(key)
            count = counts.setdefault(key, [0, 0])
            count[0] += exact
            count[1] += 1
            worth[key] = max(worth.get(key, 0.0), weight * (term.exact if exact else term.loose))
        best = max(best, sum(worth.values()))
    length = K1 * (1 - B + B * relative_length)
    total = SENTENCE * best + HEADING * _title_score(query, heading)
    for key, (exact_count, count) in counts.items():
        term, weight = query.term(key)
        total += (
            weight
            * (K1 + 1)
            * max(term.exact * exact_count / (exact_count + length), term.loose * count / (count + length))
        )
    return total


def _hits_by_sentence(query: _Query, plain: str, folded: str) -> Iterator[list[tuple[_Key, bool]]]:
    """Every match in a passage, as ``(key, accents agree)``; a term may match one place both ways at most once."""
    hits: list[tuple[_Key, bool]] = []
    before: list[tuple[int, bool]] = []
    before_position = -2
    for position, (loose_token, token) in enumerate(zip(folded.split(), plain.split(), strict=True)):
        if loose_token not in query.lookup:  # Nearly always: this line decides how fast search is.
            continue
        if token == SENTENCE_MARK:
            yield hits
            hits = []
            continue
        here = [
            (number, token == text) for number, text, strict in query.lookup[loose_token] if token == text or not strict
        ]
        hits += here
        if before_position == position - 1:
            for left, left_exact in before:
                hits += [((left, right), left_exact and exact) for right, exact in here if (left, right) in query.pairs]
        before, before_position = here, position
    yield hits


@lru_cache(maxsize=4096)
def _titles(heading: str) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """The words of each title above a passage, as they are and folded; a lesson's passages share them."""
    titles = [frozenset(title.split()) for title in heading.split(f" {SENTENCE_MARK} ")]
    return tuple((words, frozenset(fold(word) for word in words)) for words in titles)


def _title_score(query: _Query, heading: str) -> float:
    """The best of the titles above a passage: its words that were asked for, less where others were not ("Đồng bằng
    sông Hồng" for "sông Hồng")."""
    best = 0.0
    for plain, folded in _titles(heading):
        worth = [
            term.exact if term.text in plain else term.loose
            for term in query.syllables
            if term.text in plain or term.folded in folded
        ]
        if worth:
            share = min(1.0, len(worth) / len(plain))
            best = max(best, sum(worth) * (LOOSE_TITLE + (1 - LOOSE_TITLE) * share))
    return best
