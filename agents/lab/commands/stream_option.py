"""The stream of prompts, for the commands that draw some of the tiny world."""

import click

from agents.lab.world.stream import STREAMS

STREAM = click.option(
    "--stream",
    type=click.Choice(list(STREAMS)),
    default="standard",
    show_default=True,
    help="Which prompts to draw: standard, of which the shipped figures are told, or easy, which asks for fewer and "
    "commoner things and has no words from outside the grammar.",
)
