"""The rights of each role and client: topics that it reads and writes, its groups and transactional ids.

A test compares it with the topic table: each topic needs a reader and a writer here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.topics import (
    ACTIONS,
    CLASSIFIED,
    DLQ,
    ENDED,
    EVENTS,
    FLEET,
    IMAGES,
    KEYS,
    OUTCOMES,
    PLAN,
    POISON,
    PROMPTS,
    PROMPTS_BATCH,
    RESULTS,
    SCHEMAS,
    WEBHOOKS,
)

ROLES = ("classifier", "router", "worker", "discriminator", "ledger", "planner", "indexer", "gateway", "console")
PRODUCER = "producer"  # clients that write requests: `pochade submit`
CONSUMER = "consumer"  # clients that read results: `pochade results`, `watch`, `explain`
OPERATOR = "operator"  # `pochade topics create`, `keys create`, `cancel`, `plan pin`, `dlq redrive`, `doctor`, `audit`
WHO = (*ROLES, PRODUCER, CONSUMER, OPERATOR)

JOBS = "jobs."  # the beginning of the job topics' names, one a variant
WAITING = "waiting."  # and of the topics of jobs that wait for an idle worker
OF_VARIANTS = frozenset({JOBS, WAITING})
ALL = ""  # the beginning of every name


@dataclass(frozen=True, slots=True)
class Rows:
    """Rights to write and to read a topic."""

    written_by: tuple[str, ...]
    read_by: tuple[str, ...]


ACCESS: Mapping[str, Rows] = {
    PROMPTS: Rows((PRODUCER, "gateway", "console", OPERATOR), ("classifier", "gateway", "console", OPERATOR)),
    PROMPTS_BATCH: Rows(
        (PRODUCER, "gateway", "console", OPERATOR, "classifier"), ("classifier", "gateway", "console", OPERATOR)
    ),
    CLASSIFIED: Rows(("classifier",), ("classifier", "router", "planner", "ledger", "console", OPERATOR)),
    JOBS: Rows(("router", "discriminator"), ("worker", "router", OPERATOR)),  # the router: those that no worker serves
    WAITING: Rows(("router", "worker", "discriminator"), ("router", OPERATOR)),
    IMAGES: Rows(("worker",), ("discriminator", "console", OPERATOR)),
    OUTCOMES: Rows(
        ("classifier", "router", "worker", "discriminator", "ledger", "gateway", "console", OPERATOR),
        ("ledger", "console", OPERATOR),
    ),
    RESULTS: Rows(("ledger",), (*ROLES, CONSUMER, OPERATOR)),
    ENDED: Rows(("ledger",), ("ledger", OPERATOR)),
    EVENTS: Rows(("router", "worker", "discriminator"), ("gateway", "console", CONSUMER, OPERATOR)),
    PLAN: Rows(  # the console: an operator's orders alone
        ("planner", "console", OPERATOR),
        ("router", "worker", "discriminator", "planner", "indexer", "gateway", "console", OPERATOR),
    ),
    SCHEMAS: Rows((*ROLES, OPERATOR), (*ROLES, CONSUMER, OPERATOR)),
    KEYS: Rows((OPERATOR,), ("gateway", "console", OPERATOR)),  # who may write here makes keys
    WEBHOOKS: Rows(("gateway", OPERATOR), ("gateway", OPERATOR)),
    FLEET: Rows(
        ("worker",), ("classifier", "router", "worker", "discriminator", "planner", "gateway", "console", OPERATOR)
    ),
    ACTIONS: Rows(("console", OPERATOR), ("console", OPERATOR)),
    POISON: Rows(("worker", OPERATOR), ("worker", OPERATOR)),
    DLQ: Rows(("classifier", "router", "worker", "discriminator", "ledger", "gateway"), ("console", OPERATOR)),
}


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group, by its name without the deployment's prefix."""

    name: str
    is_prefix: bool = False  # of several groups' names
    operations: tuple[str, ...] = ("Read",)  # as Kafka spells them


MEMBER = ("Read", "AlterConfigs")  # KIP-848 keeps a group's session timeout at the brokers: its members set it
WORKERS = "worker."
TRIAL = Group("doctor", operations=MEMBER)  # joined for a moment, to see which protocol the cluster speaks

# every client of ours may look at every group, and join few. Readers without a group name one too: librdkafka asks for
# the coordinator of any group that it is given, and reports a refusal again and again
DESCRIBE_GROUPS = Group(ALL, is_prefix=True, operations=("Describe",))

GROUPS: Mapping[str, tuple[Group, ...]] = {
    "classifier": (DESCRIBE_GROUPS, Group("classifier"), Group("classifier-batch")),
    "router": (
        DESCRIBE_GROUPS,
        TRIAL,
        Group("router"),
        Group("waiting", operations=MEMBER),
        Group(WORKERS, is_prefix=True, operations=MEMBER),
    ),
    "worker": (DESCRIBE_GROUPS, TRIAL, Group(WORKERS, is_prefix=True, operations=MEMBER)),
    "discriminator": (DESCRIBE_GROUPS, Group("discriminator")),
    "ledger": (DESCRIBE_GROUPS, TRIAL, Group("ledger", operations=MEMBER)),
    "planner": (DESCRIBE_GROUPS, Group("planner")),
    "indexer": (DESCRIBE_GROUPS, TRIAL, Group("indexer", operations=MEMBER)),
    "gateway": (DESCRIBE_GROUPS, TRIAL, Group("webhooks", operations=MEMBER)),
    "console": (DESCRIBE_GROUPS, TRIAL),
    PRODUCER: (DESCRIBE_GROUPS,),
    CONSUMER: (DESCRIBE_GROUPS, Group("consumer", is_prefix=True)),
    OPERATOR: (DESCRIBE_GROUPS, TRIAL),
}

# who asks for the brokers' limits on timeouts of groups; without the right Kafka's own are taken
SEES_LIMITS = frozenset(
    {"classifier", "router", "worker", "discriminator", "ledger", "indexer", "gateway", "console", OPERATOR}
)

# beginnings of transactional ids, without the deployment's prefix
TRANSACTIONS: Mapping[str, tuple[str, ...]] = {
    "ledger": ("ledger.",),
    "planner": ("planner",),
    OPERATOR: ("doctor",),
}


def written_by(who: str) -> list[str]:
    """The topics that one of WHO writes, in the table's order; each of OF_VARIANTS stands for all variants' topics."""
    return [topic for topic, rows in ACCESS.items() if who in rows.written_by]


def read_by(who: str) -> list[str]:
    """The topics that one of WHO reads, in the table's order; each of OF_VARIANTS stands for all variants' topics."""
    return [topic for topic, rows in ACCESS.items() if who in rows.read_by]
