"""Rows in blocks read back as they were written, wherever the blocks end."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from deepedu.engine.rows import GROWTH_ROWS, READ_ROWS, LayerRows, RowBlock  # noqa: E402

KV_HEADS, HEAD_DIM = 2, 8


def block(capacity: int, kind: Any = "model", dtype: Any = torch.float32) -> RowBlock:
    return RowBlock.allocate(KV_HEADS, capacity, HEAD_DIM, dtype, torch.device("cpu"), kind)


def made(count: int, seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    shape = (KV_HEADS, count, HEAD_DIM)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def read(rows: LayerRows, start: int, stop: int) -> tuple[Any, Any]:
    pieces = list(rows.parts(start, stop))
    return torch.cat([k for k, _ in pieces], dim=1), torch.cat([v for _, v in pieces], dim=1)


def three_pieces(total: int, shared: int, own: int, kind: Any = "model") -> tuple[LayerRows, Any, Any]:
    """Rows behind a prefix of ``shared``, in an own block of ``own`` and one that was added."""
    keys, values = made(total)
    prefix = block(shared + 5, kind)
    prefix.write(keys[:, :shared], values[:, :shared])
    # More than belongs to this sequence.
    prefix.write(torch.full((KV_HEADS, 5, HEAD_DIM), 9.0), torch.full((KV_HEADS, 5, HEAD_DIM), 9.0))
    rows = LayerRows(block(own, kind), prefix, shared)
    rows.append(keys[:, shared:], values[:, shared:])
    return rows, keys, values


def test_appended_rows_fill_blocks_and_add_more() -> None:
    keys, values = made(3 * GROWTH_ROWS)
    rows = LayerRows(block(10))
    for start, stop in (
        (0, 7),
        (7, 8),
        (8, 10),
        (10, 11),
        (11, GROWTH_ROWS + 500),
        (GROWTH_ROWS + 500, 3 * GROWTH_ROWS),
    ):
        rows.append(keys[:, start:stop], values[:, start:stop])
        assert rows.length == rows.positions == stop
    assert len(rows.own_blocks) > 2
    found = read(rows, 0, rows.length)
    assert torch.equal(found[0], keys)
    assert torch.equal(found[1], values)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_parts_and_gather_read_over_all_pieces(data: st.DataObject) -> None:
    shared, own, total = data.draw(st.integers(0, 20)), data.draw(st.integers(1, 20)), data.draw(st.integers(41, 60))
    rows, keys, values = three_pieces(total, shared, own)
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    assert torch.equal(read(rows, start, stop)[0], keys[:, start:stop])
    assert torch.equal(read(rows, start, stop)[1], values[:, start:stop])
    picked = torch.tensor(sorted(data.draw(st.sets(st.integers(0, total - 1)))), dtype=torch.int64)
    for head in (None, 0, 1):
        wanted = slice(None) if head is None else slice(head, head + 1)
        found = rows.gather(picked, head)
        assert torch.equal(found[0], keys[wanted][:, picked])
        assert torch.equal(found[1], values[wanted][:, picked])


def test_a_prefix_is_only_read() -> None:
    keys, values = made(20)
    prefix = block(10)
    prefix.write(keys[:, :10], values[:, :10])
    before = prefix.keys.clone()
    for seed in (1, 2):
        rows = LayerRows(block(10), prefix, 10)
        rows.append(*made(10, seed))
    assert torch.equal(prefix.keys, before)
    assert prefix.used == 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int8_rows_err_by_half_a_step_of_their_scale_at_most(dtype: Any) -> None:
    rows, keys, values = three_pieces(60, 20, 15, "int8")
    for each in (*rows.own_blocks, rows._shared[0][0]):
        each.dtype = dtype
    for found, wanted in zip(read(rows, 0, 60), (keys, values), strict=True):
        assert found.dtype == dtype
        bound = wanted.abs().amax(-1, keepdim=True) / 127 / 2
        # bfloat16 keeps 8 bits of the product.
        rounding = 0 if dtype == torch.float32 else wanted.abs().amax(-1, keepdim=True) / 64
        assert bool(((found.float() - wanted).abs() <= bound + rounding + 1e-6).all())
    picked = torch.tensor([0, 19, 20, 34, 35, 59])
    assert torch.equal(rows.gather(picked)[0], read(rows, 0, 60)[0][:, picked])


def test_int8_rows_of_zeros_and_of_large_numbers_stay_finite() -> None:
    one = block(2, "int8")
    keys = torch.zeros(KV_HEADS, 2, HEAD_DIM)
    keys[:, 1] = 1e30
    one.write(keys, keys)
    torch.testing.assert_close(one.read(0, 2)[0], keys, rtol=1e-2, atol=0)


def test_int8_rows_are_turned_back_in_bounded_pieces() -> None:
    rows = LayerRows(block(2 * READ_ROWS + 3, "int8"))
    rows.append(*made(2 * READ_ROWS + 3))
    assert [k.shape[1] for k, _ in rows.parts(0, rows.length)] == [READ_ROWS, READ_ROWS, 3]


@pytest.mark.parametrize("kind", ["model", "int8"])
def test_a_copy_is_the_same_bit_for_bit(kind: Any) -> None:
    source = block(30, kind)
    source.write(*made(30))
    copy = block(40, kind)
    copy.write(*made(5, seed=1))
    copy.copy_from(source, 3, 30)
    assert copy.used == 32
    assert torch.equal(copy.keys[:, 5:32], source.keys[:, 3:30])
    assert torch.equal(copy.values[:, 5:32], source.values[:, 3:30])
    for found, wanted in zip(copy.read(5, 32), source.read(3, 30), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("kind", ["model", "int8"])
def test_retained_rows_stay_and_positions_go_on(kind: Any) -> None:
    rows, keys, _ = three_pieces(60, 20, 15, kind)
    rows.summaries("mean", 4, 60)
    kept = (torch.tensor([0, 5, 21, 59]), torch.tensor([1, 19, 20, 40]))
    rows.retain(kept)
    assert (rows.length, rows.positions, rows.evicted_rows) == (4, 60, 56)
    found = read(rows, 0, 4)[0]
    wanted = torch.stack([keys[head, kept[head]] for head in range(KV_HEADS)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=0 if kind == "model" else 0.05)
    more = made(1, seed=3)
    rows.append(*more)
    assert (rows.length, rows.positions) == (5, 61)
    # Summaries of rows that are gone are not served.
    page = read(rows, 0, 4)[0].mean(1, keepdim=True)
    torch.testing.assert_close(rows.summaries("mean", 4, 5), page)


def test_bytes_of_a_row() -> None:
    assert block(3).row_bytes == KV_HEADS * 2 * HEAD_DIM * 4
    assert block(3, "int8").row_bytes == KV_HEADS * 2 * (HEAD_DIM + 4)
