"""Key-value retrieval: one value of a long JSON object of random identifiers.

Source: Zhang et al. 2024, InfiniteBench, arXiv:2402.13718, section 3 (Retrieve.KV).
"""

import random
import uuid
from collections.abc import Iterator, Mapping

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import fill

TASK = "key_value"

WORDING: Wordings = {
    "en": {
        "head": "Extract the value corresponding to the specified key in the JSON object below.\n\n",
        "ask": 'What is the value of the key "{key}" in the JSON object above?',
        "begin": 'The value of the key "{key}" is "',
    },
    "vi": {
        "head": "Hãy tìm giá trị ứng với khóa được hỏi trong đối tượng JSON dưới đây.\n\n",
        "ask": 'Giá trị của khóa "{key}" trong đối tượng JSON ở trên là gì?',
        "begin": 'Giá trị của khóa "{key}" là "',
    },
}


def generate(order: Order) -> list[Case]:
    """See ``Generator``."""
    draw = order.draw(TASK)
    words = WORDING[order.language]
    pairs: dict[str, str] = {}

    def pieces() -> Iterator[str]:
        while True:
            key, value = _identifier(draw), _identifier(draw)
            pairs[f',\n"{key}": "{value}"'] = key
            yield f',\n"{key}": "{value}"'

    first = f'"{_identifier(draw)}": "{_identifier(draw)}"'
    filled = fill(words["head"] + "{" + first, pieces(), order.count, order.length_tokens, tail="}")
    asked = [filled.pieces[index] for index in spread(len(filled.pieces), order.questions)]
    draw.shuffle(asked)
    questions = tuple(
        question(words, pairs[piece], piece.split('"')[3], filled.depth(piece.split('"')[3])) for piece in asked
    )
    return [Case(TASK, order.language, filled.text, questions)]


def question(words: Mapping[str, str], key: str, value: str, depth: float) -> Question:
    """Asks for the value of a key."""
    ask, begin = words["ask"].format(key=key), words["begin"].format(key=key)
    return Question(ask, (value,), begin, depths=(depth,), reply_tokens=44)


def spread(size: int, number: int) -> list[int]:
    """At most ``number`` different places in a list of ``size``, at equal distances from its start to its end."""
    if number >= size:
        return list(range(size))
    return [round((index + 0.5) / number * size - 0.5) for index in range(number)]


def _identifier(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


GROUP = Group((TASK,), generate)
