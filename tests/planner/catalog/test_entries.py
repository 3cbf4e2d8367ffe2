"""How a model is loaded, classifiers in the catalog, and the class that follows from predicted qualities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.lab.evaluation.statistics.classes import best_choice
from planner.catalog.entries import Classifier, Loading, fastest_good, run_ms, shortfall, variant_of
from planner.catalog.model import Catalog, Pair
from planner.catalog.validate import InvalidCatalog
from planner.control.validity import check
from schemas.errors import InvalidPlan, Unknown
from schemas.messages import Route
from streams.parsing.catalog import parse
from tests.builders import a_catalog, a_plan
from tests.paths import CATALOGS
from tests.streams.parsing.test_catalog import PROFILE

EXAMPLE = (CATALOGS / "sdxl-example.toml").read_text()
LEVELS = ("light", "middle", "heavy")
LEARNED = """
[classifiers.learned]
engine = "learned"
folder = "models/classifiers/models"
strategy = "models"
levels = ["light", "heavy"]
"""


def test_nothing_said_leaves_everything_to_the_engine() -> None:
    assert parse((CATALOGS / "tiny.toml").read_text(), "tiny").level("light").loading == Loading()


def test_the_example_is_a_cascade_with_device_precision_and_licence_each() -> None:
    catalog = parse(EXAMPLE, "sdxl-example")
    assert catalog.pair() == Pair(catalog.cheapest().name, catalog.best().name, "look")
    for variant in catalog.variants.values():
        assert (variant.loading.device, variant.loading.dtype) == ("cuda", "float16")
        assert variant.loading.licence
        assert (variant.width, variant.height) == (1024, 1024)


def test_the_example_states_the_published_times() -> None:
    catalog = parse(EXAMPLE, "sdxl-example")
    assert [run_ms(catalog.level(name), 1) for name in ("light", "heavy")] == [500, 6000]


def test_a_distilled_model_does_not_let_requests_change_its_steps() -> None:
    assert "steps" not in parse(EXAMPLE, "sdxl-example").level("light").honours


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('device = "cuda"', 'device = "gpu"', "device must be cpu, mps, cuda or cuda:N: got 'gpu'"),
        ('dtype = "float16"', 'dtype = "half"', "dtype must be one of float32, float16, bfloat16: got 'half'"),
        ('dtype = "float16"', "dtype = 16", "variants.light.loading.dtype must be a text: got 16"),
        ('device = "cuda"', 'device = "cpu"', "dtype must be float32 or bfloat16 on cpu"),
        (".safetensors", ".pth", "weights must be a .safetensors file"),
        ('[variants.light.loading]\ndevice = "cuda"', '[variants.light]\nloading = "cuda"', "is not TOML"),
    ],
)
def test_an_impossible_loading_is_refused_with_what_the_value_and_the_limit(old: str, new: str, reported: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(InvalidCatalog, match=reported):
        parse(EXAMPLE.replace(old, new, 1), "changed")


def test_a_misspelt_key_names_the_nearest() -> None:
    with pytest.raises(Unknown, match=r"variants.light.loading.*did you mean 'licence'"):
        parse(EXAMPLE.replace("licence", "license", 1), "changed")


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:1"])
def test_any_device_of_torch_may_be_named(device: str) -> None:
    assert Loading(device=device).device == device


def a_classifier(**changes: object) -> Classifier:
    values = {"name": "learned", "engine": "learned", "folder": "somewhere", "strategy": "models",
              "levels": ("light", "heavy")}  # fmt: skip
    return Classifier(**(values | changes))  # type: ignore[arg-type]


def with_classifiers(text: str) -> Catalog:
    return parse(PROFILE + text, "test")


def test_a_catalog_says_who_classifies_its_prompts() -> None:
    catalog = with_classifiers(LEARNED + '[classifiers.rules]\nengine = "rules"\n')
    assert list(catalog.classifiers) == ["learned", "rules"]
    assert catalog.classifiers["learned"] == a_classifier(folder="models/classifiers/models")
    assert parse(PROFILE, "test").classifiers == {}


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('["light", "heavy"]', '["heavy", "light"]', "ordered by run time"),
        ('["light", "heavy"]', '["light", "light"]', "each once"),
        ('["light", "heavy"]', "[]", "one or more"),
        ('["light", "heavy"]', "[1]", "a text"),
        ('folder = "models/classifiers/models"', "", "folder must be named"),
        ('strategy = "models"', "", "strategy must be named"),
        ('engine = "learned"', 'engine = "rules"', "left out for rules"),
    ],
)
def test_a_classifier_that_cannot_be_used_is_refused(old: str, new: str, reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        with_classifiers(LEARNED.replace(old, new))


def test_an_unknown_engine_level_or_key_names_the_nearest() -> None:
    for old, new, reported in (
        ('= "learned"', '= "learnt"', "learned"),
        ("heavy", "hevy", "heavy"),
        ("folder", "foldr", "folder"),
    ):
        with pytest.raises(Unknown, match=f"did you mean '{reported}'"):
            with_classifiers(LEARNED.replace(old, new))


def test_two_classifiers_do_not_share_a_strategy() -> None:
    with pytest.raises(InvalidCatalog, match="each once"):
        a_catalog(classifiers={"a": a_classifier(name="a"), "b": a_classifier(name="b")})


def test_reuse_levels_are_those_of_a_variant() -> None:
    reuse = a_classifier(name="reuse", strategy="reuse", levels=("heavy~k4", "heavy"))
    catalog = a_catalog(classifiers={"reuse": reuse})
    assert (variant_of("heavy~k4"), variant_of("heavy")) == ("heavy", "heavy")
    assert catalog.classes("reuse") == {"heavy~k4", "heavy"}
    with pytest.raises(Unknown, match="heavy"):
        a_catalog(classifiers={"reuse": a_classifier(levels=("hevy~k4",))})


def test_a_plan_needs_a_route_for_each_class_that_a_classifier_may_name() -> None:
    light_only = a_plan(routes=(Route(label="light", levels={"light": 1.0}),))
    catalog = a_catalog(class_cuts={}, classifiers={"learned": a_classifier()})
    with pytest.raises(InvalidPlan, match=r"classes without a route: \['heavy'\]"):
        check(light_only, catalog)
    check(light_only, a_catalog(class_cuts={}, classifiers={"learned": a_classifier(levels=("light",))}))


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_class_is_the_first_level_within_a_tenth_of_the_best(qualities: list[float]) -> None:
    quality = dict(zip(LEVELS, qualities, strict=True))
    chosen = fastest_good(quality, LEVELS)
    assert quality[chosen] >= 0.9 * max(qualities) - 1e-9
    assert all(quality[level] < 0.9 * max(qualities) for level in LEVELS[: LEVELS.index(chosen)])
    assert chosen == LEVELS[best_choice(np.array(qualities)[:, None], np.arange(3.0))[0]]  # as reports reckon it


def test_only_the_levels_asked_for_can_be_a_class() -> None:
    quality = {"light": 0.2, "middle": 0.95, "heavy": 1.0}
    assert fastest_good(quality, ("light", "heavy")) == "heavy"
    assert fastest_good(quality, LEVELS) == "middle"


def test_a_prompt_is_as_hard_as_the_fastest_level_falls_short() -> None:
    assert shortfall({"light": 0.25, "middle": 1.0, "heavy": 0.5}, LEVELS) == 0.75
    assert shortfall({"light": 1.0, "middle": 0.5, "heavy": 0.5}, LEVELS) == 0
