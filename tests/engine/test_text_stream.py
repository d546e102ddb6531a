"""Text comes out whole: no half characters, no stop strings."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepedu.engine.text_stream import Detokenizer, StopFilter

LETTERS = "aăâbcdđeêghioôơuưy ạảãấầẩẫậắằẵặếềệốồộớờợứừựỳỹ²😀\n"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(LETTERS, max_size=40))
def test_deltas_join_to_the_text_and_never_hold_half_a_character(tiny: Any, text: str) -> None:
    detokenizer = Detokenizer(tiny.tokenizer)
    pieces = [detokenizer.push(token) for token in tiny.tokenizer.backend_tokenizer.encode(text).ids]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + detokenizer.flush() == text


def test_a_character_cut_at_the_end_is_left_out(tiny: Any) -> None:
    ids = tiny.tokenizer.backend_tokenizer.encode("là 😀").ids
    detokenizer = Detokenizer(tiny.tokenizer)
    assert "".join(detokenizer.push(token) for token in ids[:-1]) + detokenizer.flush() == "là "


def test_special_tokens_are_no_text(tiny: Any) -> None:
    ids = tiny.tokenizer.backend_tokenizer.encode("Hà<|im_end|> Nội").ids
    detokenizer = Detokenizer(tiny.tokenizer)
    assert "".join(map(detokenizer.push, ids)) + detokenizer.flush() == "Hà Nội"


@settings(max_examples=300)
@given(
    pieces=st.lists(st.text("abc", max_size=4), max_size=8),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
)
def test_stop_strings_cut_the_text_wherever_the_pieces_end(pieces: list[str], stops: list[str]) -> None:
    stop_filter, out = StopFilter(stops), ""
    for piece in pieces:
        out += stop_filter.push(piece)
        if stop_filter.stopped:
            break
    else:
        out += stop_filter.flush()
    text = "".join(pieces)
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    assert out == (text[: min(ends)[1]] if ends else text)
    assert stop_filter.stopped == bool(ends)


def test_what_may_become_a_stop_string_is_held_back() -> None:
    stop_filter = StopFilter(["\nHết"])
    assert [stop_filter.push(piece) for piece in ("Hà Nội\n", "H", "à Nam")] == ["Hà Nội", "", "\nHà Nam"]
