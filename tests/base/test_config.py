"""Settings: which source wins, and what happens to mistakes."""

from pathlib import Path

import pytest

from deepedu.base.config import describe, load_settings, setting_names
from deepedu.base.errors import ConfigError


def test_every_setting_has_a_description() -> None:
    assert [name for name in setting_names() if not describe(name)] == []


def test_later_sources_win_and_the_origin_tells(tmp_path: Path) -> None:
    file = tmp_path / "deepedu.toml"
    file.write_text('[engine]\nport = 1001\nmodel = "from-file"\nmax_queue = 3\n', encoding="utf-8")
    loaded = load_settings(
        file=file,
        environment={"DEEPEDU_ENGINE_PORT": "1002", "DEEPEDU_ENGINE_MODEL": "from-env", "HOME": "/"},
        flags={"engine.port": 1003, "engine.host": None},
    )
    engine = loaded.settings.engine
    assert (engine.port, engine.model, engine.max_queue, engine.host) == (1003, "from-env", 3, "127.0.0.1")
    assert loaded.origin["engine.port"] == "flag"
    assert loaded.origin["engine.model"] == "DEEPEDU_ENGINE_MODEL"
    assert loaded.origin["engine.max_queue"] == str(file)
    assert loaded.origin["engine.host"] == "default"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings(environment={}).settings.engine.port = 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[engine]\nprot = 1\n", r"engine\.prot.*did you mean 'engine\.port'"),
        ("port = 1\n", r"expected tables such as \[engine\].*'port'"),
        ("[engine\n", "expected a readable TOML file"),
        ('[engine]\nport = "many"\n', r"engine\.port \(from .*deepedu\.toml\).*'many'"),
        ("[engine]\nport = 70000\n", r"engine\.port.*70000"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "deepedu.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_settings(file=file, environment={})


def test_unknown_environment_variable_is_refused_and_secrets_are_not_settings() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'DEEPEDU_ENGINE_PORT'"):
        load_settings(environment={"DEEPEDU_ENGINE_PROT": "1"})
    load_settings(environment={"DEEPEDU_LLM_API_KEY": "secret", "DEEPEDU_DATA": "/data"})


def test_unknown_flag_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engine\.prot"):
        load_settings(environment={}, flags={"engine.prot": None})


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(file=tmp_path / "none.toml", environment={})
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(environment={"DEEPEDU_CONFIG": str(tmp_path / "none.toml")})
