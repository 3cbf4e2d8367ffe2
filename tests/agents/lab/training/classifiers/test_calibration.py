"""The calibration set on disk, and painting what is missing of it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agents.lab.training import loop
from agents.lab.training.classifiers import calibration, calibration_set
from agents.lab.training.classifiers.calibration import Calibration
from schemas.errors import PochadeError
from tests.builders import a_catalog, a_variant

NAN = float("nan")


def a_table(prompts: Sequence[str], levels: Sequence[str], quality: Sequence[Sequence[float]]) -> Calibration:
    values = np.array(quality, float)
    return Calibration(tuple(prompts), tuple(levels), values, values / 2)


def test_what_several_files_say_of_a_prompt_becomes_one_row(tmp_path: Path) -> None:
    calibration.write(tmp_path / "a.npz", a_table("pqr", ["heavy"], [[1.0], [0.9], [0.8]]), [200.0])
    calibration.write(tmp_path / "b.npz", a_table("rp", ["light"], [[0.2], [0.5]]), [20.0])
    data = calibration.read(tmp_path)
    assert (data.prompts, data.levels) == (("p", "q", "r"), ("light", "heavy"))  # by cost, not by file
    assert np.array_equal(data.quality, [[0.5, 1.0], [NAN, 0.9], [0.2, 0.8]], equal_nan=True)
    assert np.array_equal(data.facts, data.quality / 2, equal_nan=True)


def test_a_prompt_painted_twice_with_other_noise_stays_two_rows(tmp_path: Path) -> None:
    calibration.write(tmp_path / "a.npz", a_table("pp", ["light"], [[0.5], [0.7]]), [1.0])
    calibration.write(tmp_path / "b.npz", a_table("pp", ["heavy"], [[0.9], [1.0]]), [2.0])
    assert calibration.read(tmp_path).quality.tolist() == [[0.5, 0.9], [0.7, 1.0]]


def test_levels_without_costs_are_the_fastest_first(tmp_path: Path) -> None:
    arrays = {"prompts": np.array(["p"]), "levels": np.array(["z", "a"]), "quality": np.array([[0.5, NAN]]),
              "facts": np.array([[0.5, NAN]])}  # fmt: skip
    np.savez(tmp_path / "some-quality.npz", allow_pickle=False, **arrays)
    assert calibration.read(tmp_path).levels == ("z", "a")


@pytest.mark.parametrize(("change", "told"), [({"quality": None}, "lacks quality"), ({"levels": ["x"]}, "must be")])
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, object], told: str) -> None:
    arrays = {"prompts": ["p"], "levels": ["z", "a"], "quality": [[0.5, 1.0]], "facts": [[0.5, 1.0]]} | change
    kept = {name: np.array(value) for name, value in arrays.items() if value is not None}
    np.savez(tmp_path / "a.npz", allow_pickle=False, **kept)
    with pytest.raises(PochadeError, match=told):
        calibration.read(tmp_path)
    with pytest.raises(PochadeError, match="pochade profile"):
        calibration.read(tmp_path / "empty")


def test_a_quarter_is_held_out_by_its_text() -> None:
    data = a_table([f"prompt {i}" for i in range(2000)], ["light"], [[0.5]] * 2000)
    assert data.held_out().mean() == pytest.approx(0.25, abs=0.03)
    again = a_table(data.prompts[::-1], ["light"], [[0.5]] * 2000)
    assert (again.held_out() == data.held_out()[::-1]).all()


def test_only_prompts_that_one_of_the_levels_was_judged_on_are_taken() -> None:
    data = a_table("pqr", ["light", "middle", "heavy"], [[0.5, NAN, 0.9], [NAN, 1.0, NAN], [NAN, NAN, 0.7]])
    taken = data.of(["light", "heavy"])
    assert (taken.prompts, taken.pair()) == (("p", "r"), ("light", "heavy"))
    assert np.array_equal(taken.quality, [[0.5, 0.9], [NAN, 0.7]], equal_nan=True)


@pytest.fixture
def few_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    light = a_variant(width=48, height=48, latency_ms={1: 1.0})
    variants = {"light": light, "heavy": dataclasses.replace(light, name="heavy", steps=8, latency_ms={1: 2.0})}
    monkeypatch.setattr(calibration_set, "CATALOG", a_catalog(variants=variants))
    monkeypatch.setattr(loop, "_scale", 0.002)


@pytest.mark.usefixtures("few_pictures")
def test_missing_levels_are_painted_on_the_same_first_prompts(tmp_path: Path) -> None:
    calibration_set.complete(tmp_path, tmp_path / "models", ["heavy", "light"])
    data = calibration.read(tmp_path / "calibration")
    assert data.levels == ("light", "heavy")
    assert not np.isnan(data.quality).any()
    assert len(set(data.prompts)) >= 15


@pytest.mark.usefixtures("few_pictures")
def test_levels_that_a_file_knows_are_not_painted_again(tmp_path: Path) -> None:
    calibration.write(
        tmp_path / "calibration" / "tiny-quality.npz", a_table("p", ["heavy", "light"], [[1, 0.5]]), [2, 1]
    )
    calibration_set.complete(tmp_path, tmp_path / "models", ["heavy", "light"])
    assert calibration.read(tmp_path / "calibration").prompts == ("p",)
