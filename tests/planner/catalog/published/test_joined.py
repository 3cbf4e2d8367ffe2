"""A catalog with the full files: made-up ones, and the published ones where they are at hand."""

import pytest

from planner.catalog.curves import front
from planner.catalog.parse import Catalog, InvalidCatalog, parse
from planner.catalog.published.joined import with_published
from schemas.errors import Unknown
from streams.catalogs.published_files import texts_of
from tests.builders import a_catalog
from tests.paths import CATALOGS, PUBLISHED

needs_files = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not beside this checkout")

RUNTIMES = "Model,Accel,batchsize,avg_runtime\nsdturbo,ampere,1,11\nsdv15,ampere,1,99\nother,ampere,1,5\n"


def shipped(name: str) -> Catalog:
    return parse((CATALOGS / f"{name}.toml").read_text(), name)


def test_run_times_replace_those_of_the_first_cascade_s_levels() -> None:
    catalog = with_published(a_catalog(), {"runtimes": (RUNTIMES, "r.csv")})
    assert {name: v.latency_ms for name, v in catalog.variants.items()} == {"light": {1: 11}, "heavy": {1: 99}}


def test_run_times_that_fall_with_the_batch_are_refused() -> None:
    with pytest.raises(InvalidCatalog, match="growing with the batch size"):
        with_published(a_catalog(), {"runtimes": (RUNTIMES + "sdturbo,ampere,2,7\n", "r.csv")})


def test_a_discriminator_s_scores_become_the_curve_of_its_prompts_means() -> None:
    catalog = with_published(a_catalog(), {"discriminator": ("1\n1\n1\n0.6\n0\n0\n0\n0\n", "d.csv")})
    curve = dict(catalog.discriminator("look").deferral)
    assert curve[0.1] == 0
    assert curve[0.105] == 0.5
    assert curve[1.0] == 0.5


def test_an_unknown_kind_of_file_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="discriminator, hybrid_configs, runtimes"):
        with_published(a_catalog(), {"runtime": ("", "r.csv")})


@needs_files
@pytest.mark.parametrize("name", ["diffserve-sdturbo", "diffserve-sdxs", "diffserve-sdxlltn"])
def test_what_ships_is_what_the_published_files_of_a_cascade_hold(name: str) -> None:
    catalog = shipped(name)
    full = with_published(catalog, texts_of(PUBLISHED, catalog.published, catalog.name))
    assert full.variants == catalog.variants
    assert full.discriminators == catalog.discriminators


@needs_files
def test_the_rows_that_ship_are_those_of_the_published_table_that_no_other_beats() -> None:
    catalog = shipped("hadis-l40s")
    full = with_published(catalog, texts_of(PUBLISHED, catalog.published, catalog.name))
    assert len(full.pair_rows) == 726
    assert front(full.pair_rows) == front(catalog.pair_rows)
    assert len(front(catalog.pair_rows)) == len(catalog.pair_rows) == 46
