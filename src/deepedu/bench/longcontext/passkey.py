"""Passkeys and strings of digits hidden in a text that says the same thing over and over.

Source: Zhang et al. 2024, InfiniteBench, arXiv:2402.13718, section 3 (Retrieve.PassKey, Retrieve.Number: every digit of
the longer string comes twice).
Differs: several owners, each with a passkey or a string of digits of their own, so that one context serves many
questions.
"""

import itertools
import random

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import fill
from deepedu.bench.longcontext.lexicon import numbers

TASKS = ("passkey", "number_string")
# Of each task; the owners of the one are not those of the other.
OWNERS = 10
TOKENS_PER_OWNER = 400
STRING_DIGITS = 5

_WORDING: Wordings = {
    "en": {
        "head": "There is important information hidden inside a lot of irrelevant text. Find it and memorize it. You "
        "will "
        "be asked about it later.\n",
        "owners": "Alice, Bruno, Clara, David, Emma, Frank, Hanna, Jacob, Laura, Peter, "
        "Simon, Maria, Oscar, Helen, Victor, Nina, Walter, Julia, Edward, Sarah",
        "noise": " The grass is green.| The sky is blue.| The sun is yellow.| Here we go.| There and back again.",
        "passkey": " The pass key of {owner} is {value}. Remember it. {value} is the pass key of {owner}.",
        "number_string": " The sequence of digits of {owner} is {value}. Remember it. {value} is the sequence of "
        "digits of "
        "{owner}.",
        "ask_passkey": "What is the pass key of {owner}?",
        "begin_passkey": "The pass key of {owner} is",
        "ask_number_string": "What is the sequence of digits of {owner}?",
        "begin_number_string": "The sequence of digits of {owner} is",
    },
    "vi": {
        "head": "Có thông tin quan trọng được giấu trong một đoạn văn dài không liên quan. Hãy tìm và ghi nhớ, lát "
        "nữa bạn "
        "sẽ được hỏi.\n",
        "owners": "An, Bình, Chi, Dũng, Hà, Khoa, Lan, Minh, Ngọc, Sơn, Hoa, Tùng, Quỳnh, Phong, "
        "Thảo, Đạt, Yến, Vinh, Trang, Long",
        "noise": " Cỏ thì xanh.| Trời thì trong.| Nắng thì vàng.| Ta cùng đi nào.| Đi rồi lại về.",
        "passkey": " Mật khẩu của {owner} là {value}. Hãy nhớ lấy. {value} là mật khẩu của {owner}.",
        "number_string": " Dãy chữ số của {owner} là {value}. Hãy nhớ lấy. {value} là dãy chữ số của {owner}.",
        "ask_passkey": "Mật khẩu của {owner} là gì?",
        "begin_passkey": "Mật khẩu của {owner} là",
        "ask_number_string": "Dãy chữ số của {owner} là gì?",
        "begin_number_string": "Dãy chữ số của {owner} là",
    },
}


def generate(order: Order) -> list[Case]:
    """Both tasks over one context; see ``Generator``."""
    draw = order.draw("passkey")
    words = _WORDING[order.language]
    number = max(2, min(OWNERS, order.length_tokens // TOKENS_PER_OWNER))
    owners = draw.sample(words["owners"].split(", "), 2 * number)
    values = {
        "passkey": dict(zip(owners[:number], numbers(draw, number, digits=5), strict=True)),
        "number_string": dict(zip(owners[number:], _doubled(draw, number), strict=True)),
    }
    needles = [words[task].format(owner=owner, value=value) for task in TASKS for owner, value in values[task].items()]
    draw.shuffle(needles)
    noise = itertools.cycle(words["noise"].split("|"))
    filled = fill(words["head"], noise, order.count, order.length_tokens, needles=needles)
    cases: list[Case] = []
    for task in TASKS:
        questions = tuple(
            Question(
                words[f"ask_{task}"].format(owner=owner),
                (value,),
                words[f"begin_{task}"].format(owner=owner),
                depths=(filled.depth(words[task].format(owner=owner, value=value)),),
                reply_tokens=18,
            )
            for owner, value in values[task].items()
        )
        cases.append(Case(task, order.language, filled.text, questions[: order.questions]))
    return cases


def _doubled(draw: random.Random, number: int) -> list[str]:
    return ["".join(digit * 2 for digit in value) for value in numbers(draw, number, digits=STRING_DIGITS)]


GROUP = Group(TASKS, generate)
