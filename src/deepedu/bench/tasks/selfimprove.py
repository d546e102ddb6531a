"""What a frozen model gains by a playbook: none, the loop as published, and ours.

For each track the same model, the same questions, form of answer, calculator, token limits and parser:

* ``none``: no playbook.
* ``ace``: reflection and curation by the model, nothing verified, nothing chosen: as much of the book as fits.
* ``ours``: worked examples that code has checked and the model's reflections, both verified by asking again; bullets
  chosen for each question.

Figures: ``accuracy_<variant>_<track>`` and its 95 % interval (Wilson); ``gain_points_<track>``, ours over none with a
paired bootstrap interval; ``gain_points_mean``; ``live_<track>``, ``quarantined_<track>``; tokens; ``wrong_facts_live``
(examples in use whose solution is not the label's, and facts in use without evidence); ``planted_live`` of the planted
lessons, ``controls_live_share`` of true ones; ``perturbed_live`` of sentences with one thing changed,
``unchanged_live_share``; ``select_ms_10k``.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from typing import Any

from deepedu.base.config import StoreSettings
from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import words
from deepedu.bench.library import add_book
from deepedu.bench.model_endpoint import bench_endpoint
from deepedu.bench.replies import KeptReplies
from deepedu.bench.run import BenchContext, BenchResult
from deepedu.bench.selfimprove.perturbed import perturbed_figures
from deepedu.bench.selfimprove.planted import planted_figures
from deepedu.bench.selfimprove.selection_time import select_ms
from deepedu.bench.selfimprove.statistics import gain_interval, share_interval
from deepedu.bench.selfimprove.tracks import Track, load_track
from deepedu.llm.chat import ChatModel
from deepedu.llm.limit import LimitedModel
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Bullet, Kind
from deepedu.playbook.examples import ARROW
from deepedu.playbook.journal import Journal, Step
from deepedu.playbook.loop import Choice, Chooser, Learner, Teaching, by_relevance
from deepedu.playbook.problem import FactCheck, Problem, Solver
from deepedu.playbook.reflector import Reflector
from deepedu.playbook.state import State
from deepedu.playbook.verifier import LIVE_KINDS, Verifier
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.tutor.exercise import ExerciseSolver
from deepedu.tutor.fact_check import BookFactCheck
from deepedu.tutor.solver import TutorSolver

OPTIONS = {
    "tracks": "tracks separated by commas: formula, finer, zalo_math, viquad, or FILE.jsonl (default formula,finer)",
    "mode": "offline (default): learn from train, then test; online: test, then learn, question by question",
    "train": "questions to learn from (default 200)",
    "test": "questions to test on (default 200)",
    "part": "test (default) or validation: where the questions to test on are from; formula and finer have both",
    "variants": "none,ace,ours (default all)",
    "reflections": "at most so many reflections of the model for each variant and track (default 40)",
    "bullet_tokens": "estimated tokens of bullets shown with a question (default 600)",
    "bullets": "at most so many bullets shown with a question (default 6); the loop as published has no such limit",
    "neighbours": "questions that a new bullet must not break (default 2)",
    "replies": "kept (default): use replies kept from earlier runs; fresh: ask the model anew",
    "planted": "yes (default) or no: the planted lessons and the perturbed sentences",
}
VARIANTS = ("none", "ace", "ours")
AT_ONCE = 8
WAVE = 8


def run(context: BenchContext) -> BenchResult:
    """See the module's docstring."""
    return asyncio.run(_run(context))


async def _run(context: BenchContext) -> BenchResult:
    options = context.options
    variants = options.get("variants", ",".join(VARIANTS)).split(",")
    if unknown := set(variants) - set(VARIANTS):
        raise ConfigError(f"--set variants: expected some of {', '.join(VARIANTS)}, came {', '.join(sorted(unknown))}")
    names = [name for name in options.get("tracks", "formula,finer").split(",") if name]
    train, test = (int(options.get(part, "200")) for part in ("train", "test"))
    part = options.get("part", "test")
    if part not in ("test", "validation"):
        raise ConfigError(f"--set part: expected test or validation, came {part!r}")
    if context.quick:
        train, test = 4, 4
    tracks = [
        load_track(name, lambda: context.data_dir, train=train, test=test, seed=context.seed, asked_of=part)
        for name in names
    ]
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        if tracks:
            endpoint, identity = await bench_endpoint(context, stack)
            file = context.settings.engine.cache_dir / "bench" / "selfimprove.jsonl"
            replies = KeptReplies(endpoint, identity, file, fresh=options.get("replies") == "fresh")
            model = LimitedModel(replies, AT_ONCE)
            for track in tracks:
                found, told = await _Track(context, track, model).run(variants)
                figures |= found
                details[track.name] = told
            details |= {"model": identity, "replies_kept": replies.used, "replies_asked": replies.asked}
    gains = [figures[f"gain_points_{track.name}"] for track in tracks if f"gain_points_{track.name}" in figures]
    if gains:
        figures["gain_points_mean"] = statistics.fmean(gains)
        figures["wrong_facts_live"] = sum(figures[f"wrong_facts_live_{track.name}"] for track in tracks)
    if options.get("planted", "yes") == "yes":
        found, details["planted"] = await planted_figures(context)
        figures |= found
        try:
            found, details["perturbed"] = await perturbed_figures(context, 4 if context.quick else 60)
            figures |= found
        except ConfigError as error:
            details["perturbed"] = f"skipped: {error}"
    figures["select_ms_10k"], details["select_ms_10k"] = select_ms(context.seed, 100 if context.quick else 10_000)
    return BenchResult(figures, details)


class _Track:
    """One track, all variants."""

    def __init__(self, context: BenchContext, track: Track, model: ChatModel) -> None:
        self._context, self._track, self._model = context, track, model
        options = context.options
        self._budget, self._bullets = int(options.get("bullet_tokens", "600")), int(options.get("bullets", "6"))
        self._neighbours = int(options.get("neighbours", "2"))
        self._reflections = int(options.get("reflections", "40"))
        self._is_online = options.get("mode", "offline") == "online"

    async def run(self, variants: Sequence[str]) -> tuple[dict[str, float], dict[str, Any]]:
        library = Database(StoreSettings(data_dir=self._context.tmp_dir / f"{self._track.name}-library"))
        with closing(library):
            if self._track.contexts:
                add_book(library, "", self._track.contexts)
            return await self._run(variants, library)

    async def _run(self, variants: Sequence[str], library: Database) -> tuple[dict[str, float], dict[str, Any]]:
        figures: dict[str, float] = {}
        details: dict[str, Any] = {}
        name = self._track.name
        right: dict[str, list[bool]] = {}
        for variant in variants:
            begin = time.perf_counter()
            database = Database(StoreSettings(data_dir=self._context.tmp_dir / f"{name}-{variant}"))
            with closing(database):
                book = Playbook(database)
                learner = self._learner(variant, book, library)
                learnt, asked = await self._steps(variant, learner)
                right[variant] = [step.attempt.is_right is True for step in asked]
                low, high = share_interval(right[variant])
                figures[f"accuracy_{variant}_{name}"] = 100 * statistics.fmean(right[variant])
                figures[f"accuracy_{variant}_{name}_low"], figures[f"accuracy_{variant}_{name}_high"] = low, high
                details[variant] = self._told(learner, learnt, asked) | {
                    "seconds": round(time.perf_counter() - begin, 1)
                }
                if variant == "ours":
                    bullets = list(book.state().bullets.values())
                    figures[f"live_{name}"] = sum(bullet.status == "verified" for bullet in bullets)
                    figures[f"quarantined_{name}"] = sum(bullet.status == "quarantined" for bullet in bullets)
                    figures[f"wrong_facts_live_{name}"] = wrong_live(bullets, self._learnt_from())
        for other in ("none", "ace"):
            if "ours" in right and other in right:
                label = f"gain_points_{name}" + ("" if other == "none" else "_over_ace")
                gain, low, high = gain_interval(right[other], right["ours"], self._context.seed)
                figures[label], figures[f"{label}_low"], figures[f"{label}_high"] = gain, low, high
        return figures, details

    def _learner(self, variant: str, book: Playbook, library: Database) -> Learner:
        solver, facts = self._solver(library)
        if variant == "none":
            return Learner(book, solver, _nothing, teaching=Teaching(wave=WAVE))
        reflector = Reflector(self._model)
        if variant == "ace":
            teaching = Teaching(wave=WAVE, reflections=self._reflections, examples=False)
            return Learner(book, solver, _whole_book(self._budget), reflector=reflector, teaching=teaching)
        teaching = Teaching(wave=WAVE, neighbours=self._neighbours, reflections=self._reflections)
        # Without a library nothing could bear a fact: those wait. The rest is let in by asking again.
        live: frozenset[Kind] = frozenset({"method", "mistake", "explanation", "tool"})
        verifier = Verifier(facts, solver, live_kinds=LIVE_KINDS if facts else live)
        chooser = by_relevance(self._budget, self._bullets, one_kind=self._track.form.one_kind)
        return Learner(book, solver, chooser, verifier, reflector, teaching)

    def _solver(self, library: Database) -> tuple[Solver, FactCheck | None]:
        if not self._track.contexts:
            return ExerciseSolver(self._model, self._track.form), None
        search = Search(library, self._context.settings.search.model_copy(update={"dense": "off"}))
        settings = self._context.settings.tutor.model_copy(update={"context": "passages"})
        return TutorSolver(library, search, self._model, settings), BookFactCheck(library, search)

    async def _steps(self, variant: str, learner: Learner) -> tuple[list[Step], list[Step]]:
        name = f"{self._track.name} {variant}"
        if self._is_online:
            asked = await self._watched(f"{name}: stream", self._track.test, learner, learns=variant != "none")
            return asked, asked
        learnt: list[Step] = []
        if variant != "none":
            learnt = await self._watched(f"{name}: learn", self._track.train, learner, learns=True)
        return learnt, await self._watched(f"{name}: test", self._track.test, learner, learns=False)

    async def _watched(self, what: str, problems: Sequence[Problem], learner: Learner, *, learns: bool) -> list[Step]:
        with self._context.progress(what, len(problems)) as advance:

            def on_step(_: Step) -> None:
                advance(1)

            if learns:
                return await learner.learn(problems, Journal("bench"), on_step)
            return await learner.ask(problems, on_step)

    def _learnt_from(self) -> Sequence[Problem]:
        return self._track.test if self._is_online else self._track.train

    def _told(self, learner: Learner, learnt: Sequence[Step], asked: Sequence[Step]) -> dict[str, Any]:
        state = learner.book.state()
        told: dict[str, Any] = {
            "train_right": [step.attempt.is_right is True for step in learnt],
            "test": [
                {"id": step.problem, "right": step.attempt.is_right, "answer": step.attempt.answer, "shown": step.shown}
                for step in asked
            ],
            "bullets": [
                bullet.model_dump(
                    mode="json", include={"id", "kind", "status", "text", "reasons", "helpful", "harmful"}
                )
                for bullet in state.ordered()
            ],
            "prompt_tokens": sum(s.attempt.prompt_tokens for s in (*learnt, *asked)),
            "completion_tokens": sum(s.attempt.completion_tokens for s in (*learnt, *asked)),
        }
        if learner.reflector is not None:
            told["reflector"] = vars(learner.reflector.spent)
        if learner.verifier is not None:
            told["verifier"] = vars(learner.verifier.spent)
        return told


def _nothing(_: State) -> Choice:
    return lambda _: ()


def _whole_book(budget_tokens: int) -> Chooser:
    """As much of the book as fits, the most helpful first, in its own order: whatever the question."""

    def chooser(state: State) -> Choice:
        shown: list[Bullet] = []
        left = budget_tokens
        live = [bullet for bullet in state.ordered() if bullet.status != "retired"]
        for bullet in sorted(live, key=lambda b: (b.harmful - b.helpful, -b.order)):
            if bullet.tokens <= left:
                shown.append(bullet)
                left -= bullet.tokens
        ordered = sorted(shown, key=lambda bullet: bullet.order)
        return lambda _: ordered

    return chooser


def wrong_live(bullets: Sequence[Bullet], problems: Sequence[Problem]) -> int:
    """Bullets in use that are wrong by the labels: an example whose solution does not end in its question's answer, a
    fact without a quote."""
    answers: dict[str, set[str]] = {}
    for problem in problems:
        answers.setdefault(" ".join(problem.topic.split()), set()).add(problem.expected or "")
    wrong = 0
    for bullet in bullets:
        if bullet.status != "verified":
            continue
        asked, arrow, solution = bullet.text.partition(f"\n{ARROW} ")
        if arrow and asked in answers:
            wrong += not any(_ends_in(solution, answer) for answer in answers[asked])
        elif bullet.kind == "fact":
            wrong += not any(each.type == "passage" for each in bullet.evidence)
    return wrong


def _ends_in(solution: str, answer: str) -> bool:
    wanted = words(answer)
    if wanted and words(solution)[-len(wanted) :] == wanted:
        return True
    try:
        return round(float(solution.rpartition("=")[2]), 2) == round(float(answer), 2)
    except ValueError:
        return False
