"""Parameters of the OpenAI chat interface that neither of our servers acts on: both take and refuse the same."""

from collections.abc import Callable, Mapping
from typing import Any

# Known to OpenAI, without effect here whatever the value: accepted and listed as ignored.
IGNORED = frozenset(
    {
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "verbosity",
        "parallel_tool_calls",
    }
)
# Known to OpenAI and not served: accepted (and listed as ignored) only with a value that asks for nothing.
HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    "n": lambda value: value is not True and value == 1,
    "logprobs": lambda value: value is False,
    "top_logprobs": lambda value: value == 0,
    "logit_bias": lambda value: value == {},
    "response_format": lambda value: value == {"type": "text"},
    "tools": lambda value: value == [],
    "tool_choice": lambda value: value in ("none", "auto"),
    "functions": lambda value: value == [],
    "function_call": lambda value: value in ("none", "auto"),
    "modalities": lambda value: value == ["text"],
    "audio": lambda _: False,
    "prediction": lambda _: False,
    "web_search_options": lambda _: False,
}
