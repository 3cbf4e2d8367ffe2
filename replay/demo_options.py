"""The options of a demo, and the requests that follow from them."""

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from planner.catalog.entries import run_ms
from planner.policies import BEGINS_WITH_REUSE, SWITCHES_STRATEGY
from replay.load.driver import Due, schedule
from replay.load.prompts import builtin_prompts, read_prompts
from replay.load.returning import returning_prompts
from replay.traces import constant, read
from replay.traces.ticks import describe_spread
from replay.traces.trace import Overrides
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions
from streams.catalogs import measured
from streams.settings import Settings
from streams.visible import counted

DEFAULT_COUNT = 36
RATE_RPS = 4.0
REUSE_COUNT = 320  # at REUSE_RPS 160 s: to freeze the store, and to see the way back, which took 58 and 83 s
REUSE_RPS = 2.0
DEMO_REPEATED = 0.35  # of its prompts: of rarer repeats lookups may not pay on two busy cores
PEAK = 1.2  # of the capacity in full: too much for the large model alone, so that steps are skipped
MAX_OVERPROVISION = 100.0
OWN = Overrides(options=GenerateOptions(reuse="own"))  # without it a request with a seed is not looked up
WARM_UPS = 12  # six seconds in which every role loads what it needs: five lookups that are cut stop them for a while
FREEZE_S = 15.0  # every breaker is open, and a plan has seen it, after 6 to 12 s


class Reuse(Enum):
    """Whether a demo shows images that begin from stored latents of earlier ones."""

    NONE = "none"  # its policy does not ask for them first
    UNMEASURED = "unmeasured"  # its policy does, but the catalog has no profile of reuse
    SHOWN = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of `pochade demo`; None for the setting or the default."""

    prompts: pathlib.Path | None
    count: int | None
    rate_rps: float | None
    trace: pathlib.Path | None
    policy: str | None
    workers: int
    engine: str | None
    catalog: str | None
    report: pathlib.Path | None
    gallery: pathlib.Path | None
    seed: int
    is_kept: bool
    freeze_s: float | None = None  # how long the vector store is frozen; 0: never


def reuse_of(options: DemoOptions, settings: Settings) -> Reuse:
    """Return what a demo with these options shows of reuse. Raises PochadeError for a catalog that is none."""
    if options.policy not in BEGINS_WITH_REUSE:
        return Reuse.NONE
    catalog = measured(options.catalog or settings.catalog)
    return Reuse.SHOWN if catalog.reuse_profile is not None else Reuse.UNMEASURED


def due_of(
    options: DemoOptions, reuse: Reuse = Reuse.NONE, note: Callable[[str], object] = lambda _line: None
) -> list[Due]:
    """The requests of a run; where images may be reused they come back, and ask for it (`reuse: own`).

    `note`: is called with a line about arrivals that are not as recorded.

    Raises PochadeError for a prompt or trace file that is not one.
    """
    prompts = read_prompts(options.prompts) if options.prompts else None
    if options.trace:
        trace = read(options.trace)
        if trace.spread_within:
            note(describe_spread(trace.spread_within))
        arrivals = _first(trace.arrival_ms.tolist(), options.count, options.trace)
    else:
        count, rate_rps = (REUSE_COUNT, REUSE_RPS) if reuse is Reuse.SHOWN else (DEFAULT_COUNT, RATE_RPS)
        arrivals = constant(options.rate_rps or rate_rps, options.count or (len(prompts) if prompts else count))
    if reuse is Reuse.NONE:
        return schedule("demo", prompts or builtin_prompts(len(arrivals), options.seed), arrivals, options.seed)
    ours = prompts or [each.prompt for each in returning_prompts(len(arrivals), options.seed, DEMO_REPEATED)]
    return schedule("demo", ours, arrivals, options.seed, OWN)


def freeze_s_of(options: DemoOptions) -> float:
    """Return how long the vector store is frozen, in seconds; 0: never, as under a policy that would not switch."""
    if options.freeze_s is not None:
        return options.freeze_s
    return FREEZE_S if options.policy in SWITCHES_STRATEGY else 0.0


def parameters_of(options: DemoOptions, due: Sequence[Due], settings: Settings) -> dict[str, float] | None:
    """Return the policy's parameters for a run that shows reuse; None for those of the settings.

    A stream that a busy machine can serve asks for little, and little is best generated in full. So it is planned for
    as at a peak: at PEAK of what the workers could generate in full on the best level. And images are reused within the
    floors and the guard that the profile measured, where it has them: as published, reuse inherits facts of others.
    """
    if options.policy not in SWITCHES_STRATEGY:
        return None
    given = settings.planner.parameters
    catalog = measured(options.catalog or settings.catalog)
    profile = catalog.reuse_profile
    chosen = {"guarded": 1.0} if profile is not None and profile.floors and profile.guard is not None else {}
    if len(due) > 1:
        base = catalog.level(next(iter(catalog.reuse), catalog.best().name))
        demand_rps = 1000 * (len(due) - 1) / max(1.0, due[-1].offset_ms)
        capacity_rps = options.workers * 1000 / run_ms(base, 1)
        chosen["overprovision"] = round(min(MAX_OVERPROVISION, max(1.05, PEAK * capacity_rps / demand_rps)), 2)
    return chosen | given if chosen.keys() - given.keys() else None


def _first(arrivals: list[float], count: int | None, trace: pathlib.Path) -> list[float]:
    if count is not None and count > len(arrivals):
        raise PochadeError(
            f"--count {count} is more than the {counted(len(arrivals), 'arrival')} of {trace}: "
            "leave it out, or give a longer trace"
        )
    return arrivals[:count]
