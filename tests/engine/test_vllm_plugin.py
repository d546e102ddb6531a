"""What vLLM is told, checked before vLLM is there."""

import importlib.metadata
import os
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.attention.base import Budget
from deepedu.attention.registry import make_method
from deepedu.base.errors import BudgetError, ConfigError, UnknownMethod, Unsupported
from deepedu.engine.vllm_plugin import (
    CUDA_BACKENDS,
    MODEL_RUNNER,
    VARIABLE,
    Attention,
    attention_of,
    check_cuda_backend,
    check_version,
    choose_model_runner,
    part_tokens,
    register,
    salt,
    take_along,
)


def test_nothing_is_asked_for() -> None:
    assert attention_of({}) is None
    assert attention_of({VARIABLE: "  "}) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"method": "chunk_rolling", "budget_tokens": 2048, "fields": {"tau": 0.9, "probes": 8}}',
        'method = "chunk_rolling"\nbudget_tokens = 2048\n[fields]\ntau = 0.9\nprobes = "8"\n',
    ],
    ids=["JSON", "TOML"],
)
def test_a_method_with_fields(text: str) -> None:
    attention = attention_of({VARIABLE: text})
    assert attention is not None
    assert attention.make() == (make_method("chunk_rolling", {"tau": "0.9", "probes": "8"}), Budget(2048))
    assert attention_of({VARIABLE: attention.model_dump_json()}) == attention


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "expected JSON or TOML"),
        ("chunk_rolling", "expected JSON or TOML"),
        ("{}", "method: Field required"),
        ('{"method": "quest", "budget": 5}', "known are method, budget_tokens, sinks, local, fields, decode_above"),
        ('{"method": "quest", "budget_tokens": "many"}', "budget_tokens: "),
        ('{"method": "quest", "fields": "tau=1"}', "fields: "),
        ('{"method": "quest", "decode_above": -1}', "decode_above: "),
    ],
)
def test_what_cannot_be_read(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=VARIABLE) as caught:
        attention_of({VARIABLE: text})
    assert told in str(caught.value)


def test_what_cannot_be_made() -> None:
    with pytest.raises(UnknownMethod, match="did you mean 'quest'"):
        Attention(method="qest").make()
    with pytest.raises(ConfigError, match="has no field 'taw'; did you mean 'tau'"):
        Attention(method="chunk_rolling", fields={"taw": "1"}).make()
    with pytest.raises(BudgetError, match="give at least 640"):
        Attention(method="twilight", budget_tokens=100).make()
    with pytest.raises(Unsupported, match=r"drops rows.*take chunk_rolling"):
        Attention(method="expected_attention").make()
    with pytest.raises(Unsupported, match=r"decode only: say above how many tokens with decode_above"):
        Attention(method="quest").make()
    for name in ("dense", "flex_prefill"):
        with pytest.raises(Unsupported, match=r"does not choose rows in decode.*take quest"):
            Attention(method=name, decode_above=4096).make()


def test_decode_steps_choose_above_a_length_alone() -> None:
    attention = Attention(method="quest", budget_tokens=1664, decode_above=4096)
    attention.make()
    assert [attention.selects_in_decode(length) for length in (100, 4096, 4097)] == [False, False, True]
    # A budget that holds everything leaves nothing to choose.
    assert not Attention(method="quest", budget_tokens=8192, decode_above=4096).selects_in_decode(8192)
    assert not Attention(method="token_select").selects_in_decode(10**6)
    assert attention.digest != Attention(method="quest", budget_tokens=1664, decode_above=8192).digest


def test_a_mistake_stops_the_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "{")
    with pytest.raises(ConfigError):
        register()
    monkeypatch.delenv(VARIABLE)
    register()


@pytest.mark.parametrize(
    ("platform", "wanted"),
    [
        ("cpu", {"CPU_ATTN": "vllm_cpu.CpuBackend"}),
        ("cuda", {"FLASH_ATTN": "vllm_cuda.FlashBackend", "TRITON_ATTN": "vllm_cuda.TritonBackend"}),
    ],
)
def test_ours_stand_in_the_places_of_the_platforms_backends(
    monkeypatch: pytest.MonkeyPatch, platform: str, wanted: dict[str, str]
) -> None:
    found = registered_on(platform, monkeypatch)
    assert found == {name: f"deepedu.engine.{path}" for name, path in wanted.items()}
    assert os.environ.get(MODEL_RUNNER) == ("0" if platform == "cuda" else None)


def test_other_platforms_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unsupported, match="on CPUs and on CUDA"):
        registered_on("rocm", monkeypatch)


def registered_on(platform: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the plug-in registers in a vLLM that is none."""
    for name in ("PYTHONHASHSEED", f"{VARIABLE}_SALTED", MODEL_RUNNER, "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"):
        # Set first, so that what is set meanwhile is gone afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, '{"method": "token_select"}')
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.32.0")
    found: dict[str, str] = {}
    here = SimpleNamespace(is_cpu=lambda: platform == "cpu", is_cuda=lambda: platform == "cuda")
    names = {name: name for name in ("CPU_ATTN", *CUDA_BACKENDS)}
    enum = type("AttentionBackendEnum", (), {"__class_getitem__": names.__getitem__, "CPU_ATTN": "CPU_ATTN"})
    modules = {
        "vllm": SimpleNamespace(),
        "vllm.platforms": SimpleNamespace(current_platform=here),
        "vllm.v1.attention.backends.registry": SimpleNamespace(
            AttentionBackendEnum=enum, register_backend=found.__setitem__
        ),
    }
    for name in ("vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        modules[name] = SimpleNamespace()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    register()
    return found


@pytest.mark.parametrize("version", ["0.32.0", "0.32.4+cpu", "0.32.1rc2"])
def test_versions_that_were_tried(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0", "1.0.0", "0.9", "dev"])
def test_other_versions_are_refused_with_the_range(version: str) -> None:
    with pytest.raises(Unsupported, match=r"from 0\.32 up to, not including, 0\.33"):
        check_version(version)


def test_the_prefix_cache_is_salted_by_method_and_fields() -> None:
    def seed(attention: Attention, before: dict[str, str] | None = None) -> str:
        environment = dict(before or {})
        salt(attention, environment)
        once = dict(environment)
        salt(attention, environment)
        assert environment == once, "processes that inherit it leave it as it is"
        assert 0 <= int(environment["PYTHONHASHSEED"]) < 2**32, "Python itself reads it"
        return environment["PYTHONHASHSEED"]

    plain = Attention(method="chunk_rolling")
    assert seed(plain) == seed(Attention(method="chunk_rolling", fields={"tau": "0.95"})), "the same, spelt out"
    others = [
        Attention(method="token_select"),
        Attention(method="chunk_rolling", fields={"tau": "0.9"}),
        Attention(method="chunk_rolling", budget_tokens=2048),
    ]
    seeds = [seed(each) for each in (plain, *others)]
    assert len(set(seeds)) == 4
    assert seed(plain, {"PYTHONHASHSEED": "7"}) not in (*seeds, "7"), "a school's own seed counts as well"


def test_vllm_takes_the_model_runner_that_tells_where_prompts_end() -> None:
    environment: dict[str, str] = {}
    choose_model_runner(environment)
    choose_model_runner(environment)
    assert environment == {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    with pytest.raises(ConfigError, match="set VLLM_USE_V2_MODEL_RUNNER=0 or unset it, came '1'"):
        choose_model_runner({"VLLM_USE_V2_MODEL_RUNNER": "1"})


def test_ray_takes_the_method_to_other_machines() -> None:
    environment = {"VLLM_RAY_EXTRA_ENV_VARS_TO_COPY": "MINE, OTHER"}
    for _ in range(2):
        take_along(environment)
        assert environment["VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"].split(",")[:3] == ["MINE", "OTHER", VARIABLE]
    assert environment["VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"].count(f"{VARIABLE},") == 1


@pytest.mark.parametrize("name", [None, "FLASHINFER"])
def test_a_backend_that_is_not_ours_is_refused(name: str | None) -> None:
    for ours in CUDA_BACKENDS:
        check_cuda_backend(ours)
    with pytest.raises(ConfigError, match=f"--attention-backend FLASH_ATTN or TRITON_ATTN.*came {name or 'none'}"):
        check_cuda_backend(name)


def test_parts_leave_room_for_everybody_else() -> None:
    assert part_tokens(2048 + 16, 16) == 2048
    assert part_tokens(2048, 16) == 1536
    with pytest.raises(ConfigError, match="--max-num-batched-tokens 528 or more"):
        part_tokens(512, 16)
