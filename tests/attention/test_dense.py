"""Dense attention, by parts, is the plain one."""

import pytest
import torch
from made_sequences import made

from deepedu.attention import reference
from deepedu.attention.methods.dense import Dense
from deepedu.attention.sparse import attend_dense


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 128), (0, 129), (0, 300), (299, 300), (100, 300), (127, 300)])
@pytest.mark.parametrize("pieces", [False, True])
def test_it_is_plain_attention(start: int, stop: int, pieces: bool) -> None:
    call = made(stop, heads=4, kv_heads=2, pieces=pieces).call(start, stop)
    torch.testing.assert_close(Dense().attend(call), reference.dense(call), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(attend_dense(call), reference.dense(call), atol=1e-5, rtol=1e-5)


def test_it_is_what_torch_computes() -> None:
    sequence = made(200)
    call = sequence.call(0, 200)
    keys, values = next(sequence.rows.parts(0, 200))
    whole = torch.nn.functional.scaled_dot_product_attention(
        call.queries[None], keys[None], values[None], is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(Dense().attend(call), whole[0].transpose(0, 1), atol=1e-5, rtol=1e-5)


def test_it_keeps_every_row() -> None:
    assert not Dense().evicts
    assert Dense().keep(made(300).call(0, 300)) is None
