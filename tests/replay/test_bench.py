import math

import pytest

from replay.bench.baselines.skeleton import TOPICS, Copying
from replay.bench.commands.measuring import lines
from replay.bench.environment import plan, quick_catalog, traffic
from replay.bench.environment.figures import met, per_second, percentiles, quantile, spread, spread_with_interval
from schemas import messages
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PROMPTS, jobs_topic
from streams.codec.avro import decode
from streams.settings import Settings


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_quantile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert quantile([float(n) for n in range(100, 0, -1)], share) == expected


def test_the_p99_of_few_values_is_their_largest() -> None:
    assert percentiles([1.0, 5.0]) == {"p50": 1.0, "p90": 5.0, "p99": 5.0}


def test_repeats_are_reported_with_their_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "repeats": 3}


def test_one_value_is_reported_without_an_interval_and_two_with_theirs() -> None:
    assert spread_with_interval([3.0]) == {"median": 3.0, "min": 3.0, "max": 3.0, "repeats": 1, "interval": None}
    low, high = spread_with_interval([1.0, 2.0])["interval"]
    assert low < 1.0 < 2.0 < high


def test_a_rate_counts_what_came_between_two_moments() -> None:
    assert per_second(100, 1000, 3000) == 50
    assert math.isfinite(per_second(100, 1000, 1000))


def test_a_limit_is_met_at_the_limit_and_not_beyond_it() -> None:
    limits = {"ratio": ("<=", 2.0), "rate": (">=", 10.0)}
    assert met({"ratio": 2.0, "rate": 10.0}, limits)["ratio"] == {"limit": "<= 2", "met": True}
    assert [each["met"] for each in met({"ratio": 2.1, "rate": 9.9}, limits).values()] == [False, False]


def test_the_quick_catalog_is_one_that_planner_takes(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = quick_catalog.written(tmp_path_factory.mktemp("bench"), 0.1)
    catalog = plan.catalog_of(Settings(catalog=path))
    assert catalog.variants["heavy"].latency_ms == {1: 0.2}
    assert catalog.pair().discriminator == "look"


def test_the_same_name_makes_the_same_requests() -> None:
    ours, again = traffic.requests("a", 3), traffic.requests("a", 3)
    assert [(r.request_id, r.prompt, r.seed) for r in ours] == [(r.request_id, r.prompt, r.seed) for r in again]
    assert len({r.request_id for r in ours}) == 3


def test_what_is_preloaded_reads_back() -> None:
    (request,) = traffic.requests("a", 1)
    job = traffic.job(request, "heavy")
    record = traffic.record(jobs_topic("heavy", 1).name, job, request.request_id)
    assert decode(record.value, messages.GenerateJob) == job
    assert record.key == b"a-0000000"
    assert record.headers["ce_type"] == b"pochade.GenerateJob"
    outcome = traffic.outcome(request)
    assert traffic.result(outcome).image_sha256 == outcome.path[-1].image.sha256  # type: ignore[union-attr]


def test_copies_differ_in_their_keys_alone() -> None:
    (request,) = traffic.requests("a", 1)
    records = list(traffic.copies(OUTCOMES, traffic.outcome(request), "many", 3))
    assert [record.key for record in records] == [b"many-0000000", b"many-0000001", b"many-0000002"]
    assert len({record.value for record in records}) == 1


async def copied(role: str, record: Incoming) -> str:
    (written,) = await Copying(role).on_record(record)
    assert (written.key, written.value, written.headers) == (record.key, record.value, record.headers)
    return written.topic


def test_the_skeleton_goes_the_pipelines_way_and_changes_nothing() -> None:
    import asyncio

    jobs = jobs_topic("light", 1).name
    assert {role: source for role, (source, _) in TOPICS.items()} == {
        "classifier": PROMPTS, "router": CLASSIFIED, "discriminator": IMAGES,
    }  # fmt: skip
    for role, target in (("classifier", CLASSIFIED), ("router", jobs), ("discriminator", OUTCOMES)):
        record = Incoming(
            topic=TOPICS[role][0], partition=0, offset=1, timestamp_ms=1, key=b"k", value=b"v", headers={"a": b"b"}
        )
        assert asyncio.run(copied(role, record)) == target


def test_the_table_tells_figures_and_leaves_versions_to_the_json() -> None:
    reported = lines({"bench": "router", "versions": {"python": "3"}, "records_per_s": {"median": 2000.0}})
    assert [line.split() for line in reported] == [["bench", "router"], ["records_per_s.median", "2000.0"]]
