"""``deepedu learn``: the loop over a file of questions."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from deepedu.base.config import Settings
from deepedu.base.errors import BadRequest
from deepedu.cli.main import open_database, settings_with
from deepedu.cli.tutor_session import model_flags, model_options, open_chat
from deepedu.llm.chat import ChatModel
from deepedu.llm.client import ChatClient
from deepedu.llm.limit import LimitedModel
from deepedu.llm.prefix_cache import PrefixCacheClient
from deepedu.playbook.adversary import Adversary
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author
from deepedu.playbook.journal import Journal, Step
from deepedu.playbook.judge import ChatJudge
from deepedu.playbook.loop import Learner, Teaching, by_relevance
from deepedu.playbook.problem import Problem
from deepedu.playbook.reflector import Reflector
from deepedu.playbook.verifier import Verifier
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.tutor.exercise import CHOICE, ExerciseSolver
from deepedu.tutor.fact_check import BookFactCheck
from deepedu.tutor.question_file import questions_of_turns, read_questions
from deepedu.tutor.solver import EitherSolver, TutorSolver


@dataclass(frozen=True)
class _Models:
    """Who answers, who reflects, who judges."""

    tutor: ChatClient
    reflector: ChatModel
    judge: ChatModel | None


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option("--feedback", is_flag=True, help="Learn from the pupils' questions that somebody was not content with.")
@click.option("--at-once", type=click.IntRange(min=1), default=4, show_default=True, help="Questions asked at once.")
@click.option("--neighbours", type=click.IntRange(min=0), default=2, show_default=True,
              help="Questions asked again to see that a new bullet breaks none.")  # fmt: skip
@click.option("--reflections", type=click.IntRange(min=0), help="At most so many. Default: for every failure.")
@click.option("--stress", type=click.IntRange(min=0), default=0, show_default=True,
              help="Afterwards, ask questions made to break so many of the rules; learn from those too.")  # fmt: skip
@click.option("--by", help="Whose questions these are; stands in the history.")
@model_options
@click.pass_context
def learn(
    ctx: click.Context,
    file: Path | None,
    feedback: bool,
    at_once: int,
    neighbours: int,
    reflections: int | None,
    stress: int,
    by: str | None,
    llm: str | None,
    llm_model: str | None,
    model: str | None,
) -> None:
    """Ask the questions of FILE (JSON lines: question, answer, ...), or those that pupils were not content with, and
    learn from what went wrong.

    With answers, those tell what was wrong; without, the check against the books does. What is learnt goes live only
    if it passes every check; the rest waits for a teacher ("deepedu playbook show --status proposed"). A run that was
    stopped goes on where it was.
    """
    settings = settings_with(ctx, model_flags(llm, llm_model, model))
    if (file is None) is not feedback:
        raise BadRequest("expected a FILE of questions or --feedback: one of the two")
    problems = read_questions(file) if file is not None else []
    database = open_database(ctx)
    if feedback:
        problems = questions_of_turns(database)
        if not problems:
            Console().print("Chưa ai chê câu trả lời nào: không có gì để học.", highlight=False)
            return
    teaching = Teaching(wave=at_once, neighbours=neighbours, reflections=reflections)
    asyncio.run(_learn(settings, database, problems, teaching, stress, by or ""))


async def _learn(
    settings: Settings, database: Database, problems: list[Problem], teaching: Teaching, stress: int, by: str
) -> None:
    console = Console()
    async with _models(settings, database, Console(stderr=True), teaching.wave) as models:
        name = await models.tutor.model()
        learner = _learner(settings, database, models, teaching, Author(role="model", name=by or name))
        journal = _journal(database, problems, name)
        before = learner.book.version
        if done := len(journal.steps()):
            console.print(f"Đi tiếp lượt học {journal.run}: đã xong {done} câu.", highlight=False)
        columns = (
            TextColumn("Đang học"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, TextColumn("{task.fields[right]}"), console=Console(stderr=True)) as bar:
            task = bar.add_task("learn", total=len(problems), completed=done, right="")
            asked = Counter[bool | None]()

            def on_step(step: Step) -> None:
                asked[step.attempt.is_right] += 1
                bar.update(task, advance=1, right=f"đúng {asked[True]}/{asked[True] + asked[False]}")

            steps = await learner.learn(problems, journal, on_step)
            if stress:
                state, version = learner.book.state(), learner.book.version
                hard = await Adversary(models.reflector).problems(state, rules=stress, questions=3, seed=version)
                bar.update(task, total=len(problems) + len(hard))
                steps += await learner.learn(hard, Journal(f"s-{version}-{journal.run[2:]}"[:20]), on_step)
        _report(console, steps, learner, before)


@asynccontextmanager
async def _models(settings: Settings, database: Database, errors: Console, at_once: int) -> AsyncIterator[_Models]:
    async with AsyncExitStack() as stack:
        tutor = await stack.enter_async_context(open_chat(settings, database, errors))
        own = settings.playbook

        async def other(url: str | None, name: str | None) -> ChatClient | None:
            if url is None:
                return None
            named = settings.llm.model_copy(update={"url": url, "model": name})
            return await stack.enter_async_context(ChatClient(named))

        reflector = await other(own.reflector_url, own.reflector_model) or tutor
        judge = await other(own.judge_url, own.judge_model)
        limited = LimitedModel(judge, at_once) if judge is not None else None
        yield _Models(tutor, LimitedModel(reflector, at_once), limited)


def _learner(settings: Settings, database: Database, models: _Models, teaching: Teaching, author: Author) -> Learner:
    search = Search(database, settings.search)
    model = LimitedModel(models.tutor, teaching.wave)
    cache = PrefixCacheClient(models.tutor)
    solver = EitherSolver(ExerciseSolver(model, CHOICE), TutorSolver(database, search, model, settings.tutor, cache))
    own = settings.playbook
    verifier = Verifier(
        facts=BookFactCheck(database, search),
        solver=solver,
        judge=ChatJudge(models.judge) if models.judge is not None else None,
        live_kinds=own.live_kinds,
    )
    book = Playbook(database, limit_tokens=own.limit_tokens)
    chooser = by_relevance(own.bullet_tokens, own.bullets)
    return Learner(book, solver, chooser, verifier, Reflector(models.reflector), teaching, author)


def _journal(database: Database, problems: list[Problem], model: str) -> Journal:
    """The journal of these questions with this model: another file or another model is another run."""
    named = json.dumps([model, [problem.model_dump(mode="json") for problem in problems]], ensure_ascii=False)
    run = f"l-{hashlib.sha256(named.encode()).hexdigest()[:10]}"
    return Journal(run, database.data_dir / "learn" / f"{run}.jsonl")


def _report(console: Console, steps: list[Step], learner: Learner, before: int) -> None:
    told = Counter(step.attempt.is_right for step in steps)
    found = learner.book.diff(before, learner.book.version)
    touched = [*found.added, *(new for _, new in found.changed)]
    status = Counter(bullet.status for bullet in touched)
    spent = [learner.reflector.spent] if learner.reflector else []
    prompt = sum(step.attempt.prompt_tokens for step in steps) + sum(each.prompt_tokens for each in spent)
    reply = sum(step.attempt.completion_tokens for step in steps) + sum(each.completion_tokens for each in spent)
    if learner.verifier is not None:
        prompt += learner.verifier.spent.prompt_tokens
        reply += learner.verifier.spent.completion_tokens
    table = Table(show_header=False, box=None)
    table.add_row("Câu hỏi", f"{len(steps)}: đúng {told[True]}, sai {told[False]}, không rõ {told[None]}")
    table.add_row(
        "Sổ tay", f"thêm {len(found.added)}, đổi {len(found.changed)} (bản {before} → {learner.book.version})"
    )
    table.add_row(
        "", f"đang dùng {status['verified']}, chờ duyệt {status['proposed']}, cách ly {status['quarantined']}"
    )
    if spent:
        table.add_row("Suy ngẫm", f"{spent[0].reflections} lần, bỏ {spent[0].given_up} lần không đọc được")
    table.add_row("Chi phí", f"{prompt} token đọc, {reply} token viết, {sum(step.seconds for step in steps):.0f} giây")
    console.print(table)
    if status["proposed"]:
        console.print("Xem những điều đang chờ: deepedu playbook show --status proposed", highlight=False)
