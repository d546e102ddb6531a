"""Variable tracking: chains of assignments scattered over prose; which variables hold a given value?

Source: Hsieh et al. 2024, RULER, arXiv:2404.06654, section 3 (variable tracking).
Differs: several chains in one context, one question for each.
"""

import random
import string

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import fill
from deepedu.bench.longcontext.haystack import haystack
from deepedu.bench.longcontext.lexicon import numbers

TASK = "variable_tracking"
VARIABLES_PER_CHAIN = 4
# A chain takes about 60 tokens of its own.
TOKENS_PER_CHAIN = 300

_WORDING: Wordings = {
    "en": {
        "head": "Memorize and track the chains of variable assignments hidden in the following text.\n",
        "ask": "Find all variables that are assigned the value {value} in the text above, directly or through other "
        "variables.",
        "begin": "According to the chain of variable assignments in the text above, {count} variables are assigned the "
        "value {value}, they are: VAR",
    },
    "vi": {
        "head": "Hãy ghi nhớ và theo dõi các chuỗi phép gán biến được giấu trong đoạn văn sau.\n",
        "ask": "Hãy tìm tất cả các biến được gán giá trị {value} trong đoạn văn trên, trực tiếp hoặc thông qua biến "
        "khác.",
        "begin": "Theo chuỗi phép gán trong đoạn văn trên, có {count} biến được gán giá trị {value}, đó là: VAR",
    },
}


def generate(order: Order) -> list[Case]:
    """See ``Generator``."""
    draw = order.draw(TASK)
    words = _WORDING[order.language]
    chains = _chains(draw, max(2, min(order.questions, order.length_tokens // TOKENS_PER_CHAIN)))
    # Assignments of all chains are mixed; inside one chain none comes before what it refers to.
    turns = [value for value in chains for _ in range(VARIABLES_PER_CHAIN)]
    draw.shuffle(turns)
    written: dict[str, list[str]] = {value: [] for value in chains}
    needles: list[str] = []
    for value in turns:
        names, seen = chains[value], len(written[value])
        assignment = f" VAR {names[seen]} = {f'VAR {names[seen - 1]}' if seen else value}."
        written[value].append(assignment)
        needles.append(assignment)
    filled = fill(words["head"], haystack(order, draw), order.count, order.length_tokens, needles=needles)
    every = tuple(name for names in chains.values() for name in names)
    questions = tuple(
        Question(
            words["ask"].format(value=value),
            tuple(names),
            words["begin"].format(value=value, count=len(names)),
            options=every,
            depths=tuple(filled.depth(assignment) for assignment in written[value]),
            reply_tokens=48,
        )
        for value, names in chains.items()
    )
    return [Case(TASK, order.language, filled.text, questions[: order.questions])]


def _chains(draw: random.Random, number: int) -> dict[str, list[str]]:
    names: dict[str, None] = {}
    while len(names) < number * VARIABLES_PER_CHAIN:
        names["".join(draw.choices(string.ascii_uppercase, k=5))] = None
    listed = list(names)
    values = numbers(draw, number, digits=5)
    return {
        value: listed[index * VARIABLES_PER_CHAIN : (index + 1) * VARIABLES_PER_CHAIN]
        for index, value in enumerate(values)
    }


GROUP = Group((TASK,), generate)
