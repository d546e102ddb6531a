"""What a pupil has learnt of each skill, and when to come back to it: recomputed from the stored attempts, every time.

There is no other way in: nothing said in a chat moves an estimate, only attempts do. A skill is a plain name, of a
lesson or of an objective.

The estimate is Bayesian knowledge tracing with forgetting. A skill is known or not; every answer is evidence for one
or the other, and practice as well. Five numbers (``Parameters``) are all there is to it, so a teacher can be told why
(``explain``).
Source: A. T. Corbett and J. R. Anderson, "Knowledge tracing: modeling the acquisition of procedural knowledge", 1995;
with forgetting: M. Khajah, R. V. Lindsey and M. C. Mozer, "How deep is knowledge tracing?", 2016, arXiv:1604.02416.
Differs: partial scores count (``Parameters.seen``; pinned by ``test_partial_scores_lie_between``).

The date to come back is that of FSRS, which takes the scores of a day as one review: ten questions in a row show once
that something is remembered, not ten times.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import groupby
from statistics import fmean

from fsrs import Card, Rating, Scheduler

from deepedu.base.errors import BadRequest, ConfigError

# Mastered from here on: the threshold of Corbett and Anderson's own tutor.
MASTERED_AT = 0.95
NEARLY_AT = 0.8
# Two lucky guesses can carry an estimate past the threshold, so two answers are never enough.
MASTERED_ATTEMPTS = 3
# At 1 itself no wrong answer would count any more, and rounding gets there in some thirty right ones.
_SUREST = 1 - 1e-9

SCHOOL_TIME = timezone(timedelta(hours=7), "Việt Nam")
# Steps of minutes are for flash cards; fuzzing would give another date with every recomputation.
_SCHEDULER = Scheduler(learning_steps=(), relearning_steps=(), maximum_interval=365, enable_fuzzing=False)
_GOOD_FROM, _HARD_FROM = 0.8, 0.5


class Level(StrEnum):
    """How far a pupil is with a skill, in one word."""

    NOT_STARTED = "not_started"
    # ``p_known`` below ``NEARLY_AT``.
    LEARNING = "learning"
    # ``p_known`` at least ``NEARLY_AT``.
    NEARLY = "nearly"
    # ``p_known`` at least ``MASTERED_AT``, on no fewer than ``MASTERED_ATTEMPTS`` attempts.
    MASTERED = "mastered"


@dataclass(frozen=True)
class Attempt:
    """One marked answer. ``score`` is from 0 (wrong) to 1 (right); ``at`` knows its time zone; ``id`` is its own.

    Raises:
        BadRequest: the score is outside of 0 to 1, or the time has no zone.
    """

    skill: str
    score: float
    at: datetime
    id: str

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 1:
            raise BadRequest(
                f"Điểm của câu trả lời {self.id!r} phải từ 0 đến 1, nhận được {self.score!r}: hãy chấm lại."
            )
        if self.at.utcoffset() is None:
            raise BadRequest(
                f"Giờ của câu trả lời {self.id!r} thiếu múi giờ, nhận được {self.at!r}: hãy ghi cả múi giờ."
            )


@dataclass(frozen=True)
class Parameters:
    """What is believed of a skill before anybody answers; all are probabilities.

    ``prior``: known before the first answer. ``learn``: becomes known by one answer's practice. ``guess``: a right
    answer without knowing. ``slip``: a wrong one in spite of knowing. ``forget``: known no longer by the next answer;
    0 is the model of 1995.

    Raises:
        ConfigError: a probability outside of its range. ``guess`` and ``slip`` lie between 0 and 0.5, else a right
            answer would speak against knowing; ``learn + forget`` is at most 1, else knowing more now would mean less
            later.
    """

    prior: float
    learn: float
    guess: float
    slip: float
    forget: float = 0.0

    def __post_init__(self) -> None:
        is_valid = (
            0 <= self.prior < 1
            and self.learn >= 0
            and self.forget >= 0
            and self.learn + self.forget <= 1
            and 0 < self.guess < 0.5
            and 0 < self.slip < 0.5
        )
        if not is_valid:
            raise ConfigError(
                "mastery parameters: expected prior, learn and forget from 0 to 1, learn + forget at most 1, "
                f"guess and slip between 0 and 0.5, came {self!r}; fit them again with these bounds"
            )

    def p_right(self, p_known: float) -> float:
        """The probability that the next answer is right."""
        return p_known * (1 - self.slip) + (1 - p_known) * self.guess

    def seen(self, p_known: float, score: float) -> float:
        """``p_known`` after an answer of this score, before its practice.

        A partial score counts as a right answer with that probability: the two posteriors are mixed by it. So of two
        scores the higher never gives less, and half a score tells little.
        """
        right = p_known * (1 - self.slip)
        wrong = p_known * self.slip
        if_right = right / (right + (1 - p_known) * self.guess)
        if_wrong = wrong / (wrong + (1 - p_known) * (1 - self.guess))
        return score * if_right + (1 - score) * if_wrong

    def practised(self, p_known: float) -> float:
        """``p_known`` when the next answer comes: something was learnt by this one, something is forgotten."""
        return min(_SUREST, p_known * (1 - self.forget) + (1 - p_known) * self.learn)


DEFAULT = Parameters(prior=0.74, learn=0.11, guess=0.19, slip=0.2, forget=0.015)
"""For skills that nobody fitted parameters for, which is every skill at first.

They are the fit over all skills of ASSISTments 2009 together (2,491 students, 170,851 answers), to two figures. On the
52,003 answers of 830 other students they tell right answers from wrong ones with an AUC of 0.694 (95 % interval over
students 0.679 to 0.709); parameters fitted for each skill reach 0.721, and without forgetting 0.714. Measured by
``deepedu bench mastery``. Vietnamese pupils may differ: fit again when a school has answers of its own.
"""


@dataclass(frozen=True)
class SkillMastery:
    """How far a pupil is with a skill. ``due_at`` is when to come back to it; both times are UTC.

    ``p_next_correct`` is the probability that the next answer will be right.
    """

    p_known: float
    p_next_correct: float
    attempts: int
    last_at: datetime | None
    due_at: datetime | None
    level: Level


@dataclass(frozen=True)
class Step:
    """How one attempt moved ``p_known``: ``before`` it, by what the answer ``showed``, and ``after`` its practice.

    A wrong answer can leave more than there was, because practice teaches; ``showed - before`` is never above 0 for it.
    """

    attempt: Attempt
    before: float
    showed: float
    after: float


@dataclass(frozen=True)
class Explanation:
    """Why an estimate is what it is: where it began, and what each attempt did to it, oldest first.

    ``steps`` are the last ones; ``earlier`` attempts before them are summed up in the first step's ``before``.
    """

    skill: str
    mastery: SkillMastery
    parameters: Parameters
    earlier: int
    steps: tuple[Step, ...]


def trace(
    attempts: Iterable[Attempt],
    parameters: Mapping[str, Parameters] | None = None,
    skills: Iterable[str] = (),
) -> dict[str, SkillMastery]:
    """How far one pupil is with each skill.

    Args:
        attempts: all of the pupil's, in any order; one that comes twice counts once.
        parameters: of skills that were fitted; the others have ``DEFAULT``.
        skills: to be in the result even without an attempt.

    Returns:
        By skill, in the order of their names.

    Raises:
        BadRequest: two different attempts have the same id.
    """
    by_skill: dict[str, list[Attempt]] = {skill: [] for skill in skills}
    for attempt in _in_order(attempts):
        by_skill.setdefault(attempt.skill, []).append(attempt)
    known = parameters or {}
    return {skill: _mastery(by_skill[skill], known.get(skill, DEFAULT)) for skill in sorted(by_skill)}


def due(mastery: Mapping[str, SkillMastery], now: datetime) -> list[str]:
    """Skills to come back to at ``now``: the longest due first, of equals the least known."""
    waiting = [(each.due_at, each.p_known, skill) for skill, each in mastery.items() if each.due_at is not None]
    return [skill for due_at, _, skill in sorted(waiting) if due_at <= now]


def explain(
    attempts: Iterable[Attempt], skill: str, parameters: Mapping[str, Parameters] | None = None, last: int = 10
) -> Explanation:
    """Why a pupil's estimate of a skill is what it is, by the ``last`` attempts at it. Arguments as for ``trace``.

    Raises:
        BadRequest: two different attempts have the same id.
    """
    own = [attempt for attempt in _in_order(attempts) if attempt.skill == skill]
    chosen = (parameters or {}).get(skill, DEFAULT)
    steps = _steps(own, chosen)
    earlier = max(0, len(steps) - last)
    return Explanation(skill, _mastery(own, chosen), chosen, earlier, tuple(steps[earlier:]))


def _in_order(attempts: Iterable[Attempt]) -> list[Attempt]:
    found: dict[str, Attempt] = {}
    for attempt in attempts:
        first = found.setdefault(attempt.id, attempt)
        if first != attempt:
            raise BadRequest(f"Hai câu trả lời khác nhau mang cùng mã {attempt.id!r}: {first!r} và {attempt!r}.")
    # The questions of a quiz are handed in at the same moment.
    return sorted(found.values(), key=lambda attempt: (attempt.at, attempt.id))


def _steps(attempts: Iterable[Attempt], parameters: Parameters) -> list[Step]:
    steps: list[Step] = []
    p_known = parameters.prior
    for attempt in attempts:
        showed = parameters.seen(p_known, attempt.score)
        steps.append(Step(attempt, p_known, showed, parameters.practised(showed)))
        p_known = steps[-1].after
    return steps


def _mastery(attempts: list[Attempt], parameters: Parameters) -> SkillMastery:
    steps = _steps(attempts, parameters)
    p_known = steps[-1].after if steps else parameters.prior
    return SkillMastery(
        p_known=p_known,
        p_next_correct=parameters.p_right(p_known),
        attempts=len(attempts),
        last_at=attempts[-1].at.astimezone(UTC) if attempts else None,
        due_at=_due_at(attempts),
        level=_level(p_known, len(attempts)),
    )


def _level(p_known: float, attempts: int) -> Level:
    if not attempts:
        return Level.NOT_STARTED
    if p_known >= MASTERED_AT and attempts >= MASTERED_ATTEMPTS:
        return Level.MASTERED
    return Level.NEARLY if p_known >= NEARLY_AT else Level.LEARNING


def _due_at(attempts: list[Attempt]) -> datetime | None:
    if not attempts:
        return None
    # Without an id of its own a card waits for the clock to give it one.
    card = Card(card_id=1, due=attempts[0].at)
    for _, of_day in groupby(attempts, key=lambda attempt: attempt.at.astimezone(SCHOOL_TIME).date()):
        day = list(of_day)
        rating = _rating(fmean(attempt.score for attempt in day))
        card, _ = _SCHEDULER.review_card(card, rating, day[-1].at.astimezone(UTC))
    return card.due


def _rating(score: float) -> Rating:
    """Never ``Easy``: that a right answer took no effort is not to be seen from its score."""
    if score >= _GOOD_FROM:
        return Rating.Good
    return Rating.Hard if score >= _HARD_FROM else Rating.Again
