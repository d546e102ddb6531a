"""The command that starts vLLM with our settings and one of our methods inside."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deepedu.attention.registry import read_fields
from deepedu.base.config import EngineSettings
from deepedu.base.errors import ConfigError, Unsupported
from deepedu.engine.vllm_plugin import SCHEDULER, TESTED, VARIABLE, Attention, attention_of, check_version, part_tokens

_MISSING = (
    f"--host vllm needs vLLM {TESTED[0]} in the same environment, and it is not there: docs/guides/scale-out.md tells "
    "how to install it"
)


def build(
    settings: EngineSettings,
    folder: Path,
    served_names: tuple[str, ...],
    more: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[list[str], dict[str, str]]:
    """The command line of ``vllm serve`` and what its environment needs besides ours.

    Args:
        settings: of the engine; what only our own engine has must be left as it is.
        folder: the model's, as transformers saves it.
        served_names: what clients may call the model.
        more: options of vLLM's own, such as ``--tensor-parallel-size 2``; they come last, so they win.
        environment: where it says which method (``DEEPEDU_ATTENTION``), the settings' own is not looked at.

    Raises:
        ConfigError, UnknownMethod, BudgetError, Unsupported: a setting cannot be served by vLLM.
        importlib.metadata.PackageNotFoundError: vLLM is not installed; ask ``check_installed`` first.
    """
    _refuse_ours(settings)
    attention = attention_of(environment) or Attention(
        method=settings.method, budget_tokens=settings.budget_tokens, fields=read_fields(settings.method_set)
    )
    attention.make()
    step = settings.prefill_chunk_tokens + settings.max_running
    part_tokens(step, settings.max_running)
    command = [_executable(), "serve", str(folder)]
    command += ["--served-model-name", *served_names, "--host", settings.host, "--port", str(settings.port)]
    command += ["--scheduler-cls", SCHEDULER, "--max-num-seqs", str(settings.max_running)]
    # A part of one prompt, and a decode step of everybody else beside it.
    command += ["--max-num-batched-tokens", str(step)]
    if settings.max_window_tokens is not None:
        command += ["--max-model-len", str(settings.max_window_tokens)]
    if _is_for_cpus():
        # As our own engine has it on a CPU; and the methods read no other cache there.
        command += ["--dtype", "float32" if settings.dtype == "auto" else settings.dtype]
    else:
        command += ["--dtype", settings.dtype]
        command += ["--attention-backend", "TRITON_ATTN" if settings.dtype == "float32" else "FLASH_ATTN"]
    command += more
    return command, {VARIABLE: attention.model_dump_json(), "HF_HUB_OFFLINE": "1"}


def check_installed() -> None:
    """Makes sure that a vLLM that was tried is here.

    Raises:
        Unsupported: none is installed, or one of another version.
    """
    try:
        version = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError as error:
        raise Unsupported(_MISSING) from error
    check_version(version)


def _is_for_cpus() -> bool:
    """Whether this vLLM is a build for CPUs, which is how vLLM itself tells."""
    return "cpu" in importlib.metadata.version("vllm")


def _refuse_ours(settings: EngineSettings) -> None:
    if settings.weights == "int8" or settings.kv_rows != "model":
        raise Unsupported(
            "vLLM keeps weights and rows its own way: leave engine.weights and engine.kv_rows as they are, and give it "
            "a model that is quantised already (AWQ, GPTQ)"
        )
    if settings.port == 0:
        raise ConfigError("vLLM needs a port: give --port, such as 8001")


def _executable() -> str:
    beside = Path(sys.executable).with_name("vllm")
    found = str(beside) if beside.is_file() else shutil.which("vllm")
    if found is None:
        raise Unsupported(_MISSING)
    return found
