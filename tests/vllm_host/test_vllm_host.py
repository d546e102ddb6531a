"""Our methods inside vLLM on the CPU, against vLLM's own attention and against the same methods inside transformers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM's CPU build: make test-vllm")

import httpx
import torch
import transformers
from chosen_rows import telling

from deepedu.attention.registry import make_method
from deepedu.engine.adapter import Adapter
from deepedu.engine.vllm_plugin import CUDA_BACKENDS, SCHEDULER, VARIABLE, Attention, take_along

# vLLM takes a quarter of a minute to start where nothing else runs.
pytestmark = pytest.mark.timeout(900)

PART = 512
# Small, so that a prompt of 1,500 tokens makes a method choose many times.
SMALL: dict[str, Any] = {"budget_tokens": 200, "sinks": 8, "local": 64}
ROLLING = Attention(
    method="chunk_rolling", fields={"exact_tokens": "16", "block_tokens": "64", "lead_tokens": "16"}, **SMALL
)
SELECT = Attention(method="token_select", fields={"exact_tokens": "16", "block_tokens": "64"}, **SMALL)
TWILIGHT = Attention(method="twilight", fields={"exact_tokens": "16", "p": "0.6"}, **SMALL)
# Decode steps choose too; one of them does nothing else.
STEPS = [
    SELECT.model_copy(update={"decode_above": 600}),
    Attention(method="quest", fields={"page_tokens": "8", "dense_layers": "1"}, decode_above=600, **SMALL),
]
# Every prompt of these tests is longer than the budget, and nothing is left out of it.
EVERYTHING = Attention(method="dense", budget_tokens=640)
SERVING = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
LENGTHS = (1500, 40, 900, 2500, 1200, 513, 512, 3000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 whose heads are as wide as vLLM's kernel wants them."""
    folder = tmp_path_factory.mktemp("model")
    config = transformers.Qwen2Config(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,
        eos_token_id=0,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(1, 512, (length,), generator=draw).tolist() for length in LENGTHS]


def start(
    folder: Path,
    tmp_path: Path,
    prompts: list[list[int]],
    attention: str | None,
    *,
    together: bool,
    cuda: str | None = None,
    **more: Any,
) -> tuple["subprocess.CompletedProcess[str]", Path]:
    orders, result = tmp_path / "orders.json", tmp_path / "result.json"
    result.unlink(missing_ok=True)
    given = {"folder": str(folder), "prompts": prompts, "together": together, "more": more, "cuda": cuda}
    orders.write_text(json.dumps(given), encoding="utf-8")
    environment = {**os.environ, **SERVING, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    environment.pop(VARIABLE, None)
    if attention is not None:
        environment[VARIABLE] = attention
    command = [sys.executable, str(Path(__file__).with_name("host.py")), str(orders), str(result)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300), result


def ask(
    folder: Path,
    tmp_path: Path,
    prompts: list[list[int]],
    attention: Attention | None = None,
    *,
    together: bool = False,
    **more: Any,
) -> dict[str, Any]:
    if attention is not None:
        more["scheduler_cls"] = SCHEDULER
    text = None if attention is None else attention.model_dump_json()
    done, result = start(folder, tmp_path, prompts, text, together=together, **more)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(result.read_text(encoding="utf-8"))


def inside_transformers(
    folder: Path, prompt: list[int], attention: Attention, monkeypatch: pytest.MonkeyPatch, following: list[int]
) -> tuple[torch.Tensor, list[Any]]:
    """Log-probabilities after the prompt, cut as in vLLM, and every choice of rows, those of steps ``following``."""
    choices: list[Any] = []
    method, budget = attention.make()
    kind = type(method)
    model = transformers.Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with monkeypatch.context() as patched, torch.inference_mode():
        patched.setattr(kind, "select", telling(kind.select, choices))
        cache = Adapter(model, method, budget).new_cache(len(prompt))
        state = cache.sequences[0]
        state.exact_from = len(prompt) - method.exact_tokens
        logits = torch.empty(0)
        for begin in range(0, len(prompt), PART):
            piece = torch.tensor([prompt[begin : begin + PART]])
            state.last, state.phase = begin + PART >= len(prompt), "prefill"
            logits = model(input_ids=piece, past_key_values=cache, use_cache=True).logits
        state.phase = "decode"
        for token in following:
            model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
    return logits[0, -1].log_softmax(-1), choices


@pytest.mark.vllm_smoke
def test_a_budget_for_everything_gives_the_logits_of_vllm(folder, prompts, tmp_path) -> None:
    theirs = ask(folder, tmp_path, prompts)["answers"]
    ours = ask(folder, tmp_path, prompts, EVERYTHING)["answers"]
    for wanted, found in zip(theirs, ours, strict=True):
        assert found["tokens"] == wanted["tokens"]
        for token, value in wanted["first"].items():
            assert found["first"][token] == pytest.approx(value, abs=1e-4)


@pytest.mark.vllm_smoke
@pytest.mark.parametrize("cuda", CUDA_BACKENDS)
def test_the_backends_for_cuda_read_as_the_one_for_cpus(folder, prompts, tmp_path, cuda) -> None:
    for attention in (ROLLING, STEPS[0]):
        wanted = ask(folder, tmp_path, prompts, attention)
        found = ask(folder, tmp_path, prompts, attention, together=True, cuda=cuda)
        assert [each["tokens"] for each in found["answers"]] == [each["tokens"] for each in wanted["answers"]]
        assert sorted(found["choices"], key=str) == sorted(wanted["choices"], key=str)
        for mine, theirs in zip(found["answers"], wanted["answers"], strict=True):
            for token, value in theirs["first"].items():
                assert mine["first"][token] == pytest.approx(value, abs=1e-4)


@pytest.mark.vllm_smoke
@pytest.mark.parametrize("attention", [ROLLING, SELECT, TWILIGHT], ids=lambda each: each.method)
def test_the_same_rows_are_chosen_as_inside_transformers(folder, prompts, tmp_path, monkeypatch, attention) -> None:
    prompt = prompts[0]
    found = ask(folder, tmp_path, [prompt], attention)
    wanted, choices = inside_transformers(folder, prompt, attention, monkeypatch, [])
    assert any(rows for _, _, rows in choices), "something is chosen"
    # vLLM's decode steps choose nothing, so all that was written down belongs to the prompt.
    assert sorted(found["choices"], key=str) == sorted(choices, key=str)
    for token, value in found["answers"][0]["first"].items():
        assert value == pytest.approx(float(wanted[int(token)]), abs=1e-4)


@pytest.mark.parametrize("attention", STEPS, ids=lambda each: each.method)
def test_decode_steps_choose_the_same_rows_as_inside_transformers(
    folder, prompts, tmp_path, monkeypatch, attention
) -> None:
    prompt = prompts[0]
    found = ask(folder, tmp_path, [prompt], attention)
    tokens = found["answers"][0]["tokens"]
    _, choices = inside_transformers(folder, prompt, attention, monkeypatch, tokens[:-1])
    chosen = [each for each in found["choices"] if each[1] >= len(prompt) and each[2]]
    # Quest reads its first layer whole.
    layers = 3 if attention.method == "token_select" else 2
    assert len(chosen) == layers * (len(tokens) - 1)
    assert sorted(chosen, key=str) == sorted([each for each in choices if each[1] >= len(prompt) and each[2]], key=str)
    # Below its length nothing chooses.
    short = ask(folder, tmp_path, prompts[1:2], attention)
    assert short["choices"] == []


@pytest.mark.parametrize(
    "attention", [ROLLING, SELECT, *STEPS], ids=["chunk_rolling", "token_select", "steps", "quest"]
)
def test_eight_at_once_are_answered_as_one_by_one(folder, prompts, tmp_path, attention) -> None:
    alone = ask(folder, tmp_path, prompts, attention)["answers"]
    together = ask(folder, tmp_path, prompts, attention, together=True)["answers"]
    assert [each["tokens"] for each in together] == [each["tokens"] for each in alone]
    # Something was left out: otherwise the test could not fail.
    dense = ask(folder, tmp_path, prompts)["answers"]
    assert [each["tokens"] for each in dense] != [each["tokens"] for each in alone]


def test_heads_parted_over_two_processes_answer_as_one(folder, prompts, tmp_path) -> None:
    some = prompts[:3]
    whole = ask(folder, tmp_path, some, SELECT)["answers"]
    parted = ask(folder, tmp_path, some, SELECT, tensor_parallel_size=2)["answers"]
    for wanted, found in zip(whole, parted, strict=True):
        assert found["tokens"] == wanted["tokens"]
        for token, value in wanted["first"].items():
            assert found["first"][token] == pytest.approx(value, abs=1e-3)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_two_nodes_answer_as_one(folder, prompts, tmp_path) -> None:
    # Both on this machine: they find each other by an address and share nothing but the connection.
    port = free_port()
    command = [str(Path(sys.executable).with_name("vllm")), "serve", str(folder), "--skip-tokenizer-init"]
    command += ["--enable-scale-out", "--dtype", "float32", "--enforce-eager", "--max-model-len", "4096"]
    command += ["--scheduler-cls", SCHEDULER, "--max-num-seqs", "8", "--max-num-batched-tokens", str(PART + 8)]
    command += ["--no-enable-prefix-caching", "--tensor-parallel-size", "2", "--nnodes", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    environment = {**os.environ, **SERVING, VARIABLE: SELECT.model_dump_json()}
    some = prompts[:2]
    with ExitStack() as stack:
        for more in (["--node-rank", "1", "--headless"], ["--node-rank", "0", "--port", str(port)]):
            log = stack.enter_context((tmp_path / f"node{more[1]}.log").open("w"))
            node = subprocess.Popen(command + more, env=environment, stdout=log, stderr=log, start_new_session=True)
            stack.callback(node.wait)
            stack.callback(os.killpg, node.pid, signal.SIGKILL)
        found = [asked_over_http(f"http://127.0.0.1:{port}", prompt) for prompt in some]
    whole = ask(folder, tmp_path, some, SELECT)["answers"]
    assert found == [each["tokens"] for each in whole]


def asked_over_http(url: str, prompt: list[int]) -> list[int]:
    body = {"token_ids": prompt, "sampling_params": {"temperature": 0, "max_tokens": 8}}
    until = time.monotonic() + 300
    while True:
        try:
            answer = httpx.post(f"{url}/inference/v1/generate", json=body, timeout=300, trust_env=False)
        except httpx.ConnectError:
            assert time.monotonic() < until, "the server did not start"
            time.sleep(1)
        else:
            assert answer.status_code == 200, answer.text
            return answer.json()["choices"][0]["token_ids"]


@pytest.mark.parametrize(
    ("attention", "more", "told"),
    [
        ('{"method": "chunk_roling"}', {"scheduler_cls": SCHEDULER}, "did you mean 'chunk_rolling'"),
        ('{"method": "chunk_rolling"}', {}, f"--scheduler-cls {SCHEDULER}"),
        (
            '{"method": "chunk_rolling"}',
            {"scheduler_cls": SCHEDULER, "max_num_batched_tokens": 512},
            "--max-num-batched-tokens 520 or more",
        ),
        ('{"method": "chunk_rolling"}', {"scheduler_cls": SCHEDULER, "dtype": "bfloat16"}, "--dtype float32"),
    ],
    ids=["unknown method", "another scheduler", "no room", "another type"],
)
def test_what_cannot_be_stops_vllm_with_the_reason(folder, prompts, tmp_path, attention, more, told) -> None:
    done, result = start(folder, tmp_path, prompts[1:2], attention, together=False, **more)
    assert done.returncode != 0
    assert not result.exists()
    assert told in done.stderr + done.stdout


def test_ray_would_hand_the_method_on(monkeypatch) -> None:
    from vllm.ray.ray_env import get_env_vars_to_copy  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", "MINE")
    assert VARIABLE not in get_env_vars_to_copy()
    take_along()
    assert get_env_vars_to_copy() >= {VARIABLE, "MINE", "PYTHONHASHSEED"}


def test_methods_are_made_alike_in_both_hosts() -> None:
    assert ROLLING.make()[0] == make_method("chunk_rolling", ROLLING.fields)
