"""Options of `submit` that say how a request should be painted: the fields of a request, as JSON names them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Noise seed; the same one paints the same picture."),
    click.option("--tenant", default="default", show_default=True, help="On whose account."),
    click.option("--quality", type=click.Choice(["low", "medium", "high", "auto"]), help="auto: as the plan says."),
    click.option("--tier", type=click.Choice(["interactive", "standard", "batch"]), help="batch: when there is room."),
    click.option("-n", "--pictures", "n", type=click.IntRange(1), help="Pictures, as one request."),
    click.option("--steps", type=click.IntRange(1), help="Denoising steps."),
    click.option("--guidance", type=click.FloatRange(0), help="Classifier-free guidance scale."),
    click.option("--size", metavar="WIDTHxHEIGHT", help="In pixels, multiples of 8."),
    click.option("--negative-prompt", help="What should not be in it."),
    click.option("--model", help="Only this variant will do."),
    click.option("--adapter", "adapters", multiple=True, help="A LoRA by name; may be repeated."),
    click.option("--control", "controls", multiple=True, help="A ControlNet by name; may be repeated."),
    click.option("--strict", is_flag=True, help="REJECTED where an option would be overridden."),
)


def wishes(command: F) -> F:
    """Add the options to a command; it gets them as keywords."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """The JSON fields that were given.

    Raises:
        click.BadParameter: a size that is none.
    """
    fields = {name: value for name, value in given.items() if value not in (None, (), False, "") and name != "size"}
    for several in ("adapters", "controls"):
        if several in fields:
            fields[several] = list(fields[several])
    if given.get("size"):
        width, x, height = str(given["size"]).partition("x")
        if not (x and width.isdecimal() and height.isdecimal()):
            raise click.BadParameter(f"--size {given['size']!r} is not WIDTHxHEIGHT, such as 768x512")
        fields |= {"width": int(width), "height": int(height)}
    return fields
