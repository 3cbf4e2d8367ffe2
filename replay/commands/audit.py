"""`pochade audit`: compares topics and images with the promises of delivery."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.commands.options import SHOWN, Ago, since_option

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from replay.verify.audit.reading import Audited
    from streams.settings import Settings

APART = {
    "broken_promises",
    "lost_ids",
    "unread_ids",
    "lost_at",
    "differing_ids",
    "deleted_unread_where",
    "duplicate_ids",
    "late_commit_ids",
    "failed_for",
    "reuse_contradictory_ids",
    "reuse_sourceless_ids",
    "components_wrong_for",
    "components_unlisted_ids",
    "pictures",
}  # not in the table as they are
WORDS = {  # figure of JSON -> row of the table
    "begun_in_vain": "generations begun without an image in the end",
    "wasted_s": "worker seconds of repeated generations",
}
SENTENCES = ("broken", "foreign")  # of images; the table counts them


@click.command()
@since_option("Audit only requests accepted within this time, such as 1h (default: all that the topics hold).")
@click.option(
    "--until", type=Ago(), help="Leave out requests accepted within this time, such as 5m, as they may still be open."
)
@click.option(
    "--images/--no-images",
    "with_images",
    default=True,
    help="Read every image that a result names and check its hash.",
)
@click.option(
    "--orphan-age",
    type=Ago(),
    default="1h",
    show_default=True,
    help="Minimum age of an image that no result names to count as an orphan.",
)
@SHOWN
@click.pass_obj
def audit(
    load: "Callable[[], Settings]",
    since: int | None,
    until: int | None,
    with_images: bool,
    orphan_age: int,
    output: str,
) -> None:
    """Read all topics again and count requests that were lost, ended twice, ended late or generated twice.

    Exit status 1 says that a promise is broken. Records that Kafka deleted before their role had read them break it,
    found now or at a role's start and kept on the dlq. Of the records of `prompts`, the first with an id is the
    request, and the others repeat it: they get nothing new, and those with other content are named in a warning. A
    request without a result is open while some role has not committed past a record of it, and lost otherwise, with
    the place of its record. A result is late if an earlier outcome of the request lies before
    the one that it was made from. A result whose image began from a stored latent must agree with its path; where all
    results are read, another of its tenant must have left a latent. A result of a request that named components must
    name the same ones, as the catalog now lists them. Images are read and compared with the hash that their result
    names. Roles may run meanwhile.

    \b
    Examples:
      pochade audit
      pochade audit --since 1h --no-images
      pochade --set kafka.prefix=pochade-demo-1122-0900 audit -o json
    """
    import math

    from replay.verify.audit import reading
    from streams.clock import now_ms

    now = now_ms()
    found = reading.audit(
        load(),
        since_ms=0 if since is None else max(1, now - since),
        until_ms=math.inf if until is None else now - until,
        with_images=with_images,
        orphan_ms=orphan_age,
    )
    show(found, output)


def show(found: "Audited", output: str) -> None:
    """Print the figures of an audit. Raises PochadeError where they break a promise."""
    import json

    from replay.verify.audit import figures
    from streams.commands import listing

    counted = figures.as_json(found.figures, found.images)
    if (warning := figures.warning(found.figures)) is not None:
        click.echo(f"warning: {warning}", err=True)
    if output == "json":
        click.echo(json.dumps(counted, ensure_ascii=False, indent=2))
    else:
        listing.show(rows(counted), ("figure", "value"), output)
    broken = figures.verdict(found.figures, found.images)
    if broken is not None:
        raise PochadeError(broken)
    if output != "json":
        click.echo(figures.describe_success(found.images))


def rows(counted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures as lines of a table, those of images among them; ids are for JSON."""
    images = counted.get("pictures", {})
    lines = {name: value for name, value in counted.items() if name not in APART}
    lines |= {f"images {name.replace('_', ' ')}": value for name, value in images.items() if name not in SENTENCES}
    lines |= {f"images {name}": len(images[name]) for name in SENTENCES if images}
    return [{"figure": _in_words(name), "value": _as_text(value)} for name, value in lines.items()]


def _in_words(key: str) -> str:
    return WORDS.get(key) or key.replace("_", " ").replace("painted", "generated")  # JSON keeps its keys


def _as_text(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{count} {name}" for name, count in sorted(value.items(), key=lambda item: -item[1])) or "none"
