"""`pochade up`, `down` and `status`: the broker of this deployment."""

import json
from collections.abc import Callable
from typing import Any

import click
from rich.table import Table

from streams.broker import address, embedded, probe
from streams.commands.options import SHOWN
from streams.commands.terminal import console
from streams.kafka.topics import create_topics, own_topics
from streams.settings import Settings
from streams.vectors import lite, lite_server

Load = Callable[[], Settings]


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command()
@click.pass_obj
def up(load: Load) -> None:
    """Start the embedded broker and its schema registry, or check the configured cluster; create the topics.

    The command can be repeated: a running broker is left alone. The broker is Apache Kafka; it needs Java 17 (or
    Docker), keeps its data under HOME/kafka and runs until `pochade down`. With vectors.url=lite, Milvus Lite is
    started too; it keeps its rows under HOME/vectors.

    \b
    Examples:
      pochade up
      pochade --home /srv/pochade up
      POCHADE_KAFKA__BOOTSTRAP_SERVERS=kafka:9092 pochade up
    """
    settings = load()
    running = embedded.ensure(settings, _say)
    created = create_topics(settings)
    click.echo(f"broker    {running.bootstrap}")
    if running.registry_url:
        click.echo(f"registry  {running.registry_url}")
    click.echo(f"topics    {settings.kafka.prefix}.*: {len(created)} created")
    if settings.vectors.url == "lite":
        click.echo(f"vectors   {lite_server.ensure(settings, _say)}")


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
    else:
        click.echo("nothing to stop: no broker runs here")


@click.command()
@SHOWN
@click.pass_obj
def status(load: Load, output: str) -> None:
    """Show whether a broker runs, its address, memory and topics, and the addresses of its registry and Milvus Lite.

    \b
    Examples:
      pochade status
      pochade status -o json
    """
    facts = describe(load())
    if output == "json":
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        if value is not None:
            table.add_row(name.replace("_", " "), str(value))
    console(markup=False).print(table)


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
        "pid": None,
        "memory_mb": None,
        "home": str(address.kafka_home(settings).parent),
    }
    if found is None:
        return facts
    probe.reach(settings)
    facts["topics"] = len(own_topics(settings))
    if known is not None and known.broker is not None:
        facts["pid"] = getattr(known.broker, "pid", None)
        facts["memory_mb"] = round(known.broker.rss_bytes() / 2**20) or None
        facts["registry_url"] = found.registry_url if known.registry and known.registry.is_alive() else None
    return facts


def _vectors_url(settings: Settings) -> str | None:
    """The address of the configured vector store, or of the Milvus Lite that runs here."""
    local = lite.running(settings)
    configured = settings.vectors.url if settings.vectors.url.startswith("http") else None
    return local.url if local else configured
