"""What people say of answers: a pupil's thumbs and "this is wrong", a teacher's correction."""

import hmac
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from deepedu.base.errors import WrongKey
from deepedu.base.personal_data import mask
from deepedu.school.accounts import Account
from deepedu.server.access import Asker
from deepedu.server.playbook_routes import teachers
from deepedu.server.tutor_routes import Services, feedback_key
from deepedu.store import Database
from deepedu.store.conversations import turn_for
from deepedu.store.flags import raise_flag
from deepedu.store.signals import keep_signal

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


@router.post("/api/playbook/turns/{turn_id}/correction", dependencies=[teachers])
def correction(turn_id: int, said: Correction, services: Services) -> dict[str, Any]:
    """Keeps a teacher's right answer; ``deepedu learn --feedback`` learns from it.

    Raises:
        AccessClosed, WrongKey: not with the teachers' key.
        NotFound: no such turn with an answer.
    """
    keep_signal(services.database, turn_id, "correction", detail=said.answer, author=said.by)
    return {"turn_id": turn_id, "kind": "correction"}
