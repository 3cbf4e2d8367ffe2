"""`pochade scale`: as many worker processes on this machine as the plan in force asks for."""

import socket
from typing import TYPE_CHECKING

import click

from streams.commands.options import indices_of

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from collections.abc import Callable

    from streams.settings import Settings


@click.command()
@click.option(
    "--name",
    metavar="PREFIX",
    default="",
    help="First part of the workers' ids (default: scale; with --devices this machine's name); a supervisor on another "
    "machine needs another one.",
)
@click.option(
    "--devices",
    metavar="N,N-M",
    default="",
    callback=lambda _ctx, _param, text: indices_of(text),
    help="One worker on each of these cards of this machine, as nvidia-smi counts them, such as 0-7 or 0,2,5. Each "
    "worker sees its card alone.",
)
@click.option(
    "--keep-workers",
    is_flag=True,
    help="Leave the workers running when this command is ended; the next one takes them over.",
)
@click.pass_obj
def scale(load: "Callable[[], Settings]", /, name: str, devices: list[int], keep_workers: bool) -> None:
    """Start and drain worker processes on this machine as the plan in force asks, until Ctrl-C or SIGTERM.

    The plan asks where its policy scales the fleet, or where the setting planner.scale.when is always. Limits are
    settings of the planner: planner.scale.max_workers, .minimum, .warm and others (`pochade config show`).
    With --devices there is a worker on each card, unless the plan asks for fewer.

    Workers start from a process that has the libraries imported. Those that the plan needs no more drain first: what
    they have in flight is finished and committed. One that dies is started again after a backoff. If this command is
    killed its workers go on; started again, it takes them over.

    \b
    Examples:
      pochade --set kafka.jobs_partitions=16 --set planner.policy=octoai serve classifier router ledger planner &
      pochade --set kafka.jobs_partitions=16 scale
      pochade --set kafka.jobs_partitions=8 scale --devices 0-7
      pochade --set worker.engine=profile scale --name machine-1 --keep-workers
    """
    from replay.local.scale_command import run

    run(load(), name or (socket.gethostname() if devices else "scale"), devices, is_kept=keep_workers)
