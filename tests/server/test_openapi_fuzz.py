"""Nonsense for every route: whatever is sent, the server answers with no error of its own, and with what it declared.

What the OpenAPI description tells is fuzzed from it (schemathesis); pages, which stand in no description, and texts
that no description forbids, from the route table. ``DEEPEDU_FUZZ_EXAMPLES`` sets how many requests each route gets.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation.case import Case
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from walk_world import (
    GHOSTS,
    HARMLESS,
    NOBODY,
    RAW_BODIES,
    Field,
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
from deepedu.server.app import create_app
from deepedu.store import Database

Operation = APIOperation[Any, Any, Any, Any]
EXAMPLES = int(os.environ.get("DEEPEDU_FUZZ_EXAMPLES", "16"))
VISITORS = (NOBODY, "an", "lan", "admin")
CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]
QUICK = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
# What was found and nobody has mended yet; each has a strict test at the end, and who mends one takes it out here.
# Parameters that hold what is there, never nonsense.
PINNED: tuple[str, ...] = ()


def _application() -> FastAPI:
    # Nothing is opened before the application starts.
    return create_app(Settings.model_validate({}), model=ScriptedModel())


ROUTES = routes_of(_application())


def _operations() -> Iterator[Operation]:
    for result in schemathesis.openapi.from_dict(_application().openapi()).get_all_operations():
        assert isinstance(result, Ok), f"the description holds what cannot be read: {result}"
        yield result.ok()


OPERATIONS = list(_operations())


@pytest.fixture(scope="module")
def visits(_sample_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visits]:
    database = Database(StoreSettings(data_dir=copied(_sample_data, tmp_path_factory.mktemp("fuzz") / "data")))
    world = build_world(database)
    app = world.school.app()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("starlette.formparsers.SpooledTemporaryFile", _Spooled)
        with TestClient(app, follow_redirects=False, raise_server_exceptions=False) as client:
            yield Visits(world, app, client)
    database.close()


class _Spooled(SpooledTemporaryFile[bytes]):
    """Where a form's files lie; knows all of them, so that they can be closed where a route forgets to."""

    made: ClassVar[list["_Spooled"]] = []

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.made.append(self)

    @classmethod
    def left_open(cls) -> int:
        """How many were left open; none is afterwards."""
        found = [each for each in cls.made if not each.closed]
        for each in found:
            each.close()
        cls.made.clear()
        return len(found)


def every(routes: Iterable[Any]) -> list[Any]:
    """Routes as parameters of a test."""
    return [pytest.param(each, id=f"{each.method.upper()} {each.path}") for each in routes]


# --- From the description --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", every(OPERATIONS))
def test_what_is_declared_holds_whatever_is_sent(visits: Visits, operation: Operation) -> None:
    fitting, unfitting = (operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE))

    @QUICK
    @given(case=st.one_of(fitting, unfitting), known=st.booleans())
    def check(case: Case, known: bool) -> None:
        for visitor in VISITORS:
            refresh_tokens(visits.world, visits.app, operation.path)
            own = _own(visits.world, visitor)
            for name in case.path_parameters:
                if name in own and (known or name in PINNED):
                    case.path_parameters[name] = own[name]
            request = case.as_transport_kwargs(base_url="http://testserver")
            headers = dict(request.pop("headers", None) or {})
            answer = visits.send(visitor, operation.path, headers=headers, **_for_httpx(request))
            visits.restore()
            case.validate_response(answer, checks=CHECKS)

    check()


def _own(world: World, visitor: str) -> dict[str, str]:
    return {name: values[0] for name, values in {**world.ids["an"], **world.ids.get(visitor, {})}.items()}


def _for_httpx(request: dict[str, Any]) -> dict[str, Any]:
    data = request.pop("data", None)
    if isinstance(data, bytes | str):
        request["content"] = data
    elif data is not None:
        request["data"] = data
    return {name: value for name, value in request.items() if value is not None and name != "cookies"}


# --- From the route table --------------------------------------------------------------------------------------------

NUMBERS = [0, -1, 1, 2**31, 2**63 - 1, -(2**63)]
# No number of a row, and the last more digits than Python reads.
BEYOND = [str(2**63), str(-(2**63) - 1), "9" * 30, "9" * 5000]
TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\x1b[31m\x07\x7f",
    "\ud800",
    "\u202e\u200b\ufeff",
    "a" * 5000,
    "ấ" * 3000,
    "e\u0301" * 50,
    "٣",
    "²",
    "0x10",
    "1e400",
    "NaN",
    "-1",
    "9" * 18,
    "'; DROP TABLE people; --",
    "{{7*7}}${7*7}",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "//xau.example",
    "\r\nSet-Cookie: a=b",
    "=1+1",
    "\\(\\frac{1}{0}\\)",
    "2026-02-31T25:61",
    "0001-01-01T00:00",
    "9999-12-31T23:59",
]
text = st.one_of(st.sampled_from(TEXTS), st.text(max_size=40))
number = st.one_of(st.sampled_from(NUMBERS), st.integers(-(2**63), 2**63 - 1))


def visitor_of(visits: Visits, route: Walked) -> str:
    """Somebody whom a route is open to."""
    return next(each for each in ("an", "lan", "me.an", "admin") if visits.in_rule(each, route))


@pytest.mark.parametrize("route", every(ROUTES))
def test_nonsense_is_refused_and_nothing_breaks(visits: Visits, route: Walked) -> None:
    visitor = visitor_of(visits, route)

    @QUICK
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        refresh_tokens(visits.world, visits.app, route.path)
        request = data.draw(requests_to(visits.world, visitor, route))
        answer = visits.send(visitor, route.path, **request)
        if not route.is_safe:
            visits.restore()
            _Spooled.left_open()
        assert answer.status_code < 500, f"{visitor} {request}: {answer.status_code} {answer.text[:300]}"

    check()
    visits.restore()


@st.composite
def requests_to(draw: st.DrawFn, world: World, visitor: str, route: Walked) -> dict[str, Any]:
    """A request whose fields hold nonsense, some of them ids that are there."""
    values: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "form": {}, "json": {}}
    known = {**world.ids["an"], **world.ids[visitor]}
    for each in route.fields:
        if each.place == "path" or draw(st.booleans()) or (each.is_required and draw(st.booleans())):
            values[each.place][each.name] = draw(_value(each, known))
    if route.reads_body:
        names = [*RAW_BODIES.get(route.key, ()), "item", "text", "stem", "kind", "chosen", "answer"]
        values["form"] |= draw(st.dictionaries(st.one_of(st.sampled_from(names), text), text, max_size=6))
    url = route.path
    for name, value in values["path"].items():
        for form in (f"{{{name}}}", f"{{{name}:int}}", f"{{{name}:path}}"):
            url = url.replace(form, _quoted(value) or "%00")
    query = _encoded(values["query"])
    return {"method": route.method, "url": f"{url}?{query}" if query else url, **_body(draw, route, values)}


def _value(each: Field, known: dict[str, Sequence[str]]) -> st.SearchStrategy[Any]:
    if each.name in PINNED:
        return st.sampled_from(list(known[each.name]))
    kinds: list[st.SearchStrategy[Any]] = [text, number.map(str)]
    if each.name in known:
        kinds.append(st.sampled_from(list(known[each.name])))
    if each.choices:
        kinds.append(st.sampled_from(each.choices))
    if each.place == "path":
        kinds.append(st.sampled_from([str(value) for value in NUMBERS if value >= 0]))
    if each.place == "json":
        kinds += [number, st.none(), st.booleans(), st.lists(text, max_size=3), st.dictionaries(text, text, max_size=3)]
    return st.one_of(kinds)


def _body(draw: st.DrawFn, route: Walked, values: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if route.is_safe:
        return {}
    if values["json"]:
        # Lone surrogates are JSON, in their escaped form.
        return _sent(json.dumps(values["json"]).encode(), "application/json")
    form = _encoded(values["form"]).encode()
    shape = draw(st.sampled_from(["form", "form", "form", "json", "broken", "parts", "bytes", "nothing"]))
    match shape:
        case "json":
            return _sent(json.dumps(values["form"]).encode(), "application/json")
        case "broken":
            return _sent(b'{"a": [1, ', "application/json")
        case "parts":
            part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="../\x00a.csv"\r\n\r\n'
            return _sent(part + draw(st.binary(max_size=200)) + b"\r\n--x--\r\n", "multipart/form-data; boundary=x")
        case "bytes":
            return _sent(
                draw(st.binary(max_size=200)), draw(st.sampled_from(["multipart/form-data", "text/plain", ""]))
            )
        case "nothing":
            return {}
        case _:
            return _sent(form, "application/x-www-form-urlencoded")


def _sent(content: bytes, kind: str) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}}


def _quoted(value: Any) -> str:
    return quote(str(value), safe="", errors="surrogatepass")


def _encoded(fields: dict[str, Any]) -> str:
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in fields.items())


# --- Found once, and mended ------------------------------------------------------------------------------------------


def test_numbers_that_no_row_can_have_are_refused(visits: Visits) -> None:
    broken: list[str] = []
    for route in ROUTES:
        visitor = visitor_of(visits, route)
        refresh_tokens(visits.world, visits.app, route.path)
        for request in itertools.chain.from_iterable(_beyond(visits.world, visitor, route, value) for value in BEYOND):
            answer = visits.send(visitor, route.path, **request)
            if not route.is_safe and answer.status_code < 400:
                visits.restore()
            if answer.status_code >= 500:
                broken.append(f"{route.method} {route.path}: {str(request)[:150]}")
    visits.restore()
    assert not broken, "\n".join([f"{len(broken)} requests", *broken])


def _beyond(world: World, visitor: str, route: Walked, value: str) -> Iterator[dict[str, Any]]:
    """Requests in which the address, then the fields, hold a number that is none of a row."""
    known = _own(world, visitor)
    for places in (("path",), ("query", "form", "json")):
        fields = [each for each in route.fields if each.place in places and _is_number(each)]
        if fields:
            yield request_of(world, route, known | {each.name: value for each in fields})


def _is_number(each: Field) -> bool:
    return GHOSTS.get(each.name, "").isdecimal() or "int" in str(each.annotation) or each.name in HARMLESS


def test_ids_that_no_bullet_can_have_are_refused(visits: Visits) -> None:
    routes = [each for each in ROUTES if "bullet_id" in each.ids]
    assert routes
    broken: list[str] = []
    for route in routes:
        for strange in ("a b", "-", "a" * 65, "\x00"):
            request = request_of(visits.world, route, _own(visits.world, "lan") | {"bullet_id": _quoted(strange)})
            answer = visits.send("lan", route.path, **request)
            if answer.status_code not in (400, 404):
                broken.append(f"{route.method} {request['url']}: {answer.status_code}")
    visits.restore()
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("path", ["/api/ask"])
def test_streams_are_declared(path: str) -> None:
    answer = _application().openapi()["paths"][path]["post"]["responses"]["200"]
    assert list(answer["content"]) == ["text/event-stream"]


@pytest.mark.parametrize("route", every(each for each in ROUTES if not each.is_safe))
def test_the_files_of_a_form_are_closed(visits: Visits, route: Walked) -> None:
    refresh_tokens(visits.world, visits.app, route.path)
    visitor = visitor_of(visits, route)
    asked = request_of(visits.world, route, _own(visits.world, visitor))
    _Spooled.left_open()
    visits.send(visitor, route.path, method=route.method, url=asked["url"], data=asked.get("data"), files=_FILE)
    visits.restore()
    assert _Spooled.left_open() == 0


_FILE = {"surprise": ("a.txt", b"x" * 10, "text/plain")}
