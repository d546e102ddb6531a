"""What every registered method must do, whatever it is; a new file in methods/ gets these tests for free."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_sequences import SMALL, Made, check, made, selections
from torch import Tensor

from deepedu.attention import reference, run
from deepedu.attention.base import Budget, Method
from deepedu.attention.methods.twilight import Twilight
from deepedu.attention.reference import TensorRows
from deepedu.attention.registry import describe_fields, make_method, method_class, method_names
from pretend_gpu import everywhere

PUBLISHED = {
    "similarity": "roped",
    "fingerprint": "anchor",
    "local": "cluster",
    "pool": "max",
    "max_cluster_tokens": 4096,
}
# Every method with its defaults, and the variants whose way differs.
VARIANTS = {name: (name, {}) for name in method_names()} | {
    "chunk_rolling-published": ("chunk_rolling", PUBLISHED),
    "chunk_rolling-centered-sum": ("chunk_rolling", {"similarity": "centered", "pool": "sum", "probes": 4}),
    "streaming_pages-bound": ("streaming_pages", {"summary": "bound", "candidates_per_selected": 1}),
    "twilight-quest": ("twilight", {"base": "quest", "p": 0.5}),
    "flex_prefill-small": ("flex_prefill", {"block_tokens": 16, "min_budget_tokens": 0, "gamma": 0.5}),
}
LENGTHS = (1, 63, 111, 513, 1025)


@pytest.fixture(params=VARIANTS)
def method(request: pytest.FixtureRequest) -> Method:
    name, fields = VARIANTS[request.param]
    return make_method(name, {key: str(value) for key, value in fields.items()})


@pytest.fixture
def selecting(method: Method) -> Method:
    if type(method).select is Method.select:
        pytest.skip(f"{method.name} selects no rows: {method.limits}")
    return method


def attended(method: Method, sequence: Made, chunk: int, budget: Budget, decode: int = 0) -> Tensor:
    return torch.cat([run.attend(method, call) for call in sequence.calls(chunk, budget, decode)])


def test_a_gpu_computes_the_same_and_everything_lies_on_it(method: Method) -> None:
    budget, sequence = Budget(tokens=96, sinks=8, local=32), made(400, 4, 2)
    keys, values = next(sequence.rows.parts(0, sequence.length))

    def computed(placed: Callable[[Tensor], Tensor]) -> Tensor:
        there = Made(TensorRows(placed(keys), placed(values)), placed(sequence.queries))
        return attended(method, there, 200, budget, decode=3)

    here, there = everywhere(computed)
    torch.testing.assert_close(there, here, atol=1e-5, rtol=1e-5)


@functools.cache
def dense_output(length: int) -> Tensor:
    return reference.dense(made(length, 2, 1).call(0, length))


@pytest.mark.parametrize("length", LENGTHS)
def test_a_full_budget_is_dense(method: Method, length: int) -> None:
    budget = Budget(tokens=length + 40, sinks=8, local=32)
    sequence = made(length, 2, 1)
    out = attended(method, sequence, 200, budget, decode=min(3, length - 1))
    torch.testing.assert_close(out, dense_output(length), atol=1e-5, rtol=1e-5)
    for call in made(length, 2, 1).calls(200, budget):
        assert method.keep(call) is None


def most_rows(method: Method, budget: Budget, cluster: int) -> int:
    """Rows that a query may read. As published, a cluster selects at least one row, however long it is itself."""
    if getattr(method, "local", None) == "cluster":
        return max(budget.tokens, budget.sinks + max(budget.local, cluster) + 1)
    return budget.tokens


@settings(max_examples=15, deadline=None)
@given(
    length=st.integers(1, 200),
    chunk=st.one_of(st.integers(5, 130), st.just(1)),
    sinks=st.integers(0, 20),
    local=st.integers(1, 40),
    selected=st.integers(0, 60),
    decode=st.integers(0, 4),
    seed=st.integers(0, 3),
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_selections_keep_to_the_budget(
    variant: str, length: int, chunk: int, sinks: int, local: int, selected: int, decode: int, seed: int
) -> None:
    name, fields = VARIANTS[variant]
    method = make_method(name, {key: str(value) for key, value in fields.items()})
    budget = Budget(tokens=sinks + local + selected, sinks=sinks, local=local)
    sequence = made(length, seed=seed, pieces=True)
    for call in sequence.calls(chunk, budget, min(decode, length - 1)):
        # What attends densely by its nature or in this phase keeps no budget, and says so in its limits.
        free = type(method).select is Method.select or call.phase not in method.phases
        free = free or (isinstance(method, Twilight) and call.phase not in method.base.phases)
        found = selections(method, call)
        check(call, found, None if free else most_rows(method, budget, max(each.end - each.begin for each in found)))
        stay = method.keep(call)
        if stay is not None:
            assert {len(rows) for rows in stay} == {budget.tokens}
            assert len(stay) == call.rows.kv_heads
            assert all((rows.diff() > 0).all() and rows[0] >= 0 and rows[-1] < call.stop for rows in stay)


@pytest.mark.parametrize(("length", "heads", "kv_heads"), [(1, 28, 4), (63, 28, 4), (111, 28, 4), (513, 4, 2)])
def test_attention_over_a_selection_is_exact(selecting: Method, length: int, heads: int, kv_heads: int) -> None:
    sequence = made(length, heads, kv_heads, pieces=True)
    decode = min(3, length - 1)
    expected = [
        reference.selective(call, selections(selecting, call)) for call in sequence.afresh().calls(70, SMALL, decode)
    ]
    torch.testing.assert_close(
        attended(selecting, sequence, 70, SMALL, decode), torch.cat(expected), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("matching", [(7, 8, 9, 10, 11, 12, 13), (7, 8, 10, 11, 12)])
def test_query_heads_read_their_own_key_head(method: Method, matching: tuple[int, ...]) -> None:
    # Row 100 of key/value head 1 is what these query heads look for; the second set has no head h with h % 4 == 1.
    if method.name == "sink_window":
        pytest.skip(f"sink_window: {method.limits}")
    noise = torch.Generator().manual_seed(1)
    keys = 0.3 * torch.randn(4, 400, 8, generator=noise)
    keys[1, 100] = torch.tensor([4.0] + [0.0] * 7)
    values = torch.zeros(4, 400, 8)
    values[1, 100] = 100.0
    queries = 0.1 * torch.randn(28, 400, 8, generator=noise)
    queries[list(matching), :, 0] += 8
    # One whole page of 16 fits in what is selected, wherever the window cuts a page.
    out = attended(method, Made(TensorRows(keys, values), queries), 200, Budget(72, 8, 32), decode=2)
    # From the second chunk on the row lies between the sinks and every window.
    found = out[200:, :, 0] > 50
    assert found[:, list(matching)].all()
    assert found.sum() == 200 * len(matching)


def test_later_rows_are_not_looked_at(method: Method) -> None:
    sequence = made(200)
    keys, values = (each.clone() for each in next(sequence.rows.parts(0, 200)))
    keys[:, 150:], values[:, 150:] = float("nan"), float("nan")
    damaged = Made(TensorRows(keys, values), sequence.queries)
    for start, stop in ((0, 70), (70, 150)):
        whole = run.attend(method, sequence.call(start, stop, last=stop == 150))
        assert torch.equal(run.attend(method, damaged.call(start, stop, last=stop == 150)), whole)
        assert not whole.isnan().any()


def test_a_method_remembers_nothing_of_another_sequence(method: Method) -> None:
    fields = dataclasses.asdict(method)
    attended(method, made(300, seed=1), 100, SMALL, decode=5)
    again = attended(method, made(300, seed=2), 100, SMALL, decode=5)
    assert torch.equal(again, attended(dataclasses.replace(method), made(300, seed=2), 100, SMALL, decode=5))
    assert dataclasses.asdict(method) == fields


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("chunks", [(0,), (0, -1), (0, -5), (0, -31), (0, -32), (0, -33)])
def test_lengths_around_the_budget(selecting: Method, beyond: int, chunks: tuple[int, ...]) -> None:
    # The last chunk begins before, within and after the local window.
    length = SMALL.tokens + beyond
    sequence = made(length)
    bounds = [start % length for start in chunks] + [length]
    for start, stop in itertools.pairwise(bounds):
        phase = "decode" if stop - start == 1 else "prefill"
        call = sequence.call(start, stop, phase=phase)
        found = selections(selecting, call)
        if call.phase in selecting.phases and beyond <= 0:
            for query in range(call.q_len):
                selection = next(each for each in found if each.begin <= query < each.end)
                for head in range(0, 28, 7):
                    rows = reference.rows_read(call, selection, query, head)
                    assert torch.equal(rows, torch.arange(start + query + 1))
        check(call, found)


def test_more_to_select_than_there_is(selecting: Method) -> None:
    for length in (1, 2, 41, 100):
        sequence = made(length)
        budget = Budget(tokens=8 + 32 + 1000, sinks=8, local=32)
        for call in sequence.calls(length, budget):
            check(call, selections(selecting, call), budget.tokens)


def test_a_phase_that_it_does_not_have_is_dense(method: Method) -> None:
    lacking = {"prefill", "decode"} - method.phases
    if not lacking:
        pytest.skip(f"{method.name} has both phases")
    for phase in lacking:
        sequence = made(150, heads=4, kv_heads=2)
        call = sequence.call(149 if phase == "decode" else 100, 150, phase=phase)
        torch.testing.assert_close(run.attend(method, call), reference.dense(call), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", method_names())
def test_a_method_tells_what_it_is(name: str) -> None:
    kind = method_class(name)
    assert kind.name == name
    assert kind.paper
    assert kind.limits
    assert kind.phases
    assert kind.phases <= {"prefill", "decode"}
    assert "Source:" in (kind.__doc__ or "")
    for field in describe_fields(name):
        assert field == "exact_tokens" or f"``{field}``" in (kind.__doc__ or ""), f"{name} does not explain {field}"
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_method(name).exact_tokens = 0  # type: ignore[misc]
