"""The topic table."""

from schemas import topics


def test_topics_that_the_ledger_joins_have_equal_partition_counts() -> None:
    joined = (topics.CLASSIFIED, topics.OUTCOMES, topics.RESULTS, topics.ENDED)
    counts = {t.partitions for t in topics.TABLE if t.name in joined}
    assert len(counts) == 1


def test_results_outlive_the_outcomes_they_answer() -> None:
    kept = {t.name: int(t.config["retention.ms"]) for t in topics.TABLE if "retention.ms" in t.config}
    assert kept[topics.RESULTS] > max(kept[topics.OUTCOMES], kept[topics.CLASSIFIED], kept[topics.PROMPTS])


def test_the_control_topic_is_compacted_and_keeps_a_history() -> None:
    plan = next(t for t in topics.TABLE if t.name == topics.PLAN)
    assert plan.config["cleanup.policy"] == "compact"
    assert int(plan.config["min.compaction.lag.ms"]) >= 7 * topics.DAY_MS


def test_keys_are_never_forgotten_while_a_newer_record_does_not_replace_them() -> None:
    keys = next(t for t in topics.TABLE if t.name == topics.KEYS)
    assert keys.config["cleanup.policy"] == "compact"
    assert "retention.ms" not in keys.config


def test_addresses_of_webhooks_that_were_delivered_leave_the_log_within_hours() -> None:
    hooks = next(t for t in topics.TABLE if t.name == topics.WEBHOOKS)
    assert (hooks.config["cleanup.policy"], "retention.ms" in hooks.config) == ("compact", False)
    assert max(int(hooks.config[name]) for name in ("segment.ms", "max.compaction.lag.ms")) <= topics.HOUR_MS


def test_each_topic_has_one_row() -> None:
    names = [t.name for t in topics.TABLE]
    assert len(names) == len(set(names))


def test_dead_letters_without_end_take_a_bounded_part_of_a_disk() -> None:
    dlq = next(t for t in topics.TABLE if t.name == topics.DLQ)
    assert dlq.partitions * (int(dlq.config["retention.bytes"]) + int(dlq.config["segment.bytes"])) < 1.1 * 2**30


def test_a_deployment_may_have_more_partitions_for_the_flow_of_requests_and_no_others() -> None:
    more = {t.name: t.partitions for t in topics.table(16)}
    assert {more[name] for name in (topics.PROMPTS, topics.CLASSIFIED, topics.OUTCOMES, topics.RESULTS)} == {16}
    assert {
        more[name] for name in (topics.PLAN, topics.FLEET, topics.DLQ, topics.SCHEMAS, topics.KEYS, topics.WEBHOOKS)
    } == {1}
    assert topics.table() == topics.TABLE


def test_whatever_may_still_be_read_is_younger_than_what_the_ledger_remembers() -> None:
    config = {t.name: {key: int(t.config.get(key, -1)) for key in ("retention.ms", "segment.ms")} for t in topics.TABLE}
    upstream = (topics.PROMPTS, topics.PROMPTS_BATCH, topics.CLASSIFIED, topics.IMAGES, topics.OUTCOMES)
    jobs = topics.jobs_topic("light", 1).config
    oldest = max(
        int(jobs["retention.ms"]) + int(jobs["segment.ms"]),
        *(config[name]["retention.ms"] + config[name]["segment.ms"] for name in upstream),
    )
    assert min(int(jobs["segment.ms"]), *(config[name]["segment.ms"] for name in upstream)) > 0
    assert oldest + topics.SKEW_MS < topics.WINDOW_MS <= config[topics.RESULTS]["retention.ms"]
    assert config[topics.RESULTS]["retention.ms"] < config[topics.ENDED]["retention.ms"]
