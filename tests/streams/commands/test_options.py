"""Options under the names of an earlier release: they work with a warning, and help shows the new name alone."""

import click
import pytest
from click.testing import CliRunner

from streams.commands.options import renamed_option


@click.command()
@renamed_option("--pictures", "-n", "--images", "n", type=click.IntRange(1), help="Number of images.")
@renamed_option("--old/--no-old", "--new/--no-new", "is_on", default=True, help="Whether it is on.")
def command(n: int | None, is_on: bool) -> None:
    """Print the values of both options."""
    click.echo(f"{n} {is_on}")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "None True"),
        (["-n", "3", "--no-new"], "3 False"),
        (["--pictures", "4"], "4 True"),
        (["--no-old"], "None False"),
        (["--images", "5", "--pictures", "4"], "5 True"),
        (["--pictures", "4", "--images", "5"], "5 True"),
    ],
)
def test_an_old_name_works_and_the_new_one_counts_where_both_are_given(arguments: list[str], shown: str) -> None:
    assert CliRunner().invoke(command, arguments).stdout == f"{shown}\n"


def test_an_old_name_warns_and_a_new_one_does_not() -> None:
    warned = CliRunner().invoke(command, ["--pictures", "4"]).stderr
    assert warned == "warning: --pictures is called --images since 0.2; the old name works until 0.3\n"
    assert not CliRunner().invoke(command, ["--images", "4", "--no-new"]).stderr


def test_an_old_name_refuses_what_the_new_one_refuses() -> None:
    assert "'--pictures': 0 is not in the range" in CliRunner().invoke(command, ["--pictures", "0"]).stderr


def test_help_shows_the_new_name_alone() -> None:
    shown = CliRunner().invoke(command, ["--help"]).stdout
    assert "-n, --images" in shown
    assert "--pictures" not in shown
