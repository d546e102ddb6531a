"""Items on their way into a quiz: read from a file, or being made from a lesson; kept until the teacher has chosen.

They lie in memory, bound to the teacher, and are forgotten after an hour. Nothing is written before it is chosen.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from fastapi import FastAPI, Request

from deepedu.base.errors import DeepEduError, NotFound
from deepedu.llm.chat import ChatModel, Delta, Finished, Message
from deepedu.school.accounts import Account
from deepedu.tutor.quiz import Item
from deepedu.tutor.quiz_bank import BankImport
from deepedu.tutor.quiz_making import MakingResult, Refused
from deepedu.tutor.quiz_shelf import QuizHead

KEPT_S = 60 * 60.0
# So many of a teacher's drafts are kept; making one reads a whole book.
_MOST_DRAFTS = 3
Status = Literal["making", "done", "failed", "cancelled"]


@dataclass
class ItemDraft:
    """``origin``: the file, or the lesson. ``asked``: how often a model was asked so far."""

    token: str
    account_id: int
    origin: str
    head: QuizHead
    # The quiz that the items are for; None: a new one.
    quiz_id: int | None = None
    status: Status = "done"
    items: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    wanted: int = 0
    error: str = ""
    asked: int = 0
    has_model: bool = False
    began_at: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def seconds(self) -> int:
        """How long ago it began."""
        return round(time.monotonic() - self.began_at)


class ItemDrafts:
    """All drafts. Safe to share between threads; items are made on the event loop, for one teacher at a time."""

    def __init__(self) -> None:
        self._drafts: dict[str, ItemDraft] = {}
        self._lock = threading.Lock()
        self._making = asyncio.Semaphore(1)

    def put(self, account: Account, origin: str, head: QuizHead, quiz_id: int | None, bank: BankImport) -> ItemDraft:
        """Keeps what a file held."""
        draft = ItemDraft(
            secrets.token_urlsafe(12),
            account.id,
            origin,
            head,
            quiz_id,
            items=bank.items,
            problems=tuple(problem.text for problem in bank.problems),
            skipped=bank.skipped,
        )
        return self._keep(draft)

    def make(
        self,
        account: Account,
        origin: str,
        head: QuizHead,
        quiz_id: int | None,
        wanted: int,
        model: ChatModel | None,
        work: Callable[[ChatModel | None], Awaitable[MakingResult]],
    ) -> ItemDraft:
        """Begins to make items in the background; called on the event loop."""
        draft = ItemDraft(secrets.token_urlsafe(12), account.id, origin, head, quiz_id, status="making", wanted=wanted)
        draft.has_model = model is not None
        draft.task = asyncio.create_task(self._run(draft, _Counted(model, draft) if model else None, work))
        return self._keep(draft)

    def get(self, account: Account, token: str) -> ItemDraft:
        """A teacher's draft.

        Raises:
            NotFound: none, another's, or forgotten by now: the three are not told apart.
        """
        with self._lock:
            self._forget_old()
            found = self._drafts.get(token)
        if found is None or found.account_id != account.id:
            raise NotFound("Bộ câu hỏi tạm này không còn (đã quá 1 giờ hoặc máy chủ khởi động lại): hãy làm lại.")
        return found

    def of(self, account: Account) -> list[ItemDraft]:
        """A teacher's drafts, newest first."""
        with self._lock:
            self._forget_old()
            return [draft for draft in reversed(self._drafts.values()) if draft.account_id == account.id]

    def drop(self, account: Account, token: str) -> None:
        """Forgets a draft; one that is being made is stopped. Called on the event loop.

        Raises:
            NotFound: as ``get``.
        """
        draft = self.get(account, token)
        with self._lock:
            self._drafts.pop(token, None)
        if draft.task is not None:
            draft.task.cancel()

    async def close(self) -> None:
        """Stops everything that is being made."""
        tasks = [draft.task for draft in self._drafts.values() if draft.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, draft: ItemDraft) -> ItemDraft:
        with self._lock:
            self._forget_old()
            own = [each for each in self._drafts.values() if each.account_id == draft.account_id]
            for old in own[: -(_MOST_DRAFTS - 1)]:
                if old.status != "making":
                    del self._drafts[old.token]
            self._drafts[draft.token] = draft
        return draft

    def _forget_old(self) -> None:
        oldest = time.monotonic() - KEPT_S
        self._drafts = {token: each for token, each in self._drafts.items() if each.began_at > oldest}

    async def _run(
        self, draft: ItemDraft, model: ChatModel | None, work: Callable[[ChatModel | None], Awaitable[MakingResult]]
    ) -> None:
        try:
            async with self._making:
                made = await work(model)
            draft.items, draft.refused, draft.status = made.items, made.refused, "done"
        except DeepEduError as error:
            draft.status, draft.error = "failed", str(error)
        except asyncio.CancelledError:
            draft.status = "cancelled"
            raise
        finally:
            if draft.status == "making":
                draft.status, draft.error = "failed", "Lỗi bên trong máy chủ; người quản trị xem nhật ký."


class _Counted:
    """A model that counts in a draft how often it was asked."""

    def __init__(self, model: ChatModel, draft: ItemDraft) -> None:
        self._model, self._draft = model, draft

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``."""
        self._draft.asked += 1
        async with aclosing(self._model.stream(messages, max_tokens=max_tokens, owner=owner)) as reply:
            async for event in reply:
                yield event


@asynccontextmanager
async def keep_drafts(app: FastAPI) -> AsyncIterator[None]:
    """The lifespan of the application's drafts."""
    app.state.item_drafts = ItemDrafts()
    yield
    await app.state.item_drafts.close()


def drafts_of(request: Request) -> ItemDrafts:
    """The application's drafts."""
    return request.app.state.item_drafts
