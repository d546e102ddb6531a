"""Exact attention over selections: parts that are merged equal one masked softmax."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_sequences import made

from deepedu.attention import reference
from deepedu.attention.base import Budget, Selection
from deepedu.attention.sparse import attend_selections

BUDGET = Budget(tokens=100, sinks=5, local=8)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_selection_is_attended_exactly(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 320), "length")
    start = data.draw(st.integers(0, length - 1), "start")
    cuts = data.draw(st.lists(st.integers(1, length - start), max_size=3).map(set).map(sorted), "cuts")
    call = made(length, heads=4, kv_heads=2, pieces=data.draw(st.booleans(), "pieces")).call(start, length, BUDGET)
    found: list[Selection] = []
    begin = 0
    for end in [*(cut for cut in cuts if cut < length - start), length - start]:
        local_start = data.draw(st.integers(0, start + begin), "local start")
        heads = data.draw(st.sampled_from([0, 1, 2]), "heads") if local_start > 5 else 0
        rows = [sorted(data.draw(st.sets(st.integers(5, local_start - 1), max_size=40), "rows")) for _ in range(heads)]
        chosen = tuple(torch.tensor(each, dtype=torch.int64) for each in rows)
        exact = tuple(sorted(data.draw(st.sets(st.integers(0, 3)), "exact heads")))
        found.append(Selection(begin, end, local_start, chosen, exact))
        begin = end
    torch.testing.assert_close(attend_selections(call, found), reference.selective(call, found), atol=1e-5, rtol=1e-5)


def test_rows_read_are_counted() -> None:
    sequence = made(300, heads=4, kv_heads=2)
    call = sequence.call(200, 300, BUDGET)
    rows = torch.arange(50, 70)
    attend_selections(call, [Selection(0, 40, 0), Selection(40, 100, 180, (rows,))])
    assert sequence.tally.rows_read == 240 + 5 + 20 + 120
    sequence.tally.rows_read = 0
    attend_selections(call, [Selection(0, 100, 180, (rows, rows[:10]))])
    assert sequence.tally.rows_read == 5 + 15 + 120
    # One head of four reads all 300.
    sequence.tally.rows_read = 0
    attend_selections(call, [Selection(0, 100, 180, (rows,), exact_heads=(1,))])
    assert sequence.tally.rows_read == round((300 + 3 * (5 + 20 + 120)) / 4)
    # Neighbouring selections are one run to it, and counted one by one.
    sequence.tally.rows_read = 0
    attend_selections(call, [Selection(0, 50, 180, (rows,), (1,)), Selection(50, 100, 180, (rows,), (1,))])
    expected = [round((stop + 3 * (5 + 20 + stop - 180)) / 4) for stop in (250, 300)]
    assert sequence.tally.rows_read == sum(expected)


@pytest.mark.parametrize(
    "found",
    [
        [Selection(0, 50, 0)],
        [Selection(0, 50, 0), Selection(60, 100, 0)],
        [Selection(0, 100, 201)],
    ],
)
def test_what_is_no_selection_is_our_own_fault(found: list[Selection]) -> None:
    with pytest.raises(AssertionError):
        attend_selections(made(300, heads=4, kv_heads=2).call(200, 300, BUDGET), found)


def test_bfloat16_rows() -> None:
    sequence = made(300, heads=4, kv_heads=2)
    keys, values = next(sequence.rows.parts(0, 300))
    narrow = type(sequence)(type(sequence.rows)(keys.bfloat16(), values.bfloat16()), sequence.queries.bfloat16())
    found = [Selection(0, 100, 180, (torch.arange(50, 70),))]
    out = attend_selections(narrow.call(200, 300, BUDGET), found)
    assert out.dtype == torch.bfloat16
    exact = reference.selective(sequence.call(200, 300, BUDGET), found)
    torch.testing.assert_close(out.float(), exact, atol=3e-2, rtol=3e-2)
