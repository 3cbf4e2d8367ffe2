"""The options of a long run, and the deployment that follows from them: a home, topics and processes of its own."""

import json
import pathlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from planner.policies import JUDGES_ALL
from replay.local.deployment import own_deployment
from replay.local.processes import RoleProcess, role_process
from schemas.topics import ENDED, PLAN, RESULTS, SCHEMAS
from streams.kafka.clients import client_config, topic_name
from streams.kafka.topics import own_topics
from streams.processes.announced import FOLDER
from streams.settings import Settings

ROLES: Final = ("classifier", "router", "discriminator", "ledger", "planner")
CATALOG: Final = pathlib.Path(__file__).with_name("catalog.toml")
SEGMENT_BYTES: Final = 16 * 2**20
FLOW_BYTES: Final = 64 * 2**20  # of a partition: thousands of requests, where less than a thousand are open
# of a partition of `results`: a ledger that starts reads those that no chunk of 65,536 ids covers, 2.2 kB each
RESULT_BYTES: Final = 384 * 2**20
RETENTION: Final = {"segment.bytes": SEGMENT_BYTES, "retention.bytes": FLOW_BYTES, "results": RESULT_BYTES}
IMAGES_KEPT_MS: Final = 600_000  # longer than any request is open
ALTER_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """The options of `pochade soak` that a run keeps; either `requests` or `hours` is given."""

    requests: int | None = None
    hours: float | None = None
    workers: int = 2
    outstanding: int = 48
    is_here: bool = False

    def asked(self) -> dict[str, Any]:
        """Return the options for state and report."""
        return asdict(self)


def deployment_of(settings: Settings, options: SoakOptions, name: str) -> Settings:
    """Return the settings of a run: the deployment's, or one of its own in HOME/soak/NAME with a broker of its own."""
    if options.is_here:
        return settings
    home = settings.home.expanduser().resolve() / "soak" / name
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": ""})
    store = settings.store.model_copy(update={"folder": str(home / "images"), "url": ""})
    own = settings.model_copy(update={"home": home, "kafka": kafka, "store": store})
    return own_deployment(
        own, "soak", catalog=str(CATALOG), engine="profile", policy=JUDGES_ALL, workers=options.workers
    )


def worker_ids(options: SoakOptions) -> list[str]:
    """Return the ids of the workers of a deployment of its own."""
    return [f"worker-{number}" for number in range(1, options.workers + 1)]


def processes_of(options: Sequence[str], workers: Sequence[str]) -> list[RoleProcess]:
    """Return one process per role and worker. None is forked: what it shared with its server would count as its own."""
    roles = [role_process(role, [role], options, {}) for role in ROLES]
    roles += [role_process(worker, ["worker"], options, {"worker.id": worker}) for worker in workers]
    return [RoleProcess(name=each.name, command=(each.command[0], "-u", *each.command[1:])) for each in roles]


def announced(home: pathlib.Path, prefix: str) -> dict[str, int]:
    """Return role -> process of a deployment's roles on this machine, by the files that they leave under `home`."""
    found: dict[str, int] = {}
    for file in sorted((home / FOLDER).glob("[0-9]*"), key=lambda file: int(file.name)):
        kept = json.loads(file.read_text())
        if kept["prefix"] == prefix and psutil.pid_exists(int(file.name)):
            role = "+".join(kept["roles"])
            found[role if role not in found else f"{role} {file.name}"] = int(file.name)
    return found


def bound_disk(settings: Settings) -> None:
    """Let the topics of a deployment of its own keep `RETENTION`, so that a million requests fill no disk."""
    skipped = {topic_name(settings, name) for name in (PLAN, SCHEMAS)}
    client, results = AdminClient(client_config(settings)), topic_name(settings, RESULTS)
    wanted = []
    for name in own_topics(settings):
        if name in skipped or name == topic_name(settings, ENDED):
            continue
        kept = {"segment.bytes": SEGMENT_BYTES, "retention.bytes": RESULT_BYTES if name == results else FLOW_BYTES}
        entries = [
            ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET) for key, value in kept.items()
        ]
        wanted.append(ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries))
    futures: dict[ConfigResource, Future[None]] = client.incremental_alter_configs(wanted, request_timeout=ALTER_S)
    for future in futures.values():
        future.result(2 * ALTER_S)
