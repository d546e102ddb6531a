"""The page of attention methods is the methods' own account of themselves."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_lists_every_method_as_it_is() -> None:
    result = subprocess.run(
        [sys.executable, "scripts/update_methods.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
