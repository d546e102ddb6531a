"""One turn: question -> passages -> prompt -> streamed draft -> checked answer.

The turn is kept from its first moment, so a crash loses no question and no draft. A model that fails does not fail
the pupil: the answer is then made of the book's own sentences, and says so.
"""

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any

from deepedu.base.config import TutorSettings
from deepedu.base.errors import BadRequest, ContextLengthExceeded, DeepEduError, LLMError, PlaybookError
from deepedu.base.vietnamese import sentence_spans, words
from deepedu.llm.chat import ChatModel, Delta, Finished
from deepedu.llm.prefix_cache import PrefixCache
from deepedu.search.evidence import Evidence, Scope
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.conversations import finish_turn, past_turns, save_draft, start_turn
from deepedu.tutor.answer import Answer, CheckedSentence
from deepedu.tutor.context import (
    TOO_LONG_FOR_MODEL,
    Context,
    ContextPolicy,
    ContextUse,
    passages_context,
    telling,
    use_of,
)
from deepedu.tutor.grounding import Grounder
from deepedu.tutor.learnt import Bullets, Learnt

log = logging.getLogger(__name__)

LONGEST_QUESTION = 2000
DRAFT_SAVE_INTERVAL_S = 1.0
# Passages that sentences are held against; the model is shown fewer (TutorSettings.passages).
HELD_PASSAGES = 8
SEARCHED_PASSAGES = 12

# A short question with one of these most often speaks of what the question before was about. Typed without accents,
# only the pairs are telling: "ba" alone is as well three as she.
_BACK_REFERENCE = re.compile(
    r"\b(nó|họ|ấy|đó|vậy|thế còn)\b|^còn\b"
    r"|\b((ong|ba|co|anh|chi|chu|nguoi) ay|(cai|dieu|viec|nguoi|noi) do|the con|vay con)\b"
)

# Without one of these no sentence ends.
_MAY_END = re.compile(r"[.!?…。！？\n]")


@dataclass(frozen=True)
class Started:
    """The question is kept."""

    conversation_id: int
    turn_id: int


@dataclass(frozen=True)
class Found:
    """Passages in marker order; the first ``shown`` of them are shown to the model."""

    evidence: tuple[Evidence, ...]
    shown: int
    search_ms: float


@dataclass(frozen=True)
class Draft:
    """A piece of the model's text, not checked yet."""

    text: str


@dataclass(frozen=True)
class Checked:
    """A sentence of the draft is complete; its verdict may still be replaced by the final answer."""

    sentence: CheckedSentence


@dataclass(frozen=True)
class Completed:
    """The end. ``notice`` tells in Vietnamese what went wrong with the model when the book had to answer alone;
    ``context`` what the model read, None when nothing was found. ``bullets_shown`` and ``bullets_used`` are ids of the
    playbook's bullets that the model was given and that the answer rests on."""

    answer: Answer
    finished: Finished | None
    notice: str | None
    total_ms: float
    context: ContextUse | None = None
    bullets_shown: tuple[str, ...] = ()
    bullets_used: tuple[str, ...] = ()


Event = Started | Found | Draft | Checked | Completed


class Tutor:
    """Answers questions from the library with one model."""

    def __init__(
        self,
        database: Database,
        search: Search,
        model: ChatModel,
        settings: TutorSettings,
        cache: PrefixCache | None = None,
        bullets: Bullets | None = None,
        *,
        keeps_turns: bool = True,
    ) -> None:
        """``cache``: the model's prefix cache, where whole lessons may be warm. ``bullets``: what was learnt.
        ``keeps_turns``: False for questions that no pupil asked; they have no conversation."""
        self.database = database
        self.search = search
        self.model = model
        self.settings = settings
        self._bullets = bullets
        self.keeps_turns = keeps_turns
        self._contexts = ContextPolicy(database, settings, cache)
        # Makes owners that tell nothing: neither who asks nor, on a shared engine, which data folder it is.
        self._salt = secrets.token_bytes(16)

    async def ask(
        self,
        question: str,
        *,
        scope: Scope | None = None,
        conversation_id: int | None = None,
        owner: str | None = None,
        asks: str | None = None,
        history: Sequence[tuple[str, str]] | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Runs a turn. Closing the generator stops the model and keeps the turn as ``stopped``.

        Args:
            owner: whose conversation it is; None without accounts.
            asks: what is answered, where ``question`` is only the last word on it.
            history: questions with their answers, oldest first, where the asker keeps them; None: the conversation's.
            beside: what is kept with the answer, for the page.

        Raises:
            BadRequest: an empty or overlong question.
            NotFound: no such conversation of this owner.
            StoreError, SearchError: the library itself failed; the turn is kept as ``failed``.
        """
        question = clean_question(question)
        scope = scope or Scope()
        begin = time.perf_counter()
        past = await self._history(conversation_id, owner) if history is None else self._latest(history)
        ids = (0, 0)
        if self.keeps_turns:
            ids = await asyncio.to_thread(
                start_turn, self.database, question, asdict(scope), conversation_id, owner=owner
            )
        run = _Run(self, ids[1], self._owner(ids[0]), beside or {})
        try:
            yield Started(*ids)
            async with aclosing(self._answer(run, asks or question, past, scope, begin)) as events:
                async for event in events:
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            run.close("stopped")
            raise
        except DeepEduError as error:
            run.close("failed", error=str(error))
            raise

    def find(self, question: str, scope: Scope) -> list[Evidence]:
        """Passages for a question. A lesson in ``scope`` that says nothing of it is left for the rest of its book."""
        found = self.search.search(question, scope=scope, limit=SEARCHED_PASSAGES)
        if scope.section_id is not None and not telling(question, found):
            found = self.search.search(question, scope=replace(scope, section_id=None), limit=SEARCHED_PASSAGES)
        return found

    async def _answer(
        self, run: "_Run", question: str, history: list[tuple[str, str]], scope: Scope, begin: float
    ) -> AsyncGenerator[Event, None]:
        full_question = _with_context(question, history)
        found = await asyncio.to_thread(self.find, full_question, scope)
        found = telling(question, found)[:HELD_PASSAGES]
        learnt = await self._learnt(full_question, scope, found)
        # What bullets stand on comes last: an answer may be held against it, the model reads the bullets instead.
        found += learnt.evidence
        context = await self._contexts.choose(question, found)
        search_ms = (time.perf_counter() - begin) * 1000
        notice: str | None = None
        finished: Finished | None = None
        passages, shown = self.settings.passages, 0
        if not found:
            yield Found((), 0, search_ms)
        grounder = _grounder(full_question, context)
        while found:
            budget = self.settings.prompt_tokens
            prompt = context.prompt(question, history, passages=passages, budget_tokens=budget, learnt=learnt.text)
            shown = len(prompt.shown)
            yield Found(context.evidence, shown, search_ms)
            try:
                reply = self.model.stream(prompt.messages, max_tokens=self.settings.answer_tokens, owner=run.owner)
                async with aclosing(reply):
                    async for event in reply:
                        if isinstance(event, Finished):
                            finished = event
                            continue
                        # Kept before it is handed out: whoever closes this generator ends it at the yield.
                        complete = await run.take(event)
                        yield Draft(event.text)
                        for sentence in complete:
                            checked = (await grounder).check_sentence(sentence)
                            if checked is not None:
                                yield Checked(checked)
                break
            except ContextLengthExceeded as error:
                # Passages may fit where the lesson did not, and fewer of them without history where more did not.
                if context.lesson is not None:
                    context = passages_context(found, TOO_LONG_FOR_MODEL)
                    grounder = _grounder(full_question, context)
                    log.warning("the lesson did not fit the model's window; asking with passages")
                    continue
                if not history and shown == 1:
                    notice = _notice(error)
                    break
                history, passages = [], max(1, shown // 2)
                log.warning("the prompt did not fit the model's window; asking with %d passages", passages)
            except LLMError as error:
                log.warning("answering from the book alone: %s", error)
                notice = _notice(error)
                break
        draft = run.draft
        answer = await asyncio.to_thread((await grounder).finish, draft)
        use = use_of(context, shown, finished) if found else None
        shown_bullets, used_bullets = learnt.ids, learnt.used(draft, answer)
        kept = answer.to_json() | dict(run.beside) | ({"context": use.to_json()} if use else {})
        if shown_bullets:
            kept["bullets"] = {"shown": list(shown_bullets), "used": list(used_bullets)}
        model = finished.model if finished else None
        await asyncio.to_thread(run.close, "done", answer=kept, error=notice, model=model)
        yield Completed(
            answer, finished, notice, (time.perf_counter() - begin) * 1000, use, shown_bullets, used_bullets
        )

    async def _learnt(self, question: str, scope: Scope, found: Sequence[Evidence]) -> Learnt:
        """Bullets for the question. A playbook that cannot be read fails no pupil: there are none then."""
        if self._bullets is None or not found:
            return Learnt()
        try:
            return await asyncio.to_thread(self._bullets.learnt_for, question, scope, found)
        except PlaybookError as error:
            log.warning("answering without the playbook: %s", error)
            return Learnt()

    def _owner(self, conversation_id: int) -> str:
        """Whose private turns these are, to the model's server."""
        digest = hashlib.blake2b(str(conversation_id).encode(), key=self._salt, digest_size=12)
        return f"c-{digest.hexdigest()}"

    def _latest(self, history: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        return list(history[max(0, len(history) - self.settings.history_turns) :])

    async def _history(self, conversation_id: int | None, owner: str | None) -> list[tuple[str, str]]:
        if conversation_id is None or self.settings.history_turns == 0:
            return []
        turns = await asyncio.to_thread(
            past_turns, self.database, conversation_id, self.settings.history_turns, owner=owner
        )
        return [(turn.question, str(turn.answer["text"])) for turn in turns if turn.answer is not None]


class _Run:
    """The turn in progress: its draft, kept now and then, and how far sentences have been handed out."""

    def __init__(self, tutor: Tutor, turn_id: int, owner: str, beside: Mapping[str, Any]) -> None:
        self._tutor = tutor
        self.beside = beside
        self.owner = owner
        self._turn_id = turn_id
        self._saved_at = time.monotonic()
        self._handed_out = 0
        # Where the sentence that still grows begins.
        self._open_at = 0
        self._closed = False
        self.draft = ""

    async def take(self, delta: Delta) -> list[str]:
        """Adds to the draft; returns the sentences that this completed."""
        self.draft += delta.text
        if self._tutor.keeps_turns and time.monotonic() - self._saved_at >= DRAFT_SAVE_INTERVAL_S:
            await asyncio.to_thread(save_draft, self._tutor.database, self._turn_id, self.draft)
            self._saved_at = time.monotonic()
        if not _MAY_END.search(self.draft, self._open_at):
            return []
        # The last sentence may still grow.
        *complete, (self._open_at, _) = sentence_spans(self.draft) or [(0, 0)]
        new = complete[self._handed_out :]
        self._handed_out = max(self._handed_out, len(complete))
        return [self.draft[start:end] for start, end in new]

    def close(self, status: str, **values: Any) -> None:
        """Keeps the end of the turn, once."""
        if not self._closed and self._tutor.keeps_turns:
            self._closed = True
            finish_turn(self._tutor.database, self._turn_id, status, draft=self.draft, **values)


def clean_question(question: str) -> str:
    """A question without needless spaces.

    Raises:
        BadRequest: it is empty or too long.
    """
    question = " ".join(question.split())
    if not question:
        raise BadRequest("Chưa có câu hỏi: hãy gõ điều em muốn hỏi.")
    if len(question) > LONGEST_QUESTION:
        raise BadRequest(
            f"Câu hỏi dài {len(question)} ký tự, nhiều nhất là {LONGEST_QUESTION}: hãy hỏi ngắn hơn, "
            "hoặc chia thành nhiều câu."
        )
    return question


def _with_context(question: str, history: Sequence[tuple[str, str]]) -> str:
    """The question, with the one before it in front when it speaks of something named there."""
    terms = words(question)
    refers_back = len(terms) <= 10 and _BACK_REFERENCE.search(" ".join(terms))
    return f"{history[-1][0]} {question}" if history and (refers_back or len(terms) <= 3) else question


def _grounder(question: str, context: Context) -> asyncio.Task[Grounder]:
    """Reads a whole lesson in 150 ms, while the model reads it too."""
    return asyncio.create_task(asyncio.to_thread(Grounder, question, context.evidence, context.ranks))


def _notice(error: LLMError) -> str:
    return f"Mô hình không trả lời được ({error.code}), nên câu trả lời chỉ gồm lời của sách."
