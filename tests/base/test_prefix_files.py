"""The cache's files on disk: named by the book, measured, deleted, and nothing else touched."""

from pathlib import Path

import pytest

from deepedu.base.errors import StoreError
from deepedu.base.prefix_files import PrefixFiles, book_tag, delete_prefixes, measure_prefixes, prefix_folder

SHA256 = "0123456789abcdef" * 4


def test_a_books_part_is_measured_and_deleted(tmp_path: Path) -> None:
    tag = book_tag(SHA256)
    assert tag == "book-0123456789abcdef"
    folder = prefix_folder(tmp_path, tag)
    assert folder == tmp_path / "prefix" / tag
    assert measure_prefixes(tmp_path, tag) == PrefixFiles(0, 0)
    folder.mkdir(parents=True)
    (folder / "a.safetensors").write_bytes(b"1234")
    (folder / "b.safetensors.part").write_bytes(b"12")
    assert measure_prefixes(tmp_path, tag) == PrefixFiles(2, 6)
    assert delete_prefixes(tmp_path, tag) == PrefixFiles(2, 6)
    assert delete_prefixes(tmp_path, tag) == PrefixFiles(0, 0)
    assert (tmp_path / "prefix").is_dir()


@pytest.mark.parametrize("tag", ["..", "", "../../etc", "Book-1", "a/b"])
def test_a_tag_never_leads_out_of_the_cache(tmp_path: Path, tag: str) -> None:
    with pytest.raises(AssertionError):
        delete_prefixes(tmp_path, tag)


def test_what_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    folder = prefix_folder(tmp_path, "book-1")
    folder.parent.mkdir()
    folder.write_text("not a folder")
    with pytest.raises(StoreError, match="book-1"):
        delete_prefixes(tmp_path, "book-1")
