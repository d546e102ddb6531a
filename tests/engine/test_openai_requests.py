"""What is accepted, listed as ignored, or refused, and with which name."""

import json
from typing import Any

import pytest

from deepedu.base.errors import RequestRefused
from deepedu.engine.openai_requests import ChatRequest, CompletionRequest, ForgetRequest, parse

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Chào"}]}


def chat(**more: Any) -> Any:
    return parse(ChatRequest, json.dumps({**CHAT, **more}).encode())


def refused(**more: Any) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        chat(**more)
    return caught.value


def test_defaults_are_greedy() -> None:
    body = chat().body
    assert (body.temperature, body.top_p, body.stream, body.completion_limit) == (0.0, 1.0, False, None)


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"a": "b"}},
        {"store": True},
        {"n": 1},
        {"logprobs": False},
        {"logit_bias": {}},
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
    ],
)
def test_harmless_parameters_are_listed(more: dict[str, Any]) -> None:
    assert chat(**more).ignored == tuple(more)


def test_null_means_not_given() -> None:
    parsed = chat(n=None, tools=None, temperature=None, stop=None)
    assert parsed.ignored == ()
    assert parsed.body.temperature == 0


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"n": True},
        {"logprobs": True},
        {"top_logprobs": 3},
        {"logit_bias": {"5": 1}},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function"}]},
        {"tool_choice": "required"},
        {"audio": {}},
    ],
)
def test_what_is_not_served_is_refused_by_name(more: dict[str, Any]) -> None:
    error = refused(**more)
    assert (error.param, error.kind, error.status) == (next(iter(more)), "unsupported_parameter", 400)


def test_an_unknown_parameter_is_refused_with_a_guess() -> None:
    error = refused(temprature=0.5)
    assert (error.param, error.kind) == ("temprature", "unknown_parameter")
    assert "did you mean 'temperature'?" in str(error)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop.1"),
        ({"seed": 2**70}, "seed"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0.type"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"more": 1}}, "stream_options.more"),
    ],
)
def test_wrong_values_name_their_parameter(more: dict[str, Any], param: str) -> None:
    error = refused(**more)
    assert error.param == param
    assert param in str(error)


def test_text_parts_are_joined_and_cache_control_is_listed() -> None:
    parts = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]
    parsed = chat(messages=[{"role": "developer", "content": parts, "name": "x"}])
    (message,) = parsed.body.chat_messages()
    assert (message.role, message.text) == ("system", "a\nb")
    assert not any(part.shared for part in message.parts)
    assert parsed.ignored == ("messages.name", "messages.content.cache_control")


def test_parts_may_be_shared_and_tagged() -> None:
    control = {"type": "shared", "tag": "book-1.2_3"}
    parts = [{"type": "text", "text": "a", "cache_control": control}, {"type": "text", "text": "b"}]
    parsed = chat(messages=[{"role": "system", "content": parts}], user="x", usage_details=True)
    (message,) = parsed.body.chat_messages()
    assert [(part.text, part.shared, part.tag) for part in message.parts] == [
        ("a", True, "book-1.2_3"),
        ("b", False, None),
    ]
    assert (parsed.body.user, parsed.body.usage_details, parsed.ignored) == ("x", True, ())


@pytest.mark.parametrize("tag", ["", "../x", "A", "a/b", ".a", "a" * 65, 5, "a\n"])
def test_a_tag_is_a_plain_name(tag: Any) -> None:
    parts = [{"type": "text", "text": "a", "cache_control": {"type": "shared", "tag": tag}}]
    parsed = chat(messages=[{"role": "system", "content": parts}])
    with pytest.raises(RequestRefused, match="tag"):
        parsed.body.chat_messages()
    with pytest.raises(RequestRefused) as caught:
        parse(ForgetRequest, json.dumps({"tag": tag}).encode())
    assert caught.value.param == "tag"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse(ChatRequest, raw)
    assert caught.value.kind == "invalid_json"


@pytest.mark.parametrize("prompt", ["Hà Nội", ["Hà Nội"], [1, 2, 3]])
def test_prompts_of_completions(prompt: Any) -> None:
    parsed = parse(CompletionRequest, json.dumps({"model": "m", "prompt": prompt}).encode())
    assert parsed.body.prompt == prompt
    assert parsed.body.completion_limit == 16


@pytest.mark.parametrize("prompt", [[], ["a", "b"], [[1], [2]], 5])
def test_several_prompts_at_once_are_refused(prompt: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse(CompletionRequest, json.dumps({"model": "m", "prompt": prompt}).encode())
    assert (caught.value.param or "").startswith("prompt")
