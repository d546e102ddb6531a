"""Sequences over a cache: reuse changes what is computed, never what comes out."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.attention.base import Budget  # noqa: E402
from deepedu.base.errors import ConfigError  # noqa: E402
from deepedu.engine import runner as runner_module  # noqa: E402
from deepedu.engine.prompt import Prompt  # noqa: E402
from deepedu.engine.runner import Runner, Running, open_cache  # noqa: E402

MakeRunner = Callable[..., Runner]
SHARED = 200


def ids_of(length: int, seed: int = 0) -> list[int]:
    return torch.randint(5, 390, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


LESSON = ids_of(SHARED)


def asked(question: int, **more: Any) -> Prompt:
    return Prompt([*LESSON, *ids_of(90, seed=question)], SHARED, **more)


def run(runner: Runner, prompt: Prompt, chunk: int = 64, tokens: int = 0) -> tuple[Any, Running]:
    """Logits after the prompt and after each of some tokens, [1 + tokens, vocabulary]."""
    running, logits = runner.begin(prompt, tokens), None
    assert running is not None
    while logits is None:
        logits = runner.prefill(running, chunk)
    found = [logits]
    for _ in range(tokens):
        found.append(runner.decode([running], [int(found[-1].argmax())])[0])
    runner.end(running)
    return torch.stack(found), running


def idle(runner: Runner) -> bool:
    cache = runner.cache
    return cache.reserved_bytes == 0 and all(segment.users == 0 for segment in cache._segments)


@pytest.mark.parametrize("method", ["dense", "chunk_rolling", "token_select", "quest"])
@pytest.mark.parametrize("source", ["memory", "disk"])
def test_a_reused_lesson_gives_the_same_logits(make_runner: MakeRunner, method: str, source: str) -> None:
    budget = Budget(80, sinks=8, local=32)
    fresh, first = run(make_runner(method, budget=budget, disk_gb=0), asked(1), tokens=5)
    assert (first.cached_tokens, first.cached_from) == (0, None)
    runner = make_runner(method, budget=budget)
    run(runner, asked(2))
    if source == "disk":
        runner.cache.close()
        runner = make_runner(method, budget=budget)
    again, running = run(runner, asked(1), tokens=5)
    assert (running.cached_tokens, running.cached_from) == (SHARED, source)
    torch.testing.assert_close(again, fresh, rtol=1e-4, atol=1e-4)
    assert idle(runner)


def test_an_owners_own_turns_are_reused_and_nobody_elses(make_runner: MakeRunner) -> None:
    runner = make_runner()
    first = asked(1, owner="a")
    logits, running = run(runner, first, tokens=20)
    told = [*first.ids, *running.ids]
    longer = Prompt([*told, *ids_of(30, seed=7)], SHARED, "a")
    wanted, _ = run(make_runner(disk_gb=0), longer, tokens=3)
    for owner, cached in (("b", SHARED), (None, SHARED), ("a", SHARED + 64)):
        found, again = run(runner, Prompt(longer.ids, SHARED, owner), tokens=3)
        assert again.cached_tokens == cached
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert bool(torch.isfinite(logits).all())
    assert idle(runner)


def test_rows_of_shared_text_do_not_depend_on_what_follows(make_runner: MakeRunner) -> None:
    rows = []
    for prompt in (
        asked(1),
        Prompt(asked(2, owner="b", question_from=250).ids, SHARED, "b", 250),
        Prompt(LESSON, SHARED),
    ):
        runner = make_runner("chunk_rolling", budget=Budget(80, sinks=8, local=32), disk_gb=0)
        running = runner.begin(prompt, 0)
        assert running is not None
        while running.shared is None:
            runner.prefill(running, 1000)
        rows.append([block.read(0, SHARED)[0].clone() for block in running.shared.blocks])
    for layer in range(len(rows[0])):
        assert torch.equal(rows[0][layer], rows[1][layer])
        assert torch.equal(rows[0][layer], rows[2][layer])


@pytest.mark.parametrize("rest", [1, 2])
def test_a_prompt_whose_last_token_alone_is_new(make_runner: MakeRunner, rest: int) -> None:
    budget = Budget(40, sinks=4, local=16)
    prompt = Prompt(ids_of(64 * 4 + rest), 0, "a")
    runner = make_runner("sink_window", budget=budget)
    wanted, _ = run(runner, prompt, chunk=1000)
    found, running = run(runner, prompt, chunk=1000)
    assert running.cached_tokens == 256
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_questions_tokens_attend_densely(make_runner: MakeRunner) -> None:
    # Not equal to the dense ones: the layer above reads rows that were computed under the small budget.
    budget, prompt = Budget(24, sinks=4, local=16), asked(1, question_from=SHARED)
    dense, _ = run(make_runner(), prompt)
    errors = []
    for exact in ("256", "0"):
        found, _ = run(make_runner("sink_window", {"exact_tokens": exact}, budget), prompt)
        errors.append(float((found - dense).norm()))
    assert errors[0] < errors[1]


def test_an_interrupted_warm_up_goes_on_where_it_was(make_runner: MakeRunner) -> None:
    runner, prompt = make_runner(), Prompt(LESSON, SHARED, tag="book")
    running = runner.begin(prompt, 0)
    assert running is not None
    runner.prefill(running, 100)
    runner.end(running)
    assert idle(runner)
    runner.cache.close()
    later = make_runner()
    assert later.cache.look(prompt) == (64, "disk")
    resumed = later.begin(prompt, 0)
    assert resumed is not None
    assert (resumed.done_tokens, resumed.cached_tokens) == (64, 64)
    while resumed.shared is None:
        later.prefill(resumed, 100)
    later.end(resumed)
    assert later.cache.look(prompt)[0] == SHARED
    found, again = run(later, asked(1))
    assert again.cached_tokens == SHARED
    torch.testing.assert_close(found, run(make_runner(disk_gb=0), asked(1))[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_step_that_fails_midway_leaves_nothing_half_done(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, layer: int
) -> None:
    from deepedu.engine.adapter import KVState

    runner, original = make_runner(disk_gb=0), KVState.attend
    running = runner.begin(asked(1, owner="a"), 0)
    assert running is not None
    runner.prefill(running, 100)

    def failing(state: Any, at: int, *arguments: Any) -> Any:
        if at == layer:
            raise RuntimeError("midway")
        return original(state, at, *arguments)

    monkeypatch.setattr(KVState, "attend", failing)
    with pytest.raises(RuntimeError, match="midway"):
        runner.prefill(running, 64)
    monkeypatch.undo()
    runner.end(running)
    assert idle(runner)
    found, _ = run(runner, asked(1, owner="a"))
    torch.testing.assert_close(found, run(make_runner(disk_gb=0), asked(1))[0], rtol=1e-4, atol=1e-4)


def test_memory_is_held_for_a_prompt_and_given_back(make_runner: MakeRunner) -> None:
    runner = make_runner(memory_gb=1.0, disk_gb=0)
    runner.cache.limit_bytes = 400 * runner.row_bytes
    first = runner.begin(asked(1), 50)
    assert first is not None
    assert runner.cache.reserved_bytes == 340 * runner.row_bytes
    assert runner.begin(Prompt(ids_of(100, 5)), 0) is None
    # The lesson's rows leave the promise for the cache.
    while first.shared is None:
        runner.prefill(first, 64)
    assert runner.cache.reserved_bytes + runner.cache.held_bytes == 340 * runner.row_bytes
    # So a second question over it needs little more.
    assert runner.begin(asked(2), 0) is None
    second = runner.begin(Prompt([*LESSON, 7, 8, 9], SHARED), 40)
    assert second is not None
    assert second.cached_tokens == SHARED
    for running in (first, second):
        runner.end(running)
    assert idle(runner)
    assert runner.fits(400)
    assert not runner.fits(401)


def test_what_is_cached_gives_way_when_it_leaves_no_room(make_runner: MakeRunner) -> None:
    runner = make_runner(memory_gb=1.0, disk_gb=0)
    runner.cache.limit_bytes = 400 * runner.row_bytes
    run(runner, asked(1))
    # Begins alike, so the rows that are there would be read while all of it is computed: together too much.
    long = Prompt([*LESSON, *ids_of(190, 3)], 390)
    found, running = run(runner, long)
    assert running.cached_tokens == 0
    torch.testing.assert_close(found, run(make_runner(disk_gb=0), long)[0], rtol=1e-4, atol=1e-4)
    assert idle(runner)


def test_a_beginning_that_fails_gives_its_memory_back(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner(disk_gb=0)
    run(runner, asked(1))

    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(runner.adapter, "new_sequence", full)
    with pytest.raises(MemoryError):
        runner.begin(asked(2), 10)
    assert idle(runner)


def test_sequences_decode_together_as_alone(make_runner: MakeRunner) -> None:
    runner = make_runner("token_select", budget=Budget(80, sinks=8, local=32))
    prompts = [asked(1, owner="a"), Prompt(ids_of(30, 4)), Prompt(ids_of(150, 5), 0, "b")]
    alone = [
        run(make_runner("token_select", budget=Budget(80, sinks=8, local=32)), each, tokens=6)[0] for each in prompts
    ]
    begun = [runner.begin(prompt, 6) for prompt in prompts]
    logits: list[Any] = []
    for running in begun:
        assert running is not None
        last = None
        while last is None:
            last = runner.prefill(running, 64)
        logits.append(last)
    running = [each for each in begun if each is not None]
    for step in range(6):
        logits = list(runner.decode(running, [int(each.argmax()) for each in logits]))
        for found, wanted in zip(logits, alone, strict=True):
            torch.testing.assert_close(found, wanted[step + 1], rtol=1e-4, atol=1e-4)


def test_a_method_that_evicts_keeps_the_lesson_whole(make_runner: MakeRunner) -> None:
    budget = Budget(96, sinks=4, local=32)
    runner = make_runner("expected_attention", budget=budget)
    _, running = run(runner, asked(1, owner="a"), tokens=3)
    assert {rows.length for rows in running.state.layers} == {96 + 3}
    assert running.done_tokens == 290 + 3
    # What was thinned out serves no later turn; the lesson does.
    _, again = run(runner, asked(1, owner="a"))
    assert again.cached_tokens == SHARED
    assert {rows.length for rows in again.state.layers} == {96}
    assert idle(runner)


def test_a_method_that_evicts_leaves_a_warmed_lesson_alone(make_runner: MakeRunner) -> None:
    runner = make_runner("expected_attention", budget=Budget(96, sinks=4, local=32))
    running = runner.begin(Prompt(LESSON, SHARED), 0)
    assert running is not None
    while running.shared is None:
        runner.prefill(running, 64)
    assert {block.used for block in running.shared.blocks} == {SHARED}
    runner.end(running)
    assert runner.cache.look(asked(1)) == (SHARED, "memory")


def test_int8_rows_are_reused_bit_for_bit(make_runner: MakeRunner) -> None:
    wanted, _ = run(make_runner(rows_dtype="int8", disk_gb=0), asked(1), tokens=3)
    runner = make_runner(rows_dtype="int8")
    run(runner, asked(2))
    runner.cache.close()
    found, running = run(make_runner(rows_dtype="int8"), asked(1), tokens=3)
    assert running.cached_from == "disk"
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def other_model(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same architecture with one weight changed."""
    from deepedu.engine.weights import load

    folder = tmp_path_factory.mktemp("other") / "tiny"
    shutil.copytree(tiny_folder, folder)
    loaded = load(folder, ("tiny",), device="cpu")
    with torch.no_grad():
        loaded.model.model.layers[1].self_attn.k_proj.weight[0, 0] += 1
    return loaded


def test_a_model_that_carries_a_state_is_computed_anew_each_time(
    make_runner: MakeRunner, linear_model: Any, tmp_path: Path
) -> None:
    runner = make_runner("chunk_rolling", loaded=linear_model)
    assert not runner.reuses
    wanted, _ = run(runner, asked(1, owner="lan", tag="book-1"), tokens=3)
    again, running = run(runner, asked(1, owner="lan", tag="book-1"), chunk=50, tokens=3)
    assert (running.cached_tokens, running.cached_from) == (0, None)
    torch.testing.assert_close(again, wanted, rtol=1e-3, atol=1e-3)
    assert runner.cache.held_bytes == runner.cache.reserved_bytes == 0
    runner.cache.close()
    assert not list((tmp_path / "prefix").rglob("*.safetensors"))


def test_sequences_that_carry_a_state_decode_one_after_the_other(make_runner: MakeRunner, linear_model: Any) -> None:
    runner = make_runner(loaded=linear_model)
    alone = [run(runner, asked(question), tokens=2)[0] for question in (1, 2)]
    together: list[Running] = [runner.begin(asked(question), 2) for question in (1, 2)]  # type: ignore[misc]
    found: list[list[Any]] = [[runner.prefill(each, 1000)] for each in together]
    for _ in range(2):
        tokens = [int(logits[-1].argmax()) for logits in found]
        for logits, new in zip(found, runner.decode(together, tokens), strict=True):
            logits.append(new)
    for logits, wanted in zip(found, alone, strict=True):
        torch.testing.assert_close(torch.stack(logits), wanted, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def other_tokenizer(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same weights, with two tokens exchanged in the vocabulary."""
    from deepedu.engine.weights import load

    folder = tmp_path_factory.mktemp("other") / "tiny"
    shutil.copytree(tiny_folder, folder)
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    assert '"a": ' in text
    names = {}
    for letter in "ab":
        start = text.index(f'"{letter}": ')
        names[letter] = text[start : text.index("\n", start)]
    swapped = text.replace(names["a"], names["a"].replace('"a"', '"?"')).replace(
        names["b"], names["b"].replace('"b"', '"a"')
    )
    swapped = swapped.replace(names["a"].replace('"a"', '"?"'), names["a"].replace('"a"', '"b"'))
    (folder / "tokenizer.json").write_text(swapped, encoding="utf-8")
    return load(folder, ("tiny",), device="cpu")


def test_rows_on_disk_serve_only_what_computed_them(
    make_runner: MakeRunner, tiny_folder: Path, other_model: Any, other_tokenizer: Any
) -> None:
    from deepedu.engine.weights import load

    run(first := make_runner(), asked(1))
    first.cache.close()
    half = load(tiny_folder, ("tiny",), device="cpu", dtype="bfloat16")
    others = {
        "method": make_runner("quest"),
        "field": make_runner("dense", {"exact_tokens": "100"}),
        "budget": make_runner(budget=Budget(2000)),
        "rows": make_runner(rows_dtype="int8"),
        "dtype": make_runner(loaded=half),
        "model": make_runner(loaded=other_model),
        "tokenizer": make_runner(loaded=other_tokenizer),
    }
    assert {name: each.cache.look(asked(1)) for name, each in others.items()} == dict.fromkeys(others, (0, None))
    assert make_runner().cache.look(asked(1)) == (SHARED, "disk")


def test_the_same_model_elsewhere_finds_its_rows(make_runner: MakeRunner, tiny_folder: Path, tmp_path: Path) -> None:
    from deepedu.engine.weights import load

    run(first := make_runner(), asked(1))
    first.cache.close()
    shutil.copytree(tiny_folder, tmp_path / "moved")
    moved = load(tmp_path / "moved", ("moved",), device="cpu")
    assert make_runner(loaded=moved).cache.look(asked(1)) == (SHARED, "disk")


def test_memory_that_is_not_known_asks_for_the_setting(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = make_runner()

    def open_with(memory_gb: float | None) -> Any:
        return open_cache(
            runner.loaded,
            runner.method,
            Budget(),
            memory_gb=memory_gb,
            folder=tmp_path,
            disk_gb=0,
            rows_dtype="model",
        )

    assert open_with(0.5).limit_bytes == 1 << 29
    monkeypatch.setattr(runner_module, "Path", lambda _: tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"engine\.kv_memory_gb"):
        open_with(None)
