"""A book of one passage, for tests of the store."""

from deepedu.store import Database, text_index
from deepedu.store.tables import Book, Passage, Section


def add_book(database: Database, sha256: str, text: str, *, status: str = "ready") -> int:
    with database.write() as session:
        book = Book(sha256=sha256, source_name=f"{sha256}.txt", format="text", title=sha256, status=status)
        session.add(book)
        session.flush()
        section = Section(book_id=book.id, ordinal=0, kind="lesson", title="Bài", first_page=1, last_page=1)
        session.add(section)
        session.flush()
        session.add(
            Passage(
                book_id=book.id,
                section_id=section.id,
                ordinal=0,
                text=text,
                heading="Bài 1",
                tokens=5,
                first_page=1,
                last_page=1,
                spans=[[0, len(text), 1, 0]],
            )
        )
        session.flush()
        if status == "ready":
            text_index.index_book(session, book.id)
        return book.id
