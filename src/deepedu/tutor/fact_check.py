"""Whether the ingested books bear a text that is to become a rule: every sentence, by the grounding of answers.

Stricter than an answer's check, because nobody looks at a rule again: a sentence must be one of the book's own
(``restating``). What grounding alone bears is left to a teacher.
"""

import asyncio
from collections.abc import Sequence

import sqlalchemy as sa

from deepedu.base.vietnamese import sentence_spans
from deepedu.playbook.bullet import BulletScope, PassageEvidence
from deepedu.playbook.problem import FactVerdict
from deepedu.search.evidence import Evidence, Scope
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.library import document_digests
from deepedu.store.tables import Book
from deepedu.tutor.answer import CheckedSentence, Status
from deepedu.tutor.grounding import Grounder
from deepedu.tutor.restating import restates

# Passages that each sentence is held against.
PASSAGES = 8


class BookFactCheck:
    """A ``playbook.problem.FactCheck`` over the library."""

    def __init__(self, database: Database, search: Search) -> None:
        self._database, self._search = database, search

    async def check(self, text: str, scope: BulletScope) -> FactVerdict:
        """See ``FactCheck``.

        Raises:
            StoreError: the library failed.
        """
        return await asyncio.to_thread(self._check, text, scope)

    def _check(self, text: str, scope: BulletScope) -> FactVerdict:
        where = Scope(self._books(scope), scope.grade, scope.subject)
        evidence: list[PassageEvidence] = []
        reasons: list[str] = []
        doubts: list[str] = []
        for start, end in sentence_spans(text):
            sentence = text[start:end]
            found = self._search.search(sentence, scope=where, limit=PASSAGES)
            found = [item for item in found if not item.is_exercise]
            checked = Grounder("", found).check_sentence(sentence) if found else None
            reason = _against(checked)
            if checked is None or checked.citation is None or reason is not None:
                reasons.append(f"“{sentence}”: {reason}")
                continue
            said = _said_again(sentence, found)
            if said is None:
                doubts.append(f"“{sentence}”: sách nói bằng lời khác, cần người đối chiếu")
                cited = checked.citation
                said = cited.book_id, cited.page, cited.quote
            evidence.append(self._quote(*said))
        if not evidence and not reasons:
            reasons.append("không có câu nào để đối chiếu với sách")
        return FactVerdict(
            evidence=tuple(dict.fromkeys(evidence)), reasons=tuple(reasons), doubts=() if reasons else tuple(doubts)
        )

    def _books(self, scope: BulletScope) -> tuple[int, ...] | None:
        if scope.book is None:
            return None
        with self._database.read() as session:
            return tuple(session.scalars(sa.select(Book.id).where(Book.sha256 == scope.book)))

    def _quote(self, book_id: int, page: int, quote: str) -> PassageEvidence:
        digest = document_digests(self._database, [book_id])[book_id]
        return PassageEvidence(book=digest, page=page, quote=quote)


def _against(checked: CheckedSentence | None) -> str | None:
    if checked is None:
        return "không nói điều gì có thể đối chiếu với sách"
    return None if checked.status is Status.SUPPORTED else checked.reason or "sách không nói như vậy"


def _said_again(sentence: str, found: Sequence[Evidence]) -> tuple[int, int, str] | None:
    """Book, page and words of the book's sentence that this one says again."""
    for item in found:
        for start, end in sentence_spans(item.text):
            if restates(sentence, item.text[start:end]):
                return item.book_id, item.place_of(start)[0], item.text[start:end]
    return None
