"""The server is killed while pupils are being answered: nothing that anybody was told is lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from deepedu.base.config import Settings
from deepedu.bench.load.crash import CrashReport, Witness, kill_while_asking, look_after
from deepedu.bench.load.school import furnish
from deepedu.store import Database
from deepedu.store.conversations import past_turns
from deepedu.store.tables import Conversation, LoginSession, Person, Submission, Turn

PUPILS = 6
LOSSES = (
    "lost_questions",
    "wrong_status",
    "wrong_drafts",
    "lost_sign_ins",
    "lost_answers",
    "not_asked_again",
    "foreign_data",
    "integrity_faults",
)


@dataclass
class Killed:
    """A school whose server was killed. ``report``: what was found right after it."""

    settings: Settings
    folder: Path
    witnesses: list[Witness]
    report: CrashReport | None = None

    def look(self) -> CrashReport:
        return look_after(self.settings, self.folder, self.witnesses)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("killed")
    settings = Settings.model_validate({"store": {"data_dir": folder / "data"}, "search": {"dense": "off"}})
    roster = furnish(settings, PUPILS, policies=("explain",))
    killed = Killed(settings, folder, kill_while_asking(settings, folder, roster))
    killed.report = killed.look()
    yield killed
    for witness in killed.witnesses:
        witness.browser.close()


def test_everything_that_was_told_is_kept(killed: Killed) -> None:
    report = killed.report
    assert report is not None
    # The test is one only if all of them were cut off, and had more than one answer kept.
    assert report.streaming == report.witnesses == PUPILS
    assert report.saved_answers > 2 * PUPILS
    assert {name: getattr(report, name) for name in LOSSES} == dict.fromkeys(LOSSES, 0)
    for witness in killed.witnesses:
        assert len(witness.asked.draft) > 20


def test_the_draft_and_the_second_answer_stand_side_by_side(killed: Killed) -> None:
    witness = killed.witnesses[0]
    database = Database(killed.settings.store)
    try:
        with database.read() as session:
            owner = session.scalar(sa.select(Person.learner_id).where(Person.username == witness.pupil.username))
        first, *_, last = past_turns(database, witness.asked.conversation_id, owner=owner)
    finally:
        database.close()
    assert (first.id, first.status, first.answer) == (witness.asked.turn_id, "interrupted", None)
    assert witness.asked.draft.startswith(first.draft) or first.draft.startswith(witness.asked.draft)
    assert first.draft
    assert (last.status, last.question) == ("done", first.question)


def test_losses_would_be_seen(killed: Killed) -> None:
    """Takes away, one after the other, what the witnesses look for."""
    gone, changed, signed_out, unsaved = killed.witnesses[:4]
    database = Database(killed.settings.store)
    try:
        with database.write() as session:
            person = {row.username: row for row in session.scalars(sa.select(Person))}
            session.execute(sa.delete(Conversation).where(Conversation.id == gone.asked.conversation_id))
            turn = session.get_one(Turn, changed.asked.turn_id)
            turn.draft = database.vault.seal(database.vault.owner_of(turn.question), "Lời của ai khác.")
            turn.status, turn.lease = "stopped", None
            of = person[signed_out.pupil.username]
            session.execute(sa.delete(LoginSession).where(LoginSession.person_id == of.id))
            of = person[unsaved.pupil.username]
            session.execute(sa.update(Submission).where(Submission.learner_id == of.learner_id).values(given=""))
    finally:
        database.close()
    report = killed.look()
    found = {name: getattr(report, name) for name in LOSSES}
    assert found == {
        "lost_questions": 1,
        "wrong_status": 1,
        "wrong_drafts": 1,
        "lost_sign_ins": 1,
        "lost_answers": 1,
        # The conversation that is gone cannot be gone on with.
        "not_asked_again": 1,
        "foreign_data": 0,
        "integrity_faults": 0,
    }
