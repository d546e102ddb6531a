"""A small school for tests: two classes with their pupils and teachers, two guardians, an admin, the sample textbook.

In class 6A learn An and Bình, taught by cô Lan; in 6B learns Chi, taught by thầy Minh. An's mother is a guardian, Chi's
father another.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from deepedu.base.config import Settings, StoreSettings
from deepedu.llm.chat import ChatModel
from deepedu.llm.scripted import ScriptedModel
from deepedu.school.accounts import Account, Role, account_of, create_person, open_session
from deepedu.school.classes import create_class, enrol, grant
from deepedu.server.access import COOKIE
from deepedu.server.app import create_app
from deepedu.store import Database
from deepedu.store.tables import Consent

PASSWORD = "con-meo-den-2026"
YEAR = "2026-2027"
PEOPLE: dict[str, tuple[Role, str]] = {
    "an": ("student", "Nguyễn Văn An"),
    "binh": ("student", "Trần Thị Bình"),
    "chi": ("student", "Lê Mai Chi"),
    "lan": ("teacher", "Phạm Thị Lan"),
    "minh": ("teacher", "Đỗ Quang Minh"),
    "me.an": ("guardian", "Hoàng Thu Hà"),
    "bo.chi": ("guardian", "Lê Quốc Tuấn"),
    "admin": ("admin", "Vũ Quản Trị"),
}
CLASSES = {"6A": ("an", "binh", "lan"), "6B": ("chi", "minh")}
GUARDIANS = {"me.an": "an", "bo.chi": "chi"}
ORIGIN = "http://testserver"


@dataclass
class School:
    """Accounts by username, class ids by name."""

    database: Database
    people: dict[str, Account]
    classes: dict[str, int]

    def app(self, *, model: ChatModel | None = None, **settings: dict[str, Any]) -> FastAPI:
        """The application over this school. ``settings``: layers, such as ``school={"guardian_transcripts": True}``."""
        layers: dict[str, Any] = {"store": {"data_dir": self.database.data_dir}, "search": {"dense": "off"}}
        model = model or ScriptedModel(answer=lambda _: "Nước tinh khiết sôi ở 100 °C [1].")
        return create_app(Settings.model_validate({**layers, **settings}), model=model)

    def sign_in(self, client: TestClient, username: str | None) -> TestClient:
        """The client as this person's browser on a page of ours; None: nobody is signed in."""
        client.cookies.clear()
        if username is not None:
            client.cookies.set(COOKIE, open_session(self.database, self.people[username].id, hours=12))
        client.headers.update({"Origin": ORIGIN, "Accept": "text/html"})
        return client


def furnish(database: Database) -> School:
    """Fills a library with people."""
    people: dict[str, Account] = {}
    classes: dict[str, int] = {}
    with database.write() as session:
        for username, (role, name) in PEOPLE.items():
            row = create_person(
                session, role, username, name, password=PASSWORD, must_change_password=False, code=f"code-{username}"
            )
            people[username] = account_of(row)
        for name, usernames in CLASSES.items():
            classes[name] = create_class(session, name, YEAR, grade=6).id
            for username in usernames:
                enrol(session, classes[name], people[username].id)
        for guardian, student in GUARDIANS.items():
            grant(session, people[guardian].id, people[student].id)
        for account in people.values():
            if account.role == "student":
                session.add(Consent(student_id=account.id, guardian_name="Người giám hộ", text_version="1"))
    return School(database, people, classes)


def open_school(data_dir: Path) -> School:
    """A furnished school on a copied library."""
    return furnish(Database(StoreSettings(data_dir=data_dir)))
