"""The topic table: the one place where topics are named, sized and configured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schemas import messages
from schemas.avro import Message

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS

# One rule, from the first line to the last: whatever may still be read has its end remembered.
#
#   age   0 ............... FLOW_MS ..... + SEGMENT_MS ..... WINDOW_MS - SKEW_MS ..... WINDOW_MS ..... ENDED_MS
#         flow topics keep, .. and at most until .......... the ledger serves what
#         at least this ..                                  is younger ............... and knows what
#                                                                                      ended since then
FLOW_MS = 7 * DAY_MS  # what flow topics keep at least
SEGMENT_MS = DAY_MS // 2  # Kafka deletes whole segments, by their newest record: records live longer by up to this
SKEW_MS = HOUR_MS  # that brokers' clocks, and looking for what to delete (every 5 minutes), may differ by
WINDOW_MS = 8 * DAY_MS  # what a ledger remembers, and `results` keeps
ENDED_MS = 9 * DAY_MS  # a chunk is younger than the results that it lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One row of the topic table. `name` leaves out the prefix, which belongs to a deployment."""

    name: str
    record: type[Message] | None  # None: no message of ours
    key: str
    written_by: str
    read_by: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


BROKERS_CLOCK = {"message.timestamp.type": "LogAppendTime"}  # one clock, the broker's, gives the ages of all records


DEAD_LETTER_LIMITS = {  # a flood of bad records fills 1 GiB of a disk and the segment that is written to, not more
    "retention.bytes": str(2**30), "segment.bytes": str(2**26),
}  # fmt: skip


def _retention(ms: float) -> dict[str, str]:
    return {"retention.ms": str(int(ms)), "max.message.bytes": "1048576", **BROKERS_CLOCK}


def _flows(ms: int = FLOW_MS) -> dict[str, str]:
    return {**_retention(ms), "segment.ms": str(SEGMENT_MS)}


FLOW_PARTITIONS = 4  # prompts to results, by default; classified, outcomes, results and ended must agree (ledger)
PROMPTS, PROMPTS_BATCH = "prompts.v1", "prompts.batch.v1"
CLASSIFIED, IMAGES = "classified.v1", "images.v1"
OUTCOMES, RESULTS, EVENTS = "outcomes.v1", "results.v1", "events.v1"
ENDED = "ended.v1"
PLAN, FLEET, DLQ = "plan.v1", "fleet.v1", "dlq.v1"
SCHEMAS = "schemas.v1"
KEYS = "keys.v1"
WEBHOOKS = "webhooks.v1"
ACTIONS = "actions.v1"
POISON = "poison.v1"

PUBLIC = frozenset({PROMPTS, PROMPTS_BATCH})  # clients write here; elsewhere only roles and the command line

PLAN_KEY = "pipeline"
PIN_KEY = "pipeline.pin"
MEMORY_KEY = "pipeline.memory"  # of a record with the plan in force, and what its policy remembers since

TABLE: tuple[Topic, ...] = (
    Topic(
        name=PROMPTS, record=messages.GenerateRequest, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="producers, gateway, console, replay", read_by="classifier, console", config=_flows(),
    ),
    Topic(
        name=PROMPTS_BATCH, record=messages.GenerateRequest, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="producers, gateway, console, classifier", read_by="classifier, while workers have nothing waiting",
        config=_flows(),
    ),
    Topic(
        name=CLASSIFIED, record=messages.ClassifiedRequest, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="classifier", read_by="router, planner, ledger, console, classifier", config=_flows(),
    ),
    Topic(
        name=IMAGES, record=messages.ImageGenerated, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="worker", read_by="discriminator, planner, console", config=_flows(),
    ),
    Topic(
        name=OUTCOMES, record=messages.Outcome, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="classifier, router, worker, discriminator, ledger, gateway, console", read_by="ledger, console",
        config=_flows(),
    ),
    Topic(
        name=RESULTS, record=messages.Result, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="ledger", read_by="consumers, all roles", config=_flows(WINDOW_MS),
    ),
    Topic(
        name=ENDED, record=messages.EndedChunk, key="partition of results", partitions=FLOW_PARTITIONS,
        written_by="ledger", read_by="ledger", config=_flows(ENDED_MS),
    ),
    Topic(
        name=EVENTS, record=messages.Event, key="request_id", partitions=FLOW_PARTITIONS,
        written_by="everyone", read_by="watch, gateway, console", config=_retention(DAY_MS),
    ),
    Topic(
        name=PLAN, record=messages.Plan, key="pipeline, pipeline.pin, pipeline.memory", partitions=1,
        written_by="the leading planner, console, plan pin, plan rollback", read_by="everyone",
        config={"cleanup.policy": "compact", "min.compaction.lag.ms": str(30 * DAY_MS), **BROKERS_CLOCK},
    ),
    Topic(
        name=FLEET, record=messages.Heartbeat, key="worker_id", partitions=1,
        written_by="worker", read_by="planner, router, discriminator, gateway, console", config=_retention(HOUR_MS),
    ),
    Topic(
        name=SCHEMAS, record=None, key="schema id", partitions=1,
        written_by="everyone", read_by="everyone", config={"cleanup.policy": "compact", **BROKERS_CLOCK},
    ),
    Topic(
        name=KEYS, record=messages.ApiKey, key="key_id", partitions=1,
        written_by="keys create, keys revoke", read_by="gateway, console",
        config={"cleanup.policy": "compact", **BROKERS_CLOCK},
    ),
    Topic(  # the addresses of ended webhooks are removed within hours: they may hold secrets
        name=WEBHOOKS, record=messages.Webhook, key="request_id", partitions=1,
        written_by="gateway, dlq redrive", read_by="gateway",
        config={
            "cleanup.policy": "compact", "segment.ms": str(HOUR_MS), "max.compaction.lag.ms": str(HOUR_MS),
            **BROKERS_CLOCK,
        },
    ),
    Topic(
        name=ACTIONS, record=messages.OperatorAction, key="action_id", partitions=1,
        written_by="console, operators", read_by="console, operators", config=_retention(90 * DAY_MS),
    ),
    Topic(
        name=POISON, record=messages.PoisonMark, key="request_id", partitions=1,
        written_by="worker, dlq redrive", read_by="worker", config=_retention(HOUR_MS),
    ),
    Topic(
        name=DLQ, record=None, key="request_id", partitions=1,
        written_by="everyone", read_by="operators", config=_retention(30 * DAY_MS) | DEAD_LETTER_LIMITS,
    ),
)  # fmt: skip


def table(flow_partitions: int = FLOW_PARTITIONS) -> tuple[Topic, ...]:
    """The table of a deployment whose request topics have `flow_partitions` partitions each."""
    return tuple(
        replace(topic, partitions=flow_partitions) if topic.partitions == FLOW_PARTITIONS else topic for topic in TABLE
    )


def jobs_topic(variant: str, partitions: int) -> Topic:
    """The job topic of one variant: as many partitions as it may have workers (measured: one each waits least)."""
    return Topic(
        name=f"jobs.{variant}.v1", record=messages.GenerateJob, key="request_id", partitions=partitions,
        written_by="router, discriminator", read_by="the variant's workers", config=_flows(),
    )  # fmt: skip


def waiting_topic(variant: str) -> Topic:
    """The topic of a variant's jobs that wait for an idle worker: one queue, so one partition, which has one owner."""
    return Topic(
        name=f"waiting.{variant}.v1", record=messages.GenerateJob, key="request_id", partitions=1,
        written_by="router, worker, discriminator", read_by="router", config=_flows(),
    )  # fmt: skip


def topics_of(variant: str, jobs_partitions: int) -> tuple[Topic, ...]:
    """Return the topics that a variant has for itself."""
    return jobs_topic(variant, jobs_partitions), waiting_topic(variant)


def full_name(prefix: str, name: str) -> str:
    """The name on the broker of a row of the table."""
    return f"{prefix}.{name}"


def worker_group(prefix: str, variant: str) -> str:
    """Return a variant's consumer group; a worker changes variant by opening another consumer (measured: 0.17 s)."""
    return f"{prefix}.worker.{variant}"


def waiting_group(prefix: str) -> str:
    """Return the consumer group that forwards waiting jobs of all variants."""
    return f"{prefix}.waiting"


class Reader(NamedTuple):
    """The role that serves the records of a topic, and its consumer group without the prefix."""

    role: str
    group: str


READERS: Mapping[str, Reader] = {  # a request ends because these read; the topics of variants are `reader`'s
    PROMPTS: Reader("classifier", "classifier"),
    PROMPTS_BATCH: Reader("classifier", "classifier-batch"),
    CLASSIFIED: Reader("router", "router"),
    IMAGES: Reader("discriminator", "discriminator"),
    OUTCOMES: Reader("ledger", "ledger"),
}


def reader(name: str) -> Reader | None:
    """Return who serves a topic's records, by its name without the prefix; None if requests do not depend on it."""
    kind, _, rest = name.partition(".")
    if kind == "jobs" and rest:
        return Reader("worker", f"worker.{rest.rpartition('.')[0]}")
    if kind == "waiting" and rest:
        return Reader("router", "waiting")
    return READERS.get(name)


def webhooks_group(prefix: str) -> str:
    """Return the consumer group of gateways: the one that it gives the topic `webhooks` delivers them."""
    return f"{prefix}.webhooks"
