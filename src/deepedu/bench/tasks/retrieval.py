"""How often search finds the passage that a question was asked on, among thousands of others.

Questions and contexts are UIT-ViQuAD's (dev and test); the paragraphs of the school articles stand in the way. The
figures come three times: search as the settings have it, by words only (``_lexical``), and with the questions typed
without accents (``_folded``).
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepedu.base.config import StoreSettings
from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import fold
from deepedu.bench.library import add_book
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.bench.viquad import Question, load_paragraphs, load_viquad
from deepedu.search.embed import EmbedProgress, embed_missing, progress
from deepedu.search.embedder import Embedder, open_embedder
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.terms import terms

OPTIONS = {
    "distractors": "how many paragraphs of the school articles to add (default all, 500 with --quick)",
    "vector_cache": "the file that keeps passage vectors between runs (default in the user's cache folder)",
}
QUICK_QUESTIONS, QUICK_DISTRACTORS = 200, 500
DEPTH = 20


@dataclass
class _Haystack:
    """Distinct passages, and for every context of the data set the passage that holds it."""

    texts: list[str] = field(default_factory=list)
    of_context: list[int] = field(default_factory=list)


def run(context: BenchContext) -> BenchResult:
    """Builds a library in a temporary folder, asks it all questions, and counts at which rank the right one came."""
    data = load_viquad(context.data_dir)
    paragraphs = [text for _, text in load_paragraphs(context.data_dir)]
    distractors = _count(context.options.get("distractors"), QUICK_DISTRACTORS if context.quick else len(paragraphs))
    haystack = _haystack(data.contexts, paragraphs[:distractors])
    questions = list(data.questions)
    if context.quick:
        questions = random.Random(context.seed).sample(questions, QUICK_QUESTIONS)
    embedder, off_reason = open_embedder(context.settings.search)
    db = Database(StoreSettings(data_dir=context.tmp_dir / "data"))
    try:
        # No title: the contexts have lost theirs.
        ids = add_book(db, "", haystack.texts)
        expected = [ids[haystack.of_context[question.context]] for question in questions]
        details: dict[str, Any] = {
            "questions": len(questions),
            "passages": len(haystack.texts),
            "contexts": len(set(haystack.of_context)),
            "dense": off_reason or (embedder.name if embedder else ""),
            "vectors": _embed(context, db, embedder) if embedder else "none",
        }
        lexical_settings = context.settings.search.model_copy(update={"dense": "off"})
        variants: list[tuple[str, Search, Callable[[str], str]]] = [
            ("", Search(db, context.settings.search, embedder), str),
            ("_lexical", Search(db, lexical_settings), str),
            ("_folded", Search(db, context.settings.search, embedder), fold),
        ]
        figures: dict[str, float] = {}
        with context.progress("asking", len(questions) * len(variants)) as advance:
            for suffix, search, typed in variants:
                ranks, times_ms = _ask(search, questions, expected, typed, advance)
                figures |= {f"{name}{suffix}": value for name, value in recall_figures(ranks).items()}
                figures[f"p95_ms{suffix}"] = round(percentile(times_ms, 0.95), 1)
                for split in ("dev", "test"):
                    part = [rank for rank, question in zip(ranks, questions, strict=True) if question.split == split]
                    details[f"{split}{suffix}"] = recall_figures(part)
    finally:
        db.close()
    return BenchResult(figures, details)


def recall_figures(ranks: Sequence[int | None]) -> dict[str, float]:
    """``recall_at_1/5/20`` and ``mrr`` of the right passage's ranks, counted from 0; None: not among the first 20."""
    if not ranks:
        return {}
    figures = {
        f"recall_at_{depth}": sum(rank is not None and rank < depth for rank in ranks) / len(ranks)
        for depth in (1, 5, DEPTH)
    }
    figures["mrr"] = sum(1 / (rank + 1) for rank in ranks if rank is not None) / len(ranks)
    return {name: round(value, 4) for name, value in figures.items()}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def _count(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal():
        raise ConfigError(f"--set distractors expected a number of paragraphs, came {text!r}")
    return int(text)


def _haystack(contexts: Sequence[str], paragraphs: Sequence[str]) -> _Haystack:
    """Some contexts are paragraphs of the articles too: texts of the same words are one passage."""
    haystack = _Haystack()
    place: dict[str, int] = {}
    for number, text in enumerate([*contexts, *paragraphs]):
        key = " ".join(terms(text))
        if key not in place:
            place[key] = len(haystack.texts)
            haystack.texts.append(text)
        if number < len(contexts):
            haystack.of_context.append(place[key])
    return haystack


def _embed(context: BenchContext, db: Database, embedder: Embedder) -> str:
    """Embeds all passages through the product's own worker. Returns where the vectors came from."""
    from deepedu.bench.vector_cache import CachedEmbedder, default_path

    named = context.options.get("vector_cache")
    cached = CachedEmbedder(embedder, Path(named) if named else default_path())
    reached, total = progress(db, embedder.name)
    with context.progress("embedding", total) as advance:

        def show(event: EmbedProgress) -> None:
            nonlocal reached
            advance(event.done - reached)
            reached = event.done

        embed_missing(db, cached, show)
    return f"{cached.from_cache} from the cache, {cached.computed} computed now"


def _ask(
    search: Search,
    questions: Sequence[Question],
    expected: Sequence[int],
    typed: Callable[[str], str],
    advance: Callable[[int], None],
) -> tuple[list[int | None], list[float]]:
    """Ranks of the right passages, and the time of each whole search in milliseconds."""
    ranks: list[int | None] = []
    times_ms: list[float] = []
    search.search(typed(questions[0].text), limit=DEPTH)  # Loads the vectors: once for a process, not for a question.
    for question, passage_id in zip(questions, expected, strict=True):
        text = typed(question.text)
        start = time.perf_counter()
        found = search.search(text, limit=DEPTH)
        times_ms.append((time.perf_counter() - start) * 1000)
        ranks.append(next((rank for rank, item in enumerate(found) if item.passage_id == passage_id), None))
        advance(1)
    return ranks, times_ms
