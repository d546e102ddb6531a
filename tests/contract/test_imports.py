"""The import contracts hold, and would not if somebody broke them: a typo in a contract leaves the linter green."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_house_keeps_its_contracts() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("tutor/answer.py", "import deepedu.engine.weights", "The web tower knows no tensors"),
        ("search/evidence.py", "import torch", "The web tower knows no tensors"),
        ("engine/weights.py", "import deepedu.store.lease", "The tensor tower knows no web tower"),
        ("store/lease.py", "import deepedu.tutor.answer", "Layers, top to bottom"),
        ("search/evidence.py", "import deepedu.curriculum", "Layers, top to bottom"),
        ("base/errors.py", "import deepedu.llm.chat", "Layers, top to bottom"),
        ("tutor/answer.py", "import sqlite3", "Drivers stay in the store"),
        ("tutor/answer.py", "import deepedu.attention.base", "The web tower knows no tensors"),
        ("attention/run.py", "import deepedu.tutor.answer", "The tensor tower knows no web tower"),
        ("attention/run.py", "import deepedu.engine.weights", "Layers, top to bottom"),
        ("attention/methods/twilight.py", "import deepedu.attention.methods.quest", "Methods never import methods"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, module: str, planted: str, contract: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    with (tmp_path / "src" / "deepedu" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{planted}\n")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout
