"""A library finds the same passages in the same order on SQLite and on PostgreSQL."""

import random
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from small_library import Library

from deepedu.base.config import IngestSettings
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.search import lexical
from deepedu.search.evidence import Scope
from deepedu.search.lexical import LexicalRetriever
from deepedu.store import text_index
from deepedu.store.tables import Passage
from deepedu.store.terms import COLUMNS
from postgres_server import PostgresServer

ANY = Scope()
QUESTIONS = (
    "Nước sôi ở bao nhiêu độ?",
    "nuoc soi o bao nhieu do",
    "Vì sao nước đá nổi trên mặt nước?",
    "vi sao nuoc da noi",
    "Quang hợp diễn ra ở đâu?",
    "quang hop la gi",
    "Em hãy trình bày về ba thể của chất",
    "the ran the long the khi",
    "đường thẳng song song",
    "duong thang song song",
    "phương trình bậc hai có mấy nghiệm",
    "năm 1954",
    "sông Hồng",
    "ma má mã mạ",
    'NOT nước OR {words}: "sôi" \' % ;--',
    "100 °C 5km H₂O",
    "không có từ nào như xyzzyx",
    "",
)
VOCABULARY = """
nước sôi độ đá nổi nặng quang hợp lá cây ánh sáng chất thể rắn lỏng khí đường thẳng song song phương trình bậc hai
nghiệm sông Hồng đồng bằng má mã ma mạ năm 1954 1954 100 5km H₂O nuoc soi va cua là của ở các những
"""


def random_texts(count: int, seed: int) -> list[str]:
    """Passages of few words, so that many hold the same ones equally often: the order of equals is told apart too."""
    draw = random.Random(seed)
    words = VOCABULARY.split()
    return [
        " ".join(" ".join(draw.choices(words, k=draw.randint(2, 14))).capitalize() + "." for _ in range(count % 3 + 2))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def libraries(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LexicalRetriever, LexicalRetriever]]:
    """The same books on SQLite and on PostgreSQL: the sample textbook, drawn ones, and one that went again."""
    folder = tmp_path_factory.mktemp("both")
    both = Library(folder / "a", f"sqlite:///{folder / 'a.sqlite3'}"), Library(folder / "b", postgres.url("search"))
    for library in both:
        (outcome,) = ingest(library.db, [SAMPLE_PDF], IngestSettings())
        assert outcome.status == "added"
        gone, _ = library.add("Sách cũ", random_texts(20, 0))
        library.add("Khoa học 6", random_texts(150, 1), heading="Chương 1 > Bài 2. Nước đá", grade=6)
        library.add("Toán 9", random_texts(150, 2), heading="Bài 5. Phương trình bậc hai", grade=9)
        library.add("Chưa đọc xong", random_texts(9, 3), status="reading")
        library.delete(gone)
    yield LexicalRetriever(both[0].db), LexicalRetriever(both[1].db)
    for library in both:
        library.db.close()


@pytest.mark.parametrize("large", [1000, 10])
@pytest.mark.parametrize("scope", [ANY, Scope(grade=6)], ids=["all", "grade"])
def test_the_same_passages_in_the_same_order(libraries, scope: Scope, large: int, monkeypatch) -> None:
    monkeypatch.setattr(lexical, "LARGE", large)
    on_sqlite, on_postgres = libraries
    found = {question: on_sqlite.retrieve(question, scope, 50) for question in QUESTIONS}
    assert sum(len(passages) == 50 for passages in found.values()) >= 5, "enough to choose from"
    assert {question: on_postgres.retrieve(question, scope, 50) for question in QUESTIONS} == found


def test_the_index_itself_ranks_alike(libraries) -> None:
    weights = (1.0, 0.9, 0.4, 0.36, 1.0, 0.9)
    proposals = []
    for retriever in libraries:
        with retriever._db.read() as session:
            alternatives = [("words heading", "nước"), ("folded heading_folded", "nuoc"), ("pairs", "nước_đá")]
            found = text_index.match(session, alternatives, weights, 400)
            frequencies = [text_index.document_frequencies(session, term) for term in ("nước", "nuoc", "nước_đá", "x")]
            stored = text_index.indexed(session, [each for each, _ in found])
            proposals.append((found, frequencies, stored, text_index.index_size(session)))
    (found, *rest), (same, *same_rest) = proposals
    assert len(found) > 100
    assert rest == same_rest
    assert [score for _, score in same] == pytest.approx([score for _, score in found], rel=1e-9)
    # Sums of floating numbers may differ in the last digit, and with it the order of passages that are equally good.
    assert {each for each, _ in same} == {each for each, _ in found}


def test_whatever_is_in_the_texts_and_questions(libraries) -> None:
    """Every sentence of the sample textbook is a question, as it stands and without its accents."""
    on_sqlite, on_postgres = libraries
    with on_sqlite._db.read() as session:
        texts = session.scalars(sa.select(Passage.text).order_by(Passage.id).limit(25)).all()
    for text in texts:
        question = text[:120]
        for typed in (question, lexical.fold(question)):
            assert on_postgres.retrieve(typed, ANY, 10) == on_sqlite.retrieve(typed, ANY, 10), typed


def test_each_column_is_indexed(libraries) -> None:
    with libraries[1]._db.read() as session:
        assert set(text_index.document_frequencies(session, "bậc")) == {"words", "heading"}
        assert set(text_index.document_frequencies(session, "bac")) == {"folded", "heading_folded"}
        assert set(text_index.document_frequencies(session, "phương_trình")) == {"pairs"}
        assert set(text_index.document_frequencies(session, "phuong_trinh")) == {"folded_pairs"} < set(COLUMNS)
