"""A teacher's own quizzes: begun, filled item by item, copied, deleted. What was given to a class changes no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, NotFound
from deepedu.store import Database
from deepedu.store.tables import QuizAssignment, StoredQuiz, Submission, now
from deepedu.tutor.quiz import Item, Quiz, Said, Text, read_quiz

# One page holds them all, and one form their answers.
MOST_ITEMS = 100


class QuizHead(BaseModel):
    """What a quiz is called and what it is for. ``seed`` is part of every pupil's order."""

    model_config = ConfigDict(frozen=True)

    title: Said
    subject: Text | None = None
    grade: int | None = Field(default=None, ge=1, le=12)
    seed: int = 0


class _Content(QuizHead):
    # A quiz may lie here without items; a ``Quiz`` may not.
    items: tuple[Item, ...] = ()


_CONTENT = TypeAdapter(_Content)


@dataclass(frozen=True)
class ShelvedQuiz:
    """A quiz of a teacher, perhaps without items yet. ``is_assigned``: given to a class, so it stays as it is."""

    id: int
    head: QuizHead
    items: tuple[Item, ...]
    created_at: datetime
    is_assigned: bool

    def quiz(self) -> Quiz:
        """The quiz to give out.

        Raises:
            BadRequest: it has no items.
        """
        return read_quiz({**self.head.model_dump(), "items": [item.model_dump() for item in self.items]})

    def item(self, item_id: str) -> Item:
        """One of the items.

        Raises:
            NotFound: there is none of this id.
        """
        found = next((item for item in self.items if item.id == item_id), None)
        if found is None:
            raise NotFound("Không có câu hỏi này trong đề (có thể đã sửa ở trang khác): hãy mở lại đề.")
        return found


@dataclass(frozen=True)
class QuizLine:
    """A quiz in a list. ``items``: how many."""

    id: int
    title: str
    subject: str | None
    grade: int | None
    items: int
    created_at: datetime
    is_assigned: bool


@dataclass(frozen=True)
class Standing:
    """What pupils did with a quiz by now: in how many classes it is or was, how many began it, how many handed in."""

    assignments: int
    begun: int
    handed_in: int


def shelf_of(database: Database, author_id: int) -> list[QuizLine]:
    """The quizzes of an author, newest first."""
    is_assigned = sa.exists().where(QuizAssignment.quiz_id == StoredQuiz.id)
    wanted = sa.select(StoredQuiz, is_assigned).where(StoredQuiz.author_id == author_id).order_by(StoredQuiz.id.desc())
    with database.read() as session:
        return [
            QuizLine(
                row.id,
                row.title,
                row.content.get("subject"),
                row.content.get("grade"),
                len(row.content["items"]),
                row.created_at,
                assigned,
            )
            for row, assigned in session.execute(wanted)
        ]


def shelved_quiz(database: Database, author_id: int, quiz_id: int) -> ShelvedQuiz:
    """A quiz of an author, with its keys.

    Raises:
        NotFound: no such quiz of this author.
    """
    with database.read() as session:
        return _shelved(session, _row(session, author_id, quiz_id))


def put_quiz(session: Session, author_id: int, head: QuizHead, items: Sequence[Item] = ()) -> int:
    """Puts a new quiz on the shelf; returns its id.

    Raises:
        BadRequest: too many items, or one of them twice.
    """
    row = StoredQuiz(author_id=author_id, title=head.title, content=_content(head, items))
    session.add(row)
    session.flush()
    return row.id


def change_head(session: Session, author_id: int, quiz_id: int, head: QuizHead) -> None:
    """Gives a quiz another title, subject or grade.

    Raises:
        NotFound: no such quiz of this author.
        BadRequest: it was given to a class already.
    """
    row, shelved = _changeable(session, author_id, quiz_id)
    row.title, row.content = head.title, _content(head, shelved.items)
    session.flush()


def add_items(session: Session, author_id: int, quiz_id: int, items: Sequence[Item]) -> int:
    """Adds items at the end, leaving out those that are there already; returns how many were added.

    Raises:
        NotFound: no such quiz of this author.
        BadRequest: it was given to a class already, or there would be too many.
    """
    row, shelved = _changeable(session, author_id, quiz_id)
    whole = {item.id: item for item in (*shelved.items, *items)}
    fresh = [item for item_id, item in whole.items() if item_id not in {each.id for each in shelved.items}]
    row.content = _content(shelved.head, [*shelved.items, *fresh])
    session.flush()
    return len(fresh)


def replace_item(session: Session, author_id: int, quiz_id: int, item_id: str, item: Item) -> None:
    """Puts an item in the place of another.

    Raises:
        NotFound: no such quiz of this author, or no such item in it.
        BadRequest: it was given to a class already, or the item is there a second time.
    """
    row, shelved = _changeable(session, author_id, quiz_id)
    shelved.item(item_id)
    row.content = _content(shelved.head, [item if each.id == item_id else each for each in shelved.items])
    session.flush()


def remove_item(session: Session, author_id: int, quiz_id: int, item_id: str) -> Item:
    """Takes an item out and returns it.

    Raises:
        NotFound: no such quiz of this author, or no such item in it.
        BadRequest: it was given to a class already.
    """
    row, shelved = _changeable(session, author_id, quiz_id)
    removed = shelved.item(item_id)
    row.content = _content(shelved.head, [each for each in shelved.items if each.id != item_id])
    session.flush()
    return removed


def move_item(session: Session, author_id: int, quiz_id: int, item_id: str, where: Literal["up", "down"]) -> None:
    """Moves an item one place; the first one up and the last one down stay where they are.

    Raises:
        NotFound: no such quiz of this author, or no such item in it.
        BadRequest: it was given to a class already.
    """
    row, shelved = _changeable(session, author_id, quiz_id)
    items = list(shelved.items)
    place = items.index(shelved.item(item_id))
    other = min(max(place + (1 if where == "down" else -1), 0), len(items) - 1)
    items[place], items[other] = items[other], items[place]
    row.content = _content(shelved.head, items)
    session.flush()


def copy_quiz(session: Session, author_id: int, quiz_id: int) -> int:
    """Puts a copy on the shelf, which can be changed whatever became of the first; returns its id.

    Raises:
        NotFound: no such quiz of this author.
    """
    first = _shelved(session, _row(session, author_id, quiz_id))
    head = first.head.model_copy(update={"title": f"{first.head.title} (bản sao)"})
    return put_quiz(session, author_id, head, first.items)


def standing(database: Database, author_id: int, quiz_id: int) -> Standing:
    """What would go with a quiz if it were deleted.

    Raises:
        NotFound: no such quiz of this author.
    """
    with database.read() as session:
        _row(session, author_id, quiz_id)
        return _standing(session, quiz_id)


def delete_quiz(session: Session, author_id: int, quiz_id: int) -> Standing:
    """Deletes a quiz with what pupils handed in of it, and with those attempts, which move their mastery no more.

    Raises:
        NotFound: no such quiz of this author.
        BadRequest: it is open to a class at this moment.
    """
    row, at = _row(session, author_id, quiz_id), now()
    is_open = sa.select(QuizAssignment.id).where(
        QuizAssignment.quiz_id == quiz_id,
        QuizAssignment.opens_at <= at,
        sa.or_(QuizAssignment.closes_at.is_(None), QuizAssignment.closes_at > at),
    )
    if session.scalar(is_open.limit(1)) is not None:
        raise BadRequest("Đề đang mở cho học sinh làm: hãy đóng bài trước rồi mới xóa.")
    gone = _standing(session, quiz_id)
    session.execute(sa.delete(StoredQuiz).where(StoredQuiz.id == row.id))
    return gone


# --- Inside ----------------------------------------------------------------------------------------------------------


def _row(session: Session, author_id: int, quiz_id: int) -> StoredQuiz:
    row = session.get(StoredQuiz, quiz_id)
    if row is None or row.author_id != author_id:
        raise NotFound(f"Không có đề số {quiz_id} trong các đề của thầy cô.")
    return row


def _shelved(session: Session, row: StoredQuiz) -> ShelvedQuiz:
    try:
        content = _CONTENT.validate_python(row.content)
    except ValidationError as error:
        raise BadRequest(f"Đề số {row.id} lưu không đúng dạng: hãy xóa đề này và tạo lại.") from error
    head = QuizHead(**content.model_dump(exclude={"items"}))
    return ShelvedQuiz(row.id, head, content.items, row.created_at, _is_assigned(session, row.id))


def _changeable(session: Session, author_id: int, quiz_id: int) -> tuple[StoredQuiz, ShelvedQuiz]:
    row = _row(session, author_id, quiz_id)
    if _is_assigned(session, quiz_id):
        raise BadRequest("Đề này đã giao cho lớp nên không sửa được: hãy tạo một bản sao rồi sửa bản sao.")
    return row, _shelved(session, row)


def _is_assigned(session: Session, quiz_id: int) -> bool:
    wanted = sa.select(QuizAssignment.id).where(QuizAssignment.quiz_id == quiz_id).limit(1)
    return session.scalar(wanted) is not None


def _content(head: QuizHead, items: Sequence[Item]) -> dict[str, Any]:
    if len(items) > MOST_ITEMS:
        raise BadRequest(f"Một đề có nhiều nhất {MOST_ITEMS} câu, nhận được {len(items)}: hãy chia thành nhiều đề.")
    if items:
        # A quiz must be one once it is given out; better to say now what is wrong with it.
        return read_quiz({**head.model_dump(), "items": [item.model_dump() for item in items]}).model_dump(mode="json")
    return {**head.model_dump(mode="json"), "items": []}


def _standing(session: Session, quiz_id: int) -> Standing:
    given = sa.select(QuizAssignment.id).where(QuizAssignment.quiz_id == quiz_id)
    counted = sa.select(sa.func.count(), sa.func.count(Submission.finished_at)).where(
        Submission.assignment_id.in_(given)
    )
    begun, handed_in = session.execute(counted).one()
    assignments = session.scalar(sa.select(sa.func.count()).select_from(given.subquery())) or 0
    return Standing(assignments, begun, handed_in)
