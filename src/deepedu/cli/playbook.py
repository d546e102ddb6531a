"""``deepedu playbook``: what was learnt, how it came about, and taking it back."""

import getpass
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deepedu.base.errors import BadRequest, InvalidDelta, NotFound
from deepedu.cli.main import open_database
from deepedu.playbook.book import Change, Playbook
from deepedu.playbook.bullet import Author, Bullet, PassageEvidence
from deepedu.playbook.delta import Judge, Put
from deepedu.playbook.exchange import from_json, from_markdown, to_json, to_markdown
from deepedu.playbook.state import State
from deepedu.playbook.trust import harmful
from deepedu.tutor.reliance import reliance

_STATUS = {
    "proposed": ("chờ duyệt", "yellow"),
    "verified": ("đang dùng", "green"),
    "quarantined": ("cách ly", "red"),
    "retired": ("đã bỏ", "dim"),
}
_OPERATIONS = {
    "ADD": "thêm",
    "UPDATE": "sửa",
    "MERGE": "gộp",
    "RETIRE": "bỏ",
    "COUNT": "đếm",
    "JUDGE": "duyệt",
    "PUT": "đặt lại",
    "REMOVE": "rút",
}
_EMPTY = "Sổ tay còn trống."


@click.group()
def playbook() -> None:
    """What the tutor has learnt: show it, follow it, approve or reject it, take it back."""


def _open(ctx: click.Context) -> Playbook:
    return Playbook(open_database(ctx))


def _me(name: str | None) -> Author:
    return Author(role="teacher", name=name or getpass.getuser())


_by = click.option("--by", help="Who decides. Default: the name of your account.")


@playbook.command()
@click.argument("bullet_id", required=False)
@click.option("--status", type=click.Choice(list(_STATUS)), help="Only bullets of this status.")
@click.option("--at", type=int, help="As of this version.")
@click.pass_context
def show(ctx: click.Context, bullet_id: str | None, status: str | None, at: int | None) -> None:
    """List the bullets, or show one with its evidence."""
    book, console = _open(ctx), Console()
    state = book.state() if at is None else book.at(at)
    if bullet_id is not None:
        _show_one(console, _found(state, bullet_id))
        return
    bullets = [bullet for bullet in state.ordered() if status is None or bullet.status == status]
    if not bullets:
        console.print(_EMPTY if not state.bullets else "Không có điều nào như thế.", highlight=False)
        return
    for section in dict.fromkeys(bullet.section for bullet in bullets):
        table = Table("số", "nội dung", "tình trạng", "giúp/hại", title=escape(section or "—"), title_justify="left")
        for bullet in bullets:
            if bullet.section == section:
                says, colour = _STATUS[bullet.status]
                counts = f"{bullet.helpful}/{bullet.harmful}"
                table.add_row(escape(bullet.id), escape(bullet.text), f"[{colour}]{says}[/]", counts)
        console.print(table)


@playbook.command()
@click.argument("bullet_id", required=False)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Changes to show.")
@click.pass_context
def history(ctx: click.Context, bullet_id: str | None, limit: int) -> None:
    """List the changes, newest first: of the whole playbook or of one bullet."""
    console = Console()
    changes = _open(ctx).history(limit=limit, bullet_id=bullet_id)
    if not changes:
        console.print(_EMPTY if bullet_id is None else "Chưa có thay đổi nào.", highlight=False)
        return
    table = Table("bản", "lúc", "ai", "việc", "lý do")
    for change in changes:
        at = change.delta.at.astimezone().strftime("%Y-%m-%d %H:%M")
        table.add_row(
            str(change.version), at, escape(_who(change.delta.author)), _deeds(change), escape(change.delta.reason)
        )
    console.print(table)


@playbook.command()
@click.argument("before", type=int)
@click.argument("after", type=int, required=False)
@click.pass_context
def diff(ctx: click.Context, before: int, after: int | None) -> None:
    """Show what differs between two versions; without AFTER, up to now."""
    book, console = _open(ctx), Console()
    found = book.diff(before, book.version if after is None else after)
    for bullet in found.removed:
        console.print(f"- [{bullet.id}] {bullet.text}", style="red", markup=False, highlight=False)
    for bullet in found.added:
        console.print(f"+ [{bullet.id}] {bullet.text}", style="green", markup=False, highlight=False)
    for old, new in found.changed:
        console.print(f"~ [{new.id}] {new.text}", style="yellow", markup=False, highlight=False)
        for name in Bullet.model_fields:
            if name not in ("id", "changed_at") and getattr(old, name) != getattr(new, name):
                values = f"{_value(getattr(old, name))} → {_value(getattr(new, name))}"
                console.print(f"    {name}: {values}", markup=False, highlight=False)
    if not (found.removed or found.added or found.changed):
        console.print("Hai bản như nhau.", highlight=False)


@playbook.command()
@click.argument("version", type=int)
@click.option("--reason", required=True, help="Why; it stays in the history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_by
@click.pass_context
def rollback(ctx: click.Context, version: int, reason: str, yes: bool, by: str | None) -> None:
    """Make an earlier version the present one. Nothing is lost: this too can be rolled back."""
    book = _open(ctx)
    found = book.diff(book.version, version)
    if not yes:
        counts = f"rút {len(found.removed)}, đưa lại {len(found.added)}, đổi {len(found.changed)} điều"
        click.confirm(f"Trở về bản {version}: {counts}?", abort=True)
    done = book.rollback(version, _me(by), reason)
    says = f"Sổ tay đã như bản {version}" + ("." if done.again else f" (bản mới: {done.version}).")
    Console().print(says, highlight=False)


@playbook.command()
@click.argument("bullet_ids", nargs=-1, required=True)
@click.option("--reason", help="Why; shown with the bullet.")
@_by
@click.pass_context
def approve(ctx: click.Context, bullet_ids: tuple[str, ...], reason: str | None, by: str | None) -> None:
    """Let bullets be shown to pupils. You vouch for them."""
    reasons = (reason,) if reason else ()
    operations = [Judge(bullet_id=each, status="verified", reasons=reasons) for each in bullet_ids]
    done = _open(ctx).change(operations, _me(by), reason or "giáo viên duyệt")
    Console().print(f"Đã duyệt {len(bullet_ids)} điều (bản {done.version}).", highlight=False)


@playbook.command()
@click.argument("bullet_ids", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; shown with the bullet, and the tutor learns from it.")
@_by
@click.pass_context
def reject(ctx: click.Context, bullet_ids: tuple[str, ...], reason: str, by: str | None) -> None:
    """Keep bullets from pupils. They stay in the playbook, in quarantine."""
    operations = [Judge(bullet_id=each, status="quarantined", reasons=(reason,)) for each in bullet_ids]
    done = _open(ctx).change(operations, _me(by), reason)
    Console().print(f"Đã từ chối {len(bullet_ids)} điều (bản {done.version}).", highlight=False)


@playbook.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--at", type=int, help="As of this version.")
@click.pass_context
def export_(ctx: click.Context, file: Path, at: int | None) -> None:
    """Write the playbook to FILE, by its ending .md or .json; both hold everything."""
    book = _open(ctx)
    state = book.state() if at is None else book.at(at)
    writer = {".md": to_markdown, ".json": to_json}.get(file.suffix.lower())
    if writer is None:
        raise BadRequest(f"expected a file that ends in .md or .json, came {file.name!r}")
    try:
        file.write_text(writer(state), encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadRequest(f"cannot write {str(file)!r}: {error.strerror}") from error
    Console().print(f"Đã ghi {len(state.bullets)} điều vào {file}.", markup=False, highlight=False)


@playbook.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Where an id is known with other content, take the file's.")
@click.option(
    "--keep-status", is_flag=True, help="Take bullets as verified that the file calls so: you vouch for them."
)
@click.option("--reason", help="Why; it stays in the history.")
@_by
@click.pass_context
def import_(
    ctx: click.Context, file: Path, replace: bool, keep_status: bool, reason: str | None, by: str | None
) -> None:
    """Read bullets from an exported FILE (.md or .json). Without --keep-status they wait to be verified again."""
    reader = {".md": from_markdown, ".json": from_json}.get(file.suffix.lower())
    if reader is None:
        raise BadRequest(f"expected a file that ends in .md or .json, came {file.name!r}")
    try:
        bullets = reader(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {str(file)!r}: {error}") from error
    book = _open(ctx)
    state = book.state()
    if not keep_status:
        bullets = [_unverified(bullet) for bullet in bullets]
    new = [bullet for bullet in bullets if bullet.id not in state.bullets]
    other = [bullet for bullet in bullets if bullet.id in state.bullets and bullet != state.bullets[bullet.id]]
    if other and not replace:
        raise InvalidDelta(
            f"{len(other)} ids are known with other content ({', '.join(each.id for each in other[:5])}): give "
            "--replace to take the file's, or change the ids in the file"
        )
    console = Console()
    if not (taken := new + other):
        console.print("Sổ tay đã có tất cả.", highlight=False)
        return
    placed = _placed(new, state) + [Put(bullet=bullet) for bullet in other]
    done = book.change(placed, _me(by), reason or f"nhập từ {file.name}")
    console.print(f"Đã nhập {len(taken)} điều (bản {done.version}).", highlight=False)


@playbook.command()
@click.pass_context
def stats(ctx: click.Context) -> None:
    """Count the bullets by status and kind, and name those that keep harming."""
    book, console = _open(ctx), Console()
    state = book.state()
    if not state.bullets:
        console.print(_EMPTY, highlight=False)
        return
    statuses = Counter(bullet.status for bullet in state.bullets.values())
    kinds = Counter(bullet.section for bullet in state.bullets.values() if bullet.status == "verified")
    tokens = sum(bullet.tokens for bullet in state.bullets.values() if bullet.status != "retired")
    table = Table("", "số điều", show_header=False)
    for status, (says, colour) in _STATUS.items():
        table.add_row(f"[{colour}]{says}[/]", str(statuses[status]))
    for section, count in kinds.most_common():
        table.add_row(f"  {escape(section or '—')}", str(count))
    console.print(table)
    console.print(f"bản {book.version}, khoảng {tokens} token", highlight=False)
    for bullet in harmful(state.ordered()):
        console.print(
            f"! [{bullet.id}] hại nhiều hơn giúp ({bullet.harmful}/{bullet.helpful}): {bullet.text}",
            style="red",
            markup=False,
            highlight=False,
        )


@playbook.command("reliance")
@click.pass_context
def reliance_(ctx: click.Context) -> None:
    """Show what answers stood on, week by week: the books, the playbook, or nothing that could be checked."""
    console = Console()
    weeks = reliance(open_database(ctx))
    if not weeks:
        console.print("Chưa có câu trả lời nào.", highlight=False)
        return
    table = Table("tuần từ", "câu trả lời", "sách chưa nói", "sách", "sổ tay", "mô hình tự nói (bị gạch)")
    for week in weeks:
        shares = (f"{share:.0%}" for share in week.shares)
        table.add_row(week.week.isoformat(), str(week.answers), str(week.not_found), *shares)
    console.print(table)


def _found(state: State, bullet_id: str) -> Bullet:
    if bullet_id not in state.bullets:
        raise NotFound(f"there is no bullet {bullet_id!r}: 'deepedu playbook show' lists them")
    return state.bullets[bullet_id]


def _unverified(bullet: Bullet) -> Bullet:
    if bullet.status != "verified":
        return bullet
    return bullet.model_copy(update={"status": "proposed", "reasons": ("nhập từ tệp",)})


def _placed(bullets: list[Bullet], state: State) -> list[Put]:
    """New bullets after those that are there, where another has their place already."""
    taken = {bullet.order for bullet in state.bullets.values()}
    if not taken.intersection(bullet.order for bullet in bullets):
        return [Put(bullet=bullet) for bullet in bullets]
    first = state.last_order + 1
    ordered = sorted(bullets, key=lambda bullet: bullet.order)
    return [Put(bullet=bullet.model_copy(update={"order": first + n})) for n, bullet in enumerate(ordered)]


def _show_one(console: Console, bullet: Bullet) -> None:
    says, colour = _STATUS[bullet.status]
    console.print(f"[bold]{escape(bullet.id)}[/] [{colour}]{says}[/] · {escape(bullet.section)}")
    console.print(bullet.text, markup=False, highlight=False)
    scope = ", ".join(f"{name} {value}" for name, value in bullet.scope if value is not None)
    facts = {
        "phạm vi": scope or "mọi nơi",
        "giúp/hại": f"{bullet.helpful}/{bullet.harmful}",
        "tác giả": _who(bullet.author),
        "từ": bullet.created_at.astimezone().strftime("%Y-%m-%d %H:%M"),
    }
    for name, value in facts.items():
        console.print(f"  {name}: {value}", markup=False, highlight=False)
    for reason in bullet.reasons:
        console.print(f"  lý do: {reason}", markup=False, highlight=False)
    for each in bullet.evidence:
        told = (
            f"trang {each.page}: “{each.quote}”"
            if isinstance(each, PassageEvidence)
            else f"{each.signal} ({each.reference})"
        )
        console.print(f"  chứng cứ: {told}", markup=False, highlight=False)


def _who(author: Author) -> str:
    role = {"model": "mô hình", "verifier": "bộ kiểm chứng", "teacher": "giáo viên", "system": "hệ thống"}[author.role]
    return f"{role} {author.name}".strip()


def _deeds(change: Change) -> str:
    counts = Counter(_OPERATIONS[operation.op] for operation in change.delta.operations)
    return ", ".join(f"{deed} {count}" for deed, count in counts.items())


def _value(value: object) -> str:
    return "—" if value in (None, (), "") else str(value)
