"""`pochade serve ROLE...`: runs one or more roles in one process."""

import os
from typing import TYPE_CHECKING

import click

from streams.cli import LazySettings

if TYPE_CHECKING:  # numpy, which --help need not wait for
    from agents.discriminator.fact_sample import Facts

ROLES = ("classifier", "router", "worker", "discriminator", "ledger", "planner", "indexer", "gateway", "console")


@click.command(epilog="\b\nExamples:\n  pochade serve classifier router\n  pochade serve worker --set worker.id=one")
@click.argument("roles", nargs=-1, required=True, type=click.Choice(ROLES), metavar="ROLE...")
@click.pass_obj
def serve(obj: LazySettings, roles: tuple[str, ...]) -> None:
    """Run one or more ROLEs in this process until SIGTERM, SIGINT or SIGHUP.

    Roles: classifier, router, worker, discriminator, ledger, planner; indexer where images are reused; gateway for
    clients that speak HTTP; console for operators' browsers."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's: two judge a prompt no sooner, for thrice the CPU
    from agents.runtime.assembly import assemble
    from agents.runtime.process import Drain, run_process
    from streams.processes.freed_memory import limit_arenas

    limit_arenas()
    settings = obj()
    facts: Facts | None = None
    if settings.quality.checked_share and "discriminator" in roles:
        from agents.profiling import world

        facts = world.needed("quality.checked_share needs").holds
    with Drain(settings.shutdown_timeout_s) as drain, assemble(settings, frozenset(roles), facts) as process:

        def stop() -> None:
            process.health.stop()
            drain.begin()

        run_process(process.threaded, process.hosts, stop)
