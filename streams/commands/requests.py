"""`pochade submit` and `results`: ask for images, and read how the requests ended."""

import contextlib
import functools
import importlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import click

from planner.catalog.option_limits import OPTIONS
from schemas.errors import InvalidRequest, PochadeError
from schemas.messages import GenerateOptions, Result, Status
from schemas.option_fields import Declared
from schemas.vocabulary import ALIASES, DECLARED, in_own_words
from streams.commands import listing, opening
from streams.commands.options import SHOWN, STREAMED, Number, since_option
from streams.visible import json_text

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    from pochade import Handle

    from schemas.messages import GenerateRequest
    from streams.settings import Settings

WRITERS = 64  # threads that send the requests of a file; each waits until the brokers have its request
F = TypeVar("F", bound=Callable[..., Any])

OF_REQUESTS: Final = ("seed", "tenant", "quality", "tier")  # the fields of a request beside its options
COMPOUND: Final = {  # fields with a form of their own on the command line; (): another option says theirs
    "n": (click.option("-n", "--images", "n", type=click.IntRange(1), help=OPTIONS["n"].about.help),),
    "width": (click.option(
        "--size", metavar="WIDTHxHEIGHT",
        help="Width and height of the image in pixels, each a multiple of 8, such as 768x512.",
    ),),
    "adapters": (click.option(
        "--adapter", "adapters", multiple=True, metavar="NAME[:WEIGHT]",
        help="LoRA adapter to apply, with its weight (default 1); may be repeated, up to six times.",
    ),),
    "controls": (click.option(
        "--control", multiple=True, metavar="NAME[:WEIGHT]=URI",
        help="ControlNet to apply, with its weight (default 1) and the URI of the image that it follows, as "
        "`pochade put` prints it; may be repeated.",
    ),),
    **dict.fromkeys(("height", "adapter_weights", "control_images", "control_weights"), ()),
}  # fmt: skip
LAST: Final = ("reuse", "strict")  # what is said of the request as a whole
FLAGS: Final = {  # field or alias -> the option that states it, where this has another name
    "n": "--images", **dict.fromkeys(("width", "height"), "--size"), "deadline_in_ms": "--deadline-ms",
    **dict.fromkeys(("adapters", "adapter_weights"), "--adapter"),
    **dict.fromkeys(("controls", "control_images", "control_weights"), "--control"),
}  # fmt: skip
DEADLINES: Final = ("--deadline-s", "--deadline-in-s", "--timeout-s")  # in seconds, as --deadline is


class RequestCommand(click.Command):
    """A command with `generation_options`, which names the one that is meant by what a field is called elsewhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises click.NoSuchOption with the options that are meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = [flag for each in self.params for flag in each.opts if flag in _meant(error.option_name)]
            raise click.NoSuchOption(error.option_name, possibilities=meant, ctx=ctx) if meant else error from None


def _meant(option: str) -> set[str]:
    """Return the options that state what a field, an alias or another product's name for one does, as an option."""
    from streams.codec.requests import SYNONYMS

    if option in DEADLINES:
        return {"--deadline"}
    name = option.lstrip("-").replace("-", "_")
    own = ALIASES.get(name) or (name,) if name in ALIASES or name in DECLARED else SYNONYMS.get(name, ())
    return {FLAGS.get(each, f"--{each.replace('_', '-')}") for each in own}


def _option_of(name: str, declared: Declared) -> Callable[[F], F]:
    """Return the option of a field, as its declaration has it."""
    about, flag = declared.about, f"--{name.replace('_', '-')}"
    if declared.type is bool:
        return click.option(flag, is_flag=True, help=about.help)
    kind: click.ParamType = click.STRING
    if about.words:
        kind = click.Choice(about.words)
    elif declared.numbers is int:
        kind = click.IntRange(about.low, about.high)
    elif declared.numbers is float:
        kind = Number(about.low, about.high, min_open=about.is_above_low)
    return click.option(flag, type=kind, multiple=declared.is_list, metavar=about.placeholder or None, help=about.help)


def _options() -> Iterator[Callable[[Any], Any]]:
    yield from (_option_of(name, DECLARED[name]) for name in OF_REQUESTS)
    for name in sorted(OPTIONS, key=lambda each: LAST.index(each) if each in LAST else -1):
        yield from COMPOUND.get(name) or (() if name in COMPOUND else (_option_of(name, OPTIONS[name]),))


def generation_options(command: F) -> F:
    """Add to a command the options that say how its images should be generated; it gets them as keywords."""
    for option in reversed([*_options()]):
        command = option(command)
    return command


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON fields of the options that were given.

    Raises:
        click.BadParameter: a size is not WIDTHxHEIGHT, or an adapter or a control has no form of its own.
    """
    stated = {name: value for name, value in given.items() if _is_given(value)}
    lists = {name: list(value) for name, value in stated.items() if isinstance(value, tuple)}
    try:
        return in_own_words(stated | lists, 0)
    except InvalidRequest as error:
        raise click.BadParameter(str(error)) from None


def _is_given(value: Any) -> bool:
    """Whether an option was given; 0 is a value."""
    return value is not None and value is not False and value not in ((), "")


def _deadline_ms(deadline: float | None, deadline_ms: int | None) -> int | None:
    """Return the deadline in milliseconds from now, from either option; None without one."""
    if deadline is not None and deadline_ms is not None:
        raise click.UsageError("--deadline and --deadline-ms say the same: give one of them")
    return deadline_ms if deadline is None else int(deadline * 1000)


def waiting_options(command: F) -> F:
    """Add to a command whether it waits for results, and for how long."""
    command = click.option(
        "--timeout",
        type=Number(min=0.1),
        default=120.0,
        show_default=True,
        help="Longest time to wait for results, in seconds.",
    )(command)
    return click.option(
        "--wait",
        "is_waiting",
        is_flag=True,
        help="Wait for the result and print it; with --file, print a summary of all results.",
    )(command)


@click.command(cls=RequestCommand)
@click.argument("prompt", required=False)
@click.option(
    "--file",
    "file",
    type=click.File(encoding="utf-8"),
    help="List of requests in UTF-8: plain prompts or JSON objects, one a line; one JSON array of these; or a table "
    "with a column prompt, separated by comma, semicolon or tab. A comment (a line that begins with #) is refused. "
    "- reads standard input.",
)
@waiting_options
@click.option(
    "--deadline",
    type=Number(min=0.001),
    help="Deadline of the request, in seconds from now; past it the request ends as EXPIRED.",
)
@click.option(
    "--deadline-ms",
    type=click.IntRange(min=1),
    help="Deadline of the request, in milliseconds from now, instead of --deadline.",
)
@generation_options
@SHOWN
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
    """Send PROMPT, or every entry of --file, as a request for images; print the request ids.

    A JSON object or a row of a table has the keys of a request, of which only "prompt" is required; keys that it lacks
    are taken from the options. If an entry is wrong, nothing is sent. With --wait, exit status 0 says that all
    COMPLETED.

    \b
    Examples:
      pochade submit "a red heart"
      pochade submit "a black cat at night" --wait --seed 7
      pochade submit "three golden stars" --wait --deadline 2.5 -o json
      pochade submit "a blue boat" --quality high -n 4 --steps 12 --strict
      pochade submit "two red hearts" --wait --reuse own
      pochade submit "a red heart" --model poster --adapter candy:0.8 --wait
      pochade submit "a red heart" --control outline=$(pochade put outline.png) --wait
      pochade submit "a red heart" --image $(pochade put star.png) --strength 0.6 --wait
      pochade submit --file prompts.jsonl --wait
    """
    left_ms = _deadline_ms(deadline, deadline_ms)
    fields, limit_s = fields_of(asked), timeout if is_waiting else None
    if prompt is None and file is not None:
        submit_file(load(), file, left_ms, fields, limit_s, output)
    elif prompt is not None and file is None:
        submit_one(load(), prompt, left_ms, fields, limit_s, output)
    else:
        raise click.UsageError("give either PROMPT or --file")


def submit_one(
    settings: "Settings", prompt: str, left_ms: int | None, fields: dict[str, Any], timeout: float | None, output: str
) -> Result | None:
    """Send a prompt as a request, after checking it; print its id, and return its result.

    `timeout` None: its result is not waited for; else it is, for this number of seconds.

    Raises:
        click.UsageError: no worker could serve it, and nothing was sent.
        PochadeError: it had not ended in time.
        SystemExit: it was waited for, and did not end as COMPLETED.
    """
    from streams.clock import now_ms
    from streams.codec.prompt_file import request_of

    now = now_ms()
    fields |= {"prompt": prompt} if left_ms is None else {"prompt": prompt, "deadline_ms": now + left_ms}
    try:
        _check_of(settings, now)(request_of(fields, now))
    except InvalidRequest as error:
        raise click.UsageError(f"nothing was sent: {error}") from None
    with opening.client(settings) as client:
        handle = client.submit(**fields)
        if output == "table":
            click.echo(handle.request_id)
        result = None
        if timeout is not None:
            from rich.console import Console

            with Console(stderr=True).status("waiting for the result"):
                result = opening.result_of(handle.result(timeout))
    _print_ending(handle.request_id, result, output)
    if result is not None and result.status is not Status.COMPLETED:
        raise SystemExit(1)
    return result


def submit_file(
    settings: "Settings", file: TextIO, left_ms: int | None, fields: dict[str, Any], timeout: float | None, output: str
) -> None:
    """Send every line of a file as a request, after checking all lines; print the ids in the lines' order.

    `timeout` None: results are not waited for; else they are, for this number of seconds.

    Raises:
        PochadeError: the file has bad lines, and nothing was sent; or requests had not ended in time.
    """
    from concurrent.futures import ThreadPoolExecutor

    from streams.clock import now_ms
    from streams.codec.prompt_file import requests_in

    now = now_ms()
    defaults = fields if left_ms is None else {**fields, "deadline_ms": now + left_ms}
    try:
        requests = requests_in(file, file.name, now_ms=now, check=_check_of(settings, now), defaults=defaults)
    except UnicodeDecodeError as error:
        raise PochadeError(f"{file.name} is not UTF-8: {error}; convert it") from None
    if not requests:
        raise PochadeError(f"{file.name} holds no request: write one prompt a line")
    with opening.client(settings) as client, ThreadPoolExecutor(WRITERS) as writers:
        sending = writers.map(lambda request: client.submit(**request), requests)
        with listing.progress(sending, "sending", len(requests)) as shown:
            handles = list(shown)
        if output == "table":
            for handle in handles:
                click.echo(handle.request_id)
        results = [] if timeout is None else _wait(handles, timeout)
    _summarise(handles, results, is_waiting=timeout is not None, output=output)


def _check_of(settings: "Settings", now_ms: int) -> "Callable[[GenerateRequest], None]":
    """Return what raises InvalidRequest for a request that would be rejected, also by the deployment's catalog."""
    from planner.serving.admission.admission import check

    @functools.cache
    def offered() -> "Callable[[GenerateRequest], None]":
        module = importlib.import_module("streams.operator.offered")  # by name: catalogs reach numpy, and load it not
        checker: Callable[[GenerateRequest], None] = module.checker(settings, opening.variants(settings))
        return checker

    def check_all(request: "GenerateRequest") -> None:
        check(request, settings.requests, now_ms)
        if request.options != GenerateOptions():  # else any catalog serves it
            offered()(request)

    return check_all


def _wait(handles: "Sequence[Handle]", timeout: float) -> list[Result]:
    import pochade

    end_s = time.monotonic() + timeout
    results: list[Result] = []
    with listing.progress(handles, "generating") as shown:
        for handle in shown:
            try:
                results.append(opening.result_of(handle.result(max(0.0, end_s - time.monotonic()))))
            except pochade.StillOpen:
                left = len(handles) - len(results)
                click.echo(f"{left} of {len(handles)} requests have no result after {timeout:g} s", err=True)
                raise
    return results


def _summarise(handles: "Sequence[Handle]", results: Sequence[Result], *, is_waiting: bool, output: str) -> None:
    counts = Counter(str(result.status) for result in results)
    if output == "json":
        ids = [handle.request_id for handle in handles]
        click.echo(json.dumps({"request_ids": ids, "ended": dict(counts) if is_waiting else None}))
    elif is_waiting:
        click.echo(", ".join(f"{number} {status}" for status, number in sorted(counts.items())), err=True)
        for result in results:
            if result.status is not Status.COMPLETED:
                click.echo(f"{result.request_id}  {result.status}  {result.reason}", err=True)
    if is_waiting and counts[Status.COMPLETED] < len(handles):
        raise SystemExit(1)


def _print_ending(request_id: str, result: Result | None, output: str) -> None:
    from streams.codec.avro import result_values
    from streams.commands import showing

    if output == "json":
        shown = None if result is None else result_values(result)
        click.echo(json_text({"request_id": request_id, "result": shown}))
    elif result is not None:
        showing.ending(result)


@click.command()
@click.option("--follow", "is_following", is_flag=True, help="Keep listing requests as they end, until Ctrl-C.")
@since_option("How far back to begin the list, such as 10m, 2h or 7d.", "10m")
@STREAMED
@click.pass_obj
def results(load: "Callable[[], Settings]", is_following: bool, since: int, output: str) -> None:
    """List the results of requests. Where the output is no terminal, the table is tab-separated.

    \b
    Examples:
      pochade results
      pochade results --follow --since 1h
      pochade results --since 7d -o jsonl | jq .level
    """
    from streams.codec.avro import result_values
    from streams.commands import showing
    from streams.commands.terminal import console as open_console

    console = open_console()
    with opening.client(load()) as client, contextlib.suppress(KeyboardInterrupt):
        found = opening.results_of(client, since, is_following=is_following)
        if output == "jsonl":
            for result in found:
                click.echo(json_text(result_values(result)))
        elif console.is_terminal and not is_following:
            showing.table(sorted(found, key=lambda result: result.ended_ms), console)
        else:
            click.echo("\t".join(showing.COLUMNS))
            for result in found:
                click.echo(showing.line(result))
