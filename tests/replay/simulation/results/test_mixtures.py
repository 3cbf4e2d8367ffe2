"""What a mixture of answers is worth where quality is no mean over images."""

from collections import Counter

import numpy as np
import pytest

from planner.catalog.curves import CascadeCurves, SharePoint
from replay.simulation.results.figures import figures_of
from replay.simulation.results.mixtures import run_quality, spans_quality
from replay.simulation.results.run_metrics import AGAIN, KEPT, REJECTED, Answer
from streams.parsing.catalog import parse
from tests.builders import a_catalog
from tests.paths import CATALOGS
from tests.replay.simulation.runs import a_setup, ran

PAIR = ("light", "heavy", "look")
CURVES = CascadeCurves(judged=(SharePoint(0.0, 0.8), SharePoint(0.5, 0.97), SharePoint(1.0, 0.9)), random=())
HADIS = parse((CATALOGS / "hadis-l40s.toml").read_text(), "hadis-l40s")


def answers(light: int, straight: int = 0, again: int = 0, rejected: int = 0) -> Counter[Answer]:
    return Counter(
        {("light", KEPT): light, ("heavy", KEPT): straight, ("heavy", AGAIN): again, ("light", REJECTED): rejected}
    )


def test_a_judged_mixture_is_worth_what_its_curve_says_and_an_unjudged_one_the_mean() -> None:
    catalog = a_catalog(curves={a_catalog().cascades[0].key: CURVES})
    assert spans_quality([{PAIR: answers(60, again=60)}], catalog) == pytest.approx(0.97)
    assert spans_quality([{None: answers(60, straight=60)}], catalog) == pytest.approx(0.9)
    assert spans_quality([{PAIR: answers(60, again=60)}, {None: answers(1)}], catalog) == pytest.approx(
        (120 * 0.97 + 1 * 0.8) / 121
    ), "spans count by their answers"
    assert spans_quality([], catalog) is None


def test_a_run_tells_apart_what_went_straight_to_heavy_and_what_was_generated_again() -> None:
    setup = a_setup(catalog=HADIS, policy="hadis", workers=16, slo_ms=60_000, forecast="trend", hysteresis="always")
    tally = ran(setup, np.arange(0, 300_000, 400.0)).tally
    total = sum((counts for span in tally.spans for counts in span.values()), Counter[Answer]())
    heavies = [level for level, how in total if how == AGAIN]
    assert sum(total[level, AGAIN] for level in heavies) == tally.escalated > 50
    assert sum(total[level, KEPT] for level in heavies) > 50


def test_all_answers_of_a_run_are_judged_together_at_the_run_s_own_shares() -> None:
    catalog = a_catalog(curves={a_catalog().cascades[0].key: CURVES})
    spans = [{PAIR: answers(100)}, {PAIR: answers(0, again=100)}]
    assert spans_quality(spans, catalog) == pytest.approx((0.8 + 0.9) / 2)
    assert run_quality(spans, catalog) == pytest.approx(0.97), "half of all were generated again"
    assert run_quality([], catalog) is None


def test_a_coin_is_worth_between_the_mean_of_its_levels_and_the_discriminator_s_curve() -> None:
    catalog = a_catalog(curves={a_catalog().cascades[0].key: CURVES})
    blind = [{None: answers(60, straight=60)}]
    assert spans_quality(blind, catalog) == pytest.approx(0.85 + 0.05), "levels of .8 and 1 here"
    assert spans_quality(blind, catalog, is_optimistic=True) == pytest.approx(0.9 + 0.12), (
        "what the choice adds to its ends"
    )
    chosen = [{PAIR: answers(60, again=60)}]
    assert spans_quality(chosen, catalog, is_optimistic=True) == spans_quality(chosen, catalog)


def test_where_random_splits_were_published_a_coin_is_worth_that_one_value() -> None:
    blind = [{None: Counter({("sd35-turbo", KEPT): 50, ("sd35-large", KEPT): 50})}]
    assert spans_quality(blind, HADIS) == spans_quality(blind, HADIS, is_optimistic=True) == pytest.approx(-21.25)


def test_a_rejected_draft_that_is_kept_for_lack_of_time_is_no_choice() -> None:
    catalog = a_catalog(curves={a_catalog().cascades[0].key: CURVES})
    mixed = [{PAIR: answers(50, again=25, rejected=25)}]
    assert spans_quality(mixed, catalog) == pytest.approx((0.97 + 0.8) / 2), "half way from light alone to the choice"
    assert spans_quality(mixed, catalog, is_optimistic=True) == pytest.approx((0.8 + 0.97) / 2), (
        "a straight curve there"
    )
    curved = a_catalog(
        curves={
            a_catalog().cascades[0].key: CascadeCurves(
                judged=(*CURVES.judged[:1], SharePoint(0.25, 0.95), *CURVES.judged[1:])
            )
        }
    )
    assert spans_quality(mixed, curved) == pytest.approx(0.885)
    assert spans_quality(mixed, curved, is_optimistic=True) == pytest.approx(0.95)
    assert spans_quality([{PAIR: answers(50, rejected=50)}], curved) == pytest.approx(0.8), "light alone"


def test_drafts_that_had_to_do_are_counted_and_judged_as_rejected() -> None:
    diffserve = parse((CATALOGS / "diffserve-sdturbo.toml").read_text(), "diffserve-sdturbo")
    setup = a_setup(catalog=diffserve, policy="diffserve", workers=8, slo_ms=4000)
    run = ran(setup, np.concatenate([np.arange(0, 60_000, 100.0), np.arange(60_000, 120_000, 40.0)]))
    figures = figures_of(run)
    judged = sum((counts for span in run.tally.spans for counts in span.values()), Counter[Answer]())
    assert judged["sd-turbo", REJECTED] == figures["rejected"] > 20
    assert figures["fid"] > figures["fid_optimistic"]
    assert figures["fid_run"] >= figures["fid_run_optimistic"]
    assert figures["quality"] == -figures["fid"]
