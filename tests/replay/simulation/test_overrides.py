"""What requests ask for is simulated by the rules of the live roles."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.observation.components import ComponentLog, ObservedComponents
from planner.serving.admission.quotas import Quota
from replay.simulation.overrides import requested_overrides
from replay.simulation.run import Ran
from replay.simulation.session import simulate
from replay.simulation.setup import Setup
from replay.traces.trace import Overrides, Trace
from schemas.messages import GenerateOptions, Status
from tests.builders import a_catalog, a_discriminator, a_variant, sized_variant
from tests.replay.simulation.runs import a_setup, arrivals, asking

LATER = 60_000.0  # ms


def run_of(setup: Setup, trace: Trace) -> Ran:
    return simulate(setup, trace, 1, lambda _requests: None)[0]


def alone(wish: Overrides, slack_ms: float = np.nan, **changes: Any) -> Ran:
    """One request with this wish, with nothing before it."""
    return run_of(a_setup(**changes), asking(np.array([0.0]), [wish], slack_ms=slack_ms))


def latency_ms(run: Ran) -> float:
    mean = run.tally.latencies.mean()
    assert mean is not None
    return mean


def test_a_trace_without_wishes_has_none() -> None:
    assert requested_overrides(asking(arrivals(5, 10), [Overrides()]), a_catalog(), {"acme": Quota()}) is None
    assert requested_overrides(asking(arrivals(5, 10), [Overrides(tenant="acme")]), a_catalog(), {}) is None


@pytest.mark.parametrize(
    ("wish", "level"),
    [
        (Overrides(options=GenerateOptions(model="heavy")), "heavy"),
        (Overrides(options=GenerateOptions(model="light")), "light"),
        (Overrides(quality="high"), "heavy"),
        (Overrides(quality="low"), "light"),
    ],
)
def test_a_named_model_and_a_quality_decide_the_level(wish: Overrides, level: str) -> None:
    setup = a_setup(policy="diffserve-static", parameters={"threshold": 1.0}, slo_ms=60_000.0)
    assert run_of(setup, asking(arrivals(2, 20), [wish])).tally.levels == {level: 20}


def test_what_asked_for_low_is_neither_judged_nor_generated_again() -> None:
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=7.0)})
    changes: dict[str, Any] = {"catalog": catalog, "policy": "diffserve-static", "parameters": {"threshold": 0.0}}
    assert latency_ms(alone(Overrides(quality="low"), **changes)) == 20
    assert latency_ms(alone(Overrides(quality="medium"), **changes)) == 20 + 7


def steps_honoured() -> Catalog:
    heavy = a_variant(name="heavy", quality=0.9, latency_ms={1: 200.0}, steps=25, honours=("steps",))
    return a_catalog(variants={"light": a_variant(latency_ms={1: 20.0}, steps=10), "heavy": heavy})


def test_steps_and_images_take_the_time_they_take() -> None:
    asked = GenerateOptions(model="heavy", steps=10, n=3)
    run = alone(Overrides(options=asked), policy="clipper-heavy", catalog=steps_honoured())
    assert latency_ms(run) == 3 * 200 * 10 / 25
    assert run.busy_ms == 240


def test_every_image_of_a_request_is_judged() -> None:
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=7.0)})
    changes: dict[str, Any] = {"catalog": catalog, "policy": "diffserve-static", "parameters": {"threshold": 0.0}}
    assert (
        latency_ms(alone(Overrides(options=GenerateOptions(n=3)), **changes))
        == run_ms(catalog.level("light"), 3) + 3 * 7
    )


def test_refining_a_draft_skips_the_same_share_of_the_steps_that_were_asked_for() -> None:
    catalog = steps_honoured()
    parameters = {"threshold": 1.0, "paint_over_step": 15.0}
    changes: dict[str, Any] = {
        "catalog": catalog,
        "policy": "diffserve-static",
        "parameters": parameters,
        "slo_ms": LATER,
    }
    judged_ms = 2 * catalog.discriminators["look"].judging_ms
    own = latency_ms(alone(Overrides(), **changes))
    asked = latency_ms(alone(Overrides(options=GenerateOptions(steps=10)), **changes))
    assert own == pytest.approx(20 + 200 * 10 / 25 + judged_ms, abs=judged_ms)
    assert own - asked == pytest.approx(200 * 10 / 25 - 200 * 4 / 25)


def test_a_strict_request_is_rejected_where_its_level_does_otherwise() -> None:
    lax, strict = GenerateOptions(steps=9), GenerateOptions(steps=9, strict=True)
    assert alone(Overrides(options=lax)).tally.ends == {Status.COMPLETED: 1}
    assert alone(Overrides(options=strict)).tally.ends == {Status.REJECTED: 1}


def test_a_request_with_a_component_that_nothing_honours_is_rejected_strict_or_not() -> None:
    assert alone(Overrides(options=GenerateOptions(adapters=("lcm",)))).tally.ends == {Status.REJECTED: 1}
    assert alone(Overrides(options=GenerateOptions(model="sd9"))).tally.ends == {Status.REJECTED: 1}


def test_a_request_with_a_deadline_of_its_own_is_held_to_that() -> None:
    heavy: dict[str, Any] = {"policy": "clipper-heavy", "slo_ms": 100.0}  # which takes 200 ms
    assert alone(Overrides(options=GenerateOptions(model="heavy")), **heavy).tally.ends == {Status.EXPIRED: 1}
    in_time = alone(Overrides(options=GenerateOptions(model="heavy")), slack_ms=300.0, **heavy).tally
    assert in_time.ends == {Status.COMPLETED: 1}
    assert in_time.violations == 0
    tight = alone(
        Overrides(), slack_ms=10.0, policy="clipper-light", drops=False
    ).tally  # its own is one without drops too
    assert tight.ends == {Status.EXPIRED: 1}


def test_a_named_model_is_not_exchanged_for_a_cheaper_one_when_it_is_late() -> None:
    setup = a_setup(policy="random-split", parameters={"heavy_share": 0.5})
    levels = [
        run_of(setup, asking(arrivals(60, 600), [wish])).tally.levels.keys()
        for wish in (Overrides(), Overrides(options=GenerateOptions(model="heavy")))
    ]
    assert levels == [{"light", "heavy"}, {"heavy"}]


def test_wishes_of_every_kind_at_once_end_once_each() -> None:
    wishes = [
        Overrides(), Overrides(tier="interactive"), Overrides(tier="batch"), Overrides(quality="high"),
        Overrides(quality="low", tier="batch"),
        Overrides(options=GenerateOptions(n=2)),
        Overrides(options=GenerateOptions(model="light", steps=9), tier="interactive"),
    ]  # fmt: skip
    tally = run_of(a_setup(policy="diffserve-static", workers=6), asking(arrivals(20, 700), wishes)).tally
    assert tally.open == 0
    assert tally.ends.total() == 700
    assert sum(tier.requests for tier in tally.tiers.values()) == 700
    assert sum(tier.ended for tier in tally.tiers.values()) == 700
    assert sum(tier.violations for tier in tally.tiers.values()) == tally.violations


def test_the_simulated_planner_sees_which_components_requests_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[ObservedComponents | None] = []
    monkeypatch.setattr(ComponentLog, "observed", lambda *args: found.append(SEEN(*args)) or found[-1])
    styles = replace(sized_variant(name="light"), on_request=False)
    catalog = a_catalog(variants={"light": styles, "heavy": a_catalog().variants["heavy"]})
    wish = Overrides(options=GenerateOptions(adapters=("candy",)), tenant="ann")
    run_of(a_setup(catalog=catalog, policy="clipper-light"), asking(arrivals(2, 40), [wish]))
    assert found[-1] is not None
    assert round(found[-1].demand["light"].requests["adapter:candy"][0]) > 5
    assert found[-1].demand["light"].returning["adapter:candy"] > 0


SEEN = ComponentLog.observed
