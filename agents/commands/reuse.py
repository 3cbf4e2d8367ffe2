"""`pochade reuse status | explain | clear | rebuild`: the index of stored latents that images may begin from."""

import json
from collections.abc import Mapping
from typing import Any

import click

from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import LISTED, SHOWN, duration, since_option
from streams.settings import Settings
from streams.visible import json_text, visible

WORKER_COLUMNS = ("worker", "breaker", "lookups", "unanswered", "p50_ms", "p95_ms", "hits", "misses")
STAGE_COLUMNS = ("level", "reused", "step", "steps", "similarity", "why")


@click.group(cls=CommandGroup)
def reuse() -> None:
    """Show, explain, clear and rebuild the index of latents that images may begin from.

    \b
    Examples:
      pochade reuse status
      pochade reuse explain demo-0-0007
      pochade reuse clear --tenant ann
      pochade reuse rebuild
    """


@reuse.command()
@SHOWN
@click.pass_obj
def status(obj: LazySettings, output: str) -> None:
    """Show what the plan in force asks for, what the index holds, and how the workers' lookups do.

    \b
    Examples:
      pochade reuse status
      pochade reuse status -o json | jq .store.rows
    """
    from agents.indexer import operating
    from streams.control.history import published

    settings = obj()
    plans = published(settings).plans
    found = operating.status(settings, plans[-1] if plans else None)
    if output == "json":
        click.echo(json_text(found, indent=2))
        return
    store = found["store"]
    rows = "unknown" if store["rows"] is None else store["rows"]
    asks = "asks for no reuse" if found["reuse"] is None else json.dumps(found["reuse"])
    click.echo(f"plan    {'none' if found['plan'] is None else found['plan']}: {asks}")
    click.echo(visible(f"store   {store['url'] or 'none: set vectors.url'}, {rows} rows in {store['collection']}"))
    if store["trouble"]:
        click.echo(visible(f"        {store['trouble']}"))
    listing.show([_worker(each) for each in found["workers"]], WORKER_COLUMNS, "table")


@reuse.command()
@click.argument("request_id", metavar="REQUEST")
@since_option("How far back to look for the result, such as 10m, 2h or 7d.", "1d")
@SHOWN
@click.pass_obj
def explain(obj: LazySettings, request_id: str, since: int, output: str) -> None:
    """Show whether the image of REQUEST began from a stored one, and why or why not, from its result record.

    Whose image it was is not recorded.

    \b
    Examples:
      pochade reuse explain demo-0-0007
      pochade reuse explain mine-1 --since 7d -o json | jq .stages
    """
    from agents.indexer import operating
    from streams.commands import opening

    with opening.client(obj()) as client:
        result = opening.find(client, request_id, since)
    if result is None:
        raise PochadeError(
            f"no result of request {request_id!r} within the last {duration(since)}: it may still be in work, be "
            "older (--since 8d is all that is kept), or belong to another deployment (--set kafka.prefix=NAME)"
        )
    found = operating.explained(result)
    if output == "json":
        click.echo(json_text(found, indent=2))
    else:
        listing.show(found["stages"], STAGE_COLUMNS, "table")


@reuse.command()
@click.option("--tenant", metavar="NAME", help="Only rows and latents of this tenant (default: of all tenants).")
@click.option("--stale", is_flag=True, help="Only rows of autoencoders that no variant of the catalog has any more.")
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted; delete nothing.")
@LISTED
@click.pass_obj
def clear(obj: LazySettings, tenant: str | None, stale: bool, dry_run: bool, output: str) -> None:
    """Delete the rows of the index and their latents, and print counts.

    A store may show deleted rows for a moment; without its latent a row is useless at once. `pochade forget TENANT`
    deletes a tenant's images, too.

    \b
    Examples:
      pochade reuse clear --dry-run
      pochade reuse clear --tenant ann
      pochade reuse clear --tenant ann -o json
      pochade reuse clear --stale
    """
    from agents.indexer import operating
    from streams.store.open import open_store

    if stale and tenant is not None:
        raise click.UsageError("--stale is for the rows of all tenants: leave out --tenant")
    settings = obj()
    if stale:
        listing.show(_cleared_stale(settings, dry_run=dry_run), ("autoencoder", "latents", "deleted"), output)
        return
    found = operating.clear(settings, open_store(settings), tenant, dry_run=dry_run)
    listing.show([found], ("tenant", "latents", "deleted"), output)


@reuse.command()
@LISTED
@click.pass_obj
def rebuild(obj: LazySettings, output: str) -> None:
    """Make the index agree with the results within the plan's time to live and the object store, and print counts.

    A result whose latent lies in the store gets its row; one whose latent is gone loses it. Rows that are there stay;
    running it twice changes nothing. A store that reads latents and does not list them has lost its list: they count as
    unlisted, get their rows, and nothing is deleted.

    \b
    Examples:
      pochade reuse rebuild
      pochade reuse rebuild -o json
    """
    from agents.indexer import operating
    from streams import catalogs
    from streams.control.history import in_force, published
    from streams.store.open import open_store

    settings = obj()
    catalog = catalogs.load(settings.catalog)
    found = operating.rebuild(settings, catalog, open_store(settings), in_force(published(settings)))
    listing.show([found], ("results", "latents", "unlisted", "gone", "rows"), output)


def _cleared_stale(settings: Settings, *, dry_run: bool) -> list[dict[str, Any]]:
    """One row for each stale autoencoder; its latents are those that results name."""
    from schemas.messages import ReuseStorage
    from streams import catalogs
    from streams.control.history import published
    from streams.operator import reuse_index
    from streams.store.open import open_store

    plans = published(settings).plans
    storage = plans[-1].reuse.storage if plans and plans[-1].reuse is not None else ReuseStorage()
    variants = catalogs.load(settings.catalog).variants.keys()
    stale = reuse_index.stored_latents(settings, variants, storage.ttl_s).stale()
    reuse_index.clear_stale(settings, open_store(settings), stale, dry_run=dry_run)
    return [{"autoencoder": name, "latents": len(uris), "deleted": not dry_run} for name, uris in stale.items()]


def _worker(row: Mapping[str, Any]) -> dict[str, Any]:
    misses = ", ".join(f"{why} {count}" for why, count in sorted(row["misses"].items()))
    return {**row, "unanswered": f"{row['unanswered']:.0%}", "misses": misses or "none"}
