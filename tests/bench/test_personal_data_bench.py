"""The bench of masking: chat lines with known places, and a run from data to figures."""

import json
import random
from pathlib import Path

import pytest
from rich.console import Console

from deepedu.base.config import Settings
from deepedu.base.errors import ConfigError
from deepedu.base.personal_data import PersonalKind
from deepedu.bench.personal_chat import DEVELOPMENT, HELD_OUT, read_people, write_lines
from deepedu.bench.run import run_bench


@pytest.fixture
def small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "shared"
    names, units, maths, articles = (
        data / folder for folder in ("vi_names", "vi_admin_units", "zalo_math_2023", "viwiki_school/vat_li")
    )
    for folder in (names, units, maths, articles):
        folder.mkdir(parents=True)
    literals = {"person": {"last_names": ["Nguyễn", "Trần"]}}
    (names / "faker_vi_VN_literals.json").write_text(json.dumps(literals), encoding="utf-8")
    (names / "boy.txt").write_text("Gia Huy\nÐức Anh\n", encoding="utf-8")
    (names / "girl.txt").write_text("Ngọc Lan\nThu Hà\n", encoding="utf-8")
    district = {"001": {"name_with_type": "Quận Ba Đình", "path": "Ba Đình, Hà Nội"}}
    (units / "quan_huyen.json").write_text(json.dumps(district), encoding="utf-8")
    for file in ("math_train", "math_test_with_hand_label", "private_math_test_with_hand_label"):
        questions = {"data": [{"question": "Tính 1 250 000 : 5"}]}
        (maths / f"{file}.json").write_text(json.dumps(questions), encoding="utf-8")
    (articles / "lực.txt").write_text("Lực là tác dụng đẩy hoặc kéo của vật này lên vật khác. " * 5, encoding="utf-8")
    monkeypatch.setenv("DEEPEDU_DATA", str(data))
    return data


def test_the_two_parts_share_no_template() -> None:
    assert not set(DEVELOPMENT) & set(HELD_OUT)


def test_lines_know_where_their_data_stand(small_data: Path) -> None:
    draw = random.Random(3)
    people = read_people(small_data, draw)
    assert len(people.class_names) == 45
    lines = write_lines(HELD_OUT, people, draw, 700)
    assert {kind for line in lines for *_, kind in line.data} == set(PersonalKind) - {PersonalKind.DOCUMENT}
    for line in lines:
        for start, end, _ in line.data:
            before = line.template[: line.template.index("{")]
            assert line.text[:start].strip() == "" or before != ""
            assert line.text[start:end].strip() != ""
        assert len(line.data) <= line.template.count("{")


def test_from_data_to_figures(small_data: Path) -> None:
    assert small_data.is_dir()
    record = run_bench("personal_data", Settings(), quick=True, console=Console(quiet=True))
    figures = record["figures"]
    assert figures["recall"] > 0.9
    assert figures["precision"] > 0.9
    assert figures["false_per_1000_lesson_sentences"] == 0
    assert figures["pieces"] == sum(figures[f"pieces_{kind.value}"] for kind in PersonalKind)
    assert record["details"]["templates"].startswith("held_out")


def test_unknown_templates(small_data: Path) -> None:
    assert small_data.is_dir()
    with pytest.raises(ConfigError, match="held_out or development"):
        run_bench("personal_data", Settings(), options={"templates": "mine"}, console=Console(quiet=True))
