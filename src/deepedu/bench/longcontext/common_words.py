"""Common words: long lists where ten words come often and the others seldom; which are the common ones?

Source: Hsieh et al. 2024, RULER, arXiv:2404.06654, section 3 (common words extraction: 10 words 30 times, others 3
times). Differs: a context holds several lists of about 2000 tokens with a question each, instead of one list with one
question; a short list has its common words less often.
"""

from deepedu.bench.longcontext.case import Case, Group, Order, Question, Wordings
from deepedu.bench.longcontext.fill import fill
from deepedu.bench.longcontext.lexicon import key_names

TASK = "common_words"
COMMON, COMMON_TIMES, RARE_TIMES = 10, 30, 3
LIST_TOKENS = 2000
# As many different names as the lexicon has, nearly.
NAMES = {"en": 3500, "vi": 1950}

_WORDING: Wordings = {
    "en": {
        "head": "Below are long lists of words. In each list ten words come up very often. Memorize them.",
        "title": "\n\nList {number}:\n",
        "ask": "What are the {count} most common words in list {number} above?",
        "begin": "The {count} most common words in list {number} are:",
    },
    "vi": {
        "head": "Dưới đây là các danh sách cụm từ rất dài. Trong mỗi danh sách có mười cụm từ xuất hiện rất nhiều lần. "
        "Hãy ghi nhớ chúng.",
        "title": "\n\nDanh sách {number}:\n",
        "ask": "{count} cụm từ xuất hiện nhiều lần nhất trong danh sách {number} ở trên là gì?",
        "begin": "{count} cụm từ xuất hiện nhiều lần nhất trong danh sách {number} là:",
    },
}


def generate(order: Order) -> list[Case]:
    """See ``Generator``."""
    draw = order.draw(TASK)
    words = _WORDING[order.language]
    number_of_lists = max(1, min(order.questions, order.length_tokens // LIST_TOKENS))
    names = key_names(order.language, draw, NAMES[order.language])
    text = words["head"]
    questions: list[Question] = []
    for number in range(1, number_of_lists + 1):
        left = (order.length_tokens - order.count(text)) // (number_of_lists - number + 1)
        common, names = names[:COMMON], names[COMMON:]
        title = words["title"].format(number=number)
        filled = fill(title, _entries(order, common, names, left), order.count, left)
        used = set(filled.pieces)
        names = [name for name in names if f"{name}, " not in used]
        # Taken in order, so that the length decides how many rare words there are; then mixed.
        entries = list(filled.pieces)
        draw.shuffle(entries)
        while order.count(text + title + "".join(entries)) > order.length_tokens:
            entries.pop()
        text += title + "".join(entries)
        ask, begin = (words[form].format(count=COMMON, number=number) for form in ("ask", "begin"))
        questions.append(Question(ask, tuple(common), begin, reply_tokens=80))
    return [Case(TASK, order.language, text, tuple(questions))]


def _entries(order: Order, common: list[str], rare: list[str], length_tokens: int) -> list[str]:
    # A third of a list is common words, unless they come more often than in the paper.
    tokens = max(1.0, order.count(", ".join(rare[:50])) / 50)
    times = max(2 * RARE_TIMES, min(COMMON_TIMES, int(length_tokens / tokens / 3 / COMMON)))
    return [f"{name}, " for name in [*(common * times), *(name for name in rare for _ in range(RARE_TIMES))]]


GROUP = Group((TASK,), generate)
