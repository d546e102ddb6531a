"""How much of what was asked a reply says."""

import re
import unicodedata

from deepedu.base.vietnamese import canonical_tone
from deepedu.bench.longcontext.case import Question

_WORD = re.compile(r"\w+")
# Digits in groups of three: by a sign of its own, or by a space.
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[.,\u00a0\u202f]\d{3})+(?![\w])")
_SPACED = re.compile(r"(?<!\w)\d{1,3}(?: \d{3})+(?!\w)")
_NO_DIGIT = re.compile(r"\D")


def score(reply: str, question: Question) -> float:
    """From 0 (nothing right) to 1: the share of the answers found, or 0 or 1 where one answer is wanted.

    An answer counts when its words stand in the reply as they are and in their order: 123 is not found in 1234. Case,
    punctuation, the grouping of digits, the way accents are encoded and where a tone mark stands make no difference.
    """
    if question.match == "choice":
        return float(_first_option(reply, question.options) == question.answers[0])
    if question.options:
        # A reply that names everything there is knows nothing.
        first = _named(reply, question.options)[: len(question.answers)]
        return sum(answer in first for answer in question.answers) / len(question.answers)
    forms = _forms(reply)
    found = [any(_place(form, answer) is not None for form in forms) for answer in question.answers]
    return float(any(found)) if question.match == "any" else sum(found) / len(found)


def _forms(text: str) -> list[str]:
    """The text as words parted and enclosed by single spaces, with and without grouped digits joined."""
    text = unicodedata.normalize("NFC", text)
    joined = _GROUPED.sub(lambda match: _NO_DIGIT.sub("", match.group()), text)
    spaced = _SPACED.sub(lambda match: _NO_DIGIT.sub("", match.group()), joined)
    return [_words(form) for form in dict.fromkeys((text, joined, spaced))]


def _words(text: str) -> str:
    lowered = unicodedata.normalize("NFC", text).lower().replace("_", " ")
    return f" {' '.join(canonical_tone(word) for word in _WORD.findall(lowered))} "


def _place(form: str, answer: str) -> int | None:
    wanted = _words(answer)
    place = form.find(wanted) if wanted.strip() else -1
    return None if place < 0 else place


def _first_option(reply: str, options: tuple[str, ...]) -> str | None:
    if all(len(option) == 1 for option in options):
        # Letters: "a" is an article, so only capitals that stand alone are choices.
        letter = re.search(rf"(?<!\w)[{''.join(options)}](?!\w)", reply)
        return letter.group() if letter else None
    return next(iter(_named(reply, options)), None)


def _named(reply: str, options: tuple[str, ...]) -> list[str]:
    """The options that stand in the reply, in their order there."""
    form = _words(reply)
    places = {option: place for option in options if (place := _place(form, option)) is not None}
    return sorted(places, key=lambda option: places[option])
