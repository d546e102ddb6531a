"""The wordings of hints, as ``hint_texts.toml`` has them: people can read and change them without reading code."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def hint_texts() -> dict[str, Any]:
    """The tables of the file: ``openings``, ``rungs``, ``closings`` and what is filled into them."""
    return tomllib.loads(files("deepedu.tutor").joinpath("hint_texts.toml").read_text(encoding="utf-8"))
