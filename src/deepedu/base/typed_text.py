"""Text as pupils type and paste it, made plain to read, with the way back to every character that was typed."""

import unicodedata
from dataclasses import dataclass

from deepedu.base.vietnamese import fold

# Format characters (zero-width spaces and joiners, soft hyphens, byte-order marks) are not seen by anybody, so they may
# not keep a word or a number from being read.
_UNSEEN = "Cf"
# Dashes of all lengths, and the Icelandic letter that some keyboards put for đ.
_LOOKS_LIKE = str.maketrans({**dict.fromkeys("‐‑‒–—―−﹣－", "-"), "Ð": "Đ", "ð": "đ"})


@dataclass(frozen=True)
class TypedText:
    """What a reader sees of ``source``.

    ``text`` is composed (NFC), without characters that are not seen, with ASCII digits, ASCII forms of full-width
    signs, one kind of dash and of space. ``folded`` is ``text`` in lower case without accents, of the same length.
    Superscripts stay what they are: 10² is no 102.
    """

    source: str
    text: str
    folded: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> "TypedText":
        """Reads a message."""
        clusters: list[tuple[str, int, int]] = []
        for index, character in enumerate(source):
            if unicodedata.category(character) == _UNSEEN:
                continue
            if unicodedata.combining(character) and clusters:
                before, start, _ = clusters[-1]
                clusters[-1] = (before + character, start, index + 1)
            else:
                clusters.append((character, index, index + 1))
        letters: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for cluster, start, end in clusters:
            for letter in _plain(cluster):
                letters.append(letter)
                starts.append(start)
                ends.append(end)
        return cls(source, "".join(letters), "".join(map(_folded, letters)), tuple(starts), tuple(ends))

    @property
    def is_plain(self) -> bool:
        """Whether nothing in it has an accent: its words may then be any that look so without."""
        return self.text.lower() == self.folded

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of ``source`` that ``text[start:end]`` was read from; ``start`` < ``end``."""
        return self.starts[start], self.ends[end - 1]


def _plain(cluster: str) -> str:
    composed = unicodedata.normalize("NFC", cluster).translate(_LOOKS_LIKE)
    return "".join(_plain_character(character) for character in composed)


def _plain_character(character: str) -> str:
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    if character in "\n\r":
        return "\n"
    if character.isspace():
        return " "
    if unicodedata.decomposition(character).startswith("<wide>"):
        return unicodedata.normalize("NFKC", character)
    return character


def _folded(letter: str) -> str:
    folded = fold(letter)
    return folded if len(folded) == 1 else letter
