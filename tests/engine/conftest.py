"""A tiny random model with a real tokenizer, and servers around it."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

SENTENCES = (
    "Năm 938, Ngô Quyền đánh tan quân Nam Hán trên sông Bạch Đằng.",
    "Thủ đô của nước Cộng hòa xã hội chủ nghĩa Việt Nam là Hà Nội.",
    "Nước sôi ở nhiệt độ một trăm độ C và đóng băng ở không độ.",
    "Phương trình bậc hai có dạng ax² + bx + c = 0 với a khác 0.",
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WINDOW_TOKENS = 512


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny matrices: threads that wait for each other on a busy machine cost a hundred times what they save."""
    try:
        import torch
    except ModuleNotFoundError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder: two layers of random weights, byte-level vocabulary, chat template."""
    torch = pytest.importorskip("torch", reason="needs the extra 'engine'")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    end, padding = (fast.get_vocab()[token] for token in ("<|im_end|>", "<|endoftext|>"))
    fast.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW_TOKENS,
        # Wide, so that the likeliest token is far ahead and rounding cannot change the choice.
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=padding,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Any:
    """The tiny model in memory, as the engine loads it."""
    from deepedu.engine.weights import load

    return load(tiny_folder, ("tiny",), device="cpu")


@pytest.fixture(scope="session")
def plain(tiny_folder: Path) -> Any:
    """The same model under transformers' own attention: an adapter changes the one it is given for good."""
    from deepedu.engine.weights import load

    return load(tiny_folder, ("tiny",), device="cpu")


@pytest.fixture(scope="session")
def linear_model(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model whose first layer has linear attention, as the engine loads it."""
    import torch
    import transformers

    from deepedu.engine.weights import load

    config = transformers.Qwen3_5TextConfig(
        vocab_size=len(tiny.tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        layer_types=["linear_attention", "full_attention"],
        max_position_embeddings=512,
        initializer_range=0.5,
    )
    folder = tmp_path_factory.mktemp("linear") / "linear"
    torch.manual_seed(0)
    transformers.Qwen3_5ForCausalLM(config).save_pretrained(folder)
    tiny.tokenizer.save_pretrained(folder)
    return load(folder, ("linear",), device="cpu")


@pytest.fixture
def make_runner(tiny: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``make_runner(method="dense", ...)``: the tiny model under a method, with a cache in ``tmp_path/prefix``."""
    from deepedu.attention.base import Budget
    from deepedu.attention.registry import make_method
    from deepedu.engine.runner import Runner, open_cache

    caches: list[Any] = []

    def make(
        method: str = "dense",
        fields: dict[str, str] | None = None,
        budget: Any = None,
        *,
        loaded: Any = None,
        memory_gb: float = 0.1,
        disk_gb: float = 1.0,
        rows_dtype: Any = "model",
    ) -> Any:
        chosen, limits, model = make_method(method, fields), budget or Budget(), loaded or tiny
        runner = Runner(model, chosen, limits, rows_dtype=rows_dtype)
        runner.cache = open_cache(
            model,
            chosen,
            limits,
            memory_gb=memory_gb,
            folder=tmp_path / "prefix",
            disk_gb=disk_gb,
            rows_dtype=rows_dtype,
        )
        caches.append(runner.cache)
        return runner

    yield make
    for cache in caches:
        cache.close()


@contextmanager
def running(engine: Any) -> Iterator[str]:
    """Serves an engine from a thread; yields the address."""
    import uvicorn

    from deepedu.engine.process import _listen
    from deepedu.engine.serve import create_app

    listener = _listen("127.0.0.1", 0)
    config = uvicorn.Config(create_app(engine), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        engine.close()
        listener.close()


@pytest.fixture(scope="session")
def serving() -> Callable[[Any], AbstractContextManager[str]]:
    """``with serving(engine) as url``."""
    return running


def wait_until(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    """Fails when the condition does not come true in time."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.03)


@pytest.fixture
def eventually() -> Callable[..., None]:
    """``eventually(condition)`` waits for it."""
    return wait_until
