"""Chunk rolling: which blocks join, what one retrieval asks, and what each variant reads."""

import dataclasses
from typing import Any

import pytest
import torch
from made_sequences import SMALL, Made, chosen, made, rotate

from deepedu.attention.base import Budget, Call, Selection
from deepedu.attention.methods.chunk_rolling import ChunkRolling
from deepedu.attention.methods.token_select import TokenSelect
from deepedu.attention.reference import TensorRows
from deepedu.base.errors import ConfigError

# One choice for all heads, asked with one mean query, among the candidates only, and no rows read besides.
PLAIN: dict[str, Any] = {
    "probes": 1,
    "heads": "layer",
    "vote": "candidates",
    "lead_tokens": 0,
    "max_lost_mass": 1.0,
    "late_layers": 0.0,
}
PUBLISHED = ChunkRolling(similarity="roped", fingerprint="anchor", local="cluster", max_cluster_tokens=4096, **PLAIN)
BUDGET = Budget(tokens=8 + 32 + 100, sinks=8, local=32)


def reads(found: list[Selection]) -> list[tuple[int, int, int, list[int]]]:
    return [(each.begin, each.end, each.local_start, chosen(each)) for each in found]


def every(method: Any, sequence: Made, chunk: int = 160, budget: Budget = BUDGET) -> list[Any]:
    return [reads(list(method.select(call))) for call in sequence.calls(chunk, budget)]


@pytest.mark.parametrize("local", ["cluster", "block"])
@pytest.mark.parametrize("fingerprint", ["anchor", "blocks"])
def test_clusters_of_one_block_are_token_select(local: Any, fingerprint: Any) -> None:
    method = ChunkRolling(tau=1.01, similarity="roped", fingerprint=fingerprint, local=local, pool="max", **PLAIN)
    here, there = made(401), made(401)
    assert every(method, here) == every(TokenSelect(), there)
    assert here.tally == there.tally


def test_each_block_of_a_cluster_reads_what_token_select_would_give_it() -> None:
    here, there = made(401), made(401)
    method = ChunkRolling(tau=-1, similarity="roped", max_cluster_tokens=4096, **PLAIN)
    assert every(method, here) == every(TokenSelect(), there)
    assert here.tally.retrieval_calls == 3  # One for each chunk.
    assert here.tally.blocks == there.tally.blocks == there.tally.retrieval_calls


def turned(angles: list[float], block: int = 32, earlier: int = 300, heads: int = 4) -> Made:
    """Blocks whose queries, after RoPE, stand at these angles (in degrees) in the plane of the first two channels."""
    degrees = torch.tensor([angles[0]] * (earlier // block + 1) + angles).repeat_interleave(block)
    degrees = degrees[-(len(angles) * block + earlier) :] * (torch.pi / 180)
    queries = torch.zeros(heads, len(degrees), 8)
    queries[:, :, 0], queries[:, :, 1] = degrees.cos(), degrees.sin()
    keys = torch.randn(2, len(degrees), 8, generator=torch.Generator().manual_seed(0))
    return Made(TensorRows(keys, keys.clone()), queries)


def clusters(method: ChunkRolling, call: Call) -> list[int]:
    """Blocks of each cluster: with the cluster's window a selection is a cluster."""
    return [(each.end - each.begin) // 32 for each in method.select(call)]


def test_blocks_are_compared_with_the_anchor_not_with_their_neighbour() -> None:
    # 15 degrees from block to block: cos 15 = 0.966 is close, cos 30 = 0.866 is not, though the topic only drifts.
    sequence = turned([0, 15, 30, 45, 60, 75])
    assert clusters(PUBLISHED, sequence.call(300, sequence.length, BUDGET)) == [2, 2, 2]
    back = turned([0, 15, 30, 0, 0])
    assert clusters(PUBLISHED, back.call(300, back.length, BUDGET)) == [2, 1, 2]


def test_a_cluster_ends_at_its_greatest_length() -> None:
    sequence = turned([0.0] * 7)
    method = dataclasses.replace(PUBLISHED, block_tokens=32, max_cluster_tokens=96)
    assert clusters(method, sequence.call(300, sequence.length, BUDGET)) == [3, 3, 1]
    assert (sequence.tally.retrieval_calls, sequence.tally.blocks) == (3, 7)
    assert sequence.tally.mean_cluster_blocks == pytest.approx(7 / 3)


def test_a_longer_window_is_paid_for_by_what_is_selected() -> None:
    # k = 100, window 32: a cluster of 3 blocks has a window of 96 and 100 - 64 = 36 selected rows.
    sequence = turned([0.0, 0.0, 0.0])
    (selection,) = PUBLISHED.select(sequence.call(300, sequence.length, BUDGET))
    assert (selection.local_start, len(chosen(selection))) == (300, 36)
    # As published: 8 blocks of 512 need more than k = 1024 gives; one row at least is selected.
    long = Budget(tokens=128 + 512 + 1024, sinks=128, local=512)
    far = turned([0.0] * 8, block=512, earlier=3000, heads=2)
    (selection,) = PUBLISHED.select(far.call(3000, far.length, long))
    assert (selection.end, selection.local_start, len(chosen(selection))) == (4096, 3000, 1)
    two = turned([0.0] * 2, block=512, earlier=3000, heads=2)
    (selection,) = PUBLISHED.select(two.call(3000, two.length, long))
    assert (selection.end, selection.local_start, len(chosen(selection))) == (1024, 3000, 512)


def test_the_anchor_alone_asks() -> None:
    sequence, other = made(396), made(396)
    method = dataclasses.replace(PUBLISHED, tau=-1.0)
    (here,) = method.select(sequence.call(300, 396, BUDGET))
    other.queries[:, 332:] = torch.randn(28, 64, 8)
    (there,) = method.select(other.call(300, 396, BUDGET))
    assert chosen(here) == chosen(there)
    other.queries[:, 300:332] = torch.randn(28, 32, 8)
    (there,) = method.select(other.call(300, 396, BUDGET))
    assert chosen(here) != chosen(there)


@pytest.mark.parametrize("pool", ["max", "sum"])
def test_all_blocks_ask_in_one_pass(pool: Any) -> None:
    sequence = made(396)
    call = sequence.call(300, 396, BUDGET)
    method = ChunkRolling(tau=-1.0, similarity="roped", local="cluster", pool=pool, **PLAIN)
    (selection,) = method.select(call)
    votes = torch.zeros(3, 300 - 8)
    for block in range(3):
        for head in range(28):
            query = call.queries[head, 32 * block : 32 * block + 32].mean(0)
            votes[block] += torch.softmax(sequence.rows.keys(8, 300)[head // 7] @ query * 8**-0.5, dim=0)
    pooled = votes.amax(0) if pool == "max" else votes.sum(0)
    assert chosen(selection) == sorted((pooled.topk(36).indices + 8).tolist())
    assert sequence.tally.retrieval_calls == 1


def test_more_probes_add_their_votes() -> None:
    sequence = made(332)
    call = sequence.call(300, 332, BUDGET)
    (selection,) = ChunkRolling(block_tokens=32, max_cluster_tokens=32, **{**PLAIN, "probes": 4}).select(call)
    votes = torch.zeros(300 - 8)
    for head in range(28):
        for part in call.queries[head].view(4, 8, 8).mean(1):
            votes += torch.softmax(sequence.rows.keys(8, 300)[head // 7] @ part * 8**-0.5, dim=0)
    assert chosen(selection) == sorted((votes.topk(100).indices + 8).tolist())


def test_heads_of_one_key_head_choose_for_themselves() -> None:
    sequence = made(332)
    call = sequence.call(300, 332, BUDGET)
    (selection,) = ChunkRolling(block_tokens=32, **{**PLAIN, "heads": "kv"}).select(call)
    assert len(selection.rows) == 4
    for kv_head, rows in enumerate(selection.rows):
        votes = torch.zeros(300 - 8)
        for head in range(7 * kv_head, 7 * kv_head + 7):
            query = call.queries[head].mean(0)
            votes += torch.softmax(sequence.rows.keys(8, 300)[kv_head] @ query * 8**-0.5, dim=0)
        assert rows.tolist() == sorted((votes.topk(100).indices + 8).tolist())


def test_a_head_that_looks_at_the_sinks_has_little_say() -> None:
    # Two heads share the keys. The first wants the sinks above all and row 50 a little, the second rows 60 to 79.
    keys = torch.zeros(1, 332, 4)
    keys[0, :8, 0], keys[0, 50, 0], keys[0, 60:80, 1] = 12.0, 4.0, 1.0
    queries = torch.zeros(2, 332, 4)
    queries[0, :, 0] = queries[1, :, 1] = 4.0
    call = Made(TensorRows(keys, keys.clone()), queries).call(300, 332, Budget(tokens=8 + 32 + 20, sinks=8, local=32))
    (candidates,) = ChunkRolling(block_tokens=32, **PLAIN).select(call)
    (past,) = ChunkRolling(block_tokens=32, **{**PLAIN, "vote": "past"}).select(call)
    assert 50 in chosen(candidates)
    assert chosen(past) == list(range(60, 80))


def test_rows_just_before_a_block_are_read_in_the_place_of_selected_ones() -> None:
    sequence = made(396)
    call = sequence.call(300, 396, BUDGET)
    method = ChunkRolling(block_tokens=32, tau=-1.0, **{**PLAIN, "lead_tokens": 20})
    found = list(method.select(call))
    assert [each.local_start for each in found] == [280, 312, 344]
    assert [len(chosen(each)) for each in found] == [80, 80, 80]
    # At most a quarter of what may be selected.
    wide = dataclasses.replace(method, lead_tokens=1000)
    assert [each.local_start for each in wide.select(call)] == [275, 307, 339]


def test_before_rotation_a_steady_query_is_one_topic() -> None:
    # The same query everywhere before RoPE: after it, neighbouring blocks look different.
    noise = torch.Generator().manual_seed(0)
    queries = rotate(torch.randn(4, 1, 8, generator=noise).expand(4, 460, 8), 0)
    keys = torch.randn(2, 460, 8, generator=noise)
    call = Made(TensorRows(keys, keys.clone()), queries).call(300, 460, BUDGET)
    unroped = dataclasses.replace(PUBLISHED, similarity="unroped")
    assert len(list(PUBLISHED.select(call))) > 1
    assert clusters(unroped, call) == [5]
    # Without the model's rotation there is nothing to undo.
    blind = dataclasses.replace(call, unrope=None)
    assert reads(list(unroped.select(blind))) == reads(list(PUBLISHED.select(call)))


def test_less_the_running_mean_topics_come_apart() -> None:
    # A large part in common hides two topics; the layer's running mean is that part.
    noise = torch.Generator().manual_seed(0)
    topics = 20 * torch.randn(1, 4, 1, 8, generator=noise) + torch.randn(2, 4, 1, 8, generator=noise)
    before = torch.cat([topics[index].expand(4, 64, 8) for index in (0, 1, 0, 1, 0, 1, 0, 1)], dim=1)
    keys = torch.randn(2, 512, 8, generator=noise)
    sequence = Made(TensorRows(keys, keys.clone()), rotate(before, 0))
    call = sequence.call(256, 512, BUDGET)
    assert clusters(dataclasses.replace(PUBLISHED, similarity="unroped", tau=0.95), call) == [8]
    assert clusters(dataclasses.replace(PUBLISHED, similarity="centered", tau=0.95), call) == [2, 2, 2, 2]


def test_the_running_mean_is_of_all_blocks_so_far() -> None:
    sequence = made(256)
    method = ChunkRolling(similarity="centered")
    for call in sequence.calls(64, SMALL):
        list(method.select(call))
    total, count = sequence.state["running_mean_query"]
    assert count == 8
    means = rotate(sequence.queries, 0, -1).view(28, 8, 32, 8).mean(2).transpose(0, 1).flatten(1)
    torch.testing.assert_close(total, means.sum(0), atol=1e-4, rtol=1e-4)


def test_the_last_layers_read_sinks_and_window_only() -> None:
    sequence = made(400)
    method = ChunkRolling(late_layers=0.25, lead_tokens=20)
    for layer, selects in ((0, True), (17, True), (18, False), (23, False)):
        found = list(method.select(sequence.call(200, 400, BUDGET, layer=layer, layers=24, state={})))
        assert all(bool(chosen(each)) == selects for each in found)
        if not selects:
            windows = [(each.begin, each.local_start, each.exact_heads) for each in found]
            assert windows == [*((at, 180 + at, ()) for at in range(0, 192, 32)), (192, 348, ())]
    # Decode chooses in every layer: its one query is what the answer comes from.
    (last,) = method.select(sequence.call(399, 400, BUDGET, layer=23, layers=24, phase="decode"))
    assert len(chosen(last)) == 100
    assert all(map(chosen, ChunkRolling(late_layers=0.0).select(sequence.call(200, 400, BUDGET, layer=23, layers=24))))


def test_the_last_layers_too_read_everything_that_fits_the_budget() -> None:
    call = made(140).call(0, 140, BUDGET, layer=23, layers=24)
    assert {each.local_start for each in ChunkRolling().select(call)} == {0}


def test_decode_is_token_selects() -> None:
    here, there = made(300), made(300)
    for row in range(290, 300):
        mine = list(ChunkRolling(reuse_cosine=0.9).select(here.call(row, row + 1, BUDGET, phase="decode")))
        its = list(TokenSelect().select(there.call(row, row + 1, BUDGET, phase="decode")))
        assert reads(mine) == reads(its)
    assert here.tally == there.tally


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_tokens": 0}, "block_tokens=0"),
        ({"max_cluster_tokens": 100}, "max_cluster_tokens=100"),
        ({"probes": 3}, "probes must divide"),
        ({"lead_tokens": -1}, "lead_tokens must be"),
        ({"late_layers": 1.5}, "late_layers"),
        ({"max_lost_mass": -0.1}, "max_lost_mass"),
        ({"local": "cluster"}, "pool=each needs local=block"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ChunkRolling(**fields)
