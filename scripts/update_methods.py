"""Writes the table of attention methods in docs/methods.md from the methods themselves; ``--check`` only compares."""

import inspect
import re
import sys
from pathlib import Path

from deepedu.attention.registry import describe_fields, method_class, method_names

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods.md"
BEGIN, END = "<!-- methods: written by scripts/update_methods.py -->", "<!-- end of methods -->"


def first_sentence(name: str) -> str:
    """What the method's file says it is."""
    text = inspect.getdoc(inspect.getmodule(method_class(name))) or ""
    return re.sub(r"\s+", " ", text.split("\n\n")[0])


def table() -> str:
    """One row for each method."""
    lines = ["| method | what it does | paper | phases | limits | fields |", "|---|---|---|---|---|---|"]
    for name in method_names():
        kind = method_class(name)
        fields = ", ".join(f"`{field}={value}`" for field, value in describe_fields(name).items())
        phases = ", ".join(sorted(kind.phases, reverse=True))
        cells = [f"`{name}`", first_sentence(name), kind.paper, phases, kind.limits, fields]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Returns 1 when ``--check`` finds the page out of date."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    updated = f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"
    if "--check" in sys.argv[1:]:
        if updated != text:
            print("docs/methods.md is out of date: run python scripts/update_methods.py")
            return 1
        return 0
    PAGE.write_text(updated, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
