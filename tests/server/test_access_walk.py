"""Every route as everybody, with the ids of others: nothing of others is shown, told apart from nothing, or changed.

The walk is made from the application's route table, so a new route is walked by itself. ``walk_world`` holds the school
that it walks in, who may see whose, and what a request is filled with.
"""

import html
import io
import itertools
import re
import zipfile
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import httpx
import pytest
import sqlalchemy as sa
import walk_world
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from fastapi.responses import HTMLResponse
from fastapi.testclient import TestClient
from schoolroom import ORIGIN
from walk_world import (
    GHOSTS,
    NOBODY,
    PROTECTED,
    RAW_BODIES,
    SEES,
    SHARED_IDS,
    SHUT_OUT,
    SPECIAL,
    STRANGERS,
    TERMINAL,
    VISITORS,
    WORKS_WITH,
    Filled,
    Visits,
    Walked,
    World,
    build_world,
    copied,
    refresh_tokens,
    request_of,
    routes_of,
)

from deepedu.base.config import Settings, StoreSettings
from deepedu.llm.scripted import ScriptedModel
from deepedu.school.accounts import Account
from deepedu.server import access
from deepedu.server.access import Allow
from deepedu.server.app import create_app
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.tables import Person, Turn

Key = tuple[str, str]
# What the walk has found and nobody has mended yet: route -> what is wrong. Strict: who mends one takes it out here.
KNOWN_LEAKS: dict[Key, str] = {}
# Routes with ids that nobody gets to the end of in this walk, and why.
NOT_REACHED: dict[Key, str] = {
    ("POST", "/login"): "the walk knows the usernames, not the passwords; test_sessions signs in",
    ("GET", "/family/{public_id}/conversations/{conversation_id:int}"): (
        "closed unless the school lets guardians read; the walk with that setting gets there"
    ),
}
SECRETIVE = re.compile(r"sealed1:|\$argon2")


def _route_table() -> list[Walked]:
    # Nothing is opened before the application starts.
    return routes_of(create_app(Settings.model_validate({}), model=ScriptedModel()))


ROUTES = _route_table()


def every(routes: Iterable[Walked]) -> list[Any]:
    """Routes as parameters of a test."""
    return [pytest.param(each, id=f"{each.method} {each.path}") for each in routes]


def leaky(routes: Iterable[Walked]) -> list[Any]:
    """The same, those with a known leak expected to fail."""
    made: list[Any] = []
    for each in routes:
        why = KNOWN_LEAKS.get(each.key)
        marks = [pytest.mark.xfail(strict=True, raises=AssertionError, reason=why)] if why else []
        made.append(pytest.param(each, id=f"{each.method} {each.path}", marks=marks))
    return made


class Walk(Visits):
    """Visits to the routes of an application as one visitor or another, by its table of rules."""

    def __init__(self, world: World, app: FastAPI, client: TestClient) -> None:
        super().__init__(world, app, client)
        self._before = {visitor: world.digest(PROTECTED[visitor]) for visitor in VISITORS}

    def ask(self, visitor: str, route: Walked, filled: Filled, **headers: str) -> Any:
        """The answer to a request, streams read to their end."""
        return self.send(visitor, route.path, **request_of(self.world, route, filled), headers=headers)

    def own(self, visitor: str, route: Walked) -> Iterator[Filled]:
        """Ids that a visitor has a right to, in every combination."""
        whose = [name for name in (visitor, *WORKS_WITH.get(visitor, ())) if name in self.world.ids]
        for name in whose or ["an"]:
            mixed = {**self.world.ids["an"], **self.world.ids[name]} if name != TERMINAL else self.world.ids[name]
            yield from self._combined(route, mixed)

    def _combined(self, route: Walked, ids: walk_world.Ids) -> Iterator[Filled]:
        names = [name for name in route.ids if name in ids]
        for values in itertools.product(*(ids[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def foreign(self, visitor: str, route: Walked) -> Iterator[tuple[Filled, Filled]]:
        """Ids of strangers, all of them or one among the visitor's own; each with the same in which the strange ones do
        not exist."""
        names = [name for name in route.ids if name not in SHARED_IDS]
        base = next(self.own(visitor, route), {})
        own = {value for filled in self.own(visitor, route) for value in filled.values()}
        seen: list[Filled] = []
        for stranger in STRANGERS[visitor]:
            ids = self.world.ids[stranger]
            theirs = {name: [value for value in ids.get(name, ()) if value not in own] for name in names}
            for chosen in (names, *([name] for name in names)):
                strange = [name for name in chosen if theirs[name]]
                for values in itertools.product(*(theirs[name] for name in strange)):
                    filled = {**base, **dict(zip(strange, values, strict=True))}
                    if strange and filled not in seen:
                        seen.append(filled)
                        yield filled, {**filled, **{name: GHOSTS[name] for name in strange}}

    def shown(self, visitor: str, filled: Filled, answer: httpx.Response) -> list[str]:
        """What of others an answer holds. What the visitor sent is theirs to be told."""
        text = text_of(answer).casefold()
        sent = " ".join(filled.values()).casefold()
        sees = SEES[visitor]
        told = [
            f"{owner}'s {kind} {marker!r}"
            for marker, (owner, kind) in self.world.markers.items()
            if marker in text and kind not in sees.get(owner, ()) and marker not in sent
        ]
        return told + [f"something sealed or hashed: {found}" for found in SECRETIVE.findall(text)]

    def changed(self, visitor: str) -> list[str]:
        """Tables in which rows changed that this visitor may not change."""
        after = self.world.digest(PROTECTED[visitor])
        return [
            f"rows of {PROTECTED[visitor]} in {name}" for name in after if after[name] != self._before[visitor][name]
        ]


def text_of(answer: httpx.Response) -> str:
    """Everything that an answer says: its body, with the files inside archives, and its headers; as a person or a
    program would read it."""
    told = [unquote(value) for value in answer.headers.values()]
    told += list(_unpacked(answer.content))
    told += [html.unescape(part) for part in told]
    return "\n".join(told)


def _unpacked(content: bytes) -> Iterator[str]:
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield name
                yield from _unpacked(archive.read(name))
        return
    yield content.decode("utf-8", "replace")


def without(ids: Filled, text: str) -> str:
    """A text with ids replaced by their names."""
    for name, value in ids.items():
        text = text.replace(value, f"<{name}>")
    return text


@pytest.fixture(scope="module")
def world(_sample_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = copied(_sample_data, tmp_path_factory.mktemp("walk") / "data")
    database = Database(StoreSettings(data_dir=folder))
    yield build_world(database)
    database.close()


def app_of(world: World, **settings: Any) -> FastAPI:
    return world.school.app(model=ScriptedModel(answer=lambda _: "Nước sôi ở 100 °C [1]."), **settings)


@pytest.fixture(scope="module")
def walk(world: World) -> Iterator[Walk]:
    app = app_of(world)
    with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
        yield Walk(world, app, client)


@pytest.fixture(autouse=True)
def _as_it_was(walk: Walk) -> Iterator[None]:
    yield
    walk.restore()


# --- What the walk itself stands on ----------------------------------------------------------------------------------


def test_every_table_belongs_to_somebody_or_says_why_not(world: World) -> None:
    unknown = walk_world.unknown_tables()
    assert not unknown, (
        f"tables {unknown} are not known to the walk: seed rows of them for An and for Chi in build_world, with "
        "markers, and say in OWNED whose their rows are; or give the reason why they belong to nobody in SHARED_TABLES"
    )
    empty = {side: [name for name, digest in world.digest(people).items() if not digest] for side, people in _SIDES}
    assert empty == {"6A": [], "6B": []}, "everybody's side owns something of every table"


_SIDES = (("6A", ("an", "binh", "lan", "me.an", "6A")), ("6B", ("chi", "minh", "bo.chi", "6B")))


@pytest.mark.parametrize("route", every(ROUTES))
def test_every_parameter_is_known(route: Walked) -> None:
    assert not route.unknown, "\n".join(route.unknown)


def test_everybody_is_of_the_relation(world: World) -> None:
    assert set(SEES) == set(PROTECTED) == set(VISITORS)
    assert {owner for owner, _ in world.markers.values()} <= {*world.people, "6A", "6B", TERMINAL}
    kinds = {kind for _, kind in world.markers.values()}
    assert kinds == set(walk_world.EVERYTHING | {"secret"}) - {"import"}


@pytest.mark.parametrize("written", [NOT_REACHED, SPECIAL, RAW_BODIES], ids=lambda each: sorted(each)[0][1])
def test_what_is_written_down_of_a_route_is_of_one_that_is_there(written: dict[Key, Any]) -> None:
    assert set(written) <= {route.key for route in ROUTES}


def test_a_websocket_would_not_go_unnoticed() -> None:
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.websocket("/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()

    with pytest.raises(AssertionError, match="not walked"):
        routes_of(app)


# --- The walk --------------------------------------------------------------------------------------------------------


def outside(walk: Walk, route: Walked) -> Iterator[str]:
    """What is wrong with how a route meets those it is not for."""
    for visitor in VISITORS:
        if walk.in_rule(visitor, route):
            continue
        for whose in ("chi", "an"):
            refresh_tokens(walk.world, walk.app, route.path)
            filled = next(walk._combined(route, _ids_of_all(walk.world, whose)))
            answer = walk.ask(visitor, route, filled)
            where = answer.headers.get("location", "")
            is_sent_away = answer.status_code == 303 and (where.startswith("/login") or where == "/password")
            if answer.status_code not in (401, 403) and not is_sent_away:
                yield f"{visitor}: {answer.status_code} {where} {answer.text[:200]}"
            yield from (f"{visitor} is shown {told}" for told in walk.shown(visitor, filled, answer))
        if not route.is_safe:
            yield from (f"{visitor} changes {told}" for told in walk.changed(visitor))
            walk.restore()


def _ids_of_all(world: World, whose: str) -> walk_world.Ids:
    """A side's ids for every name, of whoever of that side has one."""
    teacher, guardian = ("minh", "bo.chi") if whose == "chi" else ("lan", "me.an")
    return {**world.ids["admin"], **world.ids[guardian], **world.ids[teacher], **world.ids[whose]}


@pytest.mark.parametrize("route", every(ROUTES))
def test_a_route_keeps_out_those_it_is_not_for(walk: Walk, route: Walked) -> None:
    assert not list(outside(walk, route))


def inside(walk: Walk, route: Walked) -> Iterator[str]:
    """What is wrong with how a route meets those whose role it is for, but not with these ids."""
    for visitor in VISITORS:
        if not walk.in_rule(visitor, route) or visitor not in STRANGERS:
            continue
        if walk.rules[route.key] is None and visitor not in (NOBODY, "an"):
            continue
        for filled, nothing in walk.foreign(visitor, route):
            refresh_tokens(walk.world, walk.app, route.path)
            answers = [walk.ask(visitor, route, each) for each in (filled, nothing)]
            yield from _compared(walk, visitor, filled, nothing, answers)
        if not route.is_safe:
            yield from (f"{visitor} changes {told}" for told in walk.changed(visitor))
            walk.restore()


def _compared(
    walk: Walk, visitor: str, filled: Filled, nothing: Filled, answers: list[httpx.Response]
) -> Iterator[str]:
    there, gone = answers
    if there.status_code >= 500:
        yield f"{visitor} {filled}: {there.status_code} {there.text[:200]}"
    yield from (f"{visitor} {filled} is shown {told}" for told in walk.shown(visitor, filled, there))
    if there.status_code != gone.status_code:
        yield f"{visitor} {filled}: {there.status_code}, and {gone.status_code} where there is nothing {nothing}"
        return
    strange = {name: filled[name] for name in filled if filled[name] != nothing[name]}
    ghosts = {name: nothing[name] for name in strange}
    if without(strange, _said(there)) != without(ghosts, _said(gone)):
        yield f"{visitor} {filled}: tells other things than where there is nothing: {_said(there)} / {_said(gone)}"


def _said(answer: httpx.Response) -> str:
    kept = ("location", "set-cookie", "content-type", "content-disposition")
    return "\n".join([*(unquote(answer.headers.get(name, "")) for name in kept), answer.text])


@pytest.mark.parametrize("route", leaky(each for each in ROUTES if set(each.ids) - SHARED_IDS))
def test_what_is_somebody_elses_is_answered_like_nothing(walk: Walk, route: Walked) -> None:
    assert not list(inside(walk, route))


def reached(walk: Walk, route: Walked) -> list[str]:
    """Who gets to the end of a route with ids of their own; and, as they go, whatever they are shown of others."""
    got: list[str] = []
    for visitor in VISITORS:
        if not walk.in_rule(visitor, route):
            continue
        refresh_tokens(walk.world, walk.app, route.path)
        for filled in walk.own(visitor, route):
            answer = walk.ask(visitor, route, filled)
            told = walk.shown(visitor, filled, answer)
            assert not told, f"{visitor} {filled} is shown {told}"
            assert answer.status_code < 500, f"{visitor} {filled}: {answer.status_code} {answer.text[:300]}"
            if not route.is_safe and answer.status_code < 400:
                walk.restore()
                refresh_tokens(walk.world, walk.app, route.path)
            if answer.status_code in (200, 201, 204, 303) and "event: error" not in answer.text:
                got.append(visitor)
                if not route.is_safe:
                    break
    return got


@pytest.mark.parametrize("route", every(ROUTES))
def test_people_get_what_is_theirs_and_nothing_more(walk: Walk, route: Walked) -> None:
    got = reached(walk, route)
    if route.ids and route.key not in NOT_REACHED:
        assert got, (
            f"nobody gets to the end of {route.method} {route.path} with ids of their own, so the walk would prove "
            "nothing: fill in what it needs in walk_world.SPECIAL, or give the reason in NOT_REACHED"
        )
    assert not (got and route.key in NOT_REACHED), "somebody gets there: take it out of NOT_REACHED"


def test_where_guardians_may_read_they_read_their_own_childs_only(world: World) -> None:
    app = app_of(world, school={"guardian_transcripts": True})
    with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
        walk = Walk(world, app, client)
        family = [route for route in ROUTES if route.path.startswith("/family")]
        assert not [told for route in family for told in inside(walk, route)]
        (reading,) = (route for route in family if "conversation_id" in route.ids)
        answers = [walk.ask("me.an", reading, filled) for filled in walk.own("me.an", reading)]
        said = "".join(text_of(answer).casefold() for answer in answers if answer.status_code == 200)
        told = {whose for marker, whose in world.markers.items() if marker in said}
        assert ("an", "words") in told
        assert not told & {("binh", "words"), ("chi", "words"), (TERMINAL, "words")}


# --- Pages and origins -----------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """What in a page could run or load something that is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside = tag if tag in ("script", "style") and "src" not in given else ""
        if self._inside and given.get("type") == "application/json":
            self._inside = ""
        for name, value in given.items():
            if name.startswith("on") or name == "style":
                self.found.append(f"<{tag} {name}=…>")
            if name in ("src", "href", "action", "formaction", "srcset", "poster", "data", "ping", "background"):
                is_ours = (
                    value.startswith(("/", "#", "?", "tel:", "mailto:", "data:image/"))
                    or ":" not in value
                    or value == "data:,"
                )
                if not is_ours or value.startswith(("//", "/\\")):
                    self.found.append(f"<{tag} {name}={value!r}>")
        if tag in ("base", "object", "embed", "applet", "iframe", "frame"):
            self.found.append(f"<{tag}>")
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.found.append("<meta refresh>")

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.found.append(f"<{self._inside}>{data.strip()[:60]}")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""


def untidy(answer: httpx.Response) -> list[str]:
    """What a page lacks, or has too much of."""
    policy = answer.headers.get("content-security-policy", "")
    found = [f"policy {policy!r}"] if "default-src 'none'" not in policy or "unsafe-" in policy else []
    if "frame-ancestors 'none'" not in policy:
        found.append("can be framed")
    if answer.headers.get("x-content-type-options") != "nosniff":
        found.append("no nosniff")
    if "no-store" not in answer.headers.get("cache-control", ""):
        found.append("may be kept by a cache")
    page = _Page()
    page.feed(answer.text)
    return found + page.found


@pytest.mark.parametrize("visitor", [each for each in VISITORS if each not in ("pho", "dung")])
def test_pages_load_and_run_nothing_but_ours(walk: Walk, visitor: str) -> None:
    seen = 0
    for route in (each for each in ROUTES if each.is_safe and walk.in_rule(visitor, each)):
        refresh_tokens(walk.world, walk.app, route.path)
        for filled in walk.own(visitor, route):
            answer = walk.ask(visitor, route, filled)
            if "text/html" in answer.headers.get("content-type", ""):
                seen += 1
                assert not untidy(answer), f"{route.path} {filled}"
            elif answer.content:
                assert "javascript" not in answer.headers.get("content-type", "")
    assert seen or visitor in SHUT_OUT


# Programs (``/v1``) prove themselves by a key, of which another site knows nothing.
@pytest.mark.parametrize("route", every(r for r in ROUTES if not r.is_safe and not r.path.startswith("/v1/")))
def test_no_other_site_changes_anything(walk: Walk, route: Walked) -> None:
    before = walk.world.digest([*walk.world.people, "6A", "6B"])
    asked = 0
    for visitor in (each for each in VISITORS if walk.in_rule(each, route)):
        refresh_tokens(walk.world, walk.app, route.path)
        filled = next(walk.own(visitor, route), {})
        for origin in ("http://xau.example", f"{ORIGIN}.xau.example", "null"):
            answer = walk.ask(visitor, route, filled, Origin=origin)
            assert answer.status_code == 403, f"{visitor} from {origin}: {answer.status_code}"
            asked += 1
    assert asked
    assert walk.world.digest([*walk.world.people, "6A", "6B"]) == before


# --- The walk finds what is wrong ------------------------------------------------------------------------------------


Asked = Annotated[Account, Depends(Allow("student", "teacher"))]


def _planted() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/planted/names/{public_id}")
    def names(services: Services, account: Asked, public_id: str) -> HTMLResponse:  # noqa: ARG001
        with services.database.read() as session:
            person = session.scalar(sa.select(Person).where(Person.public_id == public_id))
        return HTMLResponse("" if person is None else person.full_name)

    @router.get("/planted/exists/{turn_id}")
    def exists(services: Services, account: Asked, turn_id: int) -> HTMLResponse:  # noqa: ARG001
        with services.database.read() as session:
            return HTMLResponse("", 403 if session.get(Turn, turn_id) else 404)

    @router.post("/planted/changes/{turn_id}")
    def changes(services: Services, account: Asked, turn_id: int) -> HTMLResponse:  # noqa: ARG001
        with services.database.write() as session:
            session.execute(sa.update(Turn).where(Turn.id == turn_id).values(status="stopped"))
        return HTMLResponse("")

    @router.get("/planted/everything")
    def everything(services: Services, account: Asked) -> dict[str, list[str]]:  # noqa: ARG001
        with services.database.read() as session:
            return {"names": list(session.scalars(sa.select(Person.email)))}

    @router.get("/planted/page")
    def page(account: Asked) -> HTMLResponse:  # noqa: ARG001
        return HTMLResponse("<script>alert(1)</script><img src='https://xau.example/x.png' onerror='x()'>")

    @router.get("/planted/unknown/{zebra}")
    def unknown(account: Asked, zebra: int, giraffe_id: int | None = None) -> None:
        """Names that nobody has written down."""

    return router


def test_the_walk_finds_what_is_planted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(world)
    app.include_router(_planted())
    planted = {each.path.split("/")[2]: each for each in routes_of(app) if each.path.startswith("/planted/")}
    with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
        walk = Walk(world, app, client)
        assert any("is shown chi's name" in told for told in inside(walk, planted["names"]))
        assert any("403, and 404" in told for told in inside(walk, planted["exists"]))
        assert any("changes rows" in told for told in inside(walk, planted["changes"]))
        walk.restore()
        with pytest.raises(AssertionError, match="contact"):
            reached(walk, planted["everything"])
        assert {"can be framed", "no nosniff", "<img onerror=…>"} <= set(untidy(walk.ask("an", planted["page"], {})))
        assert [len(planted[name].unknown) for name in ("names", "unknown")] == [0, 2]
        # A rule that lets nobody in who should be: the walk must say that nobody gets to the end.
        monkeypatch.setattr(access.Allow, "__call__", _nobody)
        assert reached(walk, planted["names"]) == []


async def _nobody(*_: Any, **__: Any) -> None:
    raise access.NotAllowed("–")
