"""Writes down which rows a method chooses, in whatever host it runs."""

from collections.abc import Callable, Iterator
from typing import Any


def telling(select: Callable[..., Any], found: list[Any]) -> Callable[..., Any]:
    """``select`` of a method that adds ``[layer, row of the first query, rows of each head]`` to ``found``."""

    def told(self: Any, call: Any) -> Iterator[Any]:
        for selection in select(self, call):
            found.append([call.layer, call.start + selection.begin, [rows.tolist() for rows in selection.rows]])
            yield selection

    return told
