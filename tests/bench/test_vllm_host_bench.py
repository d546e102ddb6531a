"""The bench of our methods inside vLLM, with servers that are none."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra 'engine'")

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.bench import peers, vllm_host
from deepedu.bench.peer import Streamed
from deepedu.bench.run import BenchContext
from deepedu.bench.tasks import ttft


class Host:
    """Twice as fast with a method inside."""

    version = "vllm 0.32.0"

    def __init__(self, name: str, asked: list[tuple[str, int, int]]) -> None:
        self.name, self._asked = name, asked

        self._spent = 0.0

    def cpu_s(self) -> float:
        return self._spent

    def complete(self, ids: Sequence[int], tokens: int) -> Streamed:
        self._asked.append((self.name, len(ids), tokens))
        self._spent += len(ids) / 1024
        return Streamed(len(ids) / (2 if self.name != "vllm" else 1), 0.0, tokens)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []

    @contextmanager
    def vllm_with(_: Any, label: str, attention: str | None, *, window_tokens: int) -> Iterator[Host]:
        assert window_tokens >= 4096
        assert (attention is None) == (label == "vllm")
        if attention is not None:
            assert json.loads(attention)["fields"] == {"tau": "0.9"}
        yield Host(label, found)

    @contextmanager
    def running(context: BenchContext, skipped: dict[str, str], *, window_tokens: int) -> Iterator[list[Host]]:
        assert window_tokens >= 4096
        names = peers.wanted(context.options)
        skipped |= {name: "not installed" for name in names if name == "llamacpp"}
        yield [Host(name, found) for name in names if name not in skipped]

    monkeypatch.setattr(peers, "vllm_with", vllm_with)
    monkeypatch.setattr(peers, "running", running)
    monkeypatch.setattr(vllm_host, "school_text_ids", lambda _context, _tokenizer, count: range(count))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda _: None)
    monkeypatch.setattr("deepedu.engine.weights.resolve", lambda *_: Path("model"))
    return found


def context(**options: str) -> BenchContext:
    return BenchContext(Settings(), Path("data"), options={"host": "vllm", "rounds": "1", **options})


def test_both_are_asked_in_turn_and_compared(asked: list[tuple[str, int, int]]) -> None:
    result = ttft.run(context(methods="ours@chunk_rolling:tau=0.9", lengths="4k,8k", at_once="yes"))
    assert asked[:6] == [
        ("vllm", 2048, 1),
        ("ours", 2048, 1),
        ("vllm", 4096, 1),
        ("ours", 4096, 1),
        ("vllm", 8192, 1),
        ("ours", 8192, 1),
    ]
    assert sorted(asked[6:]) == [("ours", 4096, 8)] * 8 + [("vllm", 4096, 8)] * 8
    assert result.figures["ttft_ratio_to_vllm_8k"] == 0.5
    assert result.figures["ttft_s_vllm_4k"] == 4096
    assert result.figures["wall_ratio_to_vllm_8_at_once"] > 0
    assert result.details["versions"] == {"vllm": "vllm 0.32.0", "ours": "vllm 0.32.0"}


def test_other_servers_are_asked_in_the_same_rounds(asked: list[tuple[str, int, int]]) -> None:
    result = ttft.run(context(methods="ours@chunk_rolling:tau=0.9", lengths="4k", peers="own,vllm,llamacpp"))
    # vLLM itself is there anyway.
    assert [name for name, length, _ in asked if length == 4096] == ["vllm", "ours", "own"]
    assert result.figures["cpu_s_own_4k"] == result.figures["cpu_s_vllm_4k"] == 4.0
    assert result.details["peers_skipped"] == {"llamacpp": "not installed"}


def test_what_cannot_be_asked_for(asked: list[tuple[str, int, int]]) -> None:
    with pytest.raises(ConfigError, match="own or vllm"):
        ttft.run(context(host="tgi"))
    with pytest.raises(ConfigError, match="leave k away"):
        ttft.run(context(methods="chunk_rolling:k=512"))
    assert asked == []
