"""What is true may differ from the catalog that policies plan with."""

import dataclasses

import numpy as np
import pytest

from planner.catalog.bands import cascade_table
from planner.catalog.quality import cascade_quality
from planner.serving.dispatch.worker import WorkerLogic
from replay.bench.truth import Truth
from replay.simulation.asked import check_fits
from replay.simulation.draws.classes import classes_at
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.results.figures import figures_of
from replay.simulation.setup import Setup
from schemas.errors import PochadeError, Unknown
from streams.catalogs import load, measured
from tests.replay.simulation.runs import arrivals, ran

DIFFSERVE, HADIS, TINY = load("diffserve-sdturbo"), load("hadis-l40s"), measured("tiny")
TRACE = arrivals(12.0, 1500)


def a_setup(*aspects: str, policy: str = "diffserve", **changes: object) -> Setup:
    setup = Setup(catalog=DIFFSERVE, policy=policy, workers=16, slo_ms=5000.0, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(setup, truth=Truth.parse(aspects).of(DIFFSERVE))


def test_without_aspects_the_truth_is_the_catalog_and_changes_nothing() -> None:
    assert Truth.parse([]).of(DIFFSERVE) is DIFFSERVE
    plain = figures_of(ran(dataclasses.replace(a_setup(), truth=None), TRACE))
    assert figures_of(ran(a_setup(), TRACE)) == plain


def test_calls_take_their_true_time_while_plans_and_the_seed_stay() -> None:
    plain, slower = (
        ran(a_setup(policy="clipper-light"), TRACE),
        ran(a_setup("time.sd-turbo=3", policy="clipper-light"), TRACE),
    )
    assert slower.busy_ms == pytest.approx(3 * plain.busy_ms, rel=0.35)  # batches differ, as queues are longer
    assert slower.busy_ms > 1.5 * plain.busy_ms
    assert slower.plans[0].batch == plain.plans[0].batch


def test_a_slower_heavy_than_profiled_costs_deadlines() -> None:
    plain, slower = figures_of(ran(a_setup(), TRACE)), figures_of(ran(a_setup("time.sd15=1.4"), TRACE))
    assert slower["violation_rate"] > plain["violation_rate"] + 0.01


def test_workers_learn_that_heavy_is_slower_than_profiled_and_end_fewer_requests_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup, busy = a_setup("time.sd15=1.2", learns=False), arrivals(30.0, 2400)
    learned = figures_of(ran(setup, busy))
    monkeypatch.setattr(WorkerLogic, "on_generated", lambda *_: None)
    assert learned["violation_rate"] < 0.6 * figures_of(ran(setup, busy))["violation_rate"]


def test_answers_are_judged_by_the_true_curve_and_served_alike() -> None:
    busy = arrivals(24.0, 1500)  # half of the answers are light's
    plain, other = figures_of(ran(a_setup(), busy)), figures_of(ran(a_setup("choice=0.5"), busy))
    assert other["by_level"] == plain["by_level"]
    assert other["fid"] > plain["fid"] + 0.3


def test_a_monotone_truth_has_the_values_of_the_curve_in_rising_order() -> None:
    true = Truth.parse(["monotone=1"]).of(DIFFSERVE)
    qualities = [point.quality for point in true.curves[true.pair().key].judged]
    assert qualities == sorted(point.quality for point in DIFFSERVE.curves[DIFFSERVE.pair().key].judged)
    assert true.level("sd15").quality == qualities[-1]
    assert true.level("sd-turbo").quality == qualities[0]


def test_choice_draws_the_curve_to_the_mean_of_its_ends() -> None:
    true, pair = Truth.parse(["choice=0.8"]).of(DIFFSERVE), DIFFSERVE.pair()
    chord = (DIFFSERVE.level("sd-turbo").quality + DIFFSERVE.level("sd15").quality) / 2  # type: ignore[operator]
    gain, less = (cascade_quality(c, pair, 0.5) - chord for c in (DIFFSERVE, true))  # type: ignore[operator]
    assert less == pytest.approx(0.8 * gain, abs=0.02)  # the catalog's ends are a rounding off those of its curve


def test_choice_draws_what_a_profile_knows_of_kept_drafts_to_the_mean_too() -> None:
    key = next(iter(TINY.measured.cascades))  # type: ignore[union-attr]
    before, after = (c.measured.cascades[key].kept for c in (TINY, Truth.parse(["choice=0"]).of(TINY)))  # type: ignore[union-attr]
    assert before != after
    assert all(len({q for q in row if q is not None}) <= 1 for row in after), "a choice that gains nothing"


def test_lower_confidences_defer_more_images_at_the_same_threshold() -> None:
    for catalog in (DIFFSERVE, HADIS, TINY):
        pair, true = catalog.pair(), Truth.parse(["confidence=0.8"]).of(catalog)
        drawn = [
            np.array(SyntheticOutcomes(c, 1)(0, 4000).confidence(pair.light, pair.discriminator))
            for c in (catalog, true)
        ]
        apart = np.abs(drawn[1] - 0.8 * drawn[0]) > 1e-6
        assert apart.mean() <= (0.05 if catalog is TINY else 0), "but for what lies above the last measured threshold"
        assert cascade_table(true, pair).deferred[0][-1] == 1.0


def test_classes_have_their_true_shares() -> None:
    level, other = sorted(DIFFSERVE.classes("models"))
    true = Truth.parse([f"class.models.{level}=0.9", f"class.models.{other}=0.1"]).of(DIFFSERVE)
    drawn = classes_at(true, np.linspace(0, 0.999, 1000))
    assert np.mean([each["models"] == level for each in drawn]) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("aspect", "words"),
    [("time.sd99=2", "sd99"), ("time.sd15=0", "above 0"), ("choice", "ASPECT=NUMBER"), ("luck=1", "luck"),
     ("class.models.sd15=0.4", "sum to 1"), ("class.models.sd99=1", "sd99"), ("confidence=1.5", "at most 1"),
     ("choice=-1", "0 or more")],
)  # fmt: skip
def test_an_impossible_truth_is_refused_in_words(aspect: str, words: str) -> None:
    with pytest.raises((PochadeError, Unknown), match=words):
        Truth.parse([aspect]).of(DIFFSERVE)


def test_a_truth_given_twice_is_refused() -> None:
    with pytest.raises(PochadeError, match="twice"):
        Truth.parse(["choice=1", "choice=0.5"])


def test_a_true_catalog_must_have_all_that_plans_name() -> None:
    check_fits(DIFFSERVE, load("diffserve-sdturbo"))
    with pytest.raises(PochadeError, match="sd15"):
        check_fits(DIFFSERVE, HADIS)


def test_a_truth_is_written_as_it_was_read() -> None:
    words = ["choice=0.8", "time.sd15=1.2"]
    assert Truth.parse(words).words() == words
    assert Truth.parse(words).of(DIFFSERVE).name == "diffserve-sdturbo, but choice=0.8, time.sd15=1.2"
