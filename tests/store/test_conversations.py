"""Turns are kept from the first moment, and a killed process shows as interrupted."""

import subprocess
import sys
from pathlib import Path

import pytest

from deepedu.base.config import StoreSettings
from deepedu.base.errors import NotFound
from deepedu.store import Database
from deepedu.store.conversations import finish_turn, last_conversation, past_turns, save_draft, start_turn


@pytest.fixture
def database(tmp_path: Path):
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    yield database
    database.close()


def test_a_turn_from_question_to_answer(database: Database) -> None:
    conversation, turn = start_turn(database, "Nước sôi ở bao nhiêu độ?", {}, None)
    assert past_turns(database, conversation)[0].status == "running"
    save_draft(database, turn, "Nước")
    assert past_turns(database, conversation)[0].draft == "Nước"
    finish_turn(database, turn, "done", draft="Nước sôi ở 100 °C.", answer={"text": "Nước sôi ở 100 °C."})
    past = past_turns(database, conversation)[0]
    assert (past.status, past.answer) == ("done", {"text": "Nước sôi ở 100 °C."})


def test_turns_come_in_order_and_the_latest_can_be_had_alone(database: Database) -> None:
    conversation, _ = start_turn(database, "một", {}, None)
    for question in ("hai", "ba"):
        start_turn(database, question, {}, conversation)
    assert [t.question for t in past_turns(database, conversation)] == ["một", "hai", "ba"]
    assert [t.question for t in past_turns(database, conversation, 2)] == ["hai", "ba"]
    other, _ = start_turn(database, "khác", {}, None)
    assert last_conversation(database) == other


def test_unknown_conversation(database: Database) -> None:
    assert last_conversation(database) is None
    with pytest.raises(NotFound):
        start_turn(database, "?", {}, 7)
    with pytest.raises(NotFound):
        past_turns(database, 7)


@pytest.mark.sqlite_file
def test_killed_while_answering_keeps_question_and_draft(database: Database) -> None:
    program = (
        "import os, signal, sys, pathlib; from deepedu.store import Database; "
        "from deepedu.base.config import StoreSettings; from deepedu.store.conversations import *; "
        "d = Database(StoreSettings(data_dir=pathlib.Path(sys.argv[1]))); "
        "c, t = start_turn(d, 'Câu hỏi', {}, None); save_draft(d, t, 'Bản nháp'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(database.data_dir)], check=False)
    conversation = last_conversation(database)
    assert conversation is not None
    (turn,) = past_turns(database, conversation)
    assert (turn.status, turn.question, turn.draft) == ("interrupted", "Câu hỏi", "Bản nháp")
