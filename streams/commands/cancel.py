"""`pochade cancel`: end a request before its image is generated."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError
from schemas.messages import Result, Status
from streams.commands import opening
from streams.commands.options import SHOWN, Number, duration, since_option
from streams.visible import json_text, visible

if TYPE_CHECKING:
    from streams.settings import Settings


@click.command()
@click.argument("request_id", metavar="ID")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until the request has ended and print its final status.")
@click.option(
    "--timeout",
    type=Number(min=0.1),
    default=30.0,
    show_default=True,
    help="Longest time that --wait waits for the end, in seconds.",
)
@since_option("How far back the request, and with --wait its result, is looked for, such as 1d.", "1d")
@click.option(
    "--reason",
    default="asked for by a client",
    show_default=True,
    help="Reason to record in the result of the cancelled request.",
)
@SHOWN
@click.pass_obj
def cancel(
    load: "Callable[[], Settings]",
    request_id: str,
    is_waiting: bool,
    timeout: float,
    since: int,
    reason: str,
    output: str,
) -> None:
    """End the request ID as CANCELLED, unless it has ended already.

    A queued job never starts, and a running one stops within one denoising step. Exit status 1 says that no request has
    this ID, which is cancelled in advance then; with --wait also that the request had ended otherwise.

    \b
    Examples:
      pochade cancel 4f7c0f0e-5a63-4a07-8a0c-2f1d0f6f1c55
      pochade cancel mine-1 --wait
      pochade cancel mine-1 --wait --reason "the user closed the page" -o json
    """
    was_ended, settings = False, load()
    with opening.client(settings) as client:
        result: Result | None = None
        if is_waiting:
            result = opening.find(client, request_id, since)
            was_ended = result is not None
        if result is None:
            handle = client.handle(request_id)
            handle.cancel(reason)
            result = opening.result_of(handle.result(timeout)) if is_waiting else None
    is_known = was_ended or _is_known(settings, request_id, since)
    if output == "json":
        shown = {"request_id": request_id, "status": result and str(result.status), "reason": result and result.reason}
        click.echo(json_text({**shown, "had_ended": was_ended, "known": is_known}))
    elif is_known or result is not None:
        click.echo(visible(_words(request_id, result, was_ended)))
    if not is_known:
        raise PochadeError(
            f"no request {request_id!r:.80} is known: no record of the last {duration(since)} has this id as its key. "
            "The id is cancelled in advance: a request that comes with it later generates nothing"
        )
    if result is not None and result.status is not Status.CANCELLED:
        raise SystemExit(1)


def _is_known(settings: "Settings", request_id: str, since: int) -> bool:
    """Whether a request with this id lies on the topics; True, with a line about it, where they cannot be read.

    Results do not tell: a cancellation in advance has one.
    """
    from schemas.topics import CLASSIFIED, PROMPTS, PROMPTS_BATCH
    from streams.clock import now_ms
    from streams.kafka.consumers import snapshot

    key, since_ms = request_id.encode(errors="replace"), max(1, now_ms() - since)
    try:  # all but the newest are on `classified`: the others are read only where it is not there
        return any(
            snapshot.past(settings, [topic], since_ms=since_ms, keep=lambda record: record.key == key)
            for topic in (CLASSIFIED, PROMPTS, PROMPTS_BATCH)
        )
    except PochadeError as error:
        click.echo(f"whether request {visible(request_id)} is there is not known: {error}", err=True)
        return True


def _words(request_id: str, result: Result | None, was_ended: bool) -> str:
    if result is None:
        return f"{request_id}: cancelling; `pochade explain {request_id}` shows how it ended"
    if result.status is Status.CANCELLED:
        return f"{request_id}: CANCELLED{' before' if was_ended else ''} ({result.reason})"
    when = "had ended" if was_ended else "ended first"
    return f"{request_id}: {when} as {result.status}, and keeps that end"
