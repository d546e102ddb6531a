"""Decode steps of several sequences in one go are the same steps one by one."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from torch import Tensor  # noqa: E402

from deepedu.attention.base import Budget, Call, Selection  # noqa: E402
from deepedu.attention.registry import make_method  # noqa: E402
from deepedu.attention.sparse import attend_selections  # noqa: E402
from deepedu.engine.paged_decode import decode_attention, rows_read  # noqa: E402
from deepedu.engine.paged_rows import PagedRows  # noqa: E402
from pretend_gpu import everywhere  # noqa: E402

KV_HEADS, GROUP, BLOCK, HEAD_DIM = 2, 3, 16, 8
LENGTHS = (200, 97, 160)
BUDGET = Budget(60, 4, 16)


@pytest.fixture(scope="module")
def cached() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(60, KV_HEADS, HEAD_DIM, BLOCK, generator=draw).transpose(2, 3)
    return keys, torch.randn(60, KV_HEADS, BLOCK, HEAD_DIM, generator=draw)


@pytest.fixture(scope="module")
def tables() -> list[Tensor]:
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    # As wide as its own sequence needs, with something behind.
    return [order[20 * index : 20 * index + 15] for index in range(len(LENGTHS))]


@pytest.mark.parametrize("name", ["token_select", "quest", "twilight", "chunk_rolling", "sink_window"])
def test_steps_at_once_are_steps_one_by_one(name: str, cached: tuple[Tensor, Tensor], tables: list[Tensor]) -> None:
    method = make_method(name, {"page_tokens": "8", "dense_layers": "0"} if name == "quest" else {})
    queries = torch.randn(3, KV_HEADS * GROUP, HEAD_DIM, generator=torch.Generator().manual_seed(2))
    selections: list[Selection] = []
    wanted: list[Tensor] = []
    for query, table, length in zip(queries, tables, LENGTHS, strict=True):
        rows = PagedRows(*cached)
        rows.point(table, length, by_block=True)
        call = Call(rows=rows, queries=query[:, None], start=length - 1, budget=BUDGET, scale=0.3, phase="decode")
        (selection,) = method.select(call)
        assert selection.local_start > 0
        selections.append(selection)
        wanted.append(attend_selections(call, [selection])[0])
    read = [rows_read(each, BUDGET.sinks, stop, KV_HEADS) for each, stop in zip(selections, LENGTHS, strict=True)]
    for heads, stop in zip(read, LENGTHS, strict=True):
        for rows in heads:
            assert len(rows) <= BUDGET.tokens
            assert rows.tolist() == sorted(set(rows.tolist()))
            assert rows[-1] == stop - 1
    found = decode_attention(cached, queries, tables, read, 0.3)
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-5, atol=1e-6)


def test_a_gpu_computes_the_same_and_everything_lies_on_it(cached: tuple[Tensor, Tensor], tables: list[Tensor]) -> None:
    method = make_method("token_select", {})
    drawn = torch.randn(2, KV_HEADS * GROUP, HEAD_DIM, generator=torch.Generator().manual_seed(5))

    def computed(placed: Callable[[Tensor], Tensor]) -> Tensor:
        there, queries = (placed(cached[0]), placed(cached[1])), placed(drawn)
        blocks = [placed(table) for table in tables[:2]]
        read: list[list[Tensor]] = []
        for index, length in enumerate(LENGTHS[:2]):
            rows = PagedRows(*there)
            rows.point(blocks[index], length)
            query = queries[index, :, None]
            call = Call(rows=rows, queries=query, start=length - 1, budget=BUDGET, scale=0.3, phase="decode")
            (selection,) = method.select(call)
            read.append(rows_read(selection, BUDGET.sinks, length, KV_HEADS, queries.device))
        return decode_attention(there, queries, blocks, read, 0.3)

    here, there = everywhere(computed)
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)


def test_heads_and_sequences_that_read_differently_many_rows(
    cached: tuple[Tensor, Tensor], tables: list[Tensor]
) -> None:
    queries = torch.randn(2, KV_HEADS * GROUP, HEAD_DIM, generator=torch.Generator().manual_seed(3))
    rows = [[torch.tensor([5]), torch.arange(40)], [torch.tensor([0, 17, 96]), torch.tensor([3, 4])]]
    found = decode_attention(cached, queries, tables[:2], rows, 0.5)
    for index in range(2):
        for head in range(KV_HEADS):
            picked = rows[index][head]
            at = tables[index][picked // BLOCK], head, picked % BLOCK
            query = queries[index, head * GROUP : (head + 1) * GROUP]
            weights = torch.softmax(query @ cached[0][at].T * 0.5, dim=-1)
            torch.testing.assert_close(
                found[index, head * GROUP : (head + 1) * GROUP], weights @ cached[1][at], rtol=1e-5, atol=1e-6
            )


def test_one_sequence_reads_no_more_than_its_rows_of_the_cache(
    cached: tuple[Tensor, Tensor], tables: list[Tensor]
) -> None:
    keys, values = (each.clone() for each in cached)
    rows = [[torch.tensor([0, 20, 199])] * KV_HEADS]
    queries = torch.randn(1, KV_HEADS * GROUP, HEAD_DIM, generator=torch.Generator().manual_seed(4))
    wanted = decode_attention((keys, values), queries, tables[:1], rows, 0.3)
    unread = torch.ones(60, BLOCK, dtype=torch.bool)
    unread[tables[0][rows[0][0] // BLOCK], rows[0][0] % BLOCK] = False
    for each in (keys, values):
        each.transpose(1, 2)[unread] = float("nan")
    assert torch.equal(decode_attention((keys, values), queries, tables[:1], rows, 0.3), wanted)
