"""Two rankings into one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepedu.search.fuse import PLAIN_SHARE, dense_weight, fuse

SCORES = st.dictionaries(st.integers(1, 30), st.floats(0, 50, allow_nan=False), max_size=30)


def order(ranked: list[tuple[int, float]]) -> list[int]:
    return [passage_id for passage_id, _ in ranked]


def test_without_meaning_the_words_rank_alone() -> None:
    assert fuse({1: 2.0, 2: 5.0, 3: 2.0}, {}, 0.5) == [(2, 5.0), (1, 2.0), (3, 2.0)]
    assert fuse({}, {}, 0.5) == []


def test_the_weight_decides() -> None:
    lexical, dense = {1: 10.0, 2: 5.0, 3: 0.0}, {1: 0.8, 2: 0.81, 3: 0.9}
    assert order(fuse(lexical, dense, 0.0)) == [1, 2, 3]
    assert order(fuse(lexical, dense, 1.0)) == [3, 2, 1]


def test_scales_do_not_matter() -> None:
    lexical, dense = {1: 10.0, 2: 5.0, 3: 1.0}, {1: 0.80, 2: 0.88, 3: 0.81}
    stretched = fuse({k: 7 * v + 3 for k, v in lexical.items()}, {k: v / 9 for k, v in dense.items()}, 0.5)
    assert order(fuse(lexical, dense, 0.5)) == order(stretched)


def test_found_by_meaning_alone() -> None:
    assert 9 in order(fuse({1: 3.0, 2: 2.0}, {1: 0.8, 2: 0.8, 9: 0.95}, 0.9))[:1]


def test_a_passage_without_a_vector_is_not_punished() -> None:
    """The best by words stays first while its vector is missing, even when all others have theirs."""
    lexical = {1: 12.0, 2: 6.0, 3: 5.0}
    assert order(fuse(lexical, {2: 0.9, 3: 0.85}, 0.5))[0] == 1
    # Nor does a poor one rise by not having one.
    assert order(fuse(lexical, {1: 0.9, 2: 0.85}, 0.5))[-1] == 3


@given(SCORES, SCORES, st.floats(0, 1))
def test_every_candidate_once_in_falling_order(lexical: dict, dense: dict, weight: float) -> None:
    ranked = fuse(lexical, dense, weight)
    assert sorted(order(ranked)) == sorted({*lexical, *dense})
    scores = [score for _, score in ranked]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("question", "share"), [("phuong trinh", PLAIN_SHARE), ("phương trình", 1), ("PHƯƠNG trinh", 1)]
)
def test_meaning_weighs_less_without_accents(question: str, share: float) -> None:
    assert dense_weight(question, 0.5) == pytest.approx(0.5 * share)
