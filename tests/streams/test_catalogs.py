"""Catalogs, their profiles and published files are found by name or by file, and what is missing is named."""

import json
import pathlib

import pytest

from schemas.errors import PochadeError, Unknown
from streams import catalogs
from tests.paths import CATALOGS


@pytest.mark.parametrize("name", ["tiny", "profile"])
def test_every_shipped_catalog_is_whole(name: str) -> None:
    catalog = catalogs.load(name)
    assert catalog.name == name
    assert {"light", "heavy"} <= catalog.variants.keys()


OF_COMPONENTS = "genai2026"  # of one level: its requests differ by what they are generated with


OF_OTHERS = (
    "flux",
    "qwen-image",
    "sd35",
    "sdxl-example",
    "sdxl-turbo",
)  # public models, without a discriminator


@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_catalog_of_public_models_says_whether_it_was_run_and_its_levels_count_by_run_time(name: str) -> None:
    text, catalog = (CATALOGS / f"{name}.toml").read_text(), catalogs.measured(name)
    assert "\n# Not run" in text
    assert "\n# Run on" not in text  # with a date and a card, once it was
    assert not catalog.has_quality
    assert (catalog.cheapest().name, catalog.best().name) == ("light", "heavy")
    assert all(variant.loading.licence for variant in catalog.variants.values())


@pytest.mark.parametrize(
    "name", sorted({path.stem for path in CATALOGS.glob("*.toml")} - {OF_COMPONENTS, *OF_OTHERS} | {"sdxl-example"})
)
def test_every_shipped_catalog_can_be_planned_with_and_has_a_cascade(name: str) -> None:
    catalog = catalogs.measured(name)
    assert catalog.name == name
    assert catalog.cheaper_than(catalog.best().name)
    assert catalog.pair().light != catalog.best().name


def test_the_catalog_of_components_has_a_size_and_a_load_time_from_each_tier_for_all() -> None:
    variant = catalogs.measured(OF_COMPONENTS).level("image")
    assert {len(variant.bases), len(variant.adapters), len(variant.controls)} == {104, 874, 24}
    for each in variant.components:
        assert each.bytes > 0
        assert each.load_ms["remote"] > each.load_ms["volume"] > each.load_ms["host"] > each.load_ms["device"] == 0


def test_the_planner_s_catalog_knows_bands_where_a_profile_ships() -> None:
    assert catalogs.load("tiny").measured is None
    tiny = catalogs.measured("tiny")
    assert tiny.measured is not None
    assert tiny.measured.bounds == (0, 0.25, 0.5, 0.75, 1)
    bands = tiny.measured.cascades[tiny.pair().key]
    assert len(bands.kept) == len(bands.again[0]) == 4
    assert catalogs.measured("profile").measured is None


def test_a_catalog_of_the_users_is_read_from_its_file(tmp_path: pathlib.Path) -> None:
    shipped = CATALOGS / "profile.toml"
    own = tmp_path / "mine.toml"
    own.write_text(shipped.read_text())
    assert catalogs.load(str(own)).name == "mine"
    assert catalogs.load(str(own)).variants == catalogs.load("profile").variants


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(Unknown, match=r"did you mean 'tiny'\? .*profile.*tiny"):
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


def test_a_shipped_catalog_s_profile_ships_with_it_where_it_was_measured() -> None:
    found = catalogs.find_profile("tiny")
    assert found is not None
    assert '"catalog": "tiny"' in found.text
    assert {"quality", "confidence"} <= found.arrays.keys()
    assert catalogs.find_profile("profile") is None


def test_the_user_s_profile_lies_beside_the_user_s_catalog_with_or_without_its_table(tmp_path: pathlib.Path) -> None:
    assert catalogs.find_profile(str(tmp_path / "mine.toml")) is None
    (tmp_path / "mine.json").write_text("{}")
    found = catalogs.find_profile(str(tmp_path / "mine.toml"))
    assert found is not None
    assert (found.file, found.text, found.arrays) == (str(tmp_path / "mine.json"), "{}", {})


@pytest.mark.parametrize(("name", "data"), [("mine.json", b"\xff\xfe"), ("mine-quality.npz", b"no archive")])
def test_a_profile_that_cannot_be_read_is_named(tmp_path: pathlib.Path, name: str, data: bytes) -> None:
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PochadeError, match=r"profile .*mine\.json cannot be read.*pochade profile"):
        catalogs.find_profile(str(tmp_path / "mine.toml"))


def test_an_unknown_catalog_lists_the_shipped_ones() -> None:
    with pytest.raises(Unknown, match="tiny"):
        catalogs.find_profile("tinny")
