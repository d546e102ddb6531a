"""``deepedu engine serve --host vllm``: the command it becomes."""

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.base.config import EngineSettings
from deepedu.base.errors import ConfigError, Unsupported
from deepedu.cli.main import cli
from deepedu.engine import vllm_command
from deepedu.engine.vllm_plugin import CUDA_BACKENDS, SCHEDULER, VARIABLE


def install(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    others = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == "vllm" else others(name))


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "0.32.0+cpu")
    monkeypatch.setattr(vllm_command.shutil, "which", lambda name: f"/usr/bin/{name}")


def built(**settings: Any) -> tuple[list[str], dict[str, str]]:
    return vllm_command.build(EngineSettings(**settings), Path("/models/small"), ("small",), environment={})


def test_the_command_has_room_for_a_part_and_everybody_else() -> None:
    command, environment = built(
        port=8123,
        max_running=16,
        prefill_chunk_tokens=2048,
        max_window_tokens=16384,
        dtype="float32",
        method_set="tau=0.9",
        budget_tokens=2048,
    )
    assert command[1:3] == ["serve", "/models/small"]
    told = dict(zip(command[3::2], command[4::2], strict=True))
    assert told == {
        "--served-model-name": "small",
        "--host": "127.0.0.1",
        "--port": "8123",
        "--scheduler-cls": SCHEDULER,
        "--max-num-seqs": "16",
        "--max-num-batched-tokens": "2064",
        "--max-model-len": "16384",
        "--dtype": "float32",
    }
    assert json.loads(environment[VARIABLE]) == {
        "method": "chunk_rolling",
        "budget_tokens": 2048,
        "sinks": 128,
        "local": 512,
        "fields": {"tau": "0.9"},
        "decode_above": None,
    }


@pytest.mark.parametrize(
    ("dtype", "version", "wanted"),
    [
        ("auto", "0.32.0+cpu", ["--dtype", "float32"]),
        ("auto", "0.32.0", ["--dtype", "auto", "--attention-backend", "FLASH_ATTN"]),
        ("bfloat16", "0.32.0", ["--dtype", "bfloat16", "--attention-backend", "FLASH_ATTN"]),
        ("float32", "0.32.0", ["--dtype", "float32", "--attention-backend", "TRITON_ATTN"]),
    ],
)
def test_a_gpu_is_told_which_backend(
    monkeypatch: pytest.MonkeyPatch, dtype: str, version: str, wanted: list[str]
) -> None:
    install(monkeypatch, version)
    command, _ = built(dtype=dtype)
    assert command[command.index("--dtype") :] == wanted
    assert wanted[-1] in ("float32", *CUDA_BACKENDS)


def test_the_environment_says_which_method_and_vllms_own_options_come_last() -> None:
    said = {VARIABLE: '{"method": "quest", "decode_above": 8192}'}
    command, environment = vllm_command.build(
        EngineSettings(method="token_select"), Path("/m"), ("m",), ("--tensor-parallel-size", "2"), said
    )
    assert command[-2:] == ["--tensor-parallel-size", "2"]
    told = json.loads(environment[VARIABLE])
    assert (told["method"], told["decode_above"], told["budget_tokens"]) == ("quest", 8192, 1664)


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"weights": "int8"}, Unsupported, "AWQ"),
        ({"kv_rows": "int8"}, Unsupported, "kv_rows"),
        ({"port": 0}, ConfigError, "--port"),
        ({"method": "quest"}, Unsupported, "decode only"),
        ({"method_set": "tau"}, ConfigError, "key=value"),
        ({"prefill_chunk_tokens": 256}, ConfigError, "no room"),
    ],
)
def test_what_vllm_cannot_serve(settings: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        built(**settings)


def test_the_command_line_becomes_vllm(monkeypatch: pytest.MonkeyPatch, tiny_folder: Path) -> None:
    became: list[Any] = []

    def become(*args: Any) -> None:
        became.append(args)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvpe", become)
    arguments = ["engine", "serve", "--host", "vllm", "--model", str(tiny_folder), "--method", "token_select"]
    arguments += ["--", "--no-enable-prefix-caching"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    ((_, command, environment),) = became
    assert (command[2], command[-1]) == (str(tiny_folder), "--no-enable-prefix-caching")
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert json.loads(environment[VARIABLE])["method"] == "token_select"
    assert environment["PATH"] == os.environ["PATH"]


def test_our_own_server_takes_none_of_vllms_options() -> None:
    done = CliRunner().invoke(cli, ["engine", "serve", "--", "--tensor-parallel-size", "2"])
    assert done.exit_code == 2
    assert "need --host vllm, came '--tensor-parallel-size 2'" in done.output


def test_without_vllm_the_guide_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(Unsupported, match="scale-out"):
        vllm_command.check_installed()
