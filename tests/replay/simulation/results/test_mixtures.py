"""What a mixture of answers is worth where quality is no mean over images."""

from collections import Counter

import numpy as np
import pytest

from planner.catalog.curves import CascadeCurves, SharePoint
from replay.simulation.results.mixtures import spans_quality
from replay.simulation.results.run_metrics import Answer
from streams.parsing.catalog import parse
from tests.builders import a_catalog
from tests.paths import CATALOGS
from tests.replay.simulation.runs import a_setup, ran

PAIR = ("light", "heavy", "look")
CURVES = CascadeCurves(judged=(SharePoint(0.0, 0.8), SharePoint(0.5, 0.97), SharePoint(1.0, 0.9)), random=())
HADIS = parse((CATALOGS / "hadis-l40s.toml").read_text(), "hadis-l40s")


def answers(light: int, straight: int = 0, again: int = 0) -> Counter[Answer]:
    return Counter({("light", False): light, ("heavy", False): straight, ("heavy", True): again})


def test_a_judged_mixture_is_worth_what_its_curve_says_and_an_unjudged_one_the_mean() -> None:
    catalog = a_catalog(curves={a_catalog().cascades[0].key: CURVES})
    assert spans_quality([{PAIR: answers(60, again=60)}], catalog) == pytest.approx(0.97)
    assert spans_quality([{None: answers(60, straight=60)}], catalog) == pytest.approx(0.9)
    assert spans_quality([{PAIR: answers(60, again=60)}, {None: answers(1)}], catalog) == pytest.approx(0.885)
    assert spans_quality([], catalog) is None


def test_a_run_tells_apart_what_went_straight_to_heavy_and_what_was_generated_again() -> None:
    setup = a_setup(catalog=HADIS, policy="hadis", workers=16, slo_ms=60_000, forecast="trend", hysteresis="always")
    tally = ran(setup, np.arange(0, 300_000, 400.0)).tally
    total = sum((counts for span in tally.spans for counts in span.values()), Counter[Answer]())
    heavies = [level for level, is_again in total if is_again]
    assert sum(total[level, True] for level in heavies) == tally.escalated > 50
    assert sum(total[level, False] for level in heavies) > 50
