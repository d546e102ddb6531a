"""An attention method inside vLLM: what vLLM calls in each of its processes, and how it is told which method.

Nothing happens without ``DEEPEDU_ATTENTION``, JSON or TOML such as
``{"method": "chunk_rolling", "budget_tokens": 1664, "fields": {"tau": "0.9"}}``; ``deepedu engine serve --host vllm``
sets it.

Prompts longer than the budget are read by the method, and decode steps over more than ``decode_above`` tokens where
that is given; everything else by vLLM's own kernel. The rows that such a prompt writes are approximate, so the hashes
of vLLM's prefix cache begin with a seed that only the same method with the same fields has.
"""

import hashlib
import importlib.metadata
import json
import os
import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from deepedu.attention.base import DEFAULT_BUDGET_TOKENS, DEFAULT_LOCAL, DEFAULT_SINKS, Budget, Method
from deepedu.attention.registry import make_method
from deepedu.base.errors import ConfigError, Unsupported

VARIABLE = "DEEPEDU_ATTENTION"
SCHEDULER = "deepedu.engine.vllm_scheduler.PartScheduler"
# The versions that the tests ran with: from the first, up to and without the second.
TESTED = ("0.32", "0.33")
# Parts of prompts are multiples of it, so that blocks of the methods are whole.
ALIGNMENT = 512
# vLLM's backends for CUDA and ours that stand in their places. FlashAttention reads half precision alone.
CUDA_BACKENDS = {"FLASH_ATTN": "FlashBackend", "TRITON_ATTN": "TritonBackend"}
# The second runner keeps to itself where prompts end.
MODEL_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_SEED, _SALTED = "PYTHONHASHSEED", "DEEPEDU_ATTENTION_SALTED"
_RAY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"


class Attention(BaseModel):
    """What ``DEEPEDU_ATTENTION`` says. ``fields``: of the method, as text. ``decode_above``: decode steps choose rows
    where there are more than so many; None: never."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    budget_tokens: int = DEFAULT_BUDGET_TOKENS
    sinks: int = DEFAULT_SINKS
    local: int = DEFAULT_LOCAL
    fields: dict[str, str] = {}
    decode_above: NonNegativeInt | None = None

    def make(self) -> tuple[Method, Budget]:
        """The method and its budget.

        Raises:
            UnknownMethod, ConfigError: as ``make_method``.
            BudgetError: the budget does not hold sinks and local.
            Unsupported: the method drops rows, which a cache shared by requests cannot lose; it works in decode only,
                and ``decode_above`` is not given; or that is given, and it cannot choose in decode.
        """
        method = make_method(self.method, self.fields)
        if method.evicts:
            raise Unsupported(
                f"method {self.method!r} drops rows of a cache that requests share; inside vLLM methods choose among "
                "the rows: take chunk_rolling, token_select or twilight"
            )
        if "prefill" not in method.phases and self.decode_above is None:
            raise Unsupported(
                f"method {self.method!r} works in decode only: say above how many tokens with decode_above, such as "
                "16384, or take chunk_rolling, token_select or twilight"
            )
        if self.decode_above is not None and ("decode" not in method.phases or type(method).select is Method.select):
            raise Unsupported(
                f"method {self.method!r} does not choose rows in decode: leave decode_above away, or take quest or "
                "token_select"
            )
        return method, Budget(self.budget_tokens, self.sinks, self.local)

    def selects_in_decode(self, length: int) -> bool:
        """Whether a decode step over so many rows goes to the method."""
        return self.decode_above is not None and length > max(self.decode_above, self.budget_tokens)

    @property
    def digest(self) -> str:
        """Names the method with everything it is set to; equal only for equal rows."""
        method, budget = self.make()
        return hashlib.sha256(f"{method!r} {budget!r} {self.decode_above}".encode()).hexdigest()


def attention_of(environment: Mapping[str, str] = os.environ) -> Attention | None:
    """What the environment asks for; None: vLLM is left as it is.

    Raises:
        ConfigError: the variable cannot be read.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        values = json.loads(text) if text.startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f'{VARIABLE}: expected JSON or TOML such as {{"method": "chunk_rolling"}}, came {text[:80]!r} ({error})'
        ) from error
    try:
        return Attention.model_validate(_with_text(values))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ConfigError(f"{VARIABLE}: {faults}; known are {', '.join(Attention.model_fields)}") from error


def check_version(version: str) -> None:
    """Raises: Unsupported: a vLLM that the tests never ran with."""
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdecimal())
    first, stop = (tuple(map(int, each.split("."))) for each in TESTED)
    if not first <= numbers < stop:
        raise Unsupported(
            f"the attention methods run inside vLLM from {TESTED[0]} up to, not including, {TESTED[1]}; this is "
            f"{version}. Install such a version, or start vLLM without {VARIABLE}"
        )


def salt(attention: Attention, environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets the seed of vLLM's prefix cache, once: processes that vLLM starts find it done."""
    digest = attention.digest
    if environment.get(_SALTED) != digest:
        seed = hashlib.sha256(f"{environment.get(_SEED, '')} {digest}".encode()).digest()
        environment[_SEED] = str(int.from_bytes(seed[:4], "big"))
        environment[_SALTED] = digest


def choose_model_runner(environment: MutableMapping[str, str] = os.environ) -> None:
    """Has vLLM take the model runner that tells where prompts end; processes that vLLM starts find it done.

    Raises:
        ConfigError: the environment asks for the other one.
    """
    asked = environment.setdefault(MODEL_RUNNER, "0")
    if asked.strip() != "0":
        raise ConfigError(
            f"the methods run in vLLM's first model runner: set {MODEL_RUNNER}=0 or unset it, came {asked!r}"
        )


def take_along(environment: MutableMapping[str, str] = os.environ) -> None:
    """Has vLLM hand the method to the workers that Ray starts, which get only what is named; without it they would read
    densely."""
    named = [each.strip() for each in environment.get(_RAY, "").split(",") if each.strip()]
    environment[_RAY] = ",".join(dict.fromkeys([*named, VARIABLE, _SALTED]))


def check_cuda_backend(name: str | None) -> None:
    """Makes sure that vLLM was told to take a backend that ours stands in for.

    Where it took another one, prompts would be read densely and nobody would be told.

    Args:
        name: what ``--attention-backend`` says; None: nothing.

    Raises:
        ConfigError: another one, or none.
    """
    if name not in CUDA_BACKENDS:
        raise ConfigError(
            f"start vLLM with --attention-backend {' or '.join(CUDA_BACKENDS)}, in whose places the methods run; came "
            f"{name or 'none'}"
        )


def part_tokens(step_tokens: int, requests: int) -> int:
    """Tokens of a part, where a step computes ``step_tokens`` and so many requests may run.

    Raises:
        ConfigError: there is no room.
    """
    room = (step_tokens - requests) // ALIGNMENT * ALIGNMENT
    if room < ALIGNMENT:
        raise ConfigError(
            f"a step of {step_tokens} tokens has no room for a part of {ALIGNMENT} beside {requests} requests: give "
            f"--max-num-batched-tokens {ALIGNMENT + requests} or more, or a lower --max-num-seqs"
        )
    return room


def register() -> None:
    """The entry point ``vllm.general_plugins``: puts our backend in the place of vLLM's. May be called several times.

    Raises:
        ConfigError, UnknownMethod, BudgetError, Unsupported: what is asked for cannot be; vLLM does not start then.
    """
    attention = attention_of()
    if attention is None:
        return
    check_version(importlib.metadata.version("vllm"))
    salt(attention)
    take_along()
    from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]
    from vllm.v1.attention.backends.registry import (  # pyright: ignore[reportMissingImports]
        AttentionBackendEnum,
        register_backend,
    )

    if current_platform.is_cpu():
        register_backend(AttentionBackendEnum.CPU_ATTN, "deepedu.engine.vllm_cpu.CpuBackend")
    elif current_platform.is_cuda():
        choose_model_runner()
        for name, backend in CUDA_BACKENDS.items():
            register_backend(AttentionBackendEnum[name], f"deepedu.engine.vllm_cuda.{backend}")
    else:
        raise Unsupported(f"{VARIABLE}: inside vLLM the methods run on CPUs and on CUDA; unset it on this machine")


def _with_text(values: dict[str, Any]) -> dict[str, Any]:
    """Fields as a command line gives them: 0.9 and "0.9" are the same."""
    fields = values.get("fields")
    if isinstance(fields, dict):
        return {**values, "fields": {key: str(value) for key, value in fields.items()}}
    return values
