"""Made requests for combinations of components that seldom come again."""

import numpy as np
import pytest

from planner.catalog.components import Component
from replay.bench.traces.combinations import combined
from replay.bench.traces.made import sparse
from replay.traces import Trace
from replay.traces.rates import EVEN
from replay.traces.trace import of_arrivals
from streams.catalogs import measured


def made(count: int, seed: int = 1) -> Trace:
    return combined(of_arrivals(np.arange(count, dtype=np.float64), "made", "made"), seed)


def test_a_made_request_depends_on_seed_and_number_alone() -> None:
    one, other = [wish.options for wish in made(500).wishes], [wish.options for wish in made(500, seed=2).wishes]
    again = made(500)
    assert one == [wish.options for wish in again.wishes]
    assert one != other
    longer = made(700)
    assert [longer.row(n).wish for n in range(500)] == [again.row(n).wish for n in range(500)]


def test_a_user_who_asks_again_asks_for_the_same_within_twenty_requests() -> None:
    trace = made(3000)
    seen: dict[str, int] = {}
    gaps, same = [], []
    for number, row in enumerate(trace.rows()):
        if row.wish.tenant in seen:
            gaps.append(number - seen[row.wish.tenant])
            same.append(trace.row(seen[row.wish.tenant]).wish == row.wish)
        seen[row.wish.tenant] = number
    assert all(same)
    assert max(gaps) <= 20
    assert len(gaps) == pytest.approx(300, abs=60)


def test_the_catalog_of_the_public_trace_knows_every_component_that_is_made() -> None:
    trace = sparse(100, seed=1, rate_rps=2, spacing=EVEN)
    variant = measured("genai2026").level("image")
    known = {each.name for each in variant.components if isinstance(each, Component)}
    asked = {
        name
        for row in trace.rows()
        for name in (row.wish.options.model, *row.wish.options.adapters, *row.wish.options.controls)
    }
    assert asked <= known
    assert len(asked) > 20
    assert len(trace) == 200
