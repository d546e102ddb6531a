"""A layer whose heads are parted over two processes is read as by one that holds all of them."""

import multiprocessing
import socket
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

import torch.distributed as dist  # noqa: E402
from torch.multiprocessing.spawn import spawn  # noqa: E402

from deepedu.attention.base import Budget, Call  # noqa: E402
from deepedu.attention.registry import make_method  # noqa: E402
from deepedu.attention.run import attend  # noqa: E402
from deepedu.engine.rows import LayerRows, RowBlock  # noqa: E402

HEADS, KV_HEADS, HEAD_DIM, LENGTH, QUERIES = 8, 4, 8, 256, 96
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "token_select": ("token_select", {"block_tokens": "16"}),
    "as published": (
        "chunk_rolling",
        {
            "block_tokens": "16",
            "heads": "layer",
            "fingerprint": "anchor",
            "similarity": "roped",
            "local": "cluster",
            "tau": "0.2",
            "lead_tokens": "0",
            "max_lost_mass": "1",
            "late_layers": "0",
        },
    ),
    "default": ("chunk_rolling", {"block_tokens": "16", "lead_tokens": "4"}),
    "twilight": ("twilight", {}),
}


def computed(name: str, kv_heads: slice, add_up: Callable[[Any], Any] | None) -> tuple[list[Any], Any]:
    """What the heads of some key/value heads choose and compute: a part of a prompt, then a decode step."""
    draw = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(KV_HEADS, LENGTH + 1, HEAD_DIM, generator=draw)[kv_heads] for _ in range(2))
    # Heads of different loudness: a choice by half of them would be another one.
    queries = torch.randn(HEADS, QUERIES + 1, HEAD_DIM, generator=draw)
    queries *= torch.linspace(0.5, 4, HEADS)[:, None, None]
    group = HEADS // KV_HEADS
    queries = queries[kv_heads.start * group : kv_heads.stop * group]
    method, fields = METHODS[name]
    made = make_method(method, fields)
    rows = LayerRows(
        RowBlock.allocate(len(keys), LENGTH + 1, HEAD_DIM, torch.float32, torch.device("cpu"), "model"), None, 0
    )
    chosen: list[Any] = []
    state: dict[str, Any] = {}
    outputs = []
    for phase, before, count in (("prefill", LENGTH - QUERIES, QUERIES), ("decode", LENGTH, 1)):
        rows.append(keys[:, rows.length : before + count], values[:, rows.length : before + count])
        asked = queries[:, :QUERIES] if phase == "prefill" else queries[:, QUERIES:]
        call = Call(
            rows=rows,
            queries=asked,
            start=before,
            budget=Budget(60, 4, 16),
            scale=0.5,
            phase=phase,  # type: ignore[arg-type]
            state=state,
            add_up=add_up,
        )
        if phase in made.phases:
            chosen += [
                (phase, each.begin, each.local_start, [r.tolist() for r in each.rows]) for each in made.select(call)
            ]
        state.clear()
        outputs.append(attend(made, call))
    return chosen, torch.cat(outputs)


def _one_of_two(rank: int, port: int, found: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

    def add_up(part: Any) -> Any:
        whole = part.clone()
        dist.all_reduce(whole)
        return whole

    half = KV_HEADS // 2
    found[rank] = {name: computed(name, slice(rank * half, (rank + 1) * half), add_up) for name in METHODS}
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def halves() -> list[dict[str, tuple[list[Any], Any]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with multiprocessing.Manager() as manager:
        found = manager.dict()
        spawn(_one_of_two, (port, found), nprocs=2)
        return [found[0], found[1]]


@pytest.mark.parametrize("name", METHODS)
def test_both_halves_choose_and_compute_what_the_whole_does(name: str, halves: list[Any]) -> None:
    chosen, output = computed(name, slice(0, KV_HEADS), None)
    assert any(rows for *_, rows in chosen), "something is chosen"
    for one, other, whole in zip(halves[0][name][0], halves[1][name][0], chosen, strict=True):
        assert one[:3] == other[:3] == whole[:3]
        # One choice for all heads is the same in both; one for each key/value head is that of its own.
        assert (one[3] == other[3] == whole[3]) if len(whole[3]) <= 1 else (one[3] + other[3] == whole[3])
    parts = torch.cat([halves[0][name][1], halves[1][name][1]], dim=1)
    torch.testing.assert_close(parts, output, rtol=1e-5, atol=1e-5)


def test_half_of_the_heads_alone_would_choose_otherwise() -> None:
    whole, _ = computed("token_select", slice(0, KV_HEADS), None)
    half, _ = computed("token_select", slice(0, KV_HEADS // 2), None)
    assert whole != half
