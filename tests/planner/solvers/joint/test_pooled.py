"""Answers that are judged with those to come: what is remembered of them, and what a plan adds to them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.quality import Judged, cascade_quality
from planner.solvers.joint.pooled import Mixture, Pool, memory_of, pool_of
from streams.catalogs import measured
from tests.builders import a_catalog, a_variant

CATALOG = measured("diffserve-sdturbo")
PAIR = CATALOG.pair()
RPS, TOGETHER_S = 20.0, 100.0
PARTS = st.floats(0.0, 1.0)


def judged(deferred: float) -> Mixture:
    """All answers of the cascade, this share of the drafts generated again."""
    return Mixture((), (Judged(PAIR, 1 - deferred, deferred),))


def own(deferred: float) -> float:
    quality = cascade_quality(CATALOG, PAIR, deferred)
    assert quality is not None
    return quality


def added(pool: Pool, deferred: float, requests: float = 100.0) -> float:
    before = pool.answers.quality(CATALOG)
    assert before is not None
    value = pool.value_of(judged(deferred), requests, CATALOG, before)
    assert value is not None
    return value


def remembered(now_s: float, **changes: float) -> Pool:
    """What is known so long after a plan that deferred three tenths, before which a tenth was deferred."""
    memory = memory_of(Pool(judged(0.1), 1000.0), judged(0.3), 0)
    pool = pool_of(json.loads(json.dumps(memory)), CATALOG, changes.get("rps", RPS), TOGETHER_S, round(1000 * now_s))
    assert pool is not None
    return pool


def deferred_of(pool: Pool) -> float:
    (part,) = pool.answers.judged
    return part.deferred


def test_after_busy_times_more_drafts_are_worth_generating_again_than_would_be_best_alone() -> None:
    best = max((share / 100 for share in range(101)), key=own)
    pool = Pool(judged(0.1), 2000.0)
    together = max((share / 100 for share in range(101)), key=lambda share: added(pool, share))
    assert best < 0.75
    assert together > best + 0.15


def test_answers_as_before_are_worth_what_they_are_worth_alone() -> None:
    assert added(Pool(judged(0.4), 2000.0), 0.4) == pytest.approx(own(0.4))


def test_where_few_answers_came_before_a_mixture_is_worth_hardly_more_than_alone() -> None:
    assert added(Pool(judged(0.1), 1.0), 0.6, requests=1000.0) == pytest.approx(own(0.6), abs=0.01)


@given(PARTS, PARTS, PARTS)
def test_two_mixtures_together_have_all_answers_of_both(one: float, other: float, share: float) -> None:
    first = Mixture((("sd-turbo", 0.5), ("sd15", 0.5)), ())
    second = Mixture((("sd15", one),), tuple(part for part in judged(other).judged if one < 1))
    second = second._replace(judged=tuple(Judged(PAIR, (1 - one) * j.kept, (1 - one) * j.again) for j in second.judged))
    both = first.with_share(second, share)
    total = sum(part for _, part in both.by_chance) + sum(part.share for part in both.judged)
    assert total == pytest.approx(1.0)
    assert dict(both.by_chance)["sd-turbo"] == pytest.approx(0.5 * (1 - share))


def test_earlier_answers_count_the_less_the_longer_ago_they_were() -> None:
    shares = [deferred_of(remembered(now_s)) for now_s in (0, 20, 100, 1000)]
    assert shares[0] == pytest.approx(0.1)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.3, abs=0.001)
    assert remembered(1000).requests == pytest.approx(RPS * TOGETHER_S, rel=0.01)


def test_a_clock_that_was_set_back_adds_no_answers() -> None:
    assert deferred_of(remembered(-50)) == pytest.approx(0.1)


def test_in_a_pause_what_came_before_still_counts() -> None:
    assert remembered(50, rps=0.0).requests == pytest.approx(1000 * 0.6065, rel=0.01)


@pytest.mark.parametrize(
    "memory", [{}, {"answers": None}, {"answers": [None, [[["sd-turbo"]], []], 0]}, {"answers": 3}]
)
def test_what_is_no_note_of_answers_is_forgotten(memory: dict[str, object]) -> None:
    assert pool_of(memory, CATALOG, RPS, TOGETHER_S, 1000) is None


def test_answers_of_levels_that_the_catalog_has_no_more_are_forgotten() -> None:
    other = measured("diffserve-sdxlltn")
    for before in (None, Pool(judged(0.1), 1000.0)):
        assert pool_of(memory_of(before, judged(0.3), 0), other, RPS, TOGETHER_S, 60_000) is None


def test_nothing_counts_together_where_that_is_turned_off_or_the_scale_is_a_mean() -> None:
    noted = memory_of(None, judged(0.3), 0)
    assert pool_of(noted, CATALOG, RPS, 0.0, 60_000) is None
    assert memory_of(None, None, 0) == {}
    assert pool_of(noted, CATALOG, RPS, TOGETHER_S, 60_000) is not None


def test_what_a_mixture_adds_is_unknown_where_the_quality_of_a_level_is() -> None:
    nameless = a_catalog(variants={"light": a_variant(quality=None), "heavy": a_variant(quality=0.9)})
    pool = Pool(Mixture((("light", 1.0),)), 100.0)
    assert pool.value_of(Mixture((("heavy", 1.0),)), 100.0, nameless, 0.5) is None
