"""What a pupil's message does: tries, guesses, asks on, or attempts to get round the ladder. Read by code alone.

No model has a say here, because a model can be talked round. What no list knows counts as asking on, and asking on
never earns more than the first hints; so an attempt in new words gains nothing. Only own work is looked for with care.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from deepedu.base.vietnamese import fold
from deepedu.tutor.calculator import calculations
from deepedu.tutor.quantities import quantities
from deepedu.tutor.terms import Token, is_typed_plain, tokens, weight

LONGEST_MESSAGE = 2000


# A word that tells less may be about anything.
_TELLING = 0.4


class Move(StrEnum):
    """What a message does."""

    TRY = "try"
    GUESS = "guess"
    CONFUSED = "confused"
    ASK_MORE = "ask_more"
    PLEAD = "plead"
    AUTHORITY = "authority"
    ROLE_PLAY = "role_play"
    ONLY_ANSWER = "only_answer"
    TRICK = "trick"
    ON_BEHALF = "on_behalf"
    FORGE = "forge"
    OTHER = "other"


class Kind(StrEnum):
    """What it takes to answer a question."""

    # A calculation.
    EXERCISE = "exercise"
    # A number, a date, a name, a word.
    SHORT = "short"
    # A sentence in own words: a reason, a meaning, a comparison.
    OPEN = "open"


@dataclass(frozen=True)
class Subject:
    """What a ladder is about, as code found it: enough to tell work on it from talk beside it.

    ``terms`` are the question's words that carry meaning, ``names`` words of the lesson that are only ever written with
    a capital; both without accents. ``vocabulary`` holds the lesson's words with their accents. ``numbers`` stand in
    the question, as fractions; ``figures`` in the lesson and the solution. ``expressions`` are calculations that the
    question itself sets.
    ``place`` is passage, start and end of the sentence that answers best; ``asked`` the kind of answer wanted.
    """

    kind: Kind
    terms: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    section: int = 0
    place: tuple[int, int, int] | None = None
    asked: str = "other"
    # Whether one verdict would tell all: yes or no, A to D.
    has_options: bool = False

    @cached_property
    def folded(self) -> frozenset[str]:
        """The lesson's words without accents."""
        return frozenset(map(fold, self.vocabulary))

    def speaks_of(self, text: str) -> set[str]:
        """Telling words of ``text`` that are the lesson's or of school science, without accents.

        Typed with accents they have to be the same: "gắng" is not "gang".
        """
        listed, phrases = tokens(text), _phrases()
        if all(t.word == t.folded for t in listed):
            told = {t.folded for t in listed if weight(t.folded, is_folded=True) >= _TELLING} & self.folded
            return told | ({t.folded for t in listed} & phrases.school_plain)
        known = {word for word in self.vocabulary if weight(word) >= _TELLING} | phrases.school
        return {t.folded for t in listed if t.word in known}


@dataclass(frozen=True)
class Reading:
    """A message as the ladder sees it. ``work`` is what tells one try from another; empty unless it is a try.

    ``point``: what in the lesson a confused pupil names, empty when none.
    """

    move: Move
    work: frozenset[str] = frozenset()
    point: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Phrases:
    shorthand: dict[str, str]
    attempts: tuple[tuple[Move, re.Pattern[str]], ...]
    said: dict[str, re.Pattern[str]]
    empty: frozenset[str]
    empty_plain: frozenset[str]
    school: frozenset[str]
    school_plain: frozenset[str]
    numbers: frozenset[str]


@cache
def _phrases() -> _Phrases:
    data: dict[str, Any] = tomllib.loads(
        files("deepedu.tutor").joinpath("pupil_phrases.toml").read_text(encoding="utf-8")
    )
    lists = data["words"]
    english = frozenset(lists["english_empty"].split())
    empty = frozenset(lists["empty"].split())
    return _Phrases(
        shorthand=data["shorthand"],
        attempts=tuple((Move(entry["move"]), _any(entry["patterns"])) for entry in data["attempt"]),
        said={name: _any(entry["patterns"]) for name, entry in data.items() if "patterns" in entry},
        empty=empty | english,
        empty_plain=(frozenset(map(fold, empty)) - frozenset(lists["lesson_words"].split())) | english,
        school=frozenset(lists["english_school"].split()) | frozenset(lists["school"].split()),
        # Without accents only those that are no common word as well: "nở" reads as "nó".
        school_plain=frozenset(lists["english_school"].split())
        | {word for word in map(fold, lists["school"].split()) if weight(word, is_folded=True) >= _TELLING},
        numbers=frozenset(lists["numbers"].split()),
    )


def _any(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


# --- Words -----------------------------------------------------------------------------------------------------------

_STRETCHED = re.compile(r"([^\W\d_])\1{2,}")
_CLAUSE = re.compile(r"[.!?;:\n…]+(?:\s|$)|,\s|\s[-–—]\s|\s(?:nhưng|nhung|but|however|thế nên|còn)\s", re.IGNORECASE)


def cleaned(message: str) -> str:
    """A message as it reads: composed, without invisible signs, full-width letters as common ones."""
    shown = "".join(c for c in message[:LONGEST_MESSAGE] if unicodedata.category(c) != "Cf")
    # Full-width letters only: NFKC would turn m³ into m3 and ½ into 1⁄2.
    narrow = "".join(unicodedata.normalize("NFKC", c) if "\uff01" <= c <= "\uff5e" else c for c in shown)
    return _STRETCHED.sub(r"\1", unicodedata.normalize("NFC", narrow))


def plain_words(text: str) -> str:
    """The words of ``text`` without accents, one space between, shorthand written out ("ko bit" -> "khong biet")."""
    phrases = _phrases()
    said: list[str] = []
    for word in (token.folded for token in tokens(text)):
        # "300 k" is a temperature.
        is_unit = word == "k" and bool(said) and said[-1].isdecimal()
        said.append(word if is_unit else phrases.shorthand.get(word, word))
    return " ".join(said).replace("'", " ").replace("’", " ")


def content_words(text: str) -> tuple[str, ...]:
    """Words of ``text`` that may be about a lesson, without accents, each once, in order; numbers left out."""
    phrases = _phrases()
    listed = tokens(text.replace("'", " ").replace("’", " "))
    is_plain = is_typed_plain(listed) or all(t.word == t.folded for t in listed)
    kept = (t.folded for t in listed if not t.surface[0].isdecimal() and _is_telling(t, phrases, is_plain=is_plain))
    return tuple(dict.fromkeys(kept))


def _is_telling(token: Token, phrases: _Phrases, *, is_plain: bool) -> bool:
    if token.folded in phrases.shorthand:
        return False
    if is_plain:
        return token.folded not in phrases.empty_plain and weight(token.folded, is_folded=True) > 0.05
    # Many write accents in one half of a message only.
    is_bare = token.word == token.folded and token.folded in phrases.empty_plain
    return not is_bare and token.word not in phrases.empty and weight(token.word) > 0.05


def lesson_words(text: str) -> tuple[str, ...]:
    """Words of a lesson's ``text`` that carry meaning, with their accents, each once."""
    phrases = _phrases()
    kept = (t.word for t in tokens(text) if not t.surface[0].isdecimal() and _is_telling(t, phrases, is_plain=False))
    return tuple(dict.fromkeys(kept))


def numbers_of(text: str) -> frozenset[str]:
    """Numbers of ``text`` by value, as fractions; of an ambiguous spelling every reading."""
    found = quantities(text)
    return frozenset(str(value) for q in found for value in q.values) | {
        str(part) for q in found if q.date for part in q.date if part
    }


_LABEL = re.compile(r"(?<!\w)[A-D]\s*[.):]\s")


def attempts_in(text: str) -> list[Move]:
    """Which attempts to get round the ladder ``text`` holds, the gravest first."""
    # Labels of options are no demand for a letter.
    said = plain_words(_LABEL.sub(" ", text))
    return [move for move, pattern in _phrases().attempts if pattern.search(said)]


def says(what: str, text: str) -> bool:
    """Whether ``text`` holds a phrase of the list ``what`` of ``pupil_phrases.toml``."""
    return _phrases().said[what].search(plain_words(text)) is not None


def clauses(message: str) -> list[str]:
    """A message in pieces, so that a plea beside a try does not spoil it."""
    return [piece.strip() for piece in _CLAUSE.split(message) if piece and piece.strip()]


def is_number_word(word: str) -> bool:
    """Whether a word without accents spells a number, or part of one."""
    return word in _phrases().numbers


# --- Questions -------------------------------------------------------------------------------------------------------


def question_in(message: str) -> str:
    """The question that a message asks, without pleas and attempts around it; the whole message when nothing is left.

    "Làm ơn đi mà. Nước sôi ở bao nhiêu độ?" asks "Nước sôi ở bao nhiêu độ?".
    """
    text = cleaned(message)
    if len(_LABEL.findall(text)) >= 2:
        return text
    pieces = [text[a:b].strip() for a, b in _sentences(text)]
    kept = [piece for piece in pieces if not attempts_in(piece) and len(content_words(piece)) >= 1]
    others = [piece for piece in kept if not says("think", piece)]
    kept = others if any(asks(piece) for piece in others) else kept
    return " ".join(kept) if any(asks(piece) for piece in kept) else text


def _sentences(text: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in re.finditer(r"[.!?\n]+(?:\s|$)", text)] or [len(text)]
    ends = ends if ends[-1] == len(text) else [*ends, len(text)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def asks(message: str) -> bool:
    """Whether a message has the form of a question or a task and something to ask about."""
    said = plain_words(message)
    is_form = "?" in message or any(_phrases().said[name].search(said) for name in ("asks", "task"))
    return is_form and len(content_words(message)) + len(numbers_of(message)) >= 2


def alikeness(one: Iterable[str], two: Iterable[str]) -> tuple[float, float]:
    """How much two lists of words share, by what each word tells: as a part of the shorter and of both together."""
    first, second = set(one), set(two)
    shared, joined = _told(first & second), _told(first | second)
    smaller = min(_told(first), _told(second))
    return (shared / smaller if smaller else 0.0), (shared / joined if joined else 0.0)


def _told(listed: Iterable[str]) -> float:
    return sum(weight(word, is_folded=True) for word in listed)


# --- Messages --------------------------------------------------------------------------------------------------------


def read(message: str, subject: Subject, *, heard: Sequence[str] = (), tried: Sequence[frozenset[str]] = ()) -> Reading:
    """What a message does for a pupil who stands on a ladder about ``subject``.

    Args:
        heard: the hints so far: giving their words back is no work.
        tried: ``work`` of earlier tries: the same again is no new one.
    """
    text = cleaned(message)
    attempts = attempts_in(text)
    work = _own_work(text, subject, heard, is_attempt=bool(set(attempts) & _GRAVE))
    if work and not _is_same_work(work, tried):
        return Reading(Move.TRY, work)
    if attempts and (attempts[0] is not Move.ONLY_ANSWER or not says("think", text)):
        return Reading(attempts[0])
    if says("confused", text):
        # Not what it asks about, but what it does not understand: a word of the question or the lesson.
        known = {*subject.terms, *subject.speaks_of(text)}
        return Reading(Move.CONFUSED, point=frozenset(content_words(text)) & known)
    if _is_guess(text, subject):
        return Reading(Move.GUESS)
    return Reading(attempts[0] if attempts else Move.ASK_MORE if says("next", text) or asks(text) else Move.OTHER)


# In a message with one of these only work that says it is one's own counts.
_GRAVE = frozenset({Move.AUTHORITY, Move.ROLE_PLAY, Move.TRICK, Move.FORGE})
# What is said before the pupil's own thinking.
_LEAD = r"(?:(?:da|vang|a|u|thua|thay|co|oi|vay|roi|the|con|nhung|thi|yes|ok|so|and|well|hmm|sir|miss) )*"
# So many neighbouring words of a hint are a copy of it.
_COPIED = 4


def _own_work(text: str, subject: Subject, heard: Sequence[str], *, is_attempt: bool) -> frozenset[str]:
    calculated = _calculated(text, subject)
    if calculated:
        return calculated
    told = [clause for clause in clauses(text) if _tells(clause)]
    is_own = any(says("think", clause) for clause in told)
    if not told or (is_attempt and not is_own):
        return frozenset()
    said = " ".join(told)
    own = _without_copies(content_words(said), heard)
    fresh = [w for w in own if w not in subject.terms and w not in subject.names and not is_number_word(w)]
    if subject.kind is Kind.OPEN:
        fresh += [f"#{number}" for number in numbers_of(said) if number in subject.figures]
    if subject.kind is Kind.EXERCISE and is_own and says("operation", said):
        about = {w for w in content_words(said) if w in subject.terms} | subject.speaks_of(said)
        about |= {f"#{number}" for number in numbers_of(said) if number in subject.figures}
        about &= {*content_words(said), *(piece for piece in about if piece[0] == "#")}
        return frozenset(about) | frozenset(plain_words(said).split()) if len(about) >= 2 else frozenset()
    if not _suffices(said, subject, fresh, is_own=is_own):
        return frozenset()
    return frozenset(fresh) | _answers_named(said, subject)


def _answers_named(said: str, subject: Subject) -> frozenset[str]:
    """Numbers and names that may be the pupil's answer, marked as such."""
    if subject.asked in ("time", "number"):
        return frozenset(f"?{number}" for number in numbers_of(said) - {*subject.numbers})
    named = (word for word in content_words(said) if word in subject.names and word not in subject.terms)
    return frozenset(f"?{word}" for word in named)


def _tells(clause: str) -> bool:
    """Whether a clause states something of the pupil's own: no plea, no question, no order."""
    phrases, said = _phrases(), plain_words(clause)
    if re.match(_LEAD + f"(?:{phrases.said['think'].pattern})", said):
        return True
    if attempts_in(clause):
        return False
    return says("think", clause) or not any(says(what, clause) for what in ("asks", "task", "order"))


def _without_copies(own: Sequence[str], heard: Sequence[str]) -> list[str]:
    """The words that are not copied from a hint, by stretches of neighbouring words."""
    copied: set[str] = set()
    for hint in heard:
        for block in SequenceMatcher(None, own, hint.split(), autojunk=False).get_matching_blocks():
            if block.size >= _COPIED:
                copied.update(own[block.a : block.a + block.size])
    return [word for word in own if word not in copied]


def _suffices(said: str, subject: Subject, fresh: Sequence[str], *, is_own: bool) -> bool:
    """Whether clauses say enough of their own to be work on the subject."""
    known = subject.speaks_of(said)
    topical = [w for w in fresh if w[0] == "#" or w in known]
    if subject.kind is Kind.EXERCISE:
        return is_own and len(fresh) >= 3 and len(topical) >= 2
    if subject.kind is Kind.SHORT:
        # A bare word is a guess; with a reason or a place in the book it is work.
        reasoned = says("reason", said) or says("pointer", said)
        if reasoned and topical and len(fresh) + bool(_answers_named(said, subject)) >= 2:
            return True
        return is_own and len(fresh) >= 4 and len(topical) >= 2
    is_about = bool(topical) or bool(known & {*subject.terms})
    if is_own or says("reason", said):
        adds = len(fresh) >= 2 or len(content_words(said)) >= (2 if is_own and says("reason", said) else 3)
        return (len(topical) >= 1 and adds) or (is_about and len(fresh) >= 3)
    return len(fresh) >= 3 and len(topical) >= 2


def _calculated(text: str, subject: Subject) -> frozenset[str]:
    """The pupil's own calculations with a number of the exercise or its lesson in them."""
    if subject.kind is not Kind.EXERCISE:
        return frozenset()
    found: set[str] = set()
    for one in calculations(text, decimal="comma"):
        expression = "".join(one.expression.split())
        # The exercise's own numbers, not a sum picked from the air; small ones stand in any sum.
        known = numbers_of(one.expression) & {*subject.numbers, *(f for f in subject.figures if len(f) >= 2)}
        if known and (one.claimed is not None or expression not in subject.expressions):
            found.add(f"={expression}")
    return frozenset(found)


def _is_same_work(work: frozenset[str], tried: Sequence[frozenset[str]]) -> bool:
    """Whether work says hardly more than an earlier try. The first answer that a pupil stands by is more; another
    answer for the same reason is not."""
    if any(piece[0] == "?" for piece in work) and not any(piece[0] == "?" for one in tried for piece in one):
        return False
    told = frozenset(piece for piece in work if piece[0] != "?")
    return any(not any(p[0] == "=" for p in told - one) and len(told - one) < 2 for one in tried)


def _is_guess(text: str, subject: Subject) -> bool:
    """Whether a message only names an answer: a number, a name, a letter, a word or two."""
    if says("verify", text):
        return True
    fresh = [w for w in content_words(text) if w not in subject.terms]
    if says("think", text):
        return bool(fresh) or bool(numbers_of(text))
    is_bare = len(fresh) <= 3 and not says("next", text) and not asks(text)
    return is_bare and (bool(fresh) or bool(numbers_of(text)) or re.fullmatch(r"\W*[A-Da-d]\W*", text) is not None)
