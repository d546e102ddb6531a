"""What a run of the loop has done so far: a JSON line for each question, so that it can go on where it was stopped."""

import os
from pathlib import Path

from pydantic import ValidationError

from deepedu.base.errors import PlaybookError
from deepedu.playbook.bullet import BulletId, Value
from deepedu.playbook.problem import Attempt, Problem
from deepedu.playbook.replay import Case
from deepedu.playbook.state import State


class Step(Value):
    """One question, asked with what the book held then. ``seconds``: asking and learning, its share of its wave.
    ``reflected``: whether a model was asked to reflect on it."""

    problem: str
    shown: tuple[BulletId, ...]
    attempt: Attempt
    seconds: float
    reflected: bool = False

    def case(self, problem: Problem, state: State) -> Case:
        """The step as a case that can be asked again; bullets that are gone since are left out."""
        bullets = tuple(state.bullets[each] for each in self.shown if each in state.bullets)
        return Case(problem, bullets, self.attempt)


class Journal:
    """The steps of the run named ``run``; in ``file``, or in memory only where that is None."""

    def __init__(self, run: str, file: Path | None = None) -> None:
        self.run = run
        self._file = file
        self._steps: list[Step] = [] if file is None else _read(file)

    def steps(self) -> list[Step]:
        """All steps so far, oldest first."""
        return list(self._steps)

    def append(self, *steps: Step) -> None:
        """Keeps steps, all of them or none: those of one wave belong together.

        Raises:
            PlaybookError: the file cannot be written.
        """
        if self._file is not None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("ab") as out:
                    out.write("".join(step.model_dump_json() + "\n" for step in steps).encode())
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as error:
                raise PlaybookError(f"cannot write the journal {str(self._file)!r}: {error.strerror}") from error
        self._steps += steps


def _read(file: Path) -> list[Step]:
    try:
        content = file.read_bytes()
        whole, _, cut_off = content.rpartition(b"\n")
        if cut_off:
            # The last line of a run that was killed while writing it: that question is asked again.
            file.write_bytes(content[: len(content) - len(cut_off)])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PlaybookError(f"cannot read the journal {str(file)!r}: {error.strerror}") from error
    steps: list[Step] = []
    for number, line in enumerate(whole.split(b"\n"), start=1):
        try:
            steps += [Step.model_validate_json(line)] if line else []
        except ValidationError as error:
            told = f"line {number} of the journal {str(file)!r} is damaged; take the file away to begin anew"
            raise PlaybookError(told) from error
    return steps
