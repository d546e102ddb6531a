"""Practice: which items a pupil gets to come back to a skill.

They come from quizzes whose keys the pupil may see by now, and from the lesson itself, made by code. An item that
stands in any quiz of the pupil's whose keys are not to be seen yet is never among them.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from deepedu.base.errors import KeyDestroyed
from deepedu.search.evidence import Evidence
from deepedu.search.passages import load_section
from deepedu.store import Database
from deepedu.store.library import document_digests
from deepedu.store.tables import Book, Section, StoredAttempt
from deepedu.tutor.assignments import assignment_for, assignments_of
from deepedu.tutor.classwork import score_of, works_of
from deepedu.tutor.quiz import Item
from deepedu.tutor.quiz_making import Kind, make_items

PRACTICE_ITEMS = 5
_KINDS: tuple[Kind, ...] = ("choice", "short", "true_false")


@dataclass(frozen=True)
class Pool:
    """Items of past quizzes by skill, each with its quiz's subject; and ids of items that must not come up."""

    by_skill: Mapping[str, Sequence[tuple[Item, str | None]]]
    closed_ids: frozenset[str]


def pool_of(database: Database, class_ids: Sequence[int], learner_id: str, at: datetime) -> Pool:
    """What the quizzes given to a pupil's classes hold for practice at a moment."""
    works = works_of(database, learner_id)
    open_items: dict[str, tuple[Item, str | None]] = {}
    closed_ids: set[str] = set()
    for assignment in assignments_of(database, class_ids):
        _, quiz = assignment_for(database, class_ids, assignment.id)
        is_done = works.get(assignment.id) is not None or assignment.is_over(at)
        if is_done and assignment.may_show_keys(at):
            open_items |= {item.id: (item, quiz.subject) for item in quiz.items if item.skill}
        else:
            closed_ids |= {item.id for item in quiz.items}
    by_skill: dict[str, list[tuple[Item, str | None]]] = {}
    for item, subject in open_items.values():
        if item.id not in closed_ids:
            by_skill.setdefault(item.skill, []).append((item, subject))
    return Pool(by_skill, frozenset(closed_ids))


async def choose_items(
    pool: Pool,
    lessons: Mapping[str, Sequence[Evidence]],
    last_scores: Mapping[str, float],
    skills: Sequence[str],
    *,
    digests: Mapping[int, str],
    seed: int | str,
    count: int = PRACTICE_ITEMS,
) -> list[tuple[Item, str | None]]:
    """Up to ``count`` items of some skills in turn, the first skill first; each with its quiz's subject.

    What was never answered, or answered worst the last time, comes first; where the quizzes hold no more, code makes
    items from the skill's lesson.

    Args:
        lessons: the passages of a skill's lesson, where the library has it.
        last_scores: the score of the last answer by item id.
        seed: another one gives another choice.
    """
    ranked = {
        skill: sorted(
            pool.by_skill.get(skill, ()),
            key=lambda pair: (last_scores.get(pair[0].id, -1.0), _draw(seed, pair[0].id)),
        )
        for skill in skills
    }
    chosen: list[tuple[Item, str | None]] = []
    while len(chosen) < count and any(ranked.values()):
        chosen += [pairs.pop(0) for pairs in ranked.values() if pairs][: count - len(chosen)]
    for skill in skills:
        for kind in _KINDS:
            if len(chosen) < count and lessons.get(skill):
                chosen += await _made(pool, lessons[skill], skill, kind, chosen, count, digests=digests, seed=seed)
    return chosen


async def _made(
    pool: Pool,
    passages: Sequence[Evidence],
    skill: str,
    kind: Kind,
    chosen: Sequence[tuple[Item, str | None]],
    count: int,
    *,
    digests: Mapping[int, str],
    seed: int | str,
) -> list[tuple[Item, str | None]]:
    wanted = count - len(chosen)
    existing = [item for item, _ in chosen]
    made = await make_items(
        None, passages, kind=kind, count=wanted, existing=existing, digests=digests, seed=f"{seed} {skill}"
    )
    # A lesson may name its skill otherwise than its heading does.
    items = [item.model_copy(update={"skill": skill}) for item in made.items]
    return [(item, None) for item in items if item.id not in pool.closed_ids]


def lessons_of(database: Database, skills: Sequence[str]) -> dict[str, tuple[Evidence, ...]]:
    """The passages of the lessons that skills are named after, where a ready book has such a lesson."""
    found: dict[str, tuple[Evidence, ...]] = {}
    with database.read() as session:
        rows = session.scalars(
            sa.select(Section)
            .join(Book, Book.id == Section.book_id)
            .where(Book.status == "ready", Section.kind == "lesson")
            .order_by(Section.id)
        )
        wanted = set(skills)
        for section in rows:
            if section.display in wanted and section.display not in found:
                found[section.display] = load_section(session, section.id)
    return {skill: passages for skill, passages in found.items() if passages}


def last_scores(database: Database, learner_id: str) -> dict[str, float]:
    """The score of a pupil's last answer to each item, by item id."""
    scores: dict[str, float] = {}
    with database.read() as session:
        rows = session.scalars(
            sa.select(StoredAttempt)
            .where(StoredAttempt.learner_id == learner_id)
            .order_by(StoredAttempt.at, StoredAttempt.id)
        )
        for row in rows:
            try:
                scores[row.item_id] = score_of(database, row)
            except KeyDestroyed:
                continue
    return scores


async def practice_items(
    database: Database, class_ids: Sequence[int], learner_id: str, skills: Sequence[str], at: datetime
) -> list[tuple[Item, str | None]]:
    """A short practice of some skills for a pupil; see ``choose_items``. Empty where there is nothing to ask."""

    def read() -> tuple[Pool, dict[str, tuple[Evidence, ...]], dict[str, float], dict[int, str]]:
        lessons = lessons_of(database, skills)
        books = {passage.book_id for passages in lessons.values() for passage in passages}
        return (
            pool_of(database, class_ids, learner_id, at),
            lessons,
            last_scores(database, learner_id),
            document_digests(database, books),
        )

    pool, lessons, scores, digests = await asyncio.to_thread(read)
    return await choose_items(pool, lessons, scores, skills, digests=digests, seed=f"{learner_id} {at.isoformat()}")


def _draw(*parts: object) -> bytes:
    return hashlib.sha256("\x00".join(map(str, parts)).encode()).digest()
