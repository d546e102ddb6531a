"""What a teacher's desk and a guardian's pages show, computed from stored values. ``class_traces`` reads those.

Days are those of the school's clock: the local time of the machine that it runs on.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import fmean
from typing import Literal

from deepedu.base.vietnamese import fold
from deepedu.school.accounts import Account
from deepedu.tutor.assignments import Assignment
from deepedu.tutor.mastery import Level, SkillMastery

Order = Literal["name", "need"]
# Somebody who comes back sooner was reading or thinking meanwhile.
PAUSE = timedelta(minutes=10)
# Reading an answer takes about as long, and a turn that hangs is no study.
READING = timedelta(minutes=1)
LONGEST_TURN, LONGEST_QUIZ = timedelta(minutes=10), timedelta(minutes=120)
# Fewer answers tell of pupils, not of a question.
LEAST_ANSWERS = 3
MISSED_BELOW = 0.8
_DIGITS = re.compile(r"(\d+)")


def local_day(at: datetime) -> date:
    """The day of the school's clock."""
    return at.astimezone().date()


def week_start(at: datetime) -> datetime:
    """Monday, 0:00 by the school's clock, of the week of ``at``."""
    local = at.astimezone()
    monday = local.date() - timedelta(days=local.weekday())
    return datetime(monday.year, monday.month, monday.day).astimezone()


def natural_order(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts "Bài 2" before "Bài 10"."""
    pieces = _DIGITS.split(fold(text))
    return tuple((0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece)


# --- Mastery ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeatCell:
    """Where one pupil stands with one skill. ``level``: 0 not started, 1 in need of help, 2 learning, 3 nearly there,
    4 mastered. ``p_known`` is None where nothing was tried."""

    level: int
    p_known: float | None
    attempts: int


@dataclass(frozen=True)
class HeatRow:
    """A pupil's cells, in the order of the map's skills."""

    student: Account
    cells: tuple[HeatCell, ...]

    @property
    def mastered(self) -> int:
        """How many skills are mastered."""
        return sum(cell.level == 4 for cell in self.cells)


@dataclass(frozen=True)
class HeatMap:
    """Pupils by skills. ``weak``: for each skill, how many pupils need help with it."""

    skills: tuple[str, ...]
    rows: tuple[HeatRow, ...]

    @property
    def weak(self) -> tuple[int, ...]:
        return tuple(sum(row.cells[place].level == 1 for row in self.rows) for place in range(len(self.skills)))


_NOT_STARTED = HeatCell(0, None, 0)


def heat_cell(mastery: SkillMastery | None) -> HeatCell:
    """A skill's mastery as a cell."""
    if mastery is None or mastery.level is Level.NOT_STARTED:
        return _NOT_STARTED
    level = {Level.NEARLY: 3, Level.MASTERED: 4}.get(mastery.level, 1 if mastery.p_known < 0.5 else 2)
    return HeatCell(level, mastery.p_known, mastery.attempts)


def heat_map(
    students: Sequence[Account],
    mastery: Mapping[str, Mapping[str, SkillMastery]],
    skills: Iterable[str] = (),
    order: Order = "name",
) -> HeatMap:
    """The map of a class.

    Args:
        students: in the order of the class list.
        mastery: by ``learner_id`` and skill.
        skills: to be shown although nobody tried them.
        order: ``name`` keeps the class list and counts skills up; ``need`` puts who and what is weakest first.
    """
    of = {student.public_id: mastery.get(student.learner_id or "", {}) for student in students}
    named = sorted({*skills, *(skill for known in of.values() for skill in known)}, key=natural_order)
    rows = list(students)
    if order == "need":
        named.sort(key=lambda skill: _need([of[s.public_id][skill] for s in students if skill in of[s.public_id]]))
        rows.sort(key=lambda student: _need(of[student.public_id].values()))
    cells = {s.public_id: tuple(heat_cell(of[s.public_id].get(skill)) for skill in named) for s in rows}
    return HeatMap(tuple(named), tuple(HeatRow(student, cells[student.public_id]) for student in rows))


def _need(known: Iterable[SkillMastery]) -> float:
    tried = [each.p_known for each in known if each.attempts]
    # Who tried nothing may need as much, but nothing is known of it.
    return fmean(tried) if tried else 2.0


# --- Study -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """A turn or a quiz of one learner; both times are aware. ``end`` is None where it never ended."""

    owner: str
    start: datetime
    end: datetime | None
    is_quiz: bool = False

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From the beginning to when it was read, or the quiz handed in."""
        longest = LONGEST_QUIZ if self.is_quiz else LONGEST_TURN
        end = max(self.end or self.start, self.start)
        return self.start, min(end if self.is_quiz and self.end else end + READING, self.start + longest)


@dataclass(frozen=True)
class DayActivity:
    """What a class did on one day."""

    day: date
    pupils: int
    questions: int
    quizzes: int


def study_minutes(stretches: Iterable[Stretch]) -> dict[date, float]:
    """Minutes that one learner studied, by the day they began on. Pauses up to ``PAUSE`` count, longer ones do not."""
    minutes: defaultdict[date, float] = defaultdict(float)
    begin: datetime | None = None
    until: datetime | None = None
    for start, end in sorted(stretch.span for stretch in stretches):
        if begin is not None and until is not None and start - until <= PAUSE:
            until = max(until, end)
            continue
        if begin is not None and until is not None:
            minutes[local_day(begin)] += (until - begin).total_seconds() / 60
        begin, until = start, end
    if begin is not None and until is not None:
        minutes[local_day(begin)] += (until - begin).total_seconds() / 60
    return dict(minutes)


def by_owner(stretches: Iterable[Stretch]) -> dict[str, list[Stretch]]:
    """Stretches by whose they are."""
    found: defaultdict[str, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        found[stretch.owner].append(stretch)
    return found


def activity(stretches: Iterable[Stretch], last: date, days: int) -> list[DayActivity]:
    """The ``days`` days up to ``last``, each with what was done on it."""
    owners: defaultdict[date, set[str]] = defaultdict(set)
    questions, quizzes = Counter[date](), Counter[date]()
    for stretch in stretches:
        day = local_day(stretch.start)
        owners[day].add(stretch.owner)
        (quizzes if stretch.is_quiz else questions)[day] += 1
    shown = [last - timedelta(days=back) for back in reversed(range(days))]
    return [DayActivity(day, len(owners[day]), questions[day], quizzes[day]) for day in shown]


# --- Quizzes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarkedAnswer:
    """One marked answer of a learner. ``score`` from 0 to 1."""

    learner_id: str
    item_id: str
    skill: str
    score: float


@dataclass(frozen=True)
class Missed:
    """What a class got wrong most. ``mean`` is the mean score, 0 to 1; ``key`` an item's id, or a skill."""

    key: str
    skill: str
    answers: int
    pupils: int
    mean: float


def most_missed(answers: Iterable[MarkedAnswer], by: Literal["item", "skill"], limit: int = 10) -> list[Missed]:
    """The items or skills with the lowest mean scores, lowest first; of those that were answered well, none."""
    of: Callable[[MarkedAnswer], str] = (lambda a: a.item_id) if by == "item" else (lambda a: a.skill)
    groups: defaultdict[str, list[MarkedAnswer]] = defaultdict(list)
    for answer in answers:
        if of(answer):
            groups[of(answer)].append(answer)
    found = [
        Missed(key, group[0].skill, len(group), len({a.learner_id for a in group}), fmean(a.score for a in group))
        for key, group in groups.items()
        if len(group) >= LEAST_ANSWERS
    ]
    return sorted((each for each in found if each.mean < MISSED_BELOW), key=lambda each: (each.mean, each.key))[:limit]


def is_released(assignment: Assignment, at: datetime) -> bool:
    """Whether a guardian may see a pupil's marks: once the time is over for everybody, or at once where it never is."""
    return assignment.closes_at is None or assignment.is_over(at)
