"""The tables. A change here needs a migration beside it; a test compares the two."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, LargeBinary, MetaData, String, Text, TypeDecorator, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UTCDateTime(TypeDecorator[datetime]):
    """Aware UTC times on every database; SQLite itself would forget the zone, PostgreSQL gives its own."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is not None and value.tzinfo is None:
            raise ValueError(f"expected a time with a zone, came {value!r}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def now() -> datetime:
    """The present moment, UTC."""
    return datetime.now(UTC)


class Base(DeclarativeBase):
    # Names for every constraint, or migrations could not name them on other databases.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UTCDateTime, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


class Book(Base):
    """One document. ``status`` is ``reading`` until all its passages are searchable, then ``ready``."""

    __tablename__ = "books"
    # Ids are never used twice: a stored answer must not come to cite another book's passage.
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    source_name: Mapped[str] = mapped_column(Text)
    format: Mapped[str] = mapped_column(String(16))
    title: Mapped[str] = mapped_column(Text)
    grade: Mapped[int | None]
    subject: Mapped[str | None] = mapped_column(Text)
    series: Mapped[str | None] = mapped_column(Text)
    # Which of title, grade, subject, series were guessed rather than given.
    guessed: Mapped[list[Any]] = mapped_column(JSON, default=list)
    # Whether page numbers are those of a printed page; otherwise they count stretches of text.
    has_pages: Mapped[bool] = mapped_column(default=True)
    page_count: Mapped[int | None]
    pages_read: Mapped[int] = mapped_column(default=0)
    status: Mapped[str] = mapped_column(String(16), default="reading", index=True)
    lease: Mapped[str | None] = mapped_column(Text)
    # Remarks for the person who ingested it, such as pages without text.
    notes: Mapped[list[Any]] = mapped_column(JSON, default=list)
    created_at: Mapped[datetime] = mapped_column(default=now)
    ready_at: Mapped[datetime | None]

    sections: Mapped[list["Section"]] = relationship(order_by="Section.ordinal", passive_deletes=True)


class Page(Base):
    """Text of one page as read: NFC, lines separated by ``\\n``."""

    __tablename__ = "pages"
    __table_args__ = (UniqueConstraint("book_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    book_id: Mapped[int] = mapped_column(ForeignKey("books.id", ondelete="CASCADE"))
    number: Mapped[int]
    # The number printed on the page, where it differs from the count.
    label: Mapped[str | None] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    # OffsetMap.breaks: from offsets in ``text`` to offsets in what the document itself held.
    source_breaks: Mapped[list[Any]] = mapped_column(JSON, default=list)
    # Headings the format itself marks, as [start, end, level] in ``text``; None when it marks none.
    headings: Mapped[list[Any] | None] = mapped_column(JSON)


class Section(Base):
    """A chapter (Chương), a lesson (Bài), or a stretch of pages where a book shows no structure."""

    __tablename__ = "sections"

    id: Mapped[int] = mapped_column(primary_key=True)
    book_id: Mapped[int] = mapped_column(ForeignKey("books.id", ondelete="CASCADE"), index=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("sections.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    # Word and number as printed: "Bài 3", "CHƯƠNG IV", "§2"; None where a section has none.
    label: Mapped[str | None] = mapped_column(Text)
    # The number alone: "3", "IV".
    number: Mapped[str | None] = mapped_column(Text)
    title: Mapped[str] = mapped_column(Text)
    first_page: Mapped[int]
    last_page: Mapped[int]

    @property
    def display(self) -> str:
        """Label and title in one line: "Bài 3. Ba thể của chất"."""
        return ". ".join(part for part in (self.label, self.title) if part)


# Between the titles in ``Passage.heading``.
TITLE_SEPARATOR = " > "


class Passage(Base):
    """A stretch of whole sentences that search finds and an answer cites.

    ``spans`` holds ``[start, end, page_number, page_start]``: characters ``start:end`` of ``text`` stand at
    ``page_start`` on that page, character for character (line breaks became spaces).
    """

    __tablename__ = "passages"
    __table_args__ = (UniqueConstraint("book_id", "ordinal"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    book_id: Mapped[int] = mapped_column(ForeignKey("books.id", ondelete="CASCADE"))
    section_id: Mapped[int] = mapped_column(ForeignKey("sections.id", ondelete="CASCADE"), index=True)
    ordinal: Mapped[int]
    text: Mapped[str] = mapped_column(Text)
    # Titles of the sections above, outermost first, joined by TITLE_SEPARATOR: searched together with the text.
    heading: Mapped[str] = mapped_column(Text)
    tokens: Mapped[int]
    first_page: Mapped[int]
    last_page: Mapped[int]
    spans: Mapped[list[Any]] = mapped_column(JSON)


class Embedding(Base):
    """A passage's vector by one embedding model: little-endian float16, L2-normalised."""

    __tablename__ = "embeddings"

    passage_id: Mapped[int] = mapped_column(ForeignKey("passages.id", ondelete="CASCADE"), primary_key=True)
    model: Mapped[str] = mapped_column(String(128), primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)


class Conversation(Base):
    """A sequence of turns over one choice of books. ``owner`` is a pupil's ``learner_id``, or a teacher's public id;
    None for those without an account."""

    __tablename__ = "conversations"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str | None] = mapped_column(String(32), index=True)
    scope: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    created_at: Mapped[datetime] = mapped_column(default=now)

    turns: Mapped[list["Turn"]] = relationship(order_by="Turn.ordinal", passive_deletes=True)


class Turn(Base):
    """A question and what became of it: ``running``, ``done``, ``stopped`` (by the asker) or ``failed``.

    The question is stored before the model is asked, and the draft while it streams. ``question``, ``draft``,
    ``answer`` and ``error`` are sealed by ``store.vault`` with the key of the conversation's owner.
    """

    __tablename__ = "turns"
    __table_args__ = (UniqueConstraint("conversation_id", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    conversation_id: Mapped[int] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    question: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(16), default="running")
    lease: Mapped[str | None] = mapped_column(Text)
    draft: Mapped[str] = mapped_column(Text, default="")
    # A JSON text, sealed: so a string to the database.
    answer: Mapped[str | None] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime] = mapped_column(default=now)
    finished_at: Mapped[datetime | None]


class TurnSignal(Base):
    """What somebody said of an answer: ``thumbs_up``, ``thumbs_down``, ``wrong``, or a teacher's ``correction``, whose
    ``detail`` (sealed) is the right answer. ``author`` is a teacher's name, empty for a pupil. One of each kind for a
    turn."""

    __tablename__ = "turn_signals"
    __table_args__ = (UniqueConstraint("turn_id", "kind"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str] = mapped_column(Text, default="")
    author: Mapped[str] = mapped_column(Text, default="")
    at: Mapped[datetime] = mapped_column(default=now)


class PlaybookDelta(Base):
    """One change of the playbook; its rows in order are the book. A row is never changed or deleted.

    ``operations`` is JSON as text: what was written is read back byte for byte. ``digest`` chains every row to all rows
    before it.
    """

    __tablename__ = "playbook_deltas"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    delta_id: Mapped[str] = mapped_column(String(64), unique=True)
    author: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
    operations: Mapped[str] = mapped_column(Text)
    # Ids of the bullets that the operations made or changed, in their order.
    touched: Mapped[list[Any]] = mapped_column(JSON)
    digest: Mapped[str] = mapped_column(String(64))


class Person(Base):
    """Somebody with an account. Names stand here and nowhere else: whatever a pupil does is kept under ``learner_id``,
    a random name that only this row ties to the person."""

    __tablename__ = "people"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    # In addresses, in place of the count.
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    role: Mapped[str] = mapped_column(String(16), index=True)
    # Lower case, composed.
    username: Mapped[str] = mapped_column(String(64), unique=True)
    full_name: Mapped[str] = mapped_column(Text)
    # The school's own number of a pupil or teacher.
    code: Mapped[str | None] = mapped_column(String(64), unique=True)
    # ISO date.
    birth_date: Mapped[str | None] = mapped_column(String(10))
    email: Mapped[str | None] = mapped_column(Text)
    phone: Mapped[str | None] = mapped_column(Text)
    # Argon2id in its own text form; None: signs in elsewhere, or not at all.
    password_hash: Mapped[str | None] = mapped_column(Text)
    must_change_password: Mapped[bool] = mapped_column(default=True)
    # ``issuer subject`` of OpenID Connect.
    oidc_subject: Mapped[str | None] = mapped_column(String(255), unique=True)
    failed_logins: Mapped[int] = mapped_column(default=0)
    locked_until: Mapped[datetime | None]
    is_active: Mapped[bool] = mapped_column(default=True)
    # Pupils only.
    learner_id: Mapped[str | None] = mapped_column(String(32), unique=True)
    language: Mapped[str] = mapped_column(String(2), default="vi")
    created_at: Mapped[datetime] = mapped_column(default=now)


class SchoolClass(Base):
    """A class of a school year. ``policy``: how the tutor helps its pupils, ``tutor``, ``explain`` or ``exam_off``."""

    __tablename__ = "school_classes"
    __table_args__ = (UniqueConstraint("name", "school_year"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    # "2026-2027".
    school_year: Mapped[str] = mapped_column(String(9))
    grade: Mapped[int | None]
    policy: Mapped[str] = mapped_column(String(16), default="tutor")
    created_at: Mapped[datetime] = mapped_column(default=now)


class ClassMember(Base):
    """A pupil of a class, or a teacher who teaches it; which of the two the person's role says."""

    __tablename__ = "class_members"

    class_id: Mapped[int] = mapped_column(ForeignKey("school_classes.id", ondelete="CASCADE"), primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), primary_key=True, index=True)
    since: Mapped[datetime] = mapped_column(default=now)


class Guardianship(Base):
    """A guardian may see what a pupil has studied, until it is revoked."""

    __tablename__ = "guardianships"

    guardian_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), primary_key=True)
    student_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), primary_key=True, index=True)
    granted_at: Mapped[datetime] = mapped_column(default=now)
    revoked_at: Mapped[datetime | None]


class Consent(Base):
    """That a guardian agreed to the processing of a pupil's data, by which text and when; never changed but by the time
    of withdrawal."""

    __tablename__ = "consents"

    id: Mapped[int] = mapped_column(primary_key=True)
    student_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), index=True)
    guardian_id: Mapped[int | None] = mapped_column(ForeignKey("people.id", ondelete="SET NULL"))
    guardian_name: Mapped[str] = mapped_column(Text)
    text_version: Mapped[str] = mapped_column(String(32))
    given_at: Mapped[datetime] = mapped_column(default=now)
    withdrawn_at: Mapped[datetime | None]
    recorded_by: Mapped[int | None] = mapped_column(ForeignKey("people.id", ondelete="SET NULL"))


class LoginSession(Base):
    """A browser that is signed in. Only the digest of its token is kept."""

    __tablename__ = "login_sessions"

    token_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    last_seen_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime]


class ApiKey(Base):
    """Opens the OpenAI-compatible door for a program, in the name of a person. Only the key's digest is kept."""

    __tablename__ = "api_keys"

    id: Mapped[int] = mapped_column(primary_key=True)
    key_digest: Mapped[str] = mapped_column(String(64), unique=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), index=True)
    label: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class AuditEntry(Base):
    """Who saw or changed what. Append-only: ``digest`` chains every row to all rows before it.

    ``actor`` and ``subject`` are public ids, never names, so that the log outlives a person's deletion.
    """

    __tablename__ = "audit_entries"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(64), index=True)
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(128), index=True)
    detail: Mapped[str] = mapped_column(Text, default="")
    digest: Mapped[str] = mapped_column(String(64))


class StoredLadders(Base):
    """How far a pupil has been helped with each question: the state of ``tutor.hints``, sealed. Not by conversation: a
    new one is no new start."""

    __tablename__ = "ladders"

    learner_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    state: Mapped[str] = mapped_column(Text)
    changed_at: Mapped[datetime] = mapped_column(default=now)


class Flag(Base):
    """Something in a conversation that an adult should look at: ``kind`` as in ``store.flags``.
    ``detail`` is sealed."""

    __tablename__ = "flags"

    id: Mapped[int] = mapped_column(primary_key=True)
    learner_id: Mapped[str] = mapped_column(String(32), index=True)
    conversation_id: Mapped[int] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    turn_id: Mapped[int | None] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    severity: Mapped[str] = mapped_column(String(16), default="")
    detail: Mapped[str] = mapped_column(Text, default="")
    at: Mapped[datetime] = mapped_column(default=now)
    seen_at: Mapped[datetime | None]
    seen_by: Mapped[int | None] = mapped_column(ForeignKey("people.id", ondelete="SET NULL"))


class StoredQuiz(Base):
    """A quiz of a teacher: ``content`` is ``tutor.quiz.Quiz`` as JSON, with its keys."""

    __tablename__ = "quizzes"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int | None] = mapped_column(ForeignKey("people.id", ondelete="SET NULL"))
    title: Mapped[str] = mapped_column(Text)
    content: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(default=now)


class QuizAssignment(Base):
    """A quiz given to a class. While an ``is_exam`` one is open, the tutor answers none of the class's pupils."""

    __tablename__ = "quiz_assignments"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    quiz_id: Mapped[int] = mapped_column(ForeignKey("quizzes.id", ondelete="CASCADE"), index=True)
    class_id: Mapped[int] = mapped_column(ForeignKey("school_classes.id", ondelete="CASCADE"), index=True)
    opens_at: Mapped[datetime] = mapped_column(default=now)
    closes_at: Mapped[datetime | None]
    is_exam: Mapped[bool] = mapped_column(default=False)
    # Whether pupils see keys and explanations once they have handed in.
    shows_keys: Mapped[bool] = mapped_column(default=True)


class Submission(Base):
    """One pupil's work on an assignment; ``given`` is what was filled in so far, sealed JSON."""

    __tablename__ = "submissions"
    __table_args__ = (UniqueConstraint("assignment_id", "learner_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    assignment_id: Mapped[int] = mapped_column(ForeignKey("quiz_assignments.id", ondelete="CASCADE"))
    learner_id: Mapped[str] = mapped_column(String(32), index=True)
    # Order of items and options.
    seed: Mapped[int]
    given: Mapped[str] = mapped_column(Text, default="")
    started_at: Mapped[datetime] = mapped_column(default=now)
    finished_at: Mapped[datetime | None]


class StoredAttempt(Base):
    """One marked answer: the only thing that mastery is computed from. ``marked`` is sealed JSON: what was given,
    score and points."""

    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(primary_key=True)
    learner_id: Mapped[str] = mapped_column(String(32), index=True)
    submission_id: Mapped[int | None] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"), index=True)
    item_id: Mapped[str] = mapped_column(String(64))
    skill: Mapped[str] = mapped_column(Text)
    marked: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(default=now)
