"""Asking a model for JSON: material that is no instruction, and a reply found among other words, mended, checked."""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Schema = TypeVar("Schema", bound=BaseModel)

_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_QUOTES = str.maketrans({"“": '"', "”": '"'})
_LONGEST = 20_000


class Unreadable(ValueError):
    """A reply that holds no value of the schema; the message tells a model what to mend."""


def read_reply(text: str, schema: type[Schema]) -> Schema:
    """The first value of a schema in a reply.

    What small models do is seen through: words and code fences around it, a comma too many, printed quotation marks,
    brackets left open at the end.

    Raises:
        Unreadable: there is none.
    """
    text = text[:_LONGEST]
    problem = "expected one JSON object, came none"
    for start in [match.start() for match in re.finditer(r"\{", text)][:20]:
        data = _object_at(text, start)
        if data is None:
            continue
        try:
            return schema.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            told = f"{'.'.join(map(str, first['loc'])) or 'the object'}: {first['msg']}"
            # The outermost object is the one that was meant.
            problem = told if problem.startswith("expected one JSON") else problem
    raise Unreadable(problem)


def _object_at(text: str, start: int) -> dict[str, Any] | None:
    piece = text[start:]
    for mended in (piece, _TRAILING_COMMA.sub(r"\1", piece), _TRAILING_COMMA.sub(r"\1", piece.translate(_QUOTES))):
        for candidate in (mended, _closed(mended)):
            try:
                data, _ = json.JSONDecoder(strict=False).raw_decode(candidate)
            except ValueError:
                continue
            return data
    return None


def _closed(text: str) -> str:
    """The text with the brackets and the string closed that are open at its end."""
    open_brackets: list[str] = []
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_brackets.append("}" if character == "{" else "]")
        elif character in "}]" and open_brackets:
            open_brackets.pop()
    if escaped:
        text = text[:-1]
    ended = f'{text}"' if in_string else text.rstrip(", \n\t")
    return ended + "".join(reversed(open_brackets))


def fenced(text: str) -> str:
    """Material for a model between the signs that its rules name: nothing in it can end the fence."""
    return f"<<<{text.replace('<<<', '< < <').replace('>>>', '> > >').strip()}>>>"
