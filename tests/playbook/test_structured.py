"""Replies of weak models: read if they can be, with a reason if not."""

import pytest
from pydantic import BaseModel

from deepedu.playbook.structured import Unreadable, read_reply


class Point(BaseModel):
    x: int
    name: str = ""
    parts: list[int] = []


@pytest.mark.parametrize(
    "reply",
    [
        '{"x": 1, "name": "a"}',
        'Sure! Here it is:\n```json\n{"x": 1, "name": "a"}\n```\nHope it helps {really}.',
        '{"x": 1, "name": "a",}',
        "{“x”: 1, “name”: “a”}",
        '{"x": 1, "name": "a"',
        '{"x": 1, "name": "a',
        'I think {this} works: {"x": 1, "name": "a"}',
        '{"x": 1, "name": "a", "why": "not asked for"}',
    ],
)
def test_what_is_read(reply: str) -> None:
    assert read_reply(reply, Point) == Point(x=1, name="a")


def test_line_breaks_in_strings_and_open_lists() -> None:
    assert read_reply('{"x": 1, "name": "a\nb", "parts": [1, 2,', Point) == Point(x=1, name="a\nb", parts=[1, 2])
    assert read_reply('{"x": 1, "name": "a\\', Point).name == "a"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("", "came none"),
        ("I cannot do that.", "came none"),
        ("[1, 2]", "came none"),
        ('{"x": "many"}', "x: "),
        ('{"name": "a"}', "x: Field required"),
        ("{" * 5000, "came none"),
    ],
)
def test_what_is_not(reply: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read_reply(reply, Point)
