"""Files that a browser sends: streamed to disk while they come, and never more than is wanted.

A route takes the request itself and opens its body here. With ``File`` parameters the whole body would be read before
anybody has looked at who sends it.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from deepedu.base.errors import BadRequest, DocumentTooLarge

MOST_FIELDS = 20
MOST_FILES = 20
_STEM_CHARACTERS = 60


@asynccontextmanager
async def received(request: Request, *, max_bytes: int) -> AsyncIterator[FormData]:
    """The form that a request holds; its files are closed at the end of the block.

    Raises:
        DocumentTooLarge: it is longer than ``max_bytes``; the rest is read and dropped, so that the browser listens to
            the answer.
        BadRequest: it is no form with files.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise BadRequest("Cần một biểu mẫu có tệp (multipart/form-data): hãy chọn tệp rồi gửi lại.")
    parser = MultiPartParser(
        request.headers, _limited(request, max_bytes), max_files=MOST_FILES, max_fields=MOST_FIELDS
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise BadRequest(f"Không đọc được biểu mẫu ({error.message}): hãy chọn tệp rồi gửi lại.") from error
    try:
        yield form
    finally:
        await form.close()


def files_of(form: FormData, name: str) -> list[UploadFile]:
    """The files of a field; one that was left empty comes as a file without a name."""
    return [each for each in form.getlist(name) if isinstance(each, UploadFile) and each.filename]


def text_of(form: FormData, name: str) -> str:
    """What was typed into a field; empty where there is none."""
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def safe_name(filename: str) -> str:
    """The name of an uploaded file as one that can stand in a folder: no path, no control characters, not too long."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    name = "".join(character for character in name if character.isprintable()).strip(" .")
    path = PurePosixPath(name or "tep")
    return f"{path.stem[:_STEM_CHARACTERS].strip()}{path.suffix[:12]}"


async def _limited(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    size_bytes = 0
    async for chunk in request.stream():
        size_bytes += len(chunk)
        if size_bytes <= max_bytes:
            yield chunk
    if size_bytes > max_bytes:
        raise DocumentTooLarge(
            f"Tệp gửi lên có {size_bytes / 1e6:.1f} MB, giới hạn là {max_bytes / 1e6:.0f} MB mỗi lần gửi: hãy chia nhỏ."
        )
