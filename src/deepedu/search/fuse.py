"""Words and meaning together: both retrievers' scores on one scale, weighted.

Source: Bruch et al. 2023, An Analysis of Fusion Functions for Hybrid Retrieval, arXiv 2210.11934 (convex combination).
Differs: scores are standardised over the question's candidates; a passage without a vector takes its own standing by
words for that by meaning, so that a book whose embedding is not finished is neither punished nor favoured
(tests/search/test_fuse.py).
"""

from collections.abc import Iterable, Mapping
from statistics import fmean, pstdev

from deepedu.base.vietnamese import fold

# Embedding models learnt Vietnamese with its accents; typed without, the meaning is mostly lost on them.
PLAIN_SHARE = 0.4


def fuse(lexical: Mapping[int, float], dense: Mapping[int, float], weight: float) -> list[tuple[int, float]]:
    """Ranks the candidates of both.

    Args:
        lexical: scores by words; a candidate that is missing here holds none of the words.
        dense: scores by meaning; a candidate that is missing here has no vector.
        weight: of meaning, 0 to 1.

    Returns:
        ``(passage_id, score)``, best first. Without any dense score: the lexical ones as they are.
    """
    candidates = sorted({*lexical, *dense})
    if not dense or not candidates:
        return _ranked(lexical.items())
    words = _standardised({passage_id: lexical.get(passage_id, 0.0) for passage_id in candidates})
    meaning = _standardised(dense)
    return _ranked(
        (passage_id, (1 - weight) * words[passage_id] + weight * meaning.get(passage_id, words[passage_id]))
        for passage_id in candidates
    )


def dense_weight(question: str, weight: float) -> float:
    """The weight of meaning for a question: a share of ``weight`` for one typed without any accent."""
    return weight * PLAIN_SHARE if fold(question) == question.lower() else weight


def _standardised(scores: Mapping[int, float]) -> dict[int, float]:
    mean, deviation = fmean(scores.values()), pstdev(scores.values())
    return {key: (score - mean) / deviation if deviation else 0.0 for key, score in scores.items()}


def _ranked(scores: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(scores, key=lambda item: (-item[1], item[0]))
