"""A person's own conversations: over JSON, and for pages. Another's is answered like none at all."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from deepedu.base.errors import KeyDestroyed, NotFound
from deepedu.school.accounts import Account
from deepedu.server.access import Allow
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.conversations import (
    ConversationSummary,
    PastTurn,
    conversations_of,
    delete_conversation,
    past_turns,
    turn_for,
)

router = APIRouter(prefix="/api/conversations", tags=["conversations"])
Learner = Annotated[Account, Depends(Allow("student", "teacher"))]
_NO_CONVERSATION = "Không có cuộc trò chuyện này trong danh sách của bạn."


class ConversationItem(BaseModel):
    """A conversation in a list."""

    id: int
    title: str = Field(description="The first question.")
    book_ids: list[int] = Field(description="The books it began over; empty: all books.")
    turns: int
    created_at: datetime
    last_at: datetime


class ConversationList(BaseModel):
    """Conversations, the one last spoken in first; 100 at most."""

    conversations: list[ConversationItem]


class TurnItem(BaseModel):
    """A question and what became of it."""

    id: int
    question: str = Field(description="As it was kept: personal data are struck out.")
    status: Literal["running", "done", "stopped", "failed", "interrupted"]
    draft: str = Field(description="What the model wrote, before it was checked.")
    answer: dict[str, Any] | None = Field(
        description="As in `completed` of `/api/ask`; with a `kind` (`hint`, `care`, `closed`) where it is none."
    )
    notice: str | None = Field(description="What went wrong, for people.")
    started_at: datetime


class ConversationBody(BaseModel):
    """A conversation with all its turns, oldest first."""

    id: int
    turns: list[TurnItem]


_MISSING: dict[int | str, dict[str, Any]] = {404: {"description": "No such conversation of this person."}}


@router.get("", response_description="The person's own conversations.")
def list_conversations(services: Services, account: Learner) -> ConversationList:
    """The conversations of who asks."""
    return ConversationList(conversations=[_item(each) for each in conversations_of(services.database, account.owner)])


@router.get("/{conversation_id}", response_description="The conversation.", responses=_MISSING)
def one_conversation(services: Services, account: Learner, conversation_id: int) -> ConversationBody:
    """A conversation of who asks."""
    turns = [
        TurnItem(
            id=turn.id,
            question=turn.question,
            status=turn.status,  # pyright: ignore[reportArgumentType]
            draft=turn.draft,
            answer=turn.answer,
            notice=turn.error,
            started_at=turn.started_at,
        )
        for turn in own_turns(services.database, account, conversation_id)
    ]
    return ConversationBody(id=conversation_id, turns=turns)


@router.delete("/{conversation_id}", status_code=204, response_description="It is deleted.", responses=_MISSING)
def remove_conversation(services: Services, account: Learner, conversation_id: int) -> None:
    """Deletes a conversation of who asks, with all its turns."""
    delete_own(services.database, account, conversation_id)


def _item(each: ConversationSummary) -> ConversationItem:
    return ConversationItem(
        id=each.id,
        title=each.title,
        book_ids=each.scope.get("book_ids") or [],
        turns=each.turns,
        created_at=each.created_at,
        last_at=each.last_at,
    )


def own_turns(database: Database, account: Account, conversation_id: int) -> list[PastTurn]:
    """The turns of a conversation of this person, oldest first.

    Raises:
        NotFound: no such conversation of this person, or its key is gone.
    """
    try:
        return past_turns(database, conversation_id, owner=account.owner)
    except (NotFound, KeyDestroyed) as error:
        raise NotFound(_NO_CONVERSATION) from error


def own_turn(database: Database, account: Account, turn_id: int) -> PastTurn:
    """A turn of this person.

    Raises:
        NotFound: no such turn of this person, or its key is gone.
    """
    try:
        return turn_for(database, turn_id, owner=account.owner)
    except (NotFound, KeyDestroyed) as error:
        raise NotFound("Không có câu trả lời này trong các cuộc trò chuyện của bạn.") from error


def delete_own(database: Database, account: Account, conversation_id: int) -> None:
    """Deletes a conversation of this person.

    Raises:
        NotFound: no such conversation of this person.
    """
    try:
        delete_conversation(database, conversation_id, owner=account.owner)
    except NotFound as error:
        raise NotFound(_NO_CONVERSATION) from error
