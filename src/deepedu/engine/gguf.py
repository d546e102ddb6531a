"""GGUF files, converted once into a plain Hugging Face folder that loads in seconds.

The dequantised weights are kept as float16. That rounds each by at most 2**-11 of its size (measured over all tensors
of the demo model: 0.00098 at most, among weights up to 211), far below the quantisation's own error, and halves the
disk space. Converting takes at most about 2.4 times the folder's size in memory (measured: 3.0 GB for demo's 1.3 GB,
5.5 GB for demo-1.5b's 3.6 GB).
"""

import importlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from deepedu.base.errors import ModelDamaged, ModelNotAvailable, Unsupported
from deepedu.engine.progress import Progress, ProgressSink, ignore

logger = logging.getLogger(__name__)

# Raise it when a change here makes folders converted before wrong.
FORMAT_VERSION = 1
MAGIC = b"GGUF"


def converted_folder(sha256: str, cache_dir: Path) -> Path:
    """Where the conversion of the GGUF file with this digest is kept."""
    return cache_dir / "converted" / f"{sha256[:16]}-{FORMAT_VERSION}"


def convert(gguf: Path, sha256: str, cache_dir: Path, *, progress: ProgressSink = ignore) -> Path:
    """The Hugging Face folder made from ``gguf``; made now if it is not in ``cache_dir`` yet.

    Two processes may ask at once: one converts, the other waits.

    Raises:
        ModelDamaged: not a GGUF file, or a truncated one.
        ModelNotAvailable: no room on the disk.
        Unsupported: an architecture or quantisation that cannot be read.
    """
    folder = converted_folder(sha256, cache_dir)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock"), progress, f"conversion of {gguf.name}"):
        if folder.is_dir():
            return folder
        check_magic(gguf)
        temporary = folder.with_name(folder.name + ".partial")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            _write(gguf, sha256, temporary, progress)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        temporary.rename(folder)
    return folder


def check_magic(gguf: Path) -> None:
    """Raises ModelDamaged unless the file begins as GGUF files do."""
    with gguf.open("rb") as file:
        start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ModelDamaged(f"{gguf} is not a GGUF file: it begins with {start!r} instead of {MAGIC!r}; fetch it again")


def _write(gguf: Path, sha256: str, folder: Path, progress: ProgressSink) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet_transformers("convert", progress):
        progress(Progress("convert", 0, None, "tensors", "reading"))
        try:
            model = AutoModelForCausalLM.from_pretrained(
                str(gguf.parent),
                gguf_file=gguf.name,
                dtype=torch.float16,
                quantization_config=GgufConfig(dequantize=True),
                local_files_only=True,
            )
            progress(Progress("convert", 0, None, "tensors", "tokenizer"))
            tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)
        except (NotImplementedError, ImportError) as error:
            raise Unsupported(f"{gguf.name} cannot be converted: {error}") from error
        except Exception as error:
            # A file cut at one place or another makes the readers stumble in as many ways.
            if "not supported" in str(error):
                raise Unsupported(f"{gguf.name} cannot be converted: {error}") from error
            raise ModelDamaged(
                f"{gguf} cannot be read as a GGUF model, it is probably truncated: fetch it again ({error})"
            ) from error
        # The weights are plain numbers now; what says otherwise would keep the folder from being saved or loaded.
        vars(model).pop("hf_quantizer", None)
        vars(model.config).pop("quantization_config", None)
        progress(Progress("convert", 0, None, "tensors", "writing"))
        try:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        except OSError as error:
            raise ModelNotAvailable(f"the converted model could not be written to {folder}: {error}") from error
    (folder / "source.json").write_text(
        json.dumps({"gguf": gguf.name, "sha256": sha256, "format": FORMAT_VERSION}) + "\n", encoding="utf-8"
    )
    for path in folder.iterdir():
        _sync(path)


def _sync(path: Path) -> None:
    # A rename must not become durable before the bytes it points at.
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def locked(path: Path, progress: ProgressSink, what: str) -> Iterator[None]:
    """Holds an inter-process lock; says so while another process holds it."""
    lock = FileLock(path)
    waited_s = 0
    while True:
        try:
            lock.acquire(timeout=1 if waited_s else 0)
            break
        except Timeout:
            waited_s += 1
            progress(Progress("wait", waited_s, None, "steps", f"another process is at the {what}"))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def quiet_transformers(stage: Any, progress: ProgressSink) -> Iterator[None]:
    """Turns the library's own progress bars into events and its chatter off; all as before afterwards."""
    from transformers.utils import logging as library

    class Bar:
        """The part of tqdm's interface that loading uses."""

        def __init__(self, iterable: Any = None, *_: Any, total: int | None = None, desc: str = "", **__: Any) -> None:
            self.iterable, self.desc, self.n = iterable, str(desc or ""), 0
            self.total = total if total is not None or iterable is None else _length(iterable)

        def __iter__(self) -> Iterator[Any]:
            for item in self.iterable:
                yield item
                self.update()

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, n: int = 1) -> None:
            self.n += n
            progress(Progress(stage, self.n, self.total, "tensors", self.desc))

        def __getattr__(self, name: str) -> Any:
            # set_description, set_postfix, refresh, close...: nothing to draw.
            if name.startswith("_"):
                raise AttributeError(name)
            return lambda *_, **__: None

    level = library.get_verbosity()
    previous = library.set_tqdm_hook(lambda _factory, args, kwargs: Bar(*args, **kwargs))
    library.set_verbosity_error()
    with _patched_gguf_bar(Bar):
        try:
            yield
        finally:
            library.set_tqdm_hook(previous)
            library.set_verbosity(level)


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except TypeError:
        return None


@contextmanager
def _patched_gguf_bar(bar: Any) -> Iterator[None]:
    # The GGUF reader draws with tqdm itself, past the library's hook.
    reader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    original = getattr(reader, "tqdm", None)
    if original is None:
        yield
        return
    reader.tqdm = bar
    try:
        yield
    finally:
        reader.tqdm = original
