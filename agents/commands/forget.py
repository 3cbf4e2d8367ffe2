"""`pochade forget`: deletes what is one tenant's."""

import click

from streams.cli import LazySettings
from streams.commands import listing
from streams.commands.options import LISTED
from streams.visible import counted


@click.command()
@click.argument("tenant")
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted; delete nothing.")
@LISTED
@click.pass_obj
def forget(obj: LazySettings, tenant: str, dry_run: bool, output: str) -> None:
    """Delete the images, latents, index rows, API keys and webhooks of TENANT, and show until when the rest lies there.

    Kafka deletes records by their age alone: what its requests said stays on the topics until the time that is shown.
    Repeat the command once the last request of TENANT has ended. What no record names any more, such as images older
    than `results` keeps, goes by `pochade gc`: SECURITY.md lists what is not found.

    Exit status 1 says that a record could not be read, and that the images which it may name are still there.

    \b
    Examples:
      pochade forget studio --dry-run
      pochade forget studio -o json
    """
    from agents.indexer.forgetting import forget as forgotten
    from streams.store.open import open_store

    settings = obj()
    rows, unreadable = forgotten(settings, open_store(settings), tenant, dry_run=dry_run)
    listing.show(rows, ("what", "count", "deleted", "until"), output)
    if unreadable:
        click.echo(
            f"{counted(unreadable, 'record')} cannot be read, and images that they may name are not deleted: "
            "upgrade this command to the version of the roles, and repeat it",
            err=True,
        )
        raise SystemExit(1)
