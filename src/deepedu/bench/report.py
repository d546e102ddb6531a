"""Bench records for people: the table after a run, and two runs side by side."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from deepedu.base.errors import ConfigError


def print_record(record: Mapping[str, Any], console: Console) -> None:
    """Prints a run's figures, what they were taken on, and its short details."""
    table = Table("figure", "value", title=f"bench {record['bench']}" + (" (quick)" if record["quick"] else ""))
    table.columns[1].justify = "right"
    for name, value in record["figures"].items():
        table.add_row(name, number(value))
    for name in record["undefined"]:
        table.add_row(name, "undefined")
    console.print(table)
    for key, value in record["details"].items():
        if isinstance(value, str | int | float | bool):
            console.print(f"  {key}: {value}", highlight=False, markup=False)
    code = record["commit"]
    console.print(
        f"  {record['machine']['cpu']}, {record['machine']['cores']} cores; seed {record['seed']}; "
        f"commit {code['id'][:12] + (' + changes' if code['dirty'] else '') if code else 'unknown'}; "
        f"{record['duration_s']} s",
        highlight=False,
        markup=False,
    )


def read_record(path: Path) -> dict[str, Any]:
    """Raises: ConfigError: not a file that a bench wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the bench result {str(path)!r}: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("figures"), dict):
        raise ConfigError(f"{str(path)!r} is not a bench result: expected a JSON object with 'figures'")
    return record


def compare(first: Mapping[str, Any], second: Mapping[str, Any], console: Console) -> None:
    """Prints both runs' figures with difference and ratio, after what makes them hard to compare."""
    for warning in differences(first, second):
        console.print(f"warning: {warning}", style="yellow", highlight=False, markup=False)
    table = Table("figure", "A", "B", "B - A", "B / A", title=f"{first.get('bench')}: A and B")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys([*first["figures"], *second["figures"]]):
        a, b = first["figures"].get(name), second["figures"].get(name)
        if a is None or b is None:
            table.add_row(name, number(a), number(b), "", "")
        else:
            table.add_row(name, number(a), number(b), f"{b - a:+.4g}", f"{b / a:.3f}" if a else "")
    console.print(table)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What differs between two runs besides their figures, one line each."""
    found: list[str] = []
    for key in ("bench", "quick", "seed", "options"):
        if first.get(key) != second.get(key):
            found.append(f"{key} differs: {first.get(key)!r} and {second.get(key)!r}")
    for group in ("machine", "versions"):
        a, b = first.get(group) or {}, second.get(group) or {}
        changed = [f"{key} {a.get(key)!r} and {b.get(key)!r}" for key in {**a, **b} if a.get(key) != b.get(key)]
        if changed:
            found.append(f"{group} differ: {', '.join(changed)}")
    return found


def number(value: float | None) -> str:
    """Four significant digits; whole numbers whole."""
    if value is None:
        return "-"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e12 else f"{value:.4g}"
