"""`pochade up`, `down` and `status`: the broker of this deployment."""

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from planner.observation.workers import SERVING, is_alive
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Heartbeat
from schemas.topics import FLEET
from streams.broker import address, embedded, probe
from streams.clock import now_ms
from streams.commands import listing
from streams.commands.options import SHOWN
from streams.control.heartbeats import newest_beats
from streams.kafka.consumers import snapshot
from streams.kafka.groups.members import has_members
from streams.kafka.topics import create_topics, own_topics
from streams.operator.checks import READS, check_joined, check_topics
from streams.operator.cluster import Found, after_creation, differences, expected, topics
from streams.operator.verdicts import Check, Verdict
from streams.processes import announced
from streams.settings import Settings
from streams.vectors import lite, lite_server
from streams.visible import counted

Load = Callable[[], Settings]


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command()
@click.pass_obj
def up(load: Load) -> None:
    """Start the embedded broker and its schema registry, or check the configured cluster; create the topics.

    The command can be repeated: a running broker is left alone. The broker is Apache Kafka; it needs Java 17 (or
    Docker), keeps its data under HOME/kafka and runs until `pochade down`. With vectors.url=lite, Milvus Lite is
    started too; it keeps its rows under HOME/vectors. Exit status 1 says that topics exist that do not suit the roles.

    \b
    Examples:
      pochade up
      pochade --home /srv/pochade up
      POCHADE_KAFKA__BOOTSTRAP_SERVERS=kafka:9092 pochade up
    """
    settings = load()
    running = embedded.ensure(settings, _say)
    found = topics(settings)
    created = create_topics(settings)
    click.echo(f"broker    {running.bootstrap}")
    if running.registry_url:
        click.echo(f"registry  {running.registry_url}")
    click.echo(f"topics    {settings.kafka.prefix}.*: {len(created)} created, {len(found)} found")
    if settings.vectors.url == "lite":
        click.echo(f"vectors   {lite_server.ensure(settings, _say)}")
    checks = _unlike(settings, found) if found else []
    for check in checks:
        listing.show_check(check)
    if any(check.verdict is Verdict.FAIL for check in checks):
        raise SystemExit(1)


def _unlike(settings: Settings, found: Mapping[str, Found]) -> list[Check]:
    """Return what `doctor` finds wrong with topics that others made, now that those that were missing are there."""
    wanted = expected((), settings.kafka.jobs_partitions, settings.kafka.flow_partitions)
    there = after_creation(wanted, found)
    checks = check_topics(differences(wanted, there, settings.kafka.prefix)), check_joined(there)
    return [check for check in checks if check.verdict is not Verdict.OK]


@click.command()
@click.pass_obj
def down(load: Load) -> None:
    """Stop the embedded broker, its registry and Milvus Lite; data and ports stay for the next `up`.

    \b
    Examples:
      pochade down
    """
    settings = load()
    if lite_server.stop(settings):
        click.echo("stopped Milvus Lite")
    if address.is_foreign(settings):
        click.echo(f"nothing to stop: the broker is the configured cluster at {settings.kafka.bootstrap_servers}")
    elif embedded.stop(settings):
        click.echo("stopped")
        if roles := announced.running(settings.home.expanduser()):
            click.echo(f"{', '.join(roles)} still run, and try again until `pochade up` or you stop them", err=True)
    else:
        click.echo("nothing to stop: no broker runs here")


@click.command()
@SHOWN
@click.pass_obj
def status(load: Load, output: str) -> None:
    """Show whether a broker runs and requests are served, the broker's address and memory, and other addresses.

    "serves" begins with yes or no; no names the roles and workers that are missing or starting. Exit status 0 says
    that this could be shown, whether requests are served or not, so that scripts find the addresses while roles start;
    that of `doctor` says whether they are.

    \b
    Examples:
      pochade status
      pochade status -o json
    """
    facts = describe(load())
    if output == "json":
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if value is not None:
            click.echo(f"{name.replace('_', ' '):<18}{value}")


def describe(settings: Settings) -> dict[str, Any]:
    """Return the facts that `status` shows; None where one does not apply. `memory_mb` is the broker's resident memory.

    Raises:
        PochadeError: a configured cluster, or the running broker, does not answer.
    """
    found = address.find(settings)
    known = address.record(settings)
    facts: dict[str, Any] = {
        "broker": "stopped" if found is None else "configured" if address.is_foreign(settings) else "running",
        "bootstrap_servers": found.bootstrap if found else None,
        "registry_url": None,
        "vectors_url": _vectors_url(settings),
        "topics": None,
        "serves": "no: no broker runs (pochade up)",
        "pid": None,
        "memory_mb": None,
        "home": str(address.kafka_home(settings).parent),
    }
    if found is None:
        return facts
    probe.reach(settings)
    facts["topics"] = len(own_topics(settings))
    facts["serves"] = serves(settings) if facts["topics"] else "no: no topic exists (pochade up)"
    if known is not None and known.broker is not None:
        facts["pid"] = getattr(known.broker, "pid", None)
        facts["memory_mb"] = round(known.broker.rss_bytes() / 2**20) or None
        facts["registry_url"] = found.registry_url if known.registry and known.registry.is_alive() else None
    return facts


def serves(settings: Settings) -> str:
    """Say whether requests are served, by what lives: the roles between `prompts` and `results`, and workers."""
    try:
        absent = [role for role in READS if not has_members(settings, f"{settings.kafka.prefix}.{role}")]
        states = [beat.state for beat in _workers(settings)]
    except PochadeError as error:
        return f"not known: {error}"
    ready = sum(state in SERVING for state in states)
    others = f", {len(states) - ready} not ready" if ready < len(states) else ""
    workers = f"{counted(ready, 'worker')}{others}"
    missing = [*absent, *(() if states else ("worker",))]
    if missing:
        return f"no: {workers}; missing: {', '.join(missing)} (pochade serve {' '.join(missing)})"
    return f"yes: {', '.join(READS)} and {workers}" if ready else f"no: {workers} (pochade doctor)"


def _workers(settings: Settings) -> list[Heartbeat]:
    """Return the newest heartbeats of the workers that live; a record that is no heartbeat is passed over."""
    now, silent_ms = now_ms(), settings.planner.worker_timeout_ms
    with contextlib.suppress(InvalidRecord):
        beats = newest_beats(snapshot.past(settings, [FLEET], since_ms=now - silent_ms))
        return [beat.heartbeat for beat in beats.values() if is_alive(beat, now, silent_ms)]
    return []


def _vectors_url(settings: Settings) -> str | None:
    """The address of the configured vector store, or of the Milvus Lite that runs here."""
    local = lite.running(settings)
    configured = settings.vectors.url if settings.vectors.url.startswith("http") else None
    return local.url if local else configured
