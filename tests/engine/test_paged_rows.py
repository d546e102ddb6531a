"""Rows in the blocks of a shared cache are read as rows that lie side by side."""

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.attention.base import Budget, Call  # noqa: E402
from deepedu.attention.registry import make_method  # noqa: E402
from deepedu.attention.run import attend  # noqa: E402
from deepedu.engine.paged_rows import PagedRows  # noqa: E402
from deepedu.engine.rows import LayerRows, RowBlock  # noqa: E402

KV_HEADS, BLOCK, HEAD_DIM, LENGTH = 2, 16, 8, 200


def both() -> tuple[PagedRows, LayerRows]:
    """The same rows scattered over blocks, keys transposed within each, and side by side."""
    draw = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(KV_HEADS, LENGTH, HEAD_DIM, generator=draw) for _ in range(2))
    plain = LayerRows(
        RowBlock.allocate(KV_HEADS, LENGTH, HEAD_DIM, torch.float32, torch.device("cpu"), "model"), None, 0
    )
    plain.append(keys, values)
    blocks = torch.randperm(40, generator=draw)[: -(-LENGTH // BLOCK)]
    cached_keys = torch.full((40, KV_HEADS, HEAD_DIM, BLOCK), float("nan")).transpose(2, 3)
    cached_values = torch.full((40, KV_HEADS, BLOCK, HEAD_DIM), float("nan"))
    for row in range(LENGTH):
        cached_keys[blocks[row // BLOCK], :, row % BLOCK] = keys[:, row]
        cached_values[blocks[row // BLOCK], :, row % BLOCK] = values[:, row]
    paged = PagedRows(cached_keys, cached_values)
    # A table is as wide as the longest request's; what follows its own blocks is anything.
    paged.point(torch.cat([blocks, torch.tensor([0, 0])]), LENGTH)
    return paged, plain


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("kv_head", [None, 1])
def test_gather(kv_head: int | None, copied: bool) -> None:
    paged, plain = both()
    if copied:
        list(paged.parts(0, 1))
    rows = torch.tensor([0, 15, 16, 100, 199])
    for found, wanted in zip(paged.gather(rows, kv_head), plain.gather(rows, kv_head), strict=True):
        assert torch.equal(found, wanted)


def test_runs_and_summaries() -> None:
    paged, plain = both()
    assert paged.length == plain.length == LENGTH
    for start, stop in ((0, 0), (0, LENGTH), (7, 130), (LENGTH, LENGTH)):
        ((keys, values),) = paged.parts(start, stop)
        assert torch.equal(paged.keys(start, stop), keys)
        wanted = list(plain.parts(start, stop))
        assert torch.equal(keys, torch.cat([each for each, _ in wanted], dim=1))
        assert torch.equal(values, torch.cat([each for _, each in wanted], dim=1))
    for kind in ("mean", "min", "max"):
        assert torch.equal(paged.summaries(kind, 32, 150), plain.summaries(kind, 32, 150))


def test_block_by_block_nothing_is_copied() -> None:
    paged, plain = both()
    paged.point(paged._blocks, LENGTH, by_block=True)
    for start, stop in ((0, 0), (0, LENGTH), (7, 130), (16, 32), (LENGTH, LENGTH)):
        pieces = list(paged.parts(start, stop))
        assert all(piece.shape[1] <= BLOCK for pair in pieces for piece in pair)
        (wanted,) = plain.parts(start, stop)
        for which in (0, 1):
            assert torch.equal(torch.cat([pair[which] for pair in pieces], dim=1), wanted[which])
        assert torch.equal(paged.keys(start, stop), plain.keys(start, stop))
    for kind in ("min", "max"):
        assert torch.equal(paged.summaries(kind, 32, 150), plain.summaries(kind, 32, 150))
    assert paged._joined == [None, None]


def test_what_is_selected_is_read_without_a_copy_of_the_rest() -> None:
    paged, _ = both()
    paged.gather(torch.arange(50))
    assert paged._joined == [None, None]
    paged.keys(0, 10)
    assert paged._joined[1] is None, "values are not needed to choose"
    paged.release()
    assert paged._joined == [None, None]


@pytest.mark.parametrize(
    "name",
    ["dense", "token_select", "quest", "twilight", "chunk_rolling", "flex_prefill", "sink_window", "streaming_pages"],
)
def test_methods_read_both_alike(name: str) -> None:
    fields = {"exact_tokens": "8"} | ({"block_tokens": "16"} if name in ("token_select", "chunk_rolling") else {})
    fields |= {"lead_tokens": "4"} if name == "chunk_rolling" else {}
    queries = torch.randn(4, 64, HEAD_DIM, generator=torch.Generator().manual_seed(3))
    outputs = [
        attend(
            make_method(name, fields),
            Call(rows=rows, queries=queries, start=LENGTH - 64, budget=Budget(60, 4, 16), scale=0.3),
            LENGTH - 8,
        )
        for rows in both()
    ]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-6, atol=1e-6)
