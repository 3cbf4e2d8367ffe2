"""`pochade components`: the bases, adapters and controls of a catalog, where workers fetch them from."""

from typing import TYPE_CHECKING, Any

import click

from agents.commands.options import CATALOG
from streams.cli import LazySettings
from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import SHOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.components.publishing import Compared

COLUMNS = ("component", "state", "files", "bytes", "sent_bytes", "sha256")


@click.group(cls=CommandGroup, epilog="\b\nExamples:\n  pochade components publish --to s3://weights/pochade")
def components() -> None:
    """Publish bases, adapters and controls of a catalog to where workers fetch them from."""


@components.command()
@click.argument("names", nargs=-1, metavar="[COMPONENT]...")
@CATALOG
@click.option("--to", help="Remote: s3://BUCKET/PREFIX, or a folder (default: the setting worker.components.remote).")
@click.option("--force", is_flag=True, help="Copy every file, also those that the remote's list says are there.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and copy nothing.")
@SHOWN
@click.pass_obj
def publish(
    obj: LazySettings, names: tuple[str, ...], name: str | None, to: str | None, output: str, *, force: bool,
    dry_run: bool,
) -> None:  # fmt: skip
    """Copy components of a catalog, such as base:poster or adapter:candy, to a remote; without names all of them.

    Each lies there under KIND/NAME with a list of its files and their sha-256, which is written last: workers with the
    setting worker.components.remote fetch by it. Files that the list has already with the same sha-256 stay, so that
    the command may be repeated after it was interrupted. A component whose weights have another sha-256 than the
    catalog says is refused before anything is copied. A file that was altered in the remote is replaced by --force.

    \b
    Examples:
      pochade components publish --to s3://weights/pochade
      pochade components publish base:poster adapter:candy --to /mnt/weights -o json
      pochade --set worker.components.remote=s3://weights/pochade components publish --dry-run
    """
    from agents.components.publishing import compare, describe, fetched_components, send
    from agents.engines import model_source
    from schemas.errors import PochadeError
    from streams import catalogs
    from streams.weights.remotes.open import open_remote

    settings = obj()
    remote = to or settings.worker.components.remote
    if not remote:
        raise PochadeError("no remote: give --to s3://BUCKET/PREFIX or a folder, or set worker.components.remote")
    served = catalogs.load(name or settings.catalog).served.values()
    chosen = fetched_components([each for each in served if each.engine == "diffusers"], names)
    with listing.progress(chosen, "reading") as shown:
        local = [describe(each, model_source) for each in shown]
    store = settings.store
    with listing.progress(local, "comparing") as shown:
        compared = [
            compare(each, remote, lambda url: open_remote(url, store.s3_endpoint_url, store.s3_region), force=force)
            for each in shown
        ]
    if not dry_run:
        with listing.progress(None, "publishing", sum(each.lacking.bytes for each in compared)) as bar:
            for each in compared:
                send(each, bar.update)
    rows = [_row(each, is_sent=not dry_run) for each in compared]
    listing.show(rows, COLUMNS, output)
    _summarise(rows, remote, is_sent=not dry_run)


def _row(compared: "Compared", *, is_sent: bool) -> dict[str, Any]:
    from agents.components.sources import weights_of
    from agents.components.weight_files import digest_of_digests

    local, lacking = compared.local, compared.lacking
    changed = "published" if is_sent else "to publish"
    return {
        "component": local.component.id,
        "state": "present" if lacking.is_nothing else changed,
        "files": len(local.listed.files),
        "bytes": local.listed.bytes,
        "sent_files": len(lacking.files) if is_sent else 0,
        "sent_bytes": lacking.bytes if is_sent else 0,
        "missing_bytes": 0 if is_sent else lacking.bytes,
        "sha256": digest_of_digests(weights_of(local.listed)),
        "digest": local.listed.digest,
        "url": compared.remote.url,
    }


def _summarise(rows: "Sequence[dict[str, Any]]", remote: str, *, is_sent: bool) -> None:
    changed = [row for row in rows if row["state"] != "present"]
    size = sum(row["sent_bytes"] + row["missing_bytes"] for row in changed)
    verb = "published" if is_sent else "to publish"
    click.echo(f"{len(changed)} of {len(rows)} components {verb} to {remote}, {size / 1e6:.1f} MB", err=True)
