"""A bench runs from beginning to end and prints its figures; what they are is not judged here.

Those of overhead, of the ledger, of a killed router and of a storm of retries: `make nightly PART=benches`.
"""

import pathlib

import pytest

from tests.integration.benches import reported, there

__all__ = ["there"]

pytestmark = pytest.mark.broker


def test_a_worker_is_reported_beside_a_bare_loop(there: tuple[pathlib.Path, list[str]]) -> None:
    light = reported(*there, "worker", "--light", "4", "--heavy", "0", "--repeats", "1")["variants"]["light"]
    assert light["worker_per_s"]["median"] > 0
    assert light["baseline_per_s"]["repeats"] == 2
