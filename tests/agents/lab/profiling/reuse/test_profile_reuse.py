"""`pochade profile --reuse`: from a stream of requests to floors in the profile, which plans are made of."""

import json
import pathlib

import pytest
from click.testing import CliRunner

from agents.commands.profile import _has_caching, profile
from agents.components.opening import Keeping
from agents.lab.commands.profile_reuse import target_of
from agents.lab.profiling.reuse.file import with_caching
from agents.lab.profiling.reuse.study import levels_to_measure
from agents.profiling.generation import orders, pool
from agents.profiling.generation.orders import Order, generate_into
from planner.catalog.evidence.joining import with_profile
from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.parsing.catalog import parse as parse_catalog
from streams.parsing.profile import parse
from streams.shipped import MODELS
from tests.agents.lab.evaluation.catalogs import CATALOG, a_catalog_file, dearer_is_better, opening_in
from tests.planner.catalog.test_caching import a_measurement
from tests.streams.parsing.test_profile import a_profile_file

__all__ = ["dearer_is_better"]  # a fixture

REQUESTS = 50


def run_reuse(folder: pathlib.Path, *options: str) -> tuple[int, str]:
    catalog = a_catalog_file(folder)
    arguments = ["--catalog", str(catalog), "--out", str(folder / "out"), "--jobs", "1", "--models", str(MODELS)]
    told = CliRunner().invoke(
        profile,
        [*arguments, "--reuse", "--requests", str(REQUESTS), *options],
        obj=LazySettings({"home": folder / "home"}, None),
    )
    return told.exit_code, told.output if told.exception is None else f"{told.output}{told.exception}"


def with_levels(folder: pathlib.Path) -> pathlib.Path:
    """A folder with a profile that has levels already."""
    file = folder / "out" / "small.json"
    file.parent.mkdir()
    file.write_text(json.dumps(a_profile_file(catalog="small")))
    return file


@pytest.mark.usefixtures("dearer_is_better")
def test_caching_is_measured_into_the_profile_and_goes_on_where_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[Order] = []

    def counting(part: Order, file: pathlib.Path, keeping: Keeping | None) -> None:
        generated.append(part)
        generate_into(part, file, keeping)

    monkeypatch.setattr(pool, "generate_into", counting)
    monkeypatch.setattr(orders, "open_engine", opening_in(tmp_path / "home"))
    monkeypatch.setattr("agents.lab.profiling.reuse.floors.MIN_PAIRS", 2)
    file = with_levels(tmp_path)
    status, told = run_reuse(tmp_path, "--tolerance", "0.2")
    assert status == 0, told
    first = len(generated)
    assert {part.variant.steps for part in generated} == {4, 3, 2, 1}, "all steps, and as many as are left after K"
    assert any(part.latents is not None for part in generated)

    measured = parse(file.read_text(), "small.json")
    assert set(measured.levels) == {"light", "heavy"}, "what was measured before stays"
    found = measured.caching["heavy"]
    assert (found.key, found.requests, found.steps) == ("scorer", REQUESTS, 4)
    assert 0 < found.exact_share < 0.4
    fitting = sum(row.share for row in found.image_neighbours)
    assert fitting == pytest.approx(1 - 1 / REQUESTS, abs=1e-3), "each but the first has an image that fits best"
    best = found.best
    assert best is not None
    assert best.share == 0.75, "cards are all right, so that the largest share saves most"
    assert best.saved_share == pytest.approx(best.hit_rate * 0.75, abs=1e-4)
    assert 0 < best.saved_exact_share < best.saved_share, "other style words pass as well"
    assert {row.share for row in found.against_fewer_steps} <= {0.25, 0.5, 0.75}
    assert {(row.begun, row.share) for row in found.diversity} >= {("noise", 0.0), ("neighbours", 0.25)}
    assert "quality changes by" in told
    assert (tmp_path / "out" / "small-heavy-reuse.svg").read_text().startswith("<?xml")

    catalog = with_profile(parse_catalog(CATALOG, "small"), measured)
    assert catalog.reuse_profile is not None
    assert max(floor.share for floor in catalog.reuse_profile.floors) == 0.75
    near = sum(row.share for row in catalog.reuse_profile.neighbours)
    assert near == pytest.approx(1 - 1 / REQUESTS, abs=1e-3), "all but the first request have an earlier one"

    status, told = run_reuse(tmp_path)
    assert status == 0, told
    assert len(generated) == first
    again = parse(file.read_text(), "small.json").caching["heavy"]
    assert again.best is None, "50 requests do not show that less than .005 is lost"
    assert "nothing is reused" in told


def test_without_a_profile_nothing_is_generated(tmp_path: pathlib.Path) -> None:
    status, told = run_reuse(tmp_path)
    assert status != 0
    assert "has no profile to write into: measure its levels with `pochade profile`" in told


@pytest.mark.parametrize("option", ["--no-quality", "--write"])
def test_options_that_say_nothing_of_reuse_are_refused(tmp_path: pathlib.Path, option: str) -> None:
    with_levels(tmp_path)
    status, told = run_reuse(tmp_path, option)
    assert status == 2
    assert f"{option} has no effect with --reuse" in told


def test_measurements_of_another_version_are_replaced(tmp_path: pathlib.Path) -> None:
    file = with_levels(tmp_path)
    file.write_text(json.dumps(a_profile_file(catalog="small", caching={"light": {"version": 0}, "heavy": {}})))
    assert target_of(str(a_catalog_file(tmp_path)), "small", file.parent).file == file
    measured = with_caching(file.read_text(), {"heavy": a_measurement()}, "small.json")
    assert set(parse(measured, "small.json").caching) == {"heavy"}


def test_a_profile_that_is_measured_anew_says_that_its_caching_is_gone(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "small.json"
    assert not _has_caching(file)
    file.write_text(json.dumps(a_profile_file()))
    assert not _has_caching(file)
    file.write_text(with_caching(file.read_text(), {"heavy": a_measurement()}, "small.json"))
    assert _has_caching(file)


def test_levels_are_those_that_have_steps_to_skip_the_dearest_first() -> None:
    catalog = parse_catalog(CATALOG, "small")
    assert levels_to_measure(catalog) == ("heavy",)
    with pytest.raises(PochadeError, match="level 'light' has 2 steps, and 3 or more are needed"):
        levels_to_measure(catalog, ("heavy", "light"))
    with pytest.raises(PochadeError, match="generates 64 x 48 px"):
        levels_to_measure(parse_catalog(CATALOG.replace("width = 48", "width = 64"), "small"), ("heavy",))


def test_a_level_that_is_measured_again_replaces_its_own_figures_alone() -> None:
    text = json.dumps(a_profile_file())
    once = with_caching(text, {"light": a_measurement(), "heavy": a_measurement()}, "tiny.json")
    twice = with_caching(once, {"heavy": a_measurement(requests=50)}, "tiny.json")
    cached = parse(twice, "tiny.json").caching
    assert {level: each.requests for level, each in cached.items()} == {"light": 1200, "heavy": 50}
    assert max(map(len, twice.splitlines())) < 300
