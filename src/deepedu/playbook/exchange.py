"""The playbook as Markdown for people and as JSON for programs; both hold everything.

In Markdown a bullet is a list item: its id in brackets, its text, continuation lines indented by two spaces, and an
HTML comment with the rest. Whatever stands in a text (line breaks, "##", comments) therefore stays inside its bullet.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from deepedu.base.errors import PlaybookError
from deepedu.playbook.bullet import Bullet
from deepedu.playbook.state import State

FORMAT = "deepedu-playbook-1"
TITLE = f"# Playbook ({FORMAT})"
_ITEM = re.compile(r"- \[(?P<id>[^\]\s]+)\] (?P<text>.*)")
_COMMENT = re.compile(r"  <!-- (?P<json>\{.*\}) -->")


def to_json(state: State) -> str:
    """All bullets in order, one line each."""
    lines = [bullet.model_dump_json() for bullet in state.ordered()]
    return json.dumps({"format": FORMAT})[:-1] + ', "bullets": [\n' + ",\n".join(lines) + "\n]}\n"


def from_json(text: str) -> list[Bullet]:
    """The bullets of :func:`to_json`.

    Raises:
        PlaybookError: it is something else, with the first bullet that is wrong.
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise PlaybookError(f"expected an exported playbook, came text that is no JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("bullets"), list):
        raise PlaybookError(f'expected an exported playbook with "format": {FORMAT!r} and "bullets", came another JSON')
    return _unique(_bullet(each, f"bullet {number}") for number, each in enumerate(data["bullets"], start=1))


def to_markdown(state: State) -> str:
    """All bullets under their sections, in the order in which section and bullets were first added."""
    sections: dict[str, list[Bullet]] = {}
    for bullet in state.ordered():
        sections.setdefault(bullet.section, []).append(bullet)
    # What stands before any heading has to come first, or it would fall under one.
    headings = sorted(sections, key=lambda section: section != "")
    lines = [TITLE, ""]
    for heading in headings:
        if heading:
            lines += [f"## {heading}", ""]
        for bullet in sections[heading]:
            first, *more = bullet.text.split("\n")
            lines.append(f"- [{bullet.id}] {first}")
            lines += [_indented(line) for line in more]
            # "--" would end a comment early in some readers.
            rest = bullet.model_dump_json(exclude={"id", "text", "section"}).replace("--", "-\\u002d")
            lines.append(f"  <!-- {rest} -->")
        lines.append("")
    return "\n".join(lines)


def from_markdown(text: str) -> list[Bullet]:
    """The bullets of :func:`to_markdown`.

    Raises:
        PlaybookError: a line that belongs to no bullet, or a bullet that is wrong, with the line's number.
    """
    found: list[Bullet] = []
    section, item, lines = "", None, list[str]()
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if item is not None:
            if (comment := _COMMENT.fullmatch(line)) is not None:
                rest = _parsed(comment["json"], number)
                found.append(
                    _bullet({**rest, "id": item, "section": section, "text": "\n".join(lines)}, f"line {number}")
                )
                item = None
            elif line == "" or line.startswith("  "):
                lines.append(_unindented(line))
            else:
                raise PlaybookError(f"line {number}: the bullet {item!r} before it has no comment with its particulars")
            continue
        if (start := _ITEM.fullmatch(line)) is not None:
            item, lines = start["id"], [start["text"]]
        elif line.startswith("## "):
            section = line[3:]
        elif line and line != TITLE:
            raise PlaybookError(f"line {number}: expected a '## heading' or a bullet '- [id] text', came {line[:60]!r}")
    if item is not None:
        raise PlaybookError(f"the bullet {item!r} at the end has no comment with its particulars")
    return _unique(found)


def _indented(line: str) -> str:
    if not line:
        return ""
    return f"  \\{line}" if line.startswith(("<!-- ", "\\")) else f"  {line}"


def _unindented(line: str) -> str:
    line = line.removeprefix("  ")
    return line[1:] if line.startswith("\\") else line


def _parsed(text: str, number: int) -> dict[str, Any]:
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise PlaybookError(f"line {number}: expected JSON in the comment: {error}") from error
    return data


def _bullet(data: Any, where: str) -> Bullet:
    try:
        return Bullet.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise PlaybookError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _unique(bullets: Iterable[Bullet]) -> list[Bullet]:
    found: dict[str, Bullet] = {}
    for bullet in bullets:
        if found.setdefault(bullet.id, bullet) is not bullet:
            raise PlaybookError(f"the id {bullet.id!r} stands there twice: give one of the two another")
    return list(found.values())
