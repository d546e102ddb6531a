"""Shared prefixes on disk: whatever lies in the folder, only sound rows of the right model are served."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from deepedu.base.errors import EngineError  # noqa: E402
from deepedu.engine.cache import PrefixCache, block_hashes  # noqa: E402
from deepedu.engine.prefix_files import HASH_BLOCK, PrefixFiles  # noqa: E402
from deepedu.engine.prompt import Prompt  # noqa: E402
from deepedu.engine.rows import RowBlock  # noqa: E402

ROWS, LAYERS, HEADS, HEAD_DIM = 150, 2, 2, 8
IDS = list(range(ROWS))
HASHES = block_hashes(IDS, b"")
BIG = 1 << 30


def made(rows: int = ROWS, kind: Any = "model", seed: int = 0, head_dim: int = HEAD_DIM) -> list[RowBlock]:
    generator = torch.Generator().manual_seed(seed)
    blocks = []
    for _ in range(LAYERS):
        block = RowBlock.allocate(HEADS, rows + 10, head_dim, torch.float32, torch.device("cpu"), kind)
        block.write(*(torch.randn(HEADS, rows, head_dim, generator=generator) for _ in range(2)))
        blocks.append(block)
    return blocks


def files_in(folder: Path, fingerprint: str = "model a", limit: int = BIG) -> PrefixFiles:
    return PrefixFiles(folder, fingerprint, limit)


def age(path: Path, seconds: float) -> None:
    """Makes a file look as if it was used so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def served(files: PrefixFiles, hashes: list[bytes] = HASHES) -> list[RowBlock] | None:
    found = files.find(hashes[-1])
    return None if found is None else files.load(found[0], torch.float32)


@pytest.mark.parametrize("kind", ["model", "int8"])
@pytest.mark.parametrize("tag", ["book-1", None])
def test_a_prefix_survives_a_restart(tmp_path: Path, kind: Any, tag: str | None) -> None:
    blocks = made(kind=kind)
    written = files_in(tmp_path).write(blocks, ROWS, HASHES, tag)
    assert written.path.parent == tmp_path / (tag or "untagged")
    assert written.path.stat().st_size == written.file_bytes
    later = files_in(tmp_path)
    for index, digest in enumerate(HASHES):
        found = later.find(digest)
        assert found is not None
        assert found[1] == min((index + 1) * HASH_BLOCK, ROWS)
    again = served(later)
    assert again is not None
    for block, wanted in zip(again, blocks, strict=True):
        assert block.used == ROWS
        for found, expected in zip(block.read(0, ROWS), wanted.read(0, ROWS), strict=True):
            assert torch.equal(found, expected)


def test_rows_are_mapped_from_the_file_not_copied(tmp_path: Path) -> None:
    files_in(tmp_path).write(made(rows=60_000, head_dim=32), 60_000, HASHES, "book")
    files = files_in(tmp_path)
    found = files.find(HASHES[-1])
    assert found is not None
    blocks = files.load(found[0], torch.float32)
    assert blocks is not None
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not tell what a process has mapped")
    spans = []
    for line in maps.read_text(encoding="utf-8").splitlines():
        if line.endswith(str(found[0].path)):
            start, stop = line.split()[0].split("-")
            spans.append((int(start, 16), int(stop, 16)))
    for block in blocks:
        for tensor in (block.keys, block.values):
            assert any(start <= tensor.data_ptr() < stop for start, stop in spans)


@pytest.mark.parametrize("other", ["another model", "another method", ""])
def test_rows_of_another_fingerprint_are_never_served(tmp_path: Path, other: str) -> None:
    files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    assert served(files_in(tmp_path, other)) is None
    assert served(files_in(tmp_path)) is not None


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_in_rows(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)


def flip_in_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[12] ^= 0x80
    path.write_bytes(content)


def replace_by_text(path: Path) -> None:
    path.write_text("this is no such file", encoding="utf-8")


@pytest.mark.parametrize("damage", [truncate, empty, flip_in_rows, flip_in_header, replace_by_text])
@pytest.mark.parametrize("when", ["before the start", "while running"])
def test_a_damaged_file_is_told_not_served_and_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], when: str
) -> None:
    written = files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    files = files_in(tmp_path) if when == "while running" else None
    damage(written.path)
    files = files or files_in(tmp_path)
    assert served(files) is None
    assert str(written.path) in caplog.text
    assert files.find(HASHES[0]) is None
    files.write(made(), ROWS, HASHES, "book")
    assert served(files) is not None
    assert served(files_in(tmp_path)) is not None


def test_every_byte_of_the_rows_is_checked(tmp_path: Path) -> None:
    written = files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    sound = written.path.read_bytes()
    rows_bytes = ROWS * LAYERS * HEADS * HEAD_DIM * 2 * 4
    for place in range(len(sound) - rows_bytes, len(sound), 1009):
        content = bytearray(sound)
        content[place] ^= 1
        written.path.write_bytes(content)
        assert served(files_in(tmp_path)) is None


def test_foreign_files_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "book"
    folder.mkdir()
    save_file({"x": torch.zeros(3)}, str(folder / "foreign.safetensors"))
    save_file({"x": torch.zeros(3)}, str(folder / "older.safetensors"), {"format": "0", "fingerprint": "model a"})
    (folder / "note.txt").write_text("x", encoding="utf-8")
    (folder / "folder.safetensors").mkdir()
    (tmp_path / "loose").write_text("x", encoding="utf-8")
    files = files_in(tmp_path)
    assert files.find(HASHES[-1]) is None
    assert len(list(folder.iterdir())) == 4
    assert "folder.safetensors" in caplog.text


@pytest.mark.parametrize("name", ["digest.safetensors.1.part", ".tmp4E1Saw"])
def test_an_old_rest_of_a_killed_writer_is_cleared_a_young_one_is_not(tmp_path: Path, name: str) -> None:
    written = files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    rest = written.path.with_name(name)
    rest.write_bytes(b"half")
    assert served(files_in(tmp_path)) is not None
    assert rest.exists()
    age(rest, 7200)
    assert served(files_in(tmp_path)) is not None
    assert not rest.exists()


# What a killed writer leaves: the folder is given on the command line.
KILLED = """
import resource, signal, sys, torch
from pathlib import Path
from deepedu.engine.prefix_files import PrefixFiles
from deepedu.engine.rows import RowBlock

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
block = RowBlock.allocate(2, 5000, 8, torch.float32, torch.device("cpu"))
block.write(torch.zeros(2, 5000, 8), torch.zeros(2, 5000, 8))
PrefixFiles(Path(sys.argv[1]), "model a", 1 << 30).write([block], 5000, [b"x" * 16] * 79, "book")
"""


def test_what_a_killed_writer_leaves_is_cleared(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="this system sets no limits to its processes")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, check=False, timeout=120)
    assert done.returncode < 0
    left = list(tmp_path.glob("*/*"))
    assert left, "the writer was killed while it wrote"
    for path in left:
        age(path, 7200)
    files_in(tmp_path)
    assert list(tmp_path.glob("*/*")) == []


def hashes_of(number: int) -> list[bytes]:
    return block_hashes([number] * ROWS, b"")


def test_the_least_recently_used_go_when_the_limit_is_reached(tmp_path: Path) -> None:
    size = files_in(tmp_path / "one").write(made(), ROWS, HASHES, None).file_bytes
    folder = tmp_path / "all"
    files = files_in(folder, limit=3 * size + size // 2)
    for number in range(3):
        path = files.write(made(), ROWS, hashes_of(number), "book").path
        age(path, 1000 - number)
    assert served(files, hashes_of(0)) is not None
    # Another model's files count, and may go.
    files_in(folder, "another", limit=3 * size + size // 2).write(made(), ROWS, hashes_of(9), "book")
    assert [number for number in range(3) if files.find(hashes_of(number)[-1])] == [0, 2]
    assert len(list(folder.glob("*/*"))) == 3


def test_an_interrupted_prefix_goes_when_the_whole_is_there(tmp_path: Path) -> None:
    files_in(tmp_path).write(made(100), 100, block_hashes(IDS[:100], b""), "book", partial=True)
    rules = block_hashes(IDS[:64], b"")
    files_in(tmp_path).write(made(64), 64, rules, None)
    foreign = block_hashes([1] * 100, b"")
    files_in(tmp_path).write(made(100), 100, foreign, "book", partial=True)
    files = files_in(tmp_path)
    whole = files.write(made(), ROWS, HASHES, "book")
    for each in (files, files_in(tmp_path)):
        assert each.find(foreign[-1]) is not None
        assert each.find(rules[-1]) is not None
        assert each.find(HASHES[-1]) == (whole, ROWS)
    assert len(list(tmp_path.glob("*/*"))) == 3


def test_what_is_larger_than_the_limit_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    files = files_in(tmp_path, limit=1000)
    with pytest.raises(EngineError, match=r"engine\.prefix_disk_gb"):
        files.write(made(seed=1), ROWS, hashes_of(1), "book")
    assert len(list(tmp_path.glob("*/*"))) == 1


def full_disk(tensors: Any, path: str, metadata: Any) -> None:
    del tensors, metadata
    Path(path).write_bytes(b"half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_names_the_remedy_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path)
    files.write(made(), ROWS, HASHES, "book")
    monkeypatch.setattr("safetensors.torch.save_file", full_disk)
    with pytest.raises(EngineError, match=r"(?s)No space left.*engine\.prefix_disk_gb = 0"):
        files.write(made(seed=1), ROWS, hashes_of(1), "book")
    assert [path.suffix for path in tmp_path.glob("*/*")] == [".safetensors"]
    assert served(files) is not None


def test_a_write_that_really_fails_is_told(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system sets no limits to its processes")
    files = files_in(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(EngineError, match="cannot be written"):
            files.write(made(), ROWS, HASHES, "book")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.glob("*/*")) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "prefix").write_text("a file where the folder should be", encoding="utf-8")
    files = files_in(tmp_path / "prefix")
    with pytest.raises(EngineError, match="cannot be written"):
        files.write(made(), ROWS, HASHES, "book")


def test_forgetting_a_tag_deletes_its_files_only(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    sizes = [files.write(made(), ROWS, hashes_of(number), "book-1").file_bytes for number in range(2)]
    files.write(made(), ROWS, hashes_of(2), "book-2")
    assert files.forget("book-1") == (2, sum(sizes))
    assert files.forget("book-1") == files.forget("nothing") == (0, 0)
    assert [number for number in range(3) if files.find(hashes_of(number)[-1])] == [2]
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 1


def test_deleting_the_folder_while_running_is_safe(tmp_path: Path) -> None:
    folder = tmp_path / "prefix"
    blocks = made()
    files_in(folder).write(blocks, ROWS, HASHES, "book")
    files = files_in(folder)
    mapped = served(files)
    assert mapped is not None
    shutil.rmtree(folder)
    # Who reads on reads the right rows; who comes anew finds nothing.
    assert torch.equal(mapped[1].read(0, ROWS)[0], blocks[1].read(0, ROWS)[0])
    assert files.find(HASHES[-1]) is None
    files.write(blocks, ROWS, HASHES, "book")
    assert served(files) is not None


def test_two_files_that_begin_alike_serve_on_when_one_is_gone(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    longer = block_hashes([*IDS, *range(200, 300)], b"")
    files.write(made(), ROWS, HASHES, "book-1")
    files.write(made(ROWS + 100), ROWS + 100, longer, "book-2")
    files.forget("book-1")
    found = files.find(HASHES[1])
    assert found is not None
    assert found[0].path.parent.name == "book-2"
    assert files.find(HASHES[2]) is None


def test_a_limit_of_nothing_turns_the_disk_off(tmp_path: Path) -> None:
    files_in(tmp_path).write(made(), ROWS, HASHES, "book")
    off = files_in(tmp_path, limit=0)
    assert off.find(HASHES[-1]) is None


@pytest.mark.parametrize("trouble", [OSError(errno.ENOSPC, "No space left on device"), ZeroDivisionError("a bug")])
def test_whoever_waits_for_a_write_hears_of_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trouble: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise trouble

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    cache = PrefixCache(BIG, torch.float32, files_in(tmp_path))
    segment = cache.add_shared(Prompt(IDS, ROWS), made(), ROWS)
    heard: list[EngineError | None] = []
    cache.store(segment, heard.append)
    cache.close()
    assert [type(each) for each in heard] == [EngineError]
    assert caplog.text
    # The rows in memory serve on.
    assert cache.match(Prompt(IDS, ROWS)).rows == ROWS
