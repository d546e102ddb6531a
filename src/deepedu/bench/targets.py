"""What the engine and the playbook are meant to reach, in one place, and whether given records reach it.

Ratios compare two things of one run, so they hold on any machine; scores are points of 100.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

DEFAULT_METHOD = "chunk_rolling"


@dataclass(frozen=True)
class Target:
    """``figure`` of a bench is to be at least or at most ``limit``.

    ``{method}`` in the figure's name stands for the default method of the record's settings. With ``above`` the limit
    is counted from that figure of the same record, and the distance is in points, not in percent.
    """

    bench: str
    figure: str
    bound: Literal["at least", "at most"]
    limit: float
    meaning: str
    above: str | None = None


TARGETS = (
    *(
        Target(
            "ttft", f"retrieval_calls_ratio_{length}", "at least", 7.7, "times fewer retrieval calls than token_select"
        )
        for length in ("16k", "32k")
    ),
    *(
        Target(
            "ttft",
            f"attention_ratio_to_token_select_{length}",
            "at most",
            0.65,
            "attention and selection (first token less the floor) against token_select's",
        )
        for length in ("16k", "32k")
    ),
    Target("ttft", "ttft_ratio_to_dense_16k", "at most", 0.52, "cold first token against dense, both float32"),
    Target("ttft", "ttft_ratio_to_dense_32k", "at most", 0.35, "cold first token against dense, both float32"),
    Target(
        "ttft",
        "ttft_ratio_to_dense_best_weights_16k",
        "at most",
        0.35,
        "cold first token, best weights, against float32",
    ),
    Target(
        "ttft",
        "ttft_ratio_to_dense_best_weights_32k",
        "at most",
        0.25,
        "cold first token, best weights, against float32",
    ),
    Target("ttft", "ttft_over_floor_16k", "at most", 1.3, "cold first token against a model without attention"),
    Target("ttft", "ttft_growth_16k_to_32k", "at most", 2.1, "cold first token when the prompt doubles"),
    Target(
        "ttft", "warm_disk_ttft_ratio_16k", "at most", 0.05, "question over a warm lesson from disk, against cold dense"
    ),
    Target(
        "longcontext",
        "score_{method}_16k",
        "at least",
        -1.0,
        "mean score of the default method, within a point of dense",
        above="score_dense_16k",
    ),
    *(
        Target(
            "longcontext",
            f"worst_task_{{method}}_less_token_select_{length}",
            "at least",
            0.0,
            "points over token_select on the task where it is worst",
            above="",
        )
        for length in ("16k", "32k")
    ),
    Target("decode", "decode_ratio_16k_to_1k", "at most", 1.3, "time per token at a long context against a short one"),
    Target(
        "selfimprove",
        "gain_points_mean",
        "at least",
        9.5,
        "points gained by the playbook, mean over the tracks",
        above="",
    ),
    *(
        Target(
            "selfimprove",
            f"gain_points_{track}_over_ace",
            "at least",
            0.0,
            "points over the loop as published",
            above="",
        )
        for track in ("formula", "finer", "zalo_math")
    ),
    Target("selfimprove", "wrong_facts_live", "at most", 0.0, "wrong rules shown to pupils in the run", above=""),
    Target("selfimprove", "planted_live", "at most", 0.0, "planted false lessons that went live", above=""),
    Target("load", "own_time_p95_ms", "at most", 300.0, "the application's own part of an answer, 200 pupils at once"),
    Target("load", "users", "at least", 200.0, "pupils at once in that run"),
    Target("load", "errors", "at most", 0.0, "requests that failed", above=""),
    Target("load", "foreign_data", "at most", 0.0, "texts of other pupils in what a pupil was sent", above=""),
    *(
        Target("load", f"killed_{figure}", "at most", 0.0, f"{meaning} after the server was killed", above="")
        for figure, meaning in (
            ("lost_questions", "questions lost"),
            ("wrong_drafts", "drafts lost or changed"),
            ("lost_sign_ins", "sign-ins lost"),
            ("lost_answers", "acknowledged quiz answers lost"),
            ("integrity_faults", "faults of the database"),
        )
    ),
    Target("selfimprove", "select_ms_10k", "at most", 30.0, "choosing bullets among 10,000, milliseconds"),
)


@dataclass(frozen=True)
class Verdict:
    """A target held against the records. ``value`` is None where no whole run measured it.

    ``margin`` is how far the value lies on the good side of the limit: a share of the limit, or points.
    """

    target: Target
    figure: str
    limit: float | None
    value: float | None = None
    margin: float | None = None
    record: int | None = None

    @property
    def is_reached(self) -> bool | None:
        """None: not measured."""
        return None if self.margin is None else self.margin >= 0

    @property
    def in_points(self) -> bool:
        """The margin is in points of a score."""
        return self.target.above is not None


def judge(records: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Every target against the newest whole (not ``--quick``) run that measured it; ``record`` is its index."""
    return [_judge(target, records) for target in TARGETS]


def _judge(target: Target, records: Sequence[Mapping[str, Any]]) -> Verdict:
    whole = [
        (str(record.get("finished")), index)
        for index, record in enumerate(records)
        if record.get("bench") == target.bench and not record.get("quick")
    ]
    for _, index in sorted(whole, reverse=True):
        record = records[index]
        figure = target.figure.format(method=default_method(record))
        figures = {**derived_figures(record), **record["figures"]}
        base = figures.get(target.above) if target.above else 0.0
        if figure not in figures or base is None:
            continue
        value, limit = float(figures[figure]), base + target.limit
        margin = value - limit if target.bound == "at least" else limit - value
        if target.above is None:
            margin /= abs(limit)
        return Verdict(target, figure, limit, value, margin, index)
    method = default_method(records[whole[0][1]]) if whole else DEFAULT_METHOD
    return Verdict(target, target.figure.format(method=method), None if target.above else target.limit)


def default_method(record: Mapping[str, Any]) -> str:
    """The method that the record's settings name."""
    return str(((record.get("settings") or {}).get("engine") or {}).get("method") or DEFAULT_METHOD)


def derived_figures(record: Mapping[str, Any]) -> dict[str, float]:
    """From a record's details: points of the default method over token_select, on the task where it is worst."""
    scores = (record.get("details") or {}).get("scores")
    if record.get("bench") != "longcontext" or not isinstance(scores, dict):
        return {}
    ours, found = default_method(record), {}
    for name, tasks in scores.items():
        length = name.removeprefix("token_select_")
        mine = scores.get(f"{ours}_{length}")
        if length == name or mine is None:
            continue
        differences = [
            fmean(mine[task].values()) - fmean(values.values()) for task, values in tasks.items() if task in mine
        ]
        if differences:
            found[f"worst_task_{ours}_less_token_select_{length}"] = min(differences)
    return found
