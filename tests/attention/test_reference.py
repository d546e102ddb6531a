"""The reference itself, against torch and by hand."""

from dataclasses import replace

import torch
from made_sequences import Made, made

from deepedu.attention import reference
from deepedu.attention.base import Budget, Selection
from deepedu.attention.reference import TensorRows


def test_dense_is_what_torch_computes() -> None:
    call = made(40).call(0, 40)
    keys, values = (each.repeat_interleave(7, 0) for each in next(call.rows.parts(0, 40)))
    scores = call.queries @ keys.transpose(1, 2) * call.scale
    weights = torch.softmax(scores.masked_fill(~torch.ones(40, 40, dtype=torch.bool).tril(), float("-inf")), dim=-1)
    torch.testing.assert_close(reference.dense(call), (weights @ values).transpose(0, 1), atol=1e-5, rtol=1e-5)


def test_rows_that_a_query_reads() -> None:
    call = made(40, heads=4, kv_heads=2).call(30, 40, Budget(tokens=20, sinks=2, local=5))
    selection = Selection(0, 10, 25, (torch.tensor([3, 9]), torch.tensor([7])))
    assert reference.rows_read(call, selection, 4, 0).tolist() == [0, 1, 3, 9, *range(25, 35)]
    assert reference.rows_read(call, selection, 0, 2).tolist() == [0, 1, 7, *range(25, 31)]
    exact = replace(selection, exact_heads=(2,))
    assert reference.rows_read(call, exact, 0, 1).tolist() == [0, 1, 3, 9, *range(25, 31)]
    assert reference.rows_read(call, exact, 0, 2).tolist() == list(range(31))
    assert reference.rows_read(call, Selection(0, 10, 0), 4, 0).tolist() == list(range(35))
    assert reference.rows_read(call, Selection(0, 10, 1), 0, 0).tolist() == list(range(31))


def test_values_of_rows_that_are_not_read_do_not_matter() -> None:
    # All keys alike: the output is the plain mean of the values that are read.
    values = torch.arange(12.0).view(1, 12, 1)
    sequence = Made(TensorRows(torch.zeros(1, 12, 1), values), torch.ones(1, 12, 1))
    call = sequence.call(10, 12, Budget(tokens=8, sinks=1, local=2))
    out = reference.selective(call, [Selection(0, 2, 9, (torch.tensor([4]),))])
    torch.testing.assert_close(out.flatten(), torch.tensor([(0 + 4 + 9 + 10) / 4, (0 + 4 + 9 + 10 + 11) / 5]))


def test_rows_in_tensors() -> None:
    sequence = made(20, heads=4, kv_heads=2)
    keys, values = next(sequence.rows.parts(0, 20))
    rows = torch.tensor([1, 5, 6])
    both = sequence.rows.gather(rows)
    assert torch.equal(both[0], keys[:, rows])
    one = sequence.rows.gather(rows, 1)
    assert torch.equal(one[1], values[1:2, rows])
    assert (sequence.rows.length, sequence.rows.kv_heads, sequence.rows.head_dim) == (20, 2, 8)
    assert torch.equal(made(120, pieces=True).rows.keys(3, 117), made(120).rows.keys(3, 117))
