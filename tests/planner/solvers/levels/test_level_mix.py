"""Eq. 1: workers and shares, against every possible allocation and an independent solver."""

import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pulp
import pytest
from scipy.optimize import linprog

from planner.solvers import milp
from planner.solvers.levels import level_mix
from planner.solvers.levels.level_mix import (
    Mix,
    Offer,
    fill,
    keep_current,
    maximize_quality,
    mean_quality,
)
from tests.planner.solvers.levels.builders import offers

THREE = offers((5, 1.0), (12.5, 0.9), (50, 0.8))


def brute(levels: Sequence[Offer], n_workers: int, demand: float) -> tuple[float, float]:
    """The most that any allocation carries, and the best quality at that: all counts, an LP for each one's flow."""
    found = []
    for counts in itertools.product(range(n_workers + 1), repeat=len(levels)):
        if sum(counts) <= n_workers:
            capacity = sum(n * offer.rps for n, offer in zip(counts, levels, strict=True))
            found.append((min(1.0, capacity / demand), counts))
    carried = max(carried for carried, _ in found)
    ties = [counts for share, counts in found if share >= carried - 1e-9]
    return carried, max(best_flow(levels, counts, demand, carried) for counts in ties)


def best_flow(levels: Sequence[Offer], counts: Sequence[int], demand: float, carried: float) -> float:
    """Quality of the mean image generated: levels are filled in every order, the best order counts."""
    return max(
        sum(flow * levels[i].quality for i, flow in filled(levels, counts, demand, carried, order)) / carried
        for order in itertools.permutations(range(len(levels)))
    )


def filled(
    levels: Sequence[Offer], counts: Sequence[int], demand: float, carried: float, order: Sequence[int]
) -> Iterator[tuple[int, float]]:
    left = carried
    for i in order:
        flow = min(left, counts[i] * levels[i].rps / demand)
        left -= flow
        yield i, flow


def an_instance(seed: int) -> tuple[tuple[Offer, ...], int, float]:
    """Up to four workers, three levels, from idle to twice what they carry; every third with qualities out of order."""
    dice = random.Random(seed)
    speeds = sorted(dice.uniform(0.5, 20) for _ in range(3))
    qualities = sorted((dice.uniform(-20, 1) for _ in range(3)), reverse=True)
    if seed % 3 == 0:
        dice.shuffle(qualities)
    n_workers = dice.randint(1, 4)
    demand = n_workers * dice.uniform(0.8 * speeds[0], 1.2 * speeds[-1])
    return offers(*zip(speeds, qualities, strict=True)), n_workers, demand


def test_eq1_equals_brute_force_on_three_hundred_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_mix, "solve", functools.partial(milp.solve, limit_s=60))  # however busy the machine
    for seed in range(300):
        levels, n_workers, demand = an_instance(seed)
        mix = maximize_quality(levels, n_workers, demand)
        carried, quality = brute(levels, n_workers, demand)
        assert mix.carried == pytest.approx(carried, abs=2e-6), seed
        assert mean_quality(mix.shares, levels) == pytest.approx(quality, abs=2e-5), seed
        assert sum(mix.counts.values()) == n_workers
        assert not mix.trouble


def test_two_levels_need_no_solver_and_are_mixed_as_well_as_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_mix, "solve", lambda _: pytest.fail("a solver was asked"))
    for seed in range(300):
        levels, n_workers, demand = an_instance(seed)
        mix = maximize_quality(levels[::2], n_workers, demand)
        carried, quality = brute(levels[::2], n_workers, demand)
        assert mix.carried == pytest.approx(carried, abs=2e-6), seed
        assert mean_quality(mix.shares, levels) == pytest.approx(quality, abs=2e-5), seed


def test_shares_sum_to_one_and_need_no_more_than_the_workers_carry() -> None:
    for seed in range(40):
        levels, n_workers, demand = an_instance(seed)
        mix = maximize_quality(levels, n_workers, demand)
        assert sum(mix.shares.values()) == pytest.approx(1)
        for offer in levels:
            capacity = mix.counts.get(offer.variant, 0) * offer.rps
            assert mix.shares.get(offer.level, 0) * mix.carried * demand <= capacity * (1 + 1e-5)


def test_few_requests_all_go_to_the_best_level_and_no_worker_is_left_out() -> None:
    assert maximize_quality(THREE, 4, 20) == Mix({"v0": 4}, {"v0": 1.0}, 1.0)
    assert maximize_quality(THREE, 4, 0) == Mix({"v0": 4}, {"v0": 1.0}, 1.0)


def test_what_no_worker_can_carry_is_reported_and_all_generate_on_the_fastest_level() -> None:
    assert maximize_quality(THREE, 4, 800) == Mix({"v2": 4}, {"v2": 1.0}, 0.25)
    assert maximize_quality(THREE, 4, float("1e300")).carried < 1e-9


def test_without_workers_requests_wait_for_the_fastest_level() -> None:
    assert maximize_quality(THREE, 0, 10) == Mix({"v2": 0}, {"v2": 1.0}, 0.0)
    assert maximize_quality(THREE, 0, 0).carried == 1


def test_a_slow_level_that_is_worse_gets_nobody() -> None:
    levels = offers((5, 0.1), (12.5, 0.9), (50, 0.8))
    assert maximize_quality(levels, 4, 60).counts.get("v0", 0) == 0


@pytest.mark.parametrize("n_workers", [1, 4, 64])
def test_a_solver_that_fails_leaves_the_best_of_two_levels_and_says_so(
    n_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = maximize_quality(THREE, n_workers, 10 * n_workers)
    monkeypatch.setattr(pulp, "HiGHS", lambda **_: 1 / 0)
    mix = maximize_quality(THREE, n_workers, 10 * n_workers)
    assert mix.carried == 1
    assert sum(mix.counts.values()) == n_workers
    assert mean_quality(mix.shares, THREE) >= mean_quality(wanted.shares, THREE) - 0.02
    assert mix.trouble == "the solver failed (ZeroDivisionError: division by zero)"


def shared(levels: Sequence[Offer], variant: str = "v0") -> tuple[Offer, ...]:
    """The same levels, all of one variant, as those of reuse are."""
    return tuple(offer._replace(variant=variant) for offer in levels)


def exact_quality(levels: Sequence[Offer], counts: Mapping[str, int], demand: float) -> float | None:
    """Best mean quality where every variant's workers have the time for its levels, by scipy; None: there is none."""
    rows = [[demand / o.rps * (o.variant == variant) for o in levels] for variant in counts]
    found = linprog([-o.quality for o in levels], rows, list(counts.values()), [[1] * len(levels)], [1])
    return None if found.status == 2 else -found.fun


def busy(mix: Mix, levels: Sequence[Offer], variant: str, demand: float) -> float:
    """Workers of a variant that the carried part of the demand keeps busy."""
    return sum(mix.shares.get(o.level, 0) * mix.carried * demand / o.rps for o in levels if o.variant == variant)


def test_a_shared_fleet_s_shares_are_those_of_the_linear_program() -> None:
    for seed in range(80):
        plain, n_workers, demand = an_instance(seed)
        levels, counts = shared(plain), {"v0": n_workers}
        mix, exact = fill(counts, levels, demand), exact_quality(levels, counts, demand)
        if exact is None:
            assert mix.shares == {levels[-1].level: 1.0}
            assert mix.carried == pytest.approx(n_workers * levels[-1].rps / demand)
        else:
            assert mean_quality(mix.shares, levels) == pytest.approx(exact, abs=1e-6)
        assert busy(mix, levels, "v0", demand) <= n_workers + 1e-4
        assert mix.counts == counts


def test_workers_of_reuse_levels_beside_smaller_models_share_as_the_linear_program_says() -> None:
    """Each instance once with room for all, once with too little: then as much is carried as can be."""
    for seed in range(80):
        dice = random.Random(seed)
        rows = [(dice.uniform(0.5, 20), dice.uniform(0, 1)) for _ in range(6)]
        levels = tuple(offer._replace(variant=name) for offer, name in zip(offers(*rows), "aabaab", strict=True))
        counts = {"a": dice.randint(1, 4), "b": dice.randint(0, 3)}
        most = sum(n * max(o.rps for o in levels if o.variant == name) for name, n in counts.items())
        for demand in (most * dice.uniform(0.2, 0.99), most * 1.25):
            mix, exact = fill(counts, levels, demand), exact_quality(levels, counts, demand)
            assert mix.carried == pytest.approx(min(1.0, most / demand)), seed
            if exact is not None:
                assert mean_quality(mix.shares, levels) == pytest.approx(exact, abs=1e-6), seed
            for variant, n in counts.items():
                assert busy(mix, levels, variant, demand) <= n + 1e-4, seed
            assert sum(mix.shares.values()) == pytest.approx(1)
            assert min(mix.shares.values()) > 0


def test_levels_on_one_line_are_taken_in_order_however_their_gains_are_rounded() -> None:
    """Gains of .3 and .30000000000000004: the second step out of turn would take from a level that has nothing."""
    levels = shared(offers(*((rps, 1 / rps + 0.3) for rps in (1.4, 11.7, 15.1, 17.8))))
    mix = fill({"v0": 1}, levels, 13.0)
    assert mix.carried == 1
    assert mean_quality(mix.shares, levels) == pytest.approx(1 / 13 + 0.3)
    assert busy(mix, levels, "v0", 13.0) == pytest.approx(1)


def test_a_shared_fleet_without_workers_or_demand_still_has_shares() -> None:
    assert fill({"v0": 0}, shared(THREE), 10) == Mix({"v0": 0}, {"v2": 1.0}, 0.0)
    assert fill({"v0": 3}, shared(THREE), 0) == Mix({"v0": 3}, {"v0": 1.0}, 1.0)


def test_given_workers_are_filled_from_the_best_level_down() -> None:
    assert fill({"v0": 1, "v2": 1}, THREE, 20).shares == pytest.approx({"v0": 0.25, "v2": 0.75})
    assert fill({"v0": 1}, THREE, 20).carried == 0.25


def test_workers_are_left_where_they_are_when_little_is_gained_by_moving_them() -> None:
    wanted = maximize_quality(THREE, 4, 30)  # two heavy, two middle
    there = {"v0": 1, "v1": 3}
    lost = mean_quality(wanted.shares, THREE) - mean_quality(fill(there, THREE, 30).shares, THREE)
    assert keep_current(wanted, there, THREE, 30, lost * 1.01).counts == there
    assert keep_current(wanted, there, THREE, 30, lost * 0.99) == wanted
    assert keep_current(wanted, {"v0": 4}, THREE, 30, 1.0) == wanted, "four heavy ones do not carry it"
    assert keep_current(wanted, {"v0": 1, "": 3}, THREE, 30, 1.0) == wanted, "three serve nothing yet"
