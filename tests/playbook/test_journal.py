"""What a run has done is kept line by line, whatever stops it."""

from pathlib import Path

import pytest
from made_bullets import bullet, delta

from deepedu.base.errors import PlaybookError
from deepedu.playbook.delta import Add
from deepedu.playbook.interaction import Signal
from deepedu.playbook.journal import Journal, Step
from deepedu.playbook.problem import Attempt, Problem
from deepedu.playbook.state import State

FILE = "runs/lượt.jsonl"


def step(name: str, text: str = "Nước sôi ở\n100 °C.") -> Step:
    signals = (Signal(kind="quiz", good=False, detail="“x”"),)
    attempt = Attempt(text=text, answer="100", signals=signals, used=("b-00001",), prompt_tokens=7)
    return Step(problem=name, shown=("b-00001", "b-00002"), attempt=attempt, seconds=0.25)


def written(folder: Path, *names: str) -> Path:
    journal = Journal("r", folder / FILE)
    for name in names:
        journal.append(step(name))
    return folder / FILE


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    file = written(tmp_path, "một", "hai")
    again = Journal("r", file)
    assert again.steps() == [step("một"), step("hai")]
    again.append(step("ba"))
    assert [each.problem for each in Journal("r", file).steps()] == ["một", "hai", "ba"]
    assert file.read_text("utf-8").count("\n") == 3


def test_a_new_run_has_done_nothing(tmp_path: Path) -> None:
    assert Journal("r", tmp_path / "missing.jsonl").steps() == []
    assert not (tmp_path / "missing.jsonl").exists()
    (tmp_path / "empty.jsonl").write_text("")
    assert Journal("r", tmp_path / "empty.jsonl").steps() == []


def test_without_a_file_it_is_kept_in_memory() -> None:
    journal = Journal("r")
    journal.append(step("một"))
    assert journal.steps() == [step("một")]
    # The caller's list is the caller's own.
    journal.steps().clear()
    assert len(journal.steps()) == 1


@pytest.mark.parametrize("left", [0.02, 0.5, 0.97])
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, left: float) -> None:
    file = written(tmp_path, "một", "hai")
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text(lines[0] + lines[1][: max(1, int(left * len(lines[1])))], encoding="utf-8")
    again = Journal("r", file)
    assert again.steps() == [step("một")]
    assert file.read_text("utf-8") == lines[0]
    again.append(step("hai"))
    assert file.read_text("utf-8") == "".join(lines)


@pytest.mark.parametrize("damage", ["{", '{"problem": "một"}', "[]", "xin chào"])
def test_damage_before_the_last_line_is_not_skipped(tmp_path: Path, damage: str) -> None:
    file = written(tmp_path, "một", "hai")
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text(f"{damage}\n{lines[1]}", encoding="utf-8")
    with pytest.raises(PlaybookError, match=r"line 1 .* is damaged"):
        Journal("r", file)
    assert damage in file.read_text("utf-8")


def test_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError, match="cannot read"):
        Journal("r", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaybookError, match=r"cannot (read|write)"):
        Journal("r", tmp_path / "file" / "deeper").append(step("một"))


def test_a_step_is_a_case_with_the_bullets_that_are_left() -> None:
    state, problem = State(), Problem(id="một", question="?")
    state.apply(delta(Add(text="Một", kind="fact")))
    found = step("một").case(problem, state)
    assert found.problem == problem
    assert [each.id for each in found.shown] == ["b-00001"]
    assert found.attempt == step("một").attempt
    assert bullet(2, "Hai").id not in state.bullets


def test_a_line_without_its_end_is_asked_again_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "j"
    for cut in (1, 20):
        file.unlink(missing_ok=True)
        journal = Journal("r", file)
        journal.append(step("1"))
        journal.append(step("2"))
        file.write_bytes(file.read_bytes()[:-cut])
        Journal("r", file).append(step("3"))
        assert [each.problem for each in Journal("r", file).steps()] == ["1", "3"]


def test_a_cut_inside_a_letter(tmp_path: Path) -> None:
    file = tmp_path / "j"
    journal = Journal("r", file)
    journal.append(step("1"), step("ế"))
    content = file.read_bytes()
    file.write_bytes(content[: content.rindex("ế".encode()) + 1])
    assert [each.problem for each in Journal("r", file).steps()] == ["1"]
