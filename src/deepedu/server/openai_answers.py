"""A turn for a program: asked as a pupil's is, told as one text with its sources, never the model's bare words.

What a program's user types is masked, and danger in it is met with care, exactly as on our own pages
(``tutor.guided``). The class's policy is not applied: which pupil stands behind a program nobody here knows.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any

from deepedu.base.personal_data import PLACEHOLDERS, PersonalKind, mask
from deepedu.llm.chat import Finished
from deepedu.school.api_keys import KeyAccount
from deepedu.school.classes import names_in_classes
from deepedu.server.openai_requests import SOURCES, SYSTEM_MESSAGES, ChatRequest
from deepedu.tutor.answer import NOT_IN_BOOK, Answer, Citation, Lesson, Status
from deepedu.tutor.guided import Cared, GuidedEvent, Masked, Pupil
from deepedu.tutor.hints import Policy
from deepedu.tutor.turn import Completed

_NO_SYSTEM = "Tin nhắn 'system' của chương trình không được dùng: gia sư trả lời theo quy tắc của trường."
_MASKED = "Câu hỏi có dữ liệu cá nhân, đã được thay trước khi lưu và trả lời bằng: {kinds}."


@dataclass(frozen=True)
class Told:
    """An answer for a program. ``pieces`` joined are the text; ``extension`` what our own field of it holds."""

    pieces: tuple[str, ...]
    extension: dict[str, Any] = field(default_factory=dict)
    finished: Finished | None = None

    @property
    def content(self) -> str:
        """The whole text, with the sources at its end."""
        return "".join(self.pieces)


async def turn_for_program(services: Any, account: KeyAccount, asked: ChatRequest) -> AsyncGenerator[GuidedEvent, None]:
    """The turn, kept as a conversation of the program's user; see ``GuidedTutor.ask``."""
    names = await asyncio.to_thread(names_in_classes, services.database, account)
    latest = asked.history[max(0, len(asked.history) - services.settings.tutor.history_turns) :]
    history = [(mask(said, class_names=names).text, mask(told, class_names=names).text) for said, told in latest]
    # The thread goes to the model and stands as evidence for nothing: answers are held against the books alone.
    pupil = Pupil(account.owner_of(asked.user), Policy.EXPLAIN, names)
    return services.guided.ask(asked.question, pupil, history=history)


async def answer_of(events: AsyncGenerator[GuidedEvent, None], asked: ChatRequest) -> Told:
    """Runs a turn to its end.

    Raises:
        StoreError, SearchError: as ``Tutor.ask``.
    """
    notes = [_NO_SYSTEM] if SYSTEM_MESSAGES in asked.ignored else []
    told: Told | None = None
    async with aclosing(events):
        async for event in events:
            match event:
                case Masked():
                    notes.append(_MASKED.format(kinds=", ".join(PLACEHOLDERS[PersonalKind(k)] for k in event.kinds)))
                case Cared():
                    told = Told((event.text,), _extension("care", notes))
                case Completed():
                    told = _told(event, notes)
                case _:
                    pass
    assert told is not None, "a turn that does not fail has an end"
    return told


def _told(completed: Completed, notes: Sequence[str]) -> Told:
    answer = completed.answer
    sources = _sources(answer)
    sentences = [
        {
            "text": sentence.text,
            "status": sentence.status.value,
            "source": sources.get(_place(sentence.citation)) if sentence.citation else None,
            "score": sentence.score,
            "reason": sentence.reason,
        }
        for sentence in answer.sentences
    ]
    extension = _extension("answer" if answer.found else "not_found", notes) | {
        "sources": [
            {"number": number, **asdict(citation)} for number, citation in enumerate(_cited(answer, sources), 1)
        ],
        "sentences": sentences,
        "nearest": [asdict(lesson) for lesson in answer.nearest],
        "notice": completed.notice,
    }
    pieces = _pieces(answer, sources)
    if completed.notice:
        pieces.append(f"\n\n({completed.notice})")
    return Told(tuple(pieces), extension, completed.finished)


def _extension(kind: str, notes: Sequence[str]) -> dict[str, Any]:
    return {"kind": kind, "sources": [], "sentences": [], "nearest": [], "notice": None, "notes": list(notes)}


_Place = tuple[int, int, int]


def _place(citation: Citation) -> _Place:
    return citation.passage_id, citation.start, citation.end


def _sources(answer: Answer) -> dict[_Place, int]:
    """Numbers of the quoted places that shown sentences stand on, in order."""
    shown = [s.citation for s in answer.sentences if answer.found and s.status is not Status.UNSUPPORTED and s.citation]
    return {place: number for number, place in enumerate(dict.fromkeys(map(_place, shown)), 1)}


def _cited(answer: Answer, sources: dict[_Place, int]) -> list[Citation]:
    found = {_place(s.citation): s.citation for s in reversed(answer.sentences) if s.citation}
    return [found[place] for place in sources]


def _pieces(answer: Answer, sources: dict[_Place, int]) -> list[str]:
    if not answer.found:
        lessons = "".join(f"\n- {_where(lesson)}" for lesson in answer.nearest)
        return [NOT_IN_BOOK, *([f"\n\nCó thể đọc thêm:{lessons}"] if lessons else [])]
    pieces: list[str] = []
    for sentence in answer.sentences:
        if sentence.status is Status.UNSUPPORTED:
            continue
        marker = f" [{sources[_place(sentence.citation)]}]" if sentence.citation else ""
        pieces.append(f"{' ' if pieces else ''}{sentence.text}{marker}")
    lines = [f"[{n}] {_where(each)}: “{each.quote}”" for n, each in enumerate(_cited(answer, sources), 1)]
    return [*pieces, SOURCES + "\n".join(lines)] if lines else pieces


def _where(place: Citation | Lesson) -> str:
    """ "Khoa học tự nhiên 6, Chương I, Bài 3, trang 12"."""
    page = f"trang {place.page_label}" if place.has_pages else None
    return ", ".join(part for part in (place.book, place.chapter, place.lesson, page) if part)
