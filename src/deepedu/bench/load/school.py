"""A school for the load bench: classes with pupils who may learn, the sample textbook, a quiz in every class.

Every other class is taught by hints, the others are answered directly. Everything lies in one data folder.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from deepedu.base.config import Settings
from deepedu.bench.load.markers import marker
from deepedu.bench.load.plan import Learner, Roster
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF, SAMPLE_QUESTIONS
from deepedu.school.accounts import Account, account_of, create_person
from deepedu.school.classes import Policy, create_class, enrol, school_year_of
from deepedu.search.embed import embed_missing
from deepedu.search.embedder import open_embedder
from deepedu.store import Database
from deepedu.store.tables import Consent, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.quiz import Choice, Item, Short
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz

# At most.
CLASS_SIZE = 40
PASSWORD = "con-meo-den-2026"
_QUIZ: tuple[Item, ...] = (
    Choice(
        stem="Đơn vị đo chiều dài trong hệ SI là gì?", options=("mét", "in-sơ", "hải lí", "dặm"), key=0, skill="Bài 1"
    ),
    Short(stem="Nước sôi ở bao nhiêu độ C?", key="100", unit="°C", skill="Bài 3"),
    # Words, so that what a pupil gives can carry a marker.
    Short(stem="Ai là người gọi mỗi ô nhỏ trong lát bần là cell?", key="Robert Hooke", skill="Bài 5"),
)


def furnish(settings: Settings, pupils: int, *, policies: Sequence[Policy] = ("explain", "tutor")) -> Roster:
    """Fills the data folder that the settings name.

    Args:
        policies: of the classes, in turn.
    """
    database = Database(settings.store)
    try:
        outcome = ingest(database, [SAMPLE_PDF], settings.ingest)[0]
        assert outcome.status == "added", outcome.message
        embedder, _ = open_embedder(settings.search)
        if embedder is not None:
            embed_missing(database, embedder)
        with database.write() as session:
            people = _people(session, pupils, policies)
    finally:
        database.close()
    return Roster(people, sample_questions(SAMPLE_QUESTIONS), tuple((item.id, item.kind) for item in _QUIZ))


def sample_questions(path: Path) -> tuple[str, ...]:
    """What pupils ask: the sample textbook's questions, also those that it does not answer."""
    return tuple(json.loads(line)["question"] for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def _people(session: Session, pupils: int, policies: Sequence[Policy]) -> tuple[Learner, ...]:
    year = school_year_of(now().date())
    made: list[Learner] = []
    # As many classes of each policy as of the others.
    classes = len(policies) * -(-pupils // (CLASS_SIZE * len(policies)))
    size = -(-pupils // classes)
    for first in range(0, pupils, size):
        number = first // size
        row = create_class(session, f"6A{number + 1}", year, grade=6)
        row.policy = policy = policies[number % len(policies)]
        teacher = account_of(create_person(session, "teacher", f"gv{number + 1}", f"Phạm Thị Lan {number + 1}"))
        enrol(session, row.id, teacher.id)
        assignment_id = _give_quiz(session, teacher, row.id)
        for each in range(first, min(first + size, pupils)):
            made.append(_pupil(session, each, row.id, policy, assignment_id))
    return tuple(made)


def _pupil(session: Session, number: int, class_id: int, policy: Policy, assignment_id: int) -> Learner:
    username = f"hs{number:04d}"
    # The pupil's own name carries a marker as well: names are foreign data before all others.
    person = create_person(
        session,
        "student",
        username,
        f"Nguyễn Văn {marker(number).capitalize()}",
        password=PASSWORD,
        must_change_password=False,
    )
    enrol(session, class_id, person.id)
    session.add(Consent(student_id=person.id, guardian_name="Người giám hộ", text_version="1"))
    return Learner(number, username, PASSWORD, policy, assignment_id)


def _give_quiz(session: Session, teacher: Account, class_id: int) -> int:
    quiz_id = put_quiz(session, teacher.id, QuizHead(title="Ôn tập", subject="Khoa học tự nhiên", grade=6), _QUIZ)
    session.flush()
    opens, closes = now() - timedelta(minutes=1), now() + timedelta(days=7)
    return assign(session, quiz_id, class_id, author_id=teacher.id, opens_at=opens, closes_at=closes)
