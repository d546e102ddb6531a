"""The bench end to end with a tiny random model and readers made up here; the dense reader against a plain forward."""

import copy
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from rich.console import Console

from deepedu.base.config import EngineSettings, Settings
from deepedu.base.errors import ConfigError, EngineError, UnknownMethod, Unsupported
from deepedu.bench import peers
from deepedu.bench.longcontext.prompt import ChatFormat
from deepedu.bench.longcontext.results import KeptAnswers, weights_digest
from deepedu.bench.peer import Peer
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.bench.tasks import longcontext

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.bench.longcontext.reader import make_reader  # noqa: E402

WINDOW_TOKENS = 4096


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Words and signs, learnt from nothing: one token for each byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<end>", *alphabet])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    backend.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    fast.chat_template = (
        "[system]{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    return fast


@pytest.fixture(scope="module")
def loaded(tokenizer: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    from deepedu.engine.weights import LoadedModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW_TOKENS,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    import inspect

    names = inspect.signature(model.forward).parameters
    argument = "cache" if "cache" in names else "past_key_values"
    return LoadedModel(
        model, tokenizer, ("tiny",), WINDOW_TOKENS, torch.device("cpu"), torch.float32, frozenset({0}), argument
    )


def plainly(loaded: Any, ids: list[int], max_tokens: int) -> list[int]:
    """Greedy, the whole sequence computed anew for every token."""
    reply: list[int] = []
    while len(reply) < max_tokens:
        with torch.inference_mode():
            token_id = int(loaded.model(input_ids=torch.tensor([ids + reply])).logits[0, -1].argmax())
        if token_id in loaded.end_ids:
            break
        reply.append(token_id)
    return reply


@pytest.mark.parametrize("method", ["transformers", "dense", "chunk_rolling"])
def test_a_reader_answers_every_question_as_if_it_were_the_first(
    loaded: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # The context fits the budget, so every method reads all of it.
    for module in ("reader", "method_reader"):
        monkeypatch.setattr(f"deepedu.bench.longcontext.{module}.PREFILL_CHUNK_TOKENS", 7)
    own = copy.deepcopy(loaded.model)
    reader = make_reader(method, dataclasses.replace(loaded, model=own), EngineSettings())
    for context in ([5, 9, 33, 60] * 6, [70, 8, 12]):
        reader.read(context)
        for question in ([11, 12], [40], [11, 12], [90, 91, 92, 93]):
            assert reader.answer(question, 9) == plainly(loaded, [*context, *question], 9)


def test_readers_of_one_model_leave_each_other_alone(loaded: Any) -> None:
    own = dataclasses.replace(loaded, model=copy.deepcopy(loaded.model))
    readers = [make_reader(method, own, EngineSettings()) for method in ("transformers", "dense", "sink_window")]
    for reader in readers:
        reader.read([5, 9, 33, 60])
    expected = plainly(loaded, [5, 9, 33, 60, 11], 4)
    assert [reader.answer([11], 4) for reader in (*readers, *readers)] == [expected] * 6


def test_a_reader_drops_rows_as_its_method_does(loaded: Any) -> None:
    own = dataclasses.replace(loaded, model=copy.deepcopy(loaded.model))
    reader = make_reader("expected_attention:k=0", own, EngineSettings())
    reader.read([5, 9, 33, 60] * 6)
    assert len(reader.answer([11], 3)) <= 3


def test_an_unknown_method_is_named(loaded: Any) -> None:
    with pytest.raises(UnknownMethod, match="'dence'"):
        make_reader("dence", loaded, EngineSettings())
    with pytest.raises(ConfigError, match="tua"):
        make_reader("chunk_rolling:tua=1", loaded, EngineSettings())


def test_the_context_is_a_fixed_prefix_and_the_question_comes_last(tokenizer: Any) -> None:
    from deepedu.bench.longcontext.case import Question

    chat = ChatFormat.of(tokenizer)
    question = Question("Bao nhiêu?", ("7",), "Là")
    text = chat.text([*chat.context_ids("Đoạn văn."), *chat.question_ids(question)])
    assert text == "[system][user]Đoạn văn.\n\nBao nhiêu?[assistant]Là"
    assert chat.counter()("abc") == 3


def test_a_model_without_a_chat_template_is_refused() -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise ValueError("no template")

    with pytest.raises(Unsupported, match="chat template"):
        ChatFormat.of(SimpleNamespace(apply_chat_template=refuse))
    with pytest.raises(Unsupported, match="does not show"):
        ChatFormat.of(SimpleNamespace(apply_chat_template=lambda *_, **__: "hello"))


class Knowing:
    """A reader that finds every number and identifier it is asked for, or none; it counts what it was made to do."""

    def __init__(self, tokenizer: Any, *, spec: str, knows: bool) -> None:
        self.tokenizer, self.spec, self.knows = tokenizer, spec, knows
        self.reads = self.answers = 0
        self.text = ""
        self.fails_after: int | None = None

    def read(self, context_ids: Sequence[int]) -> None:
        self.reads += 1
        self.text = self.tokenizer.decode(list(context_ids))

    def answer(self, question_ids: Sequence[int], max_tokens: int) -> list[int]:
        if self.fails_after is not None and self.answers >= self.fails_after:
            raise KeyboardInterrupt
        self.answers += 1
        question = self.tokenizer.decode(list(question_ids))
        prefix = question.split("[assistant]")[1]
        # The needle says what the question's beginning of the answer says, up to a few words.
        for beginning in (prefix.replace(" mentioned in the provided text", ""), prefix):
            if self.knows and beginning in self.text:
                place = self.text.index(beginning) + len(beginning)
                return self.tokenizer.backend_tokenizer.encode(self.text[place : place + max_tokens]).ids
        return []


@pytest.fixture
def world(loaded: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The bench with the tiny model, and three methods: two readers of above and one this model cannot take."""
    readers = {
        "dense": Knowing(tokenizer, spec="dense", knows=True),
        "blind:k=1": Knowing(tokenizer, spec="blind k=1", knows=False),
    }

    def make(method: str, *_: Any) -> Any:
        if method == "alien":
            raise Unsupported("not with this model")
        return readers[method]

    monkeypatch.setattr(longcontext, "make_reader", make)
    monkeypatch.setattr(longcontext.weights, "resolve", lambda *_: tmp_path)
    monkeypatch.setattr(longcontext, "load_model", lambda _: loaded)
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path / "nowhere"))
    settings = Settings(engine=EngineSettings(model="tiny", cache_dir=tmp_path))

    def run(**options: str) -> BenchResult:
        chosen = {"methods": "dense", "languages": "en", "lengths": "3k", "questions": "3", **options}
        return longcontext.run(BenchContext(settings, tmp_path, 0, False, chosen, Console(file=io.StringIO())))

    return SimpleNamespace(run=run, readers=readers, file=tmp_path / "bench" / "longcontext.jsonl")


def test_scores_by_method_length_task_and_language(world: Any) -> None:
    result = world.run(methods="dense,blind:k=1,alien", tasks="needle_single,needle_multi_key,longbench_v2,passkey")
    assert result.figures == {"score_dense_3k": 100, "score_blind_k_1_3k": 0}
    scores = result.details["scores"]["dense_3k"]
    assert scores == {"needle_single": {"en": 100}, "needle_multi_key": {"en": 100}, "passkey": {"en": 100}}
    assert result.details["by_language"] == {"dense_3k": {"en": 100}, "blind_k_1_3k": {"en": 0}}
    assert result.details["skipped"]["alien"] == "not with this model"
    assert "not among the shared data" in result.details["skipped"]["longbench_v2 en 3k"]
    one = result.details["questions"][0]
    assert one["score"] == 1
    assert one["answers"][0] in one["reply"]
    assert one["context_tokens"] <= 3072
    # Both kinds of needle lie in one context, so each method reads two contexts for three tasks.
    assert world.readers["dense"].reads == 2
    assert json.dumps(result.details)


def test_few_documents_of_one_question_each_do_not_move_the_score(
    world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEEPEDU_DATA", str(tmp_path))
    folder = tmp_path / "longbench_v2"
    folder.mkdir()
    (folder / "one.txt").write_text("A short story.")
    (folder / "long.txt").write_text("A long story. " * 300)
    entry = {"question": "Why?", "choices": {"A": "so", "B": "no"}, "answer": "B"}
    lines = [
        json.dumps({**entry, "context_file": name, "context_bytes": (folder / name).stat().st_size})
        for name in ("one.txt", "long.txt")
    ]
    (folder / "index.jsonl").write_text("\n".join(lines))
    result = world.run(tasks="passkey,longbench_v2")
    assert result.figures == {"score_dense_3k": 100, "longbench_v2_dense_3k": 0}
    assert sum(one["task"] == "longbench_v2" for one in result.details["questions"]) == 1
    assert world.run(tasks="longbench_v2").figures == {"longbench_v2_dense_3k": 0}


def test_a_killed_run_goes_on_where_it_was(world: Any) -> None:
    reader = world.readers["dense"]
    reader.fails_after = 4
    with pytest.raises(KeyboardInterrupt):
        world.run(tasks="needle_single,passkey")
    with world.file.open("a") as file:
        file.write('{"key": "cut sh')
    reader.fails_after = None
    result = world.run(tasks="needle_single,passkey")
    assert result.figures["score_dense_3k"] == 100
    assert (result.details["replies_kept"], result.details["replies_computed"]) == (4, 2)
    answers, reads = reader.answers, reader.reads
    assert world.run(tasks="needle_single,passkey").details["replies_kept"] == 6
    assert (reader.answers, reader.reads) == (answers, reads)
    assert world.run(tasks="passkey", replies="fresh").details["replies_kept"] == 0


def test_replies_are_kept_apart_by_model_method_context_question_and_limit(tmp_path: Path) -> None:
    kept = KeptAnswers("model A", tmp_path / "kept.jsonl")
    base = ("dense", (1, 2), (3,), 8)
    keys = {kept.key(*base), KeptAnswers("model B", tmp_path / "kept.jsonl").key(*base)}
    keys |= {
        kept.key(*changed)
        for changed in (("dense2", *base[1:]), ("dense", (1,), (2, 3), 8), ("dense", (1, 2), (4,), 8), (*base[:3], 9))
    }
    assert len(keys) == 6


def test_other_weights_of_the_same_size_are_another_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"a" * 3_000_000)
    first = weights_digest(tmp_path)
    assert weights_digest(tmp_path) == first
    (tmp_path / "model.safetensors").write_bytes(b"a" * 2_999_999 + b"b")
    assert weights_digest(tmp_path) != first


def test_a_length_above_the_window_is_skipped_with_the_reason(world: Any) -> None:
    result = world.run(lengths="3k,8k", tasks="passkey")
    assert list(result.figures) == ["score_dense_3k"]
    assert "4096" in result.details["skipped"]["8k"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("lengths", "huge", "such as 4k"),
        ("lengths", "100", "such as 4k"),
        ("tasks", "needle", "there are: needle_single"),
        ("languages", "fr", "en, vi"),
        ("questions", "0", "above 0"),
        ("samples", "few", "'few'"),
    ],
)
def test_options_that_cannot_be_are_refused(world: Any, option: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        world.run(**{option: value})


@pytest.fixture
def served(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """vLLM's servers; the one with a method inside knows nothing."""
    asked: list[dict[str, Any]] = []
    knowing = Knowing(tokenizer, spec="", knows=True)

    @contextmanager
    def vllm_with(_: Any, label: str, attention: str | None, *, window_tokens: int, reuse: bool) -> Iterator[Peer]:
        assert window_tokens == 3072
        assert reuse, "a context is read once"
        assert (attention is None) == (label == "dense")
        yield Peer(label, "vllm 0.32.0", f"http://{label}", "peer")

    def post(url: str, json: dict[str, Any], **_: Any) -> httpx.Response:
        asked.append({"url": url, **json})
        if "dense" not in url:
            return httpx.Response(200, json={"choices": [{"token_ids": [5], "finish_reason": "stop"}]})
        knowing.read(json["prompt"])
        reply = knowing.answer(json["prompt"], json["max_tokens"])
        return httpx.Response(200, json={"choices": [{"token_ids": reply, "finish_reason": "length"}]})

    monkeypatch.setattr(peers, "vllm_with", vllm_with)
    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda _: tokenizer)
    monkeypatch.setattr(
        "transformers.AutoConfig.from_pretrained", lambda _: SimpleNamespace(max_position_embeddings=4096)
    )
    return asked


def test_methods_inside_vllm_are_asked_over_http(world: Any, served: list[dict[str, Any]]) -> None:
    options = {"host": "vllm", "methods": "dense,sink_window,expected_attention", "tasks": "needle_single"}
    result = world.run(**options)
    assert result.figures == {"score_dense_3k": 100, "score_sink_window_3k": 0}
    assert "drops rows" in result.details["skipped"]["expected_attention"]
    assert {each["url"] for each in served} == {"http://dense/v1/completions", "http://sink_window/v1/completions"}
    assert {each["temperature"] for each in served} == {0}
    # A token that ends the reply is no part of it.
    assert [each["reply"] for each in result.details["questions"] if each["method"] == "sink_window"] == [""] * 3
    # Kept apart from replies of our own engine, and of the other method.
    count = len(served)
    assert world.run(**options).details["replies_kept"] == count
    assert world.run(methods="dense", tasks="needle_single").details["replies_kept"] == 0


@pytest.mark.usefixtures("served")
def test_a_server_that_refuses_is_told(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx, "post", lambda *_, **__: httpx.Response(400, text="too long"))
    with pytest.raises(EngineError, match="dense answered 400: 'too long'"):
        world.run(host="vllm", methods="dense", tasks="needle_single")

    def broken(*_: Any, **__: Any) -> httpx.Response:
        raise httpx.ReadError("gone")

    monkeypatch.setattr(httpx, "post", broken)
    with pytest.raises(EngineError, match="did not answer: ReadError gone"):
        world.run(host="vllm", methods="dense", tasks="needle_single")
    with pytest.raises(ConfigError, match="own or vllm"):
        world.run(host="tgi")
