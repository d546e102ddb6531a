"""Time per generated token by length of context and method: rounds of all variants in one process, medians and ratios.

The context's rows are made up (random keys and values of the model's shape): a decode step costs the same whatever
they hold. llama.cpp's server is measured over the same lengths where ``llamacpp`` names its address.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepedu.base.errors import ConfigError
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
    for setting in settings:
        loaded = load_model(context, setting)
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
    return BenchResult(figures, {"ms_per_token": details, "tokens": tokens, "batch": batch})


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
            input_ids=torch.full((len(states), 1), 1000),
            position_ids=torch.tensor([[state.positions] for state in states]),
            use_cache=True,
            logits_to_keep=1,
            **{loaded.cache_argument: cache},
        )
        output.logits[:, -1].argmax(-1)
