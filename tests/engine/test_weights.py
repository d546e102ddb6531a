"""Sources and what becomes of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from deepedu.base.errors import ConfigError, ModelDamaged, ModelError, ModelNotAvailable, Unsupported
from deepedu.engine.weights import load, resolve, served_names

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")


def test_a_folder_is_taken_as_it_is(tiny_folder: Path, tmp_path: Path) -> None:
    assert resolve(str(tiny_folder), tmp_path) == tiny_folder


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("demo", ("demo", "qwen2.5-coder-0.5b-instruct-q4_k_m")),
        ("owner/name", ("owner/name",)),
        ("/srv/models/my.gguf", ("my",)),
        ("/srv/models/my-model", ("my-model",)),
    ],
)
def test_served_names_tell_nothing_of_folders(source: str, names: tuple[str, ...]) -> None:
    assert served_names(source) == names


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("./nowhere", ModelNotAvailable, "existing folder"),
        ("/nowhere/x.gguf", ModelNotAvailable, "existing folder"),
        ("not a model!", ModelNotAvailable, "neither a folder"),
        ("owner/never-fetched", ModelNotAvailable, "deepedu engine fetch owner/never-fetched"),
    ],
)
def test_what_is_not_there_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, error: type, words: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(error, match=words):
        resolve(source, tmp_path)


def test_folders_that_are_no_model(tmp_path: Path, tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        resolve(str(tmp_path), tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelDamaged, match=r"lacks model\.safetensors"):
        resolve(str(copy), tmp_path)
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelDamaged, match="00001-of-00002"):
        resolve(str(copy), tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("x")
    with pytest.raises(ModelError, match=r"folder or a \.gguf file"):
        resolve(str(text), tmp_path)


def test_truncated_weights_are_damaged(tmp_path: Path, tiny_folder: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelDamaged, match="cannot be read"):
        load(copy, ("copy",), device="cpu")


def test_other_kinds_of_model_are_unsupported(tmp_path: Path, tiny_folder: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    (copy / "config.json").write_text(json.dumps({"model_type": "clip"}))
    with pytest.raises(Unsupported):
        load(copy, ("copy",), device="cpu")


def test_loading_sets_window_dtype_and_end(tiny: Any, tiny_folder: Path) -> None:
    assert (tiny.window_tokens, tiny.dtype, tiny.device.type) == (512, torch.float32, "cpu")
    assert tiny.end_ids == {tiny.tokenizer.eos_token_id}
    assert load(tiny_folder, ("t",), device="cpu", max_window_tokens=100).window_tokens == 100
    assert load(tiny_folder, ("t",), device="cpu", max_window_tokens=9999).window_tokens == 512
    assert load(tiny_folder, ("t",), device="cpu", dtype="bfloat16").dtype == torch.bfloat16


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_demanded_where_there_is_none(tiny_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.device"):
        load(tiny_folder, ("t",), device="cuda")
