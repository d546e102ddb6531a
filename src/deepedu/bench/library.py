"""Books made of ready-cut texts, written through the product's own tables and index."""

import hashlib
from collections.abc import Sequence

from deepedu.base.vietnamese import estimate_tokens
from deepedu.store import Database, text_index
from deepedu.store.tables import Book, Passage, Section


def add_book(database: Database, title: str, texts: Sequence[str], *, section_passages: int | None = None) -> list[int]:
    """Adds one ready book without pages, each text one passage.

    Args:
        section_passages: how many texts make a section without a title; None: all.

    Returns:
        The passage ids, in the order of ``texts``.
    """
    digest = hashlib.sha256("\0".join([title, *texts]).encode()).hexdigest()
    with database.write() as session:
        book = Book(sha256=digest, source_name=title, format="text", title=title, has_pages=False, status="ready")
        session.add(book)
        session.flush()
        size = section_passages or max(1, len(texts))
        sections = [
            Section(book_id=book.id, ordinal=ordinal, kind="part", title="", first_page=1, last_page=1)
            for ordinal in range(max(1, -(-len(texts) // size)))
        ]
        session.add_all(sections)
        session.flush()
        passages = [
            Passage(
                book_id=book.id,
                section_id=sections[ordinal // size].id,
                ordinal=ordinal,
                text=text,
                heading="",
                tokens=estimate_tokens(text),
                first_page=1,
                last_page=1,
                spans=[[0, len(text), 1, 0]],
            )
            for ordinal, text in enumerate(texts)
        ]
        session.add_all(passages)
        session.flush()
        text_index.index_book(session, book.id)
        return [passage.id for passage in passages]
