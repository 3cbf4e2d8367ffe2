"""The one table of what `doctor` checks: each row says what is promised, and when its verdict is fail or warn.

Of the rows in STARTING the verdict is starting where it would be fail, while a role that serves it is there and not
ready.

PROMISE.md shows it (`python -m streams.operator.verdicts` writes it there), and a verdict that its row does not have
cannot be made: neither can say what the other denies.
"""

import pathlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

BEGIN, END = "<!-- begin: doctor's checks -->\n", "<!-- end: doctor's checks -->\n"
PAGE: Final = pathlib.Path(__file__).with_name("PROMISE.md")


class Verdict(StrEnum):
    """The severity of a check's finding."""

    OK = "ok"
    WARN = "warn"
    STARTING = "starting"  # nothing is wrong, but requests wait until a role is ready
    FAIL = "fail"


class Row(NamedTuple):
    """The texts of one kind of check; "" for a verdict that it never has."""

    promise: str  # what holds while it is ok
    fails: str  # requests are not served, or are or will be lost
    warns: str = ""


ROWS: Final[dict[str, Row]] = {
    "settings": Row("every setting is valid, librdkafka's own too", "one is not"),
    "disk": Row("there is room for records and images", "", "less than a GiB is free"),
    "store": Row("images can be stored", "the store cannot be opened"),
    "vectors": Row("latents can be looked up", "the vector store does not answer"),
    "models": Row(
        "levels have their models", "a folder that the catalog names is not here",
        "the catalog puts all workers of a variant on one card",
    ),
    "models load": Row("with --models: each model is loaded and does what the catalog says of it", "one does not"),
    "receipts": Row(
        "images can be signed, if `receipts.certificate` is set", "it or its key cannot be used, or is not valid now",
        "it expires within 30 days",
    ),
    "quality": Row("plans know how good each level's images are", "", "not every level's quality is measured"),
    "broker": Row("the cluster answers", "it does not; no further check is made"),
    "topics": Row(
        "every record is kept until it is read", "a topic is missing, or removes other records than the table says",
        "something else is not as the table says",
    ),
    "equal partitions": Row(
        "what has ended is known where its outcomes come; partitions may be added to `outcomes`",
        "`classified`, `results` and `ended` have different numbers of partitions, or `outcomes` fewer",
    ),
    "configuration": Row("retention, sizes and copies are known", "", "this user may not see them"),
    "retention": Row(
        "what has ended is remembered for longer than any record before it lives", "a topic keeps records for longer",
        "a topic's segments may",
    ),
    "record sizes": Row("no record is too large for its topic", "", "a topic takes less than the table says"),
    "copies": Row(
        "a lost broker takes no record along", "more copies must be in sync than there are",
        "a copy is away or behind; there is one copy, or one that is away stops writes, on three brokers or more",
    ),
    "rights": Row("this user may see every topic", "a topic may not be described", "one may not be read or written"),
    "rights in force": Row(
        "only who may writes internal topics", "the cluster checks no rights, and a broker listens beyond loopback",
        "the cluster does not say",
    ),
    "encryption": Row(
        "what clients and brokers send each other cannot be read on its way", "",
        "it is not encrypted, and a broker listens beyond loopback",
    ),
    "consumer groups": Row(
        "a dead member is missed within seconds", "a group cannot be joined",
        "it is missed later, or by the classic protocol",
    ),
    "transactions": Row("each request ends once", "none can be begun"),
    "roles": Row(
        "each kind of role serves, and no record waits for long",
        "a role has no member, or its oldest unread record, but that of `prompts.batch`, is older than a minute",
        "that is older than 10 s, or this user may not see the members",
    ),
    "gateway": Row("the gateway of this machine, if one runs, answers", "it runs and does not answer"),
    "strangers": Row(
        "partitions are given to our roles only", "a member of a group has another `client.id` than our clients",
        "this user may not see the members",
    ),
    "deleted unread": Row(
        "every accepted record is read", "records were deleted before they were read, now or in the last day",
    ),
    "queues": Row(
        "jobs reach a worker in time",
        "no router forwards them, or the oldest is older than twice `admission.max_backlog_s` and "
        "`worker.job_timeout_s` together",
        "this is of a level that is scaled to zero",
    ),
    "jobs": Row("each worker gets jobs", "a level has more workers than its topic has partitions"),
    "workers": Row(
        "a worker serves", "none lives, one has failed, or heartbeats cannot be read",
        "none lives, as the plan scales every level to zero; a heartbeat is overdue; two processes share an id",
    ),
    "safety": Row("every image is checked alike", "", "a worker stores images that others would check"),
    "clocks": Row("deadlines pass at the same time everywhere", "", "clocks differ by a second, or are not seen"),
    "plan": Row(
        "requests are routed by the planner's plan", "there is none: routers hold every request",
        "the topic holds plans that no planner has written",
    ),
    "planner": Row("plans follow the load", "", "no planner leads: the plan in force stays"),
    "reuse": Row("images begin from stored latents if a plan asks for it", "", "`vectors.url` names no vector store"),
    "indexer": Row("new latents are indexed", "", "no index writer serves, or it is behind"),
    "index": Row("the index can be searched", "its vectors have another dimension", "it is not there"),
    "missing rows": Row("every latent that the store has can be found", "", "images with such a latent have no row"),
    "stale rows": Row("every row of the index is of use", "", "rows are of an autoencoder that no level has"),
    "dead letters": Row(
        "every record was served", "", "records of the last hour were not; those set aside as unread are counted",
    ),
}  # fmt: skip


STARTING: Final = frozenset({"roles", "gateway", "workers", "plan"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The verdict on one fact; `do` says what to do about it, and is empty where the verdict is ok."""

    name: str
    verdict: Verdict
    found: str
    do: str = ""
    row: str = ""  # of ROWS; "": that of the same name

    def __post_init__(self) -> None:
        if not self.row:
            object.__setattr__(self, "row", self.name)
        assert self.row in ROWS, f"{self.row!r} is no row of {sorted(ROWS)}"


def ok(name: str, found: str, row: str = "") -> Check:
    """Return a check that passed."""
    return Check(name=name, verdict=Verdict.OK, found=found, row=row)


def warn(name: str, found: str, do: str, row: str = "") -> Check:
    """Return a check that passed, but found something that an operator should look at."""
    check = Check(name=name, verdict=Verdict.WARN, found=found, do=do, row=row)
    assert ROWS[check.row].warns, f"the row {check.row!r} never warns"
    return check


def starting(name: str, found: str, do: str, row: str = "") -> Check:
    """Return a check of what a role that starts will serve: requests are kept until it does."""
    check = Check(name=name, verdict=Verdict.STARTING, found=found, do=do, row=row)
    assert check.row in STARTING, f"the row {check.row!r} waits for no role"
    return check


def fail(name: str, found: str, do: str, row: str = "") -> Check:
    """Return a check that failed: requests are not served, or are or will be lost."""
    check = Check(name=name, verdict=Verdict.FAIL, found=found, do=do, row=row)
    assert ROWS[check.row].fails, f"the row {check.row!r} never fails"
    return check


def unmade(name: str, error: Exception, do: str, row: str = "") -> Check:
    """Return the verdict of a check that raised: what it is about is unknown, so that it fails whatever its row."""
    found = str(error) or type(error).__name__
    return Check(name=name, verdict=Verdict.FAIL, found=f"cannot be checked: {found}", do=do, row=row)


def table() -> str:
    """Return the rows as PROMISE.md shows them."""
    lines = [f"| `{name}` | {row.promise} | {row.fails} | {row.warns} |\n" for name, row in ROWS.items()]
    return "| check | promised | fails if | warns if |\n|---|---|---|---|\n" + "".join(lines)


def in_page(page: str) -> str:
    """Return the text of PROMISE.md with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(in_page(PAGE.read_text()))
