"""Documents made on the spot, and a library to read them into."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_documents import FONTS

from deepedu.base.config import StoreSettings
from deepedu.store import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty library."""
    opened = Database(StoreSettings(data_dir=tmp_path / "library"))
    yield opened
    opened.close()


@pytest.fixture
def new_pdf() -> Callable[[], Any]:
    """Makes an empty PDF under construction, with a font for Vietnamese."""
    fpdf = pytest.importorskip("fpdf")
    if not (FONTS / "DejaVuSans.ttf").is_file():
        pytest.skip(f"the DejaVu fonts are not in {FONTS} (Debian: fonts-dejavu-core)")

    def make() -> Any:
        pdf = fpdf.FPDF()
        pdf.add_font("body", fname=FONTS / "DejaVuSans.ttf")
        pdf.add_font("body", style="B", fname=FONTS / "DejaVuSans-Bold.ttf")
        pdf.set_font("body", size=11)
        return pdf

    return make


MakePdf = Callable[..., Path]


@pytest.fixture
def make_pdf(tmp_path: Path, new_pdf: Callable[[], Any]) -> MakePdf:
    """Makes a PDF of pages; a page is paragraphs, one that begins with ``#`` is set large and bold."""

    def make(name: str, pages: Sequence[Sequence[str]], *, password: str | None = None) -> Path:
        pdf = new_pdf()
        if password is not None:
            pdf.set_encryption(owner_password="owner", user_password=password)
        for paragraphs in pages:
            pdf.add_page()
            for paragraph in paragraphs:
                is_heading = paragraph.startswith("#")
                pdf.set_font("body", style="B" if is_heading else "", size=16 if is_heading else 11)
                height = 8 if is_heading else 5.5
                pdf.multi_cell(0, height, paragraph.lstrip("# "), new_x="LMARGIN", new_y="NEXT", align="L")
                pdf.ln(3)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pdf.output(str(path))
        return path

    return make
