"""Who watches over pupils in danger: the school's named adult sees all, teachers the pupils of their own classes."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from deepedu.school.accounts import Account
from deepedu.store import Database
from deepedu.store.flags import count_unseen
from deepedu.store.tables import ClassMember, Person

# Abuse is told to the named adult alone: who hurts a pupil may be a teacher of the class.
KINDS = ("safety", "protection")
TEACHERS_KINDS = ("safety",)


def unseen_safety(services: Any, account: Account | None) -> int:
    """How many safety flags wait for this person: for the named adult all that nobody has seen; for others 0."""
    if account is None or not is_named_adult(services, account):
        return 0
    return count_unseen(services.database, kinds=KINDS)


def is_named_adult(services: Any, account: Account) -> bool:
    """Whether this person is told when a pupil may be in danger. Where nobody is named, or the named account is not in
    use, all admins are: a flag must not wait for somebody who never comes."""
    if account.role not in ("teacher", "admin"):
        return False
    named = services.settings.school.named_adult
    username = unicodedata.normalize("NFC", named or "").strip().casefold()
    if account.username == username:
        return True
    return account.role == "admin" and not (username and _is_in_use(services.database, username))


def watched_learners(services: Any, account: Account) -> Sequence[str] | None:
    """Whose safety flags this person may read: None for all, else the pupils of the person's own classes."""
    if account.role == "admin" or is_named_adult(services, account):
        return None
    mine = sa.select(ClassMember.class_id).where(ClassMember.person_id == account.id)
    pupils = (
        sa.select(Person.learner_id)
        .join(ClassMember, ClassMember.person_id == Person.id)
        .where(ClassMember.class_id.in_(mine), Person.role == "student", Person.is_active)
        .distinct()
    )
    with services.database.read() as session:
        return [learner for learner in session.scalars(pupils) if learner]


def watched_kinds(services: Any, account: Account) -> tuple[str, ...]:
    """Which kinds of safety flags this person may read."""
    return KINDS if watched_learners(services, account) is None else TEACHERS_KINDS


def _is_in_use(database: Database, username: str) -> bool:
    wanted = sa.select(Person.id).where(
        Person.username == username, Person.is_active, Person.role.in_(("teacher", "admin"))
    )
    with database.read() as session:
        return session.scalar(wanted) is not None
