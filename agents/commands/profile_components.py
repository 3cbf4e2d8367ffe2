"""`pochade profile components`: load times of a catalog's bases, adapters and controls from each tier."""

import click

from agents.commands.options import CATALOG
from streams.cli import LazySettings


@click.command(epilog="\b\nExamples:\n  pochade profile components --catalog tiny --write")
@CATALOG
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=7,
    show_default=True,
    help="Number of times that each component is loaded from each tier.",
)
@click.option("--write", is_flag=True, help="Write the times into the catalog's file; its comments stay.")
@click.pass_obj
def components(obj: LazySettings, name: str | None, repeats: int, *, write: bool) -> None:
    """Measure how long each base, adapter and control takes to the device, from remote, volume and host memory.

    The remote is a folder on this machine: a network's time is not in it. With one thread on a CPU, times are CPU time,
    so that other work on the machine does not count; elsewhere they are elapsed time.
    """
    from agents.profiling.catalog import with_load_times
    from agents.profiling.components import measure_loads
    from schemas.errors import PochadeError
    from streams import catalogs

    catalog_name = name or obj().catalog
    variants = [each for each in catalogs.load(catalog_name).served.values() if each.bases]
    if not variants:
        raise PochadeError(f"catalog {catalog_name!r} has no variant that lists bases: there is nothing to measure")
    found = {id_: times for variant in variants for id_, times in measure_loads(variant, repeats=repeats).items()}
    for id_, times in found.items():
        click.echo(f"{id_}: " + ", ".join(f"{tier} {ms:.1f} ms" for tier, ms in times.items()))
    if write:
        file = catalogs.file_of(catalog_name)
        file.write_text(with_load_times(catalogs.text_of(catalog_name), found))
        click.echo(f"written into {file}")
