"""Checks of what completed requests say and show of their components."""

import io
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from planner.catalog.entries import Variant
from replay.verify.chaos.weights import checks
from replay.verify.chaos.weights.checks import MAX_DIFFERENCE, Checked, check_names, compare, named
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions, GenerateRequest, Result, Status
from streams import catalogs
from tests.builders import a_request
from tests.replay.load.runs import answered


@pytest.fixture(scope="module")
def styles() -> Variant:
    return catalogs.load("tiny").level("styles")


def asked(name: str = "one", **options: Any) -> dict[str, GenerateRequest]:
    return {name: a_request(request_id=name, options=GenerateOptions(**options))}


def ended(name: str = "one", status: Status = Status.COMPLETED, **changes: Any) -> dict[str, Result]:
    level = changes.pop("level", "styles")
    return {name: answered(name, level=level, status=status, **changes)}


MINT: dict[str, Any] = {"model": "poster", "adapters": ("mint",), "adapter_weights": (0.5,)}
SAID = ("base:poster", "adapter:mint@0.5")


def test_requests_that_name_nothing_of_the_variant_are_not_checked(styles: Variant) -> None:
    requests = {**asked("plain"), **asked("level", model="heavy"), **asked("base", model="chalk"), **asked("a", **MINT)}
    assert set(named(requests, styles)) == {"base", "a"}


def test_a_result_says_the_components_that_were_asked(styles: Variant) -> None:
    right = check_names(asked(**MINT), ended(level="styles", components=SAID), styles)
    assert right == Checked(requests=1)
    assert right.broken() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"level": "styles", "components": ("base:poster",)},
        {"level": "styles", "components": ("base:poster", "adapter:mint@1")},
        {"level": "styles", "components": ("base:chalk", "adapter:mint@0.5")},
        {"level": "heavy", "components": ()},
    ],
)
def test_a_result_that_says_others_breaks_the_promise(styles: Variant, changes: dict[str, Any]) -> None:
    found = check_names(asked(**MINT), ended(**changes), styles)
    assert len(found.misnamed) == 1
    assert "asked for base:poster, adapter:mint@0.5 and says" in str(found.broken())


def test_a_request_that_failed_says_for_which_component(styles: Variant) -> None:
    told = "EngineFailed: adapter:mint cannot be loaded: s3://weights/adapter/mint has sha-256 ab; publish it again"
    assert check_names(asked(**MINT), ended(status=Status.FAILED, reason=told), styles).broken() is None
    owners = "EndedWorkers: job a ended 2 workers; requests equal to it are refused for an hour"
    assert check_names(asked(**MINT), ended(status=Status.FAILED, reason=owners), styles).broken() is None
    found = check_names(asked(**MINT), ended(status=Status.FAILED, reason="OSError: broken pipe"), styles)
    assert found.broken() == "1 requests failed and do not say for which component (one: OSError: broken pipe)"


def test_a_budget_that_was_exceeded_breaks_the_promise() -> None:
    found = Checked(tiers={"exceeded": ["w-1 held 7 bytes of 6 in device"]})
    assert found.broken() == "1 tiers held more than their budget (w-1 held 7 bytes of 6 in device)"


def png(level: int, size: int = 4) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (size, size), (level, 100, 100)).save(data, "PNG")
    return data.getvalue()


def test_images_are_held_against_those_of_the_shipped_weights() -> None:
    right = compare({"one": [png(10), png(20)]}, {"one": [png(10), png(20 + MAX_DIFFERENCE)]})
    assert (right.images, right.largest_difference, right.unlike) == (2, MAX_DIFFERENCE, ())
    wrong = compare({"one": [png(10)]}, {"one": [png(11 + MAX_DIFFERENCE)]})
    assert wrong.broken() == (
        f"1 images are not those of the shipped weights (image 0 of one differs by {MAX_DIFFERENCE + 1} of 255 from "
        "its weights')"
    )
    assert compare({"one": [png(10)]}, {"one": [png(10, 5)]}).largest_difference == 255


def test_nothing_is_generated_again_where_nothing_was_completed() -> None:
    assert checks.regenerate("tiny", "styles", [], {}) == {}


def test_a_process_that_cannot_generate_again_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CHILD", "tests.nowhere")
    with pytest.raises(PochadeError, match=r"tests.nowhere ended with status 1: .*No module named"):
        checks.regenerate("tiny", "styles", [a_request()], {})


def test_what_the_shipped_weights_make_is_told_from_what_others_would() -> None:
    plain, restyled = asked("plain", model="poster", steps=2), asked("restyled", **MINT, steps=2)
    requests = [replace(each, seed=7) for each in (*plain.values(), *restyled.values())]
    made = checks.regenerate("tiny", "styles", requests, {})
    assert [len(images) for images in made.values()] == [1, 1]
    assert compare({"plain": made["plain"]}, made).broken() is None
    assert "differs by" in str(compare({"plain": made["restyled"]}, made).broken())
