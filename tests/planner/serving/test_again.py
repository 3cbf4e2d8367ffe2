"""The request that makes an image again has all that made it, and what cannot be made again says why."""

from dataclasses import replace
from typing import Any

import pytest

from planner.catalog.options import resolve_options
from planner.serving.again import NotAgain, again, differences
from planner.serving.routing.cascades import may_escalate
from planner.serving.routing.composing import fit_of
from schemas.messages import GenerateOptions, GenerateRequest, Made, Result, Status
from streams import catalogs
from streams.codec.prompt_file import request_of
from streams.codec.requests import stated
from tests.builders import a_request
from tests.replay.runs import a_result, a_step

NOW_MS = 1_760_000_009_000
ASKED = a_request(
    request_id="r-1", deadline_ms=NOW_MS, quality="low", tier="batch", tenant="ann",
    options=GenerateOptions(steps=50, guidance=7.0, negative_prompt="rain", n=2, reuse="own", quality_at_least=0.5),
)  # fmt: skip
MADE = Made(variant="heavy", seed=77, steps=4, guidance=1.5, width=48, height=48, negative_prompt="rain")


def the_end(**changes: Any) -> Result:
    return replace(a_result(a_step(), request_id="r-1"), made=MADE, **changes)


def test_it_asks_for_what_made_the_image_of_its_level_alone_and_strictly() -> None:
    anew = again(ASKED, the_end(), NOW_MS)
    assert (anew.seed, anew.tier, anew.tenant, anew.prompt, anew.deadline_ms) == (
        77,
        "batch",
        "ann",
        ASKED.prompt,
        None,
    )
    assert anew.options == GenerateOptions(
        model="heavy", steps=4, guidance=1.5, width=48, height=48, negative_prompt="rain", n=2, strict=True, reuse="off"
    )
    assert anew.request_id != ASKED.request_id
    other = again(ASKED, the_end(), NOW_MS, seed=0)
    assert other == replace(anew, seed=0, request_id=other.request_id)


@pytest.mark.parametrize("level", ["light", "middle", "heavy"])
def test_each_level_honours_what_it_made_and_no_discriminator_replaces_it(level: str) -> None:
    catalog = catalogs.load("tiny")
    how = resolve_options(ASKED.options, catalog.level(level))
    made = replace(
        MADE, variant=level, steps=how.steps, guidance=how.guidance, width=how.width, height=how.height,
        negative_prompt=how.negative_prompt,
    )  # fmt: skip
    anew = again(ASKED, replace(the_end(), made=made), NOW_MS)
    fit = fit_of(anew.options, anew.quality, catalog)
    assert (fit.level, fit.fault, may_escalate(anew, catalog)) == (level, None, False)
    same = resolve_options(anew.options, catalog.level(level))
    assert same._replace(asked=how.asked) == how._replace(overridden=())


def test_components_that_were_not_applied_are_left_out_and_those_that_were_stay() -> None:
    asked = replace(
        ASKED, options=GenerateOptions(adapters=("candy",), adapter_weights=(0.8,), image="memory:x", strength=0.5)
    )
    assert again(asked, the_end(), NOW_MS).options.adapters == ()
    made = replace(MADE, variant="styles", strength=0.5, begins_with="image")
    used = the_end(components=("base:poster", "adapter:candy@0.8"))
    kept = again(asked, replace(used, made=made), NOW_MS).options
    assert (kept.model, kept.adapters, kept.image, kept.strength) == ("poster", ("candy",), "memory:x", 0.5)


def test_another_level_gets_the_seed_and_what_was_asked() -> None:
    asked = replace(ASKED, options=replace(ASKED.options, model="light"))
    end = the_end(components=())
    better = again(
        asked, replace(end, made=replace(MADE, variant="light", begins_with="draft")), NOW_MS, quality="high"
    )
    assert (better.quality, better.seed, better.options.model, better.options.steps) == ("high", 77, "", 50)
    other = again(asked, end, NOW_MS, model="middle")
    assert (other.quality, other.options.model) == ("auto", "middle")


@pytest.mark.parametrize(
    ("request_", "changes", "why"),
    [
        (ASKED, {"status": Status.EXPIRED}, "r-1 ended as EXPIRED, without an image"),
        (None, {}, "what r-1 asked for is not known"),
        (replace(ASKED, seed=5), {"made": None}, "an older release made it; its seed is 5"),
        (ASKED, {"made": replace(MADE, seed=None)}, "drew a seed of its own"),
        (
            ASKED,
            {"made": replace(MADE, begins_with="draft", from_step=3)},
            "at step 3 of 4 with its draft.* cannot be made again. --model heavy makes another image, from noise",
        ),
        (
            ASKED,
            {"made": replace(MADE, begins_with="latent", from_step=1)},
            "with the stored latent of an earlier image.*--model heavy",
        ),
    ],
)
def test_what_cannot_be_made_again_is_refused_with_a_sentence(
    request_: GenerateRequest | None, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotAgain, match=why):
        again(request_, replace(the_end(), **changes), NOW_MS)


def test_stated_fields_are_read_back_as_the_request() -> None:
    anew = replace(ASKED, options=replace(ASKED.options, adapters=("candy",), adapter_weights=(0.8,)))
    fields = {**stated(anew), "request_id": anew.request_id, "created_ms": anew.created_ms}
    assert request_of(fields, NOW_MS) == anew


def test_what_differs_between_two_images_is_named() -> None:
    assert differences(MADE, replace(MADE, device="cuda", seed=8)) == "seed 77 -> 8, device  -> cuda"
    assert differences(MADE, None) == differences(MADE, MADE) == ""
    assert differences(MADE, replace(MADE, price_per_hour=2.5)) == "", "what a worker costs makes no other image"
