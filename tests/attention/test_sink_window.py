"""Sinks and a window, and nothing else."""

import torch
from made_sequences import made

from deepedu.attention.base import Budget
from deepedu.attention.methods.sink_window import SinkWindow
from deepedu.attention.reference import rows_read


def test_each_query_reads_the_sinks_and_the_newest_rows() -> None:
    budget = Budget(tokens=40, sinks=4, local=8)
    sequence = made(100, heads=2, kv_heads=1)
    call = sequence.call(0, 100, budget)
    for selection in SinkWindow(block_tokens=1).select(call):
        expected = [row for row in range(selection.begin + 1) if row < 4 or row > selection.begin - 36]
        assert rows_read(call, selection, selection.begin, 0).tolist() == expected


def test_queries_of_a_block_share_a_window() -> None:
    budget = Budget(tokens=40, sinks=4, local=8)
    call = made(100, heads=2, kv_heads=1).call(50, 100, budget)
    found = list(SinkWindow(block_tokens=16).select(call))
    assert [(each.begin, each.end, each.local_start) for each in found] == [
        (0, 16, 30),
        (16, 32, 46),
        (32, 48, 62),
        (48, 50, 64),
    ]
    assert call.tally.retrieval_calls == 0


def test_decode_reads_the_whole_budget() -> None:
    budget = Budget(tokens=40, sinks=4, local=8)
    call = made(100, heads=2, kv_heads=1).call(99, 100, budget, phase="decode")
    (selection,) = SinkWindow().select(call)
    assert torch.equal(rows_read(call, selection, 0, 0), torch.cat([torch.arange(4), torch.arange(64, 100)]))
