"""`pochade explain`: how a request went its way, or what it waits for. It loads what `doctor` does."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import GenerateRequest, Result
from streams.commands import opening
from streams.commands.options import SHOWN, Number, duration, since_option
from streams.visible import json_text

if TYPE_CHECKING:
    from streams.settings import Settings

OUTCOME_MS = 10 * 60 * 1000  # by which an outcome may lie before its result, clocks of roles and broker included


@click.command()
@click.argument("request_id", metavar="ID")
@since_option("How far back to look for the result, such as 10m, 2h or 7d.", "1d")
@click.option(
    "--timeout",
    type=Number(min=0),
    default=0.0,
    help="Longest time to wait for a result that is not there yet, in seconds.",
)
@SHOWN
@click.pass_obj
def explain(load: "Callable[[], Settings]", request_id: str, since: int, timeout: float, output: str) -> None:
    """Show the path of the request ID through the pipeline, and why it ended as it did, from its result record.

    Without a result it fails, and says what the request waits for.

    \b
    Examples:
      pochade explain 4f7c0f0e-5a63-4a07-8a0c-2f1d0f6f1c55
      pochade explain demo-0-0007 --since 7d
      pochade explain mine-1 --timeout 30
      pochade explain demo-0-0007 -o json | jq .why
    """
    import pochade

    from schemas.avro import to_wire
    from streams.clock import now_ms
    from streams.codec.avro import result_values
    from streams.commands import showing
    from streams.commands.terminal import console as open_console
    from streams.operator.explain import why

    settings, since_ms = load(), max(1, now_ms() - since)
    with opening.client(settings) as client:
        result = opening.find(client, request_id, since)
        if result is None and timeout:
            try:
                result = opening.result_of(client.handle(request_id).result(timeout))
            except pochade.StillOpen as error:
                raise PochadeError(f"{error}: {_why_open(settings, request_id, since_ms)}") from None
    if result is None:
        raise PochadeError(
            f"no result of request {request_id!r} on {settings.kafka.prefix}.results.v1 within the last "
            f"{duration(since)}: {_why_open(settings, request_id, since_ms)}"
        )
    request = request_of_result(settings, result)
    if output == "json":
        asked = None if request is None else to_wire(GenerateRequest)(request)
        click.echo(json_text({**result_values(result), "why": why(result), "asked": asked}, indent=2))
    else:
        showing.explanation(result, request, open_console())


def _why_open(settings: "Settings", request_id: str, since_ms: int) -> str:
    """Return what a request waits for, or why that is not known."""
    from streams.operator.open_request import waits_for

    elsewhere = "it may be older (--since 8d is all that is kept), or of another deployment (--set kafka.prefix=NAME)"
    try:
        found = waits_for(settings, request_id, since_ms)
    except PochadeError as error:
        return f"what it waits for is not known ({error}); {elsewhere}"
    return found or f"classified.v1 and events.v1 have no record of it either; {elsewhere}"


def request_of_result(settings: "Settings", result: Result) -> GenerateRequest | None:
    """Return the request of a result, as the outcome that ended it holds it; None where none does."""
    from schemas.messages import Outcome
    from schemas.topics import OUTCOMES
    from streams.codec.avro import decode
    from streams.kafka.consumers import snapshot

    key, since_ms = result.request_id.encode(), max(1, result.ended_ms - OUTCOME_MS)
    for record in snapshot.past(settings, [OUTCOMES], since_ms=since_ms, keep=lambda record: record.key == key):
        with contextlib.suppress(InvalidRecord):
            if (request := decode(record.value, Outcome).request) is not None:
                return request
    return None
