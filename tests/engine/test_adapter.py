"""A method inside transformers' decoders, held against transformers' own attention."""

import copy
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")
import transformers  # noqa: E402

from deepedu.attention.base import Budget, Method  # noqa: E402
from deepedu.attention.registry import make_method  # noqa: E402
from deepedu.base.errors import EngineError, Unsupported  # noqa: E402
from deepedu.engine.adapter import Adapter, KVCache, KVState  # noqa: E402

BASE: dict[str, Any] = {
    "vocab_size": 120,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
LENGTH, WINDOW = 150, 32
# Renamed in the course of transformers 5.
ARGUMENT = (
    "cache" if "cache" in inspect.signature(transformers.LlamaForCausalLM.forward).parameters else "past_key_values"
)
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
# Family, what its configuration has beside BASE.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_scaled_rope": (
        "Llama",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 128,
            }
        },
    ),
    "qwen2": ("Qwen2", {}),
    "qwen2_28_heads": (
        "Qwen2",
        {"hidden_size": 224, "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 8},
    ),
    "qwen2_sliding": ("Qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "layer_types": SLIDING}),
    "qwen3": ("Qwen3", {}),
    "mistral": ("Mistral", {"sliding_window": WINDOW}),
    "gemma3": ("Gemma3", {"sliding_window": WINDOW, "layer_types": SLIDING, "query_pre_attn_scalar": 16}),
}

# Some layers carry a state instead of rows; the first one does, and so does the last.
LINEAR: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_next": (
        "Qwen3Next",
        {
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "qwen3_5": ("Qwen3_5", {"pad_token_id": None}),
}
for _, fields in LINEAR.values():
    fields["layer_types"] = ["linear_attention", "full_attention", "linear_attention"]
    fields |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2}
    fields |= {"linear_num_value_heads": 4}


def build(family: str, **more: Any) -> Any:
    name, own = {**FAMILIES, **LINEAR}.get(family, (family, {}))
    config_name = {"Gemma3": "Gemma3TextConfig", "Qwen3_5": "Qwen3_5TextConfig"}.get(name, f"{name}Config")
    config = getattr(transformers, config_name)(**{**BASE, **own, **more})
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    model.set_attn_implementation("sdpa")
    return model


def random_ids(length: int = LENGTH, seed: int = 0) -> Any:
    return torch.randint(1, 120, (1, length), generator=torch.Generator().manual_seed(seed))


def under(model: Any, method: Method | None = None, budget: Budget | None = None, **more: Any) -> Adapter:
    """An adapter around a copy, so that the model itself stays transformers'."""
    return Adapter(copy.deepcopy(model), method or make_method("dense"), budget or Budget(), **more)


def feed(adapter: Adapter, ids: Any, cuts: Sequence[int], cache: KVCache | None = None) -> tuple[Any, KVCache]:
    """Logits of all positions, computed in pieces that end at ``cuts``."""
    cache = cache or adapter.new_cache(8)
    found = []
    with torch.inference_mode():
        for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
            found.append(adapter.model(input_ids=ids[:, start:stop], **{ARGUMENT: cache}, use_cache=True).logits)
    return torch.cat(found, dim=1), cache


def rotation(model: Any) -> Any:
    """The function with which the model's own code turns queries and keys."""
    return sys.modules[type(model).__module__].apply_rotary_pos_emb  # type: ignore[attr-defined]


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(family)


@pytest.fixture(scope="module")
def wanted(model: Any) -> Any:
    with torch.inference_mode():
        return model(input_ids=random_ids(), use_cache=False).logits


@pytest.mark.parametrize(
    "cuts", [[LENGTH], [64, 128, LENGTH], [1, 2, 33, 100, LENGTH], [LENGTH - 3, LENGTH - 2, LENGTH - 1, LENGTH]]
)
def test_logits_are_those_of_transformers(model: Any, wanted: Any, cuts: list[int]) -> None:
    found, _ = feed(under(model), random_ids(), cuts)
    close(found, wanted)


def test_generate_goes_through_the_cache(model: Any) -> None:
    adapter, ids = under(model), random_ids(40)
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    expected = model.generate(input_ids=ids, **options)
    cache = adapter.new_cache(16)
    assert adapter.model.generate(input_ids=ids, **{ARGUMENT: cache}, **options).tolist() == expected.tolist()
    # Mistral's layers all have a window of their own.
    assert (cache.tally.rows_read > 0) == (model.config.model_type != "mistral")
    assert cache.sequences[0].positions == ids.shape[1] + 11


def test_several_sequences_decode_as_each_alone(model: Any) -> None:
    adapter = under(model)
    prompts, tokens = [random_ids(length, seed=length) for length in (5, 70, 41)], random_ids(3, seed=9)[0]
    states: list[KVState] = []
    alone: list[Any] = []
    for prompt, token in zip(prompts, tokens, strict=True):
        logits, _ = feed(adapter, torch.cat([prompt, token.view(1, 1)], dim=1), [prompt.shape[1], prompt.shape[1] + 1])
        alone.append(logits[0, -1])
        states.append(feed(adapter, prompt, [prompt.shape[1]])[1].sequences[0])
    with torch.inference_mode():
        together = adapter.model(
            input_ids=tokens.view(3, 1),
            position_ids=torch.tensor([[state.positions] for state in states]),
            **{ARGUMENT: KVCache(states)},
        ).logits[:, -1]
    close(together, torch.stack(alone))
    assert [state.positions for state in states] == [6, 71, 42]


def test_unrope_is_the_inverse_of_the_models_rotation(model: Any, family: str) -> None:
    adapter = under(model)
    assert adapter._unrope is not None
    queries = torch.randn(1, 4, 7, model.config.head_dim)
    positions = torch.arange(300, 307)[None]
    more = {"layer_type": "full_attention"} if family == "gemma3" else {}
    cos, sin = model.get_decoder().rotary_emb(queries, positions, **more)
    turned, _ = rotation(model)(queries, queries, cos, sin)
    close(adapter._unrope(turned[0], torch.arange(300, 307)), queries[0])


@pytest.mark.parametrize("method", ["chunk_rolling", "token_select", "quest", "streaming_pages", "twilight"])
def test_with_a_full_budget_a_selective_method_is_dense(method: str) -> None:
    model, ids = build("qwen2"), random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    adapter = under(model, make_method(method, {"exact_tokens": "0"}), Budget(LENGTH + 1, sinks=4, local=LENGTH - 10))
    close(feed(adapter, ids, [64, 140, LENGTH - 1, LENGTH])[0], wanted)


def test_a_small_budget_is_not_dense() -> None:
    model, ids = build("qwen2"), random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    adapter = under(model, make_method("sink_window", {"exact_tokens": "0"}), Budget(20, sinks=4, local=16))
    found, cache = feed(adapter, ids, [LENGTH])
    close(found[:, :4], wanted[:, :4])
    assert float((found[:, -1] - wanted[:, -1]).abs().max()) > 0.01
    assert cache.tally.rows_read < 3 * LENGTH * LENGTH / 4


class Recording:
    """Keeps what the first full layer attends to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outputs: list[Any] = []
        original = KVState.attend

        def attend(state: KVState, layer: int, *arguments: Any) -> Any:
            out = original(state, layer, *arguments)
            if layer == 0:
                self.outputs.append(out)
            return out

        monkeypatch.setattr(KVState, "attend", attend)


@pytest.mark.parametrize("cuts", [[LENGTH], [100, LENGTH]])
def test_the_question_attends_densely(monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    model, ids = build("qwen2"), random_ids()
    recording = Recording(monkeypatch)
    small = Budget(20, sinks=4, local=16)
    outputs: list[Any] = []
    for method in ("dense", "sink_window"):
        adapter = under(model, make_method(method), small)
        state = adapter.new_sequence(LENGTH)
        state.exact_from = 130
        feed(adapter, ids, cuts, KVCache([state]))
        outputs.append(torch.cat(recording.outputs))
        recording.outputs.clear()
    # The first layer's keys and values are the same under both methods.
    close(outputs[1][130:], outputs[0][130:])
    assert float((outputs[1][100:130] - outputs[0][100:130]).abs().max()) > 0.01


def test_a_rest_of_one_prompt_token_is_still_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = build("qwen2"), random_ids()
    recording = Recording(monkeypatch)
    outputs: list[Any] = []
    for method in ("dense", "sink_window"):
        adapter = under(model, make_method(method), Budget(20, sinks=4, local=16))
        state = adapter.new_sequence(LENGTH)
        state.exact_from, state.phase = LENGTH - 5, "prefill"
        feed(adapter, ids, [LENGTH - 1, LENGTH], KVCache([state]))
        outputs.append(torch.cat(recording.outputs))
        recording.outputs.clear()
    close(outputs[1][-1], outputs[0][-1])


def test_layers_with_a_window_of_their_own_are_left_alone() -> None:
    model, ids = build("qwen2_sliding"), random_ids()
    adapter = under(model, make_method("token_select", {"exact_tokens": "0"}), Budget(40, sinks=4, local=16))
    _, cache = feed(adapter, ids, [LENGTH])
    # One of three layers reads the whole past.
    assert set(cache.sequences[0].states) == {1}


@pytest.mark.parametrize("family", LINEAR)
@pytest.mark.parametrize("cuts", [[LENGTH], [64, 128, LENGTH], [LENGTH - 2, LENGTH - 1, LENGTH]])
def test_layers_with_linear_attention_keep_their_own_state(family: str, cuts: list[int]) -> None:
    model, ids = build(family), random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    # The one layer with rows chooses among them: a budget for everything is dense.
    budget = Budget(LENGTH + 1, sinks=4, local=LENGTH - 10)
    adapter = under(model, make_method("chunk_rolling", {"exact_tokens": "0"}), budget)
    found, cache = feed(adapter, ids, cuts)
    close(found, wanted)
    state = cache.sequences[0]
    assert (state.positions, state.layers[0].length, state.layers[1].length) == (LENGTH, 0, LENGTH)
    assert cache.tally.rows_read > 0
    assert adapter.shape.row_bytes("model") == 2 * 2 * 16 * 4


@pytest.mark.parametrize("family", LINEAR)
def test_generate_with_linear_attention(family: str) -> None:
    model, ids = build(family), random_ids(40)
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    expected = model.generate(input_ids=ids, **options)
    adapter = under(model)
    assert (
        adapter.model.generate(input_ids=ids, **{ARGUMENT: adapter.new_cache()}, **options).tolist()
        == expected.tolist()
    )


def test_what_a_state_cannot_do_is_refused() -> None:
    adapter = under(build("qwen3_next"))
    with pytest.raises(Unsupported, match="one at a time"):
        KVCache([adapter.new_sequence(8), adapter.new_sequence(8)])
    with pytest.raises(Unsupported, match="from its first token"):
        adapter.new_sequence(8, adapter.new_blocks(8), 4)
    with pytest.raises(Unsupported, match="no layer that keeps rows"):
        under(build("qwen3_next", layer_types=["linear_attention"] * 3))


def test_int8_rows_change_the_logits_little() -> None:
    model, ids = build("qwen2", initializer_range=0.1), random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    found, _ = feed(under(model, rows_dtype="int8"), ids, [64, LENGTH])
    error = float((found - wanted).norm() / wanted.norm())
    assert 0 < error < 0.02


def test_eviction_leaves_the_budget_and_positions_go_on() -> None:
    model, ids = build("qwen2"), random_ids()
    adapter = under(model, make_method("expected_attention"), Budget(64, sinks=4, local=16))
    state = adapter.new_sequence(LENGTH + 4)
    cache = KVCache([state])
    feed(adapter, ids, [LENGTH], cache)
    assert {rows.length for rows in state.layers} == {64}
    assert state.positions == LENGTH
    with torch.inference_mode():
        logits = adapter.model(input_ids=ids[:, :1], **{ARGUMENT: cache}).logits
    assert state.positions == LENGTH + 1
    assert {rows.length for rows in state.layers} == {65}
    assert bool(torch.isfinite(logits).all())


def test_eviction_with_a_budget_for_everything_is_dense() -> None:
    model, ids = build("qwen2"), random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    adapter = under(model, make_method("expected_attention"), Budget(LENGTH + 9, sinks=4, local=16))
    close(feed(adapter, ids, [100, LENGTH - 1, LENGTH])[0], wanted)


def test_partial_rotation_is_undone() -> None:
    model = build("StableLm", partial_rotary_factor=0.5, head_dim=16)
    adapter = under(model)
    assert adapter._unrope is not None
    queries = torch.randn(1, 4, 7, 16)
    cos, sin = model.model.rotary_emb(queries, torch.arange(300, 307)[None])
    assert cos.shape[-1] == 8
    turned = rotation(model)(queries[..., :8], queries[..., :8], cos, sin)[0]
    close(adapter._unrope(torch.cat([turned, queries[..., 8:]], dim=-1)[0], torch.arange(300, 307)), queries[0])
    ids = random_ids()
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    close(feed(adapter, ids, [64, LENGTH])[0], wanted)


def test_padding_is_refused_and_a_mask_of_ones_is_not() -> None:
    adapter = under(build("llama"))
    ids = random_ids(8).repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    with torch.inference_mode():
        cache = KVCache([adapter.new_sequence(8), adapter.new_sequence(8)])
        adapter.model(input_ids=ids, attention_mask=torch.ones_like(ids), **{ARGUMENT: cache})
        cache = KVCache([adapter.new_sequence(8), adapter.new_sequence(8)])
        with pytest.raises(Unsupported, match="padded"):
            adapter.model(input_ids=ids, attention_mask=mask, **{ARGUMENT: cache})


def test_a_cache_of_another_kind_or_size_is_refused() -> None:
    adapter = under(build("llama"))
    with torch.inference_mode():
        with pytest.raises(EngineError, match="adapter"):
            adapter.model(input_ids=random_ids(8))
        with pytest.raises(EngineError, match="1 sequences, came a batch of 2"):
            adapter.model(input_ids=random_ids(8).repeat(2, 1), **{ARGUMENT: adapter.new_cache()})


@pytest.mark.parametrize(
    ("family", "more", "words"),
    [
        ("GPT2LMHead", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 120}, "no rotary position"),
        ("Gemma2", {"attn_logit_softcapping": 50.0}, "caps its attention scores"),
        ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"]}, "conv"),
    ],
)
def test_what_a_method_cannot_do_is_refused_at_once(family: str, more: dict[str, Any], words: str) -> None:
    base = {} if family == "GPT2LMHead" else BASE
    torch.manual_seed(1)
    config = getattr(transformers, f"{family.removesuffix('LMHead')}Config")(**{**base, **more})
    kind = f"{family}Model" if family == "GPT2LMHead" else f"{family}ForCausalLM"
    model = getattr(transformers, kind)(config)
    with pytest.raises(Unsupported, match=words) as caught:
        Adapter(model, make_method("dense"), Budget())
    assert "Llama, Qwen, Mistral or Gemma 3" in str(caught.value)
