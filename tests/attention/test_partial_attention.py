"""The kernel against its plain twin, and merging parts."""

import pytest
import torch
from torch import Tensor

from deepedu.attention.kernels import partial_attention as kernels
from deepedu.attention.kernels.partial_attention import merge, partial_attention, plain_partial_attention

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def tensors(q_len: int, kv_len: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    noise = torch.Generator().manual_seed(0)
    shapes = [(2, 3, q_len, 64), (2, 3, kv_len, 64), (2, 3, kv_len, 64)]
    queries, keys, values = (torch.randn(shape, generator=noise).to(dtype) for shape in shapes)
    return queries, keys, values


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (1, 513), (7, 63), (128, 1000), (513, 111)])
def test_the_kernel_is_its_plain_twin(dtype: torch.dtype, q_len: int, kv_len: int) -> None:
    arguments = tensors(q_len, kv_len, dtype)
    out, lse = partial_attention(*arguments, 0.125)
    plain_out, plain_lse = plain_partial_attention(*arguments, 0.125)
    assert out.dtype == plain_out.dtype == dtype
    assert lse.dtype == plain_lse.dtype == torch.float32
    torch.testing.assert_close(out, plain_out, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(lse, plain_lse, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("length", [1, 2, 63, 128, 129])
def test_the_causal_kernel_is_its_plain_twin(dtype: torch.dtype, length: int) -> None:
    arguments = tensors(length, length, dtype)
    out, lse = partial_attention(*arguments, 0.125, causal=True)
    plain_out, plain_lse = plain_partial_attention(*arguments, 0.125, causal=True)
    torch.testing.assert_close(out, plain_out, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(lse, plain_lse, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    assert torch.equal(out[:, :, 0], arguments[2][:, :, 0])


def test_the_twin_is_plain_softmax_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = tensors(50, 50)
    scores = queries @ keys.transpose(-1, -2) * 0.125
    seen = torch.ones(50, 50, dtype=torch.bool).tril()
    expected = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ values
    for limit in (1, 2000, 1 << 26):
        monkeypatch.setattr(kernels, "PLAIN_SCORES", limit)
        out, lse = plain_partial_attention(queries, keys, values, 0.125, causal=True)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(lse[..., -1], torch.logsumexp(scores[..., -1, :], -1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cut", [1, 100, 199])
@pytest.mark.parametrize("shift", [0.0, 40.0, -40.0])
def test_merged_parts_are_the_whole(cut: int, shift: float) -> None:
    # One part may outweigh the other by any amount.
    queries, keys, values = tensors(20, 200)
    keys[:, :, :cut] += shift * queries.mean(2, keepdim=True) / 8
    first = partial_attention(queries, keys[:, :, :cut], values[:, :, :cut], 0.125)
    second = partial_attention(queries, keys[:, :, cut:], values[:, :, cut:], 0.125)
    whole = plain_partial_attention(queries, keys, values, 0.125)
    for merged in (merge(first, second), merge(second, first)):
        torch.testing.assert_close(merged[0], whole[0], atol=2e-5, rtol=2e-5)
        torch.testing.assert_close(merged[1], whole[1], atol=2e-5, rtol=2e-5)


def test_merging_three_parts_in_any_order() -> None:
    queries, keys, values = tensors(20, 300)
    cuts = [slice(0, 10), slice(10, 220), slice(220, 300)]
    parts = [partial_attention(queries, keys[:, :, cut], values[:, :, cut], 0.125) for cut in cuts]
    one, other = merge(merge(parts[0], parts[1]), parts[2]), merge(parts[2], merge(parts[1], parts[0]))
    whole = partial_attention(queries, keys, values, 0.125)
    torch.testing.assert_close(one[0], whole[0], atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(one[0], other[0], atol=2e-5, rtol=2e-5)
