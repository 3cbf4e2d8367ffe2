"""The topic table against what a cluster has."""

import dataclasses

from schemas.topics import CLASSIFIED, OUTCOMES, PLAN, PROMPTS, TABLE, Topic
from streams.operator.cluster import Found, differences, expected, variants_of


def found(topics: list[Topic]) -> dict[str, Found]:
    """A cluster that has exactly these."""
    return {t.name: Found(name=t.name, partitions=t.partitions, replicas=1, config=dict(t.config)) for t in topics}


def test_a_cluster_as_the_table_says_differs_in_nothing() -> None:
    wanted = expected(["light", "heavy"], 4)
    assert len(wanted) == len(TABLE) + 4  # jobs and waiting jobs of two variants
    assert differences(wanted, found(wanted), "p") == []


def test_a_missing_topic_says_the_command_that_makes_it() -> None:
    there = found([t for t in TABLE if t.name != PROMPTS])
    (table, job, waiting) = differences(expected(["light"], 4), there, "p")
    assert (table.topic, table.found, table.do) == (f"p.{PROMPTS}", "missing", "pochade topics create")
    assert job.do == waiting.do == "pochade topics create --variant light"


def test_other_partitions_and_configuration_are_reported_with_what_to_do() -> None:
    there = found([*TABLE])
    config = there[OUTCOMES].config | {"retention.ms": "1"}
    there[OUTCOMES] = dataclasses.replace(there[OUTCOMES], partitions=2, config=config)
    partitions, retention = differences(expected([], 4), there, "p")
    assert (partitions.wanted, partitions.found) == ("4", "2")
    assert "--alter" not in partitions.do
    assert "another kafka.prefix" in partitions.do
    assert (retention.what, retention.found) == ("retention.ms", "1")
    assert "--add-config retention.ms=" in retention.do
    there = found([*TABLE])
    there[CLASSIFIED] = dataclasses.replace(there[CLASSIFIED], partitions=8)
    (more,) = differences(expected([], 4), there, "p")
    assert "cannot take partitions away" in more.do


def test_job_topics_may_have_more_partitions_but_not_fewer() -> None:
    wanted = expected(["light"], 4)
    for partitions, expected_differences in ((8, 0), (4, 0), (3, 1)):
        there = found(wanted)
        there["jobs.light.v1"] = dataclasses.replace(there["jobs.light.v1"], partitions=partitions)
        assert len(differences(wanted, there, "p")) == expected_differences


def test_partitions_are_to_be_added_only_where_nothing_is_joined_by_them() -> None:
    for name, partitions, advice in (
        (PROMPTS, 2, f"--alter --topic p.{PROMPTS} --partitions 4"),
        (PLAN, 2, "pochade topics create"),
    ):
        there = found([*TABLE])
        there[name] = dataclasses.replace(there[name], partitions=partitions)
        (difference,) = differences(expected([], 4), there, "p")
        assert advice in difference.do
    there = found([*TABLE])
    there[PROMPTS] = dataclasses.replace(there[PROMPTS], partitions=8)
    assert differences(expected([], 4), there, "p") == []


def test_a_configuration_that_may_not_be_seen_differs_in_nothing() -> None:
    hidden = {
        name: dataclasses.replace(each, config={}, is_config_visible=False) for name, each in found([*TABLE]).items()
    }
    assert differences(expected([], 4), hidden, "p") == []


def test_variants_are_known_by_their_job_topics() -> None:
    assert variants_of(["jobs.light.v1", "jobs.sd-1.5.v1", PROMPTS, "jobs.light.v1"]) == ["light", "sd-1.5"]
