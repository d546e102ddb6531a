"""The terms that the text index holds of a text, and that a question is looked up by.

Built on ``base.vietnamese.words``; what is added concerns writing that search must see through: digit groups
(1.954, 1 954), numbers grown together with their unit (5km), raised and lowered signs (m², H₂O).
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

from deepedu.base.vietnamese import fold, words

# Raise it when the columns or what they hold change: an index of another version is built anew.
INDEX_VERSION = 3
COLUMNS = ("words", "folded", "pairs", "folded_pairs", "heading", "heading_folded")

# Stands between sentences in the stored columns; the index's tokenizer passes over it.
SENTENCE_MARK = "."

_SENTENCE_END = re.compile(r"(?<=[.!?;…])\s+|\n+")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[.,]\d{3})+(?!\d)")
# A space may as well separate two numbers, so the parts stay beside the whole.
_SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d]|[.,]\d)")
_UNIT = re.compile(r"(?<![^\W_])(\d+)([^\W\d_])")


def terms(text: str) -> list[str]:
    """All terms of a text, in order: lower-case syllables in one spelling, numbers as bare digits."""
    text = unicodedata.normalize("NFKC", text)
    text = _GROUPED.sub(lambda match: re.sub(r"[.,]", "", match.group()), text)
    text = _SPACED.sub(lambda match: f"{match.group()} {match.group().replace(' ', '')}", text)
    return words(_UNIT.sub(r"\1 \2", text))


def sentences(text: str) -> list[list[str]]:
    """``terms`` of each sentence that has any. Splits a little too often rather than too seldom."""
    return [found for part in _SENTENCE_END.split(text) if (found := terms(part))]


def pairs(sequence: Sequence[str]) -> Iterable[str]:
    """Neighbouring syllables joined by ``_``: most Vietnamese words have two."""
    return (f"{left}_{right}" for left, right in pairwise(sequence))


def index_columns(text: str, titles: Sequence[str]) -> tuple[str, ...]:
    """What the index holds of a passage and of the titles above it, in the order of ``COLUMNS``."""
    plain = sentences(text)
    folded = [[fold(term) for term in sentence] for sentence in plain]
    # A book's first section often repeats its title.
    title_terms = [terms(title) for title in dict.fromkeys(titles) if title]
    return (
        f" {SENTENCE_MARK} ".join(" ".join(sentence) for sentence in plain),
        f" {SENTENCE_MARK} ".join(" ".join(sentence) for sentence in folded),
        " ".join(pair for sentence in plain for pair in pairs(sentence)),
        " ".join(pair for sentence in folded for pair in pairs(sentence)),
        f" {SENTENCE_MARK} ".join(" ".join(title) for title in title_terms),
        f" {SENTENCE_MARK} ".join(" ".join(fold(term) for term in title) for title in title_terms),
    )
