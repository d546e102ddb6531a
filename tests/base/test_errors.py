"""The error tree: drawn as it is, and every leaf usable."""

import inspect
import re

from deepedu.base import errors


def classes() -> dict[str, type[errors.DeepEduError]]:
    return {
        name: value
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.DeepEduError)
    }


def test_the_drawing_shows_every_class_under_its_parent() -> None:
    drawing = (errors.__doc__ or "").splitlines()
    parents: dict[int, str] = {}
    drawn: dict[str, str | None] = {}
    for line in drawing:
        match = re.match(r"^([│ ]*)(├── |└── )?([A-Z]\w+)( |$)", line)
        if match and match[3] in classes():
            depth = (len(match[1]) + 4) // 4 if match[2] else 0
            parents[depth] = match[3]
            drawn[match[3]] = parents.get(depth - 1)
    actual = {name: (cls.__bases__[0].__name__ if name != "DeepEduError" else None) for name, cls in classes().items()}
    assert drawn == actual


def test_codes_are_unique_and_statuses_are_errors() -> None:
    codes = [cls.code for cls in classes().values()]
    assert len(set(codes)) == len(codes)
    assert all(400 <= cls.http_status < 600 for cls in classes().values())
