"""What a plan's cascades mean for a request."""

from typing import Any

import pytest

from planner.serving.routing.cascades import cascade_of, judged_ms
from schemas.messages import GenerateOptions
from tests.builders import a_cascade, a_catalog, a_classified, a_discriminator, a_plan, a_request


def test_a_cascade_holds_for_images_of_its_level_alone() -> None:
    assert cascade_of(a_plan(), "heavy") is None
    assert cascade_of(a_plan(), "light") == a_cascade()


@pytest.mark.parametrize(
    ("level", "asked", "expected_ms"),
    [
        ("light", {}, 30),
        ("light", {"options": GenerateOptions(n=3)}, 90),
        ("heavy", {}, 0),  # no cascade holds for it
        ("light", {"quality": "low"}, 0),  # kept whatever its confidence
        ("light", {"options": GenerateOptions(model="light")}, 0),
    ],
)
def test_judging_takes_time_for_each_picture_that_the_plan_judges(
    level: str, asked: dict[str, Any], expected_ms: float
) -> None:
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=30.0)})
    assert judged_ms(a_plan(), a_classified(a_request(**asked)), level, catalog) == expected_ms
