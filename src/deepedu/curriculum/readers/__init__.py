"""Readers turn a document into pages of text. One file per format; the content, not the name, tells the format."""

from pathlib import Path

from deepedu.base.errors import EmptyDocument, IngestError, UnsupportedFormat
from deepedu.curriculum.readers.base import Document, PageText
from deepedu.curriculum.readers.detect import FORMATS, detect_format

__all__ = ["FORMATS", "Document", "PageText", "detect_format", "open_document"]


def open_document(path: Path, name: str | None = None) -> Document:
    """Opens a document of any known format.

    Args:
        path: the file.
        name: the name it came under, where ``path`` is a stored copy.

    Returns:
        The document; close it after use.

    Raises:
        UnsupportedFormat, EncryptedDocument, DamagedDocument, EmptyDocument: with a message for the user.
        IngestError: the file itself could not be read.
    """
    try:
        if path.stat().st_size == 0:
            raise EmptyDocument("tệp rỗng (0 byte); hãy chép lại tệp từ nguồn")
        kind = detect_format(path, name or path.name)
        match kind:
            case "pdf":
                from deepedu.curriculum.readers.pdf import PdfDocument

                return PdfDocument(path)
            case "docx":
                from deepedu.curriculum.readers.docx import open_docx

                return open_docx(path)
            case "html":
                from deepedu.curriculum.readers.html import open_html

                return open_html(path)
            case "markdown":
                from deepedu.curriculum.readers.markdown import open_markdown

                return open_markdown(path)
            case "text":
                from deepedu.curriculum.readers.text import open_text

                return open_text(path)
            case _:
                raise UnsupportedFormat(f"chưa đọc được định dạng {kind!r}")
    except OSError as error:
        raise IngestError(f"không mở được tệp: {error.strerror or error}") from error
