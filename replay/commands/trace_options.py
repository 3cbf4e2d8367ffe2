"""The options that say which trace: shared by every command that replays, simulates or looks at one."""

import functools
import pathlib
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, fields, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import click

from replay.commands.given_options import refuse, refuse_given
from replay.commands.trace_types import Moment, RateSpan, Renaming
from schemas.errors import Unknown
from streams.commands.options import FILE, POSITIVE, Ago

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and Kafka's client
    from planner.catalog.model import Catalog
    from replay.traces.formats.counts import Shaping
    from replay.traces.reading import Asked
    from replay.traces.trace import Trace
    from schemas.messages import GenerateOptions
    from streams.settings import Settings

SPACING = click.Choice(["poisson", "even", "exponential"])
ORDER = click.Choice(["index", "turn", "sample"])

MAX_NAMED = 5
OF_FILES = ("time_column", "prompt_column", "time_format", "line_pattern")  # how a file is written

SHAPING = (
    click.option(
        "--to",
        type=RateSpan(),
        help="Scale counts as the papers do: the smallest to the rate LOW, the largest to the rate HIGH, per second.",
    ),
    click.option(
        "--interval",
        type=Ago(),
        help="Duration of one row of counts, such as 1s (default: the row's own; with --to, 1s).",
    ),
    click.option(
        "--spacing",
        type=SPACING,
        help="Distribution of arrivals within one row of counts (default: poisson; with --to, exponential).",
    ),
)
PROMPTS = (
    click.option(
        "--prompts",
        type=FILE,
        help="List of prompts, one per line, as a CSV table or as JSON, plain or gzip, that replace the trace's own.",
    ),
    click.option(
        "--order",
        type=ORDER,
        help="How --prompts are assigned: by the trace's index, in turn, or drawn at random (default: "
        "index if the trace has one, else turn).",
    ),
)
OPTIONS = (
    click.argument("path", metavar="[TRACE]", type=FILE, required=False),
    click.option(
        "--from-topic",
        "is_topic",
        is_flag=True,
        help="Read the requests that were sent to this deployment, instead of a file.",
    ),
    click.option(
        "--since",
        type=Moment(),
        default="1h",
        show_default=True,
        help="Begin of the time span for --from-topic: how long ago, such as 2h, or a time in ISO 8601.",
    ),
    click.option(
        "--until",
        type=Moment(),
        default="0s",
        help="End of the time span for --from-topic, exclusive: how long ago, or a time in ISO 8601 (default: now).",
    ),
    click.option(
        "--lenient", "is_lenient", is_flag=True, help="Skip lines that cannot be read, and report their number."
    ),
    click.option(
        "--time-column",
        metavar="NAME",
        help="Column (or JSON key) of the trace's times: ISO 8601, or seconds or milliseconds since 1970. Other "
        "columns that are not ours are passed over.",
    ),
    click.option("--prompt-column", metavar="NAME", help="Column (or JSON key) of the trace's prompts."),
    click.option(
        "--time-format",
        metavar="FORMAT",
        help="How times are written, in strptime's codes, such as '%d.%m.%Y %H:%M:%S' (default: ISO 8601 or a number).",
    ),
    click.option(
        "--line-pattern",
        metavar="REGEX",
        help="Regular expression for the lines of a log, with the group (?P<time>...) and, where known, "
        "(?P<prompt>...). Access logs of web servers are recognised.",
    ),
    click.option(
        "--preset",
        metavar="NAME",
        help="The last four as the settings have them in the table [traces.NAME]; those stated beside it go before.",
    ),
    click.option("--sort", "sorts", is_flag=True, help="Sort requests by time, where times are not ascending."),
    click.option(
        "--spread/--no-spread",
        "spreads",
        default=True,
        show_default=True,
        help="Where several requests share a time in whole seconds, minutes, hours or days, as in access logs, draw "
        "the moment of each within it; else all arrive at its begin.",
    ),
    click.option(
        "--model",
        "renamed",
        type=Renaming(),
        multiple=True,
        help="Replace a model of the trace by one of ours; '*=OURS' replaces every model, '*=' lets the "
        "plan choose; may be repeated.",
    ),
    *SHAPING,
    click.option(
        "--scale",
        type=POSITIVE,
        default=1.0,
        help="Factor by which to increase the number of requests in the same time.",
    ),
    click.option("--speed", type=POSITIVE, default=1.0, help="Factor by which to replay the trace faster."),
    click.option("--loop", type=click.IntRange(min=1), default=1, help="Number of times to repeat the trace."),
    click.option("--limit", type=click.IntRange(min=1), help="Maximum number of requests to take."),
    *PROMPTS,
    click.option(
        "--trace-seed",
        type=click.IntRange(min=0),
        default=0,
        help="Random seed of everything that is drawn for the trace, such as arrivals and prompts.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceGiven:
    """The values of `OPTIONS` that were given."""

    path: pathlib.Path | None
    is_topic: bool
    since: int  # epoch ms
    until: int
    is_lenient: bool
    time_column: str | None
    prompt_column: str | None
    time_format: str | None
    line_pattern: str | None
    sorts: bool
    spreads: bool
    renamed: tuple[tuple[str, str], ...]
    to: tuple[float, float] | None
    interval: int | None  # ms
    spacing: str | None
    scale: float
    speed: float
    loop: int
    limit: int | None
    prompts: pathlib.Path | None
    order: str | None
    trace_seed: int

    def open(self, load: "Callable[[], Settings]", models: frozenset[str] | None = None) -> "Trace":
        """The trace; with `models`, one that asks for another is refused. Raises PochadeError, click.UsageError."""
        from replay.traces.reading import NoEffect

        if (self.path is None) != self.is_topic:
            raise click.UsageError("give either TRACE or --from-topic")
        if self.prompts is None and self.order is not None:
            refuse(["--order"], "without --prompts")
        if models is not None:
            self.check_renamed(models)
        try:
            return self._read(load, self.asked(models))
        except NoEffect as error:
            given = ("--to", self.to), ("--interval", self.interval), ("--spacing", self.spacing)
            named = [option for option, value in given if value is not None]
            refuse(named, f"on {self.path or 'the requests of this deployment'}, {error}")
            raise  # the option was not given

    def check_renamed(self, models: Collection[str]) -> None:
        """Raise click.UsageError where --model names a model of ours that is none of these."""
        for theirs, ours in self.renamed:
            if ours and ours not in models:
                raise click.UsageError(f"--model {theirs}={ours}: {Unknown('model', ours, models)}")

    def _read(self, load: "Callable[[], Settings]", asked: "Asked") -> "Trace":
        if self.path is None:
            from replay.traces.topic import read_topic

            return read_topic(load(), self.since, self.until, asked)
        from replay.traces import read

        return read(self.path, asked)

    def asked(self, models: frozenset[str] | None = None) -> "Asked":
        """The options as the readers of traces take them. Raises PochadeError for a prompt file that is none."""
        from replay.load.prompts import read_prompts
        from replay.traces.reading import Asked

        return Asked(
            is_lenient=self.is_lenient,
            sorts=self.sorts,
            spreads=self.spreads,
            time_column=self.time_column or "",
            prompt_column=self.prompt_column or "",
            time_format=self.time_format or "",
            line_pattern=self.line_pattern or "",
            models=models,
            renamed=dict(self.renamed),
            shaping=shaping_of(self.to, self.interval, self.spacing),
            scale=self.scale,
            speed=self.speed,
            loop=self.loop,
            limit=self.limit,
            prompts=tuple(read_prompts(self.prompts)) if self.prompts else (),
            order=self.order or "",
            seed=self.trace_seed,
        )


def report_reading(trace: "Trace") -> None:
    """Print how many lines --lenient left out, by kind, and whether arrivals were spread."""
    from replay.traces.ticks import describe_spread

    if trace.skipped:
        click.echo("skipped: " + ", ".join(f"{count} {kind}" for kind, count in trace.skipped.items()), err=True)
    if trace.spread_within:
        click.echo(f"{describe_spread(trace.spread_within)}; --no-spread keeps the times", err=True)


def without_unknown_components(trace: "Trace", catalog: "Catalog") -> "Trace":
    """Return the trace without the models, adapters and ControlNets that the catalog lacks, which are printed.

    Strict requests keep theirs. A running deployment rejects such requests: of another service's trace, all.
    """
    from planner.catalog.components import ADAPTER, CONTROL

    offers = [variant.offer for variant in catalog.served.values()]
    known = {
        "models": catalog.served.keys() | catalog.bases.keys() | {""},
        "adapters": {name for offer in offers for name in offer.of_kind(ADAPTER)},
        "ControlNets": {name for offer in offers for name in offer.of_kind(CONTROL)},
    }
    unknown: dict[str, set[str]] = {kind: set() for kind in known}
    wishes = []
    for wish in trace.wishes:
        options = wish.options
        named = {"models": {options.model}, "adapters": {*options.adapters}, "ControlNets": {*options.controls}}
        lacks = {kind: names - known[kind] for kind, names in named.items()}
        if any(lacks.values()) and not options.strict:
            wish = replace(wish, options=_without(options, lacks))
        wishes.append(wish)
        for kind, names in lacks.items():
            unknown[kind] |= names
    for kind, found in unknown.items():
        if found:
            listed = ", ".join(sorted(found)[:MAX_NAMED]) + (", ..." if len(found) > MAX_NAMED else "")
            click.echo(
                f"{kind} that the catalog lacks: {listed}; they are left out, where a deployment rejects the requests, "
                "and strict requests are rejected here too"
                + ("; --model THEIRS=OURS replaces a model" if kind == "models" else ""),
                err=True,
            )
    return replace(trace, wishes=tuple(wishes))


def _without(options: "GenerateOptions", lacks: Mapping[str, Set[str]]) -> "GenerateOptions":
    """Return the options without these components; the other adapters and controls keep their weights and images."""
    adapters = [name not in lacks["adapters"] for name in options.adapters]
    controls = [name not in lacks["ControlNets"] for name in options.controls]
    return replace(
        options,
        model="" if lacks["models"] else options.model,
        adapters=tuple(compress(options.adapters, adapters)),
        adapter_weights=tuple(compress(options.adapter_weights, adapters)),
        controls=tuple(compress(options.controls, controls)),
        control_images=tuple(compress(options.control_images, controls)),
        control_weights=tuple(compress(options.control_weights, controls)),
    )


def shaping_of(to: tuple[float, float] | None, interval_ms: int | None, spacing: str | None) -> "Shaping | None":
    """Return how counts become arrivals, from the options; None if none was given."""
    from replay.traces.formats.counts import Shaping

    if (to, interval_ms, spacing) == (None, None, None):
        return None
    plain = Shaping() if to is None else Shaping.of_the_papers(*to)
    return Shaping(
        to_rps=to,
        interval_s=plain.interval_s if interval_ms is None else interval_ms / 1000,
        spacing=spacing or plain.spacing,
    )


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `OPTIONS` to a command, which gets them as one argument `given`, a `TraceGiven`."""

    @functools.wraps(command)
    def called(*args: Any, **asked: Any) -> Any:
        own, preset = {field.name: asked.pop(field.name) for field in fields(TraceGiven)}, asked.pop("preset")
        if own["path"] is not None and not own["is_topic"]:
            refuse_given(click.get_current_context(), ["since", "until"], "on a file; --from-topic takes a time span")
        elif own["is_topic"]:
            of_files = [*OF_FILES, "preset"]
            refuse_given(click.get_current_context(), of_files, "with --from-topic: they are for a file")
        if preset is not None:
            own |= _of_preset(click.get_current_context().obj(), preset, own)
        return command(*args, given=TraceGiven(**own), **asked)

    return with_options(OPTIONS)(called)


def _of_preset(settings: "Settings", name: str, own: Mapping[str, Any]) -> dict[str, str]:
    """Return how a file is read by a preset of the settings, but for what is stated. Raises Unknown."""
    if name not in settings.traces:
        raise Unknown("preset, a table [traces.NAME] of the settings,", name, settings.traces)
    return {each: own[each] or getattr(settings.traces[name], each) for each in OF_FILES}


def with_options(
    options: tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds several options, the first one first in --help."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)
