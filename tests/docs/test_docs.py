"""Documentation that can not rot: what it names exists, and what exists is named."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deepedu.base.config import setting_names
from deepedu.base.errors import ConfigError
from deepedu.bench.run import task_names
from deepedu.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_map_lists_every_file() -> None:
    result = subprocess.run(
        [sys.executable, "scripts/update_map.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?:^|`)deepedu ((?:[a-z][a-z-]*)(?: [a-z][a-z_-]*)?)([^`\n#]*)", text, re.MULTILINE)
    for words, rest in commands:
        command: click.Command = cli
        path = words.split()
        context = command.make_context("deepedu", [], resilient_parsing=True)
        for word in path:
            if not isinstance(command, click.Group):
                break  # An argument of the command.
            try:
                found = command.get_command(context, word)
            except ConfigError:
                found = None
            assert found is not None, f"{page_id(page)}: 'deepedu {words}' is no command"
            command = found
        known = {option for parameter in command.params for option in parameter.opts} | {"--data", "--help", "--config"}
        # What stands after a bare -- is another program's.
        for option in re.findall(r"(?<!\S)--[a-z-]+", re.split(r"(?<!\S)--(?!\S)", rest)[0]):
            assert option in known, f"{page_id(page)}: 'deepedu {words}' has no option {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_use(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_every_command_and_bench_is_documented() -> None:
    everything = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CHANGELOG.md"])
    assert [name for name in COMMANDS if f"deepedu {name}" not in everything and f"`{name}`" not in everything] == []
    assert [name for name in task_names() if f"deepedu bench {name}" not in everything] == []


def test_config_show_lists_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    output = CliRunner().invoke(cli, ["config", "show"]).output
    assert [name for name in setting_names() if name not in output] == []
