"""The ladder of hints: from what is asked, one rung at a time, to the answer. State and decisions, nothing else.

What is told is decided here, from what the pupil did so far; no model is asked. The rules, as a teacher may read them:

1. A message climbs one rung at most.
2. The first three rungs (what is asked, which lesson, which idea) may be had for the asking.
3. Every further rung takes a try of one's own, right or wrong: a calculation with the exercise's numbers, or words of
   one's own about the lesson. The same try again is no new one. So the answer comes after a try on the worked example.
4. Who cannot follow says what is not understood: the rung is told in other words, and the next time the next rung
   comes, up to the worked example. Then the answer takes two tries, the last of them after the example.
5. A guess is judged when it comes with work of one's own, at most ``WRONG_JUDGED`` wrong ones on a rung; where one word
   would tell all (yes or no, A to D), only after the worked example. Found with own work, the answer is confirmed.
6. Nothing else that a message says counts: neither pleas nor permissions, neither tales nor what was "said before".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from deepedu.base.errors import StoreError
from deepedu.tutor.pupil_intent import (
    Kind,
    Move,
    Reading,
    Subject,
    alikeness,
    asks,
    attempts_in,
    content_words,
    question_in,
    read,
)

VERSION = 1
WRONG_JUDGED = 2
TRIES_FOR_ANSWER = 2
# Ladders kept for one pupil; the one left longest alone goes first.
MOST_LADDERS = 40
_MOST_HEARD = 12
_MOST_TRIES = 20


class Rung(IntEnum):
    """How much is told."""

    NOTHING = 0
    ASKED = 1
    LESSON = 2
    IDEA = 3
    FIRST_STEP = 4
    EXAMPLE = 5
    ANSWER = 6


class Policy(StrEnum):
    """How a class is taught: by hints, by direct answers, or not at all while it sits an exam."""

    TUTOR = "tutor"
    EXPLAIN = "explain"
    EXAM_OFF = "exam_off"


@dataclass(frozen=True)
class Ladder:
    """Where one pupil stands with one question. Frozen; ``decide`` gives the next.

    ``tries`` counts honest tries, ``guesses`` bare ones; ``repeats`` and ``wrong`` count on the present rung: tellings
    after the first, and guesses judged wrong. ``has_doubts``: the pupil named on this rung what is not understood.
    """

    question: str
    subject: Subject
    opened_at: datetime
    changed_at: datetime
    rung: Rung = Rung.NOTHING
    tries: int = 0
    guesses: int = 0
    repeats: int = 0
    wrong: int = 0
    has_doubts: bool = False
    is_solved: bool = False
    tried: tuple[tuple[str, ...], ...] = ()
    heard: tuple[str, ...] = ()

    def after(self, hint: str) -> "Ladder":
        """The ladder once ``hint`` was told: its words, given back, are no try."""
        return replace(self, heard=(*self.heard, " ".join(content_words(hint)))[-_MOST_HEARD:])

    def to_json(self) -> dict[str, Any]:
        """Plain values; see ``from_json``."""
        times = {"opened_at": self.opened_at.isoformat(), "changed_at": self.changed_at.isoformat()}
        return {
            "version": VERSION,
            **_shallow(self),
            **times,
            "subject": _shallow(self.subject),
            "rung": int(self.rung),
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "Ladder":
        """The ladder that ``to_json`` wrote.

        Raises:
            StoreError: written by another version, or damaged.
        """
        values = dict(kept)
        version = values.pop("version", None)
        if version != VERSION:
            raise StoreError(f"expected a ladder of version {VERSION}, got {version!r}: start the question anew")
        try:
            subject = {name: tuple(v) if isinstance(v, list) else v for name, v in values.pop("subject").items()}
            return cls(
                **{
                    **values,
                    "subject": Subject(**{**subject, "kind": Kind(subject["kind"])}),
                    "opened_at": datetime.fromisoformat(values["opened_at"]),
                    "changed_at": datetime.fromisoformat(values["changed_at"]),
                    "rung": Rung(values["rung"]),
                    "tried": tuple(tuple(work) for work in values["tried"]),
                    "heard": tuple(values["heard"]),
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"expected a kept ladder, got {error!r}: start the question anew") from error


@dataclass(frozen=True)
class Decision:
    """What is told in reply to a message, and where the pupil stands then.

    ``rung`` is None where the ladder does not apply: answer directly (``explain``) or not at all (``exam_off``).
    ``verdict`` is told, None: the guess is not judged. ``reason`` is for the teacher's log.
    """

    rung: Rung | None
    ladder: Ladder
    move: Move
    reason: str
    verdict: bool | None = None
    climbed: bool = False
    policy: Policy = Policy.TUTOR

    @property
    def wants_answer(self) -> bool:
        """Whether the caller gives the usual grounded answer."""
        return self.rung is Rung.ANSWER or self.policy is Policy.EXPLAIN


def decide(
    ladder: Ladder, message: str, *, policy: Policy = Policy.TUTOR, now: datetime, verdict: bool | None = None
) -> Decision:
    """What a message gets.

    Args:
        verdict: whether the answer that the message names is right, as code found; None: it names none, or code cannot
            tell. It counts for nothing unless rule 5 lets it be told.
    """
    if policy is not Policy.TUTOR:
        return Decision(None, ladder, Move.OTHER, _POLICY_REASONS[policy], policy=policy)
    reading = read(message, ladder.subject, heard=ladder.heard, tried=[frozenset(work) for work in ladder.tried])
    counted = _counted(replace(ladder, changed_at=now), reading)
    if ladder.rung is Rung.ANSWER:
        return Decision(Rung.ANSWER, counted, reading.move, "Đáp án đã được cho trước đó; nhắc lại.")
    told = verdict if reading.move is Move.TRY and _may_judge(ladder) else None
    if told:
        solved = replace(_at(counted, Rung.ANSWER), is_solved=True)
        return Decision(Rung.ANSWER, solved, reading.move, "Học sinh tự làm và tìm ra đáp án.", True, climbed=True)
    if told is False:
        counted = replace(counted, wrong=counted.wrong + 1)
    if _climbs(ladder, counted, reading):
        up = _at(counted, Rung(ladder.rung + 1))
        return Decision(up.rung, up, reading.move, _reason(ladder, up, reading), told, climbed=True)
    stays = replace(counted, repeats=counted.repeats + 1, has_doubts=counted.has_doubts or bool(reading.point))
    return Decision(stays.rung, stays, reading.move, _reason(ladder, stays, reading), told)


def _counted(ladder: Ladder, reading: Reading) -> Ladder:
    if reading.move is Move.TRY:
        tried = (*ladder.tried, tuple(sorted(reading.work)))[-_MOST_TRIES:]
        return replace(ladder, tries=ladder.tries + 1, tried=tried)
    return replace(ladder, guesses=ladder.guesses + (reading.move is Move.GUESS))


def _may_judge(ladder: Ladder) -> bool:
    if ladder.subject.has_options and ladder.rung < Rung.EXAMPLE:
        return False
    return ladder.wrong < WRONG_JUDGED


def _climbs(before: Ladder, counted: Ladder, reading: Reading) -> bool:
    rung, is_doubt = before.rung, reading.move is Move.CONFUSED and bool(reading.point)
    if rung is Rung.NOTHING:
        return True
    if is_doubt and not before.has_doubts:
        return False
    if rung < Rung.IDEA:
        return True
    if rung < Rung.EXAMPLE:
        return reading.move is Move.TRY or is_doubt
    return reading.move is Move.TRY and counted.tries >= TRIES_FOR_ANSWER


def _at(ladder: Ladder, rung: Rung) -> Ladder:
    return replace(ladder, rung=rung, repeats=0, wrong=0, has_doubts=False)


# --- Several questions -----------------------------------------------------------------------------------------------

# Shares of words that two questions have in common. Asked again in other words, a question keeps few of them, so with
# the same best sentence of the book fewer will do.
_SAME_WORDS = 0.7
_SAME_PLACE = 0.4
_SAME_NAME = 0.3
_SAME_NUMBERS = 0.3


@dataclass(frozen=True)
class Ladders:
    """All ladders of one pupil, the present one last. Kept over conversations: a new one is no new start."""

    kept: tuple[Ladder, ...] = field(default=())

    @property
    def present(self) -> Ladder | None:
        return self.kept[-1] if self.kept else None

    def find(self, message: str, subject: Subject, now: datetime) -> Ladder:
        """The ladder that a message belongs to: one that is kept, or a new one with nothing told yet.

        Args:
            subject: what code finds the message to be about, were it a question.
        """
        question = question_in(message)
        if self.kept and asks(question):
            words = content_words(question)
            likest = max(self.kept, key=lambda ladder: _sameness(ladder.subject, words, subject))
            if _sameness(likest.subject, words, subject) >= 1.0:
                return likest
        if self.present is not None and not self._opens(self.present, message, subject):
            return self.present
        return Ladder(question, subject, now, now)

    def with_(self, ladder: Ladder) -> "Ladders":
        """These ladders with ``ladder`` in place of its earlier state, as the present one."""
        others = [one for one in self.kept if one.opened_at != ladder.opened_at or one.question != ladder.question]
        return Ladders((*others, ladder)[-MOST_LADDERS:])

    @staticmethod
    def _opens(present: Ladder, message: str, subject: Subject) -> bool:
        """Whether a message that is like no kept question asks a new one, rather than speaking of the present one."""
        question = question_in(message)
        move = read(message, present.subject, heard=present.heard).move
        if move in (Move.TRY, Move.CONFUSED, Move.GUESS) or not asks(question):
            return False
        new = [w for w in content_words(question) if w not in present.subject.terms]
        if attempts_in(question):
            # Amid attempts only a lesson's words make a question: "tell me a story" asks nothing.
            return len([w for w in new if w in subject.folded]) >= 3
        return len(new) >= 2 or (bool(new) and frozenset(subject.numbers) != frozenset(present.subject.numbers))

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values; see ``from_json``."""
        return [ladder.to_json() for ladder in self.kept]

    @classmethod
    def from_json(cls, kept: Sequence[dict[str, Any]]) -> "Ladders":
        """The ladders that ``to_json`` wrote.

        Raises:
            StoreError: see ``Ladder.from_json``.
        """
        return cls(tuple(Ladder.from_json(one) for one in kept))


def _shallow(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as they are: ``asdict`` would copy thousands of words one by one."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _sameness(known: Subject, words: tuple[str, ...], subject: Subject) -> float:
    """How surely a question with these content words asks a ladder's question again; 1 and more: it does."""
    part, both = alikeness(words, known.terms)
    scores = [both / _SAME_WORDS]
    given, asked = frozenset(subject.numbers), frozenset(known.numbers)
    if known.kind is Kind.EXERCISE:
        # Another number makes another exercise of it, the same numbers hardly ever do.
        if given and asked and not given <= asked:
            return 0.0
        scores.append(part / _SAME_NUMBERS if given == asked and given else 0.0)
    same_place = subject.place is not None and subject.place == known.place
    same_asked = subject.asked == known.asked or "other" in (subject.asked, known.asked)
    if same_place and same_asked:
        scores.append(part / _SAME_PLACE)
    # In another language little more than names stays.
    named = set(words) & set(known.names) & set(known.terms)
    if named and subject.section == known.section and same_asked:
        scores.append(part / _SAME_NAME)
    return max(scores)


# --- The teacher's log -----------------------------------------------------------------------------------------------

_POLICY_REASONS = {
    Policy.EXPLAIN: "Lớp đang ở chế độ giải thích: trả lời trực tiếp theo sách.",
    Policy.EXAM_OFF: "Lớp đang kiểm tra: gia sư không trả lời.",
}
_MOVE_REASONS = {
    Move.TRY: "Học sinh tự làm thử",
    Move.GUESS: "Học sinh đoán đáp án mà không kèm cách làm",
    Move.CONFUSED: "Học sinh nói chỗ chưa hiểu",
    Move.ASK_MORE: "Học sinh hỏi tiếp",
    Move.PLEAD: "Học sinh nài xin đáp án",
    Move.AUTHORITY: "Tin nhắn mượn danh người có quyền",
    Move.ROLE_PLAY: "Tin nhắn yêu cầu đóng vai, kể chuyện",
    Move.ONLY_ANSWER: "Học sinh chỉ đòi đáp án",
    Move.TRICK: "Tin nhắn tìm cách lấy đáp án dưới dạng khác",
    Move.ON_BEHALF: "Học sinh hỏi hộ người khác",
    Move.FORGE: "Tin nhắn viện dẫn điều gia sư không nói",
    Move.OTHER: "Tin nhắn không rõ ý",
}


def _reason(before: Ladder, after: Ladder, reading: Reading) -> str:
    told = _MOVE_REASONS[reading.move]
    if after.rung > before.rung:
        return f"{told}: lên bậc {after.rung}."
    if after.rung is Rung.EXAMPLE and reading.move is Move.TRY:
        return f"{told}: cần thêm một lần nữa sau ví dụ mẫu thì mới đến đáp án; giữ bậc {after.rung}."
    if reading.move is Move.CONFUSED:
        return f"{told}: nói lại bậc {after.rung} bằng lời khác."
    return f"{told}: giữ bậc {after.rung}, cần một lần tự làm để lên bậc."
