"""Our methods inside vLLM against vLLM's own attention, and other servers beside: on one machine, asked in turn."""

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from deepedu.base.config import EngineSettings
from deepedu.base.errors import ConfigError
from deepedu.bench import peers
from deepedu.bench.method_specs import MethodSpec, length_label, school_text_ids
from deepedu.bench.peer import Peer
from deepedu.bench.run import BenchContext, BenchResult

# Prompts asked at once, their length, and the tokens that each is answered with.
AT_ONCE, AT_ONCE_TOKENS, REPLY_TOKENS = 8, 4096, 8


def run(
    context: BenchContext, specs: Sequence[MethodSpec], lengths: Sequence[int], rounds: int, *, at_once: bool
) -> BenchResult:
    """Time to first token by length, and eight prompts at once.

    Figures: ``ttft_ratio_to_vllm_<length>`` of the first method; of each server ``ttft_s_<name>_<length>`` and, spent
    by all its processes meanwhile, ``cpu_s_<name>_<length>``; with ``at_once`` ``wall_ratio_to_vllm_8_at_once``, the
    time until all are answered.

    Raises:
        ConfigError: a method cannot run inside vLLM, or there is no such peer.
        Unsupported, EngineError: vLLM is not installed or does not start.
    """
    from transformers import AutoTokenizer

    from deepedu.engine import weights

    settings = context.settings.engine
    longest = max(*lengths, AT_ONCE_TOKENS)
    tokenizer = AutoTokenizer.from_pretrained(str(weights.resolve(settings.model, settings.cache_dir)))
    ids = school_text_ids(context, tokenizer, max(longest, AT_ONCE * AT_ONCE_TOKENS if at_once else 0))
    asked: dict[str, str | None] = {"vllm": None}
    for spec in specs:
        asked[spec.figure] = attention_json(spec, settings)
    times: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    spent: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    skipped: dict[str, str] = {}
    walls: dict[str, list[float]] = {name: [] for name in asked}
    with ExitStack() as stack:
        hosts: list[Peer] = []
        for name, attention in asked.items():
            with context.console.status(f"starting {name}"):
                host = peers.vllm_with(context, name, attention, window_tokens=longest)
                hosts.append(stack.enter_context(host))
        others = stack.enter_context(peers.running(context, skipped, window_tokens=longest))
        every = [*hosts, *(other for other in others if other.name not in asked)]
        for host in every:
            host.complete(ids[:2048], 1)  # Buffers are made before anything counts.
        with context.progress("prompts", rounds * (len(every) * len(lengths) + len(hosts) * at_once)) as advance:
            for _ in range(rounds):
                for length in lengths:
                    for host in every:
                        before = host.cpu_s()
                        times[host.name][length].append(host.complete(ids[:length], 1).first_token_s)
                        spent[host.name][length].append(host.cpu_s() - before)
                        advance(1)
                for host in hosts if at_once else ():
                    walls[host.name].append(_together(host, ids))
                    advance(1)
        versions = {host.name: host.version for host in every}
    figures: dict[str, float] = {}
    for length in lengths:
        label = length_label(length)
        medians = {name: statistics.median(found[length]) for name, found in times.items()}
        figures[f"ttft_ratio_to_vllm_{label}"] = medians[specs[0].figure] / medians["vllm"]
        figures |= {f"ttft_s_{name}_{label}": seconds for name, seconds in medians.items()}
        figures |= {f"cpu_s_{name}_{label}": statistics.median(found[length]) for name, found in spent.items()}
    if at_once:
        ours, theirs = (statistics.median(walls[name]) for name in (specs[0].figure, "vllm"))
        figures[f"wall_ratio_to_vllm_{AT_ONCE}_at_once"] = ours / theirs
    details = {"versions": versions, "seconds": times, "cpu_seconds": spent, "seconds_at_once": walls}
    return BenchResult(figures, details | {"peers_skipped": skipped})


def attention_json(spec: MethodSpec, settings: EngineSettings) -> str:
    """What ``DEEPEDU_ATTENTION`` says for a method.

    Raises:
        ConfigError, UnknownMethod, Unsupported: it cannot run inside vLLM as it is written.
    """
    from deepedu.engine.vllm_plugin import Attention

    fields = spec.fields()
    if "k" in fields:
        raise ConfigError("inside vLLM the budget is that of engine.budget_tokens: leave k away")
    attention = Attention(method=spec.name, budget_tokens=settings.budget_tokens, fields=fields)
    attention.make()
    return attention.model_dump_json()


def _together(host: Peer, ids: Sequence[int]) -> float:
    """Seconds until different prompts, asked at once, are all answered."""
    prompts = [ids[index * AT_ONCE_TOKENS : (index + 1) * AT_ONCE_TOKENS] for index in range(AT_ONCE)]
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda prompt: host.complete(prompt, REPLY_TOKENS), prompts))
    return time.perf_counter() - began
