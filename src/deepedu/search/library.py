"""What is in the library at this moment, as every retriever sees it."""

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.vietnamese import fold
from deepedu.search.evidence import Scope
from deepedu.store.tables import Book


def books_in(session: Session, scope: Scope) -> list[int] | None:
    """Ids of the ready books within ``scope``; None when it leaves none out."""
    if scope == Scope():
        return None
    rows = session.execute(sa.select(Book.id, Book.grade, Book.subject).where(Book.status == "ready")).all()
    wanted = None if scope.subject is None else fold(scope.subject)
    return [
        book_id
        for book_id, grade, subject in rows
        if (scope.book_ids is None or book_id in scope.book_ids)
        and (scope.grade is None or grade == scope.grade)
        and (wanted is None or (subject is not None and fold(subject) == wanted))
    ]


def library_stamp(session: Session) -> tuple[int, ...]:
    """Changes whenever a book becomes ready or goes: what was computed from the library is then out of date."""
    row = session.execute(
        sa.select(sa.func.count(), sa.func.sum(Book.id), sa.func.max(Book.id)).where(Book.status == "ready")
    ).one()
    return tuple(int(value or 0) for value in row)
