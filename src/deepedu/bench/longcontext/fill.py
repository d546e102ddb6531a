"""Fills a context up to an exact number of tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepedu.base.errors import Unsupported
from deepedu.bench.longcontext.case import Count

# Near the end, so many pieces in a row may be too long before no better one is looked for.
MISSES = 40
ROUNDS = 6
CLOSE = 0.005


@dataclass(frozen=True)
class Filled:
    """``text``, and the filling pieces it holds in their order."""

    text: str
    pieces: tuple[str, ...]

    def depth(self, part: str) -> float:
        """Where ``part`` stands, 0 the beginning and 1 the end."""
        return round(self.text.index(part) / max(1, len(self.text) - len(part)), 4)


def fill(
    head: str, pieces: Iterable[str], count: Count, length_tokens: int, *, needles: Sequence[str] = (), tail: str = ""
) -> Filled:
    """Puts as many pieces between ``head`` and ``tail`` as fit, and spreads the needles evenly among them.

    Every piece is counted alone once and the whole only a few times, so the work is linear in the length.

    Args:
        head: begins the text.
        pieces: filling, each with the white space that parts it from what stands before it.
        count: tokens of a text.
        length_tokens: never exceeded.
        needles: kept in this order, at equal distances.
        tail: ends the text.

    Raises:
        Unsupported: head, needles and tail are too long already.
    """
    source = iter(pieces)
    chosen: list[str] = []
    sizes: list[int] = []
    text = _woven(head, chosen, needles, tail)
    room = length_tokens - count(text)
    if room < 0:
        raise Unsupported(f"a context of {length_tokens} tokens is too short for this task: it needs {-room} more")
    for _ in range(ROUNDS):
        _take(source, count, room, chosen, sizes)
        text = _woven(head, chosen, needles, tail)
        room = length_tokens - count(text)
        if 0 <= room <= CLOSE * length_tokens:
            break
        # Pieces tokenise a little differently inside the whole than alone.
        while room < 0:
            chosen.pop()
            room += sizes.pop()
    text = _woven(head, chosen, needles, tail)
    while count(text) > length_tokens:
        chosen.pop()
        text = _woven(head, chosen, needles, tail)
    return Filled(text, tuple(chosen))


def _take(source: Iterable[str], count: Count, room: int, chosen: list[str], sizes: list[int]) -> None:
    misses = 0
    while room > 0 and misses < MISSES:
        piece = next(iter(source), None)
        if piece is None:
            return
        size = max(1, count(piece))
        if size <= room:
            chosen.append(piece)
            sizes.append(size)
            room -= size
        else:
            misses += 1


def _woven(head: str, pieces: Sequence[str], needles: Sequence[str], tail: str) -> str:
    places = [round((index + 0.5) / len(needles) * len(pieces)) for index in range(len(needles))]
    parts, done = [head], 0
    for place, needle in zip(places, needles, strict=True):
        parts += pieces[done:place]
        parts.append(needle)
        done = place
    return "".join([*parts, *pieces[done:], tail])
