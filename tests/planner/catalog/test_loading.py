"""How a model is loaded: what a catalog may say, and the example of one's own models."""

import pytest

from planner.catalog.loading import Loading
from planner.catalog.parse import InvalidCatalog, Pair, parse, run_ms
from schemas.errors import Unknown
from tests.paths import CATALOGS

EXAMPLE = (CATALOGS / "sdxl-example.toml").read_text()


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
    ("old", "new", "told"),
    [
        ('device = "cuda"', 'device = "gpu"', "device must be cpu, mps, cuda or cuda:N: got 'gpu'"),
        ('dtype = "float16"', 'dtype = "half"', "dtype must be one of float32, float16, bfloat16: got 'half'"),
        ('dtype = "float16"', "dtype = 16", "variant 'light': loading: dtype must be a text: got 16"),
        ('device = "cuda"', 'device = "cpu"', "dtype must be float32 or bfloat16 on cpu"),
        (".safetensors", ".pth", "unet must be a .safetensors file"),
        ('"trailing"', '"trailling"', "timestep_spacing must be one of leading, linspace, trailing"),
        ('[variants.light.loading]\ndevice = "cuda"', '[variants.light]\nloading = "cuda"', "is not TOML"),
    ],
)
def test_an_impossible_loading_is_refused_with_what_the_value_and_the_limit(old: str, new: str, told: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(InvalidCatalog, match=told):
        parse(EXAMPLE.replace(old, new, 1), "changed")


def test_a_misspelt_key_names_the_nearest() -> None:
    with pytest.raises(Unknown, match=r"variant 'light': loading.*did you mean 'licence'"):
        parse(EXAMPLE.replace("licence", "license", 1), "changed")


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:1"])
def test_any_device_of_torch_may_be_named(device: str) -> None:
    assert Loading(device=device).device == device
