"""Time to first token and its parts, by method and length: rounds of all variants in one process, medians and ratios.

Variants of one round, one after the other: transformers' dense sdpa (``dense``), attention replaced by nothing
(``floor``), and each method, all with float32 weights; then floor and the first method with the engine's best weights.
A shared lesson as a warm prefix in memory, and from disk as after a restart, with a short question after it.
"""

import gc
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepedu.base.errors import ConfigError, EngineError
from deepedu.bench import peers
from deepedu.bench.method_specs import (
    MethodSpec,
    length_label,
    load_model,
    method_specs,
    read_host,
    read_lengths,
    read_weights,
    school_text_ids,
)
from deepedu.bench.peer import Peer
from deepedu.bench.run import BenchContext, BenchResult

if TYPE_CHECKING:
    from deepedu.engine.weights import LoadedModel

OPTIONS = {
    "methods": "methods separated by commas, ours first (default chunk_rolling,token_select)",
    "lengths": "prompt lengths in tokens (default 4k,16k)",
    "rounds": "how often each variant runs (default 3)",
    "weights": "the best weights setting to compare with float32 (default auto; full leaves it out)",
    "same_weights": "yes or no (default): time dense attention with the best weights as well",
    "host": "own (default), or vllm: the methods inside vLLM against vLLM's own attention and the peers",
    "at_once": "with host=vllm: yes or no (default), also eight prompts of 4K tokens at once",
    "warm": "yes (default) or no: measure a question over a warmed lesson as well",
    **peers.OPTIONS,
}
QUESTION_TOKENS = 48
CHUNK_TOKENS = 8192


@dataclass
class Run:
    """One prefill."""

    ttft_s: float
    selection_s: float = 0.0
    attention_s: float = 0.0
    retrieval_calls: int = 0
    mean_cluster_blocks: float = 0.0
    rows_read: int = 0


@dataclass
class Variant:
    """Something to time."""

    name: str
    prefill: Callable[[Sequence[int]], Run | None]
    runs: dict[int, list[Run]] = field(default_factory=lambda: defaultdict(list))

    def ttft_s(self, length: int) -> float:
        """Median."""
        return statistics.median(run.ttft_s for run in self.runs[length])


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    options = context.options
    specs = method_specs(options.get("methods", "chunk_rolling,token_select"))
    lengths = read_lengths(options.get("lengths", "1k" if context.quick else "4k,16k"))
    rounds = int(options.get("rounds", "1" if context.quick else "3"))
    if not specs or rounds < 1:
        raise ConfigError("ttft needs at least one method and one round")
    if read_host(options.get("host", "own")) == "vllm":
        from deepedu.bench import vllm_host

        return vllm_host.run(context, specs, lengths, rounds, at_once=options.get("at_once") == "yes")
    full = load_model(context, "full")
    best_weights = read_weights(options.get("weights", "auto"))
    best = load_model(context, best_weights) if best_weights != "full" else full
    variants = _variants(context, specs, full, best)
    ids = school_text_ids(context, full.tokenizer, max(lengths) + QUESTION_TOKENS)
    skipped: dict[str, str] = {}
    with peers.running(context, skipped, window_tokens=max(lengths)) as others:
        timed = [*variants, *(Variant(peer.name, _by_peer(peer, skipped)) for peer in others)]
        for variant in timed:
            variant.prefill(ids[:256])  # Kernels are chosen and buffers made before anything counts.
        with context.progress("prefills", len(lengths) * rounds * len(timed)) as advance:
            for length in lengths:
                for _ in range(rounds):
                    for variant in timed:
                        gc.collect()
                        done = variant.prefill(ids[:length])
                        if done is not None:
                            variant.runs[length].append(done)
                        advance(1)
    figures: dict[str, float] = {}
    for length in lengths:
        figures |= _figures(specs, {variant.name: variant for variant in variants}, length)
        figures |= _peer_figures(specs[0], timed, [peer.name for peer in others], length)
        if options.get("warm", "yes") == "yes":
            cold = next(each for each in variants if each.name == "dense").ttft_s(length)
            figures |= _warm_figures(context, specs[0], full, ids, length, cold, rounds)
    if len(lengths) > 1:
        ours = next(each for each in variants if each.name == specs[0].figure)
        low, high = sorted(lengths)[-2:]
        figures[f"ttft_growth_{length_label(low)}_to_{length_label(high)}"] = ours.ttft_s(high) / ours.ttft_s(low)
    figures["peak_memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    details = {
        "best_weights": best.weights,
        "methods": {spec.figure: str(spec.make(context.settings.engine)) for spec in specs},
        "runs": {
            variant.name: {length_label(length): [vars(each) for each in runs] for length, runs in variant.runs.items()}
            for variant in timed
        },
        "peers": {peer.name: peer.version for peer in others},
        "skipped": skipped,
    }
    return BenchResult(figures, details)


def _variants(
    context: BenchContext, specs: Sequence[MethodSpec], full: "LoadedModel", best: "LoadedModel"
) -> list[Variant]:
    settings = context.settings.engine
    variants = [Variant("dense", lambda ids: _transformers(full, ids)), Variant("floor", _floor(full))]
    variants += [Variant(spec.figure, _by_method(full, spec, settings)) for spec in specs]
    if best is not full:
        variants.append(Variant("floor_best_weights", _floor(best)))
        variants.append(Variant(f"{specs[0].figure}_best_weights", _by_method(best, specs[0], settings)))
        if context.options.get("same_weights") == "yes":
            variants.append(Variant("dense_best_weights", lambda ids: _transformers(best, ids)))
    return variants


def _transformers(loaded: "LoadedModel", ids: Sequence[int]) -> Run:
    """The whole prompt at once through transformers' sdpa, as its own ``generate`` does."""
    import torch

    loaded.model.set_attn_implementation("sdpa")
    began = time.perf_counter()
    with torch.inference_mode():
        output = loaded.model(input_ids=torch.tensor([list(ids)]), use_cache=True, logits_to_keep=1)
        output.logits[0, -1].argmax().item()
    return Run(time.perf_counter() - began)


def _floor(loaded: "LoadedModel") -> Callable[[Sequence[int]], Run]:
    def prefill(ids: Sequence[int]) -> Run:
        from deepedu.attention.base import Budget
        from deepedu.bench.timed_method import Floor

        return _prefill(loaded, Floor(), Budget(), ids)

    return prefill


def _by_method(loaded: "LoadedModel", spec: MethodSpec, settings: Any) -> Callable[[Sequence[int]], Run]:
    def prefill(ids: Sequence[int]) -> Run:
        from deepedu.bench.timed_method import Timed

        method, budget = spec.make(settings)
        timed = Timed(inner=method, exact_tokens=QUESTION_TOKENS)
        done = _prefill(loaded, timed, budget, ids)
        done.selection_s, done.attention_s = timed.seconds.selection, timed.seconds.attention
        return done

    return prefill


def _by_peer(peer: Peer, skipped: dict[str, str]) -> Callable[[Sequence[int]], Run | None]:
    """A peer that fails once is left out from then on, and what was measured of ours is not lost."""

    def prefill(ids: Sequence[int]) -> Run | None:
        if peer.name in skipped:
            return None
        try:
            return Run(peer.complete(ids, 1).first_token_s)
        except EngineError as error:
            skipped[peer.name] = str(error)
            return None

    return prefill


def _prefill(loaded: "LoadedModel", method: Any, budget: Any, ids: Sequence[int]) -> Run:
    from deepedu.engine.prompt import Prompt
    from deepedu.engine.runner import Runner

    runner = Runner(loaded, method, budget)
    prompt = Prompt(ids, question_from=len(ids) - QUESTION_TOKENS)
    began = time.perf_counter()
    running = runner.begin(prompt, 1)
    assert running is not None, "no limit on memory here"
    logits = None
    while logits is None:
        logits = runner.prefill(running, CHUNK_TOKENS)
    logits.argmax().item()
    ttft_s = time.perf_counter() - began
    tally = running.total()
    runner.end(running, keep=False)
    return Run(
        ttft_s,
        retrieval_calls=tally.retrieval_calls,
        mean_cluster_blocks=round(tally.mean_cluster_blocks, 3),
        rows_read=tally.rows_read,
    )


def _figures(specs: Sequence[MethodSpec], variants: dict[str, Variant], length: int) -> dict[str, float]:
    label, ours = length_label(length), variants[specs[0].figure]
    dense, floor = variants["dense"].ttft_s(length), variants["floor"].ttft_s(length)
    figures = {
        f"ttft_ratio_to_dense_{label}": ours.ttft_s(length) / dense,
        f"ttft_over_floor_{label}": ours.ttft_s(length) / floor,
        f"dense_over_floor_{label}": dense / floor,
    }
    for spec in specs:
        runs = variants[spec.figure].runs[length]
        figures[f"ttft_s_{spec.figure}_{label}"] = variants[spec.figure].ttft_s(length)
        figures[f"retrieval_calls_{spec.figure}_{label}"] = runs[0].retrieval_calls
    best = variants.get(f"{specs[0].figure}_best_weights")
    if best is not None:
        figures[f"ttft_ratio_to_dense_best_weights_{label}"] = best.ttft_s(length) / dense
        floor_best = variants["floor_best_weights"].ttft_s(length)
        figures[f"ttft_over_floor_best_weights_{label}"] = best.ttft_s(length) / floor_best
        if (same := variants.get("dense_best_weights")) is not None:
            # With equal weights on both sides: what attention alone is worth.
            figures[f"ttft_ratio_best_weights_both_{label}"] = best.ttft_s(length) / same.ttft_s(length)
    for spec in specs[1:]:
        if spec.name != "token_select":
            continue
        name = "token_select" if spec.text == "token_select" else spec.figure
        other = variants[spec.figure]
        figures[f"attention_ratio_to_{name}_{label}"] = (ours.ttft_s(length) - floor) / (other.ttft_s(length) - floor)
        measured = [statistics.median(r.selection_s + r.attention_s for r in v.runs[length]) for v in (ours, other)]
        figures[f"measured_attention_ratio_to_{name}_{label}"] = measured[0] / measured[1]
        calls = [each.runs[length][0].retrieval_calls for each in (ours, other)]
        suffix = "" if name == "token_select" else f"_to_{name}"
        figures[f"retrieval_calls_ratio{suffix}_{label}"] = calls[1] / calls[0] if calls[0] else float("nan")
    return figures


def _peer_figures(spec: MethodSpec, timed: Sequence[Variant], names: Sequence[str], length: int) -> dict[str, float]:
    """Ours over each peer that answered: with float32 weights, and with the best ones."""
    by_name, label = {variant.name: variant for variant in timed}, length_label(length)
    figures: dict[str, float] = {}
    for name in names:
        if not by_name[name].runs[length]:
            continue
        theirs = by_name[name].ttft_s(length)
        figures[f"ttft_s_{name}_{label}"] = theirs
        figures[f"ttft_ratio_to_{name}_{label}"] = by_name[spec.figure].ttft_s(length) / theirs
        best = by_name.get(f"{spec.figure}_best_weights")
        if best is not None:
            figures[f"ttft_ratio_to_{name}_best_weights_{label}"] = best.ttft_s(length) / theirs
    return figures


def _warm_figures(
    context: BenchContext,
    spec: MethodSpec,
    loaded: "LoadedModel",
    ids: Sequence[int],
    length: int,
    cold_dense_s: float,
    rounds: int,
) -> dict[str, float]:
    """A question after a shared prefix of ``length`` tokens, found in memory, and on disk by a new cache."""
    from deepedu.engine.prompt import Prompt

    label = length_label(length)
    folder = context.tmp_dir / f"prefix-{label}"
    asked = Prompt(ids[: length + QUESTION_TOKENS], length, question_from=length, tag="bench")
    runner = _cached_runner(context, spec, loaded, folder)
    _ask(runner, asked)
    memory = [_ask(runner, asked) for _ in range(rounds)]
    runner.cache.close()
    disk: list[float] = []
    for _ in range(rounds):
        # A new cache finds what the last process left, as after a restart; the file is still in the system's cache.
        began = time.perf_counter()
        runner = _cached_runner(context, spec, loaded, folder)
        opened = time.perf_counter() - began
        disk.append(opened + _ask(runner, asked))
        runner.cache.close()
    return {
        f"warm_memory_ttft_s_{label}": statistics.median(memory),
        f"warm_disk_ttft_s_{label}": statistics.median(disk),
        f"warm_memory_ttft_ratio_{label}": statistics.median(memory) / cold_dense_s,
        f"warm_disk_ttft_ratio_{label}": statistics.median(disk) / cold_dense_s,
        f"prefix_file_mb_{label}": sum(file.stat().st_size for file in folder.rglob("*.safetensors")) / 2**20,
    }


def _cached_runner(context: BenchContext, spec: MethodSpec, loaded: "LoadedModel", folder: Path) -> Any:
    from deepedu.engine.runner import Runner, open_cache

    method, budget = spec.make(context.settings.engine)
    cache = open_cache(loaded, method, budget, memory_gb=8, folder=folder, disk_gb=8, rows_dtype="model")
    return Runner(loaded, method, budget, cache=cache)


def _ask(runner: Any, prompt: Any) -> float:
    began = time.perf_counter()
    running = runner.begin(prompt, 1)
    logits = None
    while logits is None:
        logits = runner.prefill(running, CHUNK_TOKENS)
    logits.argmax().item()
    spent = time.perf_counter() - began
    runner.end(running)
    return spent
