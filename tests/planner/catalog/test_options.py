"""Options: honoured where the variant can, named where it cannot, refused where nobody could; drafts refined."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.option_limits import check_options
from planner.catalog.options import begins_at, fault, honoured, job_ms, resolve_options
from planner.catalog.validate import InvalidCatalog
from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions
from tests.builders import a_request, a_variant

FIXED = a_variant(name="light", steps=2, guidance=1.0, honours=())
FREE = a_variant(name="heavy", steps=10, honours=("steps", "guidance", "width", "height", "negative_prompt"))
HEAVY = a_variant(name="heavy", steps=50, honours=("steps", "width"))


def test_without_options_the_variants_own_figures_hold_and_nothing_is_overridden() -> None:
    settled = resolve_options(GenerateOptions(), FIXED)
    assert (settled.steps, settled.guidance, settled.width) == (FIXED.steps, FIXED.guidance, FIXED.width)
    assert settled.overridden == ()


def test_what_a_variant_honours_is_done() -> None:
    settled = resolve_options(GenerateOptions(steps=20, width=64, negative_prompt="blur"), FREE)
    assert (settled.steps, settled.width, settled.negative_prompt, settled.overridden) == (20, 64, "blur", ())


def test_what_it_cannot_honour_is_listed_with_what_it_does_instead() -> None:
    options = GenerateOptions(
        steps=20, negative_prompt="blur", adapters=("ink", "oil"), controls=("edges",), model="heavy"
    )
    settled = resolve_options(options, FIXED)
    assert (settled.steps, settled.negative_prompt) == (2, "")
    assert settled.overridden == (
        "steps: 20 -> 2",
        "negative_prompt: blur -> none",
        "model: heavy -> light",
        "adapters: ink, oil -> none",
        "controls: edges -> none",
    )


def test_a_size_is_rounded_down_to_what_the_variant_generates_and_that_is_said() -> None:
    coarse = a_variant(width=64, height=64, size_multiple=16, honours=("width", "height"))
    settled = resolve_options(GenerateOptions(width=72, height=48), coarse)
    assert (settled.width, settled.height, settled.overridden) == (64, 48, ("size: 72x48 -> 64x48",))
    assert resolve_options(GenerateOptions(width=8), coarse).width == 16, "never to nothing"
    assert resolve_options(GenerateOptions(width=80, height=48), coarse).overridden == ()


def test_a_job_carries_a_size_that_was_rounded_as_one_that_is_honoured() -> None:
    coarse = a_variant(width=64, height=64, size_multiple=16, honours=("width", "height"))
    asked = GenerateOptions(width=72, height=48)
    carried = honoured(asked, resolve_options(asked, coarse))
    assert carried == ("width", "height")
    assert resolve_options(asked, coarse, honours=carried).width == 64
    narrow = a_variant(width=64, height=64, size_multiple=16, honours=("width",))
    assert honoured(asked, resolve_options(asked, narrow)) == ("width",)


def test_a_variants_own_size_is_a_multiple_of_what_it_generates() -> None:
    with pytest.raises(InvalidCatalog, match=r"width must be a multiple of size_multiple = 16: got 72"):
        a_variant(width=72, height=64, size_multiple=16)


def test_asking_for_what_the_variant_does_anyway_overrides_nothing() -> None:
    assert resolve_options(GenerateOptions(steps=2, model="light", guidance=1.0), FIXED).overridden == ()


def test_a_jobs_time_grows_with_images_and_honoured_steps() -> None:
    one = job_ms(FREE, GenerateOptions())
    assert job_ms(FREE, GenerateOptions(steps=20)) == pytest.approx(2 * one)
    assert job_ms(FREE, GenerateOptions(n=2)) > one
    assert job_ms(FIXED, GenerateOptions(steps=20)) == job_ms(FIXED, GenerateOptions())


def test_a_job_of_larger_images_takes_as_much_longer_as_they_have_pixels_where_the_size_is_honoured() -> None:
    one = job_ms(FREE, GenerateOptions())
    assert job_ms(FREE, GenerateOptions(width=2 * FREE.width)) == pytest.approx(2 * one)
    assert job_ms(FREE, GenerateOptions(width=4096, height=4096)) == pytest.approx(one * 128**2)
    assert job_ms(FREE, GenerateOptions(width=16, height=16, steps=20)) == pytest.approx(one / 2)
    assert job_ms(FIXED, GenerateOptions(width=4096, height=4096)) == job_ms(FIXED, GenerateOptions())


def test_a_job_that_skips_steps_takes_as_much_less() -> None:
    one = job_ms(FREE, GenerateOptions())
    assert job_ms(FREE, GenerateOptions(), 4) == pytest.approx(0.6 * one)
    assert job_ms(FREE, GenerateOptions(steps=20), 8) == pytest.approx(1.2 * one)


@pytest.mark.parametrize("options", [GenerateOptions(), GenerateOptions(n=2), GenerateOptions(steps=10)])
def test_a_step_to_begin_at_that_the_variant_does_not_have_counts_as_none(options: GenerateOptions) -> None:
    assert resolve_options(options, FREE, 9).refine_from_step == 9
    assert resolve_options(options, FREE, 10).refine_from_step == 0
    assert job_ms(FREE, options, 10) == job_ms(FREE, options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quality": "best"}, "quality must be one of low, medium, high, auto: got 'best'"),
        ({"tier": "vip"}, "tier must be one of interactive, standard, batch"),
        ({"options": GenerateOptions(n=9)}, "n must be from 1 to 8: got 9"),
        ({"options": GenerateOptions(n=0)}, "n must be from 1 to 8: got 0"),
        ({"options": GenerateOptions(steps=0)}, "steps must be from 1 to 200"),
        ({"options": GenerateOptions(width=33)}, "width must be a multiple of 8 px: got 33"),
        ({"options": GenerateOptions(guidance=float("nan"))}, "guidance must be from 0 to 50"),
    ],
)
def test_what_nobody_could_honour_is_refused_in_words(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_options(a_request(**changes), 8)


def begin(refine_from_step: int, drafts: int = 1, **options: int) -> int:
    return begins_at(refine_from_step, HEAVY, resolve_options(GenerateOptions(**options), HEAVY), [(32, 32)] * drafts)


def test_a_job_begins_at_the_cascades_step() -> None:
    assert begin(30) == 30
    assert begin(0) == 0


@pytest.mark.parametrize(("steps", "step"), [(100, 60), (25, 15), (9, 5), (1, 0)])
def test_a_request_that_sets_the_steps_has_the_same_share_of_them_skipped_rounded_down(steps: int, step: int) -> None:
    assert begin(30, steps=steps) == step


@given(steps=st.integers(1, 200), refine_from_step=st.integers(0, 49))
def test_at_least_one_step_is_left_whatever_the_request_sets(steps: int, refine_from_step: int) -> None:
    assert 0 <= begin(refine_from_step, steps=steps) < steps


def test_each_image_needs_its_own_draft_of_its_own_size() -> None:
    assert begin(30, n=2, drafts=2) == 30
    assert begin(30, n=2, drafts=1) == 0
    assert begin(30, drafts=0) == 0
    assert begin(30, width=64) == 0


def test_a_step_that_leaves_none_to_take_or_a_draft_of_another_size_is_a_fault() -> None:
    light = a_variant()
    assert fault(49, light, HEAVY) == fault(0, a_variant(width=64), HEAVY) == ""
    assert "got 50" in fault(50, light, HEAVY)
    assert "got -1" in fault(-1, light, HEAVY)
    assert "64 x 32 px" in fault(1, a_variant(width=64), HEAVY)


URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"adapters": tuple("abcdefg")}, "adapters must be at most 6: got 7"),
        ({"adapters": ("a", "a")}, "adapters must be named, each once"),
        ({"adapters": ("a", "")}, "adapters must be named, each once"),
        ({"adapters": ("a", "b"), "adapter_weights": (1.0,)}, "adapter_weights must be as many as adapters"),
        ({"adapter_weights": (1.0,)}, "adapter_weights must be as many as adapters"),
        ({"adapters": ("a",), "adapter_weights": (float("nan"),)}, "adapter_weights must be from -4 to 4"),
        ({"controls": ("a",)}, "control_images must name one image for each of controls: got 0 for 1"),
        ({"control_images": (URI,)}, "control_images must name one image for each of controls: got 1 for 0"),
        ({"controls": ("a",), "control_images": (URI,), "control_weights": (-1.0,)}, "must be from 0 to 4"),
        ({"strength": 0.5}, "strength must come with image"),
        ({"image": URI, "strength": 0.0}, "strength must be above 0 and at most 1"),
        ({"mask": URI}, "mask must come with image"),
    ],
)
def test_components_that_nobody_could_honour_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_options(a_request(options=GenerateOptions(**asked)), 8)


def test_six_adapters_with_weights_and_an_image_with_a_mask_can_be_asked_for() -> None:
    options = GenerateOptions(
        adapters=tuple("abcdef"), adapter_weights=(1.0, -0.5, 0.0, 1.0, 1.0, 2.0), image=URI, strength=1.0, mask=URI,
        controls=("outline",), control_images=(URI,),
    )  # fmt: skip
    check_options(a_request(options=options), 8)
