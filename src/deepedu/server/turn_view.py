"""Turns as pages show them: what was told, each source with its quoted sentences marked, and what was said of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deepedu.search.evidence import Evidence
from deepedu.search.passages import load_passages
from deepedu.store import Database
from deepedu.store.conversations import PastTurn
from deepedu.store.tables import TurnSignal

# A stretch of a passage, and whether the answer quotes it.
Stretch = tuple[str, bool]


@dataclass(frozen=True)
class Source:
    """A passage that an answer cites. ``page`` is None for documents without pages.

    ``stretches`` is the whole passage; where it is not in the library any more, the quotes alone (``is_gone``).
    """

    passage_id: int
    marker: int
    book: str
    chapter: str | None
    lesson: str | None
    page: str | None
    quote: str
    stretches: tuple[Stretch, ...]
    is_gone: bool

    @property
    def place(self) -> str:
        """Book, chapter and lesson in one line."""
        return " · ".join(part for part in (self.book, self.chapter, self.lesson) if part)


@dataclass(frozen=True)
class TurnView:
    """A turn for the page. ``kind``: ``answer``, ``hint``, ``care``, ``closed``, or ``none`` when it came to none;
    ``answer`` as it was kept. ``said``: kinds of what the asker said of it."""

    id: int
    conversation_id: int
    question: str
    status: str
    kind: str
    answer: Mapping[str, Any]
    draft: str
    notice: str | None
    sources: tuple[Source, ...]
    said: frozenset[str]

    @property
    def copy_text(self) -> str:
        """Question, answer and places in the book as plain text."""
        places = [f"[{s.marker}] {s.place}" + (f", trang {s.page}" if s.page else "") for s in self.sources]
        return "\n".join([self.question, "", str(self.answer.get("text", "")), *([""] if places else []), *places])


def views_of(database: Database, turns: Sequence[PastTurn]) -> list[TurnView]:
    """Turns of one conversation, in the order given."""
    wanted = {c["passage_id"] for turn in turns for c in _citations(turn)}
    with database.read() as session:
        passages = load_passages(session, sorted(wanted))
        signals = session.execute(
            sa.select(TurnSignal.turn_id, TurnSignal.kind).where(
                TurnSignal.turn_id.in_([turn.id for turn in turns]), TurnSignal.author == ""
            )
        ).all()
    return [_view(turn, passages, frozenset(kind for of, kind in signals if of == turn.id)) for turn in turns]


def _view(turn: PastTurn, passages: Mapping[int, Evidence], said: frozenset[str]) -> TurnView:
    answer = turn.answer or {}
    return TurnView(
        id=turn.id,
        conversation_id=turn.conversation_id,
        question=turn.question,
        status=turn.status,
        kind=answer.get("kind", "answer") if answer else "none",
        answer=answer,
        draft=turn.draft,
        notice=turn.error,
        sources=tuple(_sources(turn, passages)),
        said=said,
    )


def _citations(turn: PastTurn) -> list[dict[str, Any]]:
    sentences = (turn.answer or {}).get("sentences", [])
    return [s["citation"] for s in sentences if s["citation"] and s["status"] != "unsupported"]


def _sources(turn: PastTurn, passages: Mapping[int, Evidence]) -> Iterable[Source]:
    cited: dict[int, list[dict[str, Any]]] = {}
    for citation in _citations(turn):
        cited.setdefault(citation["passage_id"], []).append(citation)
    for passage_id, citations in cited.items():
        first, passage = citations[0], passages.get(passage_id)
        # A book that was read anew has other passages.
        is_gone = passage is None or any(passage.text[c["start"] : c["end"]] != c["quote"] for c in citations)
        stretches = [(c["quote"], True) for c in citations] if passage is None or is_gone else None
        yield Source(
            passage_id=passage_id,
            marker=first["marker"],
            book=first["book"],
            chapter=first["chapter"],
            lesson=first["lesson"],
            page=first["page_label"] if first["has_pages"] else None,
            quote=first["quote"],
            stretches=tuple(stretches or _marked(passage.text if passage else "", citations)),
            is_gone=is_gone,
        )


def _marked(text: str, citations: Sequence[Mapping[str, Any]]) -> list[Stretch]:
    """The text in stretches that are quoted and that are not."""
    stretches: list[Stretch] = []
    done = 0
    for start, end in sorted({(c["start"], c["end"]) for c in citations}):
        if end <= done:
            continue
        start = max(start, done)
        stretches += [(text[done:start], False), (text[start:end], True)]
        done = end
    return [each for each in (*stretches, (text[done:], False)) if each[0]]
