"""Twilight: the fewest rows of the base's choice that hold the mass."""

import dataclasses
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_sequences import SMALL, chosen, made

from deepedu.attention.base import Budget
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.attention.methods.twilight import Twilight, four_bits, top_p
from deepedu.attention.registry import make_method
from deepedu.attention.run import attend
from deepedu.base.errors import ConfigError

ROOMY = Budget(tokens=100, sinks=8, local=32)


@given(
    mass=st.lists(st.integers(1, 50), min_size=2, max_size=7),
    always=st.integers(0, 2),
    p=st.sampled_from([0.1, 0.333, 0.5, 0.85, 0.99]),
)
def test_no_smaller_set_holds_the_mass(mass: list[int], always: int, p: float) -> None:
    always = min(always, len(mass) - 1)
    weights = torch.tensor(mass, dtype=torch.float64) / sum(mass)
    kept = top_p(weights[None], always, p)
    free = weights[always:]
    missing = p - float(weights[:always].sum()) - 1e-12
    assert float(free[kept].sum()) >= missing
    smaller = itertools.combinations(range(len(free)), max(0, int(kept.sum()) - 1))
    if kept.any():
        assert all(float(free[list(each)].sum()) < missing + 2e-12 for each in smaller)


def test_a_group_keeps_what_any_of_its_heads_needs() -> None:
    weights = torch.tensor([[0.1, 0.8, 0.05, 0.05], [0.1, 0.05, 0.05, 0.8]])
    assert top_p(weights, 1, 0.85).tolist() == [True, False, True]


@pytest.mark.parametrize("base", ["token_select", "quest", "streaming_pages", "chunk_rolling"])
@pytest.mark.parametrize("p", [0.3, 0.85])
def test_it_keeps_a_subset_of_its_base(base: str, p: float) -> None:
    pruned, whole = made(300), made(300)
    method, of = Twilight(base=make_method(base), p=p), make_method(base)
    fewer = 0
    for here, there in zip(pruned.calls(100, ROOMY, 3), whole.calls(100, ROOMY, 3), strict=True):
        if here.phase not in of.phases:
            continue
        for small, big in zip(method.select(here), of.select(there), strict=True):
            assert dataclasses.replace(small, rows=()) == dataclasses.replace(big, rows=())
            for head in range(4):
                assert set(chosen(small, head)) <= set(chosen(big, head))
                fewer += len(chosen(big, head)) - len(chosen(small, head))
    assert fewer > 0


def test_all_of_the_mass_is_the_base_itself() -> None:
    here, there = made(300), made(300)
    for mine, its in zip(here.calls(100, SMALL, 3), there.calls(100, SMALL, 3), strict=True):
        torch.testing.assert_close(attend(Twilight(p=1), mine), attend(TokenSelect(), its), atol=0, rtol=0)


def test_the_kept_rows_hold_the_mass_of_every_query_head() -> None:
    call = made(300, seed=3).call(299, 300, Budget(tokens=140, sinks=8, local=32), phase="decode")
    (base,) = TokenSelect().select(call)
    (selection,) = Twilight(p=0.9).select(call)
    everything = [*range(8), *chosen(base), *range(base.local_start, 300)]
    for head in range(28):
        keys = four_bits(call.rows.keys(0, 300)[head // 7])
        weights = torch.softmax(keys[everything] @ call.queries[head, 0] * call.scale, dim=0)
        kept = {*range(8), *chosen(selection, head // 7), *range(base.local_start, 300)}
        assert sum(float(w) for row, w in zip(everything, weights, strict=True) if row in kept) >= 0.9 - 1e-5


def test_sharp_attention_needs_fewer_rows_than_flat() -> None:
    sequence = made(300)
    call = sequence.call(299, 300, Budget(tokens=140, sinks=8, local=32), phase="decode")
    sizes = []
    for sharpness in (0.1, 1.0, 4.0):
        (selection,) = Twilight(base=TokenSelect(reuse_cosine=2)).select(
            sequence.call(299, 300, call.budget, phase="decode", queries=call.queries * sharpness)
        )
        sizes.append(sum(len(rows) for rows in selection.rows))
    assert sizes[0] > sizes[1] > sizes[2]


def test_four_bits_have_sixteen_levels_and_keep_the_ends() -> None:
    keys = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    seen = four_bits(keys)
    assert max(len(row.unique()) for row in seen) <= 16
    torch.testing.assert_close(seen.amin(1), keys.amin(1))
    torch.testing.assert_close(seen.amax(1), keys.amax(1))
    step = (keys.amax(1) - keys.amin(1)) / 15
    assert ((seen - keys).abs() <= step[:, None] / 2 + 1e-6).all()
    assert torch.equal(four_bits(torch.full((1, 4), 3.0)), torch.full((1, 4), 3.0))


def test_ragged_rows_are_counted_by_their_mean() -> None:
    sequence = made(300)
    call = sequence.call(299, 300, Budget(tokens=140, sinks=8, local=32), phase="decode")
    (selection,) = Twilight().select(call)
    sizes = [len(rows) for rows in selection.rows]
    assert len(set(sizes)) > 1
    sequence.tally.rows_read = 0
    attend(Twilight(), call)
    assert sequence.tally.rows_read == round(sum(8 + size + 32 for size in sizes) / 4)


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match=r"twilight\.p"):
        Twilight(p=0)
    with pytest.raises(ConfigError, match="'dense'"):
        Twilight(base=make_method("dense"))
