"""`pochade profile classes`: the classes that the catalog's classifiers predict of a profile's prompts."""

import pathlib

import click

from agents.commands.options import CATALOG
from streams.cli import LazySettings


@click.command(epilog="\b\nExamples:\n  pochade profile classes --catalog tiny")
@CATALOG
@click.pass_obj
def classes(obj: LazySettings, name: str | None) -> None:
    """Write into a profile which class the catalog's classifiers predict of each prompt.

    Simulated requests draw their classes from these predictions. Nothing is generated; it takes seconds. `pochade
    profile` does this, too: the command is for a profile that was measured before it did, or whose classifiers have
    been trained again without a change of hardness.
    """
    import numpy as np

    from agents.classifier.judges import open_judge
    from agents.profiling.classes import with_classes
    from agents.profiling.file import write_table
    from schemas.errors import PochadeError
    from streams import catalogs

    catalog_name = name or obj().catalog
    found = catalogs.find_profile(catalog_name)
    if found is None or not found.arrays:
        raise PochadeError(f"catalog {catalog_name!r} has no recorded prompts: measure it with `pochade profile`")
    arrays = with_classes(found.arrays, open_judge(catalogs.load(catalog_name)))
    profile = pathlib.Path(found.file)
    file = profile.with_name(f"{profile.stem}-quality.npz")
    write_table(arrays, file)
    for at, strategy in enumerate(arrays["strategies"].tolist()):
        names, counts = np.unique(arrays["classes"][:, at], return_counts=True)
        shares = ", ".join(f"{name} {count / counts.sum():.0%}" for name, count in zip(names, counts, strict=True))
        click.echo(f"{strategy}: {shares}")
    click.echo(f"written into {file}")
