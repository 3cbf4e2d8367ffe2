"""`pochade scale`: as many worker processes on this machine as the plan in force asks for."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from collections.abc import Callable

    from streams.settings import Settings


@click.command()
@click.option(
    "--name",
    metavar="PREFIX",
    default="scale",
    show_default=True,
    help="First part of the workers' ids; a supervisor on another machine needs another one.",
)
@click.option(
    "--keep-workers",
    is_flag=True,
    help="Leave the workers running when this command is ended; the next one takes them over.",
)
@click.pass_obj
def scale(load: "Callable[[], Settings]", /, name: str, keep_workers: bool) -> None:
    """Start and drain worker processes on this machine as the plan in force asks, until Ctrl-C or SIGTERM.

    The plan asks where its policy scales the fleet, or where the setting planner.scale.when is always. Limits are
    settings of the planner: planner.scale.max_workers, .minimum, .warm and others (`pochade config show`).

    Workers start from a process that has the libraries imported. Those that the plan needs no more drain first: what
    they have in flight is finished and committed. One that dies is started again after a backoff. If this command is
    killed its workers go on; started again, it takes them over.

    \b
    Examples:
      pochade --set kafka.jobs_partitions=16 --set planner.policy=octoai serve classifier router ledger planner &
      pochade --set kafka.jobs_partitions=16 scale
      pochade --set worker.engine=profile scale --name gpu-1 --keep-workers
    """
    from replay.local.scale_command import run

    run(load(), name, is_kept=keep_workers)
