"""Bench records as one HTML page that needs nothing else: targets, pictures, figures, and what they were taken on."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from deepedu.base.errors import ConfigError
from deepedu.bench.plots import Plot, plots
from deepedu.bench.report import number
from deepedu.bench.targets import Verdict, derived_figures, judge

PAGE = "report.html"
CSS = """
:root { --ink: #1d2328; --soft: #5c666f; --line: #dde2e6; --good: #00724e; --bad: #b0480a; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.2rem 1rem 4rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.3rem; margin: 2.6rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; } p { margin: .4rem 0; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .32rem .7rem .32rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } th.n { text-align: right; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .84rem; } td.name { min-width: 11rem; }
td.name span { display: block; font-size: .86rem; color: var(--soft); line-height: 1.35; } a { color: #0a5a9c; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
td.state { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .92rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; } img { max-width: 100%; height: auto; display: block; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .88rem; }
.warn { border-left: 3px solid var(--bad); padding-left: .7rem; }
@media (max-width: 34rem) { body { font-size: 15px; } dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print { body { max-width: none; font-size: 11pt; padding: 0; } figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } a { color: inherit; text-decoration: none; } }
"""
# Ends and beginnings of figure names, and the unit that the value is in.
_UNITS = (
    ("ms_per_token_", "ms per token"),
    ("_ms", "ms"),
    ("ttft_s_", "s"),
    ("memory_gb", "GB"),
    ("file_mb_", "MB"),
    ("retrieval_calls_ratio", "times"),
    ("retrieval_calls_", "calls"),
    ("tokens_per_s_ratio", "times"),
    ("_per_s", "per s"),
    ("score_", "of 100"),
    ("longbench_v2_", "of 100"),
    ("worst_task_", "points"),
    ("output_error_", "of the norm"),
    ("mass_read_", "share"),
    ("top_recall_", "share"),
    ("rows_read_", "rows"),
    ("_over_floor_", "times"),
    ("ratio", "times"),
    ("growth", "times"),
    ("_percent", "%"),
)


def write_report(records: Sequence[Mapping[str, Any]], folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Writes ``report.html`` and the plots as PNG files into ``folder``.

    Args:
        records: what benches wrote, in the order in which they shall stand.
        folder: made if it is not there.
        names: where each record comes from, to be shown.

    Returns:
        The files written, the page first.

    Raises:
        ConfigError: the folder cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    pictures = [plots(record) for record in records]
    page = html_page(records, pictures, names)
    files = {PAGE: page.encode()}
    for index, (record, found) in enumerate(zip(records, pictures, strict=True), 1):
        files |= {f"{index}-{record.get('bench')}-{plot.name}.png": plot.png for plot in found}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write the report to {str(folder)!r}: {error.strerror}") from error
    return [folder / name for name in files]


def html_page(
    records: Sequence[Mapping[str, Any]], pictures: Sequence[Sequence[Plot]], names: Sequence[str] = ()
) -> str:
    """The whole page; ``pictures`` of each record."""
    sections = [
        _section(index, record, pictures[index], names[index] if index < len(names) else "")
        for index, record in enumerate(records)
    ]
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    count = f"{len(records)} record" + ("s" if len(records) != 1 else "")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>DeepEdu bench report</title><style>{CSS}</style></head><body>
<h1>DeepEdu bench report</h1>
<p class="soft">{count}, put together {made}. Times compare only within one record: ratios are what carries over.</p>
{_targets(judge(records), records)}
{"".join(sections)}
</body></html>
"""


def _targets(verdicts: Sequence[Verdict], records: Sequence[Mapping[str, Any]]) -> str:
    reached = sum(verdict.is_reached is True for verdict in verdicts)
    missing = sum(verdict.is_reached is None for verdict in verdicts)
    rows = "".join(_target_row(verdict) for verdict in verdicts)
    quick = any(record.get("quick") for record in records)
    return f"""<h2>Targets</h2>
<p>{reached} reached, {len(verdicts) - reached - missing} not reached, {missing} not measured.
{"Quick runs count as not measured." if quick else ""}
The distance from the target is a share of it; + is the good side.</p>
<div class="wide"><table><thead><tr><th>figure</th><th class="n">target</th><th class="n">value</th>
<th>reached</th><th class="n">record</th></tr></thead><tbody>{rows}</tbody></table></div>"""


def _target_row(verdict: Verdict) -> str:
    sign = "≥" if verdict.target.bound == "at least" else "≤"
    limit = f"{sign} {number(verdict.limit)}" if verdict.limit is not None else "dense − 1"
    if verdict.margin is None or verdict.record is None:
        state, record = '<span class="soft">not measured</span>', ""
    else:
        by = f"{verdict.margin:+.2f} points" if verdict.in_points else f"{100 * verdict.margin:+.1f} %"
        word, kind = ("✓ yes", "good") if verdict.is_reached else ("✗ no", "bad")
        state = f'<span class="{kind}">{word}</span> {by.replace("-", "−")}'
        record = f'<a href="#r{verdict.record + 1}">{verdict.record + 1}</a>'
    return (
        f'<tr><td class="name">{_code(verdict.figure)}<span>{escape(verdict.target.meaning)}</span></td>'
        f'<td class="n">{limit}</td><td class="n">{number(verdict.value)}</td><td class="state">{state}</td>'
        f'<td class="n">{record}</td></tr>'
    )


def _section(index: int, record: Mapping[str, Any], pictures: Sequence[Plot], name: str) -> str:
    pieces = [f'<h2 id="r{index + 1}">{index + 1}. {escape(str(record.get("bench")))}</h2>']
    if record.get("quick"):
        pieces.append('<p class="warn">A quick run: it shows that the bench works and measures little.</p>')
    if (record.get("commit") or {}).get("dirty"):
        pieces.append('<p class="warn">Files had been changed since the commit named below.</p>')
    pieces.append(_taken_on(record, name))
    for plot in pictures:
        data = base64.b64encode(plot.png).decode()
        pieces.append(
            f'<figure><img alt="{escape(plot.caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
        )
    pieces += [_left_out(record), _figures(record)]
    return "\n".join(pieces)


def _taken_on(record: Mapping[str, Any], name: str) -> str:
    machine, settings = record.get("machine") or {}, (record.get("settings") or {}).get("engine") or {}
    code, details = record.get("commit"), record.get("details") or {}
    versions = {**(record.get("versions") or {}), **_peer_versions(details.get("peers"))}
    chosen = ("model", "dtype", "weights", "method", "method_set", "budget_tokens", "threads")
    rows = {
        "date": _date(record),
        "machine": f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('memory_gb')} GB",
        "system": str(machine.get("os") or ""),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items()),
        "commit": str(code["id"])[:12] if code else "unknown",
        "seed": str(record.get("seed")),
        "options": _pairs(record.get("options") or {}) or "none",
        "engine settings": _pairs({key: settings[key] for key in chosen if settings.get(key) not in (None, "")}),
        **{
            key.replace("_", " "): str(value)
            for key, value in details.items()
            if isinstance(value, str | int | float) and key not in ("skipped", "peers")
        },
        "record": name,
    }
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows.items() if value)
    return f"<dl>{items}</dl>"


def _peer_versions(peers: Any) -> dict[str, str]:
    return {str(name): str(version) for name, version in peers.items()} if isinstance(peers, dict) else {}


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _left_out(record: Mapping[str, Any]) -> str:
    skipped = (record.get("details") or {}).get("skipped") or {}
    reasons = skipped if isinstance(skipped, dict) else {str(each): "" for each in skipped}
    if not reasons:
        return ""
    rows = "".join(f"<tr><td>{escape(str(k))}</td><td>{escape(str(v))}</td></tr>" for k, v in reasons.items())
    return f'<h3>Left out, and why</h3><div class="wide"><table><tbody>{rows}</tbody></table></div>'


def _figures(record: Mapping[str, Any]) -> str:
    values: dict[str, Any] = {**record["figures"], **derived_figures(record)}
    values |= dict.fromkeys(record.get("undefined") or ())
    rows = "".join(
        f'<tr><td class="name">{_code(name)}</td><td class="n">{"undefined" if value is None else number(value)}</td>'
        f"<td>{unit(name)}</td></tr>"
        for name, value in values.items()
    )
    return f"""<h3>Figures</h3><div class="wide"><table>
<thead><tr><th>figure</th><th class="n">value</th><th>unit</th></tr></thead><tbody>{rows}</tbody></table></div>"""


def _code(figure: str) -> str:
    """A figure's name that may break at its underscores."""
    return f"<code>{escape(figure).replace('_', '_<wbr>')}</code>"


def _date(record: Mapping[str, Any]) -> str:
    try:
        started = datetime.fromisoformat(str(record.get("started"))).astimezone(UTC)
    except ValueError:
        return "unknown"
    minutes = float(record.get("duration_s") or 0) / 60
    return f"{started:%Y-%m-%d %H:%M} UTC, took {minutes:.0f} min" if minutes >= 2 else f"{started:%Y-%m-%d %H:%M} UTC"


def unit(figure: str) -> str:
    """The unit that a figure's name tells, or nothing."""
    return next((word for piece, word in _UNITS if piece in figure), "")
