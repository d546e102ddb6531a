"""Words that betray foreign data: everything a pupil writes carries one that says whose it is.

A marker is letters only, so that masking, search and grounding take it for a word: ``qxz``, three letters for the
pupil, three for the question. It survives JSON, HTML and addresses unchanged.
"""

import re
from string import ascii_lowercase

_FOUND = re.compile(r"qxz([a-z]{3})[a-z]{3}", re.IGNORECASE)
MOST = len(ascii_lowercase) ** 3


def marker(pupil: int, number: int = 0) -> str:
    """The marker of a pupil's ``number``-th text; 0 stands in the pupil's own name."""
    return f"qxz{_letters(pupil)}{_letters(number)}"


def strangers(text: str, pupil: int) -> list[str]:
    """Markers of other pupils in a text that this pupil was sent."""
    mine = _letters(pupil)
    return [found[0] for found in _FOUND.finditer(text) if found[1].lower() != mine]


def last_marker(text: str) -> str | None:
    """The last marker of a text, None without any."""
    found = [each[0] for each in _FOUND.finditer(text)]
    return found[-1] if found else None


def _letters(number: int) -> str:
    if not 0 <= number < MOST:
        raise ValueError(f"expected a number from 0 to {MOST - 1}, came {number}")
    letters = ""
    for _ in range(3):
        number, letter = divmod(number, len(ascii_lowercase))
        letters = ascii_lowercase[letter] + letters
    return letters
