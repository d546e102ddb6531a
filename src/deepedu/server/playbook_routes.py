"""The playbook for teachers, over HTTP: read what waits beside its books, judge it, change it, take it back.

What is decided here is shown to pupils, so nothing here answers but to teachers and admins; on a server without
accounts, to who has the teachers' key (``KEY_VARIABLE``).

A *bullet*, wherever one is answered, has all fields of ``deepedu.playbook.bullet.Bullet`` (times in ISO 8601, UTC) and

* ``revision``: names all of it that a teacher judges, so everything but its counts and times. A request to change the
  bullet sends it back as ``expected``.

A bullet *beside its books* has, in the place of each quote that it stands on,

* ``type`` (``"passage"``), ``book`` (SHA-256), ``page``, ``quote``: as they are kept;
* ``book_is_here``: whether the library has that document; when not, all of the following are null;
* ``book_id``, ``title``, and ``has_pages``: whether ``page`` is the number of a real page;
* ``passage``: the passage that holds the quote, or null where none does: its ``id``, ``heading``, ``first_page``,
  ``last_page``, ``text``, and ``start`` and ``end`` of the quote in that text, in characters (code points).

Other evidence is as it is kept: ``type`` (``"interaction"``), ``reference``, ``signal``.
"""

import hashlib
import hmac
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from deepedu.base.errors import AccessClosed, BadRequest, BulletChanged, ConfigError, NotFound, WrongKey
from deepedu.playbook.book import Change, Playbook
from deepedu.playbook.bullet import Author, Bullet, BulletId, BulletScope, Kind, PassageEvidence, Section, Status, Text
from deepedu.playbook.delta import Delta, Judge, Merge, Operation, Update
from deepedu.playbook.state import State
from deepedu.school.accounts import Account
from deepedu.search.evidence import Evidence
from deepedu.search.passages import load_quoted
from deepedu.server.access import Allow
from deepedu.server.tutor_routes import Services
from deepedu.store import Database
from deepedu.store.tables import Book, now

KEY_VARIABLE = "DEEPEDU_SERVER_TEACHER_KEY"
KEY_LENGTH = 16
# A change of the whole book touches thousands of bullets: that many are named in its entry of the history.
NAMED_IDS = 20


def key_from(environment: Mapping[str, str]) -> str | None:
    """The teachers' key; None where none is set: then these routes are closed.

    Raises:
        ConfigError: it is too short, or cannot be sent in a header. The message does not hold it.
    """
    key = environment.get(KEY_VARIABLE, "")
    if not key:
        return None
    strange = sum(not "!" <= character <= "~" for character in key)
    if len(key) < KEY_LENGTH or strange:
        raise ConfigError(
            f"{KEY_VARIABLE}: expected at least {KEY_LENGTH} letters, digits and signs of ASCII without spaces, came "
            f"{len(key)} of which {strange} are others: make a key with 'openssl rand -hex 16', or unset it"
        )
    return key


class Teachers(Allow):
    """Lets teachers and admins through; on a server without accounts, who carries ``Authorization: Bearer <key>``."""

    async def __call__(self, request: Request) -> Account | None:
        """Raises what ``Allow`` does, and

        Raises:
            AccessClosed: the server has neither accounts nor a key.
            WrongKey: the request has none, or another one.
        """
        services: Any = request.app.state.services
        if services.settings.server.access == "accounts":
            return await super().__call__(request)
        check_key(request, services.teacher_key)
        return None


teachers = Depends(Teachers("teacher", "admin"))


def check_key(request: Request, key: str | None) -> None:
    """Holds a request against the teachers' key.

    Raises:
        AccessClosed: the server has no key.
        WrongKey: the request has none, or another one.
    """
    if key is None:
        raise AccessClosed(
            f"Phần dành cho giáo viên đang đóng: người quản trị cần đặt biến môi trường {KEY_VARIABLE} (một khóa bí "
            f"mật, ít nhất {KEY_LENGTH} ký tự) rồi khởi động lại máy chủ."
        )
    scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.casefold() != "bearer" or not given.strip():
        raise WrongKey("Cần khóa của giáo viên, gửi trong phần đầu 'Authorization: Bearer <khóa>'.")
    # Bytes: texts with letters beyond ASCII cannot be compared in constant time.
    if not hmac.compare_digest(given.strip().encode(), key.encode()):
        raise WrongKey("Khóa của giáo viên không đúng: hãy kiểm tra lại, hoặc hỏi người quản trị máy chủ.")


def _one_line(text: str) -> str:
    plain = "".join(character for character in text if unicodedata.category(character) != "Cf")
    plain = " ".join(unicodedata.normalize("NFC", plain).split())
    if not plain.isprintable():
        raise ValueError("expected plain text, came control characters: type it anew")
    return plain


def _not_empty(line: str) -> str:
    if not line:
        raise ValueError("expected some words, came nothing: fill it in")
    return line


Line = Annotated[str, StringConstraints(max_length=500), AfterValidator(_one_line)]
Words = Annotated[Line, AfterValidator(_not_empty)]
Limit = Annotated[int, Query(ge=1, le=200)]
Version = Annotated[int, Query(ge=0)]
# A field of a form that is left empty asks for nothing.
_EMPTY = BeforeValidator(lambda value: value or None)


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Listed(_Asked):
    """Which bullets: of a ``status``, of a ``kind`` (unset or empty: all), ``limit`` of them from ``offset`` on."""

    status: Annotated[Status | None, _EMPTY] = None
    kind: Annotated[Kind | None, _EMPTY] = None
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=200)


class Decision(_Asked):
    """Who decides, why, and on what: ``expected`` is the bullet's ``revision`` as it was when the teacher read it.

    Its ``changed_at``, letter by letter as it was answered, is taken too. It tells less: it also moves when the bullet
    is counted, and an import can bring another bullet with the same time. ``by`` is needed where the server has no
    accounts; who is signed in decides under the own username, whatever it says.
    """

    by: Words | None = None
    reason: Line = ""
    expected: str = Field(min_length=1, max_length=100)


class Rejection(Decision):
    """A decision with its reason: it is shown with the bullet, and the tutor learns from it."""

    reason: Words  # pyright: ignore[reportGeneralTypeIssues]


class Edit(Decision):
    """Other values; null leaves a value alone, ``scope`` is replaced as a whole ({}: everywhere).

    ``approve``: the teacher vouches for what results. Otherwise the book decides whether it has to be verified again.
    """

    text: Text | None = None
    kind: Kind | None = None
    section: Section | None = None
    scope: BulletScope | None = None
    approve: bool = False


class Rollback(_Asked):
    """Which version to go back to, who wants it, and why."""

    version: int = Field(ge=0)
    by: Words | None = None
    reason: Words


def _known(state: State, bullet_id: str) -> Bullet:
    if bullet_id not in state.bullets:
        raise NotFound(f"Sổ tay không có điều {bullet_id!r}: có thể nó đã được rút ra, hãy mở lại danh sách.")
    return state.bullets[bullet_id]


def _revision(bullet: Bullet) -> str:
    judged = bullet.model_dump_json(exclude={"helpful", "harmful", "created_at", "changed_at"})
    return hashlib.sha256(judged.encode()).hexdigest()[:32]


def _plain(bullet: Bullet) -> dict[str, Any]:
    return {**bullet.model_dump(mode="json"), "revision": _revision(bullet)}


def _change(old: Bullet, new: Bullet) -> dict[str, Any]:
    fields = [name for name in Bullet.model_fields if getattr(old, name) != getattr(new, name)]
    return {"before": _plain(old), "after": _plain(new), "fields": fields}


def _entry(change: Change, bullet_id: str | None = None) -> dict[str, Any]:
    done = zip(change.delta.operations, change.bullet_ids, strict=True)
    names = Counter(each.op for each, touched in done if bullet_id is None or _concerns(each, touched, bullet_id))
    touched = dict.fromkeys(change.bullet_ids)
    return {
        "version": change.version,
        **change.delta.model_dump(mode="json", include={"at", "author", "reason"}),
        "operations": dict(names),
        "bullet_count": len(touched),
        "bullet_ids": list(touched)[:NAMED_IDS],
    }


def _concerns(operation: Operation, touched: str, bullet_id: str) -> bool:
    # What is counted for a merged bullet touches the one that took it over.
    named = operation.sources if isinstance(operation, Merge) else (getattr(operation, "bullet_id", None),)
    return bullet_id == touched or bullet_id in named


class PlaybookDesk:
    """What one request works with: the book, the library for its quotes, and who is signed in."""

    def __init__(self, services: Services, account: Annotated[Account | None, teachers]) -> None:
        self.book: Playbook = services.playbook
        self._database: Database = services.database
        self._account = account

    def author(self, by: str | None) -> Author:
        """Who signs a change.

        Raises:
            BadRequest: nobody is signed in, and no name is given.
        """
        if self._account is not None:
            return Author(role="teacher", name=self._account.username)
        if by is None:
            raise BadRequest("by: máy chủ này không có tài khoản nên cần tên người quyết định; hãy ghi thêm.")
        return Author(role="teacher", name=by)

    def decide(
        self, bullet_id: str, asked: Decision, reason: str, operations: Callable[[Bullet], Sequence[Operation]]
    ) -> dict[str, Any]:
        """Carries a decision out as one delta, if the bullet is as the teacher read it."""
        author = self.author(asked.by)

        def make(state: State) -> Delta | None:
            bullet = _known(state, bullet_id)
            if asked.expected not in (_revision(bullet), bullet.model_dump(mode="json")["changed_at"]):
                return None
            of = tuple(operations(bullet))
            return Delta(id=uuid.uuid4().hex, author=author, reason=reason, at=now(), operations=of)

        # Looked at in the transaction that writes: of two at once, in whatever process, one finds the other's change.
        done = self.book.decide(make)
        present = self.present(bullet_id)
        if done.again:
            raise BulletChanged(
                f"Điều {bullet_id!r} đã được sửa hoặc duyệt sau khi thầy cô mở nó, nên chưa có gì được ghi. Hãy xem "
                "bản hiện nay rồi quyết định.",
                details=present,
            )
        return present

    def present(self, bullet_id: str) -> dict[str, Any]:
        """``version`` of the book and a ``bullet`` beside its books.

        Raises:
            NotFound: no such bullet.
        """
        version, state = self.book.version, self.book.state()
        return {"version": version, "bullet": self.beside(_known(state, bullet_id))}

    def beside(self, bullet: Bullet) -> dict[str, Any]:
        """A bullet beside its books."""
        evidence = [
            {**each.model_dump(mode="json"), **(self._place(each) if isinstance(each, PassageEvidence) else {})}
            for each in bullet.evidence
        ]
        return {**_plain(bullet), "evidence": evidence}

    def _place(self, evidence: PassageEvidence) -> dict[str, Any]:
        with self._database.read() as session:
            book = session.scalar(sa.select(Book).where(Book.sha256 == evidence.book))
            if book is None:
                return {"book_is_here": False, "book_id": None, "title": None, "has_pages": None, "passage": None}
            told = {"book_is_here": True, "book_id": book.id, "title": book.title, "has_pages": book.has_pages}
            found = load_quoted(session, evidence.book, evidence.page, evidence.quote)
        return {**told, "passage": None if found is None else _passage(*found)}


def _passage(passage: Evidence, start: int, end: int) -> dict[str, Any]:
    return {
        "id": passage.passage_id,
        "heading": passage.heading,
        "first_page": passage.first_page,
        "last_page": passage.last_page,
        "text": passage.text,
        "start": start,
        "end": end,
    }


router = APIRouter(prefix="/api/playbook", dependencies=[teachers])
Desk = Annotated[PlaybookDesk, Depends()]


@router.get("/bullets")
def bullets(asked: Annotated[Listed, Query()], desk: Desk) -> dict[str, Any]:
    """Bullets in the order of the book.

    Returns:
        ``version`` of the book, ``total`` number of bullets of this status and kind, ``offset`` and ``limit`` as asked,
        and the ``bullets`` beside their books.
    """
    # First the version: what comes in between is then seen as a change too many, never as one too few.
    version, state = desk.book.version, desk.book.state()
    found = [bullet for bullet in state.ordered() if asked.status in (None, bullet.status)]
    found = [bullet for bullet in found if asked.kind in (None, bullet.kind)]
    shown = [desk.beside(bullet) for bullet in found[asked.offset : asked.offset + asked.limit]]
    return {"version": version, "total": len(found), "offset": asked.offset, "limit": asked.limit, "bullets": shown}


@router.get("/bullets/{bullet_id}")
def bullet(bullet_id: BulletId, desk: Desk, limit: Limit = 50) -> dict[str, Any]:
    """One bullet with its changes.

    Returns:
        ``version`` of the book, the ``bullet`` beside its books, ``history``: its newest ``limit`` changes as in
        ``/history``, their ``operations`` only those on this bullet, and ``history_goes_on``: whether there are older.
    """
    present = desk.present(bullet_id)
    changes = desk.book.history(limit=limit + 1, bullet_id=bullet_id)
    history = [_entry(change, bullet_id) for change in changes[:limit]]
    return {**present, "history": history, "history_goes_on": len(changes) > limit}


@router.post("/bullets/{bullet_id}/approve")
def approve(bullet_id: BulletId, asked: Decision, desk: Desk) -> dict[str, Any]:
    """Lets a bullet be shown to pupils. Answers ``version`` of the book and the ``bullet`` beside its books.

    Raises:
        NotFound: no such bullet.
        BulletChanged: it is not as the teacher read it; nothing was done. ``details`` are what this route answers.
    """
    verdict = Judge(bullet_id=bullet_id, status="verified", reasons=(asked.reason,) if asked.reason else ())
    return desk.decide(bullet_id, asked, asked.reason or "giáo viên duyệt", lambda _: (verdict,))


@router.post("/bullets/{bullet_id}/reject")
def reject(bullet_id: BulletId, asked: Rejection, desk: Desk) -> dict[str, Any]:
    """Keeps a bullet from pupils, in quarantine. Answers and raises as ``approve`` does."""
    verdict = Judge(bullet_id=bullet_id, status="quarantined", reasons=(asked.reason,))
    return desk.decide(bullet_id, asked, asked.reason, lambda _: (verdict,))


@router.post("/bullets/{bullet_id}/edit")
def edit(bullet_id: BulletId, asked: Edit, desk: Desk) -> dict[str, Any]:
    """Changes a bullet and, with ``approve``, lets the result be shown: both or neither. Answers as ``approve`` does.

    Raises:
        NotFound, BulletChanged: as ``approve`` does.
        BadRequest: nothing would change, or the bullet is retired.
    """
    fields = ("text", "kind", "section", "scope")
    update = Update(bullet_id=bullet_id, **{name: getattr(asked, name) for name in fields})
    verdict = Judge(bullet_id=bullet_id, status="verified", reasons=(asked.reason,) if asked.reason else ())

    def operations(bullet: Bullet) -> tuple[Operation, ...]:
        if all(getattr(update, name) in (None, getattr(bullet, name)) for name in fields):
            told = "nội dung (text), loại (kind), mục (section) hoặc phạm vi (scope) khác với hiện nay"
            raise BadRequest(f"Chưa có gì để sửa: cần {told}. Muốn duyệt nguyên văn thì dùng 'approve'.")
        if bullet.status == "retired":
            raise BadRequest(f"Điều {bullet_id!r} đã bỏ nên không sửa được: hãy duyệt lại nó trước, rồi hãy sửa.")
        return (update, verdict) if asked.approve else (update,)

    reason = asked.reason or ("giáo viên sửa và duyệt" if asked.approve else "giáo viên sửa")
    return desk.decide(bullet_id, asked, reason, operations)


@router.get("/history")
def history(desk: Desk, limit: Limit = 50, before: Annotated[int | None, Query(ge=1)] = None) -> dict[str, Any]:
    """Changes of the book, newest first; with ``before``, of the versions before that one.

    Returns:
        ``version`` of the book, ``next_before``: what to ask for to go on, null at the end, and ``changes``: each with
        its ``version``, ``at``, ``author`` (``role``, ``name``), ``reason``, ``operations`` (how many of each name),
        ``bullet_count`` and the first of those bullets, ``bullet_ids``.
    """
    newest = desk.book.version
    newer = 0 if before is None else max(0, newest - before + 1)
    changes = desk.book.history(limit=limit + newer)
    changes = [change for change in changes if before is None or change.version < before][:limit]
    last = changes[-1].version if changes else before
    following = last if last is not None and last > 1 else None
    return {"version": newest, "next_before": following, "changes": [_entry(change) for change in changes]}


@router.get("/diff")
def diff(desk: Desk, before: Version, after: Version | None = None) -> dict[str, Any]:
    """What differs between two versions; without ``after``, up to now.

    Returns:
        ``before`` and ``after``; bullets ``added`` and ``removed``; ``changed``: bullets ``before`` and ``after``, with
        the names of the ``fields`` that differ.

    Raises:
        NotFound: no such version.
    """
    after = desk.book.version if after is None else after
    found = desk.book.diff(before, after)
    added, removed = ([_plain(bullet) for bullet in some] for some in (found.added, found.removed))
    changed = [_change(old, new) for old, new in found.changed]
    return {"before": before, "after": after, "added": added, "removed": removed, "changed": changed}


@router.post("/rollback")
def rollback(asked: Rollback, desk: Desk) -> dict[str, Any]:
    """Makes an earlier version the present one. Nothing is lost: this too is a change, and can be taken back.

    Returns:
        ``version`` of the book now, and ``changed``: false where it was like the version asked for already.

    Raises:
        NotFound: no such version.
    """
    done = desk.book.rollback(asked.version, desk.author(asked.by), asked.reason)
    return {"version": done.version, "changed": not done.again}
