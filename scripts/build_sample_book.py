"""Build the sample textbook's PDF and DOCX from its Markdown source.

    python scripts/build_sample_book.py            write both files
    python scripts/build_sample_book.py --check    exit 1 when the committed files do not correspond to the source

The PDF needs the fonts named in NOTICE (Debian: fonts-noto-core, fonts-dejavu-core).
"""

import argparse
import io
import sys
import zipfile

import pypdfium2

from sample_book_docx import build_docx
from sample_book_pdf import FONTS, build_pdf
from sample_book_source import DOCX, PDF, SOURCE, read_book


def page_texts(data: bytes) -> list[str]:
    """The text of every page of a PDF."""
    document = pypdfium2.PdfDocument(data)
    try:
        return [document[i].get_textpage().get_text_bounded() for i in range(len(document))]
    finally:
        document.close()


def docx_parts(data: bytes) -> dict[str, bytes]:
    """The parts of a Word file that hold content and its styles."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return {name: package.read(name) for name in package.namelist() if name.startswith("word/")}


def differences() -> list[str]:
    """What in the committed files differs from what the source gives now; empty when they correspond.

    Compares content, not bytes: another version of the PDF library may write the same pages differently.
    """
    book = read_book()
    pdf, layout = build_pdf(book)
    found = []
    if not PDF.exists() or page_texts(PDF.read_bytes()) != page_texts(pdf):
        found.append(f"{PDF.name} does not hold the pages that {SOURCE.name} gives")
    if not DOCX.exists() or docx_parts(DOCX.read_bytes()) != docx_parts(build_docx(book, layout)):
        found.append(f"{DOCX.name} does not hold the text that {SOURCE.name} gives")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the files are not up to date")
    options = parser.parse_args()
    missing = sorted(str(path) for path in FONTS.values() if not path.exists())
    if missing:
        print(f"Fonts are missing: {', '.join(missing)}. Install fonts-noto-core and fonts-dejavu-core.")
        return 2
    if options.check:
        found = differences()
        for line in found:
            print(f"{line}: run scripts/build_sample_book.py")
        return 1 if found else 0
    book = read_book()
    data, layout = build_pdf(book)
    PDF.write_bytes(data)
    DOCX.write_bytes(build_docx(book, layout))
    print(f"{PDF.name}: {len(layout.pages) + 2} pages, {len(data):,} bytes; {DOCX.name}: {DOCX.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
