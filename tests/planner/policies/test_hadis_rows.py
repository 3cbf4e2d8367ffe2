"""HADIS: the rows and pairs it chooses from, under the traffic of late and in its ablations."""

from dataclasses import replace

import pytest

from planner.catalog.entries import DeferralPoint
from planner.catalog.measured import CascadeBands, Measured
from planner.catalog.model import Catalog, Pair
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import Observation
from planner.policies import PlanProposal
from planner.policies.hadis import DISCRIMINATOR_ONLY, RANDOM, ROUTER_ONLY, pairs, plan
from tests.builders import a_catalog, a_discriminator, a_variant
from tests.planner.policies.cascades import ROWS, a_table_catalog, counts, planned, quality, seen


def drafted(observation: Observation, catalog: Catalog | None = None, **parameters: float) -> PlanProposal:
    return planned(plan, observation, catalog or a_table_catalog(), **parameters)


def test_a_harder_mix_of_prompts_raises_what_heavy_is_charged_for() -> None:
    """HADIS 4.7: demand fixed, half of the prompts above the row's threshold instead of three tenths."""
    hard_mix = (0.05,) * 5 + (0.125,) * 2 + (0.5 / 3,) * 3
    row = (ROWS[2],)
    usual, hard = (drafted(seen(8, hardness=h), a_table_catalog(pair_rows=row)) for h in ((0.1,) * 10, hard_mix))
    assert usual.expected
    assert hard.expected
    assert usual.expected.heavy_share == pytest.approx(0.3)
    assert hard.expected.heavy_share == pytest.approx(0.5)
    assert hard.routes == usual.routes
    assert counts(hard)[1] > counts(usual)[1]


def test_the_deferral_seen_of_late_replaces_the_row_s_where_it_may_learn() -> None:
    """As published its table is the sole input."""
    twice = tuple(DeferralPoint(t / 10, min(1.0, t / 5)) for t in range(11))
    late = (ObservedDeferral("light", "look", (0.0, 1.0), (twice,), images=1000),)
    row = (ROWS[1],)
    draft, published = (drafted(seen(8, deferral=late), a_table_catalog(pair_rows=row), learns=n) for n in (1, 0))
    assert draft.expected
    assert draft.expected.heavy_share == pytest.approx(1.0)
    assert published.expected
    assert published.expected.heavy_share == pytest.approx(0.5)


def test_a_row_s_own_thresholds_count_before_its_shares() -> None:
    row = ROWS[3]._replace(hardness=0.6, threshold=0.4)
    draft = drafted(seen(8), a_table_catalog(pair_rows=(row,)))
    assert draft.routes[1].hardness_from == 0.6
    assert draft.cascades[0].threshold == 0.4


def test_the_deferral_seen_counts_for_the_prompts_that_are_drafts_alone() -> None:
    """Of the easy half a tenth is deferred, of the other nine tenths, of which the row sends none to light."""
    easy, hard = ((DeferralPoint(0.5, f), DeferralPoint(1.0, 1.0)) for f in (0.1, 0.9))
    bands = CascadeBands((0.0, 0.5, 1.0), ((0.0, 0.1, 1.0), (0.0, 0.9, 1.0)))
    key = Pair("light", "heavy", "look").key
    measured = Measured(bounds=(0.0, 0.5, 1.0), quality={}, cascades={key: bands})
    row = (ROWS[3]._replace(hardness=0.5, threshold=0.5),)
    late = (ObservedDeferral("light", "look", (0.0, 0.5, 1.0), (easy, hard), images=1000),)
    drafted_ = drafted(seen(8, deferral=late), a_table_catalog(pair_rows=row, measured=measured), learns=1)
    assert drafted_.expected
    assert drafted_.expected.heavy_share == pytest.approx(0.3 + 0.7 * 0.1)
    harder = (row[0]._replace(hardness=0.75),)  # a third of the drafts is of the hard half
    mixed = drafted(seen(8, deferral=late), a_table_catalog(pair_rows=harder, measured=measured), learns=1)
    assert mixed.expected
    assert mixed.expected.heavy_share == pytest.approx(0.3 + 0.7 * (2 * 0.1 + 0.9) / 3)


def test_a_harder_mix_lowers_the_quality_of_a_row_that_is_known_by_band() -> None:
    measured = Measured(bounds=(0.0, 0.5, 1.0), quality={})
    row = (ROWS[0]._replace(quality_by_band=(0.9, 0.7)),)
    catalog = a_table_catalog(pair_rows=row, measured=measured)
    assert quality(drafted(seen(8), catalog)) == pytest.approx(0.8)
    assert quality(drafted(seen(8, hardness=(0.0,) * 5 + (0.2,) * 5), catalog)) == pytest.approx(0.7)
    unknown = (row[0]._replace(quality_by_band=(0.9, None)),)
    assert quality(drafted(seen(8), a_table_catalog(pair_rows=unknown, measured=measured))) == 0.8


def test_a_row_from_a_later_step_costs_less_of_heavy_and_is_planned_so() -> None:
    """A row without a step is from the pair's own, a blank here."""
    blank, over = ROWS[3], ROWS[3]._replace(quality=0.94, refine_from_step=20)
    catalog = a_table_catalog(pair_rows=(blank, over))
    assert [pair.refine_from_step for pair in pairs(catalog)] == [0, 20]
    idle, busy = drafted(seen(8, 10.0), catalog), drafted(seen(8, 150.0), catalog)
    assert (idle.cascades[0].refine_from_step, quality(idle)) == (0, 0.95)
    assert (busy.cascades[0].refine_from_step, quality(busy)) == (20, 0.94)
    assert counts(busy)[1] == 6  # .3 in full and .35 of which a fifth: .37 of 150/s at 10/s a worker


def test_without_a_table_it_is_swept_from_what_was_measured_by_band() -> None:
    """Light is as good as heavy on the easy half and useless on the other: the hard half goes straight to heavy."""
    bands = CascadeBands((0.0, 0.5, 1.0), ((0.0, 0.1, 1.0), (0.0, 0.5, 1.0)))
    measured = Measured(
        bounds=(0.0, 0.5, 1.0),
        quality={"light": (1.0, 0.2), "heavy": (1.0, 1.0)},
        cascades={Pair("light", "heavy", "look").key: bands},
    )
    draft = drafted(seen(8, 60.0), a_catalog(measured=measured))
    assert [route.levels for route in draft.routes] == [{"light": 1.0}, {"heavy": 1.0}]
    assert draft.routes[0].hardness_to == 0.5
    assert quality(draft) == pytest.approx(1.0)
    assert draft.cascades[0].threshold == 0


def test_without_any_quality_more_of_heavy_is_better() -> None:
    plain = a_catalog()
    unknown = replace(plain, variants={n: replace(v, quality=None) for n, v in plain.variants.items()})
    idle, busy = (drafted(seen(4, demand), unknown) for demand in (1.0, 50.0))
    assert idle.expected
    assert busy.expected
    assert idle.expected.quality is None
    assert idle.expected.heavy_share == 1 > busy.expected.heavy_share > 0


def test_the_router_alone_generates_nothing_again_and_the_discriminator_alone_routes_nothing() -> None:
    router = drafted(seen(8, demand_rps=1.0), signals=ROUTER_ONLY)
    discriminator = drafted(seen(8, demand_rps=1.0), signals=DISCRIMINATOR_ONLY)
    assert router.cascades[0].threshold == 0
    assert quality(router) == 0.93
    assert [route.levels for route in discriminator.routes] == [{"light": 1.0}]
    assert quality(discriminator) == 0.86


def test_at_random_heavy_s_share_is_drawn_and_its_quality_that_of_a_random_split() -> None:
    draft = drafted(seen(8, demand_rps=1.0), signals=RANDOM)
    assert draft.routes[0].levels == {"heavy": 1.0}
    busy = drafted(seen(8, 100.0), signals=RANDOM)
    assert busy.cascades == ()
    assert busy.routes[0].levels["heavy"] == pytest.approx(0.65)
    assert quality(busy) == pytest.approx(0.8 + 0.65 * 0.2)


def test_pairs_of_a_pruned_model_are_left_out_and_one_stays_always() -> None:
    worse = a_variant(name="worse", latency_ms={1: 300.0}, quality=0.9)
    offered = (Pair("light", "worse", "look"), Pair("light", "heavy", "look"))
    variants = a_catalog().variants | {"worse": worse}
    assert pairs(a_catalog(variants=variants, cascades=offered)) == [offered[1]]
    assert pairs(a_catalog(variants=variants, cascades=offered[:1])) == [offered[0]]


def test_a_pair_without_a_row_in_the_table_is_left_out() -> None:
    offered = (Pair("light", "heavy", "other"), Pair("heavy", "light", "look"))
    discriminators = {"look": a_discriminator(), "other": a_discriminator(name="other")}
    assert pairs(a_table_catalog(cascades=offered, discriminators=discriminators)) == [offered[0]]
