"""Options: honoured where the variant can, named where it cannot, refused where nobody could."""

import pytest

from planner.catalog.options import check_options, job_ms, settle
from schemas.errors import InvalidRequest
from schemas.messages import PaintOptions
from tests.builders import a_request, a_variant

FIXED = a_variant(name="light", steps=2, guidance=1.0, honours=())
FREE = a_variant(name="heavy", steps=10, honours=("steps", "guidance", "width", "height", "negative_prompt"))


def test_without_options_the_variants_own_figures_hold_and_nothing_is_overridden() -> None:
    settled = settle(PaintOptions(), FIXED)
    assert (settled.steps, settled.guidance, settled.width) == (FIXED.steps, FIXED.guidance, FIXED.width)
    assert settled.overridden == ()


def test_what_a_variant_honours_is_done() -> None:
    settled = settle(PaintOptions(steps=20, width=64, negative_prompt="blur"), FREE)
    assert (settled.steps, settled.width, settled.negative_prompt, settled.overridden) == (20, 64, "blur", ())


def test_what_it_cannot_honour_is_listed_with_what_it_does_instead() -> None:
    options = PaintOptions(
        steps=20, negative_prompt="blur", adapters=("ink", "oil"), controls=("edges",), model="heavy"
    )
    settled = settle(options, FIXED)
    assert (settled.steps, settled.negative_prompt) == (2, "")
    assert settled.overridden == (
        "steps: 20 -> 2",
        "negative_prompt: blur -> ",
        "model: heavy -> light",
        "adapters: ink, oil -> none",
        "controls: edges -> none",
    )


def test_asking_for_what_the_variant_does_anyway_overrides_nothing() -> None:
    assert settle(PaintOptions(steps=2, model="light", guidance=1.0), FIXED).overridden == ()


def test_a_jobs_time_grows_with_pictures_and_honoured_steps() -> None:
    one = job_ms(FREE, PaintOptions())
    assert job_ms(FREE, PaintOptions(steps=20)) == pytest.approx(2 * one)
    assert job_ms(FREE, PaintOptions(n=2)) > one
    assert job_ms(FIXED, PaintOptions(steps=20)) == job_ms(FIXED, PaintOptions())


def test_a_job_of_larger_pictures_takes_as_much_longer_as_they_have_pixels_where_the_size_is_honoured() -> None:
    one = job_ms(FREE, PaintOptions())
    assert job_ms(FREE, PaintOptions(width=2 * FREE.width)) == pytest.approx(2 * one)
    assert job_ms(FREE, PaintOptions(width=4096, height=4096)) == pytest.approx(one * 128**2)
    assert job_ms(FREE, PaintOptions(width=16, height=16, steps=20)) == pytest.approx(one / 2)
    assert job_ms(FIXED, PaintOptions(width=4096, height=4096)) == job_ms(FIXED, PaintOptions())


def test_a_job_that_skips_steps_takes_as_much_less() -> None:
    one = job_ms(FREE, PaintOptions())
    assert job_ms(FREE, PaintOptions(), 4) == pytest.approx(0.6 * one)
    assert job_ms(FREE, PaintOptions(steps=20), 8) == pytest.approx(1.2 * one)


@pytest.mark.parametrize("options", [PaintOptions(), PaintOptions(n=2), PaintOptions(steps=10)])
def test_a_step_to_begin_at_that_the_variant_does_not_have_counts_as_none(options: PaintOptions) -> None:
    assert settle(options, FREE, 9).paint_over_step == 9
    assert settle(options, FREE, 10).paint_over_step == 0
    assert job_ms(FREE, options, 10) == job_ms(FREE, options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quality": "best"}, "quality must be one of low, medium, high, auto: got 'best'"),
        ({"tier": "vip"}, "tier must be one of interactive, standard, batch"),
        ({"options": PaintOptions(n=9)}, "n must be from 1 to 8: got 9"),
        ({"options": PaintOptions(n=0)}, "n must be from 1 to 8: got 0"),
        ({"options": PaintOptions(steps=0)}, "steps must be from 1 to 200"),
        ({"options": PaintOptions(width=33)}, "width must be a multiple of 8 px: got 33"),
        ({"options": PaintOptions(guidance=float("nan"))}, "guidance must be from 0 to 50"),
    ],
)
def test_what_nobody_could_honour_is_refused_in_words(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_options(a_request(**changes), 8)
