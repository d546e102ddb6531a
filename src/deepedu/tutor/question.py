"""What a question asks: which kind of answer, about what, with which names and numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deepedu.tutor.names import Lexicon, Name, names
from deepedu.tutor.quantities import Quantity, quantities
from deepedu.tutor.terms import Token, is_typed_plain, tokens, weight
from deepedu.tutor.units import unit_after, units_in


class Asked(StrEnum):
    """What kind of answer a question wants."""

    TIME = "time"
    NUMBER = "number"
    PERSON = "person"
    PLACE = "place"
    REASON = "reason"
    DEFINITION = "definition"
    OTHER = "other"


# On text without accents, lower case, words parted by one space.
_ASKED = (
    (
        Asked.TIME,
        r"\b(?:nam|ngay|thang|the k[iy]|thap (?:nien|ky|ki)|thoi gian|thoi diem|thoi ky|thoi ki|giai doan|mua|luc|khi|"
        r"trieu dai|thoi) (?:nao|may|bao nhieu)\b|\bbao gio\b|\bthe k[iy] (?:thu )?may\b|\bhoi nao\b|\bbao lau\b",
    ),
    (
        Asked.NUMBER,
        r"\bbao nhieu\b|\bmay (?:nguoi|loai|phan|tinh|con|cai|lan|bac|buoc|chau|do|km|nuoc|nam)\b|\bthu may\b",
    ),
    (Asked.REASON, r"\b(?:vi|tai|boi|do) (?:sao|dau)\b|\bnguyen nhan\b|\bl[yi] do\b|\bnho (?:gi|dau|vao dau)\b"),
    (
        Asked.PERSON,
        r"\bai\b|\bnguoi nao\b|\b(?:vua|vi vua|tuong|ong|ba|vi|hoang de|tong thong|chu tich|thu tuong) nao\b|"
        r"\bnha (?:\w+ ){1,2}nao\b|\bnhan vat nao\b|\bten (?:la )?gi\b",
    ),
    (
        Asked.PLACE,
        r"\bo dau\b|\btai dau\b|\btu dau\b|\b(?:noi|dau|tinh|nuoc|quoc gia|thanh pho|dia diem|chau luc|vung|mien|quan|"
        r"huyen|dao|bien|song|khu vuc|thu do) nao\b|\bden dau\b",
    ),
    (Asked.DEFINITION, r"^(?:\w+ ){1,6}la gi\b|\bthe nao la\b|\bnghia la gi\b"),
)
_ASKED_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _ASKED)
_YES_OR_NO = frozenset({"không", "chưa", "khong", "chua", "à"})
_UNIT_ASKED = re.compile(r"(?:bao nhiêu|bao nhieu|mấy|may)\s+(\S+(?:\s\S+){0,3})", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """A question read for what it asks and what it names."""

    text: str
    tokens: tuple[Token, ...]
    names: tuple[Name, ...]
    quantities: tuple[Quantity, ...]
    asked: Asked
    asked_words: frozenset[int]
    units: frozenset[str]
    is_plain: bool

    @classmethod
    def of(cls, text: str, known: Lexicon) -> "Question":
        """Reads ``text``; ``known`` is what the evidence says, which tells names from common words."""
        listed = tuple(tokens(text))
        asked, asked_words = _asked_in(listed)
        unit = _UNIT_ASKED.search(text)
        if unit is not None:
            # The answer may spell the unit otherwise, so its words are no content either.
            _, unit_end = unit_after(text, unit.start(1))
            in_unit = {i for i, t in enumerate(listed) if unit.start(1) <= t.start < unit_end}
            asked_words |= in_unit
        return cls(
            text=text,
            tokens=listed,
            names=tuple(names(text, listed, known)),
            quantities=tuple(quantities(text)),
            asked=asked,
            asked_words=asked_words,
            units=_units_asked(unit[1]) if unit else frozenset(),
            is_plain=is_typed_plain(listed),
        )

    @property
    def wants_yes_or_no(self) -> bool:
        return bool(self.tokens) and self.tokens[-1].word in _YES_OR_NO

    def content(self) -> list[tuple[Token, float]]:
        """Its words with their weight, each once; words without meaning and those that ask left out."""
        seen: dict[str, tuple[Token, float]] = {}
        for index, token in enumerate(self.tokens):
            if index in self.asked_words:
                continue
            told = weight(token.folded, is_folded=True) if self.is_plain else weight(token.word)
            if told > 0.05:
                seen.setdefault(token.word, (token, told))
        return list(seen.values())


def _units_asked(text: str) -> frozenset[str]:
    units = units_in(text)
    # "Bao nhiêu độ" asks for any degree.
    return units | {"°C", "°F", "K"} if "°" in units else units


def _asked_in(listed: Sequence[Token]) -> tuple[Asked, frozenset[int]]:
    """The kind of answer wanted, and the places of the words that ask for it ("năm nào")."""
    plain = " ".join(token.folded for token in listed)
    for kind, pattern in _ASKED_PATTERNS:
        match = pattern.search(plain)
        if match is not None and kind is not Asked.DEFINITION:
            first, last = plain[: match.start()].count(" "), plain[: match.end()].count(" ")
            return kind, frozenset(range(first, last + 1))
        if match is not None:
            # "X là gì": X is asked about, the last two words ask.
            last = plain[: match.end()].count(" ")
            return kind, frozenset({last - 1, last}) if plain[: match.end()].endswith("la gi") else frozenset()
    return Asked.OTHER, frozenset()
