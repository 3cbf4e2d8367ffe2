"""`pochade put`: store an image that requests begin with or follow."""

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError
from streams.commands.options import SHOWN
from streams.visible import json_text

if TYPE_CHECKING:
    from streams.settings import Settings


@click.command()
@click.argument("file", type=click.Path(path_type=pathlib.Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--tenant", default="default", show_default=True, help="Tenant whose requests may name the image.")
@SHOWN
@click.pass_obj
def put(load: "Callable[[], Settings]", file: pathlib.Path, tenant: str, output: str) -> None:
    """Store FILE, a PNG, JPEG or WEBP image of at most 20 MB, for a tenant's requests; print its URI.

    Images are generated from it upright, as its EXIF data say. The requests of other tenants may not name it. It is
    deleted when it is past the retention of images (`pochade gc`). A file of - is standard input.

    \b
    Examples:
      pochade put outline.png
      pochade submit "a red heart" --control outline=$(pochade put outline.png) --wait
      pochade put sketch.jpg --tenant acme -o json
    """
    from planner.serving.admission.inputs import input_name
    from streams.store.input_images import MAX_BYTES, open_input
    from streams.store.open import open_store

    stream = click.get_binary_stream("stdin") if str(file) == "-" else None
    try:
        data = (stream or file.open("rb")).read(MAX_BYTES + 1)  # a byte more shows that it is too large
    except OSError as error:
        raise PochadeError(f"cannot read {file}: {error.strerror}") from error
    opened = open_input(data, str(file))
    uri = open_store(load()).put(input_name(tenant), data, opened.extension)
    if output == "json":
        width, height = opened.image.size
        click.echo(json_text({"uri": uri, "width": width, "height": height, "bytes": len(data)}))
    else:
        click.echo(uri)
