"""The topic table."""

from schemas import topics


def test_topics_that_the_ledger_joins_have_equal_partition_counts() -> None:
    counts = {t.partitions for t in topics.TABLE if t.name in (topics.CLASSIFIED, topics.OUTCOMES, topics.RESULTS)}
    assert len(counts) == 1


def test_results_outlive_the_outcomes_they_answer() -> None:
    kept = {t.name: int(t.config["retention.ms"]) for t in topics.TABLE if "retention.ms" in t.config}
    assert kept[topics.RESULTS] > max(kept[topics.OUTCOMES], kept[topics.CLASSIFIED], kept[topics.PROMPTS])


def test_the_control_topic_is_compacted_and_keeps_a_history() -> None:
    plan = next(t for t in topics.TABLE if t.name == topics.PLAN)
    assert plan.config["cleanup.policy"] == "compact"
    assert int(plan.config["min.compaction.lag.ms"]) >= 7 * topics.DAY_MS


def test_each_topic_has_one_row() -> None:
    names = [t.name for t in topics.TABLE]
    assert len(names) == len(set(names))
