"""Conversion of a small GGUF file written here."""

import copy
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from deepedu.base.errors import ModelDamaged
from deepedu.engine import gguf
from deepedu.engine.demo_models import file_sha256
from deepedu.engine.progress import Progress, Stopped
from deepedu.engine.weights import load, resolve

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")
writer_module = pytest.importorskip("gguf", reason="needs the extra 'engine'")

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    plain = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    plain["lm_head.weight"] = "output.weight"
    if name in plain:
        return plain[name]
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[module]}.{kind}"


@pytest.fixture(scope="session")
def tiny_gguf(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    config, tokenizer = tiny.model.config, tiny.tokenizer
    writer = writer_module.GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    for name, tensor in tiny.model.state_dict().items():
        writer.add_tensor(gguf_name(name), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_converted_model_computes_what_the_original_does(plain: Any, tiny_gguf: Path, tmp_path: Path) -> None:
    events: list[Progress] = []
    folder = resolve(str(tiny_gguf), tmp_path, events.append)
    assert folder.parent == tmp_path / "converted"
    assert {event.stage for event in events} == {"convert"}
    converted = load(folder, ("tiny",), device="cpu")
    ids = plain.tokenizer.backend_tokenizer.encode("Thủ đô của Việt Nam").ids
    assert converted.tokenizer.backend_tokenizer.encode("Thủ đô của Việt Nam").ids == ids
    assert converted.end_ids == plain.end_ids
    assert converted.tokenizer.chat_template == plain.tokenizer.chat_template
    with torch.inference_mode():
        ours = converted.model(input_ids=torch.tensor([ids])).logits
        rounded = copy.deepcopy(plain.model)
        for parameter in rounded.parameters():
            parameter.copy_(parameter.half().float())
        theirs = rounded(input_ids=torch.tensor([ids])).logits
    # Stored as float16: the same as the original rounded so.
    torch.testing.assert_close(ours, theirs)


def test_the_second_time_nothing_is_converted(tiny_gguf: Path, tmp_path: Path) -> None:
    folder = resolve(str(tiny_gguf), tmp_path)
    events: list[Progress] = []
    assert resolve(str(tiny_gguf), tmp_path, events.append) == folder
    assert events == []


def test_two_at_once_convert_once(tiny_gguf: Path, tmp_path: Path) -> None:
    written: list[Progress] = []
    results: list[Path] = []
    digest = file_sha256(tiny_gguf)

    def sink(event: Progress) -> None:
        if event.detail == "writing":
            written.append(event)

    def work() -> None:
        results.append(gguf.convert(tiny_gguf, digest, tmp_path, progress=sink))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(results)) == 1
    assert len(results) == 2
    assert len(written) == 1


def test_an_interrupted_conversion_leaves_nothing_and_can_be_repeated(tiny_gguf: Path, tmp_path: Path) -> None:
    def stop(event: Progress) -> None:
        if event.detail == "writing":
            raise Stopped

    with pytest.raises(Stopped):
        resolve(str(tiny_gguf), tmp_path, stop)
    assert [path.name for path in (tmp_path / "converted").iterdir() if path.is_dir()] == []
    assert resolve(str(tiny_gguf), tmp_path).is_dir()


@pytest.mark.parametrize("kept", [0, 3, 40, 3000, -5000])
def test_a_truncated_file_is_damaged(tiny_gguf: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny_gguf.read_bytes()[:kept])
    with pytest.raises(ModelDamaged, match="fetch it again"):
        resolve(str(path), tmp_path)


def test_another_file_named_gguf_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<html>Not found</html>")
    with pytest.raises(ModelDamaged, match="begins with"):
        resolve(str(path), tmp_path)
