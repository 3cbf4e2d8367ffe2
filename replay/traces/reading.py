"""Reads a trace from a file of any format, which is recognised by its content, never by its name alone."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from replay.traces.formats.arrivals_csv import COLUMN, TIME, in_our_names, is_arrivals, read_arrivals
from replay.traces.formats.building import Builder, Rules
from replay.traces.formats.counts import AS_THEY_STAND, Shaping, is_counts, read_counts
from replay.traces.formats.csv_rows import Table, table
from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.lines import open_lines
from replay.traces.formats.logs import ACCESS, ACCESS_TIME, matched, pattern_of
from replay.traces.formats.quick import quick_arrivals
from replay.traces.formats.timed_json import is_epoch, is_json, read_json
from replay.traces.ticks import spread
from replay.traces.trace import InvalidTrace, Trace, of_arrivals
from replay.traces.transforms import limited, looped, scaled, sped
from replay.traces.wording import INDEX, worded
from schemas.errors import PochadeError

FORMATS = (
    f"a CSV with the column {COLUMN!r} or {TIME!r}, one of counts (hour,invocations), JSON lines of timed requests, or "
    "an access log, plain or gzip"
)


class NoEffect(PochadeError):
    """Options that shape counts, of a trace that has none; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of reading a trace, and the transforms to apply, in this order. The defaults change nothing."""

    is_lenient: bool = False  # bad lines are counted and skipped
    sorts: bool = False  # times may fall in the file
    models: frozenset[str] | None = None  # that the catalog has; None: not checked
    renamed: Mapping[str, str] = field(default_factory=dict)  # a model as the trace calls it -> ours, or "": any
    shaping: Shaping | None = None  # of counts; None: as they stand
    spreads: bool = True  # arrivals within the seconds, minutes ... that several requests share; not those of counts
    scale: float = 1.0  # times as many requests
    speed: float = 1.0
    loop: int = 1  # times over
    limit: int | None = None  # requests
    time_column: str = ""  # of times since 1970, as the trace calls it; "": by our names
    prompt_column: str = ""
    time_format: str = ""  # of `strptime`, in which times are written; "": ISO 8601, or a number
    line_pattern: str = ""  # regular expression with a group `time`, for lines of a log; "": the format is recognised
    prompts: Sequence[str] = ()  # instead of the trace's own
    order: str = ""  # of these: index, turn or sample; "": by index where the trace has one, else in turn
    seed: int = 0  # of everything that is drawn

    def rules(self, *, is_epoch: bool) -> Rules:
        """Return the rules for the requests of a source."""
        counts = len(self.prompts) if self.prompts and self.order in ("", INDEX) else None
        return Rules(
            is_epoch=is_epoch, sorts=self.sorts, prompts=counts, models=self.models, renamed=dict(self.renamed)
        )

    @property
    def is_plain(self) -> bool:
        """Whether no option says how the file is written."""
        return not (self.names or self.time_format or self.line_pattern)

    @property
    def names(self) -> dict[str, str]:
        """Columns as the trace calls them -> ours."""
        given = (self.time_column, TIME), (self.prompt_column, "prompt")
        return {theirs: ours for theirs, ours in given if theirs}

    def check_effect(self) -> None:
        """Raise NoEffect for the shaping of counts, of a trace that has none."""
        if self.shaping is not None:
            raise NoEffect("which has no counts to shape; --scale and --speed change the rate of any trace")

    @property
    def max_requests(self) -> int | None:
        """Requests that a reader needs to read, as no others can come among the first."""
        return self.limit if self.scale == 1 and not self.sorts else None


AS_IT_IS: Final = Asked()


def read(path: pathlib.Path, asked: Asked = AS_IT_IS) -> Trace:
    """The requests of a trace file. Raises: InvalidTrace with file and line, NoEffect, Unknown."""
    if asked.max_requests is None and asked.is_plain and (arrival_ms := quick_arrivals(path)) is not None:
        asked.check_effect()
        return transform(of_arrivals(arrival_ms, path.name, str(path)), asked)
    faults = Faults(str(path), is_lenient=asked.is_lenient)
    with open_lines(path, faults, InvalidTrace, FORMATS) as lines:
        first = lines.peek()
        if not first:
            raise InvalidTrace(f"{path} is empty{faults.describe()}: give {FORMATS}")
        if asked.line_pattern or ACCESS.match(first):
            asked.check_effect()
            if asked.names:
                raise InvalidTrace(
                    f"{path} is a log without columns: say by --line-pattern where its time and prompt are"
                )
            pattern = pattern_of(asked.line_pattern) if asked.line_pattern else ACCESS
            form = asked.time_format or ("" if asked.line_pattern else ACCESS_TIME)
            return _from_table(matched(lines, faults, pattern), faults, path.name, replace(asked, time_format=form))
        if is_json(first):
            asked.check_effect()
            if asked.time_format:
                raise InvalidTrace(f"{path} is JSON, whose times are ISO 8601 or numbers: omit --time-format")
            builder = Builder(faults, asked.rules(is_epoch=is_epoch(first, asked.names)))
            read_json(lines, faults, builder, asked.max_requests, asked.names)
            return transform(builder.trace(path.name), asked)
        found = table(lines, faults)
        return _from_table(in_our_names(found, asked.names) if asked.names else found, faults, path.name, asked)


def _from_table(found: Table, faults: Faults, name: str, asked: Asked) -> Trace:
    if asked.time_format and TIME not in found.columns:
        raise InvalidTrace(f"{faults.source} has no column of times for --time-format: name it by --time-column")
    if is_arrivals(found.columns):
        asked.check_effect()
        builder = Builder(faults, asked.rules(is_epoch=TIME in found.columns))
        read_arrivals(found, faults, builder, asked.max_requests, asked.time_format)
    elif is_counts(found.columns):
        limit = asked.limit if asked.speed == 1 else None
        trace = read_counts(found, faults, asked.shaping or AS_THEY_STAND, asked.scale, asked.seed, limit, name)
        return transform(
            trace, replace(asked, scale=1.0, spreads=False)
        )  # done before: the counts were scaled and drawn
    else:
        got = quoted(",".join(found.columns))
        wanted = f"expected the column {COLUMN!r} or {TIME!r}, got {got}"
        advice = f"give {FORMATS}; --time-column reads times since 1970 or ISO 8601, --line-pattern logs"
        raise InvalidTrace(f"{faults.source}:{found.line}: {wanted}: {advice}")
    return transform(builder.trace(name), asked)


def transform(trace: Trace, asked: Asked) -> Trace:
    """Apply the transforms that were asked for to a trace. Raises InvalidTrace, Unknown."""
    trace = spread(trace, asked.seed) if asked.spreads else trace
    trace = scaled(trace, asked.scale, asked.seed)
    trace = looped(sped(trace, asked.speed), asked.loop)
    if asked.limit is not None:
        trace = limited(trace, asked.limit)
    return worded(trace, asked.prompts, asked.order, asked.seed) if asked.prompts else trace
