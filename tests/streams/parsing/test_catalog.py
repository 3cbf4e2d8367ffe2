"""A catalog from TOML: what is read, what is refused, and what is stated of measurements."""

import pytest

from planner.catalog.curves import PairRow
from planner.catalog.model import Catalog, Pair, classes_of
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from schemas.messages import ReuseGuard
from streams.parsing.catalog import parse
from tests.builders import a_catalog, a_variant
from tests.paths import CATALOGS

PROFILE = (CATALOGS / "profile.toml").read_text()


def changed(old: str, new: str) -> Catalog:
    assert old in PROFILE
    return parse(PROFILE.replace(old, new, 1), "changed")


@pytest.mark.parametrize("name", ["tiny", "profile"])
def test_shipped_catalogs_have_a_cascade_from_the_cheapest_to_the_best(name: str) -> None:
    catalog = parse((CATALOGS / f"{name}.toml").read_text(), name)
    assert catalog.pair()[:3] == (catalog.cheapest().name, catalog.best().name, "look")
    assert set(classes_of(catalog, 0.0).values()) == {catalog.cheapest().name}


def test_a_misspelt_key_names_the_nearest_known_one() -> None:
    with pytest.raises(Unknown, match=r"guidence.*did you mean 'guidance'"):
        changed("guidance", "guidence")


def test_an_unknown_level_names_the_nearest_known_one() -> None:
    with pytest.raises(Unknown, match=r"unknown level 'hevy'.*did you mean 'heavy'"):
        changed('heavy = "heavy"', 'heavy = "hevy"')
    with pytest.raises(Unknown, match="heavy"):
        a_catalog().level("hevy")


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("1 = 20,", "1 = -20,", "latency_ms at 1 must be > 0: got -20.0"),
        ("1 = 20, 2 = 30", "2 = 30", "measured at batch size 1"),
        ("2 = 30", "2 = 10", "growing with the batch size"),
        ("2 = 30", "two = 30", "a batch size: got 'two'"),
        ("2 = 30", "2 = true", r"changed': variants\.light\.latency_ms\.2 must be a number: got True; correct it"),
        ("steps = 2", "steps = 0", "steps must be >= 1: got 0"),
        ("steps = 2", 'steps = "2"', "steps must be a whole number: got '2'"),
        ("steps = 2\n", "", "steps must be given"),
        ("load_ms = 50", "load_ms = nan", "load_ms must be >= 0: got nan"),
        ("quality = 0.8", "quality = inf", "quality must be finite"),
        ("threshold = 0.3", "threshold = 1.5", r"threshold must be in \[0, 1\]: got 1.5"),
        ("threshold = 1.0, deferred = 1.0", "threshold = 0.0, deferred = 1.0", "monotone"),
        ("threshold = 1.0, deferred = 1.0", "threshold = 1.0, deferred = 1.2", r"in \[0, 1\]"),
        ("hardness = 0.7", "hardness = 1.0", "ascending"),
        ("hardness = 1.0", "hardness = 0.9", "ascending from above 0 to 1.0"),
        ("hardness = 0.7", "hardness = 0", "ascending"),
        ('heavy = "heavy"', 'heavy = "light"', "between two levels"),
        ('heavy = "heavy"\n', "", r"cascades\[0\]\.heavy must be given: got None; add `heavy = ...`"),
        ('heavy = "heavy"', 'heavy = "heavy"\npaint_over_step = 25', r"in \[0, 25\), the steps of heavy: got 25"),
        ('heavy = "heavy"', 'heavy = "heavy"\npaint_over_step = 1.5', "paint_over_step must be a whole number"),
        ("[variants.light]", '[variants.light]\nname = "x"', "the table's own name counts"),
        ("[variants.light]", "[variants.light", "is not TOML"),
        ('engine = "profile"', 'engine = "diffusers"', "model must be named"),
    ],
)
def test_an_impossible_catalog_is_refused_with_what_the_value_and_the_limit(old: str, new: str, reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        changed(old, new)


def test_a_cascade_may_skip_steps_of_the_heavy_level_between_levels_of_one_size() -> None:
    assert changed('heavy = "heavy"', 'heavy = "heavy"\npaint_over_step = 24').pair().refine_from_step == 24
    assert parse(PROFILE, "profile").pair().refine_from_step == 0
    with pytest.raises(InvalidCatalog, match="light generates 64 x 32 px and heavy 32 x 32"):
        a_catalog(
            variants=a_catalog().variants | {"light": a_variant(width=64)},
            cascades=(Pair("light", "heavy", "look", 3),),
        )


def test_an_unknown_engine_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match=r"unknown engine 'difusers'.*did you mean 'diffusers'"):
        changed('engine = "profile"', 'engine = "difusers"')
    with pytest.raises(InvalidCatalog, match=r"engine must be one that serves: got 'chaos'"):
        changed('engine = "profile"', 'engine = "chaos"')


def test_a_catalog_without_variants_or_cascades_says_what_to_add() -> None:
    with pytest.raises(InvalidCatalog, match="variants"):
        parse("", "empty")
    with pytest.raises(InvalidCatalog, match="cascades"):
        a_catalog(cascades=()).pair()


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
    ("rows", "reported"),
    [
        ("[[0.0, 0.8, 1.0]]", r"quality\[0\] must be at most 2 values: got \[0.0, 0.8, 1.0\]"),
        ("[[0.0]]", r"cascades\[0\]\.quality\[0\]\.quality must be given"),
        ('[[0.0, "x"]]', r"quality\[0\]\.quality must be a number: got 'x'"),
        ("[0.0, 0.8]", r"quality\[0\] must be a table, or an array of its values: got 0.0"),
        ("0.8", "quality must be an array: got 0.8"),
    ],
)
def test_a_measurement_of_another_form_is_refused(rows: str, reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        changed('discriminator = "look"\n', f'discriminator = "look"\nquality = {rows}\n')


def test_quality_is_on_one_of_the_known_scales() -> None:
    assert parse(PROFILE, "profile").scale == "facts"
    assert parse('scale = "fid"\n' + PROFILE, "profile").scale == "fid"
    with pytest.raises(Unknown, match=r"unknown scale of quality 'fdi'.*did you mean 'fid'"):
        parse('scale = "fdi"\n' + PROFILE, "profile")


def test_a_catalog_may_say_how_prompts_repeat() -> None:
    text = (
        PROFILE
        + """
[reuse_profile]
floors = [{ similarity = 0.9, share = 0.4 }]
guard = { equal = 0.4, differs = { colour = 0.1 } }
neighbours = [
    { similarity = 0.8, share = 0.3 },
    { similarity = 0.95, share = 0.5, verdicts = { equal = 0.7, count = 0.3 } },
]
retrieval_ms = 3
"""
    )
    profile = parse(text, "profile").reuse_profile
    assert profile is not None
    assert [row.similarity for row in profile.neighbours] == [0.8, 0.95]
    assert profile.neighbours[1].verdicts == {"equal": 0.7, "count": 0.3}
    assert profile.guard == ReuseGuard(equal=0.4, differs={"colour": 0.1})
    assert profile.retrieval_ms == 3.0
    with pytest.raises(Unknown, match="neighbours"):
        parse(PROFILE + "\n[reuse_profile]\nneighbors = []\n", "profile")
    assert parse(PROFILE, "profile").reuse_profile is None


def test_reuse_is_of_a_variant_s_own_steps() -> None:
    catalog = parse(PROFILE + "\n[reuse]\nheavy = [{ k = 5, cost_share = 0.8, quality = 0.9 }]\n", "profile")
    assert [(start.k, start.cost_share, start.quality) for start in catalog.reuse["heavy"]] == [(5, 0.8, 0.9)]
    with pytest.raises(InvalidCatalog, match=r"reuse of heavy: k = 25: must be in \[1, 25\)"):
        parse(PROFILE + "\n[reuse]\nheavy = [[25, 0.8]]\n", "profile")
    with pytest.raises(Unknown, match="unknown level 'hevy'"):
        parse(PROFILE + "\n[reuse]\nhevy = [[5, 0.8]]\n", "profile")


def test_a_component_with_a_count_stands_for_so_many_alike_in_the_lists_of_variants_too() -> None:
    catalog = parse(
        PROFILE.replace("[variants.light]", '[variants.light]\nbases = ["one", "many"]', 1)
        + '[bases.one]\nsource = "none"\n[bases.many]\ncount = 3\nsource = "none"\nbytes = 7\n',
        "counted",
    )
    assert catalog.level("light").bases == ("one", "many-000", "many-001", "many-002")
    assert [each.bytes for each in catalog.level("light").components] == [0, 7, 7, 7]


@pytest.mark.parametrize("count", ["0", "1001", "true", "2.5"])
def test_a_count_of_components_that_is_none_says_the_limit(count: str) -> None:
    with pytest.raises(InvalidCatalog, match=r"bases.many.count must be a whole number from 1 to 1000: got"):
        parse(PROFILE + f'[bases.many]\ncount = {count}\nsource = "none"\n', "counted")
