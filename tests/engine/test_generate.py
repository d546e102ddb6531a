"""Completions of the tiny model, held against transformers' own."""

import dataclasses
import threading
from typing import Any

import pytest

from deepedu.base.errors import EngineError
from deepedu.engine.events import Finished, FirstToken, Sampling, TextDelta
from deepedu.engine.generate import generate
from deepedu.engine.prompt import Prompt
from deepedu.engine.runner import Runner

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

PROMPT = "Năm 938, Ngô Quyền đánh tan quân Nam Hán. Thủ đô của Việt Nam"


def prompt_ids(tiny: Any, text: str = PROMPT) -> list[int]:
    return tiny.tokenizer.backend_tokenizer.encode(text).ids


def complete(tiny: Any, sampling: Sampling, ids: list[int] | None = None, **options: Any) -> tuple[str, Finished]:
    events = list(generate(Runner(tiny), Prompt(ids or prompt_ids(tiny)), sampling, **options))
    assert isinstance(events[-1], Finished)
    assert [type(event) for event in events].count(FirstToken) == 1
    return "".join(event.text for event in events if isinstance(event, TextDelta)), events[-1]


def with_model(tiny: Any, model: Any, **more: Any) -> Runner:
    """A runner whose model is replaced by a spy around it."""
    runner = Runner(tiny)
    runner.loaded = dataclasses.replace(tiny, model=model, **more)
    return runner


def reference(plain: Any, tokens: int) -> list[int]:
    ids = torch.tensor([prompt_ids(plain)])
    out = plain.model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens
    )
    return out[0, ids.shape[1] :].tolist()


def test_greedy_output_is_that_of_transformers(tiny: Any, plain: Any) -> None:
    text, finished = complete(tiny, Sampling(max_tokens=40))
    expected = reference(plain, 40)
    assert text == tiny.tokenizer.decode(expected, skip_special_tokens=True).rstrip("\ufffd")
    assert finished.completion_tokens == len(expected)
    assert finished.prompt_tokens == len(prompt_ids(tiny))


def test_greedy_output_is_the_same_every_time(tiny: Any) -> None:
    assert complete(tiny, Sampling(max_tokens=30))[0] == complete(tiny, Sampling(max_tokens=30))[0]


@pytest.mark.parametrize("chunk", [1, 7, 8192])
def test_chunked_prefill_computes_the_same(tiny: Any, plain: Any, chunk: int) -> None:
    ids = prompt_ids(tiny)
    assert len(ids) % 7 != 0
    runner = Runner(tiny)
    running, logits = runner.begin(Prompt(ids), 0), None
    assert running is not None
    while logits is None:
        logits = runner.prefill(running, chunk)
    with torch.inference_mode():
        whole = plain.model(input_ids=torch.tensor([ids])).logits[0, -1]
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-4)
    sampling = Sampling(max_tokens=30)
    assert complete(tiny, sampling, prefill_chunk_tokens=chunk)[0] == complete(tiny, sampling)[0]


def test_a_stop_string_never_shows_and_ends_the_completion(tiny: Any) -> None:
    whole, _ = complete(tiny, Sampling(max_tokens=40))
    stop = whole[5:9]
    text, finished = complete(tiny, Sampling(max_tokens=40, stop=(stop,)))
    assert text == whole[: whole.index(stop)]
    assert finished.reason == "stop"
    assert finished.completion_tokens < 40


def test_the_end_token_ends_without_text(tiny: Any, plain: Any) -> None:
    first = reference(plain, 1)[0]
    ending = dataclasses.replace(tiny, end_ids=frozenset({first}))
    text, finished = complete(ending, Sampling(max_tokens=40))
    assert (text, finished.reason, finished.completion_tokens) == ("", "stop", 1)


def test_length_limits(tiny: Any) -> None:
    _, finished = complete(tiny, Sampling(max_tokens=3))
    assert (finished.reason, finished.completion_tokens) == ("length", 3)


def test_a_seed_repeats_a_draw_and_another_seed_does_not(tiny: Any) -> None:
    def draw(seed: int) -> str:
        return complete(tiny, Sampling(max_tokens=30, temperature=2.0, top_p=0.95, seed=seed))[0]

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_a_tiny_top_p_leaves_only_the_likeliest_token(tiny: Any) -> None:
    drawn = complete(tiny, Sampling(max_tokens=20, temperature=1.0, top_p=1e-9, seed=3))[0]
    assert drawn == complete(tiny, Sampling(max_tokens=20))[0]


def test_a_presence_penalty_makes_tokens_differ(tiny: Any) -> None:
    fed: list[int] = []

    class Spy:
        def __call__(self, **arguments: Any) -> Any:
            ids = arguments["input_ids"][0].tolist()
            fed.extend(ids if len(ids) == 1 else [])
            return tiny.model(**arguments)

        config = tiny.model.config

    spied = with_model(tiny, Spy(), end_ids=frozenset())
    # Larger than any distance between logits: no token may come twice.
    list(generate(spied, Prompt(prompt_ids(tiny)), Sampling(max_tokens=31, presence_penalty=1e6)))
    assert len(set(fed)) == len(fed) == 30


def test_cancelling_stops_between_prefill_chunks(tiny: Any) -> None:
    cancelled, calls = threading.Event(), []

    class Counting:
        def __call__(self, **arguments: Any) -> Any:
            calls.append(arguments["input_ids"].shape[1])
            cancelled.set()
            return tiny.model(**arguments)

        config = tiny.model.config

    counting = with_model(tiny, Counting())
    prompt = Prompt(prompt_ids(tiny))
    events = list(generate(counting, prompt, Sampling(5), cancelled=cancelled, prefill_chunk_tokens=4))
    assert calls == [4]
    assert [event.reason for event in events if isinstance(event, Finished)] == ["cancelled"]


def test_cancelling_stops_between_tokens(tiny: Any) -> None:
    cancelled, count = threading.Event(), 0
    for event in generate(Runner(tiny), Prompt(prompt_ids(tiny)), Sampling(max_tokens=200), cancelled=cancelled):
        count += isinstance(event, TextDelta)
        if count == 2:
            cancelled.set()
        if isinstance(event, Finished):
            assert event.reason == "cancelled"
            assert event.completion_tokens < 100


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_numbers_that_are_none_are_an_error(tiny: Any, temperature: float) -> None:
    class Broken:
        def __call__(self, **arguments: Any) -> Any:
            output = tiny.model(**arguments)
            output.logits = output.logits * float("nan")
            return output

        config = tiny.model.config

    broken = with_model(tiny, Broken())
    prompt = Prompt(prompt_ids(tiny) * 5, owner="a")
    list(generate(Runner(tiny, cache=broken.cache), prompt, Sampling(max_tokens=2)))
    # Long enough to be kept where all is well.
    assert broken.cache.match(prompt).rows > 0
    prompt = Prompt(prompt.ids, owner="b")
    with pytest.raises(EngineError, match="no numbers"):
        list(generate(broken, prompt, Sampling(max_tokens=2, temperature=temperature)))
    # What led to them serves nobody.
    assert broken.cache.match(prompt).rows == 0
    assert broken.cache.reserved_bytes == 0


def test_a_prompt_that_is_shared_to_its_end_still_has_an_answer(tiny: Any) -> None:
    ids = prompt_ids(tiny)
    runner = Runner(tiny)
    for _ in range(2):
        events = list(generate(runner, Prompt(ids, shared_tokens=len(ids)), Sampling(max_tokens=10)))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert text == complete(tiny, Sampling(max_tokens=10))[0]


@pytest.mark.parametrize("message", ["DefaultCPUAllocator: can't allocate memory: you tried", "anything else"])
def test_memory_that_runs_out_names_the_remedy(tiny: Any, message: str) -> None:
    class Full:
        def __call__(self, **_: Any) -> Any:
            raise RuntimeError(message)

        config = tiny.model.config

    runner = with_model(tiny, Full())
    memory = "allocate" in message
    with pytest.raises(EngineError if memory else RuntimeError, match="prefill_chunk_tokens" if memory else message):
        list(generate(runner, Prompt(prompt_ids(tiny)), Sampling(max_tokens=2)))
    assert runner.cache.reserved_bytes == 0
