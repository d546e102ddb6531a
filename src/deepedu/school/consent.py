"""Consent: that a guardian agreed to the processing of a pupil's data, by which text, and until when.

The text is ours and lies in ``consent_texts/<version>.<language>.md``; filled with the school's name and periods it is
what a guardian is shown, and its SHA-256 is kept. A changed text gets a new version beside the old one. A lawyer of the
school reads it before it is used.

A row of ``consents`` is only ever changed by its withdrawal, and withdrawing stops the tutor at once:
``classes.has_consent`` is asked before every question. Whether the pupil agreed too, and the whole digest, stand in the
audit entry of the same transaction.
"""

import hashlib
import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib import resources
from typing import Any, Literal
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.config import Settings
from deepedu.base.errors import BadRequest, NotFound
from deepedu.school.accounts import Account, account_of
from deepedu.school.audit import record
from deepedu.school.directory import name_order
from deepedu.store import Database
from deepedu.store.tables import AuditEntry, ClassMember, Consent, Guardianship, Person, SchoolClass, now

VERSION = "2026-11"
LONGEST_NAME = 200
# The age from which Law 91/2025/QH15, article 24, asks the child as well as the guardian.
ASSENT_AGE = 7
GIVEN, WITHDRAWN = "consent.give", "consent.withdraw"
_DIGEST_DIGITS = 16
# Endpoints that what pupils type is sent to.
_READERS = ("llm.url", "search.embeddings_url", "playbook.reflector_url", "playbook.judge_url")

_WHERE = {
    "vi": (
        "Mọi việc xử lý diễn ra trên máy do nhà trường quản lý; không có gì được gửi ra ngoài.",
        "Dữ liệu được giữ trên máy do nhà trường quản lý. Để trả lời, lời của con được gửi tới máy chủ: {servers}.",
    ),
    "en": (
        "Everything is processed on machines that the school runs; nothing is sent elsewhere.",
        "The data are kept on machines that the school runs. To be answered, your child's words are sent to the "
        "server: {servers}.",
    ),
}
_GUARDIANS = {
    "vi": (
        "Người giám hộ xem được tiến bộ của con, không xem được lời con hỏi.",
        "Người giám hộ xem được tiến bộ của con và đọc được cuộc trò chuyện của con với gia sư.",
    ),
    "en": (
        "Guardians see how their child gets on, and not what their child asked.",
        "Guardians see how their child gets on, and can read their child's conversations with the tutor.",
    ),
}


@dataclass(frozen=True)
class ConsentText:
    """A text as it is shown, filled in; ``sha256`` is of exactly these letters in UTF-8."""

    version: str
    language: Literal["vi", "en"]
    text: str

    @property
    def sha256(self) -> str:
        """In hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """As it stands in ``consents.text_version``: version, language and the beginning of the digest."""
        return f"{self.version}.{self.language}-{self.sha256[:_DIGEST_DIGITS]}"

    @property
    def blocks(self) -> list[tuple[Literal["title", "heading", "list", "paragraph"], list[str]]]:
        """The text for a page: each block with its lines."""
        blocks: list[tuple[Any, list[str]]] = []
        for line in filter(None, self.text.splitlines()):
            mark, _, rest = line.partition(" ")
            kind = {"#": "title", "##": "heading", "-": "list"}.get(mark)
            if kind == "list" and blocks and blocks[-1][0] == "list":
                blocks[-1][1].append(rest)
            else:
                blocks.append((kind or "paragraph", [rest if kind else line]))
        return blocks


@dataclass(frozen=True)
class ConsentRecord:
    """A consent as kept. ``assented``: whether the pupil agreed too; None where that is not on record any more, as are
    empty ``sha256`` and ``recorded_by`` (a public id)."""

    id: int
    guardian_name: str
    text_version: str
    sha256: str
    assented: bool | None
    given_at: datetime
    withdrawn_at: datetime | None
    recorded_by: str


@dataclass(frozen=True)
class PaperForm:
    """A signed form that was collected: whose, who signed, and whether the pupil agreed too."""

    public_id: str
    guardian_name: str
    assented: bool


@dataclass(frozen=True)
class StudentConsent:
    """Where a pupil of a class stands. ``in_force``: the newest consent that holds; ``withdrawn_at``: when the last one
    was withdrawn where none does. ``guardians``: names of those on record."""

    student: Account
    in_force: ConsentRecord | None
    withdrawn_at: datetime | None
    needs_assent: bool
    guardians: tuple[str, ...]


@dataclass(frozen=True)
class ClassConsents:
    """How many pupils a class has, and how many of them lack consent."""

    class_id: int
    name: str
    school_year: str
    students: int
    lacking: int


def consent_text(settings: Settings, language: Literal["vi", "en"] = "vi", version: str = VERSION) -> ConsentText:
    """The text as it is true of these settings."""
    school = settings.school
    servers = outside_servers(settings)
    text = resources.files("deepedu.school").joinpath(f"consent_texts/{version}.{language}.md").read_text("utf-8")
    filled = text.format(
        school=school.name,
        chat_days=school.chat_days,
        attempt_days=school.attempt_days,
        audit_days=school.audit_days,
        where=_WHERE[language][bool(servers)].format(servers=", ".join(servers)),
        guardians=_GUARDIANS[language][school.guardian_transcripts],
    )
    return ConsentText(version, language, filled)


def outside_servers(settings: Settings) -> tuple[str, ...]:
    """Servers beyond this machine that read what pupils type, by the settings."""
    found: dict[str, None] = {}
    for name in _READERS:
        layer, key = name.split(".")
        host = urlsplit(getattr(getattr(settings, layer), key) or "").hostname
        if host and host not in ("localhost", "::1") and not host.startswith("127."):
            found[host] = None
    return tuple(found)


def age_at(birth_date: str | None, day: date) -> int | None:
    """Completed years; None where the date of birth is not known."""
    try:
        born = date.fromisoformat(birth_date or "")
    except ValueError:
        return None
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def needs_assent(birth_date: str | None, day: date) -> bool:
    """Whether the pupil has to agree too; who may be old enough counts as old enough."""
    age = age_at(birth_date, day)
    return age is None or age >= ASSENT_AGE


def give_consent(
    database: Database,
    student: Account,
    text: ConsentText,
    *,
    guardian_name: str,
    assented: bool,
    by: Account,
    guardian: Account | None = None,
) -> int:
    """Records a guardian's consent; returns its id. Earlier ones stay as they are.

    Args:
        by: who records it; the guardian, too, where the guardian has an account.

    Raises:
        BadRequest: no name, or a pupil who is old enough has not agreed.
        NotFound: the pupil is not there any more.
    """
    with database.write() as session:
        return _give(session, PaperForm(student.public_id, guardian_name, assented), text, by, guardian)


def record_forms(database: Database, forms: Sequence[PaperForm], text: ConsentText, *, by: Account) -> int:
    """Records signed forms that were collected on paper: all of them or none. Returns how many.

    Raises:
        BadRequest: nothing to record, or a form that cannot be: whose.
        NotFound: a pupil is not there any more.
    """
    if not forms:
        raise BadRequest("Chưa chọn học sinh nào: hãy đánh dấu những em đã nộp giấy đồng ý.")
    with database.write() as session:
        for form in forms:
            _give(session, form, text, by, None)
    return len(forms)


def withdraw_consent(database: Database, student: Account, *, by: Account) -> int:
    """Withdraws every consent of a pupil that is in force; from this moment the tutor takes no question.

    Returns:
        How many there were; 0 changes nothing.
    """
    with database.write() as session:
        rows = session.scalars(
            sa.select(Consent).where(Consent.student_id == student.id, Consent.withdrawn_at.is_(None))
        ).all()
        at = now()
        for row in rows:
            row.withdrawn_at = at
            record(session, by.public_id, WITHDRAWN, student.public_id, json.dumps({"consent": row.id}))
        return len(rows)


def consents_of(database: Database, student: Account) -> list[ConsentRecord]:
    """All consents of a pupil, newest first."""
    with database.read() as session:
        return _records(session, [(student.id, student.public_id)]).get(student.id, [])


def class_consents(database: Database, class_id: int, *, today: date | None = None) -> list[StudentConsent]:
    """The pupils of a class in use, in the order of Vietnamese lists, each with where consent stands."""
    today = today or now().astimezone().date()
    with database.read() as session:
        people = session.scalars(_students_of(class_id)).all()
        records = _records(session, [(person.id, person.public_id) for person in people])
        guardians = _guardian_names(session, [person.id for person in people])
        found = [
            _standing(person, records.get(person.id, []), guardians.get(person.id, ()), today) for person in people
        ]
    return sorted(found, key=lambda each: name_order(each.student.full_name))


def consent_overview(database: Database) -> list[ClassConsents]:
    """Every class with how many of its pupils lack consent, newest year first."""
    in_force = sa.select(Consent.id).where(Consent.student_id == Person.id, Consent.withdrawn_at.is_(None)).exists()
    lacking = sa.func.sum(sa.case((in_force, 0), else_=1))
    wanted = (
        sa.select(SchoolClass.id, SchoolClass.name, SchoolClass.school_year, sa.func.count(), lacking)
        .join(ClassMember, ClassMember.class_id == SchoolClass.id)
        .join(Person, Person.id == ClassMember.person_id)
        .where(Person.role == "student", Person.is_active)
        .group_by(SchoolClass.id)
        .order_by(SchoolClass.school_year.desc(), SchoolClass.name)
    )
    with database.read() as session:
        return [ClassConsents(*row) for row in session.execute(wanted)]


def withdrawn_students(database: Database) -> list[tuple[Account, datetime]]:
    """Pupils whose last consent was withdrawn and whose data are still there, the latest first."""
    newest = sa.func.max(Consent.withdrawn_at)
    wanted = (
        sa.select(Person, newest)
        .join(Consent, Consent.student_id == Person.id)
        .group_by(Person.id)
        .having(sa.func.count(Consent.id) == sa.func.count(Consent.withdrawn_at))
        .order_by(newest.desc())
    )
    with database.read() as session:
        return [(account_of(person), at) for person, at in session.execute(wanted) if at is not None]


def _give(session: Session, form: PaperForm, text: ConsentText, by: Account, guardian: Account | None) -> int:
    student = session.scalar(sa.select(Person).where(Person.public_id == form.public_id, Person.role == "student"))
    if student is None:
        raise NotFound(f"Không có học sinh {form.public_id[:32]!r}: có thể tài khoản vừa bị xóa.")
    name = " ".join(unicodedata.normalize("NFC", form.guardian_name).split())
    if not name or len(name) > LONGEST_NAME:
        raise BadRequest(
            f"Họ tên người giám hộ của {student.full_name} cần 1 đến {LONGEST_NAME} ký tự, nhận được {len(name)}: "
            "hãy ghi đúng như trên giấy."
        )
    at = now()
    if not form.assented and needs_assent(student.birth_date, at.astimezone().date()):
        raise BadRequest(
            f"Học sinh từ {ASSENT_AGE} tuổi cần tự mình đồng ý: hãy giải thích cho {student.full_name}, rồi đánh dấu "
            "khi em đồng ý."
        )
    row = Consent(
        student_id=student.id,
        guardian_id=guardian.id if guardian is not None else None,
        guardian_name=name,
        text_version=text.name,
        given_at=at,
        recorded_by=by.id,
    )
    session.add(row)
    session.flush()
    told = {"consent": row.id, "text": text.name, "sha256": text.sha256, "assent": form.assented}
    record(session, by.public_id, GIVEN, student.public_id, json.dumps(told))
    return row.id


def _records(session: Session, students: Sequence[tuple[int, str]]) -> dict[int, list[ConsentRecord]]:
    """Consents by pupil, newest first; ``students``: row ids with public ids."""
    told: dict[int, tuple[str, dict[str, Any]]] = {}
    entries = sa.select(AuditEntry.actor, AuditEntry.detail).where(
        AuditEntry.action == GIVEN, AuditEntry.subject.in_([public_id for _, public_id in students])
    )
    for actor, detail in session.execute(entries):
        values = json.loads(detail)
        told[values["consent"]] = (actor, values)
    found: dict[int, list[ConsentRecord]] = defaultdict(list)
    rows = sa.select(Consent).where(Consent.student_id.in_([row_id for row_id, _ in students]))
    for row in session.scalars(rows.order_by(Consent.id.desc())):
        actor, values = told.get(row.id, ("", {}))
        found[row.student_id].append(
            ConsentRecord(
                row.id,
                row.guardian_name,
                row.text_version,
                values.get("sha256", ""),
                values.get("assent"),
                row.given_at,
                row.withdrawn_at,
                actor,
            )
        )
    return found


def _standing(
    person: Person, records: Sequence[ConsentRecord], guardians: Iterable[str], today: date
) -> StudentConsent:
    in_force = next((each for each in records if each.withdrawn_at is None), None)
    withdrawn = [each.withdrawn_at for each in records if each.withdrawn_at is not None]
    return StudentConsent(
        account_of(person),
        in_force,
        max(withdrawn) if withdrawn and in_force is None else None,
        needs_assent(person.birth_date, today),
        tuple(guardians),
    )


def _students_of(class_id: int) -> sa.Select[Person]:
    return (
        sa.select(Person)
        .join(ClassMember, ClassMember.person_id == Person.id)
        .where(ClassMember.class_id == class_id, Person.role == "student", Person.is_active)
    )


def _guardian_names(session: Session, student_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    rows = session.execute(
        sa.select(Guardianship.student_id, Person.full_name)
        .join(Person, Person.id == Guardianship.guardian_id)
        .where(Guardianship.student_id.in_(student_ids), Guardianship.revoked_at.is_(None))
        .order_by(Guardianship.granted_at)
    )
    for student_id, name in rows:
        found[student_id] = (*found.get(student_id, ()), name)
    return found
