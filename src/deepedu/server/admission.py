"""Whether somebody may ask at this moment: consent is there, no other turn runs, and not too many were asked."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from deepedu.base.errors import AccountLocked, NotAllowed
from deepedu.school.accounts import Account
from deepedu.school.classes import has_consent
from deepedu.server.rates import Rate

T = TypeVar("T")

QUESTIONS, SECONDS = 12, 60
# A turn that was just stopped ends within moments: asking again at once must not be refused for it.
GRACE_S = 2.0
_STEP_S = 0.05


def may_learn(services: Any, account: Account) -> bool:
    """Whether this person may use the tutor: a pupil needs a guardian's consent where the school asks for it."""
    if account.role != "student" or not services.settings.school.needs_consent:
        return True
    return has_consent(services.database, account)


class Admission:
    """At most one running turn, and ``QUESTIONS`` in ``SECONDS``, for each account. Used from one event loop."""

    def __init__(self) -> None:
        self._rate = Rate(QUESTIONS, SECONDS)
        self._running: set[str] = set()

    async def admit(self, services: Any, account: Account | None) -> None:
        """Counts a question. Without accounts everybody is admitted.

        Raises:
            NotAllowed: no guardian's consent is on record.
            AccountLocked: another turn of this person runs, or it was one too many.
        """
        if account is None:
            return
        if not await asyncio.to_thread(may_learn, services, account):
            raise NotAllowed("Chưa có xác nhận đồng ý của cha mẹ hoặc người giám hộ: em hãy hỏi thầy cô chủ nhiệm.")
        for _ in range(round(GRACE_S / _STEP_S)):
            if account.owner not in self._running:
                break
            await asyncio.sleep(_STEP_S)
        self._refuse_second(account.owner)
        self._rate.take(account.owner)

    async def alone(self, account: Account | None, events: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The events of a turn, which counts as running until they end or are closed.

        Raises:
            AccountLocked: another turn of this person runs.
        """
        owner = account.owner if account is not None else None
        if owner is not None:
            self._refuse_second(owner)
            self._running.add(owner)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            if owner is not None:
                self._running.discard(owner)

    def _refuse_second(self, owner: str) -> None:
        if owner in self._running:
            told = "Câu hỏi trước vẫn đang được trả lời: hãy đợi trả lời xong, hoặc bấm Dừng rồi hỏi lại."
            raise AccountLocked(told, GRACE_S)


async def admission_of(request: Request) -> Admission:
    """The application's ``Admission``."""
    state = request.app.state
    if not hasattr(state, "admission"):
        state.admission = Admission()
    return state.admission


Admitting = Annotated[Admission, Depends(admission_of)]
