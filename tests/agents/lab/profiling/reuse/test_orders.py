"""Which requests are begun from stored latents: all of the first, and of the others those that reuse may begin."""

import numpy as np
import pytest

from agents.lab.profiling.reuse import orders
from agents.lab.profiling.reuse.orders import Images
from agents.profiling.seeded_prompts import SeededPrompts
from planner.reuse.terms import Difference, GuardShares
from tests.agents.lab.profiling.reuse.seen import EQUAL, an_observed, differing
from tests.builders import a_catalog

COLOUR, COUNT = differing(Difference.COLOUR), differing(Difference.COUNT)


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> Images:
    """Six requests whose first two are measured in detail."""
    monkeypatch.setattr(orders, "DETAILED", 2)
    near = an_observed([0.9] * 5, lambda _k, at: at > 0, [COLOUR, COLOUR, EQUAL, COUNT, COLOUR]).neighbours
    return Images(
        variant=a_catalog().level("heavy"),
        asked=SeededPrompts(prompts=("a",) * 6, seeds=tuple(range(6)), captions=("a",) * 6),
        vectors=np.eye(6), neighbours=near, seed=1,
    )  # fmt: skip


def test_after_the_first_requests_only_those_that_the_guard_passes_begin_at_every_step(images: Images) -> None:
    assert images.nearest_rows.tolist() == [1, 3], "request 1 is one of the first, request 3 states equal facts"
    assert images.unrelated_rows.tolist() == [1]
    assert images.fewer_rows.tolist() == [3]


def test_what_the_limits_allow_is_begun_up_to_them_and_no_further(images: Images) -> None:
    steps = images.variant.steps
    second = images.steps[1]
    rows = images.allowed_rows(GuardShares(equal=0.0, differs={Difference.COLOUR: second / steps}))
    assert {step: some.tolist() for step, some in rows.items()} == {step: [2, 5] for step in images.steps[:2]}
    assert images.allowed_rows(GuardShares(equal=0.0)) == {}
