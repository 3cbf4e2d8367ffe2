"""How numbers are written in reasons."""

import functools
import math
import re

import pytest

from planner.catalog.model import Catalog
from planner.control.wording.format import counted, number, rate
from planner.observation.observation import Observation
from planner.policies import POLICIES, named
from streams import catalogs
from tests.builders import NOW_MS, a_worker


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (0, "0"),
        (0.115, "0.115"),
        (0.00001234, "0.0000123"),
        (24.0, "24"),
        (10.54, "10.5"),
        (999.4, "999"),
        (999.7, "1000"),
        (1040.2, "1,040"),
        (1e6, "1,000,000"),
        (-16.85, "-16.9"),
        (math.inf, "inf"),
    ],
)
def test_a_number_is_reported_without_an_exponent(value: float, reported: str) -> None:
    assert number(value) == reported


def test_rates_and_counts_read_as_people_say_them() -> None:
    assert rate(1234.5) == "1,234/s"
    assert [counted(count, "job") for count in (0, 1, 2, 1000)] == ["0 jobs", "1 job", "2 jobs", "1,000 jobs"]


@functools.cache
def tiny() -> Catalog:
    return catalogs.measured("tiny")


@pytest.mark.parametrize("policy", sorted(POLICIES.keys()))
def test_no_policy_s_reason_has_an_exponent_or_one_of_many(policy: str) -> None:
    for workers, demand_rps in ((1, 0.0), (3, 5.0), (1, 4321.0)):
        fleet = tuple(a_worker(f"w{at}") for at in range(workers))
        seen = Observation(now_ms=NOW_MS, demand_rps=demand_rps, workers=fleet, slo_ms=5000.0)
        reason = named(policy)(seen, tiny(), {}, {}).reason
        assert not re.search(r"\de[+-]?\d|\b1 \w+s\b", reason), reason
