"""A school on PostgreSQL, once from the book to the erased pupil, through the application."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from schoolroom import PASSWORD, furnish

from deepedu.base.config import IngestSettings, StoreSettings
from deepedu.base.errors import KeyDestroyed
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author
from deepedu.playbook.delta import Add
from deepedu.school.audit import verify
from deepedu.school.erasure import erase
from deepedu.store import Database
from deepedu.store.tables import Person, Turn, now
from deepedu.tutor.assignments import assign
from deepedu.tutor.classwork import begin, hand_in
from deepedu.tutor.quiz import Choice
from deepedu.tutor.quiz_shelf import QuizHead, put_quiz
from postgres_server import PostgresServer


def test_a_school_on_postgresql(on_postgres: PostgresServer, tmp_path: Path) -> None:
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    assert database.engine.dialect.name == "postgresql"
    assert ingest(database, [SAMPLE_PDF], IngestSettings())[0].status == "added"
    school = furnish(database)
    an = school.people["an"]

    with TestClient(school.app(), follow_redirects=False) as client:
        school.sign_in(client, None)
        assert client.post("/login", data={"username": "an", "password": PASSWORD}).headers["location"] == "/learn"
        assert client.post("/api/ask", json={"question": "Nước sôi ở bao nhiêu độ?"}).status_code == 200
    with database.read() as session:
        turn = session.scalars(sa.select(Turn)).one()
    assert turn.question.startswith("sealed1:")
    assert database.vault.open(turn.question) == "Nước sôi ở bao nhiêu độ?"

    item = Choice(stem="Thủ đô?", options=("Huế", "Hà Nội", "Đà Nẵng", "Vinh"), key=1, skill="Bài 1")
    with database.write() as session:
        quiz = put_quiz(session, school.people["lan"].id, QuizHead(title="Đề 1", subject="Toán"), (item,))
        lan = school.people["lan"].id
        given = assign(session, quiz, school.classes["6A"], author_id=lan, opens_at=now(), closes_at=None)
    assert begin(database, [school.classes["6A"]], given, an.owner).unanswered() == [1]
    assert hand_in(database, [school.classes["6A"]], given, an.owner, {}).points == 0

    playbook = Playbook(database)
    playbook.change([Add(text="Một", kind="fact")], Author(role="teacher", name="lan"), "x")
    playbook.rollback(0, Author(role="teacher", name="lan"), "y")
    assert (playbook.version, playbook.state().bullets) == (2, {})

    name = an.full_name.encode()
    assert name in on_postgres.tables_files()
    erase(database, an.public_id, reason="request", by=school.people["admin"])
    assert name not in on_postgres.tables_files()
    with database.read() as session:
        assert session.scalar(sa.select(Person).where(Person.username == "an")) is None
    with pytest.raises(KeyDestroyed):
        database.vault.open(turn.question)
    assert verify(database) > 0
    database.close()
