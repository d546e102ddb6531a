"""How well the tutor's knowledge tracing foretells the next answer of pupils it has never seen, against its rivals.

Models are fitted on the answers of some students (ASSISTments 2009) and foretell every answer of others, each from the
ones before it. ``bkt``: knowledge tracing as of 1995, fitted skill by skill; ``bkt_forget``: with forgetting, which is
what the tutor does; ``bkt_default``: the same with the tutor's own parameters for every skill, as if none had been
seen; ``bkt_carry``: with forgetting, and students who did well so far start higher; ``pfa``: performance factors;
``skill_mean`` and ``student_mean``: the shares of right answers.

Figures: ``auc_<model>`` with ``_low`` and ``_high``, the 95 % interval by a bootstrap over students; ``log_loss_`` and
``rmse_``; ``auc_gain_<model>``, the difference to ``bkt`` on the same resamples of students.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deepedu.base.errors import ConfigError, MissingExtra
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.tutor.mastery import DEFAULT

if TYPE_CHECKING:
    import numpy as np

    from deepedu.bench.knowledge_tracing import Bkt, Student

OPTIONS = {
    "resamples": "how many times the students are drawn again for the intervals (default 1000, 100 with --quick)",
    "unit": "answers (default), or rows: an answer to a problem of several skills counts for each, as often published",
}
QUICK_TRAIN, QUICK_TEST = 80, 60
CARRIES = (0.0, 0.5, 1.0, 1.5, 2.0)


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring.

    Raises:
        ConfigError: the data set is not there, or an option cannot be taken.
        MissingExtra: hmmlearn or scikit-learn is not installed.
    """
    resamples = _count(context.options.get("resamples", "100" if context.quick else "1000"))
    train, test = _students(context)
    predictions, details = _predict(context, train, test)
    figures = _scores(test, predictions, resamples, context)
    return BenchResult({name: round(value, 4) for name, value in figures.items()}, details)


def _students(context: BenchContext) -> tuple[list["Student"], list["Student"]]:
    try:
        from deepedu.bench.knowledge_tracing import FILES, read_students
    except ModuleNotFoundError as error:
        raise MissingExtra("bench", "deepedu bench mastery") from error
    unit = context.options.get("unit", "answers")
    if unit not in ("answers", "rows"):
        raise ConfigError(f"--set unit expected answers or rows, came {unit!r}")
    folder = context.data_dir / "knowledge_tracing"
    train, test = (read_students(folder / FILES[split], merge=unit == "answers") for split in ("train", "test"))
    if context.quick:
        draw = random.Random(context.seed)
        train, test = draw.sample(train, QUICK_TRAIN), draw.sample(test, QUICK_TEST)
    return train, test


def _predict(
    context: BenchContext, train: Sequence["Student"], test: Sequence["Student"]
) -> tuple[dict[str, "np.ndarray"], dict[str, Any]]:
    from deepedu.bench.knowledge_tracing import (
        Bkt,
        fit_bkt,
        predict_bkt,
        predict_pfa,
        predict_skill_mean,
        predict_student_mean,
        right_of,
    )

    skills = {skill for student in train for answer in student.answers for skill in answer.skills}
    started = time.perf_counter()
    with context.progress("fitting skills", 2 * len(skills)) as advance:
        classic, forgetful = (fit_bkt(train, forget=forget, advance=advance) for forget in (False, True))
    fit_s = time.perf_counter() - started
    right = right_of(train)
    usual = float(right.mean())
    # Chosen on the students that the models were fitted on: the others are only for the figures.
    carry = max(CARRIES, key=lambda each: auc(right, predict_bkt(train, forgetful, carry=each, usual=usual)))
    predictions = {
        "bkt": predict_bkt(test, classic),
        "bkt_forget": predict_bkt(test, forgetful),
        "bkt_default": predict_bkt(test, Bkt(DEFAULT)),
        "bkt_carry": predict_bkt(test, forgetful, carry=carry, usual=usual),
        "pfa": predict_pfa(train, test),
        "skill_mean": predict_skill_mean(train, test),
        "student_mean": predict_student_mean(train, test),
    }
    details: dict[str, Any] = {
        "students_train": len(train),
        "students_test": len(test),
        "answers_train": len(right),
        "answers_test": len(predictions["bkt"]),
        "right_train": round(usual, 4),
        "skills_train": len(skills),
        "fit_s": round(fit_s, 1),
        "carry": carry,
        "bkt": _told(classic),
        "bkt_forget": _told(forgetful),
    }
    return predictions, details


def _told(bkt: "Bkt") -> dict[str, Any]:
    fitted = [asdict(parameters) for parameters in bkt.skills.values()]
    return {
        "pooled": asdict(bkt.pooled),
        "median": {name: statistics.median(each[name] for each in fitted) for name in asdict(DEFAULT)},
        "skills": {skill: asdict(parameters) for skill, parameters in bkt.skills.items()},
    }


def _scores(
    test: Sequence["Student"], predictions: Mapping[str, "np.ndarray"], resamples: int, context: BenchContext
) -> dict[str, float]:
    import numpy as np

    from deepedu.bench.knowledge_tracing import right_of

    right = right_of(test)
    of_student = np.repeat(np.arange(len(test)), [len(student.answers) for student in test])
    draws = np.random.default_rng(context.seed).multinomial(len(test), np.full(len(test), 1 / len(test)), resamples)
    figures: dict[str, float] = {}
    drawn: dict[str, list[float]] = {}
    with context.progress("drawing students again", resamples * len(predictions)) as advance:
        for name, predicted in predictions.items():
            weighted = weighted_auc(right, predicted)
            drawn[name] = []
            for draw in draws:
                drawn[name].append(weighted(draw[of_student]))
                advance(1)
            figures[f"auc_{name}"] = auc(right, predicted)
            figures |= _interval(f"auc_{name}", drawn[name])
            likely = np.where(right > 0, predicted, 1 - predicted)
            figures[f"log_loss_{name}"] = float(-np.log(np.maximum(likely, 1e-15)).mean())
            figures[f"rmse_{name}"] = float(np.sqrt(((right - predicted) ** 2).mean()))
    for name in predictions:
        if name != "bkt":
            figures[f"auc_gain_{name}"] = figures[f"auc_{name}"] - figures["auc_bkt"]
            gains = [one - other for one, other in zip(drawn[name], drawn["bkt"], strict=True)]
            figures |= _interval(f"auc_gain_{name}", gains)
    return figures


def _interval(name: str, values: Sequence[float]) -> dict[str, float]:
    import numpy as np

    low, high = np.quantile(values, [0.025, 0.975])
    return {f"{name}_low": float(low), f"{name}_high": float(high)}


def auc(right: "np.ndarray", predicted: "np.ndarray") -> float:
    """The share of pairs of a right and a wrong answer in which the right one was foretold higher; ties count half."""
    import numpy as np

    return weighted_auc(right, predicted)(np.ones(len(right)))


def weighted_auc(right: "np.ndarray", predicted: "np.ndarray") -> Callable[["np.ndarray"], float]:
    """``auc`` as a function of the weights of the answers, all [answers]: sorts once for many weightings."""
    import numpy as np

    _, level = np.unique(predicted, return_inverse=True)

    def weigh(weights: "np.ndarray") -> float:
        rights = np.bincount(level, weights * right)
        wrongs = np.bincount(level, weights * (1 - right))
        below = np.cumsum(wrongs) - wrongs / 2
        return float(rights @ below / (rights.sum() * wrongs.sum()))

    return weigh


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"--set resamples expected a number from 1 on, came {text!r}")
    return int(text)
