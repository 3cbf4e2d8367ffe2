"""Options of `pochade simulate` for what a deployment does beside, or unlike, its catalog's profile."""

import click

from streams.commands.options import FOLDER, Number

CV, SPEED, SIZE = Number(0, 10), Number(0.001, 1000), Number(min=0)


class Speeds(click.ParamType):
    """Option type of speeds of workers separated by commas, such as `1,1,0.5`."""

    name = "speed,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the speeds in order."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(SPEED.convert(each, param, ctx) for each in str(value).split(","))
        except click.BadParameter:
            self.fail(f"{value!r}: write speeds from 0.001 to 1000 with commas, such as 1,1,0.5", param, ctx)


class BudgetSizes(click.ParamType):
    """Option type of the bytes of a worker's volume, host memory and device in GB, such as `286:72:18`."""

    name = "volume:host:device"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the three in bytes."""
        if isinstance(value, tuple):
            return value
        try:
            volume, memory, device = (round(1e9 * SIZE.convert(each, param, ctx)) for each in str(value).split(":"))
        except (ValueError, click.BadParameter):
            self.fail(f"{value!r}: write GB of volume, host memory and device, such as 286:72:18", param, ctx)
        return volume, memory, device


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
        "--speeds",
        type=Speeds(),
        help="Relative speeds of the workers in order, repeated over the fleet, such as 1,1,0.5 (default: all 1).",
    ),
)
