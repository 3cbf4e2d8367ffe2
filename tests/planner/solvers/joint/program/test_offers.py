import dataclasses

import numpy as np
import pytest

from planner.catalog.entries import DeferralPoint
from planner.catalog.measured import CascadeBands, Measured
from planner.catalog.model import Catalog
from planner.control.proposal import validate_parameters
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import joint
from planner.solvers.joint.program.build import problem_of
from planner.solvers.joint.program.offers import WIDE, offers_of
from streams.parsing.catalog import parse
from tests.paths import CATALOGS

SEEN = Observation(now_ms=0, demand_rps=4.0, slo_ms=4000, workers=(WorkerView("w", "heavy", "ready", 0, 0.0),))


def shipped(name: str) -> Catalog:
    return parse((CATALOGS / f"{name}.toml").read_text(), name)


def in_bands() -> Catalog:
    """`tiny` with two hardness bands and one cascade measured at two steps."""
    tiny = shipped("tiny")
    cascade = CascadeBands(
        thresholds=(0.0, 0.5, 0.9, 1.0),
        deferred=((0.0, 0.1, 0.1001, 1.0), (0.0, 0.4, 0.4001, 1.0)),
        kept=((0.9, 0.95, 0.96, 0.96), (0.6, 0.8, 0.8, 0.8)),
        again={
            0: ((0.99,) * 4, (0.9,) * 4),
            1: ((0.99,) * 4, (0.88,) * 4),
            3: ((0.99,) * 4, (0.8,) * 4),
        },
    )
    quality: dict[str, tuple[float | None, ...]] = {"light": (0.9, 0.6), "middle": (0.92, 0.7), "heavy": (0.99, 0.9)}
    return dataclasses.replace(
        tiny,
        cascades=tiny.cascades[:1],
        measured=Measured(bounds=(0.0, 0.5, 1.0), quality=quality, cascades={tiny.cascades[0].key: cascade}),
    )


def test_every_level_is_offered_for_itself_with_its_quality_by_band() -> None:
    found = offers_of(in_bands(), SEEN, 0.0)
    plain = {
        found.levels[g.level]: found.offers[at].quality.tolist() for g, at in found.gates.items() if g.next_level < 0
    }
    assert plain == {"light": [0.9, 0.6], "middle": [0.92, 0.7], "heavy": [0.99, 0.9]}


def test_a_cascade_is_offered_at_each_measured_step_and_at_thresholds_that_differ() -> None:
    found = offers_of(in_bands(), SEEN, 0.0)
    judged = {(g.refine_from_step, g.threshold): found.offers[at] for g, at in found.gates.items() if g.next_level >= 0}
    steps = sorted({0, 1, 3, in_bands().cascades[0].refine_from_step})
    assert sorted(judged) == [(step, 0.5) for step in steps], "0.9 defers as much, 1 keeps nothing"
    heavy, left = found.levels.index("heavy"), 1 - 3 / in_bands().level("heavy").steps
    assert judged[0, 0.5].images[heavy].tolist() == pytest.approx([0.1, 0.4])
    assert judged[3, 0.5].images[heavy].tolist() == pytest.approx([0.1 * left, 0.4 * left])
    assert judged[1, 0.5].quality.tolist() == pytest.approx([0.9 * 0.95 + 0.1 * 0.99, 0.6 * 0.8 + 0.4 * 0.88])


def test_a_curve_is_offered_between_thresholds_that_defer_far_apart() -> None:
    """DiffServe's f jumps from 0 to .14 at .005; nothing is made up between measured bands (the test above)."""
    found = offers_of(shipped("diffserve-sdturbo"), SEEN, 0.0)
    heavy = found.levels.index("sd15")
    judged = [(g.threshold, found.offers[at]) for g, at in found.gates.items() if g.next_level >= 0]
    deferred = [float(offer.images[heavy][0]) for _, offer in sorted(judged, key=lambda pair: pair[0])]
    assert max(np.diff([0.0, *deferred])) <= WIDE + 1e-9
    threshold, first = min(judged, key=lambda pair: pair[0] or 1.0)
    assert threshold == pytest.approx(0.005 / 3)
    assert first.images[heavy].tolist() == pytest.approx([0.1426 / 3])
    assert first.quality.tolist() == pytest.approx([-22.77 + (22.77 - 19.55) / 3], abs=0.5)


def test_only_who_has_a_draft_may_be_promised_less_than_an_answer_in_time() -> None:
    problem = problem_of(
        SEEN, shipped("diffserve-sdturbo"), validate_parameters({"percentile": 0.99}, joint.PARAMETERS)
    )
    light, heavy = problem.modes
    assert not any(mode.has_draft for mode in light), "nothing is painted again there"
    again = [mode for mode in heavy if mode.has_draft]
    assert again
    assert all(mode.first_s == np.inf for mode in again)
    assert max(line.slope for mode in again for line in mode.lines) > max(
        line.slope for mode in heavy if not mode.has_draft for line in mode.lines if line.most == 1
    )


def test_the_deferral_that_was_seen_counts() -> None:
    curve = (DeferralPoint(0.0, 0.0), DeferralPoint(0.5, 0.8), DeferralPoint(1.0, 1.0))
    seen = dataclasses.replace(SEEN, deferral=(ObservedDeferral("light", "look", (0.0, 1.0), (curve,), 500, 0),))
    found = offers_of(in_bands(), seen, 0.0)
    heavy = found.levels.index("heavy")
    at_half = next(at for g, at in found.gates.items() if (g.refine_from_step, g.threshold) == (0, 0.5))
    assert found.offers[at_half].images[heavy].tolist() == pytest.approx([0.8, 0.8])


def test_measured_rows_send_hard_prompts_straight_and_charge_light_for_the_rest_alone() -> None:
    found = offers_of(shipped("hadis-l40s"), SEEN, 0.0)
    turbo, medium = found.levels.index("sd35-turbo"), found.levels.index("sd35-medium")
    rows = [o for o in found.offers if o.option.straight_to == medium and turbo in o.images]
    row = next(o for o in rows if o.option.hardness == pytest.approx(0.6) and o.quality[0] == -21.6)  # r = .4, d = .1
    assert row.images[turbo].tolist() == pytest.approx([0.6])
    assert row.images[medium].tolist() == pytest.approx([0.4 + 0.6 * 0.1])


def test_a_level_that_nobody_judged_counts_as_the_worst_known() -> None:
    tiny = shipped("tiny")
    unknown = {name: dataclasses.replace(v, quality=None) for name, v in tiny.variants.items()}
    one = dataclasses.replace(tiny, variants=unknown | {"heavy": tiny.variants["heavy"]}, cascades=())
    assert [o.quality[0] for o in offers_of(one, SEEN, 0.0).offers] == [tiny.variants["heavy"].quality] * 3


def test_the_promises_of_a_cascade_fit_the_slo_together() -> None:
    problem = problem_of(dataclasses.replace(SEEN, hop_ms=100.0), in_bands(), validate_parameters({}, joint.PARAMETERS))
    light, _, heavy = ([mode.sojourn_s for mode in modes] for modes in problem.modes)
    judged = next(gate for gate in problem.gates if gate.next_level >= 0)
    left_s = problem.slo_s - judged.extra_s
    judging_s = in_bands().discriminator(judged.discriminator).judging_ms / 1000
    assert left_s == pytest.approx(4.0 - 2 * 0.1 - judging_s)
    assert any(a + b == pytest.approx(left_s) for a in light for b in heavy)
    assert problem.before == (0, 0, 1)
    assert np.isclose(problem.shares.sum(), 1)
