"""Our own server as one of the servers that a bench measures: the same requests, in a process like the others'."""

import io
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra 'engine'")
pytest.importorskip("psutil", reason="needs the extra 'bench'")

from rich.console import Console

from deepedu.base.config import EngineSettings, Settings
from deepedu.bench import peers
from deepedu.bench.run import BenchContext


def test_our_own_server_is_measured_like_the_others(tiny_folder: Path, tmp_path: Path) -> None:
    engine = EngineSettings(model=str(tiny_folder), device="cpu", cache_dir=tmp_path / "cache", kv_memory_gb=0.2)
    context = BenchContext(
        Settings(engine=engine), tmp_path, options={"peers": "own"}, console=Console(file=io.StringIO())
    )
    skipped: dict[str, str] = {}
    with peers.running(context, skipped, window_tokens=64) as found:
        assert skipped == {}
        (own,) = found
        before = own.cpu_s()
        # The same prompt twice: the second time nothing of it may be known already, or it would say so.
        for _ in range(2):
            reply = own.complete(range(5, 55), 3)
            assert 1 <= reply.tokens <= 3
            assert reply.prompt_tokens == 50
        assert own.cpu_s() > before
    assert own.version.startswith("deepedu ")
