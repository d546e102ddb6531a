"""Hints: what is said on a rung of the ladder, made by code from the book, worded by a model if there is one, checked.

Before anything is said, code works out what must not be said: the secret. The hint's text is made of the question, of
titles and of sentences that hold nothing of the secret. A model only words this text anew. It reads neither the
pupil's message nor the answer, and what it writes is held against the secret and against the text it was given.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from deepedu.base.errors import LLMError
from deepedu.llm.chat import ChatModel, Message, TextPart, whole_reply
from deepedu.search.evidence import Evidence
from deepedu.tutor.answer import Lesson
from deepedu.tutor.context import telling
from deepedu.tutor.hint_matter import Matter
from deepedu.tutor.hint_texts import hint_texts
from deepedu.tutor.hints import Decision, Ladder, Ladders, Policy, Rung, decide
from deepedu.tutor.pupil_intent import Kind, Subject, asks, content_words, question_in
from deepedu.tutor.rung_texts import answer_text, body, sources
from deepedu.tutor.secret import Secret, strays

log = logging.getLogger(__name__)

RULES = (
    "Bạn là gia sư. Viết lại lời gợi ý dưới đây cho học sinh bằng lời thân thiện, một đến ba câu, giữ nguyên ý và các "
    "từ trong ngoặc «». Không thêm thông tin, không thêm con số, không trả lời thay học sinh."
)
_WORDED = frozenset({Rung.IDEA, Rung.FIRST_STEP, Rung.EXAMPLE})
_WORDING_TOKENS = 200


@dataclass(frozen=True)
class Hint:
    """What the pupil is told. ``worded_by``: the model's name, or "code".

    ``sources`` are places in books without quotes. On the rung of the answer ``text`` is what code can say itself, and
    the caller adds the usual grounded answer.
    """

    text: str
    sources: tuple[Lesson, ...]
    rung: Rung | None
    worded_by: str


async def hint_for(
    decision: Decision,
    question: str,
    evidence: Sequence[Evidence],
    model: ChatModel | None = None,
    *,
    key: str | None = None,
    guarded: Sequence[Secret] = (),
) -> Hint:
    """The hint that a decision asks for. Code works beside the event loop, which only waits for the model.

    Args:
        question: the ladder's, not the pupil's last message.
        evidence: passages found for ``question``, best first.
        model: words the hint; None, failing, or saying too much: the code's own text is told.
        key: the right answer, where a teacher gave one.
        guarded: secrets of other questions that the pupil is still working on.
    """
    if decision.rung is None:
        text = hint_texts()["policies"]["exam_off"] if decision.policy is Policy.EXAM_OFF else ""
        return Hint(text, (), None, "code")

    def work_out() -> _Draft:
        return _draft(decision, Matter(question, evidence, key=key, guarded=guarded))

    draft = await asyncio.to_thread(work_out)
    wording = await _worded(model, draft)
    return await asyncio.to_thread(_hint, draft, wording)


@dataclass(frozen=True)
class _Draft:
    """A hint in the code's own words, ``text``, before a model words it anew."""

    decision: Decision
    matter: Matter
    rung: Rung
    text: str
    sources: tuple[Lesson, ...]


def _draft(decision: Decision, matter: Matter) -> _Draft:
    rung = decision.rung
    assert rung is not None, "the caller asks only where the ladder applies"
    text = answer_text(matter) if rung is Rung.ANSWER else body(matter, rung, decision.ladder.repeats)
    return _Draft(decision, matter, rung, text, sources(matter, rung))


async def _worded(model: ChatModel | None, draft: _Draft) -> tuple[str, str] | None:
    """The model's wording and its name. It is shown the code's text alone, so no pupil's words can sway it."""
    if model is None or draft.rung not in _WORDED:
        return None
    messages = [Message("system", (TextPart(RULES, shared=True),)), Message("user", f"Lời gợi ý: {draft.text}")]
    try:
        text, finished = await whole_reply(model, messages, max_tokens=_WORDING_TOKENS)
    except LLMError as error:
        log.warning("telling a hint in the code's own words: %s", error)
        return None
    return " ".join(text.split()), finished.model


def _hint(draft: _Draft, wording: tuple[str, str] | None) -> Hint:
    """The hint in the model's wording, where it may be told, else in the code's words."""
    text, worded_by = draft.text, "code"
    if wording is not None and not draft.matter.hides(wording[0]) and _keeps_to(wording[0], draft.text):
        text, worded_by = wording
    closing = "" if draft.rung is Rung.ANSWER else hint_texts()["closings"][draft.rung.name.lower()]
    whole = " ".join(filter(None, (opening(draft.decision), text, closing)))
    return Hint(whole, draft.sources, draft.rung, worded_by)


def opening(decision: Decision) -> str:
    """What is said first: of the pupil's result where one is judged, else of the way of asking."""
    name = str(decision.move)
    if decision.verdict is not None:
        name = "try_right" if decision.verdict else "try_wrong"
    texts: list[str] = hint_texts()["openings"][name]
    return texts[decision.ladder.repeats % len(texts)]


def _keeps_to(text: str, body: str) -> bool:
    """Whether a wording says what the hint says, and nothing else."""
    said, meant = set(content_words(text)), set(content_words(body))
    return len(said & meant) >= 0.5 * len(meant) and len(text) <= 2 * len(body) + 100 and not strays(text, body)


@dataclass(frozen=True)
class Step:
    """One message on the ladders: where the pupil stands then, why, and what is told."""

    ladders: Ladders
    decision: Decision
    hint: Hint


async def next_hint(
    ladders: Ladders,
    message: str,
    search: Callable[[str], Sequence[Evidence]],
    *,
    now: datetime,
    policy: Policy = Policy.TUTOR,
    model: ChatModel | None = None,
    key: str | None = None,
) -> Step:
    """One message of a pupil, from reading it to the hint. The event loop only waits for the model.

    Args:
        search: the passages for a question, best first; called in another thread.
        key: the right answer to the question, where a teacher gave one.
    """
    if policy is not Policy.TUTOR:
        # Nothing is kept of it: a question asked now starts its ladder when the class is taught by hints again.
        ladder = ladders.present or Ladder(message, Subject(Kind.OPEN, ()), now, now)
        decision = decide(ladder, message, policy=policy, now=now)
        return Step(ladders, decision, await hint_for(decision, ladder.question, ()))
    draft = await asyncio.to_thread(_decided, ladders, message, search, now, key)
    wording = await _worded(model, draft)
    return await asyncio.to_thread(_step, ladders, draft, wording)


def _decided(
    ladders: Ladders, message: str, search: Callable[[str], Sequence[Evidence]], now: datetime, key: str | None
) -> _Draft:
    def look_up(question: str) -> Matter:
        return Matter(question, telling(question, search(question)), key=key)

    asked, present = question_in(message), ladders.present
    matter = None if present is not None and not asks(asked) else look_up(asked)
    ladder = ladders.find(message, matter.subject(), now) if matter is not None else present
    assert ladder is not None, "a first message opens a ladder"
    if matter is None or ladder.question != asked:
        matter = look_up(ladder.question)
    decision = decide(ladder, message, now=now, verdict=matter.verdict(message))
    # What is still sought elsewhere in the same lesson must not be told by the way.
    open_ones = [one for one in ladders.kept if one.rung is not Rung.ANSWER and one.question != ladder.question]
    beside = [one for one in open_ones if one.subject.section == ladder.subject.section]
    matter.guarded = tuple(look_up(one.question).secret for one in beside[-4:])
    return _draft(decision, matter)


def _step(ladders: Ladders, draft: _Draft, wording: tuple[str, str] | None) -> Step:
    hint = _hint(draft, wording)
    told = draft.decision.ladder.after(hint.text)
    return Step(ladders.with_(told), replace(draft.decision, ladder=told), hint)
