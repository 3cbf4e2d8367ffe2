"""`pochade submit`, `results` and `explain`: ask for pictures, and read what became of them."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import click

from schemas.errors import PochadeError
from schemas.messages import Result, Status
from streams.commands.opening import client as _client
from streams.commands.options import Ago, duration
from streams.commands.wishes import fields_of, wishes
from streams.visible import json_text

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    from streams.settings import Settings


def _deadline_ms(deadline: float | None, deadline_ms: int | None) -> int | None:
    """Milliseconds from now, from either option."""
    if deadline is not None and deadline_ms is not None:
        raise click.UsageError("--deadline and --deadline-ms say the same: give one of them")
    return deadline_ms if deadline is None else int(deadline * 1000)


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--file",
    "file",
    type=click.File(encoding="utf-8"),
    help="One JSON request or plain prompt a line; - is standard input.",
)
@click.option("--wait", "is_waiting", is_flag=True, help="Wait for the result and print it; with --file, a summary.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds to wait.")
@click.option("--deadline", type=click.FloatRange(min=0.001), help="Seconds from now; later, it is not painted.")
@click.option("--deadline-ms", type=click.IntRange(min=1), help="The same in milliseconds from now.")
@wishes
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_obj
def submit(
    load: "Callable[[], Settings]",
    /,
    prompt: str | None,
    file: TextIO | None,
    is_waiting: bool,
    timeout: float,
    deadline: float | None,
    deadline_ms: int | None,
    output: str,
    **asked: Any,
) -> None:
    """Send PROMPT, or every line of --file, to be painted; prints the ids. With --wait, exit status 0 says COMPLETED.

    A JSON line is an object with the keys of a request, of which only "prompt" is required; what it does not give comes
    from the options. If a line is wrong, nothing is sent.

    \b
    Examples:
      pochade submit "a red heart"
      pochade submit "a black cat at night" --wait --seed 7
      pochade submit "three golden stars" --wait --deadline 2.5 -o json
      pochade submit "a blue boat" --quality high -n 4 --steps 12 --strict
      pochade submit --file prompts.jsonl --wait
    """
    from streams.codec.prompt_file import request_of
    from streams.kafka.consumer import now_ms

    left_ms = _deadline_ms(deadline, deadline_ms)
    fields = fields_of(asked)
    if (prompt is None) == (file is None):
        raise click.UsageError("give either PROMPT or --file")
    if file is not None or prompt is None:
        from streams.commands.submitting import submit_file

        submit_file(load(), file, left_ms, fields, timeout if is_waiting else None, output)
        return
    with _client(load()) as client:
        if is_waiting:
            client.listen()
        now = now_ms()
        fields |= {} if left_ms is None else {"deadline_ms": now + left_ms}
        request = request_of({**fields, "prompt": prompt}, now)
        client.submit(request).result(60)
        if output == "table":
            click.echo(request.request_id)
        result = client.wait(request.request_id, timeout) if is_waiting else None
    _print_ending(request.request_id, result, output)
    if result is not None and result.status is not Status.COMPLETED:
        raise SystemExit(1)


def _print_ending(request_id: str, result: Result | None, output: str) -> None:
    from streams.commands import showing

    if output == "json":
        shown = None if result is None else showing.as_json(result)
        click.echo(json_text({"request_id": request_id, "result": shown}))
    elif result is not None:
        showing.ending(result)


@click.command()
@click.option("--follow", "is_following", is_flag=True, help="Go on with what ends from now on, until Ctrl-C.")
@click.option("--since", type=Ago(), default="10m", show_default=True, help="How far back to begin.")
@click.option("-o", "--output", type=click.Choice(["table", "jsonl"]), default="table", show_default=True)
@click.pass_obj
def results(load: "Callable[[], Settings]", is_following: bool, since: int, output: str) -> None:
    """List how requests ended. Where the output is no terminal, the table is tab-separated.

    \b
    Examples:
      pochade results
      pochade results --follow --since 1h
      pochade results --since 7d -o jsonl | jq .level
    """
    from rich.console import Console

    from streams.commands import showing
    from streams.kafka.consumer import now_ms

    console = Console()
    with _client(load()) as client, contextlib.suppress(KeyboardInterrupt):
        found = client.results(now_ms() - since, is_following=is_following)
        if output == "jsonl":
            for result in found:
                click.echo(json_text(showing.as_json(result)))
        elif console.is_terminal and not is_following:
            showing.table(sorted(found, key=lambda result: result.ended_ms), console)
        else:
            click.echo("\t".join(showing.COLUMNS))
            for result in found:
                click.echo(showing.line(result))


@click.command()
@click.argument("request_id", metavar="ID")
@click.option("--since", type=Ago(), default="1d", show_default=True, help="How far back to look.")
@click.option("--timeout", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait for a result to come.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_obj
def explain(load: "Callable[[], Settings]", request_id: str, since: int, timeout: float, output: str) -> None:
    """Tell the way the request ID went, and why it ended as it did; everything is in its result record.

    \b
    Examples:
      pochade explain 4f7c0f0e-5a63-4a07-8a0c-2f1d0f6f1c55
      pochade explain demo-0-0007 --since 7d
      pochade explain mine-1 --timeout 30
      pochade explain demo-0-0007 -o json | jq .why
    """
    from rich.console import Console

    from streams.commands import showing
    from streams.kafka.consumer import now_ms
    from streams.operator.explain import why

    settings = load()
    with _client(settings) as client:
        if timeout:
            client.listen()  # before looking back, so that nothing falls between
        result = client.find(request_id, max(1, now_ms() - since))
        if result is None and timeout:
            result = client.wait(request_id, timeout)
    if result is None:
        raise PochadeError(
            f"no result of request {request_id!r} on {settings.kafka.prefix}.results.v1 within the last "
            f"{duration(since)}: it may still be in work (look again), be older (--since 8d is all that is kept), "
            "or belong to another deployment (--set kafka.prefix=NAME)"
        )
    if output == "json":
        click.echo(json_text({**showing.as_json(result), "why": why(result)}, indent=2))
    else:
        showing.explanation(result, Console())
