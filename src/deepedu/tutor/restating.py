"""Whether a sentence is one of the book's own: the same words in the same order, all of them.

Grounding compares numbers, names and words. It cannot see that two things changed places inside one sentence, that an
exception was dropped, or that somebody only claimed it. Looser bounds on the order of words (small gaps, parts
exchanged around "và", "T là D" for "D gọi là T") were tried, and each of them bore false sentences. So what goes live
without a teacher is a whole sentence of the book that can stand alone; only a time may move from one end to the other.
"""

import re
import unicodedata

from deepedu.base.vietnamese import canonical_tone, is_table_row

_TOKEN = re.compile(r"-?\d+(?:[.,]\d+)*|[^\W\d_]+|[°%‰/+*=<>^]")
_TIME = r"(?:ngày \d{1,2} )?(?:tháng \d{1,2} )?năm \d{3,4}"
_TIME_FIRST = re.compile(rf"^(?:vào )?(?P<time>{_TIME}),? (?P<rest>[^,;:()–]+)$", re.IGNORECASE)
_TIME_LAST = re.compile(rf"^(?P<rest>[^,;:()–]+?),? (?:vào )?(?P<time>{_TIME})$", re.IGNORECASE)
# Before a time these tell when else than then.
_RELATIVE = re.compile(
    r"\b(?:trước|sau|từ|đến|tới|đầu|cuối|giữa|khoảng|gần|hết|qua|quá|của|cho|trong|hồi|mùa|kể)$", re.IGNORECASE
)
# Words that point to another sentence.
_POINTING = re.compile(
    r"\b(?:này|đó|ấy|nó|họ|ông|bà|trên đây|sau đây|dưới đây|như sau|như vậy|vì vậy|vì thế|do đó|do vậy|bởi vậy|nhờ vậy|"
    r"tuy nhiên|tuy vậy|nhưng|ngược lại|trái lại|ngoài ra|hơn nữa|bên cạnh đó|cũng vậy|còn lại|kia|"
    r"(?:hình|bảng) (?:\d+|bên|trên|dưới))\b",
    re.IGNORECASE,
)


def restates(statement: str, sentence: str) -> bool:
    """Whether a statement is a book's sentence said again, whole, and needs no other one to be understood.

    Letter case, punctuation, spelling of numbers and places of tone marks may differ.
    """
    statement, sentence = _plain(statement), _plain(sentence)
    if "?" in sentence or is_table_row(sentence) or _POINTING.search(sentence):
        return False
    said = _words(statement)
    return len(said) > 2 and said in [_words(way) for way in (sentence, *_time_moved(sentence))]


def _time_moved(sentence: str) -> list[str]:
    """A sentence of one clause with its only time at the other end."""
    sentence = sentence.rstrip(" .!")
    if len(re.findall(r"\d{3,4}", sentence)) != 1:
        return []
    if found := _TIME_FIRST.match(sentence):
        return [f"{found['rest']}{link}{found['time']}" for link in (" ", " vào ")]
    if (found := _TIME_LAST.match(sentence)) and not _RELATIVE.search(found["rest"]):
        return [f"{link}{found['time']}, {found['rest']}" for link in ("", "vào ")]
    return []


def _words(text: str) -> list[str]:
    return [
        token if any(letter.isdigit() for letter in token) else canonical_tone(token)
        for token in _TOKEN.findall(text.lower())
    ]


def _plain(text: str) -> str:
    """One spelling of signs and of grouped digits."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("“", "").replace("”", "")
    text = re.sub(r"(?<=\d)[ \u202f\u00a0](?=\d{3}(?!\d))", "", text)
    return " ".join(unicodedata.normalize("NFC", text).split())
