"""Common words: a long list where ten words come often and the others seldom; which are the common ones?

Source: Hsieh et al. 2024, RULER, arXiv:2404.06654, section 3 (common words extraction:
10 words 30 times, others 3 times).
Differs: besides naming all ten, the same list is asked many times which of four words is the most common.
"""

import random
from collections.abc import Mapping

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import fill
from deepedu.bench.longcontext.lexicon import key_names

TASK = "common_words"
COMMON, COMMON_TIMES, RARE_TIMES = 10, 30, 3
RARE_WORDS = {"en": 3400, "vi": 1900}

_WORDING: Wordings = {
    "en": {
        "head": "Below is a long list of words. A few of them come up very often. Memorize the most common ones.\n",
        "ask_all": "What are the {count} most common words in the above list?",
        "begin_all": "The {count} most common words in the list are:",
        "ask_one": "Which of these four words comes up most often in the above list: {words}?",
        "begin_one": "The word that comes up most often in the above list is",
    },
    "vi": {
        "head": "Dưới đây là một danh sách dài các cụm từ. Một vài cụm từ xuất hiện rất nhiều lần. Hãy ghi nhớ "
        "chúng.\n",
        "ask_all": "{count} cụm từ xuất hiện nhiều lần nhất trong danh sách trên là gì?",
        "begin_all": "{count} cụm từ xuất hiện nhiều lần nhất trong danh sách trên là:",
        "ask_one": "Trong bốn cụm từ sau, cụm từ nào xuất hiện nhiều lần nhất trong danh sách trên: {words}?",
        "begin_one": "Cụm từ xuất hiện nhiều lần nhất trong danh sách trên là",
    },
}


def generate(order: Order) -> list[Case]:
    """See ``Generator``."""
    draw = order.draw(TASK)
    words = _WORDING[order.language]
    names = key_names(order.language, draw, COMMON + RARE_WORDS[order.language])
    common, rare = names[:COMMON], names[COMMON:]
    # First in the order in which they are taken, then shuffled: the length decides how many rare words there are.
    filled = fill(words["head"], _entries(order, common, rare), order.count, order.length_tokens)
    entries = list(filled.pieces)
    draw.shuffle(entries)
    text = words["head"] + "".join(entries)
    while order.count(text) > order.length_tokens:
        entries.pop()
        text = words["head"] + "".join(entries)
    seldom = sorted({entry.removesuffix(", ") for entry in entries} - set(common))
    count = len(common)
    listed = Question(
        words["ask_all"].format(count=count), tuple(common), words["begin_all"].format(count=count), reply_tokens=80
    )
    chosen = [_choice(words, draw, common[index % COMMON], seldom) for index in range(order.questions - 1)]
    return [Case(TASK, order.language, text, (listed, *chosen))]


def _entries(order: Order, common: list[str], rare: list[str]) -> list[str]:
    # A third of a short list at most is common words; a long one has them as often as the paper.
    tokens = max(1.0, order.count(", ".join(rare[:50])) / 50)
    times = max(2 * RARE_TIMES, min(COMMON_TIMES, int(order.length_tokens / tokens / 3 / COMMON)))
    return [f"{name}, " for name in [*(common * times), *(name for name in rare for _ in range(RARE_TIMES))]]


def _choice(words: Mapping[str, str], draw: random.Random, name: str, seldom: list[str]) -> Question:
    options = [name, *draw.sample(seldom, 3)]
    draw.shuffle(options)
    ask = words["ask_one"].format(words=", ".join(options))
    return Question(ask, (name,), words["begin_one"], match="choice", options=tuple(options), reply_tokens=16)


GROUP = Group((TASK,), generate)
