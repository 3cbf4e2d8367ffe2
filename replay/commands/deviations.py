"""Options of `pochade simulate` for what a deployment does beside, or unlike, its catalog's profile."""

import math

import click

from streams.commands.options import FOLDER

FACTOR = click.FloatRange(1, 1000)
CV = click.FloatRange(0, 10)


class Stragglers(click.ParamType):
    """Option type of a share of calls and the factor by which they take longer, such as `0.01:5`."""

    name = "share:factor"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Return both numbers."""
        if isinstance(value, tuple):
            return value
        share, _, factor = str(value).partition(":")
        try:
            found = float(share), float(factor)
        except ValueError:
            found = math.nan, math.nan
        if not (0 <= found[0] <= 1 and 1 <= found[1] <= 1000):
            self.fail(f"{value!r}: write SHARE:FACTOR, such as 0.01:5, with a factor from 1 to 1000", param, ctx)
        return found


class Speeds(click.ParamType):
    """Option type of speeds of workers separated by commas, such as `1,1,0.5`."""

    name = "speed,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the speeds in order."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(float(each) for each in str(value).split(","))
        except ValueError:
            found = ()
        if not found or not all(0.001 <= each <= 1000 for each in found):
            self.fail(f"{value!r}: write speeds from 0.001 to 1000 with commas, such as 1,1,0.5", param, ctx)
        return found


class BudgetSizes(click.ParamType):
    """Option type of the bytes of a worker's volume, host memory and device in GB, such as `286:72:18`."""

    name = "volume:host:device"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the three in bytes."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(round(1e9 * float(each)) for each in str(value).split(":"))
        except (ValueError, OverflowError):
            found = ()
        if len(found) != 3 or min(found) < 0:
            self.fail(f"{value!r}: write GB of volume, host memory and device, such as 286:72:18", param, ctx)
        return found


OPTIONS = (
    click.option(
        "--budgets",
        type=BudgetSizes(),
        help="GB of components that a worker's volume, host memory and device hold (default: a quarter of the bytes in "
        "use on each volume, as much on all devices together, host memory the geometric mean).",
    ),
    click.option(
        "--eviction",
        "evictions",
        multiple=True,
        metavar="[POLICY=]NAME",
        help="Which component leaves a full tier under all policies, or under one: utility or lru (default: utility "
        "where the plan places components, else lru); may be repeated.",
    ),
    click.option(
        "--overlap/--no-overlap",
        "overlaps",
        default=False,
        help="Let the components of a request load at once, each as fast as alone (default: one after the other).",
    ),
    click.option(
        "--hops/--no-hops",
        "has_hops",
        default=True,
        show_default=True,
        help="Let requests take the time between processes, and plans the time until they are in force, that a live "
        "run took. Without it only generating, scoring and loading take time, as in the papers' simulations.",
    ),
    click.option(
        "--measured",
        type=FOLDER,
        metavar="RUN",
        help="Folder of a live run whose times between processes are used (default: those that ship).",
    ),
    click.option(
        "--run-cv",
        type=CV,
        help="Coefficient of variation of run times (default: as the catalog's profile measured it; 0 without one).",
    ),
    click.option(
        "--stragglers",
        type=Stragglers(),
        help="Share of calls that take longer and the factor by which they do, such as 0.01:5 (default: none).",
    ),
    click.option(
        "--load-cv",
        type=CV,
        default=0.0,
        show_default=True,
        help="Coefficient of variation of load times, which no catalog measures; 0.88 is that of a production trace.",
    ),
    click.option(
        "--speeds",
        type=Speeds(),
        help="Relative speeds of the workers in order, repeated over the fleet, such as 1,1,0.5 (default: all 1).",
    ),
    click.option(
        "--resident",
        type=click.IntRange(1, 1000),
        help="Number of models that a worker holds; changing to a held one takes no load time (default: 1, or as many "
        "as --preload and --load-beside need).",
    ),
    click.option(
        "--preload",
        "preloaded",
        multiple=True,
        metavar="NAME[,NAME...]",
        help="Variants that every worker holds from its start, separated by commas; may be repeated.",
    ),
    click.option(
        "--load-beside",
        "beside_factor",
        type=FACTOR,
        help="Let a worker load a model beside serving, its calls taking this factor longer meanwhile (default: "
        "loading blocks the worker, as it does live).",
    ),
)
