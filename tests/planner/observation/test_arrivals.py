"""What is remembered of prompts: each request once, and nothing of what a quota refused."""

import pytest

from planner.observation import arrivals as module
from planner.observation.arrivals import KEPT_MS, KNOWN_MS, MAX_KINDS, Arrival, Arrivals
from planner.observation.observation import PROMPTS
from tests.builders import NOW_MS


def an_arrival(at_ms: int = NOW_MS, hardness: float = 0.5, tier: str = "standard", level: str = "light") -> Arrival:
    return Arrival(at_ms, hardness, {"models": level}, tier)


def test_what_is_remembered_of_a_prompt_is_its_own_and_the_rest_is_shared() -> None:
    arrivals = Arrivals()
    for n in range(5000):  # as they are read: each with a mapping and a text of its own
        arrivals.add(f"r-{n}", an_arrival(tier="".join(["stand", "ard"]), level=f"level-{n % 7}"))
    remembered = [arrival for arrival in arrivals._known.values() if arrival]
    assert len({id(arrival.classes) for arrival in remembered}) == 7
    assert len({id(arrival.tier) for arrival in remembered}) == 1
    for n in range(5000):
        arrivals.add(f"odd-{n}", an_arrival(level=f"of-its-own-{n}"))
    assert len(arrivals._classes) <= MAX_KINDS + 1


def test_a_storm_of_retries_is_no_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ARRIVALS", 4)
    arrivals = Arrivals()
    for name in "aabbaab":
        arrivals.add(name, an_arrival())
    assert len(arrivals.times_ms(NOW_MS)) == 2
    for name in "cdefa":
        arrivals.add(name, an_arrival())
    assert len(arrivals.times_ms(NOW_MS)) == 4, "a was so long ago that it is one more; b and c are forgotten"


def test_prompts_of_the_last_minutes_are_remembered_and_a_retry_of_an_older_one_is_no_demand() -> None:
    arrivals = Arrivals()
    for n in range(5 * PROMPTS):  # ten a second
        assert arrivals.add(f"r-{n}", an_arrival(at_ms=NOW_MS + 100 * n))
    newest_ms = NOW_MS + 100 * (5 * PROMPTS - 1)
    times_ms = arrivals.times_ms(newest_ms)
    assert sorted(times_ms) == list(range(newest_ms - KEPT_MS, newest_ms + 1, 100))
    assert not arrivals.add(f"r-{3 * PROMPTS}", an_arrival(at_ms=newest_ms)), "it came three minutes ago"
    for n in range(2):
        arrivals.add(f"later-{n}", an_arrival(at_ms=newest_ms + (n + 1) * KNOWN_MS))
    assert arrivals.add("r-0", an_arrival(at_ms=newest_ms + 2 * KNOWN_MS))


def test_the_last_prompts_are_remembered_however_old_they_are() -> None:
    arrivals = Arrivals()
    for n in range(PROMPTS + 100):  # one a minute
        arrivals.add(f"r-{n}", an_arrival(at_ms=NOW_MS + 60_000 * n))
    assert len(arrivals.last().hardness) == PROMPTS == len(arrivals._known)


def test_what_a_quota_refused_is_forgotten_whether_its_prompt_is_read_before_or_after() -> None:
    arrivals = Arrivals()
    arrivals.take_back("b")
    for name in "abc":
        arrivals.add(name, an_arrival(tier=name))
    arrivals.take_back("a")
    assert (arrivals.last().tiers, len(arrivals.times_ms(NOW_MS))) == (["c"], 1)


def test_the_last_prompts_are_reported_the_oldest_first() -> None:
    arrivals = Arrivals()
    for n in range(PROMPTS + 5):
        arrivals.add(f"r-{n}", an_arrival(hardness=n / 2000))
    last = arrivals.last()
    assert [len(values) for values in last] == [PROMPTS] * 3
    assert (last.hardness[0], last.hardness[-1]) == (5 / 2000, (PROMPTS + 4) / 2000)
    arrivals.clear()
    assert arrivals.last() == ([], [], [])
