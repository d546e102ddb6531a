"""Samples of LongBench v2: a real document and one question with four choices.

Source: Bai et al. 2024, LongBench v2, arXiv:2412.15204.
Differs: only documents that fit whole; none is cut in its middle.
"""

import json

from deepedu.base.errors import Unsupported
from deepedu.bench.longcontext.case import Case, Group, Order, Question

TASK = FOLDER = "longbench_v2"
# Characters that a token of English stands for at the very most: longer documents are not even counted.
_CHARACTERS_PER_TOKEN = 6
_HEAD = "Please read the following text. You will be asked a question about it.\n\n"


def generate(order: Order) -> list[Case]:
    """Up to ``order.documents`` documents, each with its one question; see ``Generator``."""
    folder = order.data_dir / FOLDER if order.data_dir is not None else None
    if folder is None or not (folder / "index.jsonl").is_file():
        raise Unsupported(f"the sample set {FOLDER} is not among the shared data")
    entries = [json.loads(line) for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    order.draw(TASK).shuffle(entries)
    cases: list[Case] = []
    for entry in entries:
        if len(cases) == order.documents:
            break
        if entry["context_bytes"] > order.length_tokens * _CHARACTERS_PER_TOKEN:
            continue
        context = _HEAD + (folder / entry["context_file"]).read_text(encoding="utf-8").strip()
        if order.count(context) > order.length_tokens:
            continue
        letters = tuple(entry["choices"])
        choices = "\n".join(f"({letter}) {text}" for letter, text in entry["choices"].items())
        question = Question(
            f"What is the correct answer to this question: {entry['question']}\nChoices:\n{choices}",
            (entry["answer"],),
            "The correct answer is (",
            match="choice",
            options=letters,
            reply_tokens=4,
        )
        cases.append(Case(TASK, "en", context, (question,)))
    if not cases:
        raise Unsupported(f"no document of {FOLDER} fits into {order.length_tokens} tokens")
    return cases


GROUP = Group((TASK,), generate, ("en",))
