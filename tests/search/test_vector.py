"""Search by meaning, with vectors that need no model."""

import numpy as np
import pytest
import sqlalchemy as sa

from deepedu.search.embed import embed_missing, passage_text
from deepedu.search.evidence import Scope
from deepedu.search.vector import VECTOR_DTYPE, VectorRetriever
from deepedu.store.tables import Embedding

ANY = Scope()
TEXTS = ["Nước sôi bốc hơi ở trăm độ.", "Vua dời đô về Thăng Long.", "Cây xanh quang hợp."]


@pytest.fixture
def retriever(library, embedder):
    return VectorRetriever(library.db, embedder)


def ids_of(found: list[tuple[int, float]]) -> list[int]:
    return [passage_id for passage_id, _ in found]


def test_nearest_first_and_cosines_are_true(library, embedder, retriever) -> None:
    _, ids = library.add("A", TEXTS)
    embed_missing(library.db, embedder)
    found = retriever.retrieve("vua dời đô", ANY, 2)
    assert len(found) == 2
    assert found[0][0] == ids[1]
    expected = float(embedder.embed_query("vua dời đô") @ embedder.embed_query(passage_text(TEXTS[1], "A", "")))
    assert found[0][1] == pytest.approx(expected, abs=2e-3)  # float16 keeps three digits.
    assert retriever.score("vua dời đô", [ids[1], 999]) == pytest.approx({ids[1]: found[0][1]})


def test_no_vectors_find_nothing(library, retriever) -> None:
    assert retriever.retrieve("vua", ANY, 5) == []
    assert retriever.score("vua", [1]) == {}
    _, ids = library.add("A", TEXTS)
    assert retriever.retrieve("vua", ANY, 5) == []
    assert retriever.score("vua", ids) == {}
    assert retriever.coverage() == (0, 3)


def test_scope_and_blank(library, embedder, retriever) -> None:
    first, first_ids = library.add("A", TEXTS, grade=6)
    library.add("B", TEXTS, grade=7)
    embed_missing(library.db, embedder)
    assert sorted(ids_of(retriever.retrieve("vua", Scope(grade=6), 10))) == first_ids
    assert sorted(ids_of(retriever.retrieve("vua", Scope(book_ids=(first,)), 10))) == first_ids
    assert retriever.retrieve("vua", Scope(book_ids=()), 10) == []
    assert retriever.retrieve("  ", ANY, 10) == []


def test_the_matrix_follows_the_library(library, embedder, retriever) -> None:
    book, ids = library.add("A", TEXTS)
    embed_missing(library.db, embedder)
    assert len(retriever.retrieve("vua", ANY, 10)) == 3
    _, more = library.add("B", ["Vua Hùng dựng nước."])
    embed_missing(library.db, embedder)
    assert set(ids_of(retriever.retrieve("vua", ANY, 10))) == {*ids, *more}
    library.delete(book)
    assert ids_of(retriever.retrieve("vua", ANY, 10)) == more


def test_a_replaced_set_of_the_same_size_is_noticed(library, embedder, retriever) -> None:
    book, ids = library.add("A", TEXTS)
    library.add("B", TEXTS[:1])
    embed_missing(library.db, embedder)
    with library.db.write() as session:
        session.execute(sa.delete(Embedding).where(Embedding.passage_id == ids[1]))
    assert ids[1] not in ids_of(retriever.retrieve("vua", ANY, 10))
    embed_missing(library.db, embedder)
    assert ids[1] in ids_of(retriever.retrieve("vua", ANY, 10))
    assert book


def test_other_models_and_other_lengths_are_left_out(library, embedder, retriever) -> None:
    _, ids = library.add("A", TEXTS)
    embed_missing(library.db, embedder)
    with library.db.write() as session:
        session.add(Embedding(passage_id=ids[0], model="test/other", vector=b"\0" * 8))
        odd = session.get_one(Embedding, (ids[2], embedder.name))
        odd.vector = np.zeros(3, VECTOR_DTYPE).tobytes()
        session.execute(sa.delete(Embedding).where(Embedding.passage_id == ids[1], Embedding.model == embedder.name))
    assert ids_of(retriever.retrieve("nước", ANY, 10)) == [ids[0]]


def test_a_question_is_embedded_once_though_others_ask_in_between(library, embedder, monkeypatch) -> None:
    _, ids = library.add("A", TEXTS)
    embed_missing(library.db, embedder)
    asked: list[str] = []
    embed_query = embedder.embed_query

    def counted(text: str) -> np.ndarray:
        asked.append(text)
        return embed_query(text)

    monkeypatch.setattr(embedder, "embed_query", counted)
    retriever = VectorRetriever(library.db, embedder)
    (best, *_) = retriever.retrieve("vua dời đô", ANY, 1)
    retriever.retrieve("cây xanh", ANY, 1)
    assert retriever.score("vua dời đô", [best[0]])[best[0]] == pytest.approx(best[1])
    assert asked == ["vua dời đô", "cây xanh"]
    # What was asked long ago is forgotten.
    for number in range(100):
        retriever.score(f"câu {number}", ids)
    retriever.score("vua dời đô", ids)
    assert (asked[-1], len(asked)) == ("vua dời đô", 103)
