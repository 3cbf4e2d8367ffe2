"""DiffServe: its published allocator's figures, and what its plan rests on."""

import pytest

from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Catalog, Pair
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import Observation, Queue
from planner.policies import PlanProposal
from planner.policies.diffserve import plan
from streams import catalogs
from tests.builders import a_catalog, a_discriminator, a_worker
from tests.planner.policies.cascades import a_fine_catalog, counts, planned, seen


def drafted(observation: Observation, catalog: Catalog | None = None, **parameters: float) -> PlanProposal:
    return planned(plan, observation, catalog or a_fine_catalog(), **parameters)


@pytest.mark.parametrize(
    ("demand_rps", "workers", "batches", "threshold"),
    [(24, (2, 14), (16, 4), 0.23), (32, (2, 14), (16, 4), 0.115), (40, (2, 14), (16, 4), 0.055)],
)
def test_the_published_allocator_s_plans_come_out(
    demand_rps: float, workers: tuple[int, int], batches: tuple[int, int], threshold: float
) -> None:
    """Published: SOURCES.md 5, run with its own 201-point f(t); 16 serving workers, SLO 5 s, empty queues.

    No difference: f(t) here is re-derived from its confidences, and its optimum leaves the light batch open (2, 4, 8
    and 16 do with two workers), of which ours takes the one with the most to spare.
    """
    catalog = catalogs.load("diffserve-sdturbo")
    draft = drafted(seen(16, demand_rps, slo_ms=5000.0), catalog)
    assert draft.cascades[0].threshold == pytest.approx(threshold)
    assert counts(draft) == workers
    assert (draft.batch["sd-turbo"], draft.batch["sd15"]) == batches


@pytest.mark.parametrize(("demand_rps", "published"), [(4, 0.265), (16, 0.015), (32, 0.0)])
def test_the_published_thresholds_of_the_third_cascade_come_out(demand_rps: float, published: float) -> None:
    """Published: SOURCES.md 5, SDXL-Lightning and SDXL, SLO 15 s."""
    draft = drafted(seen(16, demand_rps, slo_ms=15_000.0), catalogs.load("diffserve-sdxlltn"))
    assert draft.cascades[0].threshold == pytest.approx(published)


def test_the_threshold_falls_as_the_demand_rises() -> None:
    thresholds = [drafted(seen(demand_rps=float(d))).cascades[0].threshold for d in range(0, 120, 5)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] == 1
    assert thresholds[-1] < 0.2


def test_only_thresholds_with_support_are_chosen() -> None:
    """Measured from .6 to .7: between 0 and .6 and between .7 and 1 nobody knows f."""
    points = tuple(DeferralPoint(t, f) for t, f in ((0.6, 0.2), (0.7, 0.5)))
    few = a_catalog(discriminators={"look": a_discriminator(deferral=points)})
    chosen = {drafted(seen(demand_rps=d * 1.7), few).cascades[0].threshold for d in range(1, 90, 3)}
    assert chosen == {0, 0.6, 0.65, 0.7, 1}


def test_a_threshold_between_two_measured_ones_is_said_to_be() -> None:
    points = tuple(DeferralPoint(t, f) for t, f in ((0.6, 0.2), (0.7, 0.5)))
    few = a_catalog(discriminators={"look": a_discriminator(deferral=points)})
    assert "a threshold of 0.65 lies between measured ones" in drafted(seen(demand_rps=80.0), few).reason
    assert "between measured ones" not in drafted(seen(demand_rps=80.0)).reason


def test_the_over_provisioning_is_planned_for_but_not_expected() -> None:
    plain, careful = drafted(seen()), drafted(seen(), overprovision=1.4)
    assert careful.cascades[0].threshold < plain.cascades[0].threshold
    assert careful.expected
    assert careful.expected.demand_rps == 30
    assert careful.expected.utilization <= 1 / 1.4 + 1e-9


def test_the_forecast_is_planned_for_where_there_is_one() -> None:
    assert drafted(seen(demand_rps=1.0, forecast_rps=30.0)) == drafted(seen(demand_rps=30.0))


def test_a_queue_takes_time_by_little_s_law_in_seconds() -> None:
    """40 jobs that 8/s join wait 5 s: of an SLO of 5.1 s nothing is left for heavy, of 6 s enough."""
    queues = (Queue("light", waiting=40, arriving_rps=8),)
    tight, enough = (drafted(seen(slo_ms=slo_ms, queues=queues)) for slo_ms in (5100.0, 6000.0))
    assert tight.cascades[0].threshold == 0
    assert enough.cascades[0].threshold > 0


def test_time_between_the_levels_counts() -> None:
    assert drafted(seen(slo_ms=450.0)).batch["heavy"] == 4
    assert drafted(seen(slo_ms=450.0, hop_ms=40.0)).batch["heavy"] == 2


def test_a_fleet_that_is_right_stays_where_it_is() -> None:
    workers = tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(["heavy", "heavy", "light", "heavy"]))
    draft = drafted(seen(workers=workers, demand_rps=1.0))
    assert draft.allocation == {w.worker_id: w.variant for w in workers}


def test_the_reason_names_what_binds_and_what_more_would_give() -> None:
    workers_bind = drafted(seen(4, 60.0)).reason
    assert "one more worker would allow a threshold of 0.65 (light is 66% busy, heavy 100%)" in workers_bind
    assert "SLO" not in workers_bind
    assert "without the SLO of 0.25 s there would be a threshold of 0.5" in drafted(seen(4, 60.0, slo_ms=250.0)).reason
    assert drafted(seen(4, 1.0)).reason.endswith("no limit is reached")


def test_the_deferral_seen_of_late_replaces_the_catalog_s() -> None:
    twice = tuple(DeferralPoint(t / 10, min(1.0, t / 5)) for t in range(11))
    late = (ObservedDeferral("light", "look", (0.0, 1.0), (twice,), images=1000),)
    assert drafted(seen(4, 60.0)).cascades[0].threshold == pytest.approx(0.5)
    assert drafted(seen(4, 60.0, deferral=late)).cascades[0].threshold == pytest.approx(0.25)


def test_refining_leaves_room_for_a_higher_threshold() -> None:
    catalog = a_fine_catalog(cascades=(Pair("light", "heavy", "look", 20),))
    over = drafted(seen(4, 60.0), catalog)
    assert over.cascades[0].refine_from_step == 20
    assert over.cascades[0].threshold == 1
    assert drafted(seen(4, 60.0), catalog, paint_over_step=0).cascades[0].threshold == pytest.approx(0.5)


def test_f_of_t_is_that_of_what_was_served_unless_it_is_told_not_to_learn() -> None:
    """Source: DiffServe 3.3, "updated during model serving"."""
    curve = tuple(DeferralPoint(t / 10, min(1.0, t / 5)) for t in range(11))  # twice what the profile has
    late = (ObservedDeferral("light", "look", (0.0, 1.0), (curve,), images=1000),)
    profiled = drafted(seen(8, demand_rps=120.0))
    learned, ignored = (drafted(seen(8, demand_rps=120.0, deferral=late), learns=n) for n in (1, 0))
    assert ignored == profiled
    assert learned.cascades[0].threshold < profiled.cascades[0].threshold
