"""Catalogs are found by name or by file, and what is missing is named."""

import gzip
import json
import pathlib
from collections.abc import Callable

import pytest

from planner.catalog.parse import Catalog
from schemas.errors import PochadeError, Unknown
from streams.catalogs import catalogs
from streams.catalogs.simulated import load as simulated
from tests.paths import CATALOGS


@pytest.mark.parametrize("name", ["tiny", "profile"])
def test_every_shipped_catalog_is_whole(name: str) -> None:
    catalog = catalogs.load(name)
    assert catalog.name == name
    assert {"light", "heavy"} <= catalog.variants.keys()


@pytest.mark.parametrize("name", sorted(path.stem for path in CATALOGS.glob("*.toml")))
def test_every_shipped_catalog_can_be_planned_with_and_has_a_cascade(name: str) -> None:
    catalog = catalogs.measured(name)
    assert catalog.name == name
    assert catalog.cheaper_than(catalog.best().name)
    assert catalog.pair().light != catalog.best().name


def test_the_planner_s_catalog_knows_bands_where_a_profile_ships() -> None:
    assert catalogs.load("tiny").measured is None
    tiny = catalogs.measured("tiny")
    assert tiny.measured is not None
    assert tiny.measured.bounds == (0, 0.25, 0.5, 0.75, 1)
    bands = tiny.measured.cascades[tiny.pair().key]
    assert len(bands.kept) == len(bands.again) == 4
    assert catalogs.measured("profile").measured is None


def test_a_catalog_of_the_users_is_read_from_its_file(tmp_path: pathlib.Path) -> None:
    shipped = CATALOGS / "profile.toml"
    own = tmp_path / "mine.toml"
    own.write_text(shipped.read_text())
    assert catalogs.load(str(own)).name == "mine"
    assert catalogs.load(str(own)).variants == catalogs.load("profile").variants


@pytest.mark.parametrize("load", [catalogs.load, catalogs.measured, simulated])
def test_the_full_files_of_a_folder_replace_what_was_re_typed_of_them(
    load: Callable[[str, str], Catalog], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "diffserve_discriminator_sdturbo.csv.gz").write_bytes(gzip.compress(b"0.5\n" * 8))
    (tmp_path / "diffserve_runtimes_sdturbo.csv").write_text(
        "Model,Accel,batchsize,avg_runtime\nsdturbo,ampere,1,11\nsdv15,ampere,1,99\n"
    )
    catalog = load("diffserve-sdturbo", str(tmp_path))
    assert {name: variant.latency_ms for name, variant in catalog.variants.items()} == {
        "sd-turbo": {1: 11}, "sd15": {1: 99},
    }  # fmt: skip
    assert dict(catalog.discriminator("efficientnet").deferral)[0.505] == 1
    assert load("diffserve-sdturbo", "").level("sd-turbo").latency_ms[1] == 100


@pytest.mark.parametrize("load", [catalogs.load, simulated])
def test_a_folder_without_the_files_or_a_catalog_without_any_is_told(
    load: Callable[[str, str], Catalog], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "other.csv").write_text("x\n")
    with pytest.raises(PochadeError, match=r"no diffserve_runtimes_sdturbo\.csv or .*: there is other\.csv"):
        load("diffserve-sdturbo", str(tmp_path))
    with pytest.raises(PochadeError, match="catalog 'tiny' names no published files"):
        load("tiny", str(tmp_path))


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(Unknown, match=r"profile.*tiny.*did you mean 'tiny'"):
        catalogs.load("tinny")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(PochadeError, match=r"nowhere/mine\.toml cannot be read"):
        catalogs.load("nowhere/mine.toml")


def test_the_shipped_discriminators_are_offered_with_the_threshold_that_they_were_calibrated_to() -> None:
    offered = [judge for judge in catalogs.load("tiny").discriminators.values() if judge.engine == "learned"]
    assert len(offered) >= 3
    for judge in offered:
        config = json.loads((CATALOGS.parent / judge.folder / "config.json").read_text())
        assert judge.threshold == pytest.approx(config["threshold"], abs=5e-4), judge.name


@pytest.mark.parametrize("name", ["embedding", "real"])
def test_a_discriminator_that_no_cascade_uses_is_offered_with_the_curve_of_its_calibration(name: str) -> None:
    judge = catalogs.load("tiny").discriminators[name]
    curve = json.loads((CATALOGS.parent / judge.folder / "config.json").read_text())["deferral"]
    said = [(point["threshold"], point["deferred"]) for point in curve]
    assert [tuple(point) for point in judge.deferral] == [pytest.approx(point, abs=1e-3) for point in said]
