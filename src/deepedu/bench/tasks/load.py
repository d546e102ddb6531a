"""Whether the school's application keeps up with 200 pupils at once: its own time, errors, foreign data; and a crash.

The application as a school runs it, accounts and all, is one process; its model is scripted and takes no noticeable
work (``bench/load/serve.py``). The pupils are a second process (Locust, ``bench/load/pupils.py``) on the same machine;
each asks every 30 s, reads the answer to its end, and looks around: opens the conversation, lists all, keeps an answer
in a quiz. Half of the classes are answered directly, half by hints.

**The application's own time** is what a pupil waits for besides the model: from sending the request to the last event
of the answer, less the time that the model itself took. That is known exactly: the model speaks by a timetable fixed
at the moment at which it is asked, so its time is when its last word is due, whether or not the application was there
to listen. Whatever makes the application late (other requests, writing, a busy machine) is its own time. Opening the
connection counts. For requests without a model the own time is the whole time.

Only what begins while all pupils are there is timed; errors and foreign data are counted from the first sign-in on.
Every text of a pupil, and the pupil's name, holds a marker of that pupil (``bench/load/markers.py``); everything that a
pupil is sent is looked through for markers of others. Pupils also try conversations that are not theirs.

Figures: ``own_time_p50_ms``, ``_p95_``, ``_p99_`` of all questions until the end of the answer, and for each policy
(suffix ``_explain``, ``_tutor``); ``own_time_p95_ms_median_window``, the median over windows of 30 s;
``first_event_p95_ms``, until the passages or the hint are there; ``<kind>_p95_ms`` of other requests; ``errors``,
``foreign_data``, ``requests``, ``users``, ``asks_per_minute``; ``server_cores`` and ``generator_cores``, the processor
time that the two took of each second; ``load_average``, the machine's, mean over the run.
"""

import importlib.metadata
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError, MissingExtra
from deepedu.bench.run import BenchContext, BenchResult

OPTIONS = {
    "users": "how many pupils at once (default 200, 10 with --quick)",
    "seconds": "how long all of them are there (default 180, 20 with --quick)",
    "pace_s": "seconds between two questions of a pupil (default 30, 10 with --quick)",
    "kill": "yes or no (default): also kill the server while pupils are answered, and look what is left",
    "kill_pupils": "how many pupils are being answered then (default 20, 6 with --quick)",
}
WINDOW_S = 30.0
ASKS = ("ask_explain", "ask_tutor")
_SHOWN = 20
_WAIT_S = 300.0


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring.

    Raises:
        ConfigError: an option cannot be taken, or the server does not start.
        MissingExtra: locust or psutil is not installed.
    """
    if any(importlib.util.find_spec(package) is None for package in ("locust", "psutil")):
        raise MissingExtra("bench", "deepedu bench load")
    quick = context.quick
    users = _count(context, "users", 10 if quick else 200)
    seconds = _count(context, "seconds", 20 if quick else 180)
    pace_s = _count(context, "pace_s", 10 if quick else 30)
    figures, details = _measure(context, users, float(seconds), float(pace_s))
    kill = context.options.get("kill", "no")
    if kill not in ("yes", "no"):
        raise ConfigError(f"--set kill expected yes or no, came {kill!r}")
    if kill == "yes":
        from deepedu.bench.load.crash import crash

        folder = context.tmp_dir / "killed"
        folder.mkdir()
        with context.console.status("killing the server while pupils are answered"):
            report = crash(
                school_settings(context.settings, folder), folder, _count(context, "kill_pupils", 6 if quick else 20)
            )
        figures |= report.figures()
    return BenchResult(figures, details)


def school_settings(settings: Settings, folder: Path) -> Settings:
    """The settings, the school in ``folder``; what would run beside the server is off."""
    return settings.model_copy(
        update={
            "store": settings.store.model_copy(update={"data_dir": folder / "data", "url": None, "key_file": None}),
            "search": settings.search.model_copy(update={"embed_after_ingest": "off"}),
            "server": settings.server.model_copy(update={"access": "accounts", "certificate": None}),
        }
    )


def _measure(
    context: BenchContext, users: int, seconds: float, pace_s: float
) -> tuple[dict[str, float], dict[str, Any]]:
    from deepedu.bench.load.plan import Findings, Plan
    from deepedu.bench.load.school import furnish
    from deepedu.bench.load.serve import Pace
    from deepedu.bench.load.server_process import serving

    folder = context.tmp_dir
    settings = school_settings(context.settings, folder)
    with context.console.status(f"furnishing a school of {users} pupils"):
        roster = furnish(settings, users)
    plan_path, findings_path, pace = folder / "plan.json", folder / "findings.json", Pace()
    with serving(settings, pace, folder) as server:
        Plan(server.url, roster, users, seconds, pace_s, seed=context.seed).write(plan_path)
        watched = _generate(context, server.pid, plan_path, findings_path, seconds + users / Plan.spawn_rate)
        log = server.log.read_text(encoding="utf-8", errors="replace")
    findings = Findings.read(findings_path)
    figures, details = summarise(findings, users, seconds)
    during = [each for each in watched if 0 <= each[0] - findings.began_at <= seconds]
    figures["server_cores"] = _share([(at, cpu) for at, cpu, _ in during])
    figures["generator_cores"] = _share([(at, cpu) for at, cpu in findings.cpu])
    figures["load_average"] = round(statistics.fmean(load for *_, load in during), 2) if during else math.nan
    return figures, {
        **details,
        "pace": vars(pace),
        "pace_s": pace_s,
        "seconds": seconds,
        "locust": importlib.metadata.version("locust"),
        "server_log": log[-4000:],
    }


def _generate(
    context: BenchContext, server_pid: int, plan: Path, findings: Path, expected_s: float
) -> list[tuple[float, float, float]]:
    """Runs the pupils. Returns ``(time, the server's processor time so far, load average)``, once a second."""
    import psutil

    server = psutil.Process(server_pid)
    watched: list[tuple[float, float, float]] = []
    command = [sys.executable, "-m", "deepedu.bench.load.pupils", str(plan), str(findings)]
    log = findings.with_suffix(".log")
    with log.open("wb") as output, context.progress("pupils ask", round(expected_s)) as advance:
        pupils = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + expected_s + _WAIT_S
        while pupils.poll() is None:
            if time.monotonic() > deadline:
                pupils.kill()
            cpu = server.cpu_times()
            watched.append((time.time(), cpu.user + cpu.system, os.getloadavg()[0]))
            time.sleep(1)
            advance(1)
    if pupils.returncode != 0:
        told = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise ConfigError(f"the pupils' process ended with {pupils.returncode}: {told}")
    return watched


def summarise(findings: Any, users: int, seconds: float) -> tuple[dict[str, float], dict[str, Any]]:
    """Figures and details of a run's ``Findings``, without those that are measured from outside."""
    from deepedu.bench.load.plan import own_times

    timed = [each for each in findings.done if 0 <= each.at_s < seconds]
    asks = own_times(timed, ASKS)
    failed = [each for each in findings.done if each.error is not None]
    windows = [
        (start, own_times([each for each in timed if start <= each.at_s < start + WINDOW_S], ASKS))
        for start in (WINDOW_S * number for number in range(math.ceil(seconds / WINDOW_S)))
    ]
    figures: dict[str, float] = {
        "users": float(users),
        "requests": float(len(timed)),
        "asks_per_minute": round(60 * sum(each.kind in ASKS for each in timed) / seconds, 1),
        "errors": float(len(failed)),
        "foreign_data": float(len(findings.foreign)),
        **{f"own_time_p{share}_ms": percentile(asks, share) for share in (50, 95, 99)},
        "own_time_p95_ms_median_window": statistics.median(
            [percentile(times, 95) for _, times in windows if times] or [math.nan]
        ),
        "first_event_p95_ms": percentile(
            [each.first_ms for each in timed if each.first_ms is not None and each.error is None], 95
        ),
    }
    kinds = sorted({each.kind for each in findings.done})
    for kind in kinds:
        name = f"own_time_p95_ms_{kind.removeprefix('ask_')}" if kind in ASKS else f"{kind}_p95_ms"
        figures[name] = percentile(own_times(timed, [kind]), 95)
    details = {
        "kinds": {kind: _told(own_times(findings.done, [kind])) for kind in kinds},
        "windows": [{"from_s": start, **_told(times)} for start, times in windows],
        "failed": [vars(each) for each in failed[:_SHOWN]],
        "foreign": findings.foreign[:_SHOWN],
    }
    return figures, details


def percentile(values: Sequence[float], share: int) -> float:
    """The smallest value that so many of a hundred do not exceed, NaN of none."""
    if not values:
        return math.nan
    return round(sorted(values)[max(0, math.ceil(share / 100 * len(values)) - 1)], 1)


def _told(times: Sequence[float]) -> dict[str, float | None]:
    values = {f"p{share}_ms": percentile(times, share) for share in (50, 95, 99)}
    return {"count": len(times), **{name: value if math.isfinite(value) else None for name, value in values.items()}}


def _share(samples: Sequence[tuple[float, float]]) -> float:
    """Processor seconds a second, from ``(time, processor time so far)``."""
    if len(samples) < 2:
        return math.nan
    return round((samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0]), 3)


def _count(context: BenchContext, name: str, default: int) -> int:
    text = context.options.get(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"--set {name} expected a number from 1 on, came {text!r}")
    return int(text)
