"""Writes the list of files in docs/map.md from the modules' own first sentences; ``--check`` only compares."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "docs" / "map.md"
SOURCE = ROOT / "src" / "deepedu"
BEGIN, END = "<!-- files: written by scripts/update_map.py -->", "<!-- end of files -->"
# In the order in which a question meets them; each with the reason it exists.
PACKAGES = {
    "base": "what every layer stands on; imports nothing of ours",
    "curriculum": "document -> chapters, lessons, passages",
    "store": "everything that is kept",
    "search": "question -> passages",
    "playbook": "experience -> rules",
    "llm": "the wire to a model, whoever serves it",
    "tutor": "passages + model -> a checked answer",
    "server": "the tutor over HTTP, and our engine as its child",
    "attention": "how queries read a long cache: one method, one file",
    "engine": "our own model server (the tensor tower)",
    "bench": "what is measured, and how",
    "cli": "one file for each command",
}


def first_sentence(file: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return re.sub(r"\s+", " ", text.split("\n\n")[0]).replace("``", "`")


def file_list() -> str:
    """The section of the map."""
    lines: list[str] = []
    for package, purpose in PACKAGES.items():
        lines += ["", f"### {package}/: {purpose}", "", "| file | what it is |", "|---|---|"]
        for file in sorted((SOURCE / package).rglob("*.py")):
            name = file.relative_to(SOURCE / package)
            if file.name != "__init__.py" and "versions" not in name.parts:
                lines.append(f"| `{name}` | {first_sentence(file).replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def main() -> int:
    """Returns 1 when ``--check`` finds the map out of date."""
    text = MAP.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    updated = f"{before}{BEGIN}\n{file_list()}\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if updated != text:
            print("docs/map.md is out of date: run python scripts/update_map.py")
            return 1
        return 0
    MAP.write_text(updated, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
