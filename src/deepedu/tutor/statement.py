"""A sentence of the draft, read for what it claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from deepedu.tutor.names import Lexicon, Name, names
from deepedu.tutor.quantities import Quantity, quantities
from deepedu.tutor.terms import Token, is_content, is_typed_plain, tokens, weight


@dataclass(frozen=True)
class Statement:
    """A sentence to be checked, without markers and lead-ins; ``question_words`` are those already asked with."""

    text: str
    tokens: tuple[Token, ...]
    quantities: tuple[Quantity, ...]
    names: tuple[Name, ...]
    question_words: frozenset[str]
    is_plain: bool

    @classmethod
    def of(cls, text: str, question: Sequence[Token], known: Lexicon) -> "Statement":
        """Reads ``text``; ``known`` is everything the evidence and the question say."""
        listed = tuple(tokens(text))
        return cls(
            text=text,
            tokens=listed,
            quantities=tuple(quantities(text)),
            names=tuple(names(text, listed, known)),
            question_words=frozenset(t.folded for t in question),
            is_plain=is_typed_plain(listed),
        )

    @cached_property
    def content(self) -> tuple[tuple[Token, float], ...]:
        """Words that carry meaning, with their weight; numbers are compared by value instead."""
        counted = [t for t in self.tokens if not t.is_number and not self.in_quantity(t)]
        weighed: list[tuple[Token, float]] = []
        for token in counted:
            weighed.append((token, weight(token.folded, is_folded=True) if self.is_plain else weight(token.word)))
        return tuple(weighed)

    @property
    def has_news(self) -> bool:
        """Whether it says anything that the question does not."""
        new_words = any(t.folded not in self.question_words and is_content(t.word) for t, _ in self.content)
        return new_words or any(q.surface.lower() not in self.question_words for q in self.quantities)

    @property
    def is_fragment(self) -> bool:
        """Whether it is an answer cut short ("Năm 938."), which only makes sense together with the question."""
        told = [(t, weight(t.word)) for t in self.tokens if is_content(t.word)]
        shares = any(t.folded in self.question_words and w >= 0.5 and not t.is_number for t, w in told)
        return len(told) < (3 if shares else 5)

    def in_quantity(self, token: Token) -> bool:
        return any(q.start <= token.start < q.end for q in self.quantities)
