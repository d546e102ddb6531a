"""What the playbook has for a question: bullets to show, the passages they stand on, and which the answer rests on."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deepedu.base.config import PlaybookSettings
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Bullet, BulletScope
from deepedu.playbook.duplicates import shingles
from deepedu.playbook.select import BulletIndex, Chosen, render
from deepedu.search.evidence import Evidence, Scope
from deepedu.search.passages import load_quoted
from deepedu.store import Database
from deepedu.store.library import document_digests
from deepedu.tutor.answer import Answer, Status
from deepedu.tutor.draft import BULLET_MARKER

# Share of a bullet's syllables and pairs from which on a sentence says what the bullet says.
_SAYS = 0.7


@dataclass(frozen=True)
class Learnt:
    """Bullets for one question. ``evidence``: passages that they stand on, for answers to be held against."""

    chosen: tuple[Chosen, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def text(self) -> str:
        """As the model reads them; empty without any."""
        return render(self.chosen)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the bullets, in the order in which they are shown."""
        return tuple(each.bullet.id for each in self.chosen)

    def used(self, draft: str, answer: Answer) -> tuple[str, ...]:
        """The bullets that a shown answer rests on: those its draft names, and those that a sentence says again."""
        if not answer.found:
            return ()
        named = {bullet_id for match in BULLET_MARKER.finditer(draft) for bullet_id in _ids(match.group())}
        shown = [sentence.text for sentence in answer.sentences if sentence.status is Status.SUPPORTED]
        said = [shingles(text) for text in shown]
        used: list[str] = []
        for each in self.chosen:
            mine = shingles(each.bullet.text)
            if each.bullet.id in named or any(len(mine & other) >= _SAYS * len(mine) for other in said if mine):
                used.append(each.bullet.id)
        return tuple(used)


class Bullets(Protocol):
    """Where a tutor's bullets come from."""

    def learnt_for(self, question: str, scope: Scope, found: Sequence[Evidence]) -> Learnt:
        """Bullets for a question that is asked in a scope, with the passages found for it, best first.

        Raises:
            StoreError, PlaybookError: the database failed, or the history in it is damaged.
        """
        ...


class GivenBullets:
    """The same bullets for every question: to see what they do to an answer."""

    def __init__(self, bullets: Sequence[Bullet], database: Database) -> None:
        self._chosen = tuple(Chosen(bullet, 1.0, 1.0, 1.0) for bullet in bullets)
        self._database = database

    def learnt_for(self, question: str, scope: Scope, found: Sequence[Evidence]) -> Learnt:  # noqa: ARG002
        """See ``Bullets``."""
        return Learnt(self._chosen, _evidence(self._database, self._chosen, found))


class BulletSource:
    """Chooses bullets from the newest version of a book. Safe to share between threads."""

    def __init__(self, book: Playbook, database: Database, settings: PlaybookSettings) -> None:
        self._book, self._database, self._settings = book, database, settings
        self._lock = threading.Lock()
        self._version, self._index = -1, BulletIndex(())

    def learnt_for(self, question: str, scope: Scope, found: Sequence[Evidence]) -> Learnt:
        """See ``Bullets``."""
        budget, limit = self._settings.bullet_tokens, self._settings.bullets
        index = self._newest()
        if not (len(index) and budget and limit):
            return Learnt()
        chosen = index.select(question, self._place(scope, found), budget_tokens=budget, limit=limit)
        return Learnt(chosen, _evidence(self._database, chosen, found))

    def _newest(self) -> BulletIndex:
        version = self._book.version
        with self._lock:
            if version != self._version:
                self._index, self._version = BulletIndex.of(self._book.state()), version
            return self._index

    def _place(self, scope: Scope, found: Sequence[Evidence]) -> BulletScope:
        if not found:
            return BulletScope(grade=scope.grade, subject=scope.subject)
        first = found[0]
        digest = document_digests(self._database, [first.book_id]).get(first.book_id)
        return BulletScope(grade=scope.grade, subject=scope.subject, book=digest, lesson=first.lesson)


def _evidence(database: Database, chosen: Sequence[Chosen], found: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The passages that bullets stand on, those left out that search has found."""
    inside = {item.passage_id for item in found}
    evidence: dict[int, Evidence] = {}
    with database.read() as session:
        for quote in (each for one in chosen for each in one.bullet.evidence if each.type == "passage"):
            place = load_quoted(session, quote.book, quote.page, quote.quote)
            if place is not None and place[0].passage_id not in inside:
                evidence[place[0].passage_id] = place[0]
    return tuple(evidence.values())


def _ids(marker: str) -> list[str]:
    return [piece.strip(" ()[]") for piece in marker.replace(";", ",").split(",")]
