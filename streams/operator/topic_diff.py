"""The topic table held against the cluster: what differs, and what to do about it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.topics import (
    CLASSIFIED,
    DLQ,
    ENDED,
    FLEET,
    FLOW_PARTITIONS,
    OUTCOMES,
    PLAN,
    RESULTS,
    SCHEMAS,
    Topic,
    full_name,
    jobs_topic,
    table,
)
from streams.operator.cluster import Found

JOBS = re.compile(r"jobs\.(.+)\.v\d+")
JOINED = {CLASSIFIED, OUTCOMES, RESULTS, ENDED}  # the ledger joins them by partition
SINGLE = {PLAN, FLEET, SCHEMAS, DLQ}  # of one partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing about a topic that is not as the table says."""

    topic: str  # with the prefix
    what: str  # `topic`, `partitions`, or a configuration's name
    wanted: str
    found: str
    do: str


def variants_of(names: Iterable[str]) -> list[str]:
    """The variants that have a job topic among these (names without the prefix)."""
    return sorted({match[1] for name in names if (match := JOBS.fullmatch(name))})


def expected(variants: Iterable[str], jobs_partitions: int, flow_partitions: int = FLOW_PARTITIONS) -> list[Topic]:
    """The table, and the job topics of these variants."""
    jobs = (jobs_topic(variant, jobs_partitions) for variant in sorted(set(variants)))
    return [*table(flow_partitions), *jobs]


def differences(wanted: Iterable[Topic], found: Mapping[str, Found], prefix: str) -> list[Difference]:
    """What differs, in the table's order. More partitions than wanted are fine where nothing is joined by partition."""
    result: list[Difference] = []
    for topic in wanted:
        name = full_name(prefix, topic.name)
        there = found.get(topic.name)
        if there is None:
            text = f"{topic.partitions} partitions, {_words(topic.config)}"
            variant = JOBS.fullmatch(topic.name)
            option = f" --variant {variant[1]}" if variant else ""
            result.append(_difference(name, "topic", text, "missing", f"pochade topics create{option}"))
            continue
        is_enough = there.partitions >= topic.partitions if topic.name not in JOINED | SINGLE else False
        if there.partitions != topic.partitions and not is_enough:
            do = _partitions_advice(topic, there, name)
            result.append(_difference(name, "partitions", str(topic.partitions), str(there.partitions), do))
        for key, value in topic.config.items() if there.is_told else ():
            has = there.config.get(key, "unset")
            if has != value:
                do = f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {key}={value}"
                result.append(_difference(name, key, value, has, do))
    return result


def _partitions_advice(topic: Topic, there: Found, name: str) -> str:
    if topic.name in SINGLE:
        return f"Kafka cannot take partitions away: delete {name} while no role runs, then pochade topics create"
    if there.partitions > topic.partitions:
        return "fine if classified, outcomes and results all have as many: Kafka cannot take partitions away"
    if topic.name in JOINED:  # a request's key would move away from the partition that knows whether it has ended
        return "leave it if all of classified, outcomes and results have as many; else begin with another kafka.prefix"
    return f"kafka-topics.sh --alter --topic {name} --partitions {topic.partitions}"


def _difference(topic: str, what: str, wanted: str, found: str, do: str) -> Difference:
    return Difference(topic=topic, what=what, wanted=wanted, found=found, do=do)


def _words(config: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in config.items()) or "no configuration"
