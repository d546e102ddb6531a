"""``deepedu school``: the first account, and what an admin does without a browser."""

from datetime import date
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deepedu.base.errors import BadRequest, NotFound
from deepedu.cli.main import open_database, settings_with
from deepedu.school import people
from deepedu.school.accounts import ROLES, Account, account_of
from deepedu.school.class_changes import is_school_year, list_classes
from deepedu.school.classes import school_year_of
from deepedu.school.directory import STATES, find_people, named
from deepedu.school.people import Slip
from deepedu.school.roster_file import MAX_FILE_BYTES, read_roster
from deepedu.school.roster_import import ImportPreview, import_roster, preview_import
from deepedu.school.roster_plan import passwords_csv, result_csv
from deepedu.store import Database

_ROLES = {"student": "học sinh", "teacher": "giáo viên", "guardian": "phụ huynh", "admin": "quản trị"}
_POLICIES = {"tutor": "gia sư", "explain": "giảng giải", "exam_off": "tắt khi thi"}
_SHOWN_PROBLEMS = 20
# Whoever sits at the machine has no account that the audit log could name.
ACTOR = "cli"


@click.group()
def school() -> None:
    """Accounts and classes: make the first admin, list people, reset passwords, import a roster."""


@school.command()
@click.option("--username", default="admin", show_default=True, help="To sign in with.")
@click.option("--name", default="Quản trị", show_default=True, help="Full name.")
@click.pass_context
def init(ctx: click.Context, username: str, name: str) -> None:
    """Make the first admin, and show the password once."""
    settings, database, console = settings_with(ctx), open_database(ctx), Console()
    if people.has_admin(database):
        raise BadRequest(
            "trường đã có tài khoản quản trị; quên mật khẩu thì đặt lại: deepedu school password TÊN-ĐĂNG-NHẬP "
            "(xem tên: deepedu school people --role admin)"
        )
    slip = people.add_first_admin(database, username, name, actor=ACTOR)
    _show_password(console, slip)
    server = settings.server
    scheme = "https" if server.certificate is not None else "http"
    console.print(
        "\nTiếp theo:\n"
        f"  1. deepedu serve                      rồi mở {scheme}://{server.host}:{server.port} và đăng nhập\n"
        "  2. deepedu ingest TỆP-HOẶC-THƯ-MỤC    nạp sách giáo khoa (hoặc gửi sách trên trang)\n"
        "  3. deepedu school import DANH-SÁCH    tạo lớp và tài khoản từ CSV, Excel (hoặc trên trang)",
        markup=False,
        highlight=False,
    )


@school.command("people")
@click.argument("words", nargs=-1)
@click.option("--role", type=click.Choice(ROLES), help="Only this role.")
@click.option("--state", type=click.Choice(STATES), help="Only this state.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.pass_context
def people_(ctx: click.Context, words: tuple[str, ...], role: str | None, state: str | None, page: int) -> None:
    """List people; WORDS of name, username or code, with or without accents."""
    found = find_people(open_database(ctx), words=" ".join(words), role=role or "", state=state or "", page=page)
    console = Console()
    if not found.people:
        console.print("Không có ai như vậy.", highlight=False)
        return
    table = Table("họ và tên", "vai trò", "lớp", "tên đăng nhập", "mã số", "tình trạng")
    for each in found.people:
        status = "đã khóa" if not each.is_active else "chưa đổi mật khẩu" if each.is_unused else "đang dùng"
        table.add_row(
            escape(each.account.full_name),
            _ROLES[each.account.role],
            escape(", ".join(each.classes)),
            escape(each.account.username),
            escape(each.code or ""),
            status,
        )
    console.print(table)
    console.print(f"{found.total} người, trang {found.page}/{found.pages}.", highlight=False)


@school.command("class")
@click.option("--year", help='School year such as "2026-2027"; otherwise all.')
@click.pass_context
def class_(ctx: click.Context, year: str | None) -> None:
    """List the classes."""
    found = list_classes(open_database(ctx), year or "")
    console = Console()
    if not found:
        console.print("Chưa có lớp nào. Nhập danh sách: deepedu school import TỆP", highlight=False)
        return
    table = Table("số", "lớp", "năm học", "khối", "học sinh", "giáo viên", "gia sư")
    for each in found:
        table.add_row(
            str(each.id),
            escape(each.name),
            each.school_year,
            str(each.grade or ""),
            str(each.students),
            str(each.teachers),
            _POLICIES[each.policy],
        )
    console.print(table)


@school.command()
@click.argument("username")
@click.pass_context
def password(ctx: click.Context, username: str) -> None:
    """Give somebody a new initial password, and show it once."""
    database = open_database(ctx)
    account = _named(database, username)
    _show_password(Console(), people.reset_password(database, ACTOR, account.public_id))


@school.command()
@click.argument("username")
@click.pass_context
def lock(ctx: click.Context, username: str) -> None:
    """Take an account out of use."""
    database = open_database(ctx)
    people.lock(database, ACTOR, _named(database, username).public_id)
    Console().print("Đã khóa tài khoản và đăng xuất khỏi mọi thiết bị.", highlight=False)


@school.command()
@click.argument("username")
@click.pass_context
def unlock(ctx: click.Context, username: str) -> None:
    """Take an account into use again."""
    database = open_database(ctx)
    people.unlock(database, ACTOR, _named(database, username).public_id)
    Console().print("Đã mở khóa tài khoản.", highlight=False)


@school.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--year", help="School year of the roster. Default: the present one.")
@click.option("--passwords", type=click.Path(path_type=Path, dir_okay=False), help="Where to write initial passwords.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Where to write what became of each line."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def import_(
    ctx: click.Context, file: Path, year: str | None, passwords: Path | None, report: Path | None, yes: bool
) -> None:
    """Make classes and accounts from FILE (CSV or XLSX), after showing what would be done."""
    settings, database, console = settings_with(ctx), open_database(ctx), Console()
    year = year or settings.school.school_year or school_year_of(date.today())
    if not is_school_year(year):
        raise BadRequest(f"năm học cần có dạng 2026-2027, nhận được {year!r}")
    preview = preview_import(database, read_roster(_content(file), file.name), year)
    _show_preview(console, preview)
    if report is not None:
        _write(report, result_csv(preview.roster, preview.plan))
    if not preview.changes_anything:
        console.print("Không có gì để ghi.", highlight=False)
        return
    target = passwords or file.with_name(f"{file.stem}-mat-khau.csv")
    if not yes:
        click.confirm("Ghi?", abort=True)
    if preview.plan.create:
        # Before anything is written, so that no password is lost to a folder that takes no file.
        _create(target)
    done = import_roster(database, ACTOR, preview)
    if done.passwords:
        _write(target, passwords_csv(done.passwords))
        console.print(f"Mật khẩu ban đầu: {target}. Hãy phát rồi xóa tệp.", markup=False, highlight=False)
    console.print("Đã ghi.", highlight=False)


def _named(database: Database, username: str) -> Account:
    with database.read() as session:
        person = named(session, username)
        if person is None:
            raise NotFound(f"không có ai với tên đăng nhập hay mã {username!r}; xem: deepedu school people")
        return account_of(person)


def _show_password(console: Console, slip: Slip) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("Họ và tên", escape(slip.account.full_name))
    table.add_row("Tên đăng nhập", f"[bold]{escape(slip.account.username)}[/]")
    table.add_row("Mật khẩu", f"[bold]{slip.password}[/]")
    console.print(table)
    console.print("Mật khẩu chỉ hiện lần này; khi đăng nhập lần đầu phải đổi.", style="yellow", highlight=False)


def _show_preview(console: Console, preview: ImportPreview) -> None:
    found = preview.plan
    problems = [each.message for each in preview.roster.problems if not each.is_warning]
    problems += [f"Dòng {each.row.line}: {each.row.full_name}: {each.reason}." for each in found.conflicts]
    console.print(
        f"Năm học {preview.school_year}: tạo {len(found.create)} tài khoản và {len(preview.new_classes)} lớp, "
        f"sửa {len(found.update)}, giữ nguyên {len(found.unchanged)}, không nhập được {len(problems)}.",
        highlight=False,
    )
    for told in problems[:_SHOWN_PROBLEMS]:
        console.print(f"• {told}", style="yellow", markup=False, highlight=False)
    if len(problems) > _SHOWN_PROBLEMS:
        console.print(f"… và {len(problems) - _SHOWN_PROBLEMS} dòng nữa; xem bằng --report TỆP.", highlight=False)


def _content(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise BadRequest(f"{file.name} lớn hơn {MAX_FILE_BYTES / 1e6:.0f} MB: hãy chia nhỏ danh sách")
        return file.read_bytes()
    except OSError as error:
        raise BadRequest(f"không đọc được {str(file)!r}: {error.strerror}") from error


def _create(file: Path) -> None:
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise BadRequest(f"{file} đã có: hãy chọn tệp khác cho mật khẩu bằng --passwords") from error
    except OSError as error:
        raise BadRequest(f"không ghi được {str(file)!r}: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise BadRequest(f"không ghi được {str(file)!r}: {error.strerror}") from error
