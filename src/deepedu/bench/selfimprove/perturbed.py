"""Sentences of real articles with one thing changed: a number, two numbers or two names exchanged, a negation.

Unlike the planted lessons, nobody looked at them while the gate was built. Each comes from a sentence of the library
itself, so that all but one of its words are true; the unchanged sentences are the control.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

from deepedu.base.config import StoreSettings
from deepedu.base.vietnamese import sentence_spans
from deepedu.bench.library import add_book
from deepedu.bench.run import BenchContext
from deepedu.bench.viquad import load_viquad
from deepedu.playbook.bullet import BulletScope, clean_text
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.tutor.fact_check import BookFactCheck

_NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w.,%]|\s?\d)")
_NAME = re.compile(r"(?<=[^.!?:] )(?:[A-ZĐÀ-Ỹ][^\W\d_]+)(?: [A-ZĐÀ-Ỹ][^\W\d_]+)*")
_WORDS = range(8, 31)


def _number(sentence: str, draw: random.Random) -> str | None:
    """One number made another."""
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    one = draw.choice(found)
    other = str(int(one.group()) + draw.choice((1, 2, 3, 10)))
    return sentence[: one.start()] + other + sentence[one.end() :]


def _numbers_exchanged(sentence: str, draw: random.Random) -> str | None:
    return _exchanged(sentence, list(_NUMBER.finditer(sentence)), draw)


def _names_exchanged(sentence: str, draw: random.Random) -> str | None:
    return _exchanged(sentence, list(_NAME.finditer(sentence)), draw)


def _exchanged(sentence: str, found: list[re.Match[str]], draw: random.Random) -> str | None:
    if len(found) < 2:
        return None
    first, second = sorted(draw.sample(found, 2), key=lambda match: match.start())
    between = sentence[first.end() : second.start()]
    # Members of a list may stand in any order.
    if first.group() == second.group() or re.fullmatch(r"\s*(?:,|và|hoặc|hay|-|–|/)?\s*", between) or "," in between:
        return None
    return sentence[: first.start()] + second.group() + between + first.group() + sentence[second.end() :]


def _negated(sentence: str, draw: random.Random) -> str | None:
    """A negation dropped, or put before a verb that often takes one."""
    del draw
    if " không " in sentence:
        return sentence.replace(" không ", " ", 1)
    changed, times = re.subn(r" (là|có|được|thuộc|nằm|gồm) ", r" không \1 ", sentence, count=1)
    return changed if times else None


CHANGES: dict[str, Callable[[str, random.Random], str | None]] = {
    "number": _number,
    "numbers_exchanged": _numbers_exchanged,
    "names_exchanged": _names_exchanged,
    "negated": _negated,
}


async def perturbed_figures(context: BenchContext, each: int) -> tuple[dict[str, float], dict[str, Any]]:
    """``perturbed_live`` of ``perturbed`` changed sentences (so many of each change), and ``unchanged_live_share``.

    Raises:
        ConfigError: the shared data sets are not there.
    """
    contexts = load_viquad(context.data_dir, ["test"]).contexts
    draw = random.Random(context.seed)
    sentences = [text[start:end] for text in contexts for start, end in sentence_spans(text)]
    sentences = [one for one in dict.fromkeys(sentences) if len(one.split()) in _WORDS]
    draw.shuffle(sentences)
    asked: list[tuple[str, str]] = [("unchanged", one) for one in sentences[:each]]
    for name, change in CHANGES.items():
        changed = (change(one, draw) for one in sentences)
        asked += [(name, one) for one in [one for one in changed if one is not None][:each]]
    with closing(Database(StoreSettings(data_dir=context.tmp_dir / "perturbed"))) as database:
        add_book(database, "", contexts)
        facts = BookFactCheck(database, Search(database, context.settings.search.model_copy(update={"dense": "off"})))
        live: list[tuple[str, str]] = []
        with context.progress("perturbed", len(asked)) as advance:
            for name, text in asked:
                verdict = await facts.check(clean_text(text), BulletScope())
                if not verdict.reasons and not verdict.doubts:
                    live.append((name, text))
                advance(1)
    counts, passed = Counter(name for name, _ in asked), Counter(name for name, _ in live)
    figures = {
        "perturbed": len(asked) - counts["unchanged"],
        "perturbed_live": len(live) - passed["unchanged"],
        "unchanged_live_share": passed["unchanged"] / max(1, counts["unchanged"]),
    }
    details = {name: {"asked": counts[name], "live": passed[name]} for name in counts}
    return figures, {**details, "passed": [one for one in live if one[0] != "unchanged"]}
