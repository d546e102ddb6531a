"""Every text of a template has an English one, and no two parts of the catalogue contradict each other."""

import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from deepedu.server.pages import catalogue, translator

WEB = Path(str(resources.files("deepedu.server").joinpath("web")))
TEMPLATES = sorted(WEB.glob("templates/*.html"))
PARTS = sorted(WEB.glob("en*.toml"))
_SAID = re.compile(r"""\b_\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")


def said(template: Path) -> set[str]:
    return {text[1:-1] for text in _SAID.findall(template.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: each.name)
def test_every_text_has_an_english_one(template: Path) -> None:
    english = catalogue("en")
    assert sorted(text for text in said(template) if text not in english) == []


def test_no_two_parts_contradict_each_other() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for part in PARTS:
        for text, english in tomllib.loads(part.read_text(encoding="utf-8")).items():
            other = seen.setdefault(text, (english, part.name))
            assert other[0] == english, f"{text!r}: {other} and {(english, part.name)}"


def test_placeholders_are_the_same_in_both() -> None:
    names = re.compile(r"\{(\w+)\}")
    wrong = [
        text for text, english in catalogue("en").items() if set(names.findall(text)) != set(names.findall(english))
    ]
    assert wrong == []


def test_an_unknown_text_stays_as_it_is() -> None:
    assert translator("en")("Chưa dịch {n}", n=3) == "Chưa dịch 3"
    assert translator("vi")("Đăng nhập") == "Đăng nhập"
