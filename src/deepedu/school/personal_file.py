"""Everything that is kept about a person, as one zip: JSON for programs, ``index.html`` for reading, a README.

It is made while it is sent and never lies on a disk of ours. Of other people it holds what concerns the person: the
names of teachers, of guardians, of a guardian's children; whoever else did something is told by role.
"""

import html
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, cast

import sqlalchemy as sa

from deepedu.base.errors import NotFound
from deepedu.school.accounts import Account
from deepedu.school.personal_records import FILES, read_conversation, read_records
from deepedu.store import Database
from deepedu.store.tables import Conversation, Person, now

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50rem;margin:1rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{border:1px solid #bbb;padding:.3rem .5rem;text-align:left;"
    "vertical-align:top;overflow-wrap:anywhere}pre{white-space:pre-wrap}"
)


class _Pipe:
    """Takes what a zip writes and hands it on in pieces; nothing can go back in it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """A zip asks for it."""

    def taken(self) -> bytes:
        """What came since the last time."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def personal_file(
    database: Database,
    person: Account,
    *,
    for_guardian: bool = False,
    transcripts: bool = True,
    at: datetime | None = None,
) -> Iterator[bytes]:
    """The zip, piece by piece; no more than one conversation of it is in memory.

    Args:
        for_guardian: without what the school looks at for the pupil's safety.
        transcripts: whether conversations are in it.

    Raises:
        NotFound: the person is not there any more; before the first piece.
    """
    at = at or now()
    with database.read() as session:
        row = session.scalar(sa.select(Person).where(Person.public_id == person.public_id))
        if row is None:
            raise NotFound(f"Không có người dùng {person.public_id[:32]!r}: có thể tài khoản vừa bị xóa.")
        parts = read_records(database, session, row, person.owner, for_guardian=for_guardian, transcripts=transcripts)
        chats = session.scalars(
            sa.select(Conversation.id).where(Conversation.owner == person.owner).order_by(Conversation.id)
        ).all()
    readme = _readme(at, list(parts), transcripts=transcripts, for_guardian=for_guardian)
    return _pieces(database, person, at, readme, parts, chats if transcripts else None)


def _pieces(
    database: Database,
    person: Account,
    at: datetime,
    readme: str,
    parts: Mapping[str, Any],
    chats: Sequence[int] | None,
) -> Iterator[bytes]:
    pipe = _Pipe()
    with zipfile.ZipFile(cast(IO[bytes], pipe), "w", zipfile.ZIP_DEFLATED) as archive:
        add = _Adding(archive, at)
        add("README.txt", readme)
        for name, values in parts.items():
            add(name, _json(values))
        yield pipe.taken()
        told: list[tuple[str, str, int]] = []
        for number, conversation_id in enumerate(chats or (), start=1):
            # A transaction for each: whoever downloads slowly must not hold the database's journal.
            conversation = read_conversation(database, conversation_id)
            if conversation is None:
                continue
            name = f"conversations/{number:05}"
            add(f"{name}.json", _json(conversation))
            add(f"{name}.html", _conversation_page(conversation))
            told.append((f"{name}.html", conversation["created_at"], len(conversation["turns"])))
            yield pipe.taken()
        add("index.html", _index(person.full_name, at, parts, told if chats is not None else None))
    yield pipe.taken()


def write_personal_file(database: Database, person: Account, target: IO[bytes], **choices: Any) -> None:
    """Writes the zip into an open file; ``choices`` are those of ``personal_file``.

    Raises:
        NotFound: as ``personal_file``.
    """
    for piece in personal_file(database, person, **choices):
        target.write(piece)


def file_name(person: Account, at: datetime) -> str:
    """What the file is called; no name of a person in it, it may lie in a download folder for long."""
    return f"deepedu-{person.public_id}-{at.astimezone():%Y%m%d}.zip"


@dataclass(frozen=True)
class _Adding:
    archive: zipfile.ZipFile
    at: datetime

    def __call__(self, name: str, text: str) -> None:
        info = zipfile.ZipInfo(name, self.at.astimezone().timetuple()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        self.archive.writestr(info, text.encode())


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=1, default=_moment) + "\n"


def _moment(at: datetime) -> str:
    return at.isoformat()


def _readme(at: datetime, names: Sequence[str], *, transcripts: bool, for_guardian: bool) -> str:
    lines = [
        "DỮ LIỆU CÁ NHÂN TRONG GIA SƯ DEEPEDU",
        f"Lấy ra lúc {at.astimezone():%H:%M ngày %d/%m/%Y}.",
        "",
        "Tệp này chứa những điều hệ thống đang giữ về một người. Mở index.html bằng trình duyệt (không cần mạng);",
        "các tệp .json chứa cùng dữ liệu ấy cho máy đọc. Giờ trong tệp .json là giờ quốc tế (UTC).",
        "",
        *(f"- {name}: {FILES[name]}" for name in names),
        *(["- conversations/: Các cuộc trò chuyện với gia sư"] if transcripts else []),
        "",
    ]
    if not transcripts:
        lines.append("Nhà trường không mở cuộc trò chuyện cho người giám hộ, nên tệp này không có phần đó.")
    if for_guardian:
        lines.append("Phần việc cần người lớn xem không có trong tệp: hãy hỏi trực tiếp thầy cô chủ nhiệm.")
    lines += [
        "Mật khẩu không có trong tệp: hệ thống không giữ mật khẩu ở dạng đọc được.",
        "Người khác được nêu bằng vai trò, trừ tên giáo viên dạy và người giám hộ hay con em liên quan.",
        "Đây là dữ liệu riêng tư: hãy cất ở nơi chỉ mình mở được, và xóa khi không cần nữa.",
        "Thấy điều gì sai, hay muốn xóa dữ liệu, hãy báo nhà trường.",
    ]
    return "\r\n".join(lines) + "\r\n"


def _page(title: str, body: list[str]) -> str:
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="vi"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _index(full_name: str, at: datetime, parts: Mapping[str, Any], told: list[tuple[str, str, int]] | None) -> str:
    body = [
        f"<h1>Dữ liệu của {html.escape(full_name)}</h1>",
        f"<p>Lấy ra lúc {at.astimezone():%H:%M ngày %d/%m/%Y}. Đây là dữ liệu riêng tư: hãy cất cẩn thận.</p>",
    ]
    for name, values in parts.items():
        body.append(f"<h2>{FILES[name]}</h2>{_shown(values)}")
    if told is not None:
        body.append(f"<h2>Cuộc trò chuyện ({len(told)})</h2><ul>")
        body += [f'<li><a href="{file}">{html.escape(made[:10])}</a>, {turns} lượt</li>' for file, made, turns in told]
        body.append("</ul>")
    return _page(f"Dữ liệu của {full_name}", body)


def _conversation_page(conversation: Mapping[str, Any]) -> str:
    body = [f"<h1>Cuộc trò chuyện {html.escape(conversation['created_at'][:10])}</h1>"]
    for turn in conversation["turns"]:
        answer = turn["answer"]
        said = answer.get("text") if isinstance(answer, dict) else None
        body.append(f"<h2>Hỏi</h2><pre>{html.escape(turn['question'] or '')}</pre>")
        body.append(f"<h2>Đáp</h2><pre>{html.escape(str(said or turn['draft'] or turn['error'] or ''))}</pre>")
        if turn["feedback"]:
            body.append(_shown(json.loads(_json(turn["feedback"]))))
    return _page("Cuộc trò chuyện", [*body, '<p><a href="../index.html">Về trang đầu</a></p>'])


def _shown(values: Any) -> str:
    """Plain values as tables within tables."""
    if isinstance(values, dict):
        rows = "".join(
            f"<tr><th>{html.escape(str(key))}</th><td>{_shown(each)}</td></tr>" for key, each in values.items()
        )
        return f"<table>{rows}</table>" if values else "–"
    if isinstance(values, list):
        if not values:
            return "–"
        if all(isinstance(each, str | int | float) for each in values):
            return html.escape(", ".join(map(str, values)))
        return "".join(_shown(each) for each in values)
    if isinstance(values, datetime):
        return f"{values.astimezone():%H:%M %d/%m/%Y}"
    return "–" if values is None else html.escape(str(values))
