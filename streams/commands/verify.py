"""`pochade verify`: check the receipt of an image file, and join the decision about it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.commands import opening
from streams.commands.options import SHOWN, since_option
from streams.visible import json_text, visible

if TYPE_CHECKING:
    from streams.settings import Settings

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=FILE)
@click.option("--prompt", metavar="TEXT", help="Prompt that the image must have been made for.")
@click.option(
    "--receipt", type=FILE, help="Decision to join, as GET /v1/receipts/ID answers it (default: from the broker)."
)
@click.option(
    "--trust", type=FILE, help="PEM of authorities; what is signed with a certificate of no other issuer is refused."
)
@since_option("How far back to look for the result, such as 10m, 2h or 7d.", "7d")
@SHOWN
@click.pass_obj
def verify(
    load: "Callable[[], Settings]", file: Path, prompt: str | None, receipt: Path | None, trust: Path | None,
    since: int, output: str,
) -> None:  # fmt: skip
    """Check that the image FILE is as it was signed, and say what made it and why it was kept.

    The certificate lies in the file, so that no network is needed. A changed byte, another prompt, and a decision about
    another image or with another plan are refused, with exit status 1. Without --trust anybody may be the signer, and
    the answer says whether the authorities in the setting receipts.certificate vouch. Needs `pochade[receipts]`.

    \b
    Examples:
      pochade verify cat.png --trust signer.pem
      pochade verify cat.png --prompt "a cat" --receipt cat.json
      pochade verify cat.png -o json | jq .made.seed
    """
    from streams.operator.receipts import disagreement, sha256_of
    from streams.security.receipts import DEMO, read_image, read_record

    settings, data = load(), file.read_bytes()
    own = settings.receipts.certificate
    trusted = trust.read_bytes() if trust else Path(own).read_bytes() if own not in ("", DEMO) else b""
    read = read_image(data, trusted)
    if prompt is not None and sha256_of(prompt) != read.states.get("prompt_sha256"):
        raise PochadeError(f"the file was not made for the prompt {prompt!r:.80}: its receipt has another one's digest")
    signed = read_record(receipt.read_bytes(), trusted) if receipt else None
    for what, each in (("file", read), ("decision", signed)):
        if trust is not None and each is not None and not each.is_trusted:
            raise PochadeError(f"the {what} is signed by {each.signer}, whom no authority in {trust} certified")
    decision, source = (signed.states, f"signed by {signed.signer}") if signed else _asked(settings, read.states, since)
    if decision and (why := disagreement(data, read.states, decision)):
        raise PochadeError(why)
    shown = {
        "file": "as it was signed", "signer": read.signer, "trusted": read.is_trusted, **read.states,
        "ingredients": read.ingredients, "decision_from": source, "decision": decision,
    }  # fmt: skip
    if output == "json":
        click.echo(json_text(shown, indent=2))
        return
    for name, value in shown.items():
        rows = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        for key, each in rows.items():
            unit = (
                " (share of the images kept as this one)" if key.endswith("wrong_at_most") and each is not None else ""
            )
            click.echo(f"{key}\t{visible(each if isinstance(each, str) else json_text(each))}{unit}")


def _asked(settings: "Settings", states: dict[str, Any], since: int) -> tuple[dict[str, Any], str]:
    """Return the decision by the result that a broker has, and where it is from; {} and why there is none."""
    from streams.operator.receipts import decision_of

    try:
        with opening.client(settings) as client:
            result = opening.find(client, str(states.get("request_id")), since)
    except PochadeError as error:
        return {}, f"not joined: {error}"
    return (decision_of(result), "result on the broker") if result else ({}, "not joined: no result is kept")
