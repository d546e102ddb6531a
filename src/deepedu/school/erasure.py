"""Erasing a person: every row, file and key, with a certificate of what was deleted.

Order: the key goes first. From then on what was sealed is unreadable wherever a copy of it lies, and that it is gone
stands in ``keys.sqlite3``, which no backup holds. So whoever has an account row but a destroyed key is somebody whose
erasure was killed half way, or who came back with an old backup: ``resume_erasures`` finishes it in both cases. Then go
the files, then all rows in one transaction that also writes the certificate, then the database's journal. Done again
after a kill at any moment, it goes on to the end and nothing is told twice.

Which rows belong to a person is read from the tables themselves: whatever refers to ``people`` or has a column of
``OWNER_COLUMNS``, and whatever is deleted together with such a row. References of other people's rows (``ON DELETE SET
NULL``: who made a quiz, who looked at a flag) are emptied. With a teacher's API keys go the conversations that programs
held by them: nobody could open these any more.

What this does not reach, and why that may be:

* The playbook is append-only. Its evidence names turns (``turn12-…``), not people, and no turn once the rows are gone.
  Its rules are a model's or a teacher's words, checked for names and numbers before they are shown; the certificate
  counts the changes that came from this person's turns, so that a teacher can look at them. Changes that a teacher made
  bear the name that the teacher gave.
* Private turns in the engine's prefix cache are in memory only, found by their own conversation alone, and go with the
  next restart at the latest. Only text marked as shared (rules, lessons, what was learnt) is written to disk.
* Vectors that are stored are of textbook passages. Those of the last few questions are in memory only, with their
  words, until others are asked or the next restart. No temporary file holds what pupils write.
* Names in old backups stay until those are replaced; texts in them cannot be opened. A server that runs while another
  process erases keeps the key in memory until it is restarted.
* Consents that an erased guardian gave keep the guardian's name as long as the pupil's data are there: without it
  nothing shows that they may be. Audit entries stay for their time; they hold no names.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, cast, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import BadRequest, NotFound, StoreError
from deepedu.school.accounts import Account, account_of
from deepedu.school.api_keys import owners_by_key
from deepedu.school.audit import SYSTEM, record
from deepedu.school.directory import person_of
from deepedu.school.kept_files import TURN, delete_copies, prune_journals
from deepedu.store import Database
from deepedu.store.tables import ApiKey, AuditEntry, Base, Conversation, Person, PlaybookDelta, Turn, TurnSignal, now

Reason = Literal["withdrawn", "request", "left", "mistake", "restored"]
REASONS: tuple[Reason, ...] = get_args(Reason)
# What people choose from; the other is the program's own.
CHOSEN_REASONS: tuple[Reason, ...] = ("withdrawn", "request", "left", "mistake")
BEGUN, ERASED, REQUESTED = "person.erase.begin", "person.erase", "person.erase.request"
# Columns that hold whose a row is, by ``Account.owner``, without referring to ``people``.
OWNER_COLUMNS = ("learner_id", "owner")


@dataclass(frozen=True)
class Trace:
    """A column that ties rows to a person. ``by``: by the row's id in ``people``, or by ``Account.owner``.
    ``keeps_row``: the row is somebody else's, only the reference is emptied."""

    column: sa.Column[Any]
    by: Literal["person", "owner"]
    keeps_row: bool


@dataclass(frozen=True)
class Certificate:
    """What was deleted of whom, when, by whom, and what remains.

    ``deleted``: rows by table, and other things by kind. ``remains``: what is kept, by kind. ``by``: public id, with
    ``by_role``. ``key``: SHA-256 of the name of the key that was destroyed; every text sealed with it bears that name.
    """

    person: str
    role: str
    at: datetime
    by: str
    by_role: str
    reason: Reason
    deleted: Mapping[str, int]
    remains: Mapping[str, int]
    key: str

    @property
    def digest(self) -> str:
        """SHA-256 of everything in it; the audit entry holds it, and the chain of entries that."""
        told = json.dumps(_plain(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(told.encode()).hexdigest()

    def to_json(self) -> str:
        """As it is stored and handed out."""
        return json.dumps({**_plain(self), "digest": self.digest}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Reads what ``to_json`` wrote.

        Raises:
            StoreError: it was changed since.
        """
        values = json.loads(text)
        digest = values.pop("digest")
        certificate = cls(**{**values, "at": datetime.fromisoformat(values["at"])})
        if certificate.digest != digest:
            raise StoreError(f"the certificate of {certificate.person} was changed since it was written")
        return certificate


def reason_of(text: str) -> Reason | None:
    """The reason of that name; None: there is none."""
    return cast(Reason, text) if text in REASONS else None


@dataclass(frozen=True)
class _Actor:
    name: str
    role: str


def traces() -> list[Trace]:
    """Every column of the database that ties rows to a person."""
    found: list[Trace] = []
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            for key in column.foreign_keys:
                if key.column.table is Person.__table__:
                    found.append(Trace(column, "person", key.ondelete == "SET NULL"))
            if column.name in OWNER_COLUMNS and table is not Person.__table__:
                found.append(Trace(column, "owner", False))
    return found


def erase(database: Database, public_id: str, *, reason: Reason, by: Account | str = SYSTEM) -> Certificate:
    """Erases a person for good. For who is erased already, finishes what may be left and returns the certificate.

    Args:
        by: an account, or what acts without one: ``system``, ``cli``.

    Raises:
        NotFound: there is no such person and never was.
        BadRequest: it is the last admin in use.
        StoreError: the database or a file could not be changed. Do it again: nothing is done twice.
    """
    if reason not in REASONS:
        raise BadRequest(f"Lý do xóa cần là một trong {', '.join(REASONS)}, nhận được {str(reason)[:32]!r}.")
    with database.read() as session:
        is_there = session.scalar(sa.select(Person.id).where(Person.public_id == public_id)) is not None
    if not is_there:
        certificate = certificate_of(database, public_id)
        database.scrub()
        return certificate
    with database.write() as session:
        person = person_of(session, public_id)
        _refuse_last_admin(session, person)
        owner = account_of(person).owner
        actor = _Actor(by.public_id, by.role) if isinstance(by, Account) else _Actor(by, by)
        record(session, actor.name, BEGUN, public_id, reason)
    return _finish(database, public_id, owner, reason, actor)


def resume_erasures(database: Database) -> list[Certificate]:
    """Finishes erasures that were killed, and erases again who came back with an old backup.

    Raises:
        StoreError: as ``erase``.
    """
    with database.read() as session:
        people = [account_of(person) for person in session.scalars(sa.select(Person))]
    gone = [person for person in people if database.vault.is_destroyed(person.owner)]
    return [_finish(database, person.public_id, person.owner, *_begun(database, person)) for person in gone]


def certificates(database: Database) -> dict[int, Certificate]:
    """Certificates by the number of their audit entry, newest first.

    Raises:
        StoreError: one was changed since it was written.
    """
    wanted = sa.select(AuditEntry.number, AuditEntry.detail).where(AuditEntry.action == ERASED)
    with database.read() as session:
        rows = session.execute(wanted.order_by(AuditEntry.number.desc())).all()
    return {number: Certificate.from_json(detail) for number, detail in rows}


def certificate_of(database: Database, public_id: str) -> Certificate:
    """The newest certificate of somebody who was erased.

    Raises:
        NotFound: there is none.
    """
    found = (each for each in certificates(database).values() if each.person == public_id)
    certificate = next(found, None)
    if certificate is None:
        raise NotFound(f"Không có người dùng {public_id[:32]!r}, và cũng không có giấy chứng nhận xóa.")
    return certificate


def request_erasure(database: Database, student: Account, *, by: Account) -> None:
    """Notes that a guardian asks for a pupil's erasure; admins see it until it is done. Asked again, it is one request.

    Raises:
        NotFound: the pupil is not there any more.
    """
    with database.write() as session:
        person_of(session, student.public_id)
        asked = sa.select(AuditEntry.number).where(
            AuditEntry.action == REQUESTED, AuditEntry.subject == student.public_id, AuditEntry.actor == by.public_id
        )
        if session.scalar(asked.limit(1)) is None:
            record(session, by.public_id, REQUESTED, student.public_id)


def requested_erasures(database: Database) -> list[tuple[Account, datetime]]:
    """People whose erasure was asked for and who are still there, in the order of asking."""
    wanted = (
        sa.select(Person, sa.func.min(AuditEntry.at))
        .join(AuditEntry, AuditEntry.subject == Person.public_id)
        .where(AuditEntry.action == REQUESTED)
        .group_by(Person.id)
        .order_by(sa.func.min(AuditEntry.number))
    )
    with database.read() as session:
        return [(account_of(person), at) for person, at in session.execute(wanted)]


def _finish(database: Database, public_id: str, owner: str, reason: Reason, by: _Actor) -> Certificate:
    """Everything after it was written down that the erasure begins."""
    with database.read() as session:
        owners = [owner, *_owners_by_keys(session, person_of(session, public_id))]
    for each in owners:
        database.vault.destroy(each)
    files = {
        "journal_lines": prune_journals(database, without_owners=owners),
        "migration_copies": delete_copies(database),
    }
    with database.write() as session:
        person = person_of(session, public_id)
        remains = _remaining(session, person, owners)
        deleted = Counter({kind: count for kind, count in files.items() if count})
        if person.role != "student":
            deleted["names_in_feedback"] = _unsign(session, person.full_name)
        for trace in traces():
            if trace.by == "owner":
                _delete(session, trace.column.table, trace.column.in_(owners), deleted)
        people = Person.metadata.tables["people"]
        role, person_id = person.role, person.id
        session.expunge(person)
        _delete(session, people, people.c.id == person_id, deleted)
        certificate = Certificate(
            person=public_id,
            role=role,
            at=now(),
            by=by.name,
            by_role=by.role,
            reason=reason,
            deleted={kind: count for kind, count in sorted(deleted.items()) if count},
            remains={kind: count for kind, count in sorted(remains.items()) if count},
            key=hashlib.sha256(owner.encode()).hexdigest(),
        )
        record(session, certificate.by, ERASED, public_id, certificate.to_json())
    database.scrub()
    return certificate


def _owners_by_keys(session: Session, person: Person) -> set[str]:
    """Whose conversations came by the person's API keys, in any table."""
    keys = list(session.scalars(sa.select(ApiKey.id).where(ApiKey.person_id == person.id)))
    found: set[str] = set()
    for trace in traces():
        for key in keys if trace.by == "owner" else ():
            of_key = trace.column.startswith(owners_by_key(key), autoescape=True)
            found.update(session.scalars(sa.select(trace.column).where(of_key).distinct()))
    return found


def _delete(session: Session, table: sa.Table, where: sa.ColumnElement[bool], deleted: Counter[str]) -> None:
    """Deletes rows and what hangs on them, as the foreign keys say; counts them by table."""
    for child in Base.metadata.sorted_tables:
        for column in child.columns:
            for key in column.foreign_keys:
                if key.column.table is not table or child is table:
                    continue
                below = column.in_(sa.select(key.column).where(where))
                if key.ondelete == "SET NULL":
                    session.execute(sa.update(child).where(below).values({column: None}))
                else:
                    _delete(session, child, below, deleted)
    deleted[table.name] += session.scalar(sa.select(sa.func.count()).select_from(table).where(where)) or 0
    session.execute(sa.delete(table).where(where))


def _unsign(session: Session, name: str) -> int:
    """Takes a teacher's name off what was said of answers."""
    signed = TurnSignal.author == name
    count = session.scalar(sa.select(sa.func.count()).select_from(TurnSignal).where(signed)) or 0
    session.execute(sa.update(TurnSignal).where(signed).values(author=""))
    return count


def _remaining(session: Session, person: Person, owners: Sequence[str]) -> Counter[str]:
    remains = Counter[str]()
    public_id = person.public_id
    about = sa.or_(AuditEntry.subject == public_id, AuditEntry.actor == public_id)
    remains["audit_entries"] = session.scalar(sa.select(sa.func.count()).select_from(AuditEntry).where(about)) or 0
    turns = set(
        session.scalars(
            sa.select(Turn.id)
            .join(Conversation, Conversation.id == Turn.conversation_id)
            .where(Conversation.owner.in_(owners))
        )
    )
    for author, reason, operations in session.execute(
        sa.select(PlaybookDelta.author, PlaybookDelta.reason, PlaybookDelta.operations)
    ):
        found = {int(turn) for turn in TURN.findall(f"{reason} {operations}")}
        remains["playbook_changes"] += bool(found & turns)
        remains["playbook_names"] += json.loads(author).get("name") == person.full_name
    consents = Base.metadata.tables["consents"]
    given = sa.select(sa.func.count()).select_from(consents).where(consents.c.guardian_id == person.id)
    remains["consents_given"] = session.scalar(given) or 0
    return remains


def _refuse_last_admin(session: Session, person: Person) -> None:
    others = sa.select(Person.id).where(Person.role == "admin", Person.is_active, Person.id != person.id)
    if person.role == "admin" and session.scalar(others.limit(1)) is None:
        raise BadRequest("Đây là quản trị viên cuối cùng của trường: hãy thêm một quản trị viên khác trước khi xóa.")


def _begun(database: Database, person: Account) -> tuple[Reason, _Actor]:
    """Why and by whom an unfinished erasure was begun."""
    begun = sa.select(AuditEntry).where(AuditEntry.action == BEGUN, AuditEntry.subject == person.public_id)
    with database.read() as session:
        entry = session.scalar(begun.order_by(AuditEntry.number.desc()).limit(1))
        if entry is None:
            return "restored", _Actor(SYSTEM, SYSTEM)
        role = session.scalar(sa.select(Person.role).where(Person.public_id == entry.actor))
        return reason_of(entry.detail) or "restored", _Actor(entry.actor, role or entry.actor)


def _plain(certificate: Certificate) -> dict[str, Any]:
    return {**asdict(certificate), "at": certificate.at.isoformat()}
