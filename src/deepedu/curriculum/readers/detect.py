"""Which format a file really has, whatever its name says."""

import zipfile
from pathlib import Path

from deepedu.base.errors import DamagedDocument, DocumentTooLarge, EncryptedDocument, UnsupportedFormat

FORMATS = ("pdf", "docx", "markdown", "text", "html")
SUFFIXES = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Streams of an OLE container are named in UTF-16.
_OLE_KINDS = {
    "EncryptedPackage": None,
    "WordDocument": "Word cũ (.doc)",
    "Workbook": "Excel cũ (.xls)",
    "Book": "Excel cũ (.xls)",
    "PowerPoint Document": "PowerPoint cũ (.ppt)",
}
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"BM")
_HEAD_BYTES = 4096
_MAX_UNPACKED_BYTES = 2_000_000_000


def detect_format(path: Path, name: str) -> str:
    """One of ``FORMATS``.

    Args:
        path: the file to look into.
        name: the name it came under; tells Markdown from plain text.

    Raises:
        UnsupportedFormat: nothing we read, with what it seems to be.
        EncryptedDocument: an Office document behind a password.
        DamagedDocument: a ZIP container that cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    # Some producers put bytes before the mark; readers accept it within the first kilobyte.
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(_OLE):
        _refuse_ole(path)
    if head.startswith(b"{\\rtf"):
        raise UnsupportedFormat("đây là tệp RTF; hãy mở bằng Word hoặc LibreOffice và lưu lại thành .docx hoặc PDF")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_format(path)
    if head.startswith(_PICTURES):
        raise UnsupportedFormat("đây là tệp ảnh; DeepEdu chưa nhận dạng chữ trong ảnh (OCR)")
    if not _is_text(head):
        suffix = SUFFIXES.get(Path(name).suffix.lower())
        if suffix in ("pdf", "docx"):
            raise DamagedDocument(f"tên tệp là {suffix.upper()} nhưng nội dung không phải; tệp hỏng hoặc bị đổi tên")
        raise UnsupportedFormat(
            "không phải tài liệu (dữ liệu nhị phân); DeepEdu đọc PDF, DOCX, Markdown, văn bản, HTML"
        )
    return _text_format(head, name)


def _refuse_ole(path: Path) -> None:
    content = path.read_bytes()
    for stream, kind in _OLE_KINDS.items():
        if stream.encode("utf-16-le") in content:
            if kind is None:
                raise EncryptedDocument("tài liệu Office có mật khẩu; hãy bỏ mật khẩu rồi nạp lại")
            raise UnsupportedFormat(f"đây là tệp {kind}; hãy lưu lại thành .docx hoặc PDF rồi nạp")
    raise UnsupportedFormat("đây là tệp Office cũ (.doc, .xls, .ppt); hãy lưu lại thành .docx hoặc PDF rồi nạp")


def _zip_format(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            unpacked_bytes = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DamagedDocument("tệp bị cắt cụt hoặc hỏng (không đọc được gói ZIP của DOCX); hãy chép lại") from error
    if unpacked_bytes > _MAX_UNPACKED_BYTES:
        raise DocumentTooLarge(f"gói nén bung ra tới {unpacked_bytes / 1e9:.1f} GB; không an toàn để mở")
    if "word/document.xml" in names:
        return "docx"
    if any(entry.startswith("word/") for entry in names):
        raise DamagedDocument("gói DOCX thiếu phần văn bản (word/document.xml); tệp hỏng")
    for folder, kind in (("xl/", "Excel (.xlsx)"), ("ppt/", "PowerPoint (.pptx)")):
        if any(entry.startswith(folder) for entry in names):
            raise UnsupportedFormat(f"đây là tệp {kind}; hãy lưu lại thành PDF rồi nạp")
    if "mimetype" in names:
        raise UnsupportedFormat("đây là tệp OpenDocument hoặc EPUB; hãy lưu lại thành .docx hoặc PDF rồi nạp")
    raise UnsupportedFormat("đây là tệp nén ZIP; hãy giải nén và nạp các tài liệu bên trong")


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return b"\x00" not in head and control <= len(head) // 200


def _text_format(head: bytes, name: str) -> str:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or (
        start.startswith((b"<?xml", b"<!--")) and b"<html" in start
    ):
        return "html"
    by_name = SUFFIXES.get(Path(name).suffix.lower())
    return by_name if by_name in ("markdown", "html") else "text"
