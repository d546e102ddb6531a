"""The benches of the engine, end to end on a tiny random model: every figure they promise is there and is a number."""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deepedu.base.config import EngineSettings, Settings
from deepedu.base.errors import ConfigError, EngineError, UnknownMethod
from deepedu.bench import peers
from deepedu.bench.method_specs import MethodSpec, length_label, method_specs, read_lengths
from deepedu.bench.peer import Peer, Streamed
from deepedu.bench.run import BenchContext

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.bench.tasks import decode, selection, ttft  # noqa: E402


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """One token for each byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(["<end>", *alphabet])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    backend.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")


@pytest.fixture
def context(tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from deepedu.engine.weights import LoadedModel

    def load(*_: Any) -> LoadedModel:
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=300,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=8192,
            eos_token_id=0,
        )
        model = Qwen2ForCausalLM(config).eval()
        return LoadedModel(
            model, tokenizer, ("tiny",), 8192, torch.device("cpu"), torch.float32, frozenset({0}), "cache"
        )

    for module in (ttft, decode, selection):
        monkeypatch.setattr(module, "load_model", load)
    folder = tmp_path / "data" / "viwiki_school"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("Tế bào là đơn vị cơ bản của sự sống. " * 300, encoding="utf-8")
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path / "data"))
    settings = Settings(engine=EngineSettings(model="tiny", cache_dir=tmp_path))

    def make(**options: str) -> BenchContext:
        return BenchContext(settings, tmp_path, options=options, console=Console(file=io.StringIO()))

    return make


def test_time_to_first_token(context: Any) -> None:
    result = ttft.run(
        context(
            lengths="3k,4k", rounds="1", methods="chunk_rolling_k_256@chunk_rolling:k=256:tau=-1,token_select:k=256"
        )
    )
    for name in (
        "ttft_ratio_to_dense_4k",
        "ttft_over_floor_4k",
        "ttft_ratio_to_dense_3k",
        "warm_memory_ttft_ratio_4k",
        "warm_disk_ttft_ratio_4k",
        "ttft_growth_3k_to_4k",
        "measured_attention_ratio_to_token_select_k_256_4k",
        "attention_ratio_to_token_select_k_256_4k",
        "peak_memory_gb",
    ):
        assert math.isfinite(result.figures[name]), name
    # One pass for each chunk and layer against one for each block beyond the budget: 4096 = 8 blocks, k = 256.
    calls = result.details["runs"]["token_select_k_256"]["4k"][0]["retrieval_calls"]
    ours = result.details["runs"]["chunk_rolling_k_256"]["4k"][0]["retrieval_calls"]
    assert (ours, calls) == (2, 2 * 7)
    assert result.figures["retrieval_calls_ratio_to_token_select_k_256_4k"] == 7
    warm = result.figures["warm_disk_ttft_s_4k"]
    assert warm < 2 * result.figures["ttft_s_chunk_rolling_k_256_4k"]
    assert result.figures["prefix_file_mb_4k"] == pytest.approx(4096 * 2 * 2 * 2 * 8 * 4 / 2**20, rel=0.05)


def test_time_per_token(context: Any) -> None:
    result = decode.run(
        context(lengths="256,2k", rounds="1", tokens="2", methods="chunk_rolling:k=64,dense", batch="2")
    )
    assert result.figures["decode_ratio_2k_to_256"] > 0
    assert result.figures["ms_per_token_dense_full_2k"] > 0


def test_peers_stand_beside_ours_and_one_that_fails_costs_nothing(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Good(Peer):
        def complete(self, ids: Any, tokens: int, **_: Any) -> Streamed:
            return Streamed(2.0, 0.5, tokens, len(ids))

    class Bad(Peer):
        def complete(self, *_: Any, **__: Any) -> Streamed:
            raise EngineError("out of memory")

    @contextmanager
    def running(*_: Any, **__: Any) -> Iterator[list[Peer]]:
        yield [Good("llamacpp", "xllamacpp 1", "http://nowhere"), Bad("vllm", "vllm 1", "http://nowhere")]

    monkeypatch.setattr(peers, "running", running)
    first = ttft.run(context(lengths="512", rounds="2", methods="dense", warm="no"))
    assert first.figures["ttft_s_llamacpp_512"] == 2.0
    assert first.figures["ttft_ratio_to_llamacpp_512"] == first.figures["ttft_s_dense_512"] / 2.0
    assert len(first.details["runs"]["llamacpp"]["512"]) == 2
    tokens = decode.run(context(lengths="256,512", rounds="1", tokens="2", methods="dense"))
    ours = tokens.figures["ms_per_token_dense_full_256"]
    assert tokens.figures["decode_tokens_per_s_ratio_to_llamacpp"] == pytest.approx(500 / ours)
    assert "decode_tokens_per_s_ratio_to_llamacpp_512" in tokens.figures
    for result in (first, tokens):
        assert result.details["skipped"] == {"vllm": "out of memory"}
        assert not any("vllm" in name for name in result.figures)


def test_what_a_choice_loses(context: Any) -> None:
    exact = "exact@chunk_rolling:max_lost_mass=0"
    options = {"lengths": "6k", "k": "64,512", "stride": "8", "methods": f"token_select,sink_window,{exact}"}
    result = selection.run(context(**options))
    figures = result.figures
    assert len(result.details["per_layer"]["token_select_64_6k"]["output_error"]) == 2
    for name in ("output_error", "mass_read", "top_recall"):
        for method in ("token_select", "sink_window", "oracle"):
            assert 0 <= figures[f"{name}_{method}_64_6k"] <= 1
    assert figures["top_recall_oracle_64_6k"] == 1
    assert figures["mass_read_oracle_64_6k"] >= figures["mass_read_token_select_64_6k"]
    assert figures["mass_read_oracle_512_6k"] > figures["mass_read_oracle_64_6k"]
    assert figures["rows_read_sink_window_64_6k"] == 128 + 64 + 512
    assert figures["rows_read_token_select_64_6k"] == 128 + 64 + 512
    # Heads that may lose nothing read everything.
    assert figures["output_error_exact_64_6k"] < 1e-4
    assert figures["mass_read_exact_64_6k"] == pytest.approx(1)
    assert figures["rows_read_exact_64_6k"] > 3000


def test_the_published_variant_has_a_name_and_a_wrong_one_is_told_first(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"lengths": "6k", "k": "64", "oracle": "no"}
    figures = selection.run(context(**options, methods="published, token_select")).figures
    assert {"output_error_published_64_6k", "output_error_token_select_64_6k"} <= set(figures)

    def load(_: Any) -> Any:
        raise AssertionError("the model is not needed to see that")

    monkeypatch.setattr(selection, "load_model", load)
    with pytest.raises(UnknownMethod, match="did you mean 'token_select'"):
        selection.run(context(**options, methods="tokenselect"))


def test_a_text_that_fits_the_budget_measures_nothing(context: Any) -> None:
    with pytest.raises(ConfigError, match="beyond the budget"):
        selection.run(context(lengths="1k", k="1024"))


def test_specs() -> None:
    assert [spec.figure for spec in method_specs("dense,dense,mine@chunk_rolling:k=64:tau=0.5")] == ["dense", "mine"]
    assert MethodSpec("chunk_rolling:k=64").figure == "chunk_rolling_k_64"
    method, budget = MethodSpec("mine@chunk_rolling:k=64:tau=0.5").make(EngineSettings())
    assert (method.tau, budget.tokens) == (0.5, 128 + 512 + 64)  # type: ignore[attr-defined]
    assert MethodSpec("dense").make(EngineSettings(), 32)[1].selected == 32
    with pytest.raises(ConfigError, match="name:field=value"):
        MethodSpec("dense:k").make(EngineSettings())
    with pytest.raises(UnknownMethod):
        MethodSpec("dens").make(EngineSettings())


def test_lengths() -> None:
    assert read_lengths("4k,500") == (4096, 500)
    assert [length_label(each) for each in (16384, 500)] == ["16k", "500"]
    with pytest.raises(ConfigError, match="4k,16k"):
        read_lengths("long")
