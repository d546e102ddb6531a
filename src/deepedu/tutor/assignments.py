"""Quizzes given to classes: when they are open, whether they are an exam, and when pupils may see the keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, NotAllowed, NotFound
from deepedu.store import Database
from deepedu.store.tables import QuizAssignment, StoredQuiz, Submission, now
from deepedu.tutor.quiz import Quiz, read_quiz

# What a browser sends at the last second is still taken when it arrives.
GRACE = timedelta(seconds=20)


class TimeOver(NotAllowed):
    """The assignment is not open, or not any more."""

    code = "time_over"


class BadTimes(BadRequest):
    """An assignment cannot open and close at these times."""


@dataclass(frozen=True)
class Assignment:
    """A quiz given to a class."""

    id: int
    quiz_id: int
    class_id: int
    title: str
    opens_at: datetime
    closes_at: datetime | None
    is_exam: bool
    shows_keys: bool

    def is_open(self, at: datetime) -> bool:
        """Whether pupils may begin."""
        return self.opens_at <= at and (self.closes_at is None or at < self.closes_at)

    def is_over(self, at: datetime) -> bool:
        """Whether nothing is taken any more, from anybody."""
        return self.closes_at is not None and at >= self.closes_at + GRACE

    def may_show_keys(self, at: datetime) -> bool:
        """Whether who has handed in may see keys: if the teacher allows it, in an exam once it is closed for all."""
        return self.shows_keys and (not self.is_exam or self.is_over(at))


def assign(
    session: Session,
    quiz_id: int,
    class_id: int,
    *,
    author_id: int,
    opens_at: datetime,
    closes_at: datetime | None,
    is_exam: bool = False,
    shows_keys: bool = True,
) -> int:
    """Gives a quiz to a class; the caller has checked that the class is the author's. Returns the assignment's id.

    Raises:
        NotFound: no such quiz of this author.
        BadTimes: it would close before it opens, or an exam never.
        BadRequest: it has no items, or the class has it already.
    """
    stored = session.get(StoredQuiz, quiz_id)
    if stored is None or stored.author_id != author_id:
        raise NotFound(f"Không có đề số {quiz_id} trong các đề của thầy cô.")
    read_quiz(stored.content)
    _check_times(opens_at, closes_at, is_exam=is_exam)
    unclosed = sa.or_(QuizAssignment.closes_at.is_(None), QuizAssignment.closes_at > now())
    same = sa.select(QuizAssignment.id).where(
        QuizAssignment.quiz_id == quiz_id, QuizAssignment.class_id == class_id, unclosed
    )
    if session.scalar(same.limit(1)) is not None:
        raise BadRequest("Lớp này đang có bài này rồi: hãy đổi giờ của bài đã giao.")
    row = QuizAssignment(
        quiz_id=quiz_id,
        class_id=class_id,
        opens_at=opens_at,
        closes_at=closes_at,
        is_exam=is_exam,
        shows_keys=shows_keys,
    )
    session.add(row)
    session.flush()
    return row.id


def change_assignment(
    session: Session, assignment: Assignment, *, closes_at: datetime | None, shows_keys: bool
) -> Assignment:
    """Closes an assignment at another time, at once if that is not later than now, and shows keys or not.

    Raises:
        BadRequest: it is closed and would open again, or would close before it opens, or an exam never.
    """
    row, at = session.get_one(QuizAssignment, assignment.id), now()
    if row.closes_at is not None and row.closes_at <= at and closes_at != row.closes_at:
        raise BadRequest("Bài này đã đóng, có em đã xem kết quả: muốn làm lại, hãy tạo bản sao của đề rồi giao.")
    _check_times(row.opens_at, closes_at, is_exam=row.is_exam)
    row.closes_at, row.shows_keys = closes_at, shows_keys
    session.flush()
    return _assignment(row, assignment.title)


def withdraw(session: Session, assignment: Assignment) -> None:
    """Takes an assignment back that nobody has begun.

    Raises:
        BadRequest: somebody has begun it.
    """
    begun = sa.select(Submission.id).where(Submission.assignment_id == assignment.id)
    if session.scalar(begun.limit(1)) is not None:
        raise BadRequest("Đã có em bắt đầu làm nên không thu hồi được: hãy đóng bài sớm.")
    session.execute(sa.delete(QuizAssignment).where(QuizAssignment.id == assignment.id))


def own_assignment(
    database: Database, author_id: int, class_ids: Sequence[int], assignment_id: int
) -> tuple[Assignment, Quiz]:
    """An assignment of an author's quiz to one of some classes, with the quiz.

    Raises:
        NotFound: no such assignment of this author and these classes.
    """
    with database.read() as session:
        assignment, quiz = assigned_quiz(session, class_ids, assignment_id)
        if session.get_one(StoredQuiz, assignment.quiz_id).author_id != author_id:
            raise _unknown(assignment_id)
        return assignment, quiz


def assignments_of(database: Database, class_ids: Sequence[int], *, author_id: int | None = None) -> list[Assignment]:
    """What was given to some classes, by one author or by anybody, the newest first."""
    wanted = (
        sa.select(QuizAssignment, StoredQuiz.title)
        .join(StoredQuiz, StoredQuiz.id == QuizAssignment.quiz_id)
        .where(QuizAssignment.class_id.in_(class_ids))
        .order_by(QuizAssignment.opens_at.desc(), QuizAssignment.id.desc())
    )
    if author_id is not None:
        wanted = wanted.where(StoredQuiz.author_id == author_id)
    with database.read() as session:
        return [_assignment(row, title) for row, title in session.execute(wanted)]


def assignment_for(database: Database, class_ids: Sequence[int], assignment_id: int) -> tuple[Assignment, Quiz]:
    """An assignment of one of some classes, with its quiz.

    Raises:
        NotFound: no such assignment of these classes.
    """
    with database.read() as session:
        return assigned_quiz(session, class_ids, assignment_id)


def handed_in(database: Database, assignment_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """How many pupils have begun and how many have handed in, by assignment."""
    counted = (
        sa.select(Submission.assignment_id, sa.func.count(), sa.func.count(Submission.finished_at))
        .where(Submission.assignment_id.in_(assignment_ids))
        .group_by(Submission.assignment_id)
    )
    with database.read() as session:
        found = {assignment_id: (begun, done) for assignment_id, begun, done in session.execute(counted)}
    return {assignment_id: found.get(assignment_id, (0, 0)) for assignment_id in assignment_ids}


# --- Inside ----------------------------------------------------------------------------------------------------------


def _unknown(assignment_id: int) -> NotFound:
    return NotFound(f"Không có bài được giao số {assignment_id} trong các lớp của bạn.")


def _check_times(opens_at: datetime, closes_at: datetime | None, *, is_exam: bool) -> None:
    if closes_at is not None and closes_at <= opens_at:
        raise BadTimes("Giờ kết thúc phải sau giờ mở bài: hãy sửa lại giờ.")
    if is_exam and closes_at is None:
        raise BadTimes("Bài kiểm tra cần giờ kết thúc, vì gia sư tắt cho cả lớp đến lúc đó: hãy ghi giờ kết thúc.")


def assigned_quiz(session: Session, class_ids: Sequence[int], assignment_id: int) -> tuple[Assignment, Quiz]:
    """As ``assignment_for``, within a transaction."""
    row = session.get(QuizAssignment, assignment_id)
    if row is None or row.class_id not in class_ids:
        raise _unknown(assignment_id)
    stored = session.get_one(StoredQuiz, row.quiz_id)
    return _assignment(row, stored.title), read_quiz(stored.content)


def _assignment(row: QuizAssignment, title: str) -> Assignment:
    return Assignment(
        row.id, row.quiz_id, row.class_id, title, row.opens_at, row.closes_at, row.is_exam, row.shows_keys
    )
