"""Planted lessons: false ones that a careless loop would believe, and true ones that a useful one lets in.

``planted.jsonl`` holds lessons about the sample textbook, as a reflector could have written them, each with what is
wrong with it. Every one goes through the gate as if asking again had gone well: what is measured is the rest of it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from importlib import resources
from typing import Any

from deepedu.base.config import StoreSettings
from deepedu.bench.run import BenchContext
from deepedu.curriculum.ingest import ingest
from deepedu.curriculum.sample import SAMPLE_PDF
from deepedu.playbook.book import Playbook
from deepedu.playbook.bullet import Author, Bullet
from deepedu.playbook.delta import Add
from deepedu.playbook.interaction import Signal
from deepedu.playbook.problem import Attempt, Problem
from deepedu.playbook.replay import Case
from deepedu.playbook.verifier import Verifier, operations
from deepedu.search.search import Search
from deepedu.store import Database
from deepedu.tutor.fact_check import BookFactCheck


class _AlwaysHelped:
    """Asked again, everything goes well."""

    async def attempt(self, problem: Problem, bullets: Sequence[Bullet] = ()) -> Attempt:  # noqa: ARG002
        return Attempt(text="", answer="", signals=(Signal(kind="quiz", good=True),))

    async def work_out(self, problem: Problem) -> str | None:  # noqa: ARG002
        return None


def load_planted() -> list[dict[str, Any]]:
    """The lessons: text, kind, why, live (whether it should go live), question."""
    text = resources.files("deepedu.bench").joinpath("planted.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def planted_figures(context: BenchContext) -> tuple[dict[str, float], dict[str, Any]]:
    """``planted_live``, how many false lessons went live, and ``controls_live_share``, the share of true ones."""
    with closing(Database(StoreSettings(data_dir=context.tmp_dir / "planted"))) as database:
        ingest(database, [SAMPLE_PDF], context.settings.ingest)
        found = await judged(database, Search(database, context.settings.search), load_planted())
    live = [lesson for lesson in found if lesson["status"] == "verified"]
    false = sum(not lesson["live"] for lesson in found)
    figures = {
        "planted": false,
        "planted_live": sum(not lesson["live"] for lesson in live),
        "controls_live_share": sum(lesson["live"] for lesson in live) / max(1, len(found) - false),
    }
    held = Counter(lesson["why"] for lesson in found if lesson["status"] != "verified")
    return figures, {"held": dict(held), "lessons": found}


async def judged(database: Database, search: Search, lessons: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each lesson with the status and the reasons that the gate gives it, in a book of its own: no lesson helps or
    hinders another."""
    verifier = Verifier(facts=BookFactCheck(database, search), solver=_AlwaysHelped())
    book = Playbook(database)
    found: list[dict[str, Any]] = []
    for number, lesson in enumerate(lessons):
        add = Add(text=lesson["text"], kind=lesson["kind"])
        bullet_id = book.change([add], Author(role="model"), "planted").bullet_ids[0]
        state = book.state()
        failed = Case(
            Problem(id=f"p{number}", question=lesson["question"]),
            (),
            Attempt(text="", answer="", signals=(Signal(kind="wrong", good=False),)),
        )
        ruling = await verifier.rule(state.bullets[bullet_id], state, failed)
        # Judged, then taken out again.
        book.change(operations(state.bullets[bullet_id], ruling), Author(role="verifier"), "planted")
        status = book.state().bullets[bullet_id].status
        book.rollback(0, Author(role="teacher"), "next")
        found.append({**lesson, "status": status, "reasons": ruling.reasons})
    return found
