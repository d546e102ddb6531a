"""Samples of Lost in the Middle: its key-value records, and its open questions with the passage that answers each.

Source: Liu et al. 2023, Lost in the Middle, arXiv:2307.03172, sections 3 and 4.
Differs: a record is asked for many of its keys. The distractors of a question are the passages of the other questions,
so that one context serves all of them; the places are spread by chance instead of on purpose.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepedu.base.errors import Unsupported
from deepedu.bench.longcontext import key_value
from deepedu.bench.longcontext.case import Case, Group, Order, Question
from deepedu.bench.longcontext.fill import fill

FOLDER = "lost_in_the_middle"
KEY_VALUE_TASK, OPEN_TASK = "lost_in_the_middle_kv", "lost_in_the_middle_nq"
KEY_VALUE_FILES = ("kv-retrieval-140_keys.jsonl.gz", "kv-retrieval-75_keys.jsonl.gz")
OPEN_FILE = "nq-open-oracle.jsonl.gz"
_OPEN_HEAD = "Read the following documents. You will be asked questions that they answer.\n"
_ANSWER_CHARACTERS = 40


def generate_key_value(order: Order) -> list[Case]:
    """The largest record that fits; see ``Generator``."""
    draw = order.draw(KEY_VALUE_TASK)
    words = key_value.WORDING["en"]
    for name in KEY_VALUE_FILES:
        pairs = draw.choice(_records(_file(order, name)))["ordered_kv_records"]
        body = ",\n".join(f'"{key}": "{value}"' for key, value in pairs)
        context = f"{words['head']}{{{body}}}"
        if order.count(context) > order.length_tokens:
            continue
        places = key_value.spread(len(pairs), order.questions)
        draw.shuffle(places)
        questions = tuple(
            key_value.question(words, pairs[place][0], pairs[place][1], round(place / (len(pairs) - 1), 4))
            for place in places
        )
        return [Case(KEY_VALUE_TASK, "en", context, questions)]
    raise Unsupported(f"no record of {FOLDER} fits into {order.length_tokens} tokens")


def generate_open(order: Order) -> list[Case]:
    """Passages up to the length; see ``Generator``."""
    draw = order.draw(OPEN_TASK)
    records = [record for record in _records(_file(order, OPEN_FILE)) if _usable(record)]
    draw.shuffle(records)
    by_piece: dict[str, dict[str, Any]] = {}

    def pieces() -> Iterator[str]:
        seen: set[str] = set()
        for record in records:
            passage = record["ctxs"][0]
            if passage["title"] not in seen:
                seen.add(passage["title"])
                piece = f"\nDocument ({passage['title']}): {passage['text']}\n"
                by_piece[piece] = record
                yield piece

    filled = fill(_OPEN_HEAD, pieces(), order.count, order.length_tokens)
    asked = [filled.pieces[place] for place in key_value.spread(len(filled.pieces), order.questions)]
    questions = tuple(
        Question(
            f"{by_piece[piece]['question'].strip().capitalize().rstrip('?')}? Answer with a few words of the "
            f"documents.",
            tuple(by_piece[piece]["answers"]),
            "Answer:",
            match="any",
            depths=(filled.depth(piece),),
            reply_tokens=24,
        )
        for piece in asked
    )
    return [Case(OPEN_TASK, "en", filled.text, questions)]


def _usable(record: dict[str, Any]) -> bool:
    text, answers = record["ctxs"][0]["text"], record["answers"]
    return any(answer in text for answer in answers) and max(map(len, answers)) <= _ANSWER_CHARACTERS


def _file(order: Order, name: str) -> Path:
    if order.data_dir is None or not (order.data_dir / FOLDER / name).is_file():
        raise Unsupported(f"the sample set {FOLDER} is not among the shared data")
    return order.data_dir / FOLDER / name


def _records(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


KEY_VALUE_GROUP = Group((KEY_VALUE_TASK,), generate_key_value, ("en",))
OPEN_GROUP = Group((OPEN_TASK,), generate_open, ("en",))
