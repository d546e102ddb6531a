"""Heads that lose too much by a shared choice: measured on sampled queries, and then read exactly."""

import dataclasses

import pytest
import torch
from made_sequences import Made, made, selections

from deepedu.attention import reference
from deepedu.attention.base import Budget, Call, Selection
from deepedu.attention.lost_mass import SAMPLE_EVERY, LostMass
from deepedu.attention.methods.chunk_rolling import ChunkRolling
from deepedu.attention.reference import TensorRows
from deepedu.attention.scoring import key_scores

BUDGET = Budget(tokens=8 + 64 + 40, sinks=8, local=64)


def measured(call: Call, found: list[Selection]) -> LostMass:
    lost = LostMass(call)
    for selection in found:
        asked = list(lost.queries(selection.begin, selection.end))
        lost.keep(asked, key_scores(call, call.queries[:, asked].transpose(0, 1), 0, call.stop))
        lost.add(selection)
    return lost


def lost_share(call: Call, selection: Selection, query: int, head: int) -> float:
    """By hand: one minus the attention on the rows that are read."""
    keys = next(call.rows.parts(0, call.start + query + 1))[0][head // call.group]
    shares = torch.softmax(keys @ call.queries[head, query] * call.scale, dim=0)
    return 1 - float(shares[reference.rows_read(call, selection, query, head)].sum())


@pytest.mark.parametrize("per_head", [False, True])
def test_what_a_selection_loses(per_head: bool) -> None:
    sequence = made(700, heads=4, kv_heads=2)
    call = sequence.call(300, 700, BUDGET)
    rows = (torch.arange(20, 60), torch.arange(40, 80)) if per_head else (torch.arange(20, 60),)
    found = [Selection(0, 200, 236, rows), Selection(200, 400, 436, rows)]
    lost = measured(call, found)
    shares = torch.zeros(4)
    asked = [(each, query) for each in found for query in (each.begin + 128,)]
    for selection, query in asked:
        shares += torch.tensor([lost_share(call, selection, query, head) for head in range(4)])
    for bound in (0.1, 0.3, 0.5, 0.9):
        assert lost.exact_heads(bound) == tuple(torch.nonzero(shares / 2 > bound).flatten().tolist())
    torch.testing.assert_close(sequence.state["lost_mass"][0], shares, atol=1e-4, rtol=1e-4)
    assert sequence.state["lost_mass"][1] == 2


def test_queries_are_sampled_evenly_and_short_runs_once() -> None:
    lost = LostMass(made(300, heads=4, kv_heads=2).call(0, 300, BUDGET))
    assert list(lost.queries(0, 512)) == [128, 384]
    assert list(lost.queries(100, 103)) == [102]
    assert SAMPLE_EVERY == 256


def scattered(length: int = 1200) -> Made:
    """Head 0 looks at another row with every query, the other heads all at rows 20 to 27."""
    noise = torch.Generator().manual_seed(0)
    keys = torch.nn.functional.normalize(torch.randn(1, length, 32, generator=noise), dim=-1)
    keys[0, 20:28] = keys[0, 20].clone()
    queries = (60 * keys[0, 20]).repeat(4, length, 1)
    for query in range(length):
        queries[0, query] = 60 * keys[0, int(torch.randint(query // 2 + 1, (1,), generator=noise))]
    return Made(TensorRows(keys, torch.randn(1, length, 32, generator=noise)), queries)


def test_a_head_that_looks_elsewhere_with_every_query_reads_everything() -> None:
    sequence = scattered()
    call = sequence.call(600, 1200, BUDGET)
    method = ChunkRolling(tau=-1.0, max_lost_mass=0.2)
    found = selections(method, call)
    assert {each.exact_heads for each in found} == {(0,)}
    exact, out = reference.dense(call), method.attend(call)
    torch.testing.assert_close(out[:, 0], exact[:, 0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(out[:, 1:], exact[:, 1:], atol=1e-5, rtol=1e-5)
    published = dataclasses.replace(method, max_lost_mass=1.0).attend(call)
    assert (published[:, 0] - exact[:, 0]).norm() > 0.3 * exact[:, 0].norm()
    torch.testing.assert_close(published[:, 1:], out[:, 1:], atol=1e-5, rtol=1e-5)


def test_what_was_measured_counts_for_the_rest_of_the_request() -> None:
    sequence = scattered()
    list(ChunkRolling(tau=-1.0).select(sequence.call(600, 1100, BUDGET)))
    lost, samples = sequence.state["lost_mass"]
    assert samples > 1
    list(ChunkRolling(tau=-1.0).select(sequence.call(1100, 1101, BUDGET)))
    assert sequence.state["lost_mass"][1] == samples + 1
    assert (sequence.state["lost_mass"][0] >= lost).all()


def test_measuring_takes_no_pass_of_its_own() -> None:
    here, there = scattered(), scattered()
    list(ChunkRolling(tau=-1.0).select(here.call(600, 1200, BUDGET)))
    list(ChunkRolling(tau=-1.0, max_lost_mass=1.0).select(there.call(600, 1200, BUDGET)))
    assert here.tally.retrieval_calls == there.tally.retrieval_calls == 1


def test_with_the_published_window_too() -> None:
    sequence = scattered()
    method = ChunkRolling(fingerprint="anchor", pool="max", local="cluster", tau=1.01)
    found = selections(method, sequence.call(600, 1200, BUDGET))
    assert {each.exact_heads for each in found} == {(0,)}
