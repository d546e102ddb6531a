"""int8 linear layers: right for every shape, and used only where they should be."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepedu.base.errors import Unsupported

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.engine import quantise as module  # noqa: E402 - needs torch
from deepedu.engine.quantise import Int8Linear, quantise  # noqa: E402
from deepedu.engine.weights import load  # noqa: E402

# What this machine computes exactly: 127, or 63 without VNNI.
RANGE = 127 if module.exact(127) else 63


def linear(inputs: int = 96, outputs: int = 40, *, bias: bool = True) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)


def relative_error(got: Any, wanted: Any) -> float:
    return ((got - wanted).norm() / wanted.norm()).item()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.sampled_from([0, 1, 2, 7, 255, 256, 257, 600]),
    inputs=st.integers(2, 130),
    outputs=st.integers(1, 70),
    bias=st.booleans(),
    passes=st.sampled_from([1, 2]),
)
def test_any_shape_is_close_to_the_layer_it_stands_for(
    rows: int, inputs: int, outputs: int, bias: bool, passes: Any
) -> None:
    layer = linear(inputs, outputs, bias=bias)
    x = torch.randn(rows, inputs)
    got = Int8Linear(layer, passes=passes, weight_range=RANGE)(x)
    assert got.shape == (rows, outputs)
    assert got.dtype == torch.float32
    # Half a step of each weight and, with one pass, of each activation, over all inputs.
    loudest = x.abs().amax(dim=1, keepdim=True) if rows else x[:, :1]
    half_steps = 0.5 / RANGE + (0.5 / 127 if passes == 1 else 0.5 / 127 / 254)
    bound = 1.1 * inputs * half_steps * loudest * layer.weight.abs().amax(dim=1) + 1e-5
    assert bool(((got - layer(x)).abs() <= bound).all())


def test_a_loud_token_does_not_silence_the_others() -> None:
    layer = linear(bias=False)
    x = torch.randn(8, 96)
    alone = Int8Linear(layer, weight_range=RANGE)(x[1:])
    x[0] *= 1e4
    torch.testing.assert_close(Int8Linear(layer, weight_range=RANGE)(x)[1:], alone)


def test_the_second_pass_takes_away_the_rounding_of_loud_channels() -> None:
    layer = linear(512, 64, bias=False)
    x = torch.randn(16, 512)
    x[:, 3] *= 200
    rounded: Any = Int8Linear(layer, weight_range=RANGE)
    wanted = x @ (rounded.weight.float() * rounded.scale[:, None]).t()
    first, second = rounded(x), Int8Linear(layer, passes=2, weight_range=RANGE)(x)
    # Its steps are 254 times finer.
    assert relative_error(second, wanted) < relative_error(first, wanted) / 100


@pytest.mark.parametrize("passes", [1, 2])
def test_rows_of_zeros_and_layers_of_zeros(passes: Any) -> None:
    layer = linear()
    x = torch.randn(3, 96)
    x[1] = 0
    got = Int8Linear(layer, passes=passes, weight_range=RANGE)(x)
    torch.testing.assert_close(got[1], layer.bias)
    layer.weight[:] = 0
    torch.testing.assert_close(Int8Linear(layer, passes=passes)(x), layer.bias.expand(3, -1))


def test_batches_views_and_dtypes() -> None:
    layer = linear()
    small = Int8Linear(layer, weight_range=RANGE)
    x = torch.randn(2, 96, 5).transpose(1, 2)
    assert small(x).shape == (2, 5, 40)
    torch.testing.assert_close(small(x), small(x.contiguous()))
    torch.testing.assert_close(small(x[0, 0]), small(x)[0, 0])
    assert small(x.bfloat16()).dtype == torch.bfloat16


def test_a_broken_input_stays_visible() -> None:
    x = torch.randn(2, 96)
    x[0, 0] = float("nan")
    got = Int8Linear(linear(), weight_range=RANGE)(x)
    assert bool(got[0].isnan().all())
    assert not bool(got[1].isnan().any())


def test_a_model_says_nearly_the_same(plain: Any, tiny_folder: Path) -> None:
    small = load(tiny_folder, ("tiny",), device="cpu", weights="int8")
    assert (plain.weights, small.weights) == ("full", "int8")
    linears = [m for m in small.model.modules() if isinstance(m, torch.nn.Linear)]
    assert linears == []
    ids = torch.arange(60)[None] % 300
    with torch.inference_mode():
        got, wanted = small.model(ids).logits, plain.model(ids).logits
    assert 0 < relative_error(got, wanted) < 0.1


def test_shared_embeddings_stay_as_they_are() -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=True,
    )  # fmt: skip
    model: Any = Qwen2ForCausalLM(config).eval()
    before = model.get_input_embeddings().weight.clone()
    assert quantise(model, "int8") == "int8"
    assert isinstance(model.lm_head, Int8Linear)
    torch.testing.assert_close(model.get_input_embeddings().weight.detach(), before.detach())
    assert model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 100)


def test_auto_takes_int8_only_where_it_is_worthwhile(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, applied in ((True, "int8"), (False, "full")):
        monkeypatch.setattr(module, "worthwhile", lambda answer=answer: answer)
        assert load(tiny_folder, ("tiny",), device="cpu", weights="auto").weights == applied


def test_auto_refuses_a_product_that_saturates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "exact", lambda weight_range: weight_range < 127)
    assert not module.worthwhile()


def test_auto_needs_instructions_known_to_be_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "exact", lambda _: True)
    for found, wanted in (({"avx512_vnni": True}, True), ({"avx512_vnni": False}, False), ({}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found)
        assert module.worthwhile() is wanted


def test_a_processor_without_vnni_holds_seven_bits(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "exact", lambda weight_range: weight_range < 127)
    model = load(tiny_folder, ("tiny",), device="cpu", weights="int8").model
    assert max(int(m.weight.abs().max()) for m in model.modules() if isinstance(m, Int8Linear)) == 63
    assert "7 bits" in caplog.text


def test_a_wrong_product_is_never_used(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "exact", lambda _: False)
    with pytest.raises(Unsupported, match=r"engine\.weights='full'"):
        load(tiny_folder, ("tiny",), device="cpu", weights="int8")


def test_routers_and_layers_without_gain_stay_as_they_are() -> None:
    class Experts(torch.nn.Module):
        device, dtype = torch.device("cpu"), torch.float32

        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up_proj, self.score = linear(64, 32), linear(64, 32), linear(64, 1)

    experts: Any = Experts()
    assert quantise(experts, "int8") == "int8"
    kinds = [type(module) for module in (experts.gate, experts.up_proj, experts.score)]
    assert kinds == [torch.nn.Linear, Int8Linear, torch.nn.Linear]


def test_int8_is_for_the_cpu() -> None:
    class OnAccelerator:
        device = torch.device("cuda")

    assert quantise(OnAccelerator(), "auto") == "full"
    with pytest.raises(Unsupported, match=r"engine\.weights='full'"):
        quantise(OnAccelerator(), "int8")


def test_an_mlp_in_blocks_of_rows_gives_every_row_what_the_whole_gives_it(tiny_folder: Path) -> None:
    tiny = load(tiny_folder, ("tiny",), device="cpu")
    quantise(tiny.model, "int8")
    mlp = tiny.model.model.layers[0].mlp
    assert isinstance(mlp, module.RowBlocks)
    x = torch.randn(1, 2 * mlp.ROWS + 7, 64)
    with torch.inference_mode():
        torch.testing.assert_close(mlp(x), mlp.inner(x), rtol=0, atol=0)
