"""What a catalog states of measurements: curves, settings, reuse, scale and the files that hold more."""

import pytest

from planner.catalog.curves import PairRow
from planner.catalog.parse import Catalog, InvalidCatalog, parse
from schemas.errors import Unknown
from tests.paths import CATALOGS

PROFILE = (CATALOGS / "profile.toml").read_text()


def changed(old: str, new: str) -> Catalog:
    assert old in PROFILE
    return parse(PROFILE.replace(old, new, 1), "changed")


MEASURED = """discriminator = "look"
quality = [[0.0, 0.8], [1.0, 1.0]]
random_quality = [{ heavy = 0.0, quality = 0.8 }]
settings = [
    [0.1, 0.2, 90, 0.9],
    { router_ratio = 0.3, disc_ratio = 0.4, latency_ms = 120, quality = 0.95, hardness = 0.6 }]
"""


def test_a_cascade_s_measurements_are_arrays_in_order_or_tables() -> None:
    catalog = changed('discriminator = "look"\n', MEASURED)
    curves = catalog.curves[catalog.pair().key]
    assert (curves.judged, curves.random) == (((0.0, 0.8), (1.0, 1.0)), ((0.0, 0.8),))
    assert catalog.pair_rows == (
        PairRow("light", "heavy", 0.1, 0.2, 90, 0.9),
        PairRow("light", "heavy", 0.3, 0.4, 120, 0.95, hardness=0.6),
    )
    assert parse(PROFILE, "profile").curves == {}


def test_a_deferral_curve_may_be_arrays_too() -> None:
    tables = "deferral = [{ threshold = 0.0, deferred = 0.0 }, { threshold = 1.0, deferred = 1.0 }]"
    assert changed(tables, "deferral = [[0.0, 0.0], [1.0, 1.0]]").discriminators == parse(PROFILE, "x").discriminators


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("[[0.0, 0.8, 1.0]]", r"quality\[0\] must be at most 2 values: got \[0.0, 0.8, 1.0\]"),
        ("[[0.0]]", r"quality\[0\]: quality must be given"),
        ('[[0.0, "x"]]', r"quality\[0\]: quality must be a number: got 'x'"),
        ("[0.0, 0.8]", r"quality\[0\] must be a table: got 0.0"),
        ("0.8", "quality must be an array: got 0.8"),
    ],
)
def test_a_measurement_of_another_form_is_refused(rows: str, told: str) -> None:
    with pytest.raises(InvalidCatalog, match=told):
        changed('discriminator = "look"\n', f'discriminator = "look"\nquality = {rows}\n')


def test_quality_is_on_one_of_the_known_scales() -> None:
    assert parse(PROFILE, "profile").scale == "facts"
    assert parse('scale = "fid"\n' + PROFILE, "profile").scale == "fid"
    with pytest.raises(Unknown, match=r"unknown scale of quality 'fdi'.*did you mean 'fid'"):
        parse('scale = "fdi"\n' + PROFILE, "profile")


def test_reuse_is_of_a_variant_s_own_steps() -> None:
    catalog = parse(PROFILE + "\n[reuse]\nheavy = [{ k = 5, cost_share = 0.8, quality = 0.9 }]\n", "profile")
    assert [(start.k, start.cost_share, start.quality) for start in catalog.reuse["heavy"]] == [(5, 0.8, 0.9)]
    with pytest.raises(InvalidCatalog, match=r"reuse of heavy: k = 25: must be in \[1, 25\)"):
        parse(PROFILE + "\n[reuse]\nheavy = [[25, 0.8]]\n", "profile")
    with pytest.raises(Unknown, match="unknown level 'hevy'"):
        parse(PROFILE + "\n[reuse]\nhevy = [[5, 0.8]]\n", "profile")


def test_the_published_files_are_named_by_kind() -> None:
    assert parse(PROFILE + '\n[published]\nruntimes = "r.csv"\n', "profile").published == {"runtimes": "r.csv"}
    with pytest.raises(InvalidCatalog, match=r"published\.runtimes must be a text"):
        parse(PROFILE + "\n[published]\nruntimes = 1\n", "profile")
