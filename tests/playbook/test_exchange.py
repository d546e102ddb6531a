"""Markdown and JSON hold everything that is in the book."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_bullets import QUOTE, TEACHER, bullet, delta

from deepedu.base.errors import PlaybookError
from deepedu.playbook.bullet import Bullet, BulletScope, InteractionEvidence
from deepedu.playbook.delta import Put
from deepedu.playbook.exchange import from_json, from_markdown, to_json, to_markdown
from deepedu.playbook.state import State

NASTY = (
    "một dòng",
    "hai\n## dòng",
    "có\n\ndòng trống\n",
    "- [b-1] như một mục\n<!-- {} -->",
    "\\lùi\n\\<!-- x\n  thụt vào",
    '<!-- {"kind": "fact"} -->',
    "kết -- thúc --> sớm",
    "[x] a\u00a0b",
    "# như tiêu đề",
)


def state_of(*bullets: Bullet) -> State:
    state = State()
    if bullets:
        state.apply(delta(*(Put(bullet=each) for each in bullets), author=TEACHER))
    return state


def put_back(bullets: list[Bullet]) -> State:
    return state_of(*bullets)


@pytest.mark.parametrize(("write", "read"), [(to_json, from_json), (to_markdown, from_markdown)])
def test_nothing_is_lost(write: Any, read: Any) -> None:
    special = bullet(
        100000,
        "đủ cả",
        section="",
        scope=BulletScope(grade=6, subject="Khoa học -- tự nhiên", book="a" * 64, lesson="Bài 5"),
        evidence=(QUOTE, InteractionEvidence(reference="t-1", signal="thumbs --> down")),
        helpful=3,
        status="quarantined",
        reasons=("dòng\nmới", "--"),
    )
    state = state_of(*(bullet(number, text) for number, text in enumerate(NASTY, start=1)), special)
    text = write(state)
    assert put_back(read(text)) == state
    assert write(put_back(read(text))) == text


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), max_size=4), st.data())
def test_any_text_that_a_bullet_can_have(texts: list[str], data: st.DataObject) -> None:
    bullets: list[Bullet] = []
    for number, text in enumerate(texts, start=1):
        heading = data.draw(st.sampled_from(["", "Một", "Hai", "- [b-1] x"]))
        try:
            bullets.append(bullet(number, text, section=heading))
        except ValueError:
            continue
    state = state_of(*bullets)
    assert put_back(from_json(to_json(state))) == state
    assert put_back(from_markdown(to_markdown(state))) == state


def test_an_empty_book() -> None:
    for write, read in ((to_json, from_json), (to_markdown, from_markdown)):
        assert read(write(State())) == []


def test_markdown_reads_like_a_list() -> None:
    text = to_markdown(state_of(bullet(1, "Nước sôi ở 100 °C."), bullet(2, "Bước 1\nBước 2", section="Cách làm")))
    lines = text.split("\n")
    assert lines[0] == "# Playbook (deepedu-playbook-1)"
    assert lines[2:5] == ["## Kiến thức trong sách", "", "- [b-00001] Nước sôi ở 100 °C."]
    assert "- [b-00002] Bước 1\n  Bước 2\n  <!-- {" in text


def test_what_an_editor_does_to_line_ends_does_no_harm() -> None:
    state = state_of(bullet(1, "một\n\nhai"), bullet(2, "ba"))
    assert put_back(from_markdown(to_markdown(state).replace("\n", "\r\n"))) == state


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## A\nlạc lõng\n", "line 2: expected a .## heading. or a bullet"),
        ("- [b-1] x\n- [b-2] y\n", "line 2: the bullet 'b-1' before it has no comment"),
        ("- [b-1] x\n", "the bullet 'b-1' at the end has no comment"),
        # One mark too few: what follows must not slip under another heading.
        ("# A\n", "line 1: expected"),
        ("# Playbook (deepedu-playbook-9)\n", "line 1: expected"),
        ("- [b-1] x\n  <!-- {bad} -->\n", "line 2: expected JSON"),
        ('- [b-1] x\n  <!-- {"kind": "rumour"} -->\n', "line 2: "),
    ],
)
def test_markdown_that_cannot_be_read_tells_the_line(text: str, words: str) -> None:
    with pytest.raises(PlaybookError, match=words):
        from_markdown(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "came another JSON"),
        ('{"format": "deepedu-playbook-1", "bullets": [{"id": "b-1"}]}', "bullet 1: "),
        ('{"format": "deepedu-playbook-9", "bullets": []}', "came another JSON"),
    ],
)
def test_json_that_cannot_be_read_tells_where(text: str, words: str) -> None:
    with pytest.raises(PlaybookError, match=words):
        from_json(text)


def test_an_id_that_stands_there_twice_is_refused() -> None:
    text = to_markdown(state_of(bullet(1, "một")))
    item = text[text.index("- [") :]
    with pytest.raises(PlaybookError, match="stands there twice"):
        from_markdown(text + item)
