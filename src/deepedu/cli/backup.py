"""``deepedu backup`` and ``deepedu restore``."""

import json
from pathlib import Path

import click

from deepedu.base.errors import Unsupported
from deepedu.cli.main import open_database, settings_with
from deepedu.school.erasure import resume_erasures
from deepedu.school.overview import BACKUP_NOTE
from deepedu.store import Database
from deepedu.store.backup import check_backup, write_backup
from deepedu.store.keys_copy import refuse_keys, restore_keys, write_keys
from deepedu.store.restore import restore_backup

_MB = 1e6


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="Also, or without FILE only, copy the keys, to a file kept apart (a USB stick).",
)
@click.option("--replace", is_flag=True, help="Overwrite FILE if it exists.")
@click.pass_context
def backup(ctx: click.Context, file: Path | None, keys: Path | None, replace: bool) -> None:
    """Back the data folder up into FILE, also while the server runs.

    FILE holds no key: what pupils wrote can be read only together with the keys, and no more once theirs is destroyed.
    Without a copy of the keys, a lost disk means lost conversations: write one with --keys, always over the last one.
    """
    if file is None and keys is None:
        raise click.UsageError("Hãy cho biết tệp để ghi bản sao lưu, hoặc --keys TỆP để chỉ chép khóa.")
    database = open_database(ctx)
    if file is not None:
        _write(database, file, replace=replace)
        if keys is None:
            click.echo(
                "Bản sao lưu không chứa khóa. Chép khóa ra nơi cất riêng bằng --keys TỆP (ghi đè lên bản trước)."
            )
    if keys is not None:
        write_keys(database.vault, keys)
        click.echo(f"Đã chép khóa vào {keys}: hãy cất riêng, đừng để cùng chỗ với bản sao lưu.")


def _write(database: Database, file: Path, *, replace: bool) -> None:
    # Journals of learning hold answers to pupils in plain words.
    report = write_backup(database, file, exclude=("learn",), replace=replace)
    count, size = len(report.manifest.files), report.bytes / _MB
    note = {"at": report.manifest.created_at.isoformat()}
    (database.data_dir / BACKUP_NOTE).write_text(json.dumps(note), encoding="utf-8")
    click.echo(f"Đã sao lưu {count} tệp vào {report.path} ({size:.1f} MB).")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--keys", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The copy of the keys.")
@click.option("--replace", is_flag=True, help="Set the present data folder aside (it is not deleted).")
@click.option("--check", is_flag=True, help="Only read FILE from end to end and tell what it holds.")
@click.pass_context
def restore(ctx: click.Context, file: Path, keys: Path | None, replace: bool, check: bool) -> None:
    """Make the backup FILE the data folder. Stop the server first."""
    if check:
        manifest = check_backup(file)
        told = f"{len(manifest.files)} tệp, {manifest.content_bytes / _MB:.1f} MB, DeepEdu {manifest.deepedu}"
        click.echo(f"Bản sao lưu lành: {told}, lúc {manifest.created_at.astimezone():%H:%M %d/%m/%Y}.")
        return
    store = settings_with(ctx).store
    if store.url is not None and not store.url.startswith("sqlite"):
        raise Unsupported(
            "lệnh khôi phục chỉ dùng cho SQLite trong thư mục dữ liệu, nhưng store.url nêu một cơ sở dữ liệu khác: hãy "
            "khôi phục nó bằng pg_restore, rồi chép lại thư mục documents và khóa"
        )
    if keys is not None:
        refuse_keys(store.data_dir.expanduser())
    own = [store.key_file.name] if store.key_file else []
    report = restore_backup(file, store.data_dir, replace=replace, keep=own)
    if keys is not None:
        restore_keys(keys, report.data_dir)
    database = open_database(ctx)
    # What was deleted after this backup was made comes back with it, and is deleted again.
    again = resume_erasures(database)
    click.echo(f"Đã khôi phục {len(report.manifest.files)} tệp vào {report.data_dir}.")
    if again:
        click.echo(f"Đã xóa lại dữ liệu của {len(again)} người đã được xóa sau khi bản sao lưu này được tạo.")
    if report.aside is not None:
        click.echo(f"Dữ liệu trước đó nằm ở {report.aside}.")
