"""Pictures of a bench's record as PNG: what a table of figures does not show at a glance."""

import importlib.util
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepedu.base.errors import MissingExtra
from deepedu.bench.targets import TARGETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people with a colour vision deficiency can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D")
PARTS = {"linear layers and the rest": "#9FB8CC", "selection": "#E69F00", "attention": "#0072B2"}
WHOLE, WARM, INK = "#B5B5B5", "#009E73", "#222222"
WIDTH_IN, DPI = 8.0, 130


@dataclass(frozen=True)
class Plot:
    """``name`` is unique within a record and good for a file name; ``caption`` says how to read it."""

    name: str
    caption: str
    png: bytes


def plots(record: Mapping[str, Any]) -> list[Plot]:
    """All pictures there are of a record; none for a bench without any, or for a record that lacks what they show.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    makers = {
        "ttft": _ttft,
        "decode": _decode,
        "longcontext": _longcontext,
        "selection": _selection,
        "selfimprove": _selfimprove,
    }
    maker = makers.get(str(record.get("bench")))
    if maker is None:
        return []
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("bench", "plots of bench results")
    return maker(record["figures"], record.get("details") or {})


def _ttft(figures: Mapping[str, float], details: Mapping[str, Any]) -> list[Plot]:
    found: list[Plot] = []
    runs: dict[str, dict[str, list[dict[str, Any]]]] = details.get("runs") or {}
    lengths = _lengths(length for of in runs.values() for length in of)
    if lengths:
        found.append(_ttft_parts(figures, runs, lengths))
    found += _ratios(figures)
    calls = {
        name: {length: float(of[length][0].get("retrieval_calls", 0)) for length in lengths if of.get(length)}
        for name, of in runs.items()
    }
    calls = {name: of for name, of in calls.items() if any(of.values()) and not name.endswith("_best_weights")}
    if calls:
        found.append(_retrieval_calls(calls, lengths))
    return found


def _ttft_parts(
    figures: Mapping[str, float], runs: Mapping[str, Mapping[str, list[dict[str, Any]]]], lengths: Sequence[str]
) -> Plot:
    warm = {"warm_memory": "warm prefix, in memory", "warm_disk": "warm prefix, from disk"}
    used: set[str] = set()
    rows = {length: [n for n in runs if runs[n].get(length)] for length in lengths}
    rows = {k: [*v, *(w for w in warm if f"{w}_ttft_s_{k}" in figures)] for k, v in rows.items()}
    figure, panels = _panels([len(names) for names in rows.values()])
    for panel, (length, names) in zip(panels, rows.items(), strict=True):
        for y, name in enumerate(names):
            left = 0.0
            is_warm = name in warm
            for colour, seconds in (
                [(WARM, figures[f"{name}_ttft_s_{length}"])] if is_warm else _parts(name, runs[name][length])
            ):
                panel.barh(y, seconds, left=left, color=colour, height=0.7)
                used.add(colour)
                left += seconds
            panel.text(left, y, f" {_short(left)} s", va="center", fontsize=9, color=INK)
        _names(panel, [warm.get(name) or name.replace("_", " ") for name in names])
        if "floor" in names:
            floor = statistics.median(run["ttft_s"] for run in runs["floor"][length])
            panel.axvline(floor, color=INK, linestyle="--", linewidth=1)
        panel.set_title(f"{length} tokens", loc="left", fontsize=11, color=INK)
        panel.set_xlabel("seconds to the first token (median)")
        panel.margins(x=0.12)
    key = {**PARTS, "whole (parts not measured)": WHOLE, "question over a warm prefix": WARM}
    _key(figure, {label: colour for label, colour in key.items() if colour in used})
    return _plot(
        "ttft_parts",
        figure,
        "Time to the first token, by method and length of the prompt, in its parts. The dashed line is the floor: the "
        "same float32 model with attention replaced by nothing.",
    )


def _parts(name: str, runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Colour and median seconds of each part of a variant."""
    whole, selection, attention = (
        statistics.median(float(run.get(key, 0)) for run in runs) for key in ("ttft_s", "selection_s", "attention_s")
    )
    rest = PARTS["linear layers and the rest"]
    if name.startswith("floor"):
        return [(rest, whole)]
    if not selection and not attention:
        return [(WHOLE, whole)]
    pieces = (max(0.0, whole - selection - attention), selection, attention)
    return list(zip(PARTS.values(), pieces, strict=True))


def _ratios(figures: Mapping[str, float]) -> list[Plot]:
    limits = {target.figure: target.limit for target in TARGETS if target.bench == "ttft"}
    words = ("_ratio_", "_over_floor_", "growth")
    names = [n for n in figures if any(word in n for word in words) and not n.startswith("retrieval_calls")]
    if not names:
        return []
    figure, (panel,) = _panels([len(names)])
    for y, name in enumerate(names):
        value, limit = figures[name], limits.get(name)
        good = limit is None or value <= limit
        colour = WHOLE if limit is None else COLOURS[2] if good else COLOURS[1]
        panel.barh(y, value, color=colour, height=0.65)
        if limit is not None:
            panel.plot([limit, limit], [y - 0.42, y + 0.42], color=INK, linewidth=2)
        panel.text(max(value, limit or 0), y, f" {_short(value)}", va="center", fontsize=9, color=INK)
    _names(panel, names)
    panel.margins(x=0.1)
    _key(figure, {"target reached": COLOURS[2], "not reached": COLOURS[1], "no target": WHOLE})
    return [_plot("ttft_ratios", figure, "Ratios within this run; less is better. The black mark is the target.")]


def _retrieval_calls(calls: Mapping[str, Mapping[str, float]], lengths: Sequence[str]) -> Plot:
    rows = [(name, length) for length in lengths for name in calls if calls[name].get(length)]
    figure, (panel,) = _panels([len(rows)])
    colours = dict(zip(calls, COLOURS * len(calls), strict=False))
    for y, (name, length) in enumerate(rows):
        panel.barh(y, calls[name][length], color=colours[name], height=0.65)
        panel.text(calls[name][length], y, f" {calls[name][length]:,.0f}", va="center", fontsize=9, color=INK)
    _names(panel, [f"{name.replace('_', ' ')}, {length}" for name, length in rows])
    panel.margins(x=0.12)
    panel.set_xlabel("retrieval calls for one prompt, all layers")
    return _plot("retrieval_calls", figure, "How often a method scores cached rows while it reads one prompt.")


def _decode(_: Mapping[str, float], details: Mapping[str, Any]) -> list[Plot]:
    lines: dict[str, dict[str, float]] = {}
    for weights, of in (details.get("ms_per_token") or {}).items():
        for key, values in of.items():
            name, _, length = key.rpartition(" ")
            label = name if name == weights else f"{name}, {weights}"
            lines.setdefault(label.replace("_", " "), {})[length] = statistics.median(values)
    lengths = _lengths(length for of in lines.values() for length in of)
    if not lengths:
        return []
    figure, (panel,) = _panels([9])
    for number, (label, of) in enumerate(lines.items()):
        here = [length for length in lengths if length in of]
        (line,) = panel.plot([lengths.index(length) for length in here], [of[k] for k in here], label=label)
        line.set(marker="osD^vPX*"[number % 8], color=COLOURS[number % len(COLOURS)])
    panel.set_xticks(range(len(lengths)), lengths)
    panel.set_xlabel("tokens of context")
    panel.set_ylabel("ms per token (median)")
    panel.set_ylim(bottom=0)
    panel.grid(axis="y", color="#E3E3E3")
    _lines_key(figure, [panel])
    return [_plot("decode", figure, "Time for one generated token over the length of the context; lower is faster.")]


def _longcontext(_: Mapping[str, float], details: Mapping[str, Any]) -> list[Plot]:
    scores: dict[str, dict[str, dict[str, float]]] = details.get("scores") or {}
    languages = list(dict.fromkeys(k for of in scores.values() for values in of.values() for k in values))
    # Methods of one length stand beside each other.
    lengths = _lengths(key.rpartition("_")[2] for key in scores)
    columns = [key for length in lengths for key in scores if key.rpartition("_")[2] == length]
    return [_heat_map(scores, columns, language) for language in languages]


def _heat_map(scores: Mapping[str, Mapping[str, Mapping[str, float]]], columns: Sequence[str], language: str) -> Plot:
    columns = [key for key in columns if any(language in values for values in scores[key].values())]
    tasks = list(dict.fromkeys(task for key in columns for task, values in scores[key].items() if language in values))
    table = [[scores[key].get(task, {}).get(language, float("nan")) for key in columns] for task in tasks]
    figure, (panel,) = _panels([len(tasks) * 1.1 + 2])
    panel.imshow(table, vmin=0, vmax=100, cmap="YlGnBu", aspect="auto")
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            if value == value:
                ink = "white" if value > 50 else INK
                panel.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=9, color=ink)
    panel.set_yticks(range(len(tasks)), [task.replace("_", " ") for task in tasks])
    names = [f"{key.rpartition('_')[0].replace('_', ' ')}, {key.rpartition('_')[2]}" for key in columns]
    slanted = len(columns) > 3
    panel.set_xticks(range(len(columns)), names, rotation=35 if slanted else 0, ha="right" if slanted else "center")
    for x in range(1, len(columns)):
        if columns[x].rpartition("_")[2] != columns[x - 1].rpartition("_")[2]:
            panel.axvline(x - 0.5, color="white", linewidth=4)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    return _plot(
        f"longcontext_{language}", figure, f"Score by task and method, of 100; language of the texts: {language}."
    )


def _selection(_: Mapping[str, float], details: Mapping[str, Any]) -> list[Plot]:
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for key, found in (details.get("per_layer") or {}).items():
        name, k, length = key.rsplit("_", 2)
        groups.setdefault((length, k), {})[name] = found["output_error"]
    if not groups:
        return []
    names = list(dict.fromkeys(name for of in groups.values() for name in of if name != "oracle"))
    colours = {"oracle": INK, **dict(zip(names, COLOURS * len(names), strict=False))}
    figure, panels = _panels([9] * len(groups))
    for panel, ((length, k), of) in zip(panels, groups.items(), strict=True):
        for name, errors in of.items():
            (line,) = panel.plot(range(len(errors)), errors, label=name.replace("_", " "), color=colours[name])
            line.set(linestyle="--") if name == "oracle" else line.set(marker="o", markersize=3)
        panel.set_title(f"{k} selected of {length} tokens", loc="left", fontsize=11, color=INK)
        panel.set_xlabel("layer")
        panel.set_ylabel("output error (share of the norm)")
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", color="#E3E3E3")
    _lines_key(figure, panels)
    return [
        _plot(
            "selection",
            figure,
            "Error of the attention output per layer when only the selected tokens are read; lower is better. An "
            "oracle that knows the true attention of every block shows what a selection of that size can reach.",
        )
    ]


def _selfimprove(figures: Mapping[str, float], details: Mapping[str, Any]) -> list[Plot]:
    names = [name.removeprefix("accuracy_") for name in figures if f"{name}_low" in figures and "accuracy_" in name]
    found: list[Plot] = []
    if names:
        figure, (panel,) = _panels([len(names)])
        values = [figures[f"accuracy_{name}"] for name in names]
        below = [value - figures[f"accuracy_{name}_low"] for name, value in zip(names, values, strict=True)]
        above = [figures[f"accuracy_{name}_high"] - value for name, value in zip(names, values, strict=True)]
        panel.barh(range(len(names)), values, height=0.6, color=COLOURS[0])
        panel.errorbar(values, range(len(names)), xerr=(below, above), fmt="none", ecolor=INK, capsize=3)
        _names(panel, [name.replace("_", ", ", 1) for name in names])
        panel.set_xlabel("right answers, %")
        found.append(_plot("accuracy", figure, "Accuracy by variant and track, with 95 % intervals; longer is better."))
    lines = {
        f"{variant}, {track}": told[variant]["train_right"]
        for track, told in details.items()
        if isinstance(told, dict)
        for variant in ("ace", "ours")
        if isinstance(told.get(variant), dict) and told[variant].get("train_right")
    }
    if lines:
        figure, (panel,) = _panels([9])
        for number, (label, right) in enumerate(lines.items()):
            window = max(1, len(right) // 5)
            means = [
                100 * statistics.fmean(right[max(0, last - window) : last]) for last in range(window, len(right) + 1)
            ]
            panel.plot(range(window, len(right) + 1), means, color=COLOURS[number % len(COLOURS)], label=label)
        panel.set_xlabel("questions learnt from")
        panel.set_ylabel("right of the last fifth, %")
        panel.set_ylim(0, 100)
        panel.grid(axis="y", color="#E3E3E3")
        _lines_key(figure, [panel])
        caption = "While learning: each question is asked before it is learnt from. A rising line is a book that helps."
        found.append(_plot("learning", figure, caption))
    return found


def _panels(rows: Sequence[float]) -> "tuple[Figure, list[Axes]]":
    """A figure with panels below each other, as tall as they have rows."""
    from matplotlib.figure import Figure

    heights = [0.34 * count + 0.9 for count in rows]
    figure = Figure(figsize=(WIDTH_IN, sum(heights)), layout="constrained", facecolor="white")
    panels = [figure.add_subplot(cell) for cell in figure.add_gridspec(len(rows), 1, height_ratios=heights)]
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color("#999999")
        panel.tick_params(colors=INK, labelsize=9)
        panel.set_axisbelow(True)
    return figure, panels


def _names(panel: "Axes", names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color="#E3E3E3")


def _key(figure: "Figure", colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=label) for label, colour in colours.items()]
    figure.legend(handles=patches, loc="outside upper center", ncols=3, frameon=False, fontsize=9)


def _lines_key(figure: "Figure", panels: "Sequence[Axes]") -> None:
    """One key for the lines of all panels, each label once."""
    lines = {str(line.get_label()): line for panel in panels for line in panel.get_lines()}
    figure.legend(handles=list(lines.values()), loc="outside upper center", ncols=4, frameon=False, fontsize=9)


def _plot(name: str, figure: "Figure", caption: str) -> Plot:
    sink = io.BytesIO()
    # No software version or time in the file: the same record gives the same picture.
    figure.savefig(sink, format="png", dpi=DPI, metadata={"Software": None})
    return Plot(name, caption, sink.getvalue())


def _lengths(labels: Any) -> list[str]:
    """Each label such as ``512`` or ``16k`` once, ascending."""
    return sorted(set(labels), key=lambda text: int(text.rstrip("k")) * (1024 if text.endswith("k") else 1))


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
