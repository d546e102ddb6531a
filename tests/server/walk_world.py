"""A school in which everybody owns something of every table, marked; who may see whose; how every route is asked.

Two classes as in ``schoolroom``, and around them those whose rights have ended or have not begun: a guardian whose
right to see Chi was revoked, a pupil whose account is not in use, a teacher who has not changed the initial password,
a second admin.

Everything that belongs to somebody holds a *marker*: a word of letters and digits that stands nowhere else and tells
whose it is and of what kind. What a visitor may see is written down here as data and not asked of the program.

A new table, parameter or required field that nobody has written down here fails the walk; the message says where it
goes.
"""

import hashlib
import inspect
import json
import shutil
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from fastapi import FastAPI, params
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import BaseModel
from schoolroom import ORIGIN, PASSWORD, YEAR, School, furnish
from sqlalchemy.orm import Session
from starlette.routing import Mount, Route

from deepedu.base.config import Settings
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, InteractionEvidence, PassageEvidence
from deepedu.playbook.delta import Add
from deepedu.school import audit
from deepedu.school.accounts import Account, Role, account_of, create_person, open_session
from deepedu.school.classes import enrol, grant, revoke
from deepedu.school.consent import consent_text
from deepedu.school.erasure import certificates, erase
from deepedu.school.roster_file import read_roster
from deepedu.school.roster_import import Imported, preview_import
from deepedu.school.roster_plan import InitialPassword
from deepedu.server.access import COOKIE, rules_of
from deepedu.server.progress_routes import Practice, Practices
from deepedu.server.rates import Rate
from deepedu.store import Database
from deepedu.store.conversations import finish_turn, start_turn
from deepedu.store.ladders import save_ladders
from deepedu.store.signals import keep_signal
from deepedu.store.tables import (
    ApiKey,
    Base,
    Book,
    Consent,
    Conversation,
    Flag,
    Person,
    QuizAssignment,
    SchoolClass,
    Section,
    StoredAttempt,
    StoredQuiz,
    Submission,
    Turn,
    now,
)
from deepedu.tutor.hints import Ladder
from deepedu.tutor.pupil_intent import Kind as PupilKind
from deepedu.tutor.pupil_intent import Subject
from deepedu.tutor.quiz import Choice, Quiz, arranged, read_quiz
from deepedu.tutor.quiz_bank import BankImport, bank_as_csv
from deepedu.tutor.quiz_shelf import QuizHead

# --- Who walks, and what they may see --------------------------------------------------------------------------------

NOBODY = "nobody"
MORE_PEOPLE: dict[str, tuple[Role, str]] = {
    "ba.chi": ("guardian", "Lê Văn Ông"),
    "dung": ("student", "Hồ Tiến Dũng"),
    "moi": ("teacher", "Bùi Thanh Mới"),
    "pho": ("admin", "Mai Quản Phó"),
}
# ``ba.chi``: a guardian of Chi until it was revoked; ``dung``: of 6B, not in use; ``moi``: teaches both classes, with
# the initial password; ``pho``: a second admin.
VISITORS = (NOBODY, "an", "binh", "chi", "lan", "minh", "me.an", "bo.chi", "admin", "pho", "ba.chi", "dung", "moi")
# These have no rights at all, whatever their roles.
SHUT_OUT = ("dung", "moi")
# But here who still has the initial password changes it.
OPEN_TO_NEWCOMERS = ("/password",)
CLASS_OF = {"an": "6A", "binh": "6A", "lan": "6A", "chi": "6B", "minh": "6B"}

Kind = Literal[
    "name",  # full name, username, public id
    "contact",  # e-mail, phone
    "code",  # the school's own number of a person
    "pseudonym",  # learner id
    "words",  # what was asked and told; how far hints went; what was said of answers
    "safety",  # what gave rise to a safety flag
    "learning",  # skills, answers given, marks
    "consent",  # the name on a guardian's paper
    "quiz",  # title and questions of a quiz that a class has
    "keys",  # right answers and explanations of that quiz
    "draft",  # a quiz that no class has, and items on their way into one
    "label",  # of an API key
    "import",  # a roster on its way in
    "class",  # a class's name
    "secret",  # hashes, digests, tokens, keys
]
EVERYTHING: frozenset[str] = frozenset(typing.get_args(Kind)) - {"secret"}
# A guardian may take out the child's whole file but the words.
_OF_CHILD = frozenset({"name", "contact", "code", "pseudonym", "learning", "consent", "label"})
_OF_PUPIL = frozenset({"name", "code", "words", "safety", "learning", "consent"})
_NAME, _CLASS, _SHOWN_QUIZ = frozenset({"name"}), frozenset({"class"}), frozenset({"name", "quiz"})

# Who may see what of whom. Of a class: its name; of a teacher, for pupils and guardians: the name, and the quizzes
# given to the class. An has handed the quiz in, so An may see its keys; Bình and Chi are still at it.
SEES: dict[str, dict[str, frozenset[str]]] = {
    NOBODY: {},
    "an": {"an": EVERYTHING, "lan": _SHOWN_QUIZ | {"keys"}, "moi": _NAME, "me.an": _NAME, "6A": _CLASS},
    "binh": {"binh": EVERYTHING, "lan": _SHOWN_QUIZ, "moi": _NAME, "6A": _CLASS},
    "chi": {"chi": EVERYTHING, "minh": _SHOWN_QUIZ, "moi": _NAME, "bo.chi": _NAME, "6B": _CLASS},
    "lan": {"lan": EVERYTHING, "an": _OF_PUPIL, "binh": _OF_PUPIL, "moi": _NAME, "6A": _CLASS},
    "minh": {"minh": EVERYTHING, "chi": _OF_PUPIL, "dung": _OF_PUPIL, "moi": _NAME, "6B": _CLASS},
    "me.an": {"me.an": EVERYTHING, "an": _OF_CHILD, "lan": _SHOWN_QUIZ, "moi": _NAME, "6A": _CLASS},
    "bo.chi": {"bo.chi": EVERYTHING, "chi": _OF_CHILD, "minh": _SHOWN_QUIZ, "moi": _NAME, "6B": _CLASS},
    "ba.chi": {"ba.chi": EVERYTHING},
    "dung": {},
    "moi": {"moi": _NAME},
}
# Admins see the whole school, but not what another admin has only begun. The terminal's conversations are no visitor's.
for _admin in ("admin", "pho"):
    SEES[_admin] = {name: EVERYTHING - {"import"} for name in (*VISITORS[1:], "6A", "6B")}
    SEES[_admin][_admin] = EVERYTHING

# Whose rows a visitor may not change by any request. What follows from a right is left out: a teacher may change what
# belongs to the pupils of the class, a guardian the consent for a child.
_PEOPLE = ("an", "binh", "chi", "lan", "minh", "me.an", "bo.chi")
_FOREIGN_TO_6A, _FOREIGN_TO_6B = ("chi", "minh", "bo.chi", "6B"), ("an", "binh", "lan", "me.an", "6A")
PROTECTED: dict[str, tuple[str, ...]] = {
    "an": ("binh", "lan", "me.an", "6A", *_FOREIGN_TO_6A),
    "binh": ("an", "lan", "me.an", "6A", *_FOREIGN_TO_6A),
    "chi": ("minh", "bo.chi", "6B", *_FOREIGN_TO_6B),
    "lan": ("me.an", *_FOREIGN_TO_6A),
    "minh": ("bo.chi", *_FOREIGN_TO_6B),
    "me.an": ("binh", "lan", "6A", *_FOREIGN_TO_6A),
    "bo.chi": ("minh", "6B", *_FOREIGN_TO_6B),
    "admin": (),
    "pho": (),
    **dict.fromkeys((NOBODY, "ba.chi", "dung", "moi"), (*_PEOPLE, "6A", "6B")),
}

# Whose ids are somebody else's to a visitor in every sense: answered like ids that do not exist.
TERMINAL = "terminal"
STRANGERS: dict[str, tuple[str, ...]] = {
    NOBODY: ("chi", "minh"),
    "an": ("binh", "chi", "minh", "bo.chi", TERMINAL),
    "binh": ("an", "chi", "minh", "me.an", TERMINAL),
    "chi": ("an", "lan", "me.an", TERMINAL),
    "lan": ("chi", "minh", "bo.chi", TERMINAL),
    "minh": ("an", "binh", "lan", "me.an", TERMINAL),
    "me.an": ("binh", "chi", "bo.chi", TERMINAL),
    "bo.chi": ("an", "binh", "me.an", TERMINAL),
    "ba.chi": ("chi", "an"),
    # Admins see the whole school; what another admin has just uploaded they do not.
    "admin": (),
    "pho": (),
}
# Whose objects a visitor works with by right, besides their own: their ids make the requests that must succeed.
WORKS_WITH: dict[str, tuple[str, ...]] = {
    "lan": ("an", "binh"),
    "minh": ("chi",),
    "me.an": ("an",),
    "bo.chi": ("chi",),
    "admin": ("an", "lan", "me.an", "dung"),
    "pho": ("chi",),
}

# --- The tables ------------------------------------------------------------------------------------------------------

# Which rows of a table are whose: by columns that hold a person's id, an owner's name or a class's id. ``None`` as the
# column: by the rows of another table.
PERSON, OWNER, CLASS = "person", "owner", "class"
OWNED: dict[str, dict[str, str]] = {
    "people": {"id": PERSON},
    "school_classes": {"id": CLASS},
    "class_members": {"person_id": PERSON, "class_id": CLASS},
    "guardianships": {"guardian_id": PERSON, "student_id": PERSON},
    "consents": {"student_id": PERSON},
    "login_sessions": {"person_id": PERSON},
    "api_keys": {"person_id": PERSON},
    "conversations": {"owner": OWNER},
    "turns": {"conversation_id": "conversations"},
    "turn_signals": {"turn_id": "turns"},
    "ladders": {"learner_id": OWNER},
    "flags": {"learner_id": OWNER},
    "quizzes": {"author_id": PERSON},
    "quiz_assignments": {"class_id": CLASS},
    "submissions": {"learner_id": OWNER},
    "attempts": {"learner_id": OWNER},
    "audit_entries": {"actor": OWNER, "subject": OWNER},
}
# Columns that move by themselves: wrong passwords are counted, and use is noted now and then.
COUNTERS = {
    "people": ("failed_logins", "locked_until"),
    "login_sessions": ("last_seen_at", "expires_at"),
    "api_keys": ("last_used_at",),
}
# Tables that belong to nobody, and why.
SHARED_TABLES = {
    "books": "the library is the whole school's",
    "pages": "part of a book",
    "sections": "part of a book",
    "passages": "part of a book",
    "embeddings": "part of a book",
    "playbook_deltas": "rules for everybody; no pupil's words may stand in them, and every teacher may judge them",
}


def unknown_tables() -> list[str]:
    """Tables that nobody has written down here."""
    return sorted(set(Base.metadata.tables) - set(OWNED) - set(SHARED_TABLES))


# --- The world -------------------------------------------------------------------------------------------------------

Ids = dict[str, Sequence[str]]


@dataclass
class World:
    """``markers``: word -> whose and of what kind. ``ids``: by whose, the values that a parameter may take, by its
    name. ``cookies``, ``api_keys``: by username. ``revision``: of the one bullet."""

    school: School
    people: dict[str, Account] = field(default_factory=dict)
    markers: dict[str, tuple[str, Kind]] = field(default_factory=dict)
    ids: dict[str, Ids] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    api_keys: dict[str, str] = field(default_factory=dict)
    revision: str = ""
    _kept: sa.Engine = field(default_factory=lambda: sa.create_engine("sqlite://", poolclass=sa.StaticPool))
    _keys: bytes = b""

    @property
    def database(self) -> Database:
        return self.school.database

    def mark(self, owner: str, kind: Kind, word: str | None = None) -> str:
        """A marker; ``word``: one that is there already."""
        made = word or f"Zq{owner.replace('.', '')}{kind}{len(self.markers)}zq"
        self.markers[made.casefold()] = (owner, kind)
        return made

    def keep(self) -> None:
        """Keeps the present state as the one that ``restore`` brings back."""
        _copy(self.database.engine, self._kept)
        self._keys = self.database.vault.path.read_bytes()

    def restore(self) -> None:
        """Brings back the state that was kept, whatever was done since."""
        _copy(self._kept, self.database.engine)
        if self.database.vault.path.read_bytes() != self._keys:
            self.database.vault.path.write_bytes(self._keys)

    def digest(self, names: Iterable[str]) -> dict[str, str]:
        """Every table's digest over the rows that belong to some people and classes."""
        names = list(names)
        people = [self.people[name] for name in names if name in self.people]
        keys: dict[str, list[Any]] = {
            PERSON: [each.id for each in people],
            OWNER: [owner for each in people for owner in (each.public_id, each.owner)],
            CLASS: [self.school.classes[name] for name in names if name in self.school.classes],
        }
        found: dict[str, str] = {}
        with self.database.read() as session:
            for name, columns in OWNED.items():
                table = Base.metadata.tables[name]
                kept = [column for column in table.c if column.name not in COUNTERS.get(name, ())]
                rows = session.execute(sa.select(*kept).where(_belongs(table, columns, keys))).all()
                found[name] = hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest() if rows else ""
        return found


def _belongs(table: sa.Table, columns: Mapping[str, str], keys: Mapping[str, Sequence[Any]]) -> sa.ColumnElement[bool]:
    def one(column: str, by: str) -> sa.ColumnElement[bool]:
        if by in keys:
            return table.c[column].in_(keys[by])
        other = Base.metadata.tables[by]
        return table.c[column].in_(sa.select(other.c.id).where(_belongs(other, OWNED[by], keys)))

    return sa.or_(*(one(column, by) for column, by in columns.items()))


def _copy(source: sa.Engine, target: sa.Engine) -> None:
    read, write = source.raw_connection(), target.raw_connection()
    try:
        driver: Any = read.driver_connection
        driver.backup(write.driver_connection)
    finally:
        read.close()
        write.close()


def build_world(database: Database) -> World:
    """Fills a library with the school and everything that belongs to its people."""
    with database.write() as session:
        # High numbers: a page that holds one by chance holds no id of ours.
        for row in (SchoolClass(id=720000, name="x", school_year="x"), Person(id=730000, **_FILLER)):
            session.add(row)
            session.flush()
            session.delete(row)
    world = World(furnish(database))
    world.people = dict(world.school.people)
    with database.write() as session:
        _more_people(world, session)
        _mark_people(world, session)
        _seed_quizzes(world, session)
        _seed_terminal(world, session)
    for place, name in enumerate(_PEOPLE):
        if world.people[name].role in ("student", "teacher"):
            _seed_conversation(world, name, place)
    for place, name in enumerate(("an", "binh", "chi")):
        _seed_learning(world, name, place)
    _seed_shared(world)
    for name in _PEOPLE:
        audit.log(database, world.people[name].public_id, "session.test", world.people[name].public_id)
    _seal_the_past(world)
    for name, account in world.people.items():
        token = open_session(database, account.id, hours=12)
        world.cookies[name] = world.mark(name, "secret", token)
        world.mark(name, "secret", hashlib.sha256(token.encode()).hexdigest())
    with database.write() as session:
        session.get_one(Person, world.people["dung"].id).is_active = False
    world.keep()
    return world


_FILLER: dict[str, Any] = {"public_id": "x", "role": "x", "username": "x", "full_name": "x"}


def _more_people(world: World, session: Session) -> None:
    for name, (role, full_name) in MORE_PEOPLE.items():
        row = create_person(
            session, role, name, full_name, password=PASSWORD, must_change_password=name == "moi", code=f"code-{name}"
        )
        world.people[name] = account_of(row)
    for class_name in ("6A", "6B"):
        enrol(session, world.school.classes[class_name], world.people["moi"].id)
    enrol(session, world.school.classes["6B"], world.people["dung"].id)
    grant(session, world.people["ba.chi"].id, world.people["chi"].id)
    revoke(session, world.people["ba.chi"].id, world.people["chi"].id)


def _mark_people(world: World, session: Session) -> None:
    for place, (name, account) in enumerate(world.people.items()):
        row = session.get_one(Person, account.id)
        row.full_name = f"{row.full_name} {world.mark(name, 'name')}"
        row.username = world.mark(name, "name").casefold()
        world.mark(name, "name", row.public_id)
        row.email = f"{world.mark(name, 'contact')}@truong.example"
        row.phone = world.mark(name, "contact", f"09{83746500 + place}")
        row.code = world.mark(name, "code")
        if row.learner_id:
            world.mark(name, "pseudonym", row.learner_id)
        assert row.password_hash is not None
        world.mark(name, "secret", row.password_hash)
        key = world.mark(name, "secret", f"dk-Zq{name.replace('.', '')}key")
        digest = world.mark(name, "secret", hashlib.sha256(key.encode()).hexdigest())
        if name not in SHUT_OUT:
            session.add(ApiKey(id=760000 + place, key_digest=digest, person_id=row.id, label=world.mark(name, "label")))
            world.api_keys[name] = key
        world.people[name] = account_of(row)
        world.ids[name] = {
            "public_id": [row.public_id],
            "username": [row.username],
            "key_id": [str(760000 + place)],
            **({"class_id": [str(world.school.classes[CLASS_OF[name]])]} if name in CLASS_OF else {}),
        }
    for consent in session.scalars(sa.select(Consent)):
        owner = next(name for name, each in world.people.items() if each.id == consent.student_id)
        consent.guardian_name = world.mark(owner, "consent")
    for name, class_id in world.school.classes.items():
        session.get_one(SchoolClass, class_id).name = world.mark(name, "class")
    for one, other in (("me.an", "an"), ("bo.chi", "chi"), ("ba.chi", "chi")):
        world.ids[one]["other_id"] = [world.people[other].public_id]
        world.ids[other]["other_id"] = [world.people[one].public_id]


def _seed_conversation(world: World, name: str, place: int) -> None:
    """A conversation with turns of all kinds: answered, a hint, care, one that runs."""
    database, owner = world.database, world.people[name].owner
    # The first turns lie so high that no page holds their numbers by chance.
    conversation_id: int | None = None
    turn_ids: dict[str, int] = {}
    for kind in ("answer", "hint", "care", "running"):
        words = world.mark(name, "words")
        conversation_id, turn_id = start_turn(database, f"Em hỏi {words}?", {}, conversation_id, owner=owner)
        turn_ids[kind] = turn_id
        if kind != "running":
            finish_turn(database, turn_id, "done", draft="", answer=_answer(kind, world.mark(name, "words")))
    keep_signal(database, turn_ids["answer"], "wrong", detail=world.mark(name, "words"))
    keep_signal(database, turn_ids["hint"], "correction", detail=world.mark(name, "words"), author="")
    ids = world.ids[name]
    ids |= {"conversation_id": [str(conversation_id)], "turn_id": [str(turn_ids["answer"]), str(turn_ids["hint"])]}
    if world.people[name].role != "student":
        return
    assert conversation_id is not None
    ladder = Ladder(world.mark(name, "words"), Subject(PupilKind.OPEN, terms=("celsius",)), now(), now())
    save_ladders(database, owner, [ladder.to_json()])
    flags = {"safety": "care", "grounding": "answer"}
    with database.write() as session:
        for number, (kind, turn) in enumerate(flags.items()):
            detail = f"harm: {world.mark(name, 'safety' if kind == 'safety' else 'words')}"
            session.add(
                Flag(
                    id=750000 + 10 * place + number,
                    learner_id=owner,
                    conversation_id=conversation_id,
                    turn_id=turn_ids[turn],
                    kind=kind,
                    severity="high",
                    detail=database.vault.seal(owner, detail),
                )
            )
    ids["flag_id"] = [str(750000 + 10 * place + number) for number in range(len(flags))]


def _answer(kind: str, words: str) -> dict[str, Any]:
    if kind == "answer":
        struck = {"text": words, "status": "unsupported", "citation": None, "score": 0.0, "reason": "–"}
        struck["replaces"] = None
        return {"question": "", "found": True, "sentences": [struck], "nearest": [], "text": words}
    hint = {"rung": 1, "rungs": 6, "name": "asked", "text": words, "sources": [], "reason": words}
    more = {"hint": hint} if kind == "hint" else {}
    return {"kind": kind, "question": "", "found": True, "sentences": [], "text": words, **more}


def _seed_quizzes(world: World, session: Session) -> None:
    """For each teacher: one quiz that the class works on, one given again and not begun, one that nobody has."""
    for place, (name, class_name) in enumerate((("lan", "6A"), ("minh", "6B"))):
        first = 770001 + 10 * place
        items: list[str] = []
        for number, kind in enumerate(("quiz", "quiz", "draft")):
            given: Kind = "quiz" if kind == "quiz" else "draft"
            item = Choice(
                stem=f"Câu {world.mark(name, given)}?",
                options=("một", "hai", "ba", "bốn"),
                key=0,
                explanation=world.mark(name, "keys" if kind == "quiz" else "draft"),
                skill="kĩ năng chung",
            )
            title = world.mark(name, given)
            quiz = read_quiz({"title": title, "items": [item.model_dump()]})
            content = quiz.model_dump(mode="json")
            session.add(StoredQuiz(id=first + number, author_id=world.people[name].id, title=title, content=content))
            items.append(item.id)
        session.flush()
        for number in range(2):
            session.add(
                QuizAssignment(
                    id=780001 + 10 * place + number,
                    quiz_id=first + number,
                    class_id=world.school.classes[class_name],
                    closes_at=now() + timedelta(days=7),
                )
            )
        session.flush()
        assignments = [str(780001 + 10 * place), str(780002 + 10 * place)]
        for each in (each for each in CLASS_OF if CLASS_OF[each] == class_name):
            world.ids[each]["assignment_id"] = assignments
        # The last quiz is the one that can still be changed.
        world.ids[name] |= {
            "quiz_id": [str(first + number) for number in (2, 1, 0)],
            "item_id": [items[2], items[0]],
            "keep": [_draft_item(world, name).id],
        }


def _draft_item(world: World, name: str) -> Choice:
    word = f"Zq{name}intake"
    world.mark(name, "draft", word)
    return Choice(stem=f"Câu {word}?", options=("năm", "sáu", "bảy", "tám"), key=1)


def _seed_learning(world: World, name: str, place: int) -> None:
    """Work on the class's quiz, handed in by An only, with its marked answers; one attempt for practice."""
    database, owner = world.database, world.people[name].owner
    assignment_id = int(world.ids[name]["assignment_id"][0])
    seal = database.vault.seal
    with database.write() as session:
        quiz_id = session.get_one(QuizAssignment, assignment_id).quiz_id
        item_id = read_quiz(session.get_one(StoredQuiz, quiz_id).content).items[0].id
        submission = Submission(
            id=790001 + place,
            assignment_id=assignment_id,
            learner_id=owner,
            seed=1,
            given=seal(owner, json.dumps({item_id: "A"})),
            finished_at=now() if name == "an" else None,
        )
        session.add(submission)
        session.flush()
        marked = {"score": 1.0, "points": "0.25", "max_points": "0.25", "right": [True], "given": "A"}
        for of in (submission.id if name == "an" else None, None):
            session.add(
                StoredAttempt(
                    learner_id=owner,
                    submission_id=of,
                    item_id=item_id,
                    skill=world.mark(name, "learning"),
                    marked=seal(owner, json.dumps(marked)),
                )
            )
    world.ids[name]["submission_id"] = [str(790001 + place)]


def _seed_terminal(world: World, session: Session) -> None:
    """A conversation without an account, as the terminal keeps it. Ids of turns go on from its own."""
    seal = world.database.vault.seal
    session.add(Conversation(id=710000, owner=None))
    session.flush()
    question = seal("local", world.mark(TERMINAL, "words"))
    session.add(Turn(id=740000, conversation_id=710000, ordinal=0, status="done", question=question, draft=question))
    world.ids[TERMINAL] = {"conversation_id": ["710000"], "turn_id": ["740000"]}


def _seed_shared(world: World) -> None:
    """The library's ids, a bullet with evidence, and the certificate of somebody who was erased."""
    database = world.database
    with database.read() as session:
        book = session.scalars(sa.select(Book)).one()
        lesson_id = session.scalars(sa.select(Section.id).where(Section.kind == "lesson")).first()
    evidence = (
        PassageEvidence(book=book.sha256, page=6, quote="Anders Celsius"),
        InteractionEvidence(reference=f"turn{world.ids['an']['turn_id'][0]}-0123abcd", signal="wrong"),
    )
    playbook = Playbook(database)
    rule = Add(text="Anders Celsius đề xuất thang nhiệt độ năm 1742.", kind="fact", evidence=evidence)
    applied = playbook.change((rule,), Author(role="model", name="mẫu"), "học từ lượt hỏi")
    bullet_id = applied.bullet_ids[0]
    world.revision = playbook.state().bullets[bullet_id].model_dump(mode="json")["changed_at"]
    with database.write() as session:
        gone = create_person(session, "student", "da-xoa", "Người Đã Xóa", password=PASSWORD).public_id
    erase(database, gone, reason="left")
    number = next(iter(certificates(database)))
    for ids in world.ids.values():
        ids |= {
            "book_id": [str(book.id)],
            "book": [str(book.id)],
            "lesson": [str(lesson_id)],
            "lesson_id": [str(lesson_id)],
            "book_ids": [str(book.id)],
            "bullet_id": [bullet_id],
            "number": [str(number)],
        }


def _seal_the_past(world: World) -> None:
    """What is another name for the same ids."""
    for ids in world.ids.values():
        ids |= {"classes": ids["class_id"]} if "class_id" in ids else {}
        ids |= {"who": ids["username"], "staying": ids["public_id"]} if "public_id" in ids else {}
        ids |= {"quiz": ids["quiz_id"]} if "quiz_id" in ids else {}


def refresh_tokens(world: World, app: FastAPI, path: str) -> None:
    """Puts a roster of each admin and items of each teacher on their way: in memory, and a request may take them."""
    if path.startswith("/admin/import"):
        for name in ("admin", "pho"):
            word = world.mark(name, "import", f"Zq{name}roster")
            roster = read_roster(f"Mã học sinh,Họ và tên,Lớp\nHS9,Trần {word},6A\n".encode(), f"{word}.csv")
            shown = preview_import(world.database, roster, YEAR)
            world.ids[name] |= {"token": [app.state.imports.put(world.people[name], f"{word}.csv", shown)]}
            world.ids[name]["digest"] = [shown.digest]
            if path.endswith("passwords.csv"):
                given = InitialPassword("Trần Văn", "6A", f"{word}.user", "mat-khau-dau")
                app.state.imports.get(world.people[name], world.ids[name]["token"][0]).result = Imported(
                    shown, (given,)
                )
    elif path.startswith("/progress/practice"):
        app.state.practices = Practices()
        for name in ("an", "binh", "chi"):
            item = Choice(stem=f"Câu Zq{name}practice?", options=("1", "2", "3", "4"), key=0)
            world.mark(name, "learning", f"Zq{name}practice")
            placed = arranged(Quiz(title="Ôn tập", items=(item,)), name)
            practice = Practice(world.people[name].owner, placed, {item.id: None})
            world.ids[name] |= {"token": [app.state.practices.put(practice)], "practised": [item.id]}
    elif hasattr(app.state, "item_drafts"):
        for name in ("lan", "minh"):
            bank = BankImport((_draft_item(world, name),), ())
            head = QuizHead(title=f"Zq{name}intake")
            draft = app.state.item_drafts.put(world.people[name], f"Zq{name}intake", head, None, bank)
            world.ids[name]["token"] = [draft.token]


GHOSTS: dict[str, str] = {
    **dict.fromkeys(("class_id", "classes"), "720999"),
    **dict.fromkeys(("public_id", "other_id", "staying"), "0123456789abcdef"),
    **dict.fromkeys(("username", "who"), "zqghost0user"),
    **dict.fromkeys(("conversation_id",), "710999"),
    **dict.fromkeys(("turn_id",), "749999"),
    **dict.fromkeys(("flag_id",), "759999"),
    **dict.fromkeys(("key_id",), "769999"),
    **dict.fromkeys(("quiz_id", "quiz"), "779999"),
    **dict.fromkeys(("assignment_id",), "789999"),
    **dict.fromkeys(("submission_id",), "799999"),
    **dict.fromkeys(("item_id", "keep"), "fedcba9876543210"),
    **dict.fromkeys(("book_id", "book", "lesson", "lesson_id", "book_ids"), "99999"),
    "bullet_id": "b-99999",
    "number": "99999",
    "token": "zqghosttoken0000",
    "digest": "zqghostdigest",
}
# Parameters that name something of the whole school: nobody is a stranger to it.
SHARED_IDS = frozenset({"book_id", "book", "lesson", "lesson_id", "book_ids", "bullet_id", "number"})

# --- Routes and requests ---------------------------------------------------------------------------------------------

# Fields that are no ids, with what to fill in. Those that are not required and not named here are left out.
PLAIN: dict[str, Any] = {
    "question": "Nước sôi ở bao nhiêu độ?",
    "name": "Tên mới",
    "kind": "wrong",
    "detail": "chưa đúng",
    "by": "cô giáo",
    "reason": "để thử",
    "expected": "",
    "answer": "Nước sôi ở 100 °C.",
    "given": {},
    "version": "0",
    "before": "0",
    "chosen": "vi",
    "password": "sai-mat-khau-roi",
    "present": "sai-mat-khau-roi",
    "fresh": "mot-cau-de-nho",
    "again": "mot-cau-de-nho",
    "sure": "on",
    "agreed": "on",
    "assented": "on",
    "confirmed": "on",
    "policy": "explain",
    "title": "Tên mới",
    "full_name": "Tên Mới",
    "email": "moi@truong.example",
    "school_year": "2027-2028",
    "label": "chương trình thử",
    "opens_at": "",
    "closes_at": "2099-01-01T10:00",
    "count": "1",
    "where": "up",
    "form": "csv",
    "model": "deepedu-tutor",
    "messages": [{"role": "user", "content": "Nước sôi ở bao nhiêu độ?"}],
    # What an identity provider sends back: none of ours began such a sign-in.
    "state": "zqstate",
}
Filled = dict[str, str]
Special = Callable[[World, Filled], dict[str, Any]]


def _consent(world: World, _: Filled) -> dict[str, Any]:
    settings = Settings.model_validate({"store": {"data_dir": world.database.data_dir}})
    return {"text": consent_text(settings).name}


def _expected(world: World, _: Filled) -> dict[str, Any]:
    return {"expected": world.revision}


def _paper(world: World, filled: Filled) -> dict[str, Any]:
    pupil = filled.get("public_id", world.ids["an"]["public_id"][0])
    fields = {"chosen": pupil, f"name.{pupil}": "Người kí", f"assent.{pupil}": "on", "sure": "on"}
    return {**fields, **_consent(world, filled)}


def _item(_: World, __: Filled) -> dict[str, Any]:
    options = {f"option{place}": f"đáp án thứ {place}" for place in range(4)}
    return {"kind": "choice", "stem": "Câu mới?", "key": "0", **options}


def _practised(world: World, filled: Filled) -> dict[str, Any]:
    holders = [ids for ids in world.ids.values() if filled.get("token") in ids.get("token", ())]
    items = [item for ids in holders for item in ids.get("practised", ())]
    return {"item": items[0], f"q-{items[0]}": "A"} if items else {}


_BANK = bank_as_csv([Choice(stem="Câu từ tệp?", options=("a1", "b2", "c3", "d4"), key=0)])
# What single routes need beyond PLAIN.
SPECIAL: dict[tuple[str, str], Special] = {
    ("POST", "/family/consent/{public_id}"): _consent,
    ("POST", "/admin/privacy/people/{public_id}/consent"): _consent,
    ("POST", "/privacy/classes/{class_id}"): _paper,
    ("POST", "/admin/privacy/people/{public_id}/erase"): lambda world, filled: {
        "reason": "left",
        "username": _username(world, filled["public_id"]),
    },
    ("POST", "/admin/people/{public_id}"): lambda _, __: {"username": "ten-moi"},
    ("POST", "/admin/people/{public_id}/guardians"): lambda world, __: {"who": world.people["bo.chi"].username},
    ("POST", "/admin/people/{public_id}/classes"): lambda world, __: {"class_id": str(world.school.classes["6B"])},
    ("POST", "/admin/people/new"): lambda _, __: {"role": "student", "username": "nguoi-moi"},
    ("POST", "/teach/playbook/bullets/{bullet_id}/edit"): lambda _, __: {
        "text": "Celsius đề xuất thang nhiệt độ năm 1742.",
        "kind": "fact",
    },
    ("POST", "/api/playbook/bullets/{bullet_id}/edit"): lambda _, __: {
        "text": "Celsius đề xuất thang nhiệt độ năm 1742.",
        "kind": "fact",
    },
    ("POST", "/progress/practice/{token}"): _practised,
    ("POST", "/admin/import"): lambda _, __: {"files": {"file": ("a.csv", "Mã học sinh,Họ và tên,Lớp\nHS9,Vũ A,6A\n")}},
    ("POST", "/teach/quizzes/import"): lambda _, __: {"files": {"file": ("a.csv", _BANK)}},
    ("POST", "/teach/quizzes/make"): lambda _, __: {"kind": "choice"},
    ("POST", "/teach/quizzes/new"): lambda _, __: {"kind": "choice"},
    **dict.fromkeys(
        [("POST", f"/teach/quizzes/{{quiz_id:int}}/items/{end}") for end in ("new", "{item_id}")],
        _item,
    ),
}
_EXPECTING = "/bullets/{bullet_id}/"
# Routes that read their bodies by themselves: what they may hold stands in no signature, so it is written down here.
RAW_BODIES: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "/admin/import"): (),
    ("POST", "/admin/books"): (),
    ("POST", "/privacy/classes/{class_id}"): ("public_id",),
    ("POST", "/teach/quizzes/import"): ("quiz",),
    ("POST", "/quizzes/{assignment_id:int}/save"): (),
    ("POST", "/progress/practice/{token}"): (),
    ("POST", "/v1/chat/completions"): (),
    ("POST", "/teach/quizzes/{quiz_id:int}/items/new"): (),
    ("POST", "/teach/quizzes/{quiz_id:int}/items/{item_id}"): (),
}
_READS_BODY = ("received(", ".form(", ".json()", ".body()", ".stream()", "_fields(request", "_read_body(")


def _username(world: World, public_id: str) -> str:
    return next((each.username for each in world.people.values() if each.public_id == public_id), "zqghost0user")


@dataclass(frozen=True)
class Field:
    """A field of a request. ``place``: ``path``, ``query``, ``form`` or ``json``."""

    name: str
    place: str
    annotation: Any
    is_required: bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a ``Literal``."""
        return typing.get_args(self.annotation) if typing.get_origin(self.annotation) is Literal else ()

    @property
    def is_list(self) -> bool:
        return any(typing.get_origin(each) is list or each is list for each in (self.annotation, *_inside(self)))


def _inside(one: Field) -> tuple[Any, ...]:
    return typing.get_args(one.annotation) if _is_union(one.annotation) else ()


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


@dataclass(frozen=True)
class Walked:
    """A route by one of its methods, with everything that a request to it may hold."""

    method: str
    path: str
    fields: tuple[Field, ...]
    reads_body: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def is_safe(self) -> bool:
        return self.method in ("GET", "HEAD")

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of what somebody's ids are filled into, in the order of the signature."""
        raw = RAW_BODIES.get(self.key, ())
        return tuple(dict.fromkeys([*(each.name for each in self.fields if each.name in GHOSTS), *raw]))

    @property
    def unknown(self) -> list[str]:
        """What has to be written down here before this route can be walked."""
        told: list[str] = []
        for each in self.fields:
            known = each.name in GHOSTS or each.name in PLAIN or each.choices
            looks_like_id = each.name.endswith(("id", "ids", "token")) or each.annotation is int
            if not known and (each.is_required or (looks_like_id and each.name not in HARMLESS)):
                told.append(
                    f"{self.method} {self.path}: {each.place} field {each.name!r} is not known. If it names something "
                    "that belongs to somebody, give everybody one in build_world (world.ids) and a value that does not "
                    "exist in GHOSTS; otherwise put a value into PLAIN (or SPECIAL, for this route alone)"
                )
        if self.reads_body and self.key not in RAW_BODIES:
            told.append(
                f"{self.method} {self.path} reads its body by itself: name the ids that it may hold in RAW_BODIES, and "
                "what else it needs in SPECIAL"
            )
        return told


# Numbers that are no ids, in fields that need not be filled.
HARMLESS = frozenset({"page", "limit", "offset", "before", "after", "grade", "days", "code"})


def routes_of(app: FastAPI) -> list[Walked]:
    """Every route of an application.

    Raises:
        AssertionError: there is a route of a kind that is not walked, such as a WebSocket.
    """
    found: list[Walked] = []
    for route in _flat(app.routes):
        calls = list(_dependants(route.dependant))
        fields = tuple(dict.fromkeys(each for dependant in calls for each in _fields(dependant)))
        sources = [inspect.getsource(call.call) for call in calls if inspect.isroutine(call.call)]
        reads_body = any(mark in source for source in sources for mark in _READS_BODY)
        found += [
            Walked(method, route.path, fields, reads_body and method not in ("GET", "HEAD"))
            for method in sorted(route.methods or ())
        ]
    return sorted(found, key=lambda each: (each.path, each.method))


def _flat(routes: Iterable[Any]) -> Iterator[APIRoute]:
    for route in routes:
        below = getattr(route, "original_router", None)
        if isinstance(route, APIRoute):
            yield route
        elif below is not None:
            yield from _flat(below.routes)
        else:
            is_known = isinstance(route, Mount | Route) and route.path in ("/static", "/openapi.json")
            assert is_known, f"{route!r}: a kind of route that is not walked; extend walk_world.routes_of for it"


def _dependants(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for below in dependant.dependencies:
        yield from _dependants(below)


def _fields(dependant: Dependant) -> Iterator[Field]:
    lists = {"path": dependant.path_params, "query": dependant.query_params, "body": dependant.body_params}
    for place, found in lists.items():
        for each in found:
            info, kind = each.field_info, place
            if place == "body":
                kind = "form" if isinstance(info, params.Form) else "json"
            model = info.annotation
            if isinstance(model, type) and issubclass(model, BaseModel):
                for name, inner in model.model_fields.items():
                    yield Field(inner.alias or name, kind, inner.annotation, inner.is_required())
            else:
                yield Field(each.alias, kind, model, info.is_required())


def request_of(world: World, route: Walked, filled: Filled) -> dict[str, Any]:
    """Keyword arguments of ``client.request`` for a route, its ids filled in."""
    special = SPECIAL.get(route.key)
    if special is None and not route.is_safe and _EXPECTING in route.path:
        special = _expected
    more = special(world, filled) if special else {}
    if not route.is_safe and _EXPECTING in route.path:
        more |= _expected(world, filled)
    values: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "form": {}, "json": {}}
    for each in route.fields:
        value = more.get(each.name, filled.get(each.name)) if each.place != "path" else filled.get(each.name)
        if value is None and (each.is_required or each.place in ("form", "json", "path")):
            value = _plain(each)
        if value is None:
            continue
        if (
            each.place == "json"
            and isinstance(value, str)
            and value.isdecimal()
            and len(value) < 4300
            and str not in _types(each)
        ):
            value = int(value)
        values[each.place][each.name] = [value] if each.is_list and not isinstance(value, list) else value
    if route.reads_body:
        values["form"] |= {**{name: filled[name] for name in RAW_BODIES.get(route.key, ()) if name in filled}, **more}
    url = route.path
    for name, value in values["path"].items():
        for form in (f"{{{name}}}", f"{{{name}:int}}", f"{{{name}:path}}"):
            url = url.replace(form, str(value))
    asked: dict[str, Any] = {"method": route.method, "url": url, "params": values["query"]}
    if "files" in more:
        asked["files"] = values["form"].pop("files")
    if values["json"] or route.path == "/v1/chat/completions":
        asked["json"] = values["json"] or {name: PLAIN[name] for name in ("model", "messages")}
    elif values["form"]:
        asked["data"] = values["form"]
    return asked


def _plain(each: Field) -> Any:
    if each.choices:
        return PLAIN[each.name] if PLAIN.get(each.name) in each.choices else each.choices[0]
    return PLAIN.get(each.name)


def _types(each: Field) -> tuple[Any, ...]:
    return (each.annotation, *_inside(each), *(t for one in _inside(each) for t in typing.get_args(one)))


class Visits:
    """An application in the world, asked as one visitor or another."""

    def __init__(self, world: World, app: FastAPI, client: TestClient) -> None:
        self.world, self.app, self.client = world, app, client
        self.rules = rules_of(app)

    def send(self, visitor: str, path: str, *, headers: Mapping[str, str] | None = None, **request: Any) -> Any:
        """The answer to a request of a visitor's browser on a page of ours, or of a visitor's program with its key."""
        # How often somebody may ask is tested elsewhere.
        for name in ("admission", "openai_door"):
            if hasattr(self.app.state, name):
                delattr(self.app.state, name)
        services = self.app.state.services
        services.login_rate = Rate(1_000_000, 60)
        # It remembers versions that ``restore`` takes back.
        services.playbook = Playbook(services.database)
        self.client.cookies.clear()
        told = {"Origin": ORIGIN, "Accept": "text/html", **(headers or {})}
        if visitor != NOBODY:
            self.client.cookies.set(COOKIE, self.world.cookies[visitor])
        if path.startswith("/v1/") and visitor in self.world.api_keys:
            told["Authorization"] = f"Bearer {self.world.api_keys[visitor]}"
        return self.client.request(**request, headers=told)

    def in_rule(self, visitor: str, route: Walked) -> bool:
        """Whether a route is open to a visitor's role, and the visitor to be let in at all."""
        roles = self.rules[route.key]
        if roles is None:
            return True
        if visitor in SHUT_OUT:
            return visitor == "moi" and route.path in OPEN_TO_NEWCOMERS
        return visitor != NOBODY and self.world.people[visitor].role in roles

    def restore(self) -> None:
        """The world as it was, whatever a request did."""
        self.world.restore()


def copied(source: Path, target: Path) -> Path:
    """A copy of a library's folder."""
    shutil.copytree(source, target)
    return target
