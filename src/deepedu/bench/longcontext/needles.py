"""Facts hidden in prose: one of its kind, one of many alike, several values of a key, several keys at once.

Source: Hsieh et al. 2024, RULER, arXiv:2404.06654, section 3 (single, multi-key, multi-value, multi-query needles).
Differs: one context holds the needles of all four tasks and is asked about each of them, because reading it is the
cost; a single needle is the only one of its *kind* (an access code, a phone number), the others are all magic numbers.
"""

import random

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import Filled, fill
from deepedu.bench.longcontext.haystack import haystack
from deepedu.bench.longcontext.lexicon import key_names, numbers

TASKS = ("needle_single", "needle_multi_key", "needle_multi_value", "needle_multi_query")
VALUES_PER_KEY = 4
KEYS_PER_QUESTION = 4
# At this length the context holds all kinds of single needle and as many others as below.
FULL_LENGTH_TOKENS = 4096
KEYS, VALUED_KEYS = 12, 3

_WORDING: Wordings = {
    "en": {
        "head": "Some special facts are hidden in the following text. Remember them: you will be asked about them "
        "later.\n",
        "one": "The special magic number for {key} is {value}.",
        "some": "One of the special magic numbers for {key} is {value}.",
        "ask_one": "What is the special magic number for {key} mentioned in the provided text?",
        "begin_one": "The special magic number for {key} mentioned in the provided text is",
        "ask_some": "What are all the special magic numbers for {key} mentioned in the provided text? There are "
        "{count}.",
        "begin_some": "The {count} special magic numbers for {key} mentioned in the provided text are",
        "ask_keys": "What are the special magic numbers for {keys} mentioned in the provided text?",
        "begin_keys": "The special magic numbers mentioned in the provided text are as follows: the one for {key} is",
        "and": "and",
    },
    "vi": {
        "head": "Đoạn văn sau có giấu một số thông tin đặc biệt. Hãy ghi nhớ, lát nữa bạn sẽ được hỏi về chúng.\n",
        "one": "Con số bí mật của {key} là {value}.",
        "some": "Một trong các con số bí mật của {key} là {value}.",
        "ask_one": "Con số bí mật của {key} được nêu trong đoạn văn trên là bao nhiêu?",
        "begin_one": "Con số bí mật của {key} được nêu trong đoạn văn trên là",
        "ask_some": "Tất cả các con số bí mật của {key} được nêu trong đoạn văn trên là những số nào? Có {count} số.",
        "begin_some": "{count} con số bí mật của {key} được nêu trong đoạn văn trên là",
        "ask_keys": "Các con số bí mật của {keys} được nêu trong đoạn văn trên là những số nào?",
        "begin_keys": "Các con số bí mật được nêu trong đoạn văn trên là: của {key} là",
        "and": "và",
    },
}
# Each is the only fact of its kind: subject of the needle and of the question.
_KINDS = {
    "en": (
        "access code of the school library",
        "telephone number of the night watchman",
        "serial number of the blue telescope",
        "ticket number of the lost suitcase",
        "licence number of the ferry captain",
        "catalogue number of the oldest map",
        "account number of the chess club",
        "postal code of the research station",
        "production number of the piano",
        "identification number of the lame horse",
    ),
    "vi": (
        "mã mở cửa thư viện trường",
        "số điện thoại của bác bảo vệ ca đêm",
        "số sê-ri của kính thiên văn màu lam",
        "số vé của chiếc va li thất lạc",
        "số bằng lái của thuyền trưởng",
        "số lưu trữ của tấm bản đồ lâu đời nhất",
        "số tài khoản của câu lạc bộ cờ vua",
        "mã bưu chính của trạm nghiên cứu",
        "số xuất xưởng của cây dương cầm",
        "số hiệu của chú ngựa què",
    ),
}
_SINGLE: Wordings = {
    "en": {
        "needle": "The {kind} is {value}.",
        "ask": "What is the {kind} mentioned in the provided text?",
        "begin": "The {kind} mentioned in the provided text is",
    },
    "vi": {
        "needle": "{Kind} là {value}.",
        "ask": "{Kind} được nêu trong đoạn văn trên là gì?",
        "begin": "{Kind} được nêu trong đoạn văn trên là",
    },
}


def generate(order: Order) -> list[Case]:
    """The four tasks over one context; see ``Generator``."""
    draw = order.draw("needles")
    scale = min(2.0, order.length_tokens / FULL_LENGTH_TOKENS)
    kinds = draw.sample(_KINDS[order.language], max(2, min(10, round(scale * 10))))
    key_count, valued_count = max(KEYS_PER_QUESTION, round(scale * KEYS)), max(1, round(scale * VALUED_KEYS))
    names = key_names(order.language, draw, key_count + valued_count)
    values = numbers(draw, len(kinds) + key_count + valued_count * VALUES_PER_KEY)
    single = {kind: values.pop() for kind in kinds}
    keyed = {key: values.pop() for key in names[:key_count]}
    valued = {key: [values.pop() for _ in range(VALUES_PER_KEY)] for key in names[key_count:]}
    words = _WORDING[order.language]
    needles = [" " + _single(order, "needle", kind, value) for kind, value in single.items()]
    needles += [" " + words["one"].format(key=key, value=value) for key, value in keyed.items()]
    needles += [" " + words["some"].format(key=key, value=value) for key, many in valued.items() for value in many]
    draw.shuffle(needles)
    filled = fill(words["head"], haystack(order, draw), order.count, order.length_tokens, needles=needles)
    asked = (
        [_ask_single(order, filled, kind, value) for kind, value in single.items()],
        [_ask_one(order, filled, key, value) for key, value in keyed.items()],
        [_ask_some(order, filled, key, many) for key, many in valued.items()],
        _ask_keys(order, filled, keyed, draw),
    )
    return [
        Case(task, order.language, filled.text, tuple(questions[: order.questions]))
        for task, questions in zip(TASKS, asked, strict=True)
    ]


def _single(order: Order, form: str, kind: str, value: str = "") -> str:
    return _SINGLE[order.language][form].format(kind=kind, Kind=kind[0].upper() + kind[1:], value=value)


def _ask_single(order: Order, filled: Filled, kind: str, value: str) -> Question:
    ask, begin = _single(order, "ask", kind), _single(order, "begin", kind)
    return Question(ask, (value,), begin, depths=(filled.depth(value),), reply_tokens=16)


def _ask_one(order: Order, filled: Filled, key: str, value: str) -> Question:
    words = _WORDING[order.language]
    ask, begin = words["ask_one"].format(key=key), words["begin_one"].format(key=key)
    return Question(ask, (value,), begin, depths=(filled.depth(value),), reply_tokens=16)


def _ask_some(order: Order, filled: Filled, key: str, values: list[str]) -> Question:
    words = _WORDING[order.language]
    ask, begin = (words[form].format(key=key, count=len(values)) for form in ("ask_some", "begin_some"))
    return Question(ask, tuple(values), begin, depths=tuple(filled.depth(v) for v in values), reply_tokens=56)


def _ask_keys(order: Order, filled: Filled, keyed: dict[str, str], draw: random.Random) -> list[Question]:
    words = _WORDING[order.language]
    questions: list[Question] = []
    for _ in range(order.questions):
        keys = draw.sample(sorted(keyed), KEYS_PER_QUESTION)
        listed = f"{', '.join(keys[:-1])} {words['and']} {keys[-1]}"
        values = tuple(keyed[key] for key in keys)
        depths = tuple(filled.depth(value) for value in values)
        begin = words["begin_keys"].format(key=keys[0])
        questions.append(Question(words["ask_keys"].format(keys=listed), values, begin, depths=depths, reply_tokens=80))
    return questions


GROUP = Group(TASKS, generate)
