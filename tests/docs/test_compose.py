"""The compose file says what our own commands and settings understand. Containers are not started here."""

import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from deepedu.base.config import SECRET_VARIABLES, load_settings
from deepedu.base.egress import Endpoint
from deepedu.base.errors import ConfigError
from deepedu.cli.main import cli
from deepedu.cli.serve import named_endpoints

ROOT = Path(__file__).parents[2]
PASSWORD = "${DATABASE_PASSWORD:?give the database a password}"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]


def ours(service: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in service["environment"].items() if name.startswith("DEEPEDU_")}


@pytest.mark.parametrize("name", ["tutor", "engine"])
def test_commands_and_settings_are_ours(services: dict[str, Any], name: str) -> None:
    program, *arguments = shlex.split(services[name]["command"])
    assert program == "deepedu"
    # An unknown option is an error even beside --help.
    done = CliRunner().invoke(cli, [*arguments, "--help"])
    assert done.exit_code == 0, done.output
    load_settings(environment=ours(services[name]))
    with pytest.raises(ConfigError, match="DEEPEDU_ENGINE_PROT"):
        load_settings(environment={"DEEPEDU_ENGINE_PROT": "1"})


def test_the_tutor_reaches_what_stands_beside_it_and_nothing_else(services: dict[str, Any]) -> None:
    environment = ours(services["tutor"])
    settings = load_settings(environment=environment).settings
    engine = shlex.split(services["engine"]["command"])
    port = int(engine[engine.index("--port") + 1])
    assert set(named_endpoints(settings)) == {Endpoint("engine", port), Endpoint("database", 5432)}
    assert {"engine", "database"} <= services.keys()
    # Secrets come from outside, and are kept out of URLs, which settings show.
    assert environment["DEEPEDU_STORE_PASSWORD"] == services["database"]["environment"]["POSTGRES_PASSWORD"] == PASSWORD
    assert "DEEPEDU_STORE_PASSWORD" in SECRET_VARIABLES
    assert services["database"]["environment"]["POSTGRES_USER"] == "deepedu"


def test_only_the_tutor_can_be_reached_from_outside(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["tutor"]
    networks = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["networks"]
    assert networks["inside"] == {"internal": True}
    assert services["engine"]["networks"] == services["database"]["networks"] == ["inside"]


@pytest.mark.parametrize("name", ["tutor", "engine"])
def test_images_are_built_of_what_is_there(services: dict[str, Any], name: str) -> None:
    build = services[name]["build"]
    lines = (ROOT / build["dockerfile"]).read_text(encoding="utf-8").splitlines()
    copied = [part for line in lines if line.startswith("COPY") for part in line.split()[1:-1]]
    assert copied
    for part in copied:
        assert (ROOT / part).exists(), part
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = next((line for line in lines if '".[' in line), None)
    wanted = named.split('".[')[1].split("]")[0].split(",") if named else []
    assert set(wanted) <= extras.keys()
