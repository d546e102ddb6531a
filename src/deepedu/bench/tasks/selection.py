"""What is lost by choosing rows: output error, attention mass read, true top rows found, per layer, against the oracle.

The model reads a text with dense attention. On the last chunk each method says what it would have read, and its exact
attention over that is compared with the dense output. The oracle knows the true attention of every query of a block.

Figures for k selected tokens: ``output_error_<method>_<k>_<length>``, the norm of the difference over the norm of the
dense output, mean over layers; ``mass_read_...``, the share of attention mass on the rows read; ``top_recall_...``, the
share of the oracle's rows among those chosen; ``rows_read_...``, the rows that a query of the chunk may read, mean over
blocks, heads and layers: what the method pays for it. All layers count, those too in which ``chunk_rolling`` leaves out
what no answer needs (``late_layers=0`` leaves out nothing).
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from deepedu.base.errors import ConfigError
from deepedu.bench.method_specs import MethodSpec, length_label, load_model, method_specs, read_lengths, school_text_ids
from deepedu.bench.run import BenchContext, BenchResult

if TYPE_CHECKING:
    from torch import Tensor

    from deepedu.attention.base import Call, Selection

OPTIONS = {
    "methods": "methods separated by commas (default chunk_rolling,published,token_select,streaming_pages,sink_window; "
    "published is chunk_rolling with every variant as published)",
    "lengths": "tokens of text (default 8k)",
    "k": "numbers of selected tokens, separated by commas (default 1024)",
    "oracle": "yes (default) or no: the oracle costs more than everything else",
    "stride": "the oracle looks at every so many queries of a block (default 4; 1 is exact)",
}
# The method with every variant as published.
PUBLISHED = (
    "published@chunk_rolling:similarity=roped:fingerprint=anchor:local=cluster"
    ":max_cluster_tokens=4096:probes=1:heads=layer:vote=candidates:lead_tokens=0:max_lost_mass=1:late_layers=0"
)
DEFAULT_METHODS = "chunk_rolling,published,token_select,streaming_pages,sink_window"
CHUNK_TOKENS = 4096
ORACLE = "oracle"
BLOCK_TOKENS = 512


@dataclass
class Found:
    """Of one method at one k: a value for each layer."""

    output_error: list[float] = field(default_factory=list[float])
    mass_read: list[float] = field(default_factory=list[float])
    top_recall: list[float] = field(default_factory=list[float])
    rows_read: list[float] = field(default_factory=list[float])
    retrieval_calls: int = 0


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    options = context.options
    named = options.get("methods", DEFAULT_METHODS).split(",")
    specs = method_specs(",".join(PUBLISHED if name.strip() == "published" else name for name in named))
    lengths = read_lengths(options.get("lengths", "6k" if context.quick else "8k"))
    sizes = read_lengths(options.get("k", "256" if context.quick else "1024"))
    for spec in specs:
        # A name or field that is wrong is told before minutes are spent on the model.
        spec.make(context.settings.engine, sizes[0])
    stride = int(options.get("stride", "16" if context.quick else "4"))
    if stride < 1 or BLOCK_TOKENS % stride:
        raise ConfigError(f"stride must divide {BLOCK_TOKENS}, came {stride}")
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    loaded = load_model(context)
    for length in lengths:
        ids = school_text_ids(context, loaded.tokenizer, length)
        found = _measure(context, loaded, specs, ids, sizes, stride if options.get("oracle", "yes") == "yes" else 0)
        for (name, k), each in found.items():
            label = f"{name}_{k}_{length_label(length)}"
            figures[f"output_error_{label}"] = statistics.fmean(each.output_error)
            figures[f"rows_read_{label}"] = statistics.fmean(each.rows_read)
            if each.mass_read:
                figures[f"mass_read_{label}"] = statistics.fmean(each.mass_read)
                figures[f"top_recall_{label}"] = statistics.fmean(each.top_recall)
            details[label] = vars(each)
    return BenchResult(figures, {"per_layer": details, "weights": loaded.weights})


def _measure(
    context: BenchContext,
    loaded: Any,
    specs: Sequence[MethodSpec],
    ids: Sequence[int],
    sizes: Sequence[int],
    stride: int,
) -> dict[tuple[str, int], Found]:
    import torch

    from deepedu.attention.base import Budget
    from deepedu.engine.adapter import Adapter, KVCache

    watcher = _watcher_class()
    with context.progress("layers", loaded.model.config.get_text_config().num_hidden_layers) as advance:
        method = watcher(
            specs=tuple(specs),
            sizes=tuple(sizes),
            stride=stride,
            last_start=max(0, len(ids) - CHUNK_TOKENS),
            settings=context.settings.engine,
            advance=advance,
        )
        adapter = Adapter(loaded.model, method, Budget())
        state = adapter.new_sequence(len(ids))
        for start in range(0, len(ids), CHUNK_TOKENS):
            piece = ids[start : start + CHUNK_TOKENS]
            with torch.inference_mode():
                loaded.model(
                    input_ids=torch.tensor([list(piece)]),
                    position_ids=torch.arange(start, start + len(piece))[None],
                    use_cache=True,
                    logits_to_keep=1,
                    **{loaded.cache_argument: KVCache([state])},
                )
    return method.found


def _watcher_class() -> Any:
    from deepedu.attention.base import Call, Method, Phase
    from deepedu.attention.sparse import attend_dense

    @dataclass(frozen=True, kw_only=True)
    class Watcher(Method):
        """Dense attention that asks the methods what they would have read."""

        name: ClassVar[str] = "watcher"
        paper: ClassVar[str] = ""
        phases: ClassVar[frozenset[Phase]] = frozenset({"prefill"})
        limits: ClassVar[str] = ""

        exact_tokens: int = 0
        specs: tuple[MethodSpec, ...]
        sizes: tuple[int, ...]
        stride: int
        last_start: int
        settings: Any
        advance: Any
        found: dict[tuple[str, int], Found] = field(default_factory=lambda: defaultdict(Found))

        def attend(self, call: Call) -> "Tensor":
            """Dense; on the last chunk with a look at the others."""
            dense = attend_dense(call)
            if call.start >= self.last_start:
                _compare(self, call, dense)
                self.advance(1)
            return dense

    return Watcher


def _compare(watcher: Any, call: "Call", dense: "Tensor") -> None:
    from deepedu.attention.sparse import attend_selections
    from deepedu.attention.tally import Tally

    truth = _true_mass(call, watcher.stride) if watcher.stride else None
    for k in watcher.sizes:
        best = None
        if truth is not None:
            budget = replace(call.budget, tokens=call.budget.sinks + call.budget.local + k)
            best = _oracle(replace(call, budget=budget), truth)
            mine = replace(call, budget=budget, tally=Tally())
            _note(watcher.found[ORACLE, k], mine, best, best, truth, attend_selections(mine, best), dense)
        for spec in watcher.specs:
            method, budget = spec.make(watcher.settings, k)
            mine = replace(call, budget=budget, state={}, tally=Tally())
            selections = list(method.select(mine))
            found = watcher.found[spec.figure, k]
            _note(found, mine, selections, best, truth, attend_selections(mine, selections), dense)
            found.retrieval_calls += mine.tally.retrieval_calls


def _note(
    found: Found,
    call: "Call",
    selections: Sequence["Selection"],
    best: Sequence["Selection"] | None,
    truth: "list[Tensor] | None",
    out: "Tensor",
    dense: "Tensor",
) -> None:
    found.output_error.append(float((out - dense).norm() / dense.norm()))
    found.rows_read.append(call.tally.rows_read / len(selections))
    if truth is None or best is None:
        return
    read, recalls = 0.0, 0.0
    blocks = len(truth)
    for index, mass in enumerate(truth):
        begin = index * BLOCK_TOKENS
        selection = next(each for each in selections if each.begin <= begin < each.end)
        oracle = best[index]
        local = selection.local_start
        for head in range(call.heads):
            rows = selection.rows_of(head // call.group)
            inside = mass[head, : min(call.budget.sinks, local)].sum() + mass[head, local:].sum()
            inside += mass[head, rows].sum() if rows is not None else 0
            read += 1.0 if head in selection.exact_heads else float(inside / mass[head].sum())
        for head in range(call.rows.kv_heads):
            rows = selection.rows_of(head)
            wanted = oracle.rows_of(head)
            assert wanted is not None, "the last chunk is longer than the budget"
            seen = {*(rows.tolist() if rows is not None else ()), *range(local, call.start + selection.end)}
            recalls += len(seen.intersection(wanted.tolist())) / len(wanted)
    found.mass_read.append(read / blocks / call.heads)
    found.top_recall.append(recalls / blocks / call.rows.kv_heads)


def _true_mass(call: "Call", stride: int) -> "list[Tensor]":
    """Attention mass of each block on every row up to its end, [heads, rows], summed over queries."""
    import torch

    from deepedu.attention.scoring import key_scores

    found: list[Tensor] = []
    for begin in range(0, call.q_len, BLOCK_TOKENS):
        end = min(begin + BLOCK_TOKENS, call.q_len)
        stop = call.start + end
        mass = torch.zeros(call.heads, stop)
        asked = torch.arange(begin, end, stride)
        for piece in asked.split(32):
            scores = key_scores(call, call.queries[:, piece].transpose(0, 1), 0, stop)
            later = torch.arange(stop) > (call.start + piece)[:, None]
            shares = torch.softmax(scores.masked_fill_(later[:, None], float("-inf")), dim=-1)
            mass += shares.sum(0)
        found.append(mass)
    return found


def _oracle(call: "Call", truth: "list[Tensor]") -> "list[Selection]":
    from deepedu.attention.base import Selection
    from deepedu.attention.scoring import best_rows

    sinks, count = call.budget.sinks, call.budget.selected
    found: list[Selection] = []
    for index, mass in enumerate(truth):
        begin = index * BLOCK_TOKENS
        end = min(begin + BLOCK_TOKENS, call.q_len)
        window = call.start + end - call.budget.local
        if window - sinks <= count:
            raise ConfigError(
                "lengths: the last 4096 tokens must lie beyond the budget; give a longer text or a smaller k"
            )
        by_key_head = mass.view(call.rows.kv_heads, call.group, -1).sum(1)
        rows = tuple(best_rows(each[sinks:window], count, sinks) for each in by_key_head)
        found.append(Selection(begin, end, window, rows))
    return found
