"""`pochade topics ...`: the topic table against the cluster, rights on it, and the document that describes it."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from schemas.access import WHO
from schemas.errors import Unknown
from schemas.topics import TABLE, Topic, full_name
from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import LISTED, SHOWN, duration, output_option
from streams.visible import counted

if TYPE_CHECKING:
    from streams.operator.cluster import Found
    from streams.settings import Settings

VARIANTS = click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="Name of a variant that needs a job topic; may be repeated.",
)


@click.group(cls=CommandGroup)
def topics() -> None:
    """List, create and check the deployment's topics against the topic table in schemas/topics.py.

    \b
    Examples:
      pochade topics list
      pochade topics create --variant light --variant heavy
      pochade topics diff
    """


@topics.command("list")
@LISTED
@click.pass_obj
def list_topics(load: "Callable[[], Settings]", output: str) -> None:
    """List the topics that exist, with partitions, copies and retention.

    \b
    Examples:
      pochade topics list
      pochade topics list -o jsonl | jq -r .topic
    """
    from streams.operator import cluster

    settings = load()
    rows = [_row(found, settings.kafka.prefix) for found in cluster.topics(settings).values()]
    listing.show(rows, ("topic", "partitions", "replicas", "kept", "key", "written_by", "read_by"), output)


@topics.command()
@VARIANTS
@click.option("--dry-run", is_flag=True, help="Only show which topics would be created; create nothing.")
@LISTED
@click.pass_obj
def create(load: "Callable[[], Settings]", variants: tuple[str, ...], dry_run: bool, output: str) -> None:
    """Create missing topics; existing topics stay as they are. Roles do this at their start, for their catalog.

    \b
    Examples:
      pochade topics create
      pochade topics create --variant light --variant heavy --dry-run
    """
    from streams.kafka.topics import create_topics, own_topics
    from streams.operator.cluster import expected

    settings = load()
    if dry_run:
        there = set(own_topics(settings))
        names = [
            full_name(settings.kafka.prefix, t.name)
            for t in expected(variants, settings.kafka.jobs_partitions, settings.kafka.flow_partitions)
        ]
        created = [name for name in names if name not in there]
    else:
        created = create_topics(settings, variants)
    listing.show([{"topic": name, "created": not dry_run} for name in created], ("topic", "created"), output)
    click.echo(f"{len(created)} {'would be created' if dry_run else 'created'}", err=True)


@topics.command()
@click.argument("name")
@SHOWN
@click.pass_obj
def describe(load: "Callable[[], Settings]", name: str, output: str) -> None:
    """Show the topic NAME: partitions, copies, who writes and reads it, and its whole configuration.

    NAME may leave out the deployment's prefix.

    \b
    Examples:
      pochade topics describe results.v1
      pochade topics describe pochade.results.v1 -o json | jq .config
    """
    from streams.operator import cluster

    settings = load()
    found = cluster.topics(settings)
    short = name.removeprefix(settings.kafka.prefix + ".")
    if short not in found:
        raise Unknown("topic", name, found)
    facts = {**_row(found[short], settings.kafka.prefix), "config": dict(sorted(found[short].config.items()))}
    if output == "json":
        listing.show([facts], [], "jsonl")
        return
    config = facts.pop("config")
    for key, value in [*facts.items(), *config.items()]:
        click.echo(f"{key:<40}  {value}")


@topics.command()
@VARIANTS
@LISTED
@click.pass_obj
def diff(load: "Callable[[], Settings]", variants: tuple[str, ...], output: str) -> None:
    """Compare the cluster's topics with the topic table; exit status 1 says that something differs, and what to do.

    Job topics are compared for variants that have one and for those of --variant; each needs kafka.jobs_partitions or
    more partitions.

    \b
    Examples:
      pochade topics diff
      pochade topics diff --variant light --variant heavy -o json
    """
    from streams.operator import cluster
    from streams.operator.cluster import differences, expected, variants_of

    settings = load()
    found = cluster.topics(settings)
    wanted = expected([*variants, *variants_of(found)], settings.kafka.jobs_partitions, settings.kafka.flow_partitions)
    differing = differences(wanted, found, settings.kafka.prefix)
    listing.show([asdict(each) for each in differing], ("topic", "what", "wanted", "found", "do"), output)
    click.echo(f"{counted(len(wanted), 'topic')} wanted, {counted(len(differing), 'difference')}", err=True)
    if differing:
        raise SystemExit(1)


@topics.command("acls")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="NAME",
    help="Print only the rights of this role or client; may be repeated.",
)
@click.option(
    "--principal",
    "named",
    multiple=True,
    metavar="NAME=User:WHO",
    help="Principal that a role or client connects as (default: User:PREFIX-NAME); may be repeated.",
)
@click.option(
    "--apply", "is_applied", is_flag=True, help="Create the ACLs on the cluster, as the user of these settings."
)
@output_option(
    "Output format: kafka-acls.sh commands, a table, one JSON array, or one JSON object per line.",
    *("text", "table", "json", "jsonl"),
)
@click.pass_obj
def acls(
    load: "Callable[[], Settings]", roles: tuple[str, ...], named: tuple[str, ...], is_applied: bool, output: str
) -> None:
    """Print the least rights that each role and client needs, as kafka-acls.sh commands.

    Roles: classifier, router, worker, discriminator, ledger, planner. Clients: producer (submits), consumer (reads
    results), operator (creates topics, cancels, pins plans, doctor, audit). Nothing is contacted without --apply. An
    idempotent producer needs no right on the cluster. `bench`, `demo` and `chaos` create topics with prefixes of
    their own and need a cluster for themselves.

    \b
    Examples:
      pochade topics acls
      pochade topics acls --role router --principal router=User:CN=router
      pochade --config admin.toml topics acls --apply
    """
    from streams.security.acls import acls as rights
    from streams.security.acls import commands, create_acls, principals

    settings = load()
    rows = rights(settings.kafka.prefix, principals(named, settings.kafka.prefix), roles or WHO)
    if output == "text":
        for command in commands(rows, settings.kafka.bootstrap_servers or "HOST:PORT"):
            click.echo(command)
    else:
        shown = [{**asdict(row), "operations": ", ".join(row.operations)} for row in rows]
        listing.show(shown, ("who", "principal", "resource", "pattern", "name", "operations"), output)
    if is_applied:
        click.echo(f"{create_acls(settings, rows)} ACLs are there", err=True)


def _row(found: "Found", prefix: str) -> dict[str, Any]:
    table: dict[str, Topic] = {topic.name: topic for topic in TABLE}
    entry = table.get(found.name)
    is_job, is_waiting = found.name.startswith("jobs."), found.name.startswith("waiting.")
    kept = "for ever" if found.retention_ms == float("inf") else duration(found.retention_ms)
    return {
        "topic": full_name(prefix, found.name),
        "partitions": found.partitions,
        "replicas": found.replicas,
        "kept": "newest of each key" if found.config.get("cleanup.policy") == "compact" else kept,
        "key": entry.key if entry else "request_id" if is_job or is_waiting else None,
        "written_by": entry.written_by if entry else "router, discriminator" if is_job or is_waiting else None,
        "read_by": entry.read_by if entry else "the variant's workers" if is_job else "router" if is_waiting else None,
    }


@topics.command()
@click.pass_obj
def asyncapi(load: "Callable[[], Settings]") -> None:
    """Print the AsyncAPI 3.0 document of the deployment's topics, with their messages, as JSON. No broker is asked.

    \b
    Examples:
      pochade topics asyncapi > asyncapi.json
      pochade topics asyncapi | jq '.channels | keys'
    """
    import json
    from importlib.metadata import version

    from schemas.asyncapi import ANY_VARIANT, document
    from schemas.topics import jobs_topic, table, waiting_topic

    kafka = load().kafka
    of_variants = (jobs_topic(ANY_VARIANT, kafka.jobs_partitions), waiting_topic(ANY_VARIANT))
    brokers = [each.strip() for each in kafka.bootstrap_servers.split(",") if each.strip()]
    described = document(
        (*table(kafka.flow_partitions), *of_variants), kafka.prefix, version("pochade"), brokers,
        is_tls="SSL" in kafka.properties.get("security.protocol", "").upper(),
    )  # fmt: skip
    click.echo(json.dumps(described, indent=2))


@topics.command()
@click.argument("system", type=click.Choice(["strimzi"]))
@VARIANTS
@click.option("--cluster", default="kafka", show_default=True, help="Name of Strimzi's Kafka.")
@click.option(
    "--authentication",
    type=click.Choice(["scram-sha-512", "tls"]),
    default="scram-sha-512",
    show_default=True,
    help="How users show who they are: by a password, or by a certificate.",
)
@click.pass_obj
def render(
    load: "Callable[[], Settings]", system: str, variants: tuple[str, ...], cluster: str, authentication: str
) -> None:
    """Print topics and users with their rights as Strimzi's objects, for Kubernetes. No broker is asked.

    Variants are those of --variant, else of the catalog.

    \b
    Examples:
      pochade topics render strimzi | kubectl apply -f -
      pochade --set kafka.flow_partitions=24 topics render strimzi --cluster main > strimzi.yaml
    """
    del system  # the one that there is
    from streams import catalogs
    from streams.operator import strimzi

    settings = load()
    names = variants or sorted(catalogs.load(settings.catalog).served)
    for each in strimzi.objects(settings.kafka, names, cluster, authentication):
        click.echo(each)
