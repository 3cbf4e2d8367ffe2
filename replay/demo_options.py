"""The options of a demo, and the requests that follow from them."""

import pathlib
from dataclasses import dataclass

from replay.load.driver import Due, schedule
from replay.load.prompts import builtin_prompts, read_prompts
from replay.traces import constant, read_trace
from schemas.errors import PochadeError
from streams.visible import counted

DEFAULT_COUNT = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of `pochade demo`; None: the setting or the default."""

    prompts: pathlib.Path | None
    count: int | None
    rate_rps: float
    trace: pathlib.Path | None
    policy: str | None
    workers: int
    engine: str | None
    catalog: str | None
    report: pathlib.Path | None
    gallery: pathlib.Path | None
    seed: int
    is_kept: bool


def due_of(options: DemoOptions) -> list[Due]:
    """The requests of a run. Raises PochadeError for a prompt or trace file that is not one."""
    prompts = read_prompts(options.prompts) if options.prompts else None
    if options.trace:
        arrivals = _first(read_trace(options.trace), options.count, options.trace)
    else:
        arrivals = constant(options.rate_rps, options.count or (len(prompts) if prompts else DEFAULT_COUNT))
    return schedule("demo", prompts or builtin_prompts(len(arrivals), options.seed), arrivals, options.seed)


def _first(arrivals: list[float], count: int | None, trace: pathlib.Path) -> list[float]:
    if count is not None and count > len(arrivals):
        raise PochadeError(
            f"--count {count} is more than the {counted(len(arrivals), 'arrival')} of {trace}: "
            "leave it out, or give a longer trace"
        )
    return arrivals[:count]
