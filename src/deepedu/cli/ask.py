"""``deepedu ask``."""

import asyncio
import json
from contextlib import aclosing

import click
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.cli.answer_view import show_turn
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import choose_scope, model_flags, model_options, open_tutor, scope_options
from deepedu.search.evidence import Scope
from deepedu.server.tutor_routes import event_json
from deepedu.store import Database
from deepedu.tutor.turn import Completed, Found


@click.command()
@click.argument("question")
@scope_options
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@model_options
@click.pass_context
def ask(
    ctx: click.Context,
    question: str,
    book: str | None,
    grade: int | None,
    subject: str | None,
    as_json: bool,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """Ask one QUESTION of the textbooks."""
    settings = settings_with(ctx, model_flags(llm, llm_model, model))
    database = open_database(ctx)
    scope = choose_scope(database, book, grade, subject)
    asyncio.run(_ask(settings, database, question, scope, as_json))


async def _ask(settings: Settings, database: Database, question: str, scope: Scope, as_json: bool) -> None:
    errors = Console(stderr=True)
    async with open_tutor(settings, database, errors) as tutor:
        if not as_json:
            await show_turn(tutor, question, Console(), scope=scope)
            return
        whole: dict[str, object] = {}
        async with aclosing(tutor.ask(question, scope=scope)) as events:
            async for event in events:
                if isinstance(event, Found | Completed):
                    whole.update(event_json(event)[1])
        click.echo(json.dumps(whole, ensure_ascii=False, indent=2))
