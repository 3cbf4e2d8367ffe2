"""Options of `pochade simulate` for a fleet that grows and shrinks: the settings `planner.scale.*`, for one trace."""

import click

from streams.commands.options import POSITIVE


class Minimum(click.ParamType):
    """Option type of a variant and the workers that it always has, such as `heavy=2`."""

    name = "variant=number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return both."""
        if isinstance(value, tuple):
            return value
        variant, _, count = str(value).rpartition("=")
        if not variant or not count.isdecimal():
            self.fail(f"{value!r}: write VARIANT=NUMBER, such as heavy=2", param, ctx)
        return variant, int(count)


OPTIONS = (
    click.option(
        "--max-workers",
        type=click.IntRange(1, 100_000),
        help="Largest number of workers, pool included: with it the fleet grows and shrinks with the load, under every "
        "policy, from --workers at the start (default: the fleet stays as it is).",
    ),
    click.option(
        "--min-workers",
        "minima",
        type=Minimum(),
        multiple=True,
        help="Number of workers that a variant always has, with --max-workers; may be repeated (default: the setting "
        "planner.scale.minimum).",
    ),
    click.option(
        "--pool",
        type=click.IntRange(0, 100_000),
        help="Number of started workers held ready without a variant, with --max-workers (default: the setting "
        "planner.scale.warm).",
    ),
    click.option(
        "--start",
        "start_s",
        type=POSITIVE,
        help="Time in seconds until a worker that is started anew is in the pool, with --max-workers; loading comes on "
        "top (default: the setting planner.scale.start_s).",
    ),
    click.option(
        "--scale-period",
        "scale_period_s",
        type=POSITIVE,
        help="Time between decisions of scaling, in seconds, with --max-workers (default: the setting "
        "planner.scale.period_s).",
    ),
)
NEEDING = {"minima": "--min-workers", "pool": "--pool", "start_s": "--start", "scale_period_s": "--scale-period"}
