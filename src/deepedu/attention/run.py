"""Runs a method over one call: the phases it does not have and the question's own tokens attend densely."""

from dataclasses import replace

import torch
from torch import Tensor

from deepedu.attention.base import Call, Method
from deepedu.attention.sparse import attend_dense


def attend(method: Method, call: Call, exact_from: int | None = None) -> Tensor:
    """Attention output of the call's queries, [q_len, heads, head_dim].

    Args:
        method: the method.
        call: the run of queries.
        exact_from: row from which queries attend densely; None: none of them.
    """
    if call.phase not in method.phases:
        return attend_dense(call)
    if call.phase == "decode" or exact_from is None or exact_from >= call.stop:
        return method.attend(call)
    if exact_from <= call.start:
        return attend_dense(call)
    split = exact_from - call.start
    before = replace(call, queries=call.queries[:, :split], last=False)
    exact = replace(call, queries=call.queries[:, split:], start=exact_from)
    return torch.cat([method.attend(before), attend_dense(exact)])
