"""Peers: a server of our own making stands for llama.cpp's, so that starting, streaming and stopping are real."""

import io
import json
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from deepedu.base.config import EngineSettings, Settings, load_settings
from deepedu.base.errors import ConfigError, EngineError, Unsupported
from deepedu.bench import peers
from deepedu.bench.run import BenchContext
from deepedu.bench.tasks import decode, ttft

# Stands in for the Python of the peer's environment: says it has xllamacpp, and serves instead of running the script.
FAKE_PYTHON = """#!{python}
import http.server, json, sys, time
if "importlib.metadata" in sys.argv[2]:
    print("{version}"); sys.exit()
mode = "{mode}"
if mode == "dies":
    sys.exit("no such instruction set")
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("{seen}", "a") as file:
            file.write(json.dumps(body) + "\\n")
        if mode == "refuses":
            self.send_response(400); self.end_headers(); self.wfile.write(b"too long"); return
        self.send_response(200); self.end_headers()
        def send(data):
            self.wfile.write(b"data: " + json.dumps(data).encode() + b"\\n\\n"); self.wfile.flush()
        time.sleep(0.1)
        for _ in range(body["max_tokens"]):
            send({{"choices": [{{"text": "a", "finish_reason": None}}]}}); time.sleep(0.02)
        time.sleep(0.5)
        usage = {{"completion_tokens": body["max_tokens"], "prompt_tokens": len(body["prompt"])}}
        send({{"choices": [{{"text": "", "finish_reason": "length"}}]}})
        send({{"choices": [], "usage": usage}})
        self.wfile.write(b"data: [DONE]\\n\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[4])), Handler).serve_forever()
"""


def fake_python(folder: Path, mode: str = "serves", version: str = "xllamacpp 1.2") -> Path:
    file = folder / "python"
    file.write_text(FAKE_PYTHON.format(python=sys.executable, mode=mode, version=version, seen=folder / "seen.jsonl"))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def context_for(folder: Path, **options: str) -> BenchContext:
    model = folder / "model.gguf"
    model.write_bytes(b"GGUF")
    settings = Settings(engine=EngineSettings(model=str(model)))
    return BenchContext(settings, folder, options=options, console=Console(file=io.StringIO()))


def test_a_peer_is_started_streams_and_is_stopped(tmp_path: Path) -> None:
    context = context_for(tmp_path, peers="llamacpp", llamacpp_python=str(fake_python(tmp_path)))
    skipped: dict[str, str] = {}
    with peers.running(context, skipped, window_tokens=64) as found:
        (peer,) = found
        reply = peer.complete(range(50), 4)
    assert (peer.name, peer.version, skipped) == ("llamacpp", "xllamacpp 1.2", {})
    assert (reply.tokens, reply.prompt_tokens) == (4, 50)
    assert 0.09 <= reply.first_token_s < 2
    # The last event carries no token: the pause before it is not part of the speed.
    assert 0.01 <= reply.token_s < 0.12
    body = json.loads((tmp_path / "seen.jsonl").read_text())
    assert body["prompt"] == list(range(50))
    assert body["cache_prompt"] is False
    assert body["temperature"] == 0
    with pytest.raises(EngineError, match="llamacpp did not answer"):
        peer.complete([1], 1)


def test_a_peer_ends_when_the_bench_is_killed(tmp_path: Path) -> None:
    script = "\n".join(
        (
            "import time",
            "from tests_context import context",
            "from deepedu.bench import peers",
            "with peers.running(context, {}, window_tokens=64) as found:",
            "    print(found[0].url, flush=True)",
            "    time.sleep(60)",
        )
    )
    python = fake_python(tmp_path)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "tests_context.py").write_text(
        "from pathlib import Path\nfrom deepedu.base.config import EngineSettings, Settings\n"
        "from deepedu.bench.run import BenchContext\n"
        f"context = BenchContext(Settings(engine=EngineSettings(model={str(tmp_path / 'model.gguf')!r})), "
        f"Path({str(tmp_path)!r}), options={{'peers': 'llamacpp', 'llamacpp_python': {str(python)!r}}})\n"
    )
    bench = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert bench.stdout is not None
    port = int(bench.stdout.readline().rpartition(":")[2])
    assert listens(port)
    bench.kill()
    bench.wait()
    bench.stdout.close()
    end = time.monotonic() + 10
    while listens(port) and time.monotonic() < end:
        time.sleep(0.05)
    assert not listens(port)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("mode", "version", "reason"),
    [("dies", "xllamacpp 1", "no such instruction set"), ("serves", "", "does not have xllamacpp")],
)
def test_a_peer_that_cannot_run_is_left_out_with_the_reason(
    tmp_path: Path, mode: str, version: str, reason: str
) -> None:
    context = context_for(tmp_path, peers="llamacpp", llamacpp_python=str(fake_python(tmp_path, mode, version)))
    skipped: dict[str, str] = {}
    with peers.running(context, skipped, window_tokens=64) as found:
        assert found == []
    assert reason in skipped["llamacpp"]


def test_what_is_not_installed_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPEDU_BENCH_LLAMACPP_PYTHON", raising=False)
    monkeypatch.setenv("DEEPEDU_BENCH_VLLM_PYTHON", str(tmp_path / "nowhere"))
    skipped: dict[str, str] = {}
    with peers.running(context_for(tmp_path, peers="auto"), skipped, window_tokens=64) as found:
        assert found == []
    assert "DEEPEDU_BENCH_LLAMACPP_PYTHON" in skipped["llamacpp"]
    assert "nowhere" in skipped["vllm"]


def test_none_are_wanted_unless_asked_for_and_unknown_ones_are_refused() -> None:
    assert peers.wanted({}) == ()
    assert peers.wanted({"peers": "auto"}) == ("llamacpp", "vllm")
    assert peers.wanted({"peers": "vllm"}) == ("vllm",)
    with pytest.raises(ConfigError, match="'ollama'"):
        peers.wanted({"peers": "ollama"})


def test_a_model_without_a_gguf_file_is_unsupported_by_llamacpp(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="GGUF"):
        peers.gguf_file(EngineSettings(model=str(tmp_path)))


def test_ttft_leaves_out_a_peer_that_fails_and_goes_on(tmp_path: Path) -> None:
    context = context_for(tmp_path, peers="llamacpp", llamacpp_python=str(fake_python(tmp_path, "refuses")))
    skipped: dict[str, str] = {}
    with peers.running(context, skipped, window_tokens=64) as found:
        prefill = ttft._by_peer(found[0], skipped)
        assert prefill([1, 2]) is None
        assert prefill([1, 2]) is None
    assert "400" in skipped["llamacpp"]
    assert "too long" in skipped["llamacpp"]
    assert len((tmp_path / "seen.jsonl").read_text().splitlines()) == 1


def test_decode_measures_a_peer_at_every_length_with_its_cache(tmp_path: Path) -> None:
    context = context_for(tmp_path, peers="llamacpp", llamacpp_python=str(fake_python(tmp_path)))
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    found = decode._measure_peers(context, (32, 64), 3, 2, skipped, versions)
    assert (skipped, versions) == ({}, {"llamacpp": "xllamacpp 1.2"})
    assert [len(found["llamacpp"][length]) for length in (32, 64)] == [2, 2]
    bodies = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert all(body["cache_prompt"] for body in bodies)
    assert [(len(body["prompt"]), body["max_tokens"]) for body in bodies[:3]] == [(32, 1), (32, 4), (32, 4)]


def test_the_settings_let_the_peers_variables_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    # An unknown variable that begins like a setting is an error.
    for name in ("llamacpp", "vllm"):
        monkeypatch.setenv(f"DEEPEDU_BENCH_{name.upper()}_PYTHON", "/usr/bin/python3")
        assert f"DEEPEDU_BENCH_{name.upper()}_PYTHON" in peers.OPTIONS[f"{name}_python"]
    load_settings()
