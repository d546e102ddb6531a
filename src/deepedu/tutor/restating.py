"""Whether a sentence says again what a book's sentence says, by the order of its words.

Grounding compares numbers, names and words; it cannot see that two things changed places inside one sentence ("vỏ trấu
ở trong, hạt gạo ở ngoài"). What is to become a rule must go through one sentence of the book in that sentence's own
order, with little left out and next to nothing added. A few ways of saying the same are known: a time anywhere, the
halves of a sentence exchanged, two parts around "và" exchanged, "D gọi là T" for "T là D", "S có P là V" for
"P của S là V". Whatever is said more freely is not known to be the same.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deepedu.base.vietnamese import canonical_tone


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words that a restatement may add: they carry no roles. Not "do", "bởi", "được", "bị", which exchange who and whom.
_ADDED = _listed("là thì mà của có các những một này đó và cũng rằng đã gồm còn")
# What is left out may hold none of these.
_TURNING = _listed(
    "không chưa chẳng đừng trừ ngoại nhưng mà trái ngược hoặc hay nếu trong ngoài trên dưới trước sau hơn kém"
)
# With one of these a sentence of the book is no plain statement.
_HEDGES = re.compile(
    r"\b(?:cho rằng|tưởng|nghĩ rằng|tin rằng|quan niệm|giả sử|giả thuyết|nếu|có lẽ|có thể là|sai lầm|nhầm|không phải)\b"
)
# What may stand before the beginning and be left out: one of these, or a title before a name.
_OPENING = _listed("mỗi mọi các những một hiện nay")
_TITLE = 6
# What a statement may break off before: it says where, how, or something more.
_GOING_ON = _listed("và còn nhưng nên vì với tại ở trong để từ bằng cho trên vào khi do nhờ")
# Syllables left out at one place and in all, and added in all.
_GAP, _GAPS, _EXTRA = 4, 8, 3

_TOKEN = re.compile(r"-?\d+(?:[.,]\d+)*|[^\W\d_]+|°|%|[.,;:()–—?!]")
_BREAKS = frozenset(".,;:()–—?!")
_SENTENCE_BREAKS = frozenset(".;:?!")
_TIME = re.compile(
    r",? ?(?:vào )?(?:(?:ngày \d+ )?(?:tháng \d+ )?năm \d{3,4}|(?:trong )?thế k[ỉỷ] \w+)(?!\w),?",
    re.IGNORECASE,
)
_DEFINITION = re.compile(r"^(?P<term>[^,]+?) (?:là|được gọi là) (?P<definition>.+)$", re.IGNORECASE)
_PROPERTY = re.compile(r"^(?P<what>[^,]+?) của (?P<whose>[^,]+?) (?P<rest>(?:là|bằng) .+)$", re.IGNORECASE)


@dataclass(frozen=True)
class _Word:
    text: str
    # The signs that stand before it.
    after: str = ""
    is_capitalised: bool = False


def restates(statement: str, sentence: str) -> bool:
    """Whether one sentence is borne by the order of words of one sentence of a book."""
    statement, sentence = _plain(statement).rstrip(" .!"), _plain(sentence)
    if _HEDGES.search(sentence.lower()) and not _HEDGES.search(statement.lower()):
        return False
    book = _words(sentence)
    if any(_in_order(said, book) for said in _ways(statement)):
        return True
    # The same single time on both sides may stand anywhere.
    times = [_TIME.findall(text) for text in (statement, sentence)]
    if len(times[0]) != 1 or len(times[1]) != 1 or _words(times[0][0].lower()) != _words(times[1][0].lower()):
        return False
    book = _words(_TIME.sub(" ", sentence))
    return any(_in_order(said, book) for said in _ways(_TIME.sub(" ", statement)))


def _ways(statement: str) -> Iterator[list[_Word]]:
    """The statement in its own order, and in those that say the same."""
    said = _words(statement)
    yield said
    if found := _DEFINITION.match(statement.strip()):
        yield _words(f"{found['definition']} gọi là {found['term']}")
    if found := _PROPERTY.match(statement.strip()):
        yield _words(f"{found['whose']} có {found['what']} {found['rest']}")
    yield from (said[place:] + said[:place] for place in range(2, len(said) - 1))
    for joint in (place for place, word in enumerate(said) if word.text == "và"):
        for first in range(joint):
            for last in range(joint + 2, len(said) + 1):
                parts = (said[:first], said[joint + 1 : last], said[joint : joint + 1], said[first:joint], said[last:])
                yield [word for part in parts for word in part]


def _in_order(said: list[_Word], book: list[_Word]) -> bool:
    """Whether one list goes through the other from the beginning of a clause, with few words left out or added."""
    return len(said) > 1 and any(_follows(said, book, start) for start in _starts(book))


def _starts(book: list[_Word]) -> Iterable[int]:
    """Places where a statement may begin."""
    for place, word in enumerate(book):
        if place and not word.after:
            continue
        yield place
        onward = place
        while onward + 1 < len(book) and book[onward].text in _OPENING and not book[onward + 1].after:
            onward += 1
            yield onward
        for name in range(place + 1, min(place + 1 + _TITLE, len(book))):
            if book[name].after or book[name - 1].text in _TURNING:
                break
            if book[name].is_capitalised:
                yield name


def _follows(said: list[_Word], book: list[_Word], start: int) -> bool:
    # Places in the book that the words so far may have led to, and whether the last word was added there, each with
    # what was left out and added on the way.
    ways: dict[tuple[int, bool], tuple[int, int]] = {(start - 1, False): (0, 0)}
    for number, word in enumerate(said):
        onward: dict[tuple[int, bool], tuple[int, int]] = {}
        for (place, was_added), (left_out, added) in ways.items():
            # Nothing is left out at the beginning, nor where something was put in instead.
            gap = 0 if number == 0 or was_added else _GAP
            for following in range(place + 1, min(place + 2 + gap, len(book))):
                skipped = book[place + 1 : following]
                if skipped and not _may_be_left_out(skipped, book[following]):
                    continue
                if book[following].text == word.text and left_out + len(skipped) <= _GAPS:
                    _keep(onward, (following, False), (left_out + len(skipped), added))
            if number and word.text in _ADDED and added < _EXTRA:
                _keep(onward, (place, True), (left_out, added + 1))
        ways = onward
    return any(_may_end(book, place) for place, _ in ways)


def _keep(ways: dict[tuple[int, bool], tuple[int, int]], way: tuple[int, bool], cost: tuple[int, int]) -> None:
    if way not in ways or cost < ways[way]:
        ways[way] = cost


def _may_end(book: list[_Word], place: int) -> bool:
    return place + 1 == len(book) or bool(book[place + 1].after) or book[place + 1].text in _GOING_ON


def _may_be_left_out(skipped: list[_Word], following: _Word) -> bool:
    if any(word.text in _TURNING for word in skipped):
        return False
    signs = "".join(word.after for word in (*skipped, following))
    # Within a clause, in brackets, or one item of a list; a whole clause is no small thing.
    return not any(sign in _SENTENCE_BREAKS for sign in signs) and signs in ("", "()", ",,", ",")


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    signs = ""
    for token in _TOKEN.findall(text):
        if token in _BREAKS:
            signs += token
        else:
            spelling = token if token[-1].isdigit() else canonical_tone(token.lower())
            found.append(_Word(spelling, signs, token[0].isupper()))
            signs = ""
    return found


def _plain(text: str) -> str:
    """One spelling of signs and of grouped digits."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("“", "").replace("”", "")
    text = re.sub(r"(?<=\d)[ \u202f\u00a0](?=\d{3}(?!\d))", "", text)
    return " ".join(unicodedata.normalize("NFC", text).split())
