"""`pochade fetch` and `gc`: write an image of the store to a file, delete old images."""

import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from schemas.messages import Status
from streams.commands import listing, opening
from streams.commands.options import LISTED, UNITS_MS, Ago, duration, since_option
from streams.visible import counted

if TYPE_CHECKING:
    from streams.operator.gc import Garbage
    from streams.settings import Settings
    from streams.store.port import ImageStore, Stored


@click.command()
@click.argument("request_id", metavar="ID")
@click.option(
    "--out",
    "target",
    required=True,
    metavar="FILE",
    help="File to write the image to; - writes to standard output.",
)
@click.option(
    "--number",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of the image to write, where the request asked for several (from 1).",
)
@since_option("How far back to look for the request's result, such as 1d.", "8d")
@click.pass_obj
def fetch(load: "Callable[[], Settings]", request_id: str, target: str, number: int, since: int) -> None:
    """Write an image of the completed request ID to a file, from the store that the settings name.

    \b
    Examples:
      pochade fetch mine-1 --out heart.png
      pochade fetch demo-0-0007 --out - | display
      pochade fetch mine-2 --number 2 --out second.png
    """
    from streams.store.open import open_store

    settings = load()
    with opening.client(settings) as client:
        result = opening.find(client, request_id, since)
    if result is None:
        raise PochadeError(
            f"no result of request {request_id!r} within the last {duration(since)}: it may still be in work "
            f"(`pochade watch {request_id}`), or belong to another deployment (--set kafka.prefix=NAME)"
        )
    if result.status is not Status.COMPLETED or not result.image_uri:
        raise PochadeError(f"request {request_id} has no image: it ended as {result.status}: {result.reason}")
    images = result.image_uris or (result.image_uri,)
    if number > len(images):
        raise PochadeError(f"request {request_id} has {counted(len(images), 'image')}: got --number {number}")
    data = _read(open_store(settings), images[number - 1], result.ended_ms)
    if target == "-":
        click.get_binary_stream("stdout").write(data)
        return
    path = pathlib.Path(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise PochadeError(f"cannot write {path}: {error.strerror}") from error
    click.echo(f"{path}  {result.width} x {result.height} px, {len(data)} bytes", err=True)


def _read(store: "ImageStore", uri: str, ended_ms: int) -> bytes:
    """Return an image; one of a result that just came may not be readable yet, and is read again for a minute."""
    from planner.serving.backoff import backoff_s
    from planner.serving.unreadable import is_young
    from streams.clock import now_ms
    from streams.store.port import Unreadable

    failures = 0
    while True:
        try:
            return store.get(uri)
        except Unreadable:
            if not is_young(now_ms() - ended_ms):
                raise
        failures += 1
        time.sleep(backoff_s(failures))


@click.command()
@click.option(
    "--older-than",
    type=Ago(),
    help="Delete images older than this, such as 7d (default: the setting store.retention_days).",
)
@click.option(
    "--orphans",
    "with_orphans",
    is_flag=True,
    help="Also delete orphans: images that no result and no open request names.",
)
@click.option(
    "--orphan-age",
    type=Ago(),
    default="1h",
    show_default=True,
    help="Minimum age of an orphan to delete, such as 1h; a younger image may still be named by a result.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted; delete nothing.")
@LISTED
@click.pass_obj
def gc(
    load: "Callable[[], Settings]",
    older_than: int | None,
    with_orphans: bool,
    orphan_age: int,
    dry_run: bool,
    output: str,
) -> None:
    """Delete stored images that are past their retention, and print counts and bytes.

    Orphans are images that crashed or repeated work left: older than --orphan-age, and named by no result and no open
    request of this and every other deployment on the cluster (results name the drafts of escalated requests too). A
    stored latent is one where its request did not end COMPLETED, or where the index of what may be reused does not name
    it; while that index is empty or does not answer, latents that results name are kept, and the command says so. An
    image from before the oldest record of `results` stays until its retention ends. Do not use --orphans on a store
    that several clusters share.

    \b
    Examples:
      pochade gc --dry-run
      pochade gc --older-than 7d --orphans
      pochade gc --orphans -o json
    """
    from streams.clock import now_ms
    from streams.operator.gc import choose, needed
    from streams.store.open import open_store

    settings = load()
    retention = older_than if older_than is not None else settings.store.retention_days * UNITS_MS["d"]
    store = open_store(settings)
    now = now_ms()
    stored = list(store.list(now))  # before the records: an image stored meanwhile is not taken for an orphan
    there = needed(settings) if with_orphans else None
    for trouble in there.troubles if there else ():
        click.echo(trouble, err=True)
    named, kept_ms = (there.uris, there.results_kept_ms) if there else (None, 0.0)
    garbage = choose(stored, now, retention, named, kept_ms, orphan_age)
    if not dry_run:
        _delete(store, garbage)
    rows = [_row("old", garbage.old, dry_run)]
    if with_orphans:
        rows.append(_row("orphans", garbage.orphans, dry_run))
    rows.append(_row("kept", tuple(set(stored) - {*garbage.old, *garbage.orphans}), True))
    listing.show(rows, ("pictures", "count", "bytes", "deleted"), output)


def _delete(store: "ImageStore", garbage: "Garbage") -> None:
    with listing.progress([*garbage.old, *garbage.orphans], "deleting") as shown:
        for image in shown:
            store.delete(image.uri)


def _row(kind: str, images: "Sequence[Stored]", is_kept: bool) -> dict[str, Any]:
    size = sum(image.bytes for image in images)
    return {"pictures": kind, "count": len(images), "bytes": size, "deleted": not is_kept}
