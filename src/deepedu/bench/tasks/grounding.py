"""How far an answer can be trusted: false support, right page, "not in the book", accuracy with and without the book.

Two sets of questions, both with some that the library cannot answer:

* ``sample``: the questions of the sample textbook; the unanswerable ones ask for what the book nearly says.
* ``viquad``: UIT-ViQuAD test. The last fifth of its passages, whole articles, is left out of the library, and
  questions about the end of that fifth are the unanswerable ones.

Figures (suffix ``_sample`` or ``_viquad`` for one set, none for both together):

* ``false_support_rate``: sentences shown as supported or quoted that hold a number or a name which the cited passage
  does not hold, found by a check of its own (below), by all such sentences.
* ``right_page_rate``: answerable questions answered with a citation of a page where an accepted answer stands (for
  ViQuAD: of the passage the question was asked on), by those answered with a citation at all.
* ``not_in_book_precision`` and ``not_in_book_recall`` of the verdict "the book does not say".
* ``answer_accuracy``: answerable questions whose shown answer holds an accepted answer.
  ``answer_accuracy_model_alone``: the same of the same model asked without any book;
  ``answer_accuracy_model_with_passages``: the same of its unchecked draft.
* ``first_token_ms_median``, ``prompt_tokens_mean``, ``cached_tokens_mean``: what reading cost the model, kept replies
  with the times they took then. ``lesson_share``: questions that a whole lesson served, by all.
"""

import asyncio
import json
import random
import re
import statistics
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from deepedu.base.config import StoreSettings, TutorSettings
from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import words
from deepedu.bench.library import add_book
from deepedu.bench.model_endpoint import bench_endpoint
from deepedu.bench.replies import KeptReplies
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.bench.vector_cache import CachedEmbedder, default_path
from deepedu.bench.viquad import load_viquad
from deepedu.bench.warmed_model import WarmedModel
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF, SAMPLE_QUESTIONS
from deepedu.llm.chat import ChatModel, Delta, Finished, Message
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.search.embed import embed_missing
from deepedu.search.embedder import open_embedder
from deepedu.search.evidence import Evidence
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.store.tables import Page
from deepedu.tutor.answer import Answer, CheckedSentence, Status
from deepedu.tutor.context import ContextUse
from deepedu.tutor.turn import Completed, Draft, Found, Tutor

OPTIONS = {
    "sets": "sample,viquad (default both): which questions",
    "viquad_questions": "how many ViQuAD questions (default 60, a third of them unanswerable)",
    "replies": "kept (default): use replies kept from earlier runs; fresh: ask the model anew",
    "context": "passages (default) or lesson: what the model reads",
    "warm": "yes (default): a lesson is computed before it is asked about, as a school does; no: the first asker waits",
}
ALONE = "Trả lời câu hỏi của học sinh bằng tiếng Việt, ngắn gọn, một đến ba câu."
HELD_OUT = 0.20
ASKED_OF_HELD_OUT = 0.15
# ViQuAD tells no articles; neighbouring contexts, which are mostly of one, stand in for a lesson.
LESSON_CONTEXTS = 10


@dataclass(frozen=True)
class Asked:
    """A question of the bench. ``answers`` is empty for one that the library cannot answer."""

    set: str
    question: str
    answers: tuple[str, ...]
    # Passage ids (ViQuAD) or page numbers (sample) that hold the answer.
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Result:
    """What became of it."""

    asked: Asked
    answer: Answer
    evidence: tuple[Evidence, ...]
    draft: str
    alone: str
    finished: Finished | None = None
    context: ContextUse | None = None


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    return asyncio.run(_run(context))


async def _run(context: BenchContext) -> BenchResult:
    sets = context.options.get("sets", "sample,viquad").split(",")
    settings = _tutor_settings(context)
    results: list[Result] = []
    embedder, off_reason = open_embedder(context.settings.search)
    async with AsyncExitStack() as stack:
        endpoint, identity = await bench_endpoint(context, stack)
        file = context.settings.engine.cache_dir / "bench" / "replies.jsonl"
        cache = PrefixCacheClient(endpoint)
        is_warmed = _choice(context, "warm", ("yes", "no")) == "yes"
        if not is_warmed and settings.context == "lesson":
            identity += " cold"
        asked_model = WarmedModel(endpoint, cache) if is_warmed else endpoint
        model = KeptReplies(asked_model, identity, file, fresh=context.options.get("replies") == "fresh")
        for name in sets:
            database = Database(StoreSettings(data_dir=context.tmp_dir / name))
            stack.callback(database.close)
            questions = (_sample if name == "sample" else _viquad)(context, database)
            if embedder is not None:
                with context.console.status(f"embedding {name}"):
                    embed_missing(database, CachedEmbedder(embedder, default_path()))
            search = Search(database, context.settings.search, embedder)
            tutor = Tutor(database, search, model, settings, cache)
            with context.progress(name, len(questions)) as advance:
                for asked in questions:
                    results.append(await _ask(tutor, model, asked))
                    advance(1)
    figures: dict[str, float] = {}
    for suffix, chosen in [("", results), *((f"_{s}", [r for r in results if r.asked.set == s]) for s in sets)]:
        figures |= {f"{name}{suffix}": value for name, value in _figures(chosen).items()}
    details = {
        "model": identity,
        "context": settings.context,
        "dense": off_reason or (embedder.name if embedder else ""),
        "replies_kept": model.used,
        "replies_asked": model.asked,
        "questions": [_detail(result) for result in results],
    }
    return BenchResult(figures, details)


def _choice(context: BenchContext, option: str, known: Sequence[str]) -> str:
    chosen = context.options.get(option, known[0])
    if chosen not in known:
        raise ConfigError(f"--set {option}: expected {' or '.join(known)}, came {chosen!r}")
    return chosen


def _tutor_settings(context: BenchContext) -> TutorSettings:
    """The policy is named, never found out: what a library has warm would make two runs differ."""
    settings = context.settings.tutor
    named = settings.context if settings.context != "auto" and "context" not in context.options else None
    chosen = named or _choice(context, "context", ("passages", "lesson"))
    return settings.model_copy(update={"context": chosen})


def _sample(context: BenchContext, database: Database) -> list[Asked]:
    ingest(database, [SAMPLE_PDF], context.settings.ingest)
    with database.read() as session:
        pages = list(session.execute(sa.select(Page.number, Page.text)))
    asked: list[Asked] = []
    for line in SAMPLE_QUESTIONS.read_text(encoding="utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line)
        answers = tuple(entry["answers"]) if entry["answerable"] else ()
        # An answer may stand on more pages than the one it was asked from; each of them is a right place to cite.
        right = {number for number, text in pages if any(_holds_phrase(text, answer) for answer in answers)}
        asked.append(
            Asked("sample", entry["question"], answers, frozenset(right | ({entry["page"]} if answers else set())))
        )
    if context.quick:
        asked = random.Random(context.seed).sample(asked, 2)
    return asked


def _viquad(context: BenchContext, database: Database) -> list[Asked]:
    viquad = load_viquad(context.data_dir, ["test"])
    kept = int(len(viquad.contexts) * (1 - HELD_OUT))
    held_out = int(len(viquad.contexts) * (1 - ASKED_OF_HELD_OUT))
    # No title: the contexts have lost theirs.
    ids = add_book(database, "", viquad.contexts[:kept], section_passages=LESSON_CONTEXTS)
    answerable = [q for q in viquad.questions if q.context < kept]
    unanswerable = [q for q in viquad.questions if q.context >= held_out]
    count = 2 if context.quick else int(context.options.get("viquad_questions", "60"))
    draw = random.Random(context.seed)
    asked = [
        Asked("viquad", q.text, q.answers, frozenset({ids[q.context]}))
        for q in draw.sample(answerable, count - count // 3)
    ]
    return asked + [Asked("viquad", q.text, ()) for q in draw.sample(unanswerable, count // 3)]


async def _ask(tutor: Tutor, model: ChatModel, asked: Asked) -> Result:
    evidence: tuple[Evidence, ...] = ()
    draft, completed = "", None
    async with aclosing(tutor.ask(asked.question)) as events:
        async for event in events:
            match event:
                case Found():
                    evidence, draft = event.evidence, ""
                case Draft():
                    draft += event.text
                case Completed():
                    completed = event
                case _:
                    pass
    assert completed is not None
    alone = ""
    if asked.answers:
        messages = [Message("system", ALONE), Message("user", asked.question)]
        async for event in model.stream(messages, max_tokens=tutor.settings.answer_tokens):
            alone += event.text if isinstance(event, Delta) else ""
    return Result(asked, completed.answer, evidence, draft, alone, completed.finished, completed.context)


def _figures(results: Sequence[Result]) -> dict[str, float]:
    answerable = [r for r in results if r.asked.answers]
    refused = [r for r in results if not r.answer.found]
    rightly_refused = [r for r in refused if not r.asked.answers]
    shown = [(r, s) for r in results for s in _kept(r.answer)]
    cited = [r for r in answerable if any(s.citation for s in _kept(r.answer))]
    return {
        "questions": len(results),
        "sentences_shown": len(shown),
        "false_support_rate": _share([bool(false_support(s, r.evidence)) for r, s in shown]),
        "right_page_rate": _share([_right_page(r) for r in cited]),
        "not_in_book_precision": _share([not r.asked.answers for r in refused]),
        "not_in_book_recall": len(rightly_refused) / max(1, len(results) - len(answerable)),
        "answer_accuracy": _share([holds_answer(r.answer.text, r.asked.answers) for r in answerable]),
        "answer_accuracy_model_alone": _share([holds_answer(r.alone, r.asked.answers) for r in answerable]),
        "answer_accuracy_model_with_passages": _share([holds_answer(r.draft, r.asked.answers) for r in answerable]),
        **_costs(results),
    }


def _costs(results: Sequence[Result]) -> dict[str, float]:
    finished = [r.finished for r in results if r.finished is not None]
    waits = [f.first_token_ms for f in finished if f.first_token_ms is not None]
    prompts = [f.prompt_tokens for f in finished if f.prompt_tokens is not None]
    cached = [f.cached_tokens for f in finished if f.cached_tokens is not None]
    return {
        "first_token_ms_median": statistics.median(waits) if waits else float("nan"),
        "prompt_tokens_mean": statistics.fmean(prompts) if prompts else float("nan"),
        "cached_tokens_mean": statistics.fmean(cached) if cached else float("nan"),
        "lesson_share": _share([r.context is not None and r.context.policy == "lesson" for r in results]),
    }


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _kept(answer: Answer) -> list[CheckedSentence]:
    return [s for s in answer.sentences if s.status is not Status.UNSUPPORTED] if answer.found else []


def _right_page(result: Result) -> bool:
    citations = [s.citation for s in _kept(result.answer) if s.citation]
    if result.asked.set == "sample":
        return any(c.page in result.asked.right for c in citations)
    return any(c.passage_id in result.asked.right for c in citations)


def _right(result: Result) -> bool:
    if not result.asked.answers:
        return not result.answer.found
    return holds_answer(result.answer.text, result.asked.answers)


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether a text holds an accepted answer, written alike or with four fifths of its words when it has several."""
    written = set(words(_plain(text)))
    for answer in answers:
        wanted = words(_plain(answer))
        if _holds_phrase(text, answer):
            return True
        if len(wanted) >= 4 and sum(word in written for word in wanted) >= 0.8 * len(wanted):
            return True
    return False


def _holds_phrase(text: str, phrase: str) -> bool:
    """Whole words in their order."""
    return f" {' '.join(words(_plain(phrase)))} " in f" {' '.join(words(_plain(text)))} "


# The bench's own idea of numbers and names, apart from the grounding it judges.
_NUMBER = re.compile(r"\d+(?:[.,\u00a0\u202f ]\d{3}(?!\d))*(?:[.,]\d+)?")
_WORD = re.compile(r"\w+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;…“\"(\[–-])\s*$")
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def false_support(sentence: CheckedSentence, evidence: Sequence[Evidence]) -> list[str]:
    """Numbers and names of a sentence that the passage it cites does not hold, headings included."""
    cited = sentence.citation
    passage = next((e for e in evidence if cited is not None and e.passage_id == cited.passage_id), None)
    if passage is None:
        return ["no such passage"]
    around = f"{passage.book}. {passage.chapter or ''}. {passage.lesson or ''}. {passage.text}"
    numbers = {_digits(n) for n in _NUMBER.findall(around)} | set(re.findall(r"\d+", around)) | _roman_numbers(around)
    plain = f" {' '.join(words(around))} "
    strange = [n for n in _NUMBER.findall(sentence.text) if _digits(n) not in numbers]
    return strange + [n for n in _names(sentence.text) if f" {' '.join(words(n))} " not in plain]


def _roman_numbers(text: str) -> set[str]:
    """Roman numerals of a text as decimal digits: what a book writes XV a pupil may read as 15."""
    found: set[str] = set()
    for numeral in re.findall(r"\b[IVXLCDM]+\b", text):
        values = [_ROMAN[letter] for letter in numeral]
        pairs = zip(values, [*values[1:], 0], strict=True)
        found.add(str(sum(-value if value < after else value for value, after in pairs)))
    return found


def _names(text: str) -> list[str]:
    """Runs of capitalised words, the first word of a sentence left out."""
    runs: list[list[str]] = []
    last_end = -2
    for match in _WORD.finditer(text):
        word = match.group()
        if not word[0].isupper() or _SENTENCE_START.search(text[: match.start()]):
            continue
        if match.start() == last_end + 1 and text[last_end] in " -":
            runs[-1].append(word)
        else:
            runs.append([word])
        last_end = match.end()
    return [" ".join(run) for run in runs]


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def _plain(text: str) -> str:
    """Lower case, NFC, single spaces, digits without grouping, degrees in words."""
    text = " ".join(unicodedata.normalize("NFC", text).lower().replace("°", " độ ").split())
    return re.sub(r"(?<=\d)[ .](?=\d{3}(?!\d))", "", text)


def _detail(result: Result) -> Mapping[str, Any]:
    return {
        "set": result.asked.set,
        "question": result.asked.question,
        "accepted": result.asked.answers,
        "found": result.answer.found,
        "answer": result.answer.text,
        "right": holds_answer(result.answer.text, result.asked.answers)
        if result.asked.answers
        else not result.answer.found,
        "right_page": _right_page(result),
        "draft": result.draft,
        "alone": result.alone,
        "context": result.context.to_json() if result.context else None,
        "first_token_ms": result.finished.first_token_ms if result.finished else None,
        "sentences": [asdict(s) for s in result.answer.sentences],
    }
