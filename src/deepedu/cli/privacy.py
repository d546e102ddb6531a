"""``deepedu privacy``: what the law asks a school to be able to do, without a browser."""

import os
import secrets
from pathlib import Path

import click
from rich.console import Console

from deepedu.base.errors import BadRequest, NotFound, StoreError
from deepedu.cli.main import open_database, settings_with
from deepedu.school import audit
from deepedu.school.accounts import Account, account_of
from deepedu.school.directory import named, person_of
from deepedu.school.erasure import CHOSEN_REASONS, erase, reason_of
from deepedu.school.personal_file import file_name, write_personal_file
from deepedu.school.retention import run_retention
from deepedu.store import Database
from deepedu.store.tables import now

# Whoever sits at the machine has no account that the audit log could name.
ACTOR = "cli"


@click.group()
def privacy() -> None:
    """Hand out or erase a person's data, delete what is too old, verify the audit log."""


@privacy.command("export")
@click.argument("who")
@click.option("--out", type=click.Path(path_type=Path), help="The zip file. Default: here, named by the public id.")
@click.pass_context
def export_(ctx: click.Context, who: str, out: Path | None) -> None:
    """Write everything that is kept about WHO (username, code or public id) into a zip file."""
    database = open_database(ctx)
    person = _person(database, who)
    target = out or Path(file_name(person, now()))
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    if target.exists():
        raise BadRequest(f"{target} đã có: hãy chọn tên khác bằng --out, hoặc chuyển tệp đó đi")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            write_personal_file(database, person, file)
        part.replace(target)
    except OSError as error:
        raise StoreError(f"không ghi được {target}: {error.strerror or error}; hãy chọn chỗ khác bằng --out") from error
    finally:
        part.unlink(missing_ok=True)
    audit.log(database, ACTOR, "person.export", person.public_id, "with transcripts")
    Console().print(
        f"Đã ghi {target}. Tệp có dữ liệu riêng tư: hãy giao tận tay rồi xóa ở máy này.", markup=False, highlight=False
    )


@privacy.command("erase")
@click.argument("who")
@click.option("--reason", type=click.Choice(CHOSEN_REASONS), required=True, help="Stands in the certificate.")
@click.option("--certificate", type=click.Path(path_type=Path), help="Where to write the certificate, as JSON.")
@click.option("--yes", is_flag=True, help="Do not ask for the username.")
@click.pass_context
def erase_(ctx: click.Context, who: str, reason: str, certificate: Path | None, yes: bool) -> None:
    """Erase WHO for good: every row, and the key by which old backups could be read.

    Run it again with the public id if it was interrupted. Restart a running server afterwards: it may hold the key in
    memory.
    """
    database, console = open_database(ctx), Console()
    try:
        person = _person(database, who)
    except NotFound:
        # Erased already, perhaps half way: the public id still leads to the certificate.
        public_id = who
    else:
        public_id = person.public_id
        console.print(f"{person.full_name} ({person.username}), {public_id}", markup=False, highlight=False)
        if not yes and click.prompt("Gõ tên đăng nhập để xóa hẳn, không lấy lại được").strip() != person.username:
            raise BadRequest("không đúng tên đăng nhập: chưa xóa gì")
    chosen = reason_of(reason)
    assert chosen is not None, "click lets nothing else through"
    made = erase(database, public_id, reason=chosen, by=ACTOR)
    for kind, count in made.deleted.items():
        console.print(f"  {kind}: {count}", markup=False, highlight=False)
    console.print(f"Đã xóa hẳn. Mã giấy chứng nhận: {made.digest}", markup=False, highlight=False)
    if certificate is not None:
        try:
            certificate.write_text(made.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(
                f"đã xóa, nhưng không ghi được {certificate}: {error.strerror}; chạy lại với {public_id} để ghi"
            ) from error


@privacy.command()
@click.pass_context
def retention(ctx: click.Context) -> None:
    """Delete everything that is older than the school keeps it. A running server does so every night by itself."""
    report = run_retention(open_database(ctx), settings_with(ctx).school, actor=ACTOR)
    console = Console()
    for kind, count in report.deleted.items():
        console.print(f"  {kind}: {count}", markup=False, highlight=False)
    console.print("Đã xóa dữ liệu quá hạn." if report.deleted else "Không có gì quá hạn.", highlight=False)


@privacy.command("verify-audit")
@click.pass_context
def verify_audit(ctx: click.Context) -> None:
    """Verify the chain of the audit log; status 1 if an entry was changed or is missing."""
    database = open_database(ctx)
    count = audit.verify(database)
    audit.log(database, ACTOR, "audit.verify", "audit", f"{count} entries")
    Console().print(f"Chuỗi nguyên vẹn: {count} mục.", highlight=False)


def _person(database: Database, who: str) -> Account:
    with database.read() as session:
        return account_of(named(session, who) or person_of(session, who))
