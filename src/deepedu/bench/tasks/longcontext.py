"""What a method of reading long contexts loses against dense attention: facts found in contexts of 4K to 32K tokens.

Tasks made from the seed (``bench/longcontext/``): needles in prose, variable tracking, common words, key-value, passkey
and number retrieval, in English and Vietnamese; and samples of Lost in the Middle and LongBench v2 from the shared
data. Every method reads a context once and is then asked many questions over it, each of which leaves the context as it
was.

Figures, 0 to 100: ``score_<method>_<length>``, the mean over tasks and languages of the mean score of their questions
(a question's score is the share of its answers found). ``longbench_v2_<method>_<length>`` stands apart: a few documents
of one question each would move the mean by more than a method does. A length counts context, question and reply.
Scores per task and language, every question with its reply, and the reason of whatever was skipped are in the details.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from deepedu.base.errors import ConfigError, Unsupported
from deepedu.bench import peers, vllm_host
from deepedu.bench.longcontext import longbench_v2
from deepedu.bench.longcontext.case import LANGUAGES, Case, Language, Order, Question
from deepedu.bench.longcontext.groups import GROUPS, TASKS
from deepedu.bench.longcontext.haystack import SCHOOL_TEXTS
from deepedu.bench.longcontext.prompt import ChatFormat
from deepedu.bench.longcontext.reader import ContextReader, make_reader
from deepedu.bench.longcontext.results import KeptAnswers, weights_digest
from deepedu.bench.longcontext.scoring import score
from deepedu.bench.longcontext.served_reader import ServedReader
from deepedu.bench.method_specs import MethodSpec, length_label, load_model, read_host, read_lengths
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.engine import weights

OPTIONS = {
    "methods": "methods separated by commas, as name:field=value:...; transformers is its own dense attention "
    "(default dense,chunk_rolling,token_select)",
    "lengths": "lengths in tokens, 4k meaning 4096 (default 4k,8k,16k)",
    "tasks": f"which tasks (default all): {','.join(TASKS)}",
    "languages": "en,vi (default both)",
    "samples": "how many contexts of each kind, language and length (default 1)",
    "questions": "at most so many questions for each task and context (default 10)",
    "host": "own (default), or vllm: the methods inside vLLM, dense being vLLM's own attention, each a server of its "
    "own in the memory of this machine",
    "vllm_python": peers.OPTIONS["vllm_python"],
    "documents": "how many documents of longbench_v2 for each length, each read for one question (default 4)",
    "reply_tokens": "upper limit for every reply (default: each task has its own)",
    "replies": "kept (default): go on with the replies kept from earlier runs; fresh: compute all anew",
}
QUICK = {"lengths": "1k", "tasks": "needle_single,needle_multi_key,key_value,passkey", "questions": "2"}
# Question, chat format and reply have to fit into the length as well.
RESERVED_TOKENS = 320


@dataclass(frozen=True)
class Plan:
    """The options of a run, read."""

    methods: tuple[str, ...]
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    languages: tuple[Language, ...]
    host: str
    samples: int
    questions: int
    documents: int
    reply_tokens: int | None


@dataclass(frozen=True)
class Asked:
    """One question of one case at one length, in words and in tokens."""

    length: int
    case: Case
    question: Question
    context_ids: tuple[int, ...]
    question_ids: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True)
class Host:
    """Where the methods run: a reader of each, and what the replies depend on besides (``identity``)."""

    readers: dict[str, ContextReader]
    tokenizer: Any
    window_tokens: int
    identity: str


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    plan = read_options(context)
    settings = context.settings.engine
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        host = _in_vllm(context, plan, skipped, stack) if plan.host == "vllm" else _here(context, plan, skipped)
        file = settings.cache_dir / "bench" / "longcontext.jsonl"
        kept = KeptAnswers(host.identity, file, fresh=context.options.get("replies") == "fresh")
        chat = ChatFormat.of(host.tokenizer)
        with context.console.status("making contexts"):
            asked = prepare(context, plan, chat, host.window_tokens, skipped)
        replies = ask_all(context, host.readers, asked, kept)
    details = {
        "model": host.identity,
        "haystack_vi": "real paragraphs" if _school_texts(context) else "made from templates",
        "replies_kept": kept.used,
        "replies_computed": kept.added,
        "skipped": skipped,
    }
    return summarise(asked, replies, chat, details)


def _here(context: BenchContext, plan: Plan, skipped: dict[str, str]) -> Host:
    """The methods on a model in this process."""
    settings = context.settings.engine
    loaded = load_model(context)
    readers: dict[str, ContextReader] = {}
    for method in plan.methods:
        try:
            readers[method] = make_reader(method, loaded, settings)
        except Unsupported as error:
            skipped[method] = str(error)
    digest = weights_digest(weights.resolve(settings.model, settings.cache_dir))
    identity = f"{loaded.names[0]} {digest} {loaded.dtype} {loaded.weights} {loaded.device}"
    return Host(readers, loaded.tokenizer, loaded.window_tokens, identity)


def _in_vllm(context: BenchContext, plan: Plan, skipped: dict[str, str], stack: ExitStack) -> Host:
    """The methods inside vLLM, each a server that is up until the stack is left."""
    from transformers import AutoConfig, AutoTokenizer

    settings = context.settings.engine
    folder = weights.resolve(settings.model, settings.cache_dir)
    readers: dict[str, ContextReader] = {}
    versions: set[str] = set()
    for method in plan.methods:
        spec = MethodSpec(method)
        try:
            attention = None if method == "dense" else vllm_host.attention_json(spec, settings)
        except Unsupported as error:
            skipped[method] = str(error)
            continue
        with context.console.status(f"starting vLLM with {method}"):
            peer = stack.enter_context(
                peers.vllm_with(context, spec.figure, attention, window_tokens=max(plan.lengths), reuse=True)
            )
        readers[method] = ServedReader(peer, attention or "dense")
        versions.add(peer.version)
    window = AutoConfig.from_pretrained(str(folder)).max_position_embeddings
    parts = settings.prefill_chunk_tokens
    identity = f"{settings.model} {weights_digest(folder)} {', '.join(versions)} float32 parts of {parts}"
    return Host(readers, AutoTokenizer.from_pretrained(str(folder)), window, identity)


def read_options(context: BenchContext) -> Plan:
    """Raises: ConfigError: a value that cannot be."""
    options = {**(QUICK if context.quick else {}), **context.options}
    reply_tokens = options.get("reply_tokens")
    return Plan(
        methods=tuple(dict.fromkeys(options.get("methods", "dense,chunk_rolling,token_select").split(","))),
        lengths=_lengths(options.get("lengths", "4k,8k,16k")),
        tasks=_chosen("tasks", options.get("tasks"), TASKS),
        languages=cast("tuple[Language, ...]", _chosen("languages", options.get("languages"), LANGUAGES)),
        host=read_host(options.get("host", "own")),
        samples=_count("samples", options.get("samples", "1")),
        questions=_count("questions", options.get("questions", "10")),
        documents=_count("documents", options.get("documents", "4")),
        reply_tokens=None if reply_tokens is None else _count("reply_tokens", reply_tokens),
    )


def _lengths(text: str) -> tuple[int, ...]:
    lengths = read_lengths(text)
    if min(lengths) <= RESERVED_TOKENS:
        raise ConfigError(f"lengths: expected more than {RESERVED_TOKENS} tokens, such as 4k or 4096, came {text!r}")
    return lengths


def _count(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name}: expected a whole number above 0, came {text!r}")
    return int(text)


def _chosen(name: str, text: str | None, known: Sequence[str]) -> tuple[str, ...]:
    chosen = tuple(known) if text is None else tuple(text.split(","))
    for each in chosen:
        if each not in known:
            raise ConfigError(f"{name}: there is no {each!r}; there are: {', '.join(known)}")
    return chosen


def prepare(
    context: BenchContext, plan: Plan, chat: ChatFormat, window_tokens: int, skipped: dict[str, str]
) -> list[Asked]:
    """All questions of a run, context by context; why tasks are missing goes into ``skipped``."""
    asked: list[Asked] = []
    for length in plan.lengths:
        if length > window_tokens:
            skipped[length_label(length)] = f"the model's window has {window_tokens} tokens"
            continue
        for case in _cases(context, plan, chat, length, skipped):
            context_ids = tuple(chat.context_ids(case.context))
            for question in case.questions:
                question_ids = tuple(chat.question_ids(question))
                max_tokens = min(question.reply_tokens, plan.reply_tokens or question.reply_tokens)
                if len(context_ids) + len(question_ids) + max_tokens > length:
                    skipped[f"a question of {case.task} {case.language} {length_label(length)}"] = (
                        "longer than expected"
                    )
                    continue
                asked.append(Asked(length, case, question, context_ids, question_ids, max_tokens))
    return asked


def _cases(context: BenchContext, plan: Plan, chat: ChatFormat, length: int, skipped: dict[str, str]) -> Iterable[Case]:
    data_dir = _data_dir(context)
    for group in GROUPS:
        wanted = [task for task in group.tasks if task in plan.tasks]
        for language in group.languages if wanted else ():
            if language not in plan.languages:
                continue
            for sample in range(plan.samples):
                order = Order(
                    language=language,
                    length_tokens=length - RESERVED_TOKENS,
                    count=chat.counter(),
                    questions=plan.questions,
                    documents=plan.documents,
                    seed=f"{context.seed}.{sample}",
                    data_dir=data_dir,
                )
                try:
                    yield from (case for case in group.generate(order) if case.task in wanted)
                except Unsupported as error:
                    skipped[f"{', '.join(wanted)} {language} {length_label(length)}"] = str(error)


def ask_all(
    context: BenchContext, readers: dict[str, ContextReader], asked: Sequence[Asked], kept: KeptAnswers
) -> dict[str, list[list[int]]]:
    """The replies of every method, in the order of ``asked``. A context is read only for what is not kept yet."""
    replies: dict[str, list[list[int]]] = {method: [] for method in readers}
    with context.progress("questions", len(asked) * len(readers)) as advance:
        for start, end in _runs(asked):
            for method, reader in readers.items():
                is_read = False
                for one in asked[start:end]:
                    key = kept.key(reader.spec, one.context_ids, one.question_ids, one.max_tokens)
                    reply = kept.get(key)
                    if reply is None:
                        if not is_read:
                            reader.read(one.context_ids)
                            is_read = True
                        reply = reader.answer(one.question_ids, one.max_tokens)
                        kept.add(key, reply)
                    replies[method].append(reply)
                    advance(1)
    return replies


def _runs(asked: Sequence[Asked]) -> Iterable[tuple[int, int]]:
    """Stretches of questions over one context."""
    start = 0
    for index in range(1, len(asked) + 1):
        if index == len(asked) or asked[index].context_ids != asked[start].context_ids:
            yield start, index
            start = index


def summarise(
    asked: Sequence[Asked],
    replies: dict[str, list[list[int]]],
    chat: ChatFormat,
    details: dict[str, Any],
) -> BenchResult:
    """Figures, and in the details a table ``scores[method_length][task][language]`` and every question."""
    questions: list[dict[str, Any]] = []
    scores: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for method, all_replies in replies.items():
        for one, reply in zip(asked, all_replies, strict=True):
            text = chat.text(reply)
            value = score(text, one.question)
            scores[f"{MethodSpec(method).figure}_{length_label(one.length)}"][one.case.task][one.case.language].append(
                value
            )
            questions.append(_detail(method, one, text, value))
    table = {
        figure: {
            task: {language: round(100 * _mean(values), 2) for language, values in by_language.items()}
            for task, by_language in by_task.items()
        }
        for figure, by_task in scores.items()
    }
    figures: dict[str, float] = {}
    for figure, by_task in table.items():
        made = {task: values for task, values in by_task.items() if task != longbench_v2.TASK}
        if made:
            figures[f"score_{figure}"] = _mean([value for values in made.values() for value in values.values()])
        if longbench_v2.TASK in by_task:
            figures[f"{longbench_v2.TASK}_{figure}"] = _mean(list(by_task[longbench_v2.TASK].values()))
    by_language = {figure: _by_language(by_task) for figure, by_task in table.items()}
    return BenchResult(figures, {**details, "scores": table, "by_language": by_language, "questions": questions})


def _by_language(by_task: dict[str, dict[str, float]]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for task, of in by_task.items():
        for language, value in of.items():
            if task != longbench_v2.TASK:
                values[language].append(value)
    return {language: round(_mean(each), 2) for language, each in values.items()}


def _detail(method: str, one: Asked, reply: str, value: float) -> dict[str, Any]:
    return {
        "method": method,
        "length": length_label(one.length),
        "task": one.case.task,
        "language": one.case.language,
        "context_tokens": len(one.context_ids),
        "question": one.question.text,
        "answers": one.question.answers,
        "depths": one.question.depths,
        "reply": reply,
        "score": round(value, 4),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _data_dir(context: BenchContext) -> Path | None:
    try:
        return context.data_dir
    except ConfigError:
        return None  # The tasks made from the seed need none; those that do say so.


def _school_texts(context: BenchContext) -> bool:
    folder = _data_dir(context)
    return folder is not None and (folder / SCHOOL_TEXTS).is_dir()
