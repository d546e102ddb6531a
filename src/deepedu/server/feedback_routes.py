"""What people say of answers: a pupil's thumbs and "this is wrong", a teacher's correction."""

import hmac
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from deepedu.base.errors import NotFound, WrongKey
from deepedu.base.personal_data import mask
from deepedu.school.accounts import Account
from deepedu.school.classes import student_for
from deepedu.server.access import Asker
from deepedu.server.playbook_routes import teachers
from deepedu.server.tutor_routes import Services, feedback_key
from deepedu.store import Database
from deepedu.store.conversations import owner_of_turn, turn_for
from deepedu.store.flags import raise_flag
from deepedu.store.signals import keep_signal
from deepedu.store.tables import Person

router = APIRouter()
LONGEST = 1000
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST)]


class Feedback(BaseModel):
    """A pupil's word. ``key`` came with the turn's ``started`` event: without accounts, it shows who asked."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["thumbs_up", "thumbs_down", "wrong"]
    key: str = Field(default="", max_length=64)
    detail: Annotated[str, StringConstraints(strip_whitespace=True, max_length=LONGEST)] = ""


class Correction(BaseModel):
    """A teacher's right answer to a pupil's question."""

    model_config = ConfigDict(extra="forbid")

    answer: Line
    by: Line


@router.post("/api/turns/{turn_id}/feedback")
def feedback(turn_id: int, said: Feedback, services: Services, account: Asker) -> dict[str, Any]:
    """Keeps what a pupil says of an answer; saying something else replaces it.

    Raises:
        WrongKey: not the asker of this turn, or the server was started anew since.
        NotFound: no such turn of this person with an answer.
    """
    if account is not None:
        keep_word(services.database, account, turn_id, said.kind, said.detail)
        return {"turn_id": turn_id, "kind": said.kind}
    if not hmac.compare_digest(said.key.encode(), feedback_key(services.salt, turn_id).encode()):
        raise WrongKey("Không gửi được ý kiến cho câu trả lời này: hãy hỏi lại câu hỏi rồi gửi.")
    keep_signal(services.database, turn_id, said.kind, detail=mask(said.detail).text)
    return {"turn_id": turn_id, "kind": said.kind}


def _check_pupil(database: Database, account: Account, turn_id: int) -> None:
    owner = owner_of_turn(database, turn_id)
    wanted = sa.select(Person.public_id).where(Person.learner_id == owner)
    with database.read() as session:
        pupil = session.scalar(wanted) if owner is not None else None
    try:
        student_for(database, account, pupil or "")
    except NotFound as error:
        raise NotFound(f"Không có câu hỏi số {turn_id} của học sinh các lớp của thầy cô.") from error


def keep_word(database: Database, account: Account, turn_id: int, kind: str, detail: str) -> None:
    """Keeps what somebody says of an own answer; "this is wrong" of a pupil is put before the teachers.

    Raises:
        NotFound: no such turn of this person with an answer.
    """
    turn = turn_for(database, turn_id, owner=account.owner)
    # A remark is as free as a question, and as likely to name somebody.
    masked = mask(detail).text
    keep_signal(database, turn_id, kind, detail=masked)
    if kind == "wrong" and account.learner_id is not None:
        raise_flag(database, account.learner_id, turn.conversation_id, turn_id, "wrong", detail=masked)


@router.post("/api/playbook/turns/{turn_id}/correction")
def correction(
    turn_id: int, said: Correction, services: Services, account: Annotated[Account | None, teachers]
) -> dict[str, Any]:
    """Keeps a teacher's right answer; ``deepedu learn --feedback`` learns from it.

    Raises:
        AccessClosed, WrongKey: not with the teachers' key.
        NotFound: no such turn with an answer, of a pupil of this teacher.
    """
    if account is not None:
        _check_pupil(services.database, account, turn_id)
        said = said.model_copy(update={"by": account.username})
    keep_signal(services.database, turn_id, "correction", detail=said.answer, author=said.by)
    return {"turn_id": turn_id, "kind": "correction"}
