"""``deepedu config``."""

import click
from rich.console import Console
from rich.table import Table

from deepedu.base.config import describe, setting_names
from deepedu.cli.main import load_with


@click.group()
def config() -> None:
    """Show the settings and where each comes from."""


@config.command()
@click.pass_context
def show(ctx: click.Context) -> None:
    """Print every setting, its value, and where the value came from."""
    loaded = load_with(ctx)
    table = Table("setting", "value", "from", "what it is")
    for name in setting_names():
        layer, key = name.split(".", 1)
        value = getattr(getattr(loaded.settings, layer), key)
        origin = loaded.origin[name]
        table.add_row(name, str(value), origin, describe(name), style=None if origin == "default" else "bold")
    Console().print(table)
