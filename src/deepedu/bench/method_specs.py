"""Methods as a command line names them, and the model that the benches of the engine run on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from deepedu.base.config import EngineSettings
from deepedu.base.errors import ConfigError
from deepedu.bench.longcontext.haystack import SCHOOL_TEXTS
from deepedu.bench.run import BenchContext

if TYPE_CHECKING:
    from deepedu.attention.base import Budget, Method
    from deepedu.engine.weights import LoadedModel

WeightsSetting = Literal["auto", "full", "int8"]


@dataclass(frozen=True)
class MethodSpec:
    """``name:field=value:...``; the field ``k`` is the number of selected tokens, the rest are the method's own.

    ``label@name:...`` gives it a name of its own in the figures.
    """

    text: str

    @property
    def name(self) -> str:
        """The method's name."""
        return self.text.rpartition("@")[2].partition(":")[0]

    @property
    def figure(self) -> str:
        """As it stands in the name of a figure: its label, or ``a_b_1`` for ``a:b=1``."""
        label, at, _ = self.text.partition("@")
        text = label if at else self.text
        return "_".join(filter(None, "".join(each if each.isalnum() else "_" for each in text).split("_")))

    def fields(self) -> dict[str, str]:
        """Fields given in the text.

        Raises:
            ConfigError: no ``field=value``.
        """
        found: dict[str, str] = {}
        for piece in self.text.rpartition("@")[2].split(":")[1:]:
            key, equals, value = piece.partition("=")
            if not equals:
                raise ConfigError(f"methods: expected name:field=value, came {self.text!r}")
            found[key] = value
        return found

    def make(self, settings: EngineSettings, k: int | None = None) -> "tuple[Method, Budget]":
        """The method and its budget: ``k`` selected tokens, those of the text, or those of the settings.

        Raises:
            UnknownMethod, ConfigError, BudgetError: as it is written.
        """
        from deepedu.attention.base import Budget
        from deepedu.attention.registry import make_method

        fields = self.fields()
        told = fields.pop("k", None)
        if told is not None and not told.isdigit():
            raise ConfigError(f"methods: k is a number of tokens, came {told!r}")
        budget = Budget(settings.budget_tokens)
        count = int(told) if told is not None else k
        if count is not None:
            budget = replace(budget, tokens=budget.sinks + budget.local + count)
        return make_method(self.name, fields), budget


def method_specs(text: str) -> tuple[MethodSpec, ...]:
    """Methods separated by commas, each once."""
    return tuple(MethodSpec(each.strip()) for each in dict.fromkeys(text.split(",")) if each.strip())


def load_model(context: BenchContext, weights: WeightsSetting | None = None) -> "LoadedModel":
    """The model of the settings; ``weights`` other than the settings' own."""
    from deepedu.engine import weights as source

    settings = context.settings.engine
    if settings.threads:
        import torch

        torch.set_num_threads(settings.threads)
    with context.console.status(f"loading {settings.model} ({weights or settings.weights})"):
        return source.load(
            source.resolve(settings.model, settings.cache_dir),
            source.served_names(settings.model),
            device=settings.device,
            dtype=settings.dtype,
            weights=weights or settings.weights,
            max_window_tokens=settings.max_window_tokens,
        )


def school_text_ids(context: BenchContext, tokenizer: Any, count: int) -> Sequence[int]:
    """Tokens of Vietnamese school articles, drawn with the run's seed.

    Raises:
        ConfigError: the shared data is not there, or too short.
    """
    files = sorted((context.data_dir / SCHOOL_TEXTS).rglob("*.txt"))
    random.Random(context.seed).shuffle(files)
    ids: list[int] = []
    encode = tokenizer.backend_tokenizer.encode
    for file in files:
        ids += encode(file.read_text(encoding="utf-8") + "\n\n").ids
        if len(ids) >= count:
            return ids[:count]
    raise ConfigError(f"{context.data_dir / SCHOOL_TEXTS} holds {len(ids)} tokens, {count} are needed")


def length_label(length: int) -> str:
    """``16k`` for 16384."""
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def read_lengths(text: str) -> tuple[int, ...]:
    """``4k,16k`` as numbers.

    Raises:
        ConfigError: something else.
    """
    found: list[int] = []
    for piece in text.split(","):
        number = piece.strip().lower()
        factor = 1024 if number.endswith("k") else 1
        number = number.removesuffix("k")
        if not number.isdigit() or int(number) == 0:
            raise ConfigError(f"lengths: expected tokens such as 4k,16k, came {text!r}")
        found.append(int(number) * factor)
    return tuple(found)


def read_host(text: str) -> Literal["own", "vllm"]:
    """Where methods run.

    Raises:
        ConfigError: there is no such host.
    """
    if text not in ("own", "vllm"):
        raise ConfigError(f"host: expected own or vllm, came {text!r}")
    return cast('Literal["own", "vllm"]', text)


def read_weights(text: str) -> WeightsSetting:
    """A weights setting.

    Raises:
        ConfigError: there is no such setting.
    """
    if text not in ("auto", "full", "int8"):
        raise ConfigError(f"weights: expected auto, full or int8, came {text!r}")
    return cast("WeightsSetting", text)
