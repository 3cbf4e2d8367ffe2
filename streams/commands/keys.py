"""`pochade keys create | ls | revoke`: API keys of the gateway's and the console's clients."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from streams.clock import now_ms, utc
from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import LISTED, SHOWN, Ago
from streams.security.scopes import EVERY_SCOPE, SCOPES
from streams.visible import json_text, visible

if TYPE_CHECKING:
    from schemas.messages import ApiKey
    from streams.settings import Settings

COLUMNS = ("id", "tenant", "name", "scopes", "created", "expires", "state")


@click.group(cls=CommandGroup)
def keys() -> None:
    """Create, list and revoke API keys, which clients of the gateway show (setting gateway.authentication).

    A key is rotated by creating another for its tenant, giving that to the client, and revoking the first.

    \b
    Examples:
      pochade keys create studio --name laptop --expires 90d
      pochade keys ls
      pochade keys revoke 9f86d081884c7d65
    """


@keys.command()
@click.argument("tenant")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(EVERY_SCOPE),
    multiple=True,
    help="What the key is for: generate asks for images and cancels, read looks at jobs and models (default: both); in "
    "the console viewer looks at every tenant's requests, and operator changes the pipeline.",
)
@click.option("--expires", type=Ago(), metavar="DURATION", help="Time until the key is refused, such as 90d.")
@click.option("--name", default="", help="Name that `pochade keys ls` shows beside the key.")
@SHOWN
@click.pass_obj
def create(
    load: "Callable[[], Settings]", tenant: str, scopes: tuple[str, ...], expires: int | None, name: str, output: str
) -> None:
    """Create a key for TENANT and print it, once: only its SHA-256 digest is stored.

    Every request with the key is one of TENANT, whose quota holds (settings tenants.TENANT).

    \b
    Examples:
      pochade keys create studio
      pochade keys create studio --scope read --name dashboard --expires 90d -o json | jq -r .key
    """
    from streams.control.api_keys import store
    from streams.security.api_keys import new_key
    from streams.security.process_user import process_user

    now = now_ms()
    key, known = new_key(
        tenant, scopes or SCOPES, now, expires_ms=now + expires if expires else None, name=name, by=process_user()
    )
    store(load(), known)
    if output == "json":
        click.echo(json_text({"key": key, **_row(known, now)}))
        return
    click.echo(key)
    click.echo(f"key {known.key_id} of tenant {visible(tenant)}; it is not shown again", err=True)


@keys.command()
@click.option("--all", "is_all", is_flag=True, help="List revoked and expired keys, too.")
@LISTED
@click.pass_obj
def ls(load: "Callable[[], Settings]", is_all: bool, output: str) -> None:
    """List the keys that hold, the oldest first, with the id that `revoke` takes.

    The id is the beginning of a key's SHA-256 digest: `printf %s "$KEY" | sha256sum | cut -c 1-16` finds that of a key.

    \b
    Examples:
      pochade keys ls
      pochade keys ls --all -o jsonl | jq -r .state
    """
    from streams.control.api_keys import stored

    rows = [_row(each, now_ms()) for each in stored(load())]
    listing.show([row for row in rows if is_all or row["state"] == "holds"], COLUMNS, output)


@keys.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def revoke(load: "Callable[[], Settings]", ids: tuple[str, ...]) -> None:
    """Revoke the keys with these IDs for good: every gateway refuses them within a second.

    Requests that are in work go on; `pochade cancel` ends them.

    \b
    Examples:
      pochade keys revoke 9f86d081884c7d65
    """
    from dataclasses import replace

    from streams.control.api_keys import one_of, store, stored

    settings = load()
    known = stored(settings)
    for key in [one_of(known, key_id) for key_id in ids]:
        if key.revoked_ms is None:
            store(settings, replace(key, revoked_ms=now_ms()))
        when = "is revoked" if key.revoked_ms is None else "was revoked before"
        click.echo(visible(f"{key.key_id} of tenant {key.tenant} {when}"))


def _row(key: "ApiKey", now_ms: int) -> dict[str, Any]:
    from streams.security.api_keys import why_refused

    return {
        "id": key.key_id, "tenant": key.tenant, "name": key.name or None, "scopes": " ".join(key.scopes),
        "created": utc(key.created_ms), "expires": utc(key.expires_ms) if key.expires_ms else None, "by": key.by,
        "state": str(why_refused(key, now_ms) or "holds"),
    }  # fmt: skip
