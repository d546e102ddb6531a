"""Requests through one engine: together they give what each gives alone, and all they hold they give back."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.base.config import EngineSettings  # noqa: E402
from deepedu.base.errors import (  # noqa: E402
    BudgetError,
    ConfigError,
    ContextLengthExceeded,
    DeepEduError,
    EngineError,
    EngineLoading,
    UnknownMethod,
    Unsupported,
)
from deepedu.engine.engine import Engine  # noqa: E402
from deepedu.engine.events import Finished, Sampling, TextDelta, Warmed  # noqa: E402
from deepedu.engine.prompt import Prompt  # noqa: E402
from deepedu.engine.scheduler import Ended, Failed  # noqa: E402

MakeEngine = Callable[..., Engine]


class Request:
    """Collects the events of one."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.over, self.spoke = threading.Event(), threading.Event()
        self.job: Any = None

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, TextDelta):
            self.spoke.set()
        if isinstance(event, Ended | Failed):
            self.over.set()

    @property
    def text(self) -> str:
        assert self.over.wait(60)
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def last(self) -> Any:
        assert self.over.wait(60)
        return self.events[-1]

    @property
    def finished(self) -> Finished:
        assert self.over.wait(60)
        return next(event for event in self.events if isinstance(event, Finished))


@pytest.fixture
def make_engine(tiny: Any, tmp_path: Path) -> Iterator[MakeEngine]:
    engines: list[Engine] = []

    def make(**settings: Any) -> Engine:
        given = {"kv_memory_gb": 0.1, "cache_dir": tmp_path, "weights": "full", "max_queue": 20, **settings}
        engine = Engine(EngineSettings(model="/models/tiny", **given))
        engines.append(engine)
        engine.use(tiny)
        return engine

    yield make
    for engine in engines:
        engine.close()


def ids_of(length: int, seed: int = 0) -> list[int]:
    return torch.randint(5, 390, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def ask(engine: Engine, prompt: Prompt, tokens: int = 12) -> Request:
    request = Request()
    request.job = engine.submit(prompt, Sampling(max_tokens=tokens), request)
    return request


def idle(engine: Engine) -> bool:
    cache = engine.runner.cache
    return cache.reserved_bytes == 0 and all(segment.users == 0 for segment in cache._segments)


@pytest.mark.parametrize("method", ["dense", "chunk_rolling", "token_select"])
def test_requests_together_answer_as_each_alone(make_engine: MakeEngine, method: str) -> None:
    lesson = ids_of(150)
    prompts = [
        Prompt([*lesson, *ids_of(40, 1)], 150, "a"),
        Prompt([*lesson, *ids_of(70, 2)], 150, "b"),
        Prompt(ids_of(30, 3)),
        Prompt(ids_of(300, 4), 0, "a"),
    ]
    alone = make_engine(method=method, prefix_disk_gb=0)
    wanted = [ask(alone, prompt).text for prompt in prompts]
    together = make_engine(method=method, prefix_disk_gb=0)
    requests = [ask(together, prompt) for prompt in prompts]
    assert [request.text for request in requests] == wanted
    assert len(set(wanted)) > 1
    assert idle(together)


def test_a_long_prompt_does_not_stop_the_others(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, done = make_engine(max_running=4), []
    runner = engine.runner
    prefill, decode = runner.prefill, runner.decode

    def seen_prefill(running: Any, limit: int) -> Any:
        before = running.done_tokens
        logits = prefill(running, limit)
        done.append(("prefill", len(running.prompt.ids), running.done_tokens - before))
        return logits

    def seen_decode(running: Any, tokens: Any) -> Any:
        done.append(("decode", len(running), 0))
        return decode(running, tokens)

    monkeypatch.setattr(runner, "prefill", seen_prefill)
    monkeypatch.setattr(runner, "decode", seen_decode)
    # A machine so slow that a slice is as short as slices get.
    monkeypatch.setattr("deepedu.engine.scheduler.SLICE_S", 1e-9)
    speaking = [ask(engine, Prompt(ids_of(20, seed)), 100) for seed in (1, 2)]
    for request in speaking:
        assert request.spoke.wait(30)
    long = ask(engine, Prompt(ids_of(450, 3)), 2)
    assert long.over.wait(60)
    slices = [index for index, event in enumerate(done) if event[:2] == ("prefill", 450)]
    assert len(slices) == 8
    between = [done[a + 1 : b] for a, b in pairwise(slices)]
    assert all(any(event[0] == "decode" for event in events) for events in between)
    for request in speaking:
        assert request.finished.completion_tokens <= 100
    assert idle(engine)


def test_two_that_do_not_fit_together_run_one_after_the_other(make_engine: MakeEngine) -> None:
    engine = make_engine(prefix_disk_gb=0)
    engine.runner.cache.limit_bytes = 400 * engine.runner.row_bytes
    most = 0
    begin = engine.runner.begin

    def seen(*arguments: Any) -> Any:
        nonlocal most
        running = begin(*arguments)
        most = max(most, engine.runner.cache.reserved_bytes)
        return running

    engine.runner.begin = seen  # type: ignore[method-assign]
    requests = [ask(engine, Prompt(ids_of(250, seed), 100 * (seed % 2), "a"), 20) for seed in range(4)]
    assert [request.last for request in requests] == [Ended(cancelled=False)] * 4
    assert 0 < most <= engine.runner.cache.limit_bytes
    assert engine.runner.cache.held_bytes <= engine.runner.cache.limit_bytes
    assert idle(engine)


def test_what_never_fits_is_refused_with_its_size_and_the_remedy(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.runner.cache.limit_bytes = 100 * engine.runner.row_bytes
    for prompt, tokens in ((Prompt(ids_of(101)), 1), (Prompt(ids_of(60)), 60)):
        with pytest.raises(BudgetError, match=r"engine\.kv_memory_gb") as caught:
            ask(engine, prompt, tokens)
        assert caught.value.http_status == 400
    with pytest.raises(BudgetError):
        engine.warm(Prompt(ids_of(150), 120), Request())
    assert ask(engine, Prompt(ids_of(60)), 40).last == Ended(cancelled=False)


def test_a_length_that_was_not_said_takes_what_window_and_memory_leave(make_engine: MakeEngine) -> None:
    engine = make_engine()
    assert engine.room_tokens(100, None) == 412
    engine.runner.cache.limit_bytes = 150 * engine.runner.row_bytes
    assert engine.room_tokens(100, None) == 50
    assert ask(engine, Prompt(ids_of(100)), engine.room_tokens(100, None)).last == Ended(cancelled=False)
    with pytest.raises(ContextLengthExceeded):
        engine.room_tokens(512, None)


@pytest.mark.parametrize("shared", [0, 400])
def test_cancelling_while_the_prompt_is_computed_frees_memory(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None], shared: int
) -> None:
    engine = make_engine(prefill_chunk_tokens=64)
    prefill, reached, go = engine.runner.prefill, threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        logits = prefill(*arguments)
        reached.set()
        assert go.wait(20)
        return logits

    monkeypatch.setattr(engine.runner, "prefill", slow)
    request = ask(engine, Prompt(ids_of(450), shared, "a"))
    assert reached.wait(20)
    engine.cancel(request.job)
    go.set()
    assert request.last == Ended(cancelled=True)
    assert request.finished.reason == "cancelled"
    eventually(lambda: engine.running == 0)
    assert idle(engine)
    # What was computed serves on.
    assert ask(engine, Prompt(ids_of(450), shared, "a")).finished.cached_tokens == 64


def test_cancelling_while_it_speaks_frees_memory(make_engine: MakeEngine) -> None:
    engine = make_engine()
    request = ask(engine, Prompt(ids_of(40), 0, "a"), 400)
    assert request.spoke.wait(20)
    engine.cancel(request.job)
    assert isinstance(request.last, Ended)
    assert idle(engine)


@pytest.mark.parametrize("step", ["begin", "prefill", "decode", "accept"])
@pytest.mark.parametrize("error", [EngineError("no luck"), ZeroDivisionError("secret")])
def test_failures_free_memory_and_leave_the_engine_alive(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    def failing(*_: Any) -> Any:
        raise error

    engine = make_engine()
    wanted = ask(engine, Prompt(ids_of(100), 70)).text
    with monkeypatch.context() as patch:
        if step == "accept":
            patch.setattr("deepedu.engine.generate._Chooser.choose", failing)
        else:
            patch.setattr(engine.runner, step, failing)
        request = ask(engine, Prompt(ids_of(100), 70, "a"))
        assert isinstance(request.last, Failed)
        assert isinstance(request.last.error, DeepEduError)
        assert "secret" not in str(request.last.error)
        assert idle(engine)
    assert ask(engine, Prompt(ids_of(100), 70, "a")).text == wanted


def test_numbers_that_are_none_fail_one_request_of_a_batch(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    wanted = ask(engine, Prompt(ids_of(30, 1)), 40).text
    decode = engine.runner.decode

    def broken(running: Any, tokens: Any) -> Any:
        logits = decode(running, tokens).clone()
        for index, each in enumerate(running):
            if each.prompt.owner == "sick" and len(running) == 2:
                logits[index] = float("nan")
        return logits

    monkeypatch.setattr(engine.runner, "decode", broken)
    sick, sound = ask(engine, Prompt(ids_of(30), 0, "sick"), 400), ask(engine, Prompt(ids_of(30, 1)), 40)
    assert isinstance(sick.last, Failed)
    assert "no numbers" in str(sick.last.error)
    assert sound.text == wanted
    assert idle(engine)


def test_warming_waits_for_people_and_serves_them(make_engine: MakeEngine) -> None:
    engine = make_engine()
    lesson = ids_of(300)
    warming = Request()
    engine.warm(Prompt([*lesson, 5], 300, tag="book"), warming)
    assert warming.last == Ended(cancelled=False)
    (warmed,) = [event for event in warming.events if isinstance(event, Warmed)]
    assert engine.store(warmed.segment).result(20) is None
    answer = ask(engine, Prompt([*lesson, *ids_of(20, 5)], 300, "a")).finished
    assert (answer.cached_tokens, answer.cached_from) == (300, "memory")
    assert engine.forget("book")[0] == 1
    assert engine.look(Prompt(lesson, 300)) == (0, None)
    assert idle(engine)


def test_a_model_that_carries_a_state_answers_but_is_not_warmed(linear_model: Any, tmp_path: Path) -> None:
    engine = Engine(EngineSettings(model="linear", cache_dir=tmp_path))
    try:
        engine.use(linear_model, tmp_path)
        prompt = Prompt(ids_of(100), 60, tag="book")
        assert ask(engine, prompt).finished.cached_tokens == 0
        with pytest.raises(Unsupported, match="nothing can be warmed: set tutor"):
            engine.warm(prompt, Request())
    finally:
        engine.close()


BAD_SETTINGS = [
    ({"method": "chunk_roling"}, UnknownMethod, "did you mean 'chunk_rolling'"),
    ({"method": "quest", "method_set": "pages=3"}, ConfigError, "has no field 'pages'"),
    ({"method": "token_select", "method_set": "block_tokens=many"}, ConfigError, "expected int, came 'many'"),
    ({"method": "token_select", "method_set": "block_tokens=0"}, ConfigError, "at least 1, came 0"),
    ({"method_set": "tau"}, ConfigError, "expected key=value"),
    ({"budget_tokens": 600}, BudgetError, "give at least 640"),
]


@pytest.mark.parametrize(("settings", "error", "words"), BAD_SETTINGS)
def test_settings_that_cannot_be_are_refused_before_the_model_is_read(
    make_engine: MakeEngine, tmp_path: Path, settings: dict[str, Any], error: type[DeepEduError], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_engine(**settings)
    engine = Engine(EngineSettings(model=str(tmp_path / "no model"), cache_dir=tmp_path, **settings))
    with pytest.raises(error, match=words):
        engine.load()
    assert isinstance(engine.failure, error)
    assert engine.status == "failed"
    engine.close()


def test_fields_of_the_method_arrive(make_engine: MakeEngine) -> None:
    engine = make_engine(method="token_select", method_set=" block_tokens = 64, exact_tokens=8 ", budget_tokens=700)
    assert repr(engine.runner.method).count("block_tokens=64") == 1
    assert engine.runner.method.exact_tokens == 8
    assert engine.runner.adapter.budget.tokens == 700


def test_a_model_the_method_cannot_read_is_refused_at_load(tiny: Any, tmp_path: Path) -> None:
    import dataclasses

    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=400))
    engine = Engine(EngineSettings(model="/models/tiny", cache_dir=tmp_path, kv_memory_gb=0.1))
    with pytest.raises(Unsupported, match="rotary"):
        engine.use(dataclasses.replace(tiny, model=model))
    engine.close()


def test_before_it_is_loaded_everything_is_refused(tmp_path: Path) -> None:
    engine = Engine(EngineSettings(model="/models/tiny", cache_dir=tmp_path))
    for step in (lambda: ask(engine, Prompt([5])), lambda: engine.forget("x"), lambda: engine.look(Prompt([5]))):
        with pytest.raises(EngineLoading):
            step()
    engine.close()
