"""Vietnamese text as every layer sees it: composed, with known offsets, comparable however it was typed.

Lives in ``base`` because readers, search and grounding must agree on it to the letter.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class OffsetMap:
    """Maps offsets in normalised text back to the text it was made from.

    ``breaks`` holds ``(normalised_offset, source_offset)`` pairs, ascending, one at every place where the distance
    between the two changes; the first is ``(0, 0)``. An offset inside a stretch moves with its stretch.
    """

    breaks: tuple[tuple[int, int], ...] = ((0, 0),)

    def to_source(self, offset: int) -> int:
        """Source offset of normalised ``offset`` (characters)."""
        index = bisect_right(self.breaks, offset, key=lambda pair: pair[0]) - 1
        normalised, source = self.breaks[index]
        return source + offset - normalised


# A base character with the marks that follow it composes as a unit; text between such clusters is already composed.
_CLUSTER = re.compile(r"[^\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff][\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff]+")


def compose(text: str) -> tuple[str, OffsetMap]:
    """Unicode NFC, with the way back.

    Returns:
        The composed text and the map from its offsets to those of ``text``.
    """
    if unicodedata.is_normalized("NFC", text):
        return text, OffsetMap()
    parts: list[str] = []
    breaks = [(0, 0)]
    done = length = 0

    def emit(piece: str, source_end: int) -> None:
        nonlocal done, length
        parts.append(piece)
        length += len(piece)
        done = source_end
        normalised, source = breaks[-1]
        if done - length != source - normalised:
            breaks.append((length, done))

    for match in _CLUSTER.finditer(text):
        if match.start() > done:
            _emit_plain(text[done : match.start()], done, emit)
        emit(unicodedata.normalize("NFC", match.group()), match.end())
    if done < len(text):
        _emit_plain(text[done:], done, emit)
    return "".join(parts), OffsetMap(tuple(breaks))


def _emit_plain(piece: str, start: int, emit: Callable[[str, int], None]) -> None:
    if unicodedata.is_normalized("NFC", piece):
        emit(piece, start + len(piece))
        return
    # Rare: characters whose composed form differs without any mark after them (an Angstrom sign, Hangul letters).
    for index, character in enumerate(piece):
        emit(unicodedata.normalize("NFC", character), start + index + 1)


_D = str.maketrans({"đ": "d", "Đ": "D"})


def fold(text: str) -> str:
    """Lower case without accents; đ becomes d. Same length as NFC input for Vietnamese text."""
    decomposed = unicodedata.normalize("NFD", text.translate(_D).lower())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


# The tone mark of oa, oe, uy stands on the first vowel in old spelling (hòa) and on the second in new (hoà);
# with a final consonant (hoàn) both agree. Everything is brought to the old place, the one textbooks use.
_TONES = "\u0300\u0301\u0303\u0309\u0323"


def canonical_tone(syllable: str) -> str:
    """One spelling for syllables whose tone mark has an old and a new place: hoà -> hòa, thuý -> thúy.

    Args:
        syllable: one lower-case NFC syllable; anything else is returned unchanged.
    """
    if len(syllable) < 2 or syllable[-2:] not in _NEW_PLACES:
        return syllable
    # In "quý" the u belongs to the consonant qu, so the mark has one place only.
    if syllable[-2] == "u" and syllable[:-2] == "q":
        return syllable
    return syllable[:-2] + _NEW_PLACES[syllable[-2:]]


_NEW_PLACES = {
    unicodedata.normalize("NFC", pair[0] + pair[1] + tone): unicodedata.normalize("NFC", pair[0] + tone + pair[1])
    for pair in ("oa", "oe", "uy")
    for tone in _TONES
}

_WORD = re.compile(r"[^\W_]+", re.UNICODE)


def words(text: str) -> list[str]:
    """Lower-case words (Vietnamese: syllables; numbers whole) in one spelling: NFC, canonical tone place."""
    lowered = unicodedata.normalize("NFC", text).lower()
    return [canonical_tone(word) for word in _WORD.findall(lowered)]


# Qwen-style byte-pair vocabularies spend 0.30 tokens on a character of Vietnamese prose (median of 30 encyclopaedia
# articles, the worst of them 0.345); one token per 2.8 characters errs on the safe side.
CHARACTERS_PER_TOKEN = 2.8


def estimate_tokens(text: str) -> int:
    """Upper estimate of a text's tokens, without any model's tokenizer. The model's server has the last word."""
    return int(len(text) / CHARACTERS_PER_TOKEN) + 1
