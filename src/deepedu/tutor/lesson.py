"""A lesson as the model reads it: all its passages in book order, the same to the letter whatever is asked.

That sameness is the point: a server that has computed a lesson once answers every later question about it without
reading it again. The tutor and the warming of books ahead of time take it from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from deepedu.base.config import TutorSettings
from deepedu.base.prefix_files import book_tag
from deepedu.base.vietnamese import estimate_tokens
from deepedu.llm.chat import Message, TextPart
from deepedu.search.evidence import Evidence
from deepedu.search.passages import load_section, sections_with_text
from deepedu.store import Database
from deepedu.store.library import document_digests
from deepedu.tutor.prompt import RULES


@dataclass(frozen=True)
class LessonText:
    """A lesson's passages in marker order and its text for the model; ``tokens`` are estimated. ``tag`` names its
    book's part of the cache."""

    section_id: int
    book_id: int
    title: str
    tag: str
    passages: tuple[Evidence, ...]
    text: str
    tokens: int


def load_lesson(database: Database, section_id: int) -> LessonText | None:
    """The lesson of a section; None where it has no text or its book is gone.

    Its exercises are left out: they ask pupils' questions again and answer none.

    Raises:
        StoreError: the database failed.
    """
    with database.read() as session:
        passages = tuple(item for item in load_section(session, section_id) if not item.is_exercise)
    if not passages:
        return None
    book_id = passages[0].book_id
    sha256 = document_digests(database, [book_id]).get(book_id)
    return None if sha256 is None else _lesson(section_id, passages, book_tag(sha256))


def load_lessons(database: Database, book_id: int) -> list[LessonText]:
    """All lessons of a book in reading order. Raises: StoreError: the database failed."""
    with database.read() as session:
        section_ids = sections_with_text(session, book_id)
    lessons = [load_lesson(database, section_id) for section_id in section_ids]
    return [lesson for lesson in lessons if lesson is not None]


def lesson_system(lesson: LessonText) -> Message:
    """The stable beginning of every prompt about a lesson: the rules and its text, shared by all pupils."""
    return Message("system", (TextPart(f"{RULES}\n\n{lesson.text}", shared=True, tag=lesson.tag),))


def lesson_opening(lesson: LessonText) -> tuple[Message, ...]:
    """A prompt about the lesson before anything is asked, for looking it up and warming it: chat templates want a
    user's message too."""
    return (lesson_system(lesson), Message("user", "Câu hỏi:"))


def misfit(lesson: LessonText, settings: TutorSettings) -> str | None:
    """Why a lesson is read as passages rather than whole, in Vietnamese; None when it is read whole."""
    if lesson.tokens > settings.lesson_tokens:
        return f"bài dài khoảng {lesson.tokens} token, giới hạn là {settings.lesson_tokens}"
    if len(lesson.passages) <= settings.passages:
        return "bài ngắn, các đoạn trích đã gồm cả bài"
    return None


def _lesson(section_id: int, passages: Sequence[Evidence], tag: str) -> LessonText:
    first = passages[0]
    # Not the book's title, which people correct: what is cached would be lost with it.
    title = first.lesson or first.chapter or ""
    marked = [f"[{marker}] {item.text}" for marker, item in enumerate(passages, 1)]
    text = "\n\n".join([f"Bài học: {title}", *marked] if title else marked)
    return LessonText(
        section_id, first.book_id, title or first.book, tag, tuple(passages), text, estimate_tokens(RULES + text)
    )
