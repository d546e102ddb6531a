"""Methods by name, and their fields from text."""

import subprocess
import sys

import pytest

from deepedu.attention.methods.chunk_rolling import ChunkRolling
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.attention.methods.twilight import Twilight
from deepedu.attention.registry import describe_fields, make_method, method_class, method_names
from deepedu.base.errors import ConfigError, UnknownMethod


def test_the_methods_there_are() -> None:
    assert method_names() == sorted(method_names())
    assert {"dense", "sink_window", "token_select", "chunk_rolling", "quest", "twilight"} <= set(method_names())
    assert {"streaming_pages", "expected_attention", "flex_prefill"} <= set(method_names())


def test_only_the_method_that_is_asked_for_is_imported() -> None:
    code = (
        "import sys; from deepedu.attention.registry import make_method, method_names; method_names();"
        "make_method('quest');"
        "print(*sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('deepedu.attention.methods.')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["quest"]


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownMethod, match=r"'tokenselect'; did you mean 'token_select'\?"):
        method_class("tokenselect")
    with pytest.raises(UnknownMethod, match=r"There are: .*dense.*token_select"):
        make_method("zzz")
    with pytest.raises(UnknownMethod):
        make_method("../base")


def test_fields_come_from_text() -> None:
    fields = {"tau": "0.9", "max_cluster_tokens": "1024", "similarity": "centered", "exact_tokens": "0"}
    expected = ChunkRolling(tau=0.9, max_cluster_tokens=1024, similarity="centered", exact_tokens=0)
    assert make_method("chunk_rolling", fields) == expected
    assert make_method("expected_attention", {"value_norm": "False"}) == make_method(
        "expected_attention", {"value_norm": "false"}
    )
    assert make_method("twilight", {"base": "quest"}) == Twilight(base=make_method("quest"))


@pytest.mark.parametrize(
    ("method", "field", "text", "message"),
    [
        ("chunk_rolling", "max_cluster", "1024", "did you mean 'max_cluster_tokens'"),
        ("token_select", "zzz", "1", "it has: exact_tokens, block_tokens, reuse_cosine"),
        ("token_select", "name", "x", "has no field 'name'"),
        ("chunk_rolling", "tau", "high", "chunk_rolling.tau: expected float, came 'high'"),
        ("chunk_rolling", "block_tokens", "1.5", "chunk_rolling.block_tokens: expected int, came '1.5'"),
        ("chunk_rolling", "similarity", "rope", "expected one of roped, unroped, centered, came 'rope'"),
        ("expected_attention", "value_norm", "maybe", "expected true or false, came 'maybe'"),
        ("twilight", "base", "qest", "did you mean 'quest'"),
        ("token_select", "block_tokens", "0", "at least 1"),
    ],
)
def test_what_a_field_cannot_take(method: str, field: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method(method, {field: text})


def test_fields_are_described_with_their_defaults() -> None:
    assert describe_fields("token_select") == {"exact_tokens": "256", "block_tokens": "512", "reuse_cosine": "0.9"}
    assert describe_fields("twilight")["base"] == "'token_select'"
    assert isinstance(Twilight().base, TokenSelect)
