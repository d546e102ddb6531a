"""Time per generated token by length of context and method: rounds of all variants in one process, medians and ratios.

The context's rows are made up (random keys and values of the model's shape): a decode step costs the same whatever
they hold. Peers generate after a prompt of the same length that they have read before, in the same run but after ours.
"""

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepedu.base.errors import ConfigError, EngineError
from deepedu.bench import peers
from deepedu.bench.method_specs import (
    MethodSpec,
    WeightsSetting,
    length_label,
    load_model,
    method_specs,
    read_lengths,
    read_weights,
)
from deepedu.bench.run import BenchContext, BenchResult

if TYPE_CHECKING:
    from deepedu.engine.weights import LoadedModel

OPTIONS = {
    "methods": "methods separated by commas, ours first (default chunk_rolling,dense)",
    "lengths": "tokens of context before the first generated one (default 1k,4k,16k)",
    "tokens": "tokens generated in each round (default 16)",
    "rounds": "rounds (default 5)",
    "weights": "weights settings separated by commas (default auto)",
    "batch": "sequences decoded together (default 1)",
    **peers.OPTIONS,
}


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    options = context.options
    specs = method_specs(options.get("methods", "chunk_rolling,dense"))
    lengths = read_lengths(options.get("lengths", "256,512" if context.quick else "1k,4k,16k"))
    tokens = int(options.get("tokens", "4" if context.quick else "16"))
    rounds = int(options.get("rounds", "1" if context.quick else "5"))
    batch = int(options.get("batch", "1"))
    if min(tokens, rounds, batch) < 1 or not specs:
        raise ConfigError("decode needs at least one method, token, round and sequence")
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    settings: list[WeightsSetting] = [read_weights(each) for each in options.get("weights", "auto").split(",")]
    used: list[str] = []
    for setting in settings:
        loaded = load_model(context, setting)
        used.append(loaded.weights)
        with context.progress(f"decode, {loaded.weights} weights", rounds * len(specs) * len(lengths)) as advance:
            times = _measure(context, loaded, specs, lengths, tokens, rounds, batch, advance)
        for spec in specs:
            medians = {length: statistics.median(times[spec.figure, length]) for length in lengths}
            ours = spec is specs[0] and setting == settings[0]
            for length in lengths:
                figures[f"ms_per_token_{spec.figure}_{loaded.weights}_{length_label(length)}"] = medians[length] * 1000
            for length in lengths[1:]:
                ratio = medians[length] / medians[lengths[0]]
                name = f"decode_ratio_{length_label(length)}_to_{length_label(lengths[0])}"
                figures[f"{name}_{spec.figure}_{loaded.weights}"] = ratio
                if ours:
                    figures[name] = ratio
        details[loaded.weights] = {
            f"{name} {length_label(length)}": [round(each * 1000, 3) for each in found]
            for (name, length), found in times.items()
        }
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    theirs = _measure_peers(context, lengths, tokens, rounds, skipped, versions)
    ours_ms = {
        length: figures[f"ms_per_token_{specs[0].figure}_{used[0]}_{length_label(length)}"] for length in lengths
    }
    for name, by_length in theirs.items():
        for length, found in by_length.items():
            theirs_ms = statistics.median(found) * 1000
            figures[f"ms_per_token_{name}_{length_label(length)}"] = theirs_ms
            ratio = theirs_ms / ours_ms[length]
            figures[f"decode_tokens_per_s_ratio_to_{name}_{length_label(length)}"] = ratio
            if length == min(lengths):
                figures[f"decode_tokens_per_s_ratio_to_{name}"] = ratio
        details[name] = {f"{name} {length_label(k)}": [round(s * 1000, 3) for s in v] for k, v in by_length.items()}
    return BenchResult(
        figures, {"ms_per_token": details, "tokens": tokens, "batch": batch, "peers": versions, "skipped": skipped}
    )


def _measure_peers(
    context: BenchContext,
    lengths: Sequence[int],
    tokens: int,
    rounds: int,
    skipped: dict[str, str],
    versions: dict[str, str],
) -> dict[str, dict[int, list[float]]]:
    """Seconds per token of every round, by peer and length."""
    found: dict[str, dict[int, list[float]]] = {}
    if context.options.get("batch", "1") != "1":
        skipped |= dict.fromkeys(peers.wanted(context.options), "peers are measured with one sequence only")
        return found
    ids = random.Random(context.seed).choices(range(1000, 20_000), k=max(lengths))
    with peers.running(context, skipped, window_tokens=max(lengths) + tokens, reuse=True) as others:
        for peer in others:
            versions[peer.name] = peer.version
            try:
                for length in sorted(lengths):
                    peer.complete(ids[:length], 1, reuse=True)
                    each = [peer.complete(ids[:length], tokens + 1, reuse=True).token_s for _ in range(rounds)]
                    found.setdefault(peer.name, {})[length] = each
            except EngineError as error:
                skipped[peer.name] = str(error)
    return found


def _measure(
    context: BenchContext,
    loaded: "LoadedModel",
    specs: Sequence[MethodSpec],
    lengths: Sequence[int],
    tokens: int,
    rounds: int,
    batch: int,
    advance: Any,
) -> dict[tuple[str, int], list[float]]:
    """Seconds per token of every round."""
    import torch

    from deepedu.engine.adapter import Adapter, KVCache

    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    torch.manual_seed(context.seed)
    shape = Adapter(loaded.model, *specs[0].make(context.settings.engine)).shape
    filled = {
        length: [
            (
                torch.randn(shape.kv_heads, length, shape.head_dim, dtype=shape.dtype),
                torch.randn(shape.kv_heads, length, shape.head_dim, dtype=shape.dtype),
            )
            for _ in range(shape.layers)
        ]
        for length in lengths
    }
    for _ in range(rounds):
        for length in lengths:
            for spec in specs:
                adapter = Adapter(loaded.model, *spec.make(context.settings.engine))
                states = [_filled(adapter, filled[length], length + tokens + 1) for _ in range(batch)]
                _step(loaded, KVCache(states), states)
                began = time.perf_counter()
                for _ in range(tokens):
                    _step(loaded, KVCache(states), states)
                times[spec.figure, length].append((time.perf_counter() - began) / tokens)
                advance(1)
    return times


def _filled(adapter: Any, rows: Sequence[tuple[Any, Any]], capacity: int) -> Any:
    state = adapter.new_sequence(capacity)
    for layer, (keys, values) in zip(state.layers, rows, strict=True):
        layer.append(keys, values)
    return state


def _step(loaded: "LoadedModel", cache: Any, states: Sequence[Any]) -> None:
    import torch

    with torch.inference_mode():
        output = loaded.model(
            input_ids=torch.full((len(states), 1), 100),
            position_ids=torch.tensor([[state.positions] for state in states]),
            use_cache=True,
            logits_to_keep=1,
            **{loaded.cache_argument: cache},
        )
        output.logits[:, -1].argmax(-1)
