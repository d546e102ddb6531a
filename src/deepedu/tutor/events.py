"""Births and deaths: what a model likes best to invent for a name that it finds in a passage."""

import re
from collections.abc import Sequence

from deepedu.tutor.terms import Token
from deepedu.tutor.windows import Sentence

Event = tuple[str, ...]

BIRTH: Event = ("sinh", "ra doi", "chao doi")
DEATH: Event = ("mat", "qua doi", "tu tran", "chet", "bang ha", "hy sinh", "hi sinh")
_WHEN_OR_WHERE = r" (?:(?:vao|trong|o|tai) )?(?:\w+ ){0,2}(?:nao|may|bao nhieu|bao gio|dau)\b"
_STATED = r" (?:(?:vao|trong) )?(?:nam|ngay|thang|the k[iy]|khoang|o|tai)\b"
# "Sinh vật", "mất nước" and "chết đuối" stand in every textbook.
_TOLD = {
    BIRTH: re.compile(
        r"(?<!hi )(?<!hy )\bsinh (?:ra|nam|ngay|thang|o|tai|truong|vao|trong|cung)\b|\b(?:ra|chao) doi\b"
    ),
    DEATH: re.compile(
        r"\bmat (?:nam|ngay|thang|o|tai|vao|vi|do|khi|trong|som|dot ngot)\b|\b(?:qua doi|tu tran|bang ha|h[iy] sinh)\b|"
        r"\bchet (?:nam|ngay|o|tai|vao|vi|do|khi|trong)\b|\bcai chet\b|\bbi giet\b"
    ),
}


def _pattern(event: Event, after: str) -> re.Pattern[str]:
    # "hi sinh" is no birth.
    return re.compile(rf"(?<!hi )(?<!hy )\b(?:{'|'.join(event)}){after}")


_ASKED = tuple((_pattern(event, _WHEN_OR_WHERE), event) for event in (DEATH, BIRTH))
_SAID = tuple((_pattern(event, _STATED), event) for event in (DEATH, BIRTH))
# "(1701 – 1744)" after a name.
_LIFESPAN = re.compile(r"\([^()]*\d{3,4}[^()]{0,4}[-–—][^()]*\d{3,4}[^()]*\)")


def asked_event(question: Sequence[Token]) -> Event | None:
    """The event whose time or place is asked for."""
    said = " ".join(token.folded for token in question)
    return next((event for pattern, event in _ASKED if pattern.search(said)), None)


def stated_event(statement: Sequence[Token]) -> Event | None:
    """The event whose time or place is stated."""
    said = " ".join(token.folded for token in statement)
    return next((event for pattern, event in _SAID if pattern.search(said)), None)


def tells_event(sentence: Sentence, event: Event, *, is_timed: bool) -> bool:
    """Whether a sentence of the book tells of the event, with its time where ``is_timed``."""
    if _LIFESPAN.search(sentence.text):
        return True
    is_told = _TOLD[event].search(" ".join(token.folded for token in sentence.tokens)) is not None
    return is_told and (not is_timed or any(q.is_time for q in sentence.quantities))
