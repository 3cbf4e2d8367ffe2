"""What policies of a report cost, and what each saves."""

from typing import Any

import pytest

from replay.reports.cost import savings


def a_report(seeds: int = 2, **policies: tuple[float | None, float, float]) -> dict[str, Any]:
    """A report; of each policy: an image's price, quality and share of violations, the same for all seeds."""
    rows = {
        name.replace("_", "-"): {
            "cost": 12.5, "cost_per_image": price,
            "by_seed": {"quality": [quality] * seeds, "violation_rate": [violations] * seeds}
            | ({} if price is None else {"cost_per_image": [price] * seeds}),
        }
        for name, (price, quality, violations) in policies.items()
    }  # fmt: skip
    return {"setup": {"seeds": seeds, "first_seed": 0}, "policies": rows}


def test_a_policy_says_what_it_saves_against_heavy_alone_and_what_that_costs_in_quality() -> None:
    ours, theirs = savings(a_report(joint=(0.0069, 0.900, 0.01), clipper_heavy=(0.01, 0.904, 0.03)))
    assert ours == (
        "joint: costs 12.50, 0.00690 an image, in the currency of a worker's price; "
        "saves 31 % [31, 31] an image against heavy alone (clipper-heavy), "
        "quality -0.0040 [-0.0040, -0.0040], violation rate -2.00 points [-2.00 %, -2.00 %]"
    )
    assert theirs == "clipper-heavy: costs 12.50, 0.0100 an image, in the currency of a worker's price"


def test_the_interval_of_what_a_policy_costs_more_has_the_sign_of_its_mean() -> None:
    report = a_report(joint=(0.015, 0.9, 0.0), clipper_heavy=(0.01, 0.9, 0.0))
    report["policies"]["joint"]["by_seed"]["cost_per_image"] = [0.0149, 0.0151]
    assert "costs more by 50 % [37, 63] an image" in savings(report)[0]


def test_a_policy_that_costs_more_is_not_said_to_save_and_one_seed_has_no_interval() -> None:
    ours, _ = savings(a_report(1, joint=(0.015, 0.9, 0.0), random_split=(0.01, 0.8, 0.0)))
    assert "costs more by 50 % an image against a split by chance (random-split), quality +0.1000, " in ours


@pytest.mark.parametrize("price", [None, 0.0])
def test_without_a_price_of_the_baseline_nothing_is_compared(price: float | None) -> None:
    said = savings(a_report(joint=(0.01, 0.9, 0.0), clipper_heavy=(price, 0.9, 0.0)))
    assert said[0] == "joint: costs 12.50, 0.0100 an image, in the currency of a worker's price"
    assert savings(a_report(joint=(None, 0.9, 0.0))) == [], "no image, or no price"
